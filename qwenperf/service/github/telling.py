"""What GitHub is told of a commit: all that a project has measured of it, as one check and one comment.

Two suites, or two machines, must not overwrite each other: each report says what is known, the worst first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.forge.report import CANCELLED, FAILURE, NEUTRAL, SUCCESS, Report, conclusion
from qwenperf.gate.budget import parse as parse_budgets
from qwenperf.gate.evaluate import judge_run
from qwenperf.gate.verdict import UNMATCHED
from qwenperf.report.annotations import MOST
from qwenperf.report.judged import Judged, judged
from qwenperf.schema.codec import comparison_from_json, from_json
from qwenperf.schema.records import RunRecord
from qwenperf.service.db import github, runs
from qwenperf.service.github.wanted import check_name
from qwenperf.service.problems import NotFoundError
from qwenperf.service.web import links
from qwenperf.service.web.records import as_judged

_WORST_FIRST = (FAILURE, CANCELLED, NEUTRAL, SUCCESS)


def report(connection: Connection, post: Row[Any], sha: str, public_url: str) -> Report:
    """Return what GitHub is told of ``sha``; pages are linked where the service knows its own address.

    Raises:
      NotFoundError: retention took the record of ``post`` meanwhile, and there is no other.
      RecordError: a record holds what cannot be shown.
    """
    rows = github.told_of(connection, post, sha)
    if not rows:
        raise NotFoundError("the record is gone.")
    found = [_judged(connection, post, row, public_url) for row in rows]
    told = sorted(((_concluded(one), one) for one in found), key=lambda pair: _WORST_FIRST.index(pair[0]))
    made = Report(
        name=check_name(post.project),
        conclusion=told[0][0],
        title=_title([one for _, one in told]),
        summary="\n".join(one.text for _, one in told),
        details_url=told[0][1].link,
        annotations=[one for _, each in told for one in each.annotations][:MOST],
    )
    return replace(made, external_id=_identity(made, sha))


def _judged(connection: Connection, post: Row[Any], row: Row[Any], public_url: str) -> Judged:
    document = runs.record(connection, row.record_id)
    if row.kind == "run":
        run = _by_budgets(from_json(document, row.name), post.budgets)
        run = as_judged(run, runs.verdicts_of(connection, run_id=row.id))
        return judged(run, row.name, _address(public_url, links.run(post.project, row.name)))
    comparison = comparison_from_json(document, row.name)
    return judged(comparison, row.name, _address(public_url, links.comparison(post.project, row.name)))


def _by_budgets(run: RunRecord, budgets: str) -> RunRecord:
    """Return a run as the project's budgets judge it, where it has some: also what they lack is in these verdicts.

    A budget of a project is for all its suites, so that one which matches nothing in this run is no fault of it.
    """
    if not budgets:
        return run
    made = judge_run(run, parse_budgets(json.loads(budgets), "the project's budgets"))
    return replace(made, findings=tuple(one for one in made.findings if one.code != UNMATCHED))


def _address(public_url: str, path: str) -> str:
    return f"{public_url.rstrip('/')}{path}" if public_url else ""


def _concluded(one: Judged) -> str:
    return conclusion(one.exit_code, is_settled=one.is_settled)


def _title(told: Sequence[Judged]) -> str:
    """Return one sentence: the worst, and how many there are besides."""
    more = len(told) - 1
    return told[0].title if not more else f"{told[0].title} (and {more} more)"


def _identity(made: Report, sha: str) -> str:
    """Return what is equal for equal reports, by which one that is there already is known again."""
    said = [sha, made.name, made.conclusion, made.title, made.summary, made.details_url]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:40]
