"""Which line of source an instruction is to be told by: its own, that of its result inside a fusion, or its user's.

Compilers put instructions in without a line of their own: a product rewritten for one row, a copy before a loop. What
uses their result leads to the line that they are for.
"""

from __future__ import annotations

from collections.abc import Iterator

from qwenperf.program.facts import short_source
from qwenperf.program.hlo import CALLS, Module, Operation

_MOST_STEPS = 12
"""Users of users that are asked: far ones say little of where an instruction is from."""


def line(module: Module, operation: Operation) -> str:
    """Return ``file:line`` of an instruction; empty where neither it nor what uses it has one."""
    for one in _nearby(module, operation):
        if one.source:
            return short_source(one)
    return ""


def _nearby(module: Module, operation: Operation) -> Iterator[Operation]:
    """Yield an operation, the result of its fusion, and what uses it, nearest first."""
    waiting, seen = [operation], set[tuple[str, str]]()
    while waiting and len(seen) < _MOST_STEPS:
        one = waiting.pop(0)
        if (one.computation, one.name) in seen:
            continue
        seen.add((one.computation, one.name))
        yield one
        root = module.root(one.calls) if one.opcode == "fusion" else None
        if root is not None:
            yield root
        if one.root and one.computation != module.entry:
            waiting += [caller for caller in module.callers.get(one.computation, ()) if caller.opcode in CALLS]
        for user, position in module.users.get((one.computation, one.name), ()):
            waiting += _first_inside(module, user, position)
            waiting.append(user)


def _first_inside(module: Module, user: Operation, position: int) -> list[Operation]:
    """Return what uses operand ``position`` inside a fusion."""
    if user.opcode != "fusion":
        return []
    names = [one.name for one in module.computations.get(user.calls, ()) if one.number == position]
    return [use for name in names for use, _ in module.users.get((user.calls, name), ())]
