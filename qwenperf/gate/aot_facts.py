"""What gates ask of a compiled program: named numbers with a unit and a good direction, read from one case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from qwenperf.schema.analysis import AotCase, BufferCopy, Collective, ProgramAnalysis
from qwenperf.schema.metrics import Direction

_LOWER, _HIGHER, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

Read = Callable[[AotCase], float | None]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One number. ``fields`` are those of the analysis that it is read from.

    ``words`` is what a sentence calls it. An *estimate* depends on published figures of the chip, and a timed one on
    the machine: both are judged where a budget asks, and never by comparison alone.
    """

    name: str
    unit: str
    direction: Direction
    words: str
    read: Read
    fields: tuple[str, ...] = ()
    estimate: bool = False
    timed: bool = False

    def value(self, case: AotCase) -> float | None:
        """Return the number; ``None`` where it is not known, or differs from one compilation to the next."""
        return None if self.is_unstable(case) else self.read(case)

    def is_unstable(self, case: AotCase) -> bool:
        """Say whether the compiler does not give the same number twice."""
        return case.program is not None and not set(self.fields).isdisjoint(case.program.unstable)


def of_kind(program: ProgramAnalysis, kind: str) -> tuple[BufferCopy, ...]:
    """Return the copies of one kind."""
    return tuple(copy for copy in program.copies if copy.kind == kind)


def moved_bytes(copies: Iterable[BufferCopy]) -> int:
    """Return what copies write in one call of the program."""
    return sum(copy.bytes * copy.runs for copy in copies)


def per_layer(program: ProgramAnalysis) -> tuple[Collective, ...]:
    """Return the collectives that each layer runs; layers in a loop have them once in the text."""
    return tuple(one for one in program.collectives if one.per_layer)


def layer_count(program: ProgramAnalysis) -> float:
    """Return how many collectives one layer runs, loops or not."""
    found = per_layer(program)
    layers = program.extra.get("layers") or max((one.runs for one in found), default=1)
    return sum(one.runs for one in found) / layers


def _field(name: str) -> Read:
    def read(case: AotCase) -> float | None:
        return None if case.program is None else getattr(case.program, name)

    return read


def _of_program(reckon: Callable[[ProgramAnalysis], float]) -> Read:
    return lambda case: None if case.program is None else reckon(case.program)


def _of_estimate(name: str) -> Read:
    return lambda case: None if case.estimate is None else getattr(case.estimate, name)


def _of_fit(name: str) -> Read:
    return lambda case: None if case.fit is None else getattr(case.fit, name)


def _size(name: str, words: str, unit: str = "bytes", direction: Direction = _LOWER) -> Fact:
    return Fact(name=name, unit=unit, direction=direction, words=words, read=_field(name), fields=(name,))


def _names(name: str, words: str) -> Fact:
    count = _of_program(lambda program: len(getattr(program, name)))
    return Fact(name=name, unit="count", direction=_LOWER, words=words, read=count, fields=(name,))


def _copies(name: str, kind: str, words: str) -> tuple[Fact, Fact]:
    """Return the bytes and the number of the copies of one kind."""
    size = _of_program(lambda program: moved_bytes(of_kind(program, kind)))
    count = _of_program(lambda program: sum(copy.runs for copy in of_kind(program, kind)))
    return (
        Fact(name=f"{name}_bytes", unit="bytes", direction=_LOWER, words=words, read=size, fields=("copies",)),
        Fact(name=f"{name}s", unit="count", direction=_LOWER, words=f"number of {name}s", read=count,
             fields=("copies",)),
    )  # fmt: skip


def _collectives(name: str, unit: str, words: str, reckon: Callable[[ProgramAnalysis], float]) -> Fact:
    read = _of_program(reckon)
    return Fact(name=name, unit=unit, direction=_LOWER, words=words, read=read, fields=("collectives",))


def _estimate(name: str, unit: str, direction: Direction, words: str, read: Read) -> Fact:
    return Fact(name=name, unit=unit, direction=direction, words=words, read=read, estimate=True)


_DEFINED = (
    _size("temp_bytes", "temporary memory"),
    _size("peak_bytes", "peak memory"),
    _size("argument_bytes", "memory of the arguments"),
    _size("output_bytes", "memory of the results"),
    _size("alias_bytes", "memory updated in place", direction=_HIGHER),
    _size("hbm_bytes", "bytes moved"),
    _size("flops", "arithmetic", "flop"),
    Fact(
        name="copied_bytes", unit="bytes", direction=_LOWER, words="bytes copied", fields=("copies",),
        read=_of_program(lambda program: moved_bytes(program.copies)),
    ),
    *_copies("relayout", "relayout", "bytes copied to another layout"),
    *_copies("upcast", "upcast", "bytes copied to a wider type"),
    *_copies("slice", "slice", "bytes sliced into a buffer"),
    _collectives("collectives", "count", "number of collectives",
                 lambda program: sum(one.runs for one in program.collectives)),
    _collectives("collective_bytes", "bytes", "bytes of collectives",
                 lambda program: sum(one.bytes * one.runs for one in program.collectives)),
    _collectives("collectives_per_layer", "count", "collectives a layer", layer_count),
    _names("unaliased_donations", "number of donations lost"),
    _names("trigonometric", "number of sines and cosines"),
    _names("double_precision", "number of operations in f64"),
    _names("host_calls", "number of host calls"),
    _names("unknown_loops", "number of loops of unknown length"),
    Fact(name="fusions", unit="count", direction=_NONE, words="number of fusions", read=_field("fusions"),
         fields=("fusions",)),
    _estimate("longest_context", "count", _HIGHER, "longest context that fits", _of_fit("longest_context")),
    _estimate("largest_batch", "count", _HIGHER, "largest batch that fits", _of_fit("largest_batch")),
    _estimate("estimate_s", "s", _LOWER, "estimated time", _of_estimate("seconds")),
    _estimate("estimate_tokens_per_s", "tokens/s", _HIGHER, "estimated speed", _of_estimate("tokens_per_s")),
    _estimate("estimate_mbu", "ratio", _HIGHER, "estimated MBU", _of_estimate("mbu")),
    _estimate("estimate_mfu", "ratio", _HIGHER, "estimated MFU", _of_estimate("mfu")),
    Fact(name="compile_s", unit="s", direction=_LOWER, words="time to compile", timed=True,
         read=lambda case: case.compile_s),
)  # fmt: skip

FACTS: Mapping[str, Fact] = {fact.name: fact for fact in _DEFINED}
"""Every fact by name, the most telling first."""
