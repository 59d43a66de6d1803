"""Which argument the bytes of an array come from.

Followed backwards through what only passes bytes on (bitcasts, tuples, loops) and, where asked, through what moves or
converts them (copies, slices, transposes), into fusions and out of loops, until an argument of the program is reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from qwenperf.program import attributes
from qwenperf.program.hlo import CALLS, HANDED_ON, Module, Operation, Parameter

MOVED = frozenset(
    "copy copy-start transpose reshape convert slice dynamic-slice gather broadcast pad concatenate reverse "
    "dynamic-update-slice reduce-precision bitcast-convert async-start slice-start slice-done dynamic-slice-start "
    "dynamic-slice-done all-gather all-gather-start all-gather-done all-to-all collective-permute "
    "collective-permute-start collective-permute-done".split()
)
"""What hands on the values that it was given, elsewhere or in another form; operand 0 is where they come from."""

_MOST_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Spot:
    """The result of one operation; ``index`` leads into its tuple, innermost step first."""

    operation: Operation
    index: tuple[int, ...] = ()


def argument(module: Module, operation: Operation, *, moved: bool = False) -> Parameter | None:
    """Return the argument whose bytes ``operation`` has; ``None`` where it computes them.

    With ``moved`` copies, slices and conversions are looked through, and the state that a loop carries counts as what
    the loop began with; without it, only bytes that are read where the argument lies count.
    """
    spot: Spot | None = Spot(operation=operation)
    seen = set()
    for _ in range(_MOST_STEPS):
        if spot is None or spot in seen:
            return None
        seen.add(spot)
        if spot.operation.number is not None and spot.operation.computation == module.entry:
            return module.parameter(spot.operation.number)
        spot = _before(module, spot, moved=moved)
    return None


def dotted(path: str) -> str:
    """Write a key path with dots: ``params['layers'][0]`` -> ``params.layers.0``."""
    return re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path).strip(".")


def is_below(path: str, roots: Iterable[str]) -> bool:
    """Say whether a key path, in either spelling, is one of ``roots`` or below one."""
    path = dotted(path)
    return any(path == root or path.startswith(f"{root}.") for root in map(dotted, roots))


def _before(module: Module, spot: Spot, *, moved: bool) -> Spot | None:
    """Return where the bytes at ``spot`` were one step before; ``None`` where they are made there."""
    opcode = spot.operation.opcode
    if opcode == "parameter":
        return _outside(module, spot, moved=moved)
    if opcode == "while":
        return _through_loop(module, spot, moved=moved)
    if opcode == "fusion" or (opcode in CALLS and spot.operation.calls):
        root = module.root(spot.operation.calls) if moved or opcode != "fusion" else None
        return Spot(operation=root, index=spot.index if opcode in {"fusion", "call"} else ()) if root else None
    return _handed_on(module, spot, moved=moved)


def _handed_on(module: Module, spot: Spot, *, moved: bool) -> Spot | None:
    """Step from an operation to the operand that it hands on; ``None`` where it hands on none."""
    operation, opcode = spot.operation, spot.operation.opcode
    if opcode == "get-tuple-element":
        index = attributes.count_from_zero(operation.attributes, "index")
        return _operand(module, operation, 0, (index, *spot.index))
    if opcode == "tuple":
        return _operand(module, operation, spot.index[0], spot.index[1:]) if spot.index else None
    if opcode in HANDED_ON:
        return _operand(module, operation, 0, spot.index)
    if moved and opcode in MOVED:
        # What starts something asynchronous gives a tuple, and the same operand is behind each member of it.
        return _operand(module, operation, 0, () if opcode.endswith("-start") else spot.index)
    return None


def _operand(module: Module, operation: Operation, number: int, index: tuple[int, ...]) -> Spot | None:
    found = module.operand(operation, number)
    return Spot(operation=found, index=index) if found else None


def _outside(module: Module, spot: Spot, *, moved: bool) -> Spot | None:
    """Step from a parameter of a computation to what its caller hands in."""
    number, computation = spot.operation.number, spot.operation.computation
    caller = next(iter(module.callers.get(computation, ())), None)
    if caller is None or number is None:
        return None
    if caller.opcode == "while":
        if not moved and not _is_unchanged(module, attributes.body(caller.attributes), spot.index):
            return None
        return _operand(module, caller, 0, spot.index)
    if caller.opcode == "conditional":
        names = attributes.branches(caller.attributes)
        return _operand(module, caller, 1 + names.index(computation), spot.index) if computation in names else None
    return _operand(module, caller, number, spot.index)


def _through_loop(module: Module, spot: Spot, *, moved: bool) -> Spot | None:
    """Step from a loop's result to what it began with: the same bytes where the loop leaves them alone."""
    body = attributes.body(spot.operation.attributes)
    if not moved and not _is_unchanged(module, body, spot.index):
        return None
    return _operand(module, spot.operation, 0, spot.index)


def _is_unchanged(module: Module, body: str, index: tuple[int, ...]) -> bool:
    """Say whether a loop's body hands member ``index`` of its state on as it got it."""
    return bool(index) and module.hands_on(body, index[0])
