"""What each instruction of a program costs in one call of it, loops counted as often as they run.

Instructions that differ in their names alone (one a layer, where the layers are unrolled) are one entry, so that the
scanned and the unrolled form of a model read alike.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

from qwenperf.program import attributes, buffers, flops, lines, traffic
from qwenperf.program.categories import category
from qwenperf.program.flops import Work
from qwenperf.program.hlo import Module, Operation, Parameter
from qwenperf.program.loops import Schedule
from qwenperf.program.shapes import arrays, without_layout
from qwenperf.program.traffic import Traffic
from qwenperf.schema.analysis import OperationCost

_FLOPS_A_BYTE = 200.0
"""Roughly what the chips of all generations compute while they read one byte: only orders the list."""


INT8 = "int8_flops"
"""What ``extra`` calls products of whole numbers of 8 bits, part of ``flops``."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One instruction that runs ``runs`` times a call; ``work`` and ``traffic`` are of one run."""

    operation: Operation
    runs: int
    work: Work
    traffic: Traffic


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over one call. ``weight_bytes`` are read of weights where they lie, ``state_bytes`` of other arguments.

    ``unread_weight_bytes`` are those of the weights that no instruction reads, such as the rows of a table that are not
    looked up; the others are read ``weight_passes`` times, once a step where a call makes several. ``int8_flops`` are
    part of ``flops``: products of whole numbers of 8 bits.
    """

    flops: float
    int8_flops: float
    other: float
    bytes: float
    weight_bytes: float
    state_bytes: float
    unread_weight_bytes: float
    weight_passes: float
    cycles: float
    without_cycles: int


def steps(module: Module, schedule: Schedule) -> tuple[Step, ...]:
    """Return every instruction that runs and costs anything."""
    return tuple(_steps(module, schedule))


def _steps(module: Module, schedule: Schedule) -> Iterator[Step]:
    inside = flops.work(module)
    for computation, runs in schedule.runs.items():
        for operation in module.computations[computation]:
            work, moved = flops.of(module, operation, inside), traffic.of(module, operation)
            if work != flops.NOTHING or moved != traffic.NONE or attributes.cycles(operation.attributes):
                yield Step(operation=operation, runs=runs, work=work, traffic=moved)


def totals(module: Module, found: tuple[Step, ...], weights: Container[int]) -> Totals:
    """Sum up what one call costs; ``weights`` are the numbers of the arguments that are weights."""
    read = _read_by_argument(module, found)
    weight_bytes = sum(moved for number, moved in read.items() if number in weights)
    known = {one.number: _bytes(one) for one in module.parameters if one.number in weights}
    once = sum(min(size, read.get(number, 0.0)) for number, size in known.items())
    cycles = [(attributes.cycles(step.operation.attributes), step) for step in found]
    return Totals(
        flops=sum(step.work.flops * step.runs for step in found),
        int8_flops=sum(step.work.int8 * step.runs for step in found),
        other=sum(step.work.other * step.runs for step in found),
        bytes=sum(step.traffic.bytes * step.runs for step in found),
        weight_bytes=weight_bytes,
        state_bytes=sum(moved for number, moved in read.items() if number not in weights),
        unread_weight_bytes=_unread(module, found, read, known),
        weight_passes=weight_bytes / once if once else 1.0,
        cycles=sum(value * step.runs for value, step in cycles if value),
        without_cycles=sum(step.runs for value, step in cycles if not value and step.traffic.bytes),
    )


def _read_by_argument(module: Module, found: tuple[Step, ...]) -> Mapping[int, float]:
    """Return the bytes that are read in one call of each argument where it lies, by its number."""
    read: dict[int, float] = {}
    for step in found:
        for one in step.traffic.reads:
            origin = _origin(module, step, one.operand)
            if origin is not None:
                read[origin.number] = read.get(origin.number, 0.0) + one.logical * step.runs
    return read


def _unread(module: Module, found: tuple[Step, ...], read: Mapping[int, float], known: Mapping[int, float]) -> float:
    """Return the bytes of weights that nothing reads; a kernel that tells its bytes may read all that it is given."""
    told = [step for step in found if "bytes_accessed" in attributes.kernel_cost(step.operation.attributes)]
    origins = (_origin(module, step, name) for step in told for name in step.operation.operands)
    given = {one.number for one in origins if one is not None}
    return sum(max(0.0, size - read.get(number, 0.0)) for number, size in known.items() if number not in given)


def _bytes(parameter: Parameter) -> float:
    return float(sum(one.bytes for one in arrays(parameter.type)))


def _origin(module: Module, step: Step, operand: str) -> Parameter | None:
    given = module.known.get((step.operation.computation, operand))
    return buffers.argument(module, given) if given else None


def operations(
    module: Module, found: tuple[Step, ...], weights: Container[int], *, most: int | None = None
) -> tuple[OperationCost, ...]:
    """Return the costs of all steps, alike ones as one entry, the costliest first and at most ``most`` of them."""
    merged: dict[tuple[str, ...], OperationCost] = {}
    for step in found:
        cost = _cost(module, step, weights)
        key = (cost.opcode, cost.category, cost.shape, cost.source, cost.op_name)
        merged[key] = _together(merged[key], cost) if key in merged else cost
    ordered = sorted(merged.values(), key=lambda cost: (-weight(cost), cost.name))
    return tuple(ordered[:most])


def weight(cost: OperationCost) -> float:
    """Return a measure of how much an operation costs, without a chip: bytes, or operations where they take longer."""
    return max(cost.bytes, cost.flops / _FLOPS_A_BYTE)


def by_category(costs: tuple[OperationCost, ...]) -> Mapping[str, Mapping[str, float]]:
    """Sum operations and bytes by category, the largest first."""
    found: dict[str, dict[str, float]] = {}
    for cost in costs:
        one = found.setdefault(cost.category, {"flops": 0.0, "bytes": 0.0, "runs": 0.0})
        one["flops"] += cost.flops
        one["bytes"] += cost.bytes
        one["runs"] += cost.runs
    return dict(sorted(found.items(), key=lambda item: -item[1]["bytes"]))


def _cost(module: Module, step: Step, weights: Container[int]) -> OperationCost:
    operation = step.operation
    told = attributes.cycles(operation.attributes)
    return OperationCost(
        name=operation.name,
        opcode=operation.opcode,
        category=category(module, operation, weights),
        shape=shape(operation),
        source=lines.line(module, operation),
        op_name=operation.op_name,
        computation=operation.computation,
        runs=step.runs,
        flops=step.work.flops * step.runs,
        bytes=step.traffic.bytes * step.runs,
        cycles=told * step.runs if told else None,
        extra={INT8: step.work.int8 * step.runs} if step.work.int8 else {},
    )


def _int8(*costs: OperationCost) -> dict[str, float]:
    total = sum(float(one.extra.get(INT8, 0.0)) for one in costs)
    return {INT8: total} if total else {}


def shape(operation: Operation) -> str:
    """Return the shape of what an operation makes; of what is prefetched that of the array."""
    return without_layout(traffic.result_type(operation)) if operation.opcode.endswith("-start") else operation.shape


def _together(first: OperationCost, more: OperationCost) -> OperationCost:
    cycles = None if first.cycles is None and more.cycles is None else (first.cycles or 0.0) + (more.cycles or 0.0)
    return replace(
        first,
        runs=first.runs + more.runs,
        flops=first.flops + more.flops,
        bytes=first.bytes + more.bytes,
        cycles=cycles,
        extra={"instances": int(first.extra.get("instances", 1)) + 1, **_int8(first, more)},
    )
