"""What one run of an instruction costs, from shapes: arithmetic, and bytes read and written.

An update in place and a slice count only what they touch. These are lower bounds of what a device does: a place on a
roofline, not a measurement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from qwenperf.schema.products import is_product, product_flops
from qwenperf.traces.hlo_proto import Computation, Instruction, Module, Shape

_FREE = {"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "while", "conditional", "call", "after-all"}
_MOVES = {"copy", "transpose", "reshape", "broadcast", "concatenate", "pad", "reverse", "iota", "convert", "fusion"}
_SLICES = {"dynamic-slice", "gather", "slice"}
_UPDATE = "dynamic-update-slice"


def inside(module: Module, instruction: Instruction) -> Iterator[tuple[Computation, Instruction]]:
    """Yield what a fusion computes, with the computation that holds it."""
    for number in instruction.calls:
        called = module.computations.get(number)
        if called is not None:
            yield from ((called, one) for one in called.instructions.values() if one.opcode != "parameter")


def flops(computation: Computation, instruction: Instruction) -> int:
    """Return the arithmetic of one instruction: two operations a term of a product, one an element of the rest.

    Nothing is known of what a custom call computes, unless it is a product.
    """
    if instruction.opcode in _FREE | _MOVES | _SLICES | {_UPDATE}:
        return 0
    operand = computation.instructions.get(instruction.operands[0]) if instruction.operands else None
    if instruction.opcode == "dot" and operand is not None:
        sizes = operand.shape.sizes
        summed = math.prod(sizes[axis] for axis in instruction.contracted if axis < len(sizes))
        return 2 * instruction.shape.elements * summed
    if instruction.opcode == "custom-call":
        return _called_flops(computation, instruction) if _is_called_product(instruction) else 0
    if instruction.opcode in {"reduce", "reduce-window"} and operand is not None:
        return operand.shape.elements
    return instruction.shape.elements


def _is_called_product(instruction: Instruction) -> bool:
    return instruction.opcode == "custom-call" and is_product(instruction.target)


def _called_flops(computation: Computation, instruction: Instruction) -> int:
    """Return the operations of a library's product, whose first two operands are multiplied."""
    factors = [
        computation.instructions[one].shape for one in instruction.operands[:2] if one in computation.instructions
    ]
    return round(product_flops(factors[0].sizes, factors[1].sizes, _made(instruction).sizes)) if len(factors) > 1 else 0


def _made(instruction: Instruction) -> Shape:
    """Return the shape of what an instruction makes: a library's product also returns the room that it worked in."""
    parts = instruction.shape.parts
    return parts[0] if parts and _is_called_product(instruction) else instruction.shape


def moved_bytes(module: Module, computation: Computation, instruction: Instruction) -> int:
    """Return the bytes of operands and result that one run touches."""
    if instruction.opcode in _FREE:
        return 0
    operands = [computation.instructions[one] for one in instruction.operands if one in computation.instructions]
    if instruction.opcode in {"dynamic-slice", "gather"}:
        return 2 * instruction.shape.bytes
    if instruction.opcode == _UPDATE and len(operands) > 1:
        return 2 * operands[1].shape.bytes
    called = module.computations.get(instruction.calls[0]) if instruction.calls else None
    if instruction.opcode == "fusion" and called is not None:
        return _fused_bytes(called, operands)
    return _made(instruction).bytes + sum(one.shape.bytes for one in operands)


def _fused_bytes(called: Computation, operands: list[Instruction]) -> int:
    results = list(_results(called))
    updates = [update for result in results if (update := _update(called, result)) is not None]
    total = sum(_written_bytes(called, result) for result in results)
    for parameter in called.instructions.values():
        if parameter.opcode == "parameter" and parameter.number < len(operands):
            total += _read_bytes(called, parameter, operands[parameter.number], updates)
    return total


def _results(called: Computation) -> Iterator[Instruction]:
    """Yield what a fusion makes: one array, or each of several."""
    root = called.instructions.get(called.root)
    made = root.operands if root is not None and root.opcode == "tuple" else (called.root,)
    yield from (called.instructions[number] for number in made if number in called.instructions)


def _written_bytes(called: Computation, result: Instruction) -> int:
    update = _update(called, result)
    part = called.instructions.get(update.operands[1]) if update is not None else result
    return part.shape.bytes if part is not None else 0


def _update(called: Computation, result: Instruction) -> Instruction | None:
    """Return the update in place that one result of a fusion is, if it is one."""
    made: Instruction | None = result
    while made is not None and made.opcode in {"bitcast", "copy"} and made.operands:
        made = called.instructions.get(made.operands[0])
    return made if made is not None and made.opcode == _UPDATE and len(made.operands) > 1 else None


def _read_bytes(called: Computation, parameter: Instruction, operand: Instruction, updates: list[Instruction]) -> int:
    users = [one for one in called.instructions.values() if parameter.id in one.operands]
    if users and all(one in updates and one.operands[0] == parameter.id for one in users):
        return 0
    if users and all(one.opcode in _SLICES and one.operands[0] == parameter.id for one in users):
        return sum(one.shape.bytes for one in users)
    return operand.shape.bytes
