"""Finds traces from what people type: a run, a comparison, their records, a trace itself, or any folder of traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from qwenperf.cli.files import is_there
from qwenperf.cli.saved_run import RECORD, read_run
from qwenperf.cli.streams import say
from qwenperf.cli.trace_comparison import traced_sides
from qwenperf.cli.traced_case import TracedCase, chosen, known_summary, read_summary
from qwenperf.errors import NothingMeasuredError, RecordError, UsageError
from qwenperf.schema.records import CaseRecord

_SUFFIX, _OTHER_SUFFIX = ".xplane.pb", ".pb"
_MOST_TOLD = 3


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
    compared = traced_sides(place)
    if compared:
        both = [(side, case) for one in compared for side, case in one.items()]
        return chosen([replace(case, id=f"{case.id} ({side})", case=case.id) for side, case in both], pattern)
    is_folder = is_there(place) and place.is_dir()
    if place.name.endswith(_OTHER_SUFFIX) or (is_folder and not (place / RECORD).exists()):
        return chosen(_of_files(_files(place)), pattern)
    record, file = read_run(place)
    cases = [_of_case(case, file.parent) for case in record.cases]
    found = tuple(case for case in cases if case is not None)
    if not found:
        why = "it has no case" if not record.cases else "its cases were run without a trace, or lost it"
        raise NothingMeasuredError(f"{file} has no trace: {why}.", advice="Run without --no-trace.")
    return chosen(found, pattern)


def sides(place: Path, pattern: str | None = None) -> tuple[tuple[TracedCase, TracedCase], ...]:
    """Return base and head of each case that a comparison at ``place`` traced.

    Raises:
      UsageError: it is no comparison with traces of both sides.
      UnknownNameError: no case matches.
    """
    both = {one["base"].id: one for one in traced_sides(place) if len(one) > 1} or _sides_of_files(place)
    if not both:
        advice = "Give BASE and HEAD, or the folder of a comparison."
        raise UsageError(f"{place} holds no case that was traced on both sides.", advice=advice)
    names = [case.case for case in chosen([replace(one["base"], case=name) for name, one in both.items()], pattern)]
    return tuple((both[name]["base"], both[name]["head"]) for name in names)


def _sides_of_files(place: Path) -> dict[str, dict[str, TracedCase]]:
    """Pair traces by the names that a comparison gives them, where it left no record."""
    found = {case.id: case for case in traced_cases(place)}
    names = [name.removesuffix("-base") for name in found if name.endswith("-base") and f"{name[:-5]}-head" in found]
    return {name: {side: found[f"{name}-{side}"] for side in ("base", "head")} for name in names}


def _files(place: Path) -> list[Path]:
    """Return the trace that is named, or those below a folder."""
    files = sorted(place.rglob(f"*{_SUFFIX}")) if place.is_dir() else [place]
    if not files:
        raise RecordError(f"{place} holds neither {RECORD} nor a trace.", advice="Give a run's folder or a trace.")
    return files


def _of_files(files: Sequence[Path]) -> list[TracedCase]:
    """Sum up traces; of several, those that cannot be read are left out and named, unless none can."""
    found, broken = [], []
    for file in files:
        try:
            found.append(TracedCase(id=_name(file, files), summary=read_summary(file)))
        except RecordError as error:
            broken.append(error)
    if not found:
        raise broken[0]
    for one in broken[:_MOST_TOLD]:
        say(f"left out: {one.message}")
    if len(broken) > _MOST_TOLD:
        say(f"left out: {len(broken) - _MOST_TOLD} more that cannot be read")
    return found


def _name(file: Path, files: Sequence[Path]) -> str:
    sessions = [other.parent.name for other in files]
    return file.parent.name if sessions.count(file.parent.name) == 1 else str(file)


def _of_case(case: CaseRecord, folder: Path) -> TracedCase | None:
    file = folder / case.trace if case.trace else None
    summary, note = known_summary(case.evidence.trace_summary, file, case.spec)
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
