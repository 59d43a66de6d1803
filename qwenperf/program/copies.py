"""Copies of whole arrays that a program writes to main memory, and which argument each is a copy of.

An instruction or a fusion that only moves or converts what it is given is a copy. What is brought onto the chip, or
taken back from it as it is, is none; nor is an update in place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qwenperf.program import buffers, lines, traffic
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.loops import Schedule
from qwenperf.program.shapes import HOST_SPACE, Array, array, members
from qwenperf.schema.analysis import BufferCopy

_MOVES = frozenset(
    "copy copy-start transpose reshape convert slice dynamic-slice broadcast pad concatenate reverse slice-start "
    "dynamic-slice-start".split()
)
_REORDERS = frozenset({"transpose", "reshape", "reverse"})
_SLICES = frozenset({"slice", "dynamic-slice", "slice-start", "dynamic-slice-start"})
_OF_ARGUMENTS = frozenset({"slice", "broadcast"})
"""Kinds that are worth telling of arguments only: slices of intermediate values are everywhere."""
_SAME_BYTES = frozenset({"bitcast", "copy-done", "slice-done", "dynamic-slice-done", "optimization-barrier"})
_MADE = frozenset({"constant", "iota", "rng", "partition-id", "replica-id"})
"""What is laid out from nothing is no copy of anything."""
_UPDATE = "dynamic-update-slice"
"""In place by itself; with a move of the whole array around it, it is part of a copy."""
_MOST_STEPS = 200


@dataclass(frozen=True, kw_only=True)
class Movement:
    """How one result came from ``source``, an operation outside: the ``steps`` between, last one first."""

    source: Operation
    steps: tuple[Operation, ...]
    before: Array
    after: Array


def copies(module: Module, schedule: Schedule) -> tuple[BufferCopy, ...]:
    """Return each copy that runs, the largest first: bytes of one run times runs."""
    found = list(_copies(module, schedule))
    return tuple(sorted(found, key=lambda copy: (-copy.bytes * copy.runs, copy.operation, copy.shape)))


def _copies(module: Module, schedule: Schedule) -> Iterator[BufferCopy]:
    for computation, runs in schedule.runs.items():
        for operation in module.computations[computation]:
            for movement in movements(module, operation):
                copy = _copy(module, operation, movement, runs=runs)
                if copy.kind and (copy.buffer or copy.kind not in _OF_ARGUMENTS):
                    yield copy


def movements(module: Module, operation: Operation) -> Iterator[Movement]:
    """Yield how each array that ``operation`` writes to main memory was moved there, where it only was moved."""
    if operation.opcode != "fusion" and operation.opcode not in _MOVES:
        return
    for index, kind in enumerate(members(traffic.result_type(operation))):
        after = array(kind)
        if after is None or after.space != 0:
            continue
        movement = _movement(module, operation, index, after)
        if movement is not None:
            yield movement


def _movement(module: Module, operation: Operation, index: int, after: Array) -> Movement | None:
    """Follow one result back through moves, inside of fusions, to what lies outside of ``operation``."""
    steps: list[Operation] = []
    callers: list[Operation] = []
    current: Operation | None = operation
    for _ in range(_MOST_STEPS):
        if current is None:
            return None
        if current.opcode == "fusion":
            callers.append(current)
            current = module.root(current.calls)
            if current is not None and current.opcode == "tuple":
                current = module.operand(current, index)
            continue
        if current.opcode == "parameter" and callers:
            outer = callers.pop()
            current = module.operand(outer, current.number if current.number is not None else -1)
        elif current.opcode in _MOVES or current.opcode == _UPDATE:
            steps.append(current)
            current = module.operand(current, 0)
        elif current.opcode in _SAME_BYTES:
            current = module.operand(current, 0)
        else:
            return None
        if not callers and any(step.opcode != _UPDATE for step in steps):
            before = array(traffic.result_type(current)) if current else None
            return (
                Movement(source=current, steps=tuple(steps), before=before, after=after) if current and before else None
            )
    return None


def _kind(module: Module, movement: Movement) -> str:
    """Name the kind of a copy; empty for what is none."""
    before, after, opcodes = movement.before, movement.after, {step.opcode for step in movement.steps}
    if before.space == HOST_SPACE or movement.source.opcode in _MADE or before.elements <= 1:
        return ""
    if before.bits != after.bits and "convert" in opcodes:
        return "upcast" if before.bits < after.bits else "downcast"
    if "broadcast" in opcodes and after.elements > before.elements:
        return "broadcast"
    if opcodes & _SLICES and after.elements < before.elements:
        return "slice"
    if opcodes & _REORDERS or any(_reorders(module, step) for step in movement.steps):
        return "relayout"
    return "copy" if before.space == 0 else ""


def _reorders(module: Module, step: Operation) -> bool:
    source = module.operand(step, 0)
    before, after = (array(traffic.result_type(one)) if one else None for one in (source, step))
    if step.opcode not in {"copy", "copy-start"} or before is None or after is None:
        return False
    return before.arrangement != after.arrangement


def _copy(module: Module, operation: Operation, movement: Movement, *, runs: int) -> BufferCopy:
    origin = buffers.argument(module, movement.source, moved=True)
    told = next((one for one in movement.steps if one.source), operation)
    return BufferCopy(
        kind=_kind(module, movement),
        shape=str(movement.after),
        bytes=movement.after.stored_bytes,
        buffer=buffers.dotted(origin.path) if origin else "",
        runs=runs,
        before=_with_layout(movement.before),
        after=_with_layout(movement.after),
        source=lines.line(module, operation) or lines.line(module, told),
        operation=operation.name,
        extra={"argument": origin.shape} if origin else {},
    )


def _with_layout(one: Array) -> str:
    tile = f":T({','.join(map(str, one.tile))})" if one.tile else ""
    space = f"S({one.space})" if one.space else ""
    layout = f"{','.join(map(str, one.order))}{tile or (':' if space else '')}{space}"
    return str(one) + (f"{{{layout}}}" if layout else "")


def describe(copy: BufferCopy) -> str:
    """Say a copy in words: ``copy of `params.w_up` (bf16[24,896,4864]) to another layout, from qwen2.py:88``."""
    whose = f"`{copy.buffer}`" if copy.buffer else "an intermediate value"
    what = {
        "relayout": f"copy of {whose} ({copy.shape}) to another layout",
        "upcast": f"copy of {whose} to {copy.shape}, wider than {copy.before}",
        "downcast": f"copy of {whose} to {copy.shape}, narrower than {copy.before}",
        "slice": f"slice of {whose} copied out ({copy.shape})",
        "broadcast": f"copy of {whose}, repeated to {copy.shape}",
    }.get(copy.kind, f"copy of {whose} ({copy.shape})")
    times = f", {copy.runs} times" if copy.runs > 1 else ""
    return f"{what}{times}{f', from {copy.source}' if copy.source else ''}"
