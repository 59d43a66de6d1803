"""What gates ask of a compiled program: named numbers with a unit and a good direction, read from one case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qwenperf.schema.analysis import AotCase, BufferCopy, Collective, ProgramAnalysis
from qwenperf.schema.metrics import Direction

_LOWER, _HIGHER, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

Read = Callable[[AotCase], float | None]

KIND_FACTS: Mapping[str, str] = {
    "all-reduce": "all_reduces",
    "all-gather": "all_gathers",
    "reduce-scatter": "reduce_scatters",
    "all-to-all": "all_to_alls",
    "collective-permute": "collective_permutes",
}
"""The fact that counts the exchanges of one kind."""


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


def was_read(program: ProgramAnalysis) -> bool:
    """Say whether the compiled text was understood; of one that was not, sizes are known, and nothing is none."""
    return program.flops is not None


def copied(program: ProgramAnalysis, kind: str | None = None) -> tuple[int, int] | None:
    """Return how often copies of one kind, or of all, run in one call, and the bytes that they write.

    Totals that were kept when the record was made count copies that its list leaves out; an older record has none, and
    ``None`` is what is known of it where its list was cut.
    """
    totals = program.extra.get("copies_by_kind")
    if isinstance(totals, Mapping):
        found = [(one["count"], one["bytes"]) for name, one in totals.items() if kind in (None, name)]
    elif program.extra.get("copies_found", 0) > len(program.copies):
        return None
    else:
        found = [(one.runs, one.bytes * one.runs) for one in program.copies if kind in (None, one.kind)]
    return sum(count for count, _ in found), sum(size for _, size in found)


def of_kind(program: ProgramAnalysis, kind: str) -> tuple[BufferCopy, ...]:
    """Return the copies of one kind."""
    return tuple(copy for copy in program.copies if copy.kind == kind)


def in_layers(program: ProgramAnalysis) -> tuple[Collective, ...] | None:
    """Return the collectives that each layer runs; ``None`` where nothing tells which those are.

    Layers in a loop have them once in the text. Of unrolled layers they are what one line asks for about as often as
    there are layers, which has to be known.
    """
    looped = tuple(one for one in program.collectives if one.per_layer)
    if looped or not program.collectives:
        return looped
    layers = _layers(program)
    if layers is None:
        return None
    runs = Counter[tuple[str, ...]]()
    for one in program.collectives:
        runs[_alike(one)] += one.runs
    return tuple(one for one in program.collectives if _times(runs[_alike(one)], layers))


def layer_count(program: ProgramAnalysis) -> float | None:
    """Return how many collectives one layer runs, loops or not; ``None`` where it is not known."""
    found = in_layers(program)
    if not found:
        return None if found is None else 0
    runs = sum(one.runs for one in found)
    layers = _layers(program) or max(one.runs for one in found)
    return runs / layers if found[0].per_layer else _times(runs, layers)


def _layers(program: ProgramAnalysis) -> int | None:
    """Return how many layers the model has that the program is of, where that was known when it was compiled."""
    layers = program.extra.get("layers")
    return layers if isinstance(layers, int) and layers > 0 else None


def _alike(one: Collective) -> tuple[str, ...]:
    return one.kind, one.source, one.shape


def _times(runs: int, layers: int) -> int:
    """Return how often a layer does what is done ``runs`` times: the first or the last layer may do it otherwise."""
    return math.ceil(runs / layers - 0.5)


def _field(name: str) -> Read:
    def read(case: AotCase) -> float | None:
        return None if case.program is None else getattr(case.program, name)

    return read


def _of_text(reckon: Callable[[ProgramAnalysis], float | None]) -> Read:
    """Read what stands in the compiled text: where that was not understood, nobody knows it."""
    return lambda case: None if case.program is None or not was_read(case.program) else reckon(case.program)


def _of_estimate(name: str) -> Read:
    return lambda case: None if case.estimate is None else getattr(case.estimate, name)


def _of_fit(name: str) -> Read:
    return lambda case: None if case.fit is None else getattr(case.fit, name)


def _size(name: str, words: str, unit: str = "bytes", direction: Direction = _LOWER) -> Fact:
    return Fact(name=name, unit=unit, direction=direction, words=words, read=_field(name), fields=(name,))


def _names(name: str, words: str) -> Fact:
    count = _of_text(lambda program: len(getattr(program, name)))
    return Fact(name=name, unit="count", direction=_LOWER, words=words, read=count, fields=(name,))


def _copied(kind: str | None, which: int) -> Read:
    def reckon(program: ProgramAnalysis) -> float | None:
        found = copied(program, kind)
        return None if found is None else found[which]

    return _of_text(reckon)


def _copies(name: str, kind: str, words: str) -> tuple[Fact, Fact]:
    """Return the bytes and the number of the copies of one kind."""
    size, count = _copied(kind, 1), _copied(kind, 0)
    return (
        Fact(name=f"{name}_bytes", unit="bytes", direction=_LOWER, words=words, read=size, fields=("copies",)),
        Fact(name=f"{name}s", unit="count", direction=_LOWER, words=f"number of {name}s", read=count,
             fields=("copies",)),
    )  # fmt: skip


def _collectives(name: str, unit: str, words: str, reckon: Callable[[ProgramAnalysis], float | None]) -> Fact:
    read = _of_text(reckon)
    return Fact(name=name, unit=unit, direction=_LOWER, words=words, read=read, fields=("collectives",))


def _of_kind_runs(kind: str) -> Fact:
    def runs(program: ProgramAnalysis) -> float:
        return sum(one.runs for one in program.collectives if one.kind == kind)

    return _collectives(KIND_FACTS[kind], "count", f"number of {kind}s", runs)


_OF_ESTIMATES = ("flops", "hbm_bytes", "estimated_cycles", "collectives")
_OF_FIT = ("peak_bytes", "alias_bytes")
"""Fields of the analysis that estimates, and limits of growth, are reckoned from."""


def _estimate(name: str, unit: str, direction: Direction, words: str, read: Read) -> Fact:
    return Fact(name=name, unit=unit, direction=direction, words=words, read=read, fields=_OF_ESTIMATES, estimate=True)


def _room(name: str, words: str) -> Fact:
    read = _of_fit(name)
    return Fact(name=name, unit="count", direction=_HIGHER, words=words, read=read, fields=_OF_FIT, estimate=True)


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
        read=_copied(None, 1),
    ),
    *_copies("relayout", "relayout", "bytes copied to another layout"),
    *_copies("upcast", "upcast", "bytes copied to a wider type"),
    *_copies("slice", "slice", "bytes sliced into a buffer"),
    _collectives("collectives", "count", "number of collectives",
                 lambda program: sum(one.runs for one in program.collectives)),
    _collectives("collective_bytes", "bytes", "bytes of collectives",
                 lambda program: sum(one.bytes * one.runs for one in program.collectives)),
    _collectives("collectives_per_layer", "count", "collectives a layer", layer_count),
    *map(_of_kind_runs, KIND_FACTS),
    _names("unaliased_donations", "number of donations lost"),
    _names("trigonometric", "number of sines and cosines"),
    _names("double_precision", "number of operations in f64"),
    _names("host_calls", "number of host calls"),
    _names("unknown_loops", "number of loops of unknown length"),
    Fact(name="fusions", unit="count", direction=_NONE, words="number of fusions", fields=("fusions",),
         read=_of_text(lambda program: program.fusions)),
    _room("longest_context", "longest context that fits"),
    _room("largest_batch", "largest batch that fits"),
    _estimate("estimate_s", "s", _LOWER, "estimated time", _of_estimate("seconds")),
    _estimate("estimate_tokens_per_s", "tokens/s", _HIGHER, "estimated speed", _of_estimate("tokens_per_s")),
    _estimate("estimate_mbu", "ratio", _HIGHER, "estimated MBU", _of_estimate("mbu")),
    _estimate("estimate_mfu", "ratio", _HIGHER, "estimated MFU", _of_estimate("mfu")),
    Fact(name="compile_s", unit="s", direction=_LOWER, words="time to compile", timed=True,
         read=lambda case: case.compile_s),
)  # fmt: skip

FACTS: Mapping[str, Fact] = {fact.name: fact for fact in _DEFINED}
"""Every fact by name, the most telling first."""
