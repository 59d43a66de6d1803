"""Which branch of a conditional counts: the costliest one, because a call takes one of them.

Cost is bytes moved, or arithmetic where that takes longer, of a branch and all that it runs; an estimate that only
ranks branches. Which one a call really takes depends on data, and nobody knows it here.
"""

from __future__ import annotations

from collections.abc import Mapping

from qwenperf.program import attributes, flops, loops, traffic
from qwenperf.program.flops import Work
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.loops import Loop, Place, Schedule

_FLOPS_A_BYTE = 200.0
"""Roughly what the chips of all generations compute while they read one byte: only ranks."""


def costliest(module: Module, schedule: Schedule) -> Mapping[Place, str]:
    """Return the costliest branch of each conditional that runs; the first one of equal ones."""
    found = [
        operation
        for name in schedule.runs
        for operation in module.computations[name]
        if operation.opcode == "conditional" and len(attributes.branches(operation.attributes)) > 1
    ]
    if not found:
        return {}
    costs = _Costs(module, schedule.loops)
    return {
        (one.computation, one.name): max(attributes.branches(one.attributes), key=costs.of_computation) for one in found
    }


class _Costs:
    """Costs of one run of computations, each reckoned once."""

    def __init__(self, module: Module, known: Mapping[str, Loop]) -> None:
        self._module, self._loops = module, known
        self._inside: Mapping[str, Work] = flops.work(module)
        self._known: dict[str, float] = {}

    def of_computation(self, name: str) -> float:
        """Return the cost of a computation with what it calls; one that calls itself is no HLO and counts once."""
        if name not in self._known:
            self._known[name] = 0.0
            self._known[name] = sum(map(self._of, self._module.computations.get(name, ())))
        return self._known[name]

    def _of(self, operation: Operation) -> float:
        work, moved = flops.of(self._module, operation, self._inside), traffic.of(self._module, operation)
        own = max(moved.bytes, work.flops / _FLOPS_A_BYTE)
        below = [self.of_computation(callee) * times for callee, times in loops.runs_of(operation, self._loops)]
        return own + (max(below, default=0.0) if operation.opcode == "conditional" else sum(below))
