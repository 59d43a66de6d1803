"""Cache arrays that a program computes anew as a whole, where it should write one position.

``where(position == i, new, old)`` gives the right values, aliases its buffer, and contains no copy; yet it reads and
writes the whole array at every token. Seen from the result backwards: what leaves the program, or the body of a loop,
in the shape of a cache array comes from an update of a slice, or it is rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from qwenperf.program.facts import is_shape, short_source
from qwenperf.program.hlo import Module, Operation

_UPDATES = {"dynamic-update-slice", "scatter"}
_PASSED_ON = {"bitcast", "get-tuple-element", "copy", "copy-start", "copy-done", "optimization-barrier"}
_ELEMENTWISE = {"select", "add", "multiply", "concatenate", "pad", "convert", "or", "maximum"}


def rewrites(module: Module, shapes: Iterable[str]) -> tuple[str, ...]:
    """Name each array of one of ``shapes`` that leaves the program or a loop's body and was computed as a whole."""
    wanted = tuple(shapes)
    found = dict.fromkeys(_rewrites(module, wanted)) if wanted else {}
    return tuple(found)


def _rewrites(module: Module, wanted: tuple[str, ...]) -> Iterator[str]:
    known = {(operation.computation, operation.name): operation for operation in module.operations}
    bodies: dict[str, list[Operation]] = {}
    for operation in module.operations:
        bodies.setdefault(operation.computation, []).append(operation)
    for root in module.operations:
        if not root.root or root.opcode != "tuple":
            continue
        for name in root.operands:
            made = _maker(known, root.computation, name)
            if made is not None and is_shape(made.shape, wanted) and _computes_whole(made, bodies):
                yield f"{made.name}: {made.shape} rewritten as a whole in {made.computation}{_from(made, bodies)}"


def _maker(known: Mapping[tuple[str, str], Operation], computation: str, name: str) -> Operation | None:
    """Return the operation behind ``name`` that does work: what only passes an array on is looked through."""
    operation = known.get((computation, name))
    while operation is not None and operation.opcode in _PASSED_ON and operation.operands:
        operation = known.get((computation, operation.operands[0]))
    return operation


def _computes_whole(operation: Operation, bodies: Mapping[str, list[Operation]]) -> bool:
    if operation.opcode in {"fusion", "call"}:
        opcodes = set(_opcodes(operation.calls, bodies))
        return bool(opcodes & _ELEMENTWISE) and not opcodes & _UPDATES
    return operation.opcode in _ELEMENTWISE


def _opcodes(computation: str, bodies: Mapping[str, list[Operation]]) -> Iterator[str]:
    """Yield the opcodes of a computation and of all that it calls."""
    for operation in bodies.get(computation, ()):
        yield operation.opcode
        if operation.calls and operation.calls != computation:
            yield from _opcodes(operation.calls, bodies)


def _from(operation: Operation, bodies: Mapping[str, list[Operation]]) -> str:
    inside = [one for one in bodies.get(operation.calls, ()) if one.root]
    told = next((one for one in (operation, *inside) if one.source or one.op_name), None)
    return "" if told is None else f" from {short_source(told)}"
