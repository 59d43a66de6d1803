"""What there is to see in compiled programs, a line each, with the targets that it holds for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from qwenperf.gate.aot_words import alike, collective_text, copies_text
from qwenperf.schema.analysis import AotCase, BufferCopy, Estimate, Fit, ProgramAnalysis

_MOST_LINES = 3
_SMALL_SHARE = 0.001
"""Copies below this share of the program's traffic get no line."""

_DOUBTS = ("exchanges take no time", "the branch that costs most")
"""How the assumptions begin that are worth a line."""

_NAMED = (
    ("kernel", "kernels"),
    ("donated and not in place", "unaliased_donations"),
    ("computed in each call", "trigonometric"),
    ("in f64", "double_precision"),
    ("calls the host", "host_calls"),
    ("loop of unknown length, counted once", "unknown_loops"),
    ("not the same in two compilations, not judged", "unstable"),
)


def remarks(cases: Sequence[AotCase]) -> Iterator[str]:
    """Yield what there is to see in a program, each line once with the targets that it holds for."""
    yield from _shared(cases, lambda one: list(map(copies_text, alike(_largest(one)))))
    yield from _shared(cases, lambda one: [collective_text(each) for each in one.collectives])
    for word, field in _NAMED:
        yield from _shared(cases, partial(_named, word, field))
    yield from _grouped((case.target.name, _repeated(case)) for case in cases)
    yield from _grouped((case.target.name, _room(case.fit)) for case in cases if case.fit)
    yield from _grouped((case.target.name, _growth(case.estimate)) for case in cases if case.estimate)
    yield from _grouped((case.target.name, told) for case in cases for told in _doubts(case.estimate))


def _doubts(estimate: Estimate | None) -> list[str]:
    """Return the assumptions that do not hold for every program: what this one's estimate leaves open."""
    told = () if estimate is None else estimate.assumptions
    return [f"~: {one}" for one in told if one.startswith(_DOUBTS)]


def _repeated(case: AotCase) -> str:
    """Say that all numbers are the same in each compilation that was compared; what is not has a line of its own."""
    times = case.extra.get("compilations", 1)
    if times == 1 or case.program is None or case.program.unstable:
        return ""
    return f"the same numbers in {times} compilations"


def _named(word: str, field: str, program: ProgramAnalysis) -> list[str]:
    return [f"{word}: {name}" for name in getattr(program, field)]


def _largest(program: ProgramAnalysis) -> list[BufferCopy]:
    """Return the copies that are worth a line: those of some share of the program's traffic."""
    least = _SMALL_SHARE * (program.hbm_bytes or 0)
    return [copy for copy in program.copies if copy.bytes * copy.runs >= least]


def _shared(cases: Sequence[AotCase], lines: Callable[[ProgramAnalysis], Sequence[str]]) -> Iterator[str]:
    """Yield the first lines of each program, those of several targets once."""
    told = []
    for case in cases:
        found = list(dict.fromkeys(lines(case.program))) if case.program else []
        rest = [f"{len(found) - _MOST_LINES} more of these in the record"] if len(found) > _MOST_LINES else []
        told += [(case.target.name, line) for line in (*found[:_MOST_LINES], *rest)]
    yield from _grouped(told)


def _grouped(told: Iterable[tuple[str, str]]) -> Iterator[str]:
    by_line: dict[str, list[str]] = {}
    for target, line in told:
        by_line.setdefault(line, []).append(target)
    yield from (f"  {', '.join(targets)}: {line}" for line, targets in by_line.items() if line)


def _room(fit: Fit | None) -> str:
    parts = [] if fit is None else [("context", fit.longest_context), ("batch", fit.largest_batch)]
    known = [f"{name} ~{most:,}" for name, most in parts if most is not None]
    return f"fits up to {' or '.join(known)}" if known else ""


def _growth(estimate: Estimate | None) -> str:
    """Say from which batch on the chip's arithmetic is used well, and what no batch reaches."""
    if estimate is None or not estimate.sweep:
        return ""
    reached = estimate.extra.get("batch_at_mfu", {})
    shares = [f"{float(share):.0%} from batch {batch:,}" for share, batch in reached.items() if batch is not None]
    never = [f"{float(share):.0%}" for share, batch in reached.items() if batch is None]
    parts = [f"MFU {' and '.join(shares)}"] if shares else []
    bound = estimate.compute_bound_batch
    if bound is not None:
        parts.append(f"compute-bound from batch {bound:,}")
    if never:
        parts.append(f"no batch reaches MFU {' or '.join(never)}")
    if bound is None:
        parts.append(f"{'none' if never else 'no batch'} is compute-bound")
    return f"~{', '.join(parts)}"
