"""How often each computation of a program runs in one call of it.

A loop's body runs as often as the compiler says that the loop does, or as its counter shows; any other loop is counted
once and named. Each branch of a conditional is counted as if it were taken, unless ``branches`` has chosen one. What a
fusion or a reduction contains does not run by itself: it is part of the instruction that names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qwenperf.program import attributes
from qwenperf.program.hlo import CALLS, Module, Operation
from qwenperf.program.trips import trips

Place = tuple[str, str]
"""A computation, and the name of an operation in it."""

_MOST_RUNS = 10**15
"""More than any program runs a loop's body: nested counts beyond it are garbled text."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One ``while``. ``trips`` is ``None`` where the compiler does not know; ``computation`` is where it stands."""

    operation: Operation
    body: str
    condition: str
    trips: int | None


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What runs in one call of a program: ``runs`` by computation, and the ``loops`` by the name of their body.

    ``taken`` are the conditionals of which one branch alone counts.
    """

    runs: Mapping[str, int]
    loops: Mapping[str, Loop]
    taken: Mapping[Place, str] = field(default_factory=dict)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of the loops whose trip count the text does not tell."""
        return tuple(sorted(loop.operation.name for loop in self.loops.values() if loop.trips is None))

    def repeated(self, computation: str) -> bool:
        """Say whether a computation may run more than once a call."""
        return self.runs.get(computation, 0) > 1 or computation in self.loops


def schedule(module: Module, taken: Mapping[Place, str] = MappingProxyType({})) -> Schedule:
    """Return how often each computation runs; those that never run by themselves are left out.

    ``taken`` names the branch of a conditional that counts; of one that is not in it all branches do.
    """
    loops = {loop.body: loop for loop in _loops(module)}
    runs: dict[str, int] = {module.entry: 1} if module.entry else {}
    for name in _callers_first(module):
        for operation in module.computations.get(name, ()):
            for callee, times in runs_of(operation, loops, taken):
                runs[callee] = min(_MOST_RUNS, runs.get(callee, 0) + runs.get(name, 0) * times)
    known = {name: times for name, times in runs.items() if name in module.computations}
    return Schedule(runs=known, loops={body: loop for body, loop in loops.items() if body in known}, taken=taken)


def _loops(module: Module) -> Iterator[Loop]:
    for operation in module.operations:
        if operation.opcode == "while":
            yield Loop(
                operation=operation,
                body=attributes.body(operation.attributes),
                condition=attributes.condition(operation.attributes),
                trips=trips(module, operation),
            )


def runs_of(
    operation: Operation, loops: Mapping[str, Loop], taken: Mapping[Place, str] = MappingProxyType({})
) -> Iterator[tuple[str, int]]:
    """Yield each computation that an operation runs, and how often it runs it each time."""
    text = operation.attributes
    if operation.opcode == "while":
        loop = loops.get(attributes.body(text))
        known = loop.trips if loop else None
        yield attributes.body(text), 1 if known is None else known
        yield attributes.condition(text), 1 if known is None else known + 1
    elif operation.opcode == "conditional":
        chosen = taken.get((operation.computation, operation.name))
        for branch in (chosen,) if chosen is not None else attributes.branches(text):
            yield branch, 1
    elif operation.opcode in CALLS and operation.calls:
        yield operation.calls, 1


def _callers_first(module: Module) -> tuple[str, ...]:
    """Order the computations that run so that each comes behind all that call it; a circle, which is no HLO, is cut."""
    done: dict[str, None] = {}
    open_, stack = {module.entry}, [(module.entry, iter(_callees(module, module.entry)))]
    while stack:
        name, callees = stack[-1]
        callee = next((one for one in callees if one not in done and one not in open_), None)
        if callee is None:
            stack.pop()
            open_.discard(name)
            done[name] = None
        else:
            open_.add(callee)
            stack.append((callee, iter(_callees(module, callee))))
    return tuple(reversed(done))


def _callees(module: Module, name: str) -> tuple[str, ...]:
    found = (callee for operation in module.computations.get(name, ()) for callee, _ in runs_of(operation, {}))
    return tuple(dict.fromkeys(found))
