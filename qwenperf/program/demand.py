"""How much a fusion needs of what it is given: all of it, or the part that a slice inside takes.

A fusion computes only what its result needs. Followed from the result backwards as a share of each array: a slice needs
its part, arithmetic as much as is needed of its result, a product everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import arrays

_SLICES = frozenset({"slice", "dynamic-slice", "gather"})
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})
_WHOLE = frozenset({"dot", "convolution", "custom-call", "sort", "get-tuple-element", "tuple"})
_LOOKED_THROUGH = frozenset({"bitcast", "reshape", *_UPDATES})
_MOST_STEPS = 1000
_MOST_DEPTH = 30


def needs(module: Module, computation: str) -> Mapping[int, float]:
    """Return the share of each parameter of a fusion's computation that its result needs, from 0 to 1."""
    return _needs(module, computation, {}, 0)


def _needs(module: Module, computation: str, known: dict[str, Mapping[int, float]], depth: int) -> Mapping[int, float]:
    if computation in known or depth > _MOST_DEPTH:
        return known.get(computation, {})
    known[computation] = {}
    operations = module.computations.get(computation, ())
    shares = {operation.name: 1.0 for operation in operations if operation.root}
    # What is used stands before what uses it.
    for operation in reversed(operations):
        share = shares.get(operation.name, 0.0)
        inner = _needs(module, operation.calls, known, depth + 1) if share and operation.opcode == "fusion" else None
        for position, name in enumerate(operation.operands):
            part = _part(module, operation, position, inner) * share if share else 0.0
            shares[name] = min(1.0, shares.get(name, 0.0) + part)
    known[computation] = {
        one.number: shares.get(one.name, 0.0) for one in operations if one.number is not None
    }  # fmt: skip
    return known[computation]


def _part(module: Module, operation: Operation, position: int, inner: Mapping[int, float] | None) -> float:
    """Return the share of an operand that the whole of a result needs."""
    opcode = operation.opcode
    if inner is not None:
        return inner.get(position, 1.0)
    if opcode in _UPDATES and position == 0:
        return 0.0 if is_given(module, operation) else 1.0
    if opcode in _WHOLE or opcode in _UPDATES or (opcode in _SLICES and position > 0):
        return 1.0
    given = module.operand(operation, position)
    whole = _elements(given.type) if given else 0
    made = _elements(operation.type)
    if not whole or (opcode not in _SLICES and made <= whole):
        return 1.0
    return min(1.0, made / whole)


def is_given(module: Module, update: Operation) -> bool:
    """Say whether an update inside a fusion writes into what the fusion was given, and so in place."""
    current: Operation | None = update
    for _ in range(_MOST_STEPS):
        if current is None or current.opcode == "parameter":
            return True
        if current.opcode not in _LOOKED_THROUGH:
            return False
        current = module.operand(current, 0)
    return False


def _elements(text: str) -> int:
    return sum(math.prod(one.sizes) for one in arrays(text))
