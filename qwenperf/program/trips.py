"""How often a loop runs: as the compiler says, or as its counter shows.

Some compilers write the number down. Of the others a counter is followed: a whole number in the loop's state that
begins at a constant, grows by a constant in the body, and is compared with a constant in the condition.
"""

from __future__ import annotations

from dataclasses import dataclass

from qwenperf.program import attributes
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import whole_number

_PASSED_ON = frozenset({"copy", "bitcast", "copy-done", "copy-start", "reshape", "convert", "broadcast"})
_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE"}
_MOST_DEPTH = 16
_MOST_TRIPS = 10**12


@dataclass(frozen=True, kw_only=True)
class _Term:
    """A whole number: ``offset`` more than member ``member`` of a loop's state, or ``offset`` alone."""

    member: int | None
    offset: int


def trips(module: Module, loop: Operation) -> int | None:
    """Return how often a ``while`` runs; ``None`` where that depends on data, or nobody can tell."""
    told = attributes.trip_count(loop.attributes)
    if told is not None:
        return told
    condition = module.root(attributes.condition(loop.attributes))
    compared = _compared(module, loop, condition) if condition else None
    if compared is None:
        return None
    counter, bound, direction = compared
    begin, step = _initial(module, loop, counter), _step(module, loop, counter)
    if begin is None or not step:
        return None
    return _count(begin, step, bound, direction)


def _compared(module: Module, loop: Operation, root: Operation) -> tuple[int, int, str] | None:
    """Return the member of the state that a condition compares, the bound, and how: member, direction, bound."""
    callers: tuple[Operation, ...] = ()
    if root.opcode == "fusion":
        inner = module.root(root.calls)
        callers, root = (root,), inner or root
    direction = attributes.direction(root.attributes)
    left, right = (_term(module, loop, module.operand(root, number), callers) for number in (0, 1))
    if root.opcode != "compare" or direction not in _MIRRORED or left is None or right is None:
        return None
    if left.member is None:
        left, right, direction = right, left, _MIRRORED[direction]
    if left.member is None or right.member is not None:
        return None
    return left.member, right.offset - left.offset, direction


def _step(module: Module, loop: Operation, member: int) -> int | None:
    """Return by how much a round of the body changes a member of the state."""
    root = module.root(attributes.body(loop.attributes))
    made = module.operand(root, member) if root and root.opcode == "tuple" else None
    term = _term(module, loop, made, ())
    return term.offset if term and term.member == member else None


def _initial(module: Module, loop: Operation, member: int) -> int | None:
    """Return the constant that a member of the state begins with."""
    state = module.operand(loop, 0)
    current = module.operand(state, member) if state and state.opcode == "tuple" else None
    for _ in range(_MOST_DEPTH):
        if current is None or current.opcode not in _PASSED_ON:
            break
        current = module.operand(current, 0)
    return whole_number(current.inside) if current and current.opcode == "constant" else None


def _term(
    module: Module, loop: Operation, operation: Operation | None, callers: tuple[Operation, ...], depth: int = 0
) -> _Term | None:
    """Follow a whole number back to the loop's state; ``callers`` are the fusions that are looked into."""
    if operation is None or depth > _MOST_DEPTH:
        return None
    if operation.opcode == "constant":
        value = whole_number(operation.inside)
        return None if value is None else _Term(member=None, offset=value)
    if operation.opcode == "get-tuple-element" and not callers:
        return _member(module, loop, operation)
    if operation.opcode in {"add", "subtract"}:
        left, right = (_term(module, loop, module.operand(operation, number), callers, depth + 1) for number in (0, 1))
        return _sum(left, right, sign=1 if operation.opcode == "add" else -1)
    further, callers = _before(module, operation, callers)
    return _term(module, loop, further, callers, depth + 1)


def _before(
    module: Module, operation: Operation, callers: tuple[Operation, ...]
) -> tuple[Operation | None, tuple[Operation, ...]]:
    """Step back through what hands a number on, into fusions and out of them."""
    if operation.opcode == "parameter" and callers and operation.number is not None:
        return module.operand(callers[-1], operation.number), callers[:-1]
    if operation.opcode == "fusion":
        return module.root(operation.calls), (*callers, operation)
    return (module.operand(operation, 0) if operation.opcode in _PASSED_ON else None), callers


def _member(module: Module, loop: Operation, operation: Operation) -> _Term | None:
    """Return a member of the state, or the constant that it is in every round."""
    given = module.operand(operation, 0)
    if given is None or given.opcode != "parameter":
        return None
    index = attributes.count_from_zero(operation.attributes, "index")
    begin = _initial(module, loop, index)
    if begin is not None and module.hands_on(attributes.body(loop.attributes), index):
        return _Term(member=None, offset=begin)
    return _Term(member=index, offset=0)


def _sum(left: _Term | None, right: _Term | None, *, sign: int) -> _Term | None:
    if left is None or right is None or (left.member is not None and right.member is not None):
        return None
    if right.member is not None and sign < 0:
        return None
    member = left.member if left.member is not None else right.member
    return _Term(member=member, offset=left.offset + sign * right.offset)


def _count(begin: int, step: int, bound: int, direction: str) -> int | None:
    """Count the rounds of ``for (i = begin; i <direction> bound; i += step)``; ``None`` where it never ends."""
    if direction == "NE":
        rounds, rest = divmod(bound - begin, step)
        return rounds if not rest and 0 <= rounds < _MOST_TRIPS else None
    upwards = direction in {"LT", "LE"}
    if upwards != (step > 0):
        return None
    distance = (bound - begin) * (1 if upwards else -1) + (direction in {"LE", "GE"})
    return min(_MOST_TRIPS, max(0, -(-distance // abs(step))))
