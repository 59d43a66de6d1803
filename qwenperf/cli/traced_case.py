"""One trace and what is known of it: its summary as a record holds it, or as its file tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from qwenperf.cli.files import is_there
from qwenperf.errors import RecordError, UnknownNameError
from qwenperf.schema.records import Roofline
from qwenperf.traces import xplane
from qwenperf.traces.diff import REQUESTS, STEPS
from qwenperf.traces.summary import VERSION, summarize

_STEP_NAME, _REQUEST_NAME = "decode", "request"
_ONE_STEP = 3
"""A request of so many tokens has one steady step, so that a trace of one step says nothing of what it is."""


@dataclass(frozen=True, kw_only=True)
class TracedCase:
    """One trace: what it is called, its summary, and what was measured of the same case without a profiler.

    ``timed_s`` is the time per token of ``timed``: of streamed steps, or of whole requests. ``case`` is the id of its
    case, where ``id`` names a side too.
    """

    id: str
    summary: Mapping[str, Any]
    timed_s: float | None = None
    timed: str = STEPS
    roofline: Roofline | None = None
    note: str = ""
    case: str = ""


def chosen(cases: Sequence[TracedCase], pattern: str | None) -> tuple[TracedCase, ...]:
    """Return the cases that ``pattern`` names; all without one.

    Raises:
      UnknownNameError: there is none.
    """
    found = tuple(case for case in cases if pattern is None or _is_named(case, pattern))
    if not found:
        raise UnknownNameError("case", str(pattern), list(dict.fromkeys(case.case or case.id for case in cases)))
    return found


def _is_named(case: TracedCase, pattern: str) -> bool:
    return any(pattern == name or fnmatchcase(name, pattern) for name in (case.id, case.case) if name)


def read_summary(file: Path, new_tokens: int | None = None) -> Mapping[str, Any]:
    """Sum up a trace by our own steps or requests, or by any annotated ones where there are none of ours.

    A request makes ``new_tokens``. So does a single step of ours, where that many tokens have more steps.

    Raises:
      RecordError: it cannot be read; names it.
    """
    profile = xplane.read(file)  # once, for a large one takes its time
    ours, requests = (
        tuple(step for step in profile.steps if step.name == name) for name in (_STEP_NAME, _REQUEST_NAME)
    )
    if requests and not ours:
        whole_requests = replace(profile, steps=requests)
        return {**summarize(whole_requests, tokens_per_step=new_tokens or 1), "of": REQUESTS}
    whole = len(ours) == 1 and new_tokens not in {None, _ONE_STEP}
    profile = replace(profile, steps=ours or profile.steps)
    return summarize(profile, tokens_per_step=new_tokens if whole and new_tokens else 1)


def known_summary(
    summary: Mapping[str, Any] | None, file: Path | None, spec: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, str]:
    """Return a summary as its record tells, or as its file does where an older version wrote the record; and a note."""
    is_old = summary is None or summary.get("version") != VERSION
    if not is_old or file is None or not is_there(file):
        return summary, ""
    try:
        return read_summary(file, new_tokens(spec)), ""
    except RecordError as error:
        return summary, error.message


def new_tokens(spec: Mapping[str, Any]) -> int | None:
    """Return how many tokens a request of a case generates; ``None`` where its spec does not tell."""
    workload = spec.get("workload")
    tokens = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    return tokens if isinstance(tokens, int) and tokens > 0 else None
