"""Finds traces from what people type: a run, its record, a trace itself, or any folder of traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from qwenperf.cli.files import is_there
from qwenperf.cli.saved_run import RECORD, read_run
from qwenperf.errors import NothingMeasuredError, RecordError, UnknownNameError, UsageError
from qwenperf.schema.records import CaseRecord, Roofline
from qwenperf.traces import xplane
from qwenperf.traces.summary import VERSION, summarize

_SUFFIX, _OTHER_SUFFIX = ".xplane.pb", ".pb"
_STEP_NAME = "decode"


@dataclass(frozen=True, kw_only=True)
class TracedCase:
    """One trace: what it is called, its summary, and what was measured of the same case without a profiler.

    ``timed_s`` is the time per token of what the trace shows: of streamed steps, or of whole requests.
    """

    id: str
    summary: Mapping[str, Any]
    timed_s: float | None = None
    roofline: Roofline | None = None
    note: str = ""


@contextmanager
def understood(*places: Path) -> Iterator[None]:
    """Turn what a record of another make does to us into an error that names the places.

    Raises:
      RecordError: a summary is not what any version writes.
    """
    try:
        yield
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as error:
        named = " and ".join(map(str, dict.fromkeys(places)))
        raise RecordError(f"{named}: the summary of a trace is not what this version reads: {error}.") from error


def traced_cases(place: Path, pattern: str | None = None) -> tuple[TracedCase, ...]:
    """Return the traces at ``place``, those whose name matches ``pattern``.

    Raises:
      RecordError: nothing there, or nothing that can be read; names it.
      NothingMeasuredError: a run without traces.
      UnknownNameError: no trace matches.
    """
    is_folder = is_there(place) and place.is_dir()
    if place.name.endswith(_OTHER_SUFFIX) or (is_folder and not (place / RECORD).exists()):
        return _chosen(_of_files(_files(place)), pattern)
    record, file = read_run(place)
    cases = [_of_case(case, file.parent) for case in record.cases]
    found = tuple(case for case in cases if case is not None)
    if not found:
        why = "it has no case" if not record.cases else "its cases were run without a trace, or lost it"
        raise NothingMeasuredError(f"{file} has no trace: {why}.", advice="Run without --no-trace.")
    return _chosen(found, pattern)


def sides(place: Path, pattern: str | None = None) -> tuple[tuple[TracedCase, TracedCase], ...]:
    """Return base and head of each case that a comparison at ``place`` traced.

    Raises:
      UsageError: it is no comparison with traces of both sides.
    """
    found = {case.id: case for case in traced_cases(place)}
    names = [name.removesuffix("-base") for name in found if name.endswith("-base")]
    both = [name for name in names if f"{name}-head" in found and (pattern is None or fnmatchcase(name, pattern))]
    if not both:
        advice = "Give BASE and HEAD, or the folder of a comparison."
        raise UsageError(f"{place} holds no case that was traced on both sides.", advice=advice)
    return tuple((found[f"{name}-base"], found[f"{name}-head"]) for name in both)


def _chosen(cases: Sequence[TracedCase], pattern: str | None) -> tuple[TracedCase, ...]:
    found = tuple(case for case in cases if pattern is None or pattern == case.id or fnmatchcase(case.id, pattern))
    if not found:
        raise UnknownNameError("case", str(pattern), [case.id for case in cases])
    return found


def _files(place: Path) -> list[Path]:
    """Return the trace that is named, or those below a folder."""
    files = sorted(place.rglob(f"*{_SUFFIX}")) if place.is_dir() else [place]
    if not files:
        raise RecordError(f"{place} holds neither {RECORD} nor a trace.", advice="Give a run's folder or a trace.")
    return files


def _of_files(files: Sequence[Path]) -> list[TracedCase]:
    """Sum up traces; of several, those that cannot be read are left out, unless none can."""
    found, broken = [], []
    for file in files:
        try:
            found.append(TracedCase(id=_name(file, files), summary=_summary(file)))
        except RecordError as error:
            broken.append(error)
    if not found:
        raise broken[0]
    return found


def _name(file: Path, files: Sequence[Path]) -> str:
    sessions = [other.parent.name for other in files]
    return file.parent.name if sessions.count(file.parent.name) == 1 else str(file)


def _summary(file: Path, tokens_per_step: int = 1) -> Mapping[str, Any]:
    """Sum up a trace by our own steps, or by any annotated ones where there are none of ours."""
    profile = xplane.read(file, _STEP_NAME)
    profile = profile if profile.steps else xplane.read(file)
    return summarize(profile, tokens_per_step=tokens_per_step)


def _of_case(case: CaseRecord, folder: Path) -> TracedCase | None:
    """Return a case's trace: as its record tells, or as its file does where an older version wrote the record."""
    summary, note = case.evidence.trace_summary, ""
    file = folder / case.trace if case.trace else None
    if (summary is None or summary.get("version") != VERSION) and file is not None and is_there(file):
        streamed = summary is None or summary.get("steps") != 1
        try:
            summary = _summary(file, 1 if streamed else _new_tokens(case))
        except RecordError as error:
            note = error.message
    if summary is None:
        return None
    timed = case.metrics.get("itl_p50_s" if summary.get("tokens_per_step", 1) == 1 else "tpot_s")
    return TracedCase(
        id=case.id,
        summary=summary,
        timed_s=None if timed is None else timed.value,
        roofline=case.evidence.roofline,
        note=note,
    )


def _new_tokens(case: CaseRecord) -> int:
    workload = case.spec.get("workload")
    tokens = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    return tokens if isinstance(tokens, int) and tokens > 0 else 1


def pairs(base: Sequence[TracedCase], head: Sequence[TracedCase]) -> tuple[tuple[TracedCase, TracedCase], ...]:
    """Pair the traces of two places by name; where each has one, these two whatever they are called.

    Raises:
      NothingMeasuredError: they have no case in common.
    """
    by_id = {case.id: case for case in head}
    shared = [(case, by_id[case.id]) for case in base if case.id in by_id]
    if not shared and len(base) == len(head) == 1:
        shared = [(base[0], head[0])]
    if not shared:
        advice = "Name one on each side by --base-case and --head-case."
        names = f"base has {base[0].id}, head has {head[0].id}"
        raise NothingMeasuredError(f"no trace of one case is on both sides: {names}.", advice=advice)
    return tuple(shared)
