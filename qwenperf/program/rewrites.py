"""Cache arrays that a program computes anew as a whole, where it should write one position.

``where(position == i, new, old)`` gives the right values, aliases its buffer, and contains no copy; yet it reads and
writes the whole array at every token. So does an update of one position that is converted to another dtype and back
as a whole, which XLA makes on a CPU of some caches in bf16. Seen from the result backwards: what leaves the program, or
the body of a loop, in the shape of a cache array comes from an update of a slice, or it is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from qwenperf.program.facts import is_shape, short_source
from qwenperf.program.hlo import Module, Operation

_UPDATES = {"dynamic-update-slice", "scatter"}
_PASSED_ON = {"bitcast", "get-tuple-element", "copy", "copy-start", "copy-done", "optimization-barrier"}
_ELEMENTWISE = {"select", "add", "multiply", "concatenate", "pad", "convert", "or", "maximum"}
_CONVERTED = {"convert", "bitcast", "copy"}
_MOST_STEPS = 1000


def rewrites(module: Module, shapes: Iterable[str]) -> tuple[str, ...]:
    """Name each array of one of ``shapes`` that leaves the program or a loop's body and was computed as a whole."""
    return _named(module, tuple(shapes), _computes_whole)


def converted(module: Module, shapes: Iterable[str]) -> tuple[str, ...]:
    """Name each array of one of ``shapes`` of which one position was updated, and the whole converted there and back.

    The work of a compiler that has no update in the array's dtype: no line of the user's asks for it.
    """
    return _named(module, tuple(shapes), _converts_whole)


def _named(module: Module, wanted: tuple[str, ...], is_whole: Callable[[Module, Operation], bool]) -> tuple[str, ...]:
    found = (
        f"{made.name}: {made.shape} rewritten as a whole in {made.computation}{_from(module, made)}"
        for made in _results(module)
        if is_shape(made.shape, wanted) and is_whole(module, made)
    )
    return tuple(dict.fromkeys(found)) if wanted else ()


def _results(module: Module) -> Iterator[Operation]:
    """Yield what makes each array that leaves the program or a loop's body."""
    for root in module.operations:
        if root.root and root.opcode == "tuple":
            makers = (_maker(module, module.operand(root, number)) for number in range(len(root.operands)))
            yield from (made for made in makers if made is not None)
        elif root.root and root.computation == module.entry:  # one result is in no tuple
            made = _maker(module, root)
            yield from (made,) if made is not None else ()


def _maker(module: Module, operation: Operation | None) -> Operation | None:
    """Return the operation behind a result that does work: what only passes an array on is looked through."""
    for _ in range(_MOST_STEPS):
        if operation is None or operation.opcode not in _PASSED_ON or not operation.operands:
            return operation
        operation = module.operand(operation, 0)
    return None


def _computes_whole(module: Module, operation: Operation) -> bool:
    if operation.opcode in {"fusion", "call"}:
        opcodes = _opcodes(module, operation.calls)
        return bool(opcodes & _ELEMENTWISE) and not opcodes & _UPDATES
    return operation.opcode in _ELEMENTWISE


def _converts_whole(module: Module, operation: Operation) -> bool:
    """Say whether a fusion's result is an update with a conversion of the whole array before or behind it."""
    current = module.root(operation.calls) if operation.opcode == "fusion" else operation
    updated = is_converted = False
    for _ in range(_MOST_STEPS):
        if current is None or current.opcode not in _CONVERTED | _UPDATES:
            break
        updated |= current.opcode in _UPDATES
        is_converted |= current.opcode == "convert"
        current = module.operand(current, 0)
    return updated and is_converted


def _opcodes(module: Module, computation: str) -> set[str]:
    """Return the opcodes of a computation and of all that it calls."""
    found: set[str] = set()
    stack, seen = [computation], {""}
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        for operation in module.computations.get(name, ()):
            found.add(operation.opcode)
            stack.append(operation.calls)
    return found


def _from(module: Module, operation: Operation) -> str:
    inside = [module.root(operation.calls)] if operation.calls else []
    told = next((one for one in (operation, *inside) if one and (one.source or one.op_name)), None)
    return "" if told is None else f" from {short_source(told)}"
