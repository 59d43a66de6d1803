"""The page of a run and of a comparison: what the report shows of them, with what only the service knows."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.report.html_comparison import comparison_view
from qwenperf.report.html_run import run_view
from qwenperf.report.html_stream import HEIGHT, WIDTH
from qwenperf.schema.codec import comparison_from_json, from_json
from qwenperf.schema.records import Outcome, RunRecord, Verdict
from qwenperf.service import removing
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import files, github, runs
from qwenperf.service.problems import Problem
from qwenperf.service.texts import words
from qwenperf.service.web import asked, links, viewer
from qwenperf.service.web.named import Named, kind_of, named
from qwenperf.service.web.pages import address, back, field, opened, page

_CHART = {"width": WIDTH, "height": HEIGHT}


def show_run(request: Request) -> Response:
    """Show a run."""
    identity, project = opened(request)
    with service_of(request).database.read() as connection:
        one = named(request, connection, project.id)
        row = one.row
        record = from_json(runs.record(connection, row.record_id), one.name)
        record = as_judged(record, runs.verdicts_of(connection, run_id=row.id))
        lying = files.of(connection, one.owner)
        around = _around(connection, row)
        post = github.of_record(connection, run_id=row.id)
    return page(
        request,
        "run.html",
        project=project,
        kind="Run",
        record=record,
        view=run_view(record, lambda _: ""),
        chart=_CHART,
        record_links=list(_links(project, row, around)),
        told=_told_github(post, identity, project),
        here="runs",
        **_held(request, identity, project, one, lying),
    )


def _held(
    request: Request, identity: Identity, project: Row[Any], one: Named, lying: Sequence[Row[Any]]
) -> dict[str, Any]:
    """Return what a page says of a record's files: where they are, what opens them, and what removes it all."""
    place = f"/api/v1{links.project_api(project.name)}/{one.kind}s/{links.segment(one.name)}"
    here = links.record(one.kind, project.name, one.name)
    traced, note = viewer.is_traced(lying), viewer.why_not(service_of(request).settings)
    return {
        "record_href": f"{place}/record",
        "archive_href": f"{here}/files.tar",
        "files": [(file.path, file.size, f"{place}/files/{links.path(file.path)}") for file in lying],
        "commands": list(_commands(request, project, one)) if traced else [],
        "viewer_href": f"{here}/xprof" if traced and not note else "",
        "viewer_note": note,
        "remove_href": f"{here}/delete" if identity.may(Scope.ADMIN, project.id, public=False) else "",
    }


def remove(request: Request, sent: FormData) -> Response:
    """Remove a run or comparison, if the form says that this is meant."""
    identity, project = opened(request, Scope.ADMIN)
    kind = kind_of(request)
    if field(sent, "sure") != "yes":
        raise Problem(422, "The form does not say that this is meant.", f"Tick the box: nothing brings a {kind} back.")
    removing.remove(service_of(request), identity, project, kind, asked.name(request, kind))
    return back(links.project(project.name, f"{kind}s"))


def as_judged(record: RunRecord, verdicts: Sequence[Row[Any]]) -> RunRecord:
    """Return a run with the verdicts that count here, which may be by the project's budgets and not by its own."""
    # What came with the record says more than the table keeps.
    sent = {(case.id, *_told(one), words(one.summary)): one for case in record.cases for one in case.verdicts}
    found: dict[str, list[Verdict]] = {}
    for one in verdicts:
        same = sent.get((one.case, one.gate, one.outcome, one.summary))
        if same is not None:
            found.setdefault(one.case, []).append(same)
            continue
        found.setdefault(one.case, []).append(
            Verdict(
                gate=one.gate,
                outcome=Outcome(one.outcome),
                summary=one.summary,
                detail=tuple(filter(None, one.detail.split("\n"))),
                advice=one.advice,
            )
        )
    cases = tuple(
        case
        if [_told(one) for one in case.verdicts] == [_told(one) for one in found.get(case.id, [])]
        else replace(case, verdicts=tuple(found.get(case.id, [])))
        for case in record.cases
    )
    return replace(record, cases=cases)


def _told(verdict: Verdict) -> tuple[str, str]:
    return verdict.gate, str(verdict.outcome)


def _around(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """Return the run before this one that compares with it, or ``None``."""
    found = runs.recent(
        connection,
        row.project_id,
        limit=1,
        behind=(row.at, row.id),
        environment=row.environment,
        branch=row.branch,
        suite=row.suite,
    )
    return found[0] if found else None


def _links(project: Row[Any], row: Row[Any], before: Row[Any] | None) -> Iterator[tuple[str, str]]:
    commit = links.commit(project.repository, row.commit)
    if commit:
        yield f"commit {row.commit[:10]}", commit
    if before is not None:
        yield f"the run before, {before.name}", links.run(project.name, before.name)
        yield "beside the run before", links.compare(project.name, before.name, row.name)
        changes = links.changes(project.repository, before.commit, row.commit)
        if changes and before.commit != row.commit:
            yield "what changed since", changes


_ON_GITHUB = {
    github.SENT: "GitHub was told.",
    github.WAITING: "GitHub will be told.",
    github.FAILED: "GitHub was not told.",
    github.REFUSED: "GitHub is not told.",
}


def _told_github(post: Row[Any] | None, identity: Identity, project: Row[Any]) -> dict[str, Any] | None:
    """Return what became of telling GitHub, and to who manages the project why nothing did."""
    if post is None:
        return None
    manages = identity.may(Scope.ADMIN, project.id, public=False)
    found = (("check", post.check_url), ("comment", post.comment_url))
    shown = [(text, href) for text, href in found if href]
    return {"text": _ON_GITHUB[post.state], "why": post.problem if manages else "", "links": shown}


def _commands(request: Request, project: Row[Any], one: Named) -> Iterator[tuple[str, str]]:
    """Yield how traces get into a viewer. They are fetched with a token: whoever may read the page may read them."""
    secret = "" if project.public else ' -H "Authorization: Bearer $QWENPERF_TOKEN"'
    yield (
        f"curl -sSf{secret} {address(request)}{links.record(one.kind, project.name, one.name)}/files.tar | tar x",
        f"fetches the folder of the {one.kind}",
    )
    yield f"qwenperf trace open {shlex.quote(one.name)}", "opens XProf or TensorBoard on it"


def show_comparison(request: Request) -> Response:
    """Show a comparison, with the difference of its traces by operation."""
    identity, project = opened(request)
    with service_of(request).database.read() as connection:
        one = named(request, connection, project.id)
        record = comparison_from_json(runs.record(connection, one.row.record_id), one.name)
        lying = files.of(connection, one.owner)
        post = github.of_record(connection, comparison_id=one.row.id)
    changes = links.changes(project.repository, one.row.base_commit, one.row.head_commit)
    return page(
        request,
        "comparison.html",
        project=project,
        kind="Comparison",
        record=record,
        view=comparison_view(record, lambda _: ""),
        chart=_CHART,
        record_links=[("what changed between the two", changes)] if changes else [],
        told=_told_github(post, identity, project),
        here="comparisons",
        **_held(request, identity, project, one, lying),
    )
