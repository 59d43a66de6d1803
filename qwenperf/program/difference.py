"""What changed between two compilations of a program, told by operation: the largest effect first.

Operations are matched by the name that JAX gave them, the file that they come from and their shape; what is left,
without the shape, and then without the name. Lines are not compared: they move with every edit. A record keeps the
costliest operations only, and what is cheaper than all of those is not called new or gone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from qwenperf import units
from qwenperf.program import costs
from qwenperf.program.analysis import MOST_OPERATIONS
from qwenperf.program.copies import describe
from qwenperf.schema.analysis import BufferCopy, Collective, OperationCost, ProgramAnalysis

_WRAPPERS = re.compile(
    r"^(?:jit\(.*?\)|pjit|while|body|cond|body_fun|cond_fun|closed_call|core_call|checkpoint|remat\d*|main)$"
)
_LINE = re.compile(r":\d+\b")
_LAYER = re.compile(r"\.\d+(?=\.|$)")
_MOST_NAMED = 3
_BYTES_A_CYCLE = 500.0
"""Roughly what the chips of all generations read in one cycle: only orders the list."""
_SAME_CYCLES = 0.01
"""Compilers foresee slightly other cycles for the same work in another place."""
_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One difference between base and head.

    ``kind``: copy, collective, kernel, donation, host, precision, trigonometric or operation. ``before`` and ``after``
    are amounts in ``unit`` (bytes, flops, cycles, count), 0 for what is not there. ``effect`` is in bytes moved in one
    call, or what takes about as long; positive where head costs more. ``message`` is a sentence for people.
    """

    kind: str
    what: str
    before: float
    after: float
    unit: str
    effect: float
    message: str
    buffer: str = ""
    source: str = ""

    @property
    def worse(self) -> bool:
        """Say whether head costs more, or does what it should not."""
        return self.effect > 0


def same_program(base: ProgramAnalysis, head: ProgramAnalysis) -> bool:
    """Say whether both were compiled to one program, names and lines aside."""
    return bool(base.fingerprint) and base.fingerprint == head.fingerprint


def explain(base: ProgramAnalysis, head: ProgramAnalysis) -> tuple[Change, ...]:
    """Return what changed from ``base`` to ``head``, the largest effect first and worse before better."""
    if same_program(base, head):
        return ()
    found = [
        *_copies(base.copies, head.copies),
        *_collectives(base.collectives, head.collectives),
        *_named("donation", "donated and not written over", base.unaliased_donations, head.unaliased_donations),
        *_named("host", "the host is called", base.host_calls, head.host_calls),
        *_named("precision", "64-bit arithmetic", base.double_precision, head.double_precision),
        *_named("trigonometric", "computed in the program", base.trigonometric, head.trigonometric),
        *_named("kernel", "kernel", base.kernels, head.kernels, good=True),
        *_operations(base.operations, head.operations),
    ]
    return tuple(sorted(found, key=lambda change: (-abs(change.effect), change.effect < 0, change.kind, change.what)))


def _copies(base: Sequence[BufferCopy], head: Sequence[BufferCopy]) -> Iterable[Change]:
    before, after = (_grouped(side, _copy_key) for side in (base, head))
    for key in dict.fromkeys((*after, *before)):
        old, new = (sum(copy.bytes * copy.runs for copy in side.get(key, ())) for side in (before, after))
        if old != new:
            copies = after.get(key) or before[key]
            told = f"{describe(copies[0])}{_others(copies)}"
            # A copy is read and written.
            effect = 2.0 * (new - old)
            yield _change("copy", told, (old, new), effect=effect, buffer=copies[0].buffer, source=copies[0].source)


def _copy_key(copy: BufferCopy) -> tuple[str, ...]:
    return copy.kind, _LAYER.sub(".*", copy.buffer), copy.shape, _file(copy.source)


def _others(copies: Sequence[BufferCopy]) -> str:
    more = len({copy.buffer for copy in copies}) - 1
    return f" and {more} like it" if more > 0 else ""


def _collectives(base: Sequence[Collective], head: Sequence[Collective]) -> Iterable[Change]:
    before, after = (_grouped(side, _collective_key) for side in (base, head))
    for key in dict.fromkeys((*after, *before)):
        old, new = (sum(one.bytes * one.runs for one in side.get(key, ())) for side in (before, after))
        runs = tuple(sum(one.runs for one in side.get(key, ())) for side in (before, after))
        if old != new or runs[0] != runs[1]:
            first = (after.get(key) or before[key])[0]
            where = f", from {first.source}" if first.source else ""
            told = f"{first.kind} of {first.shape}, {runs[0]} -> {runs[1]} times a call{where}"
            buffer = str(first.extra.get("buffer", ""))
            yield _change("collective", told, (old, new), effect=new - old, buffer=buffer, source=first.source)


