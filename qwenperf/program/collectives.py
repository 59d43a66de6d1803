"""Exchanges between devices that a program makes, those inside of fusions and loops too."""

from __future__ import annotations

from collections.abc import Iterator

from qwenperf.program import attributes, buffers, traffic
from qwenperf.program.facts import short_source
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.loops import Schedule
from qwenperf.program.shapes import array, arrays
from qwenperf.schema.analysis import Collective

KINDS = frozenset(
    "all-reduce all-gather reduce-scatter all-to-all collective-permute collective-broadcast ragged-all-to-all".split()
)


def collectives(module: Module, schedule: Schedule) -> tuple[Collective, ...]:
    """Return each exchange that runs, the largest first: bytes of one run times runs."""
    found = list(_collectives(module, schedule))
    return tuple(sorted(found, key=lambda one: (-one.bytes * one.runs, one.operation)))


def kind(operation: Operation) -> str:
    """Return the kind of exchange that an operation is or starts; empty where it is none."""
    opcode = operation.opcode.removesuffix("-start")
    return opcode if opcode in KINDS else ""


def _collectives(module: Module, schedule: Schedule) -> Iterator[Collective]:
    for computation, runs in schedule.runs.items():
        per_layer = is_per_layer(module, schedule, computation)
        seen: set[str] = set()
        for operation in module.computations[computation]:
            for one in _inside(module, operation):
                channel = attributes.channel(one.attributes) if one is not operation else ""
                # One exchange that goes on during several fusions is written in each of them.
                if channel not in seen or not channel:
                    seen.add(channel)
                    yield _collective(module, one, told=operation, runs=runs, per_layer=per_layer)


def _inside(module: Module, operation: Operation) -> Iterator[Operation]:
    """Yield the exchanges that an operation is or contains."""
    if kind(operation):
        yield operation
    elif operation.opcode == "fusion":
        yield from (one for one in module.computations.get(operation.calls, ()) if kind(one))


def is_per_layer(module: Module, schedule: Schedule, computation: str) -> bool:
    """Say whether a computation runs once a layer: the body of a loop over what stacked arguments hold."""
    loop = schedule.loops.get(computation)
    if loop is None or not loop.trips or loop.trips < 2:
        return False
    return any(_has_stack(module, loop.trips, operation) for operation in module.computations[computation])


def _has_stack(module: Module, trips: int, operation: Operation) -> bool:
    if operation.opcode != "get-tuple-element":
        return False
    one = array(operation.type)
    if one is None or len(one.sizes) < 2 or one.sizes[0] != trips:
        return False
    return buffers.argument(module, operation, moved=True) is not None


def _collective(module: Module, operation: Operation, *, told: Operation, runs: int, per_layer: bool) -> Collective:
    results = arrays(traffic.result_type(operation))
    source = operation if operation.source else told
    extra: dict[str, object] = {}
    group = attributes.group_size(operation.attributes)
    if group:
        extra["group"] = group
    given = module.operand(operation, 0)
    origin = buffers.argument(module, given, moved=True) if given else None
    if origin:
        extra["buffer"] = buffers.dotted(origin.path)
    return Collective(
        kind=kind(operation),
        shape=", ".join(map(str, results)),
        bytes=sum(one.stored_bytes for one in results),
        runs=runs,
        per_layer=per_layer,
        source=short_source(source) if source.source else "",
        operation=operation.name,
        extra=extra,
    )