def _collective_key(one: Collective) -> tuple[str, ...]:
    return one.kind, one.shape, _file(one.source)


def _named(kind: str, told: str, base: Sequence[str], head: Sequence[str], *, good: bool = False) -> Iterable[Change]:
    """Yield what is named on one side only; what is ``good`` (a kernel) costs nothing by being there."""
    before, after = ({_LINE.sub("", name): name for name in side} for side in (base, head))
    for key, name in after.items():
        if key not in before:
            yield _change(kind, f"{told}: {name}", (0, 1), unit="count", effect=0.0 if good else 1.0)
    for key, name in before.items():
        if key not in after:
            yield _change(kind, f"{told}: {name}", (1, 0), unit="count", effect=0.0 if good else -1.0)


def _operations(base: Sequence[OperationCost], head: Sequence[OperationCost]) -> Iterable[Change]:
    """Compare what has one name, file and shape; of the rest what has one name and file; of the rest one file."""
    left, right = tuple(base), tuple(head)
    for size in (4, 3, 2):
        before, after = (_grouped(side, partial(_operation_key, size=size)) for side in (left, right))
        for key in after:
            if key in before:
                yield from _operation_change(before[key], after[key])
        left, right = (
            tuple(one for key, group in side.items() if key not in other for one in group)
            for side, other in ((before, after), (after, before))
        )
    for old, new in (*(((one,), ()) for one in left), *(((), (one,)) for one in right)):
        if _total(old or new) > _least_listed(head if old else base):
            yield from _operation_change(old, new)


def _operation_change(old: Sequence[OperationCost], new: Sequence[OperationCost]) -> Iterable[Change]:
    """Tell a difference in bytes or arithmetic; where there is none, in the cycles that the compiler foresees."""
    effect = _total(new) - _total(old)
    unit = "bytes" if _sum(old, "bytes") != _sum(new, "bytes") else "flops"
    if abs(effect) <= 1e-9 * max(_total(old), _total(new)):
        unit, cycles = "cycles", _sum(new, "cycles") - _sum(old, "cycles")
        if abs(cycles) <= _SAME_CYCLES * max(_sum(old, "cycles"), _sum(new, "cycles")):
            return
        effect = cycles * _BYTES_A_CYCLE
    first = (new or old)[0]
    where = f" from {first.source}" if first.source else f" ({_plain(first.op_name) or first.name})"
    shapes = " -> ".join(dict.fromkeys(_shapes(side) for side in (old, new) if side))
    yield _change(
        "operation",
        f"{first.category} {shapes}{where}",
        (_sum(old, unit), _sum(new, unit)),
        unit=unit,
        source=first.source,
        effect=effect,
    )


def _operation_key(one: OperationCost, *, size: int) -> tuple[str, ...]:
    return (one.category, _file(one.source), _plain(one.op_name), one.shape)[:size]


def _plain(op_name: str) -> str:
    """Leave out of a name what only says in which function, loop or branch an operation is."""
    return "/".join(part for part in op_name.split("/") if not _WRAPPERS.match(part))


def _file(source: str) -> str:
    return source.rpartition(":")[0] or source


def _least_listed(operations: Sequence[OperationCost]) -> float:
    """Return what the cheapest listed operation costs where the list may be cut; else nothing."""
    return min(map(costs.weight, operations)) if len(operations) >= MOST_OPERATIONS else 0.0


def _total(operations: Iterable[OperationCost]) -> float:
    return sum(map(costs.weight, operations))


def _sum(operations: Iterable[OperationCost], unit: str) -> float:
    return sum(getattr(one, unit) or 0.0 for one in operations)


def _shapes(operations: Sequence[OperationCost]) -> str:
    found = list(dict.fromkeys(one.shape for one in operations))
    return ", ".join(found[:_MOST_NAMED]) + (", ..." if len(found) > _MOST_NAMED else "")


def _grouped(items: Iterable[_Item], key: Callable[[_Item], tuple[str, ...]]) -> dict[tuple[str, ...], list[_Item]]:
    found: dict[tuple[str, ...], list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _change(
    kind: str,
    what: str,
    amounts: tuple[float, float],
    *,
    effect: float,
    unit: str = "bytes",
    buffer: str = "",
    source: str = "",
) -> Change:
    before, after = amounts
    state = "new" if not before else "gone" if not after else "changed"
    amount = "" if unit == "count" else f": {_amount(before, unit)} -> {_amount(after, unit)}"
    return Change(
        kind=kind,
        what=what,
        before=before,
        after=after,
        unit=unit,
        effect=effect,
        message=f"{state}: {what}{amount}",
        buffer=buffer,
        source=source,
    )


def _amount(value: float, unit: str) -> str:
    return units.byte_count(value) if unit == "bytes" else f"{units.significant(value)} {unit}"
