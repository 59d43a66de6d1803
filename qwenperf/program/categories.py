"""What an instruction is for: a product with weights, attention, a copy, an exchange; told from what it contains.

The words are those of ``traces.categories``, and two that a trace does not tell: prefetch and kernel.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from qwenperf.program import attributes, buffers, collectives
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import arrays

_CONTROL = frozenset({"while", "conditional", "call", "tuple", "get-tuple-element", "parameter", "constant", "bitcast"})
_COPIES = frozenset("copy copy-start transpose reshape slice broadcast pad concatenate reverse slice-start".split())
_GATHERS = frozenset({"gather", "dynamic-slice", "dynamic-slice-start"})
_UPDATES = frozenset({"dynamic-update-slice", "scatter"})
_REDUCTIONS = frozenset({"reduce", "reduce-window", "sort", "topk"})
_HOST = frozenset({"infeed", "outfeed", "send", "recv"})
_PRODUCTS = frozenset({"dot", "convolution"})
_SILENT = frozenset({"parameter", "constant", "bitcast", "tuple", "get-tuple-element", "iota", "broadcast", "fusion"})

CATEGORIES = frozenset(
    {"matmul", "attention", "norm", "cache update", "copy", "convert", "gather", "reduction", "elementwise"}
    | {"collective", "control", "host", "prefetch", "kernel"}
)

_NORM = re.compile(r"norm|root_mean_square", re.IGNORECASE)
_ATTENTION = re.compile(r"attention|attend|softmax|sdpa|attn_(?:weights|scores|logits)", re.IGNORECASE)
_PRODUCT_NAMES = ("dot_general", "conv_general_dilated")
_MOST_INSIDE = 5000


def category(module: Module, operation: Operation, weights: Container[int] = ()) -> str:
    """Return the category of an operation; ``weights`` are the numbers of the arguments that are weights.

    One of ``CATEGORIES``; prefetch is from main memory onto the chip, or back, kernel what the compiler calls and has
    not made.
    """
    inside = tuple(_inside(module, operation))
    opcodes = {one.opcode for one in inside}
    if any(map(collectives.kind, inside)) and not any(map(_is_product, inside)):
        return "collective"
    if opcodes & _HOST or "callback" in attributes.custom_target(operation.attributes):
        return "host"
    if is_prefetch(operation):
        return "prefetch"
    if operation.opcode == "custom-call":
        return "kernel"
    if operation.opcode in _CONTROL:
        return "control"
    return _of_contents(module, operation, inside, weights)


def is_prefetch(operation: Operation) -> bool:
    """Say whether an operation brings an array onto the chip or back as it is, for something else to use."""
    if operation.opcode not in {"copy-start", "slice-start", "dynamic-slice-start"}:
        return False
    return len({one.space == 0 for one in arrays(operation.type) if one.dtype != "u32"}) > 1


def _of_contents(module: Module, operation: Operation, inside: tuple[Operation, ...], weights: Container[int]) -> str:
    opcodes = {one.opcode for one in inside if one.opcode not in _SILENT}
    products = [one for one in inside if _is_product(one)]
    if products:
        attends = any(map(_is_attention, products)) and not _reads_weights(module, operation, weights)
        return "attention" if attends else "matmul"
    if opcodes & _UPDATES:
        return "cache update"
    if any(map(_is_attention, (operation, *inside))):
        return "attention"
    if opcodes <= {*_COPIES, "convert"}:
        return "convert" if "convert" in opcodes else "copy"
    return _of_arithmetic(operation, opcodes)


def _of_arithmetic(operation: Operation, opcodes: set[str]) -> str:
    if _NORM.search(operation.op_name) or _NORM.search(operation.function):
        return "norm"
    if opcodes & _REDUCTIONS:
        return "reduction"
    return "gather" if opcodes & _GATHERS else "elementwise"


def _is_product(operation: Operation) -> bool:
    """See a product by its opcode, or by the name that a reduction keeps where a compiler wrote it as one."""
    if operation.opcode in _PRODUCTS:
        return True
    return operation.opcode == "reduce" and operation.op_name.endswith(_PRODUCT_NAMES)


def _is_attention(operation: Operation) -> bool:
    if "lhs_batch_dims={" in operation.attributes and "lhs_batch_dims={}" not in operation.attributes:
        return True
    if any(axis.base_dilation > 1 for axis in attributes.window(operation.attributes)):
        return True
    file = operation.source.rpartition("/")[2]
    return bool(
        _ATTENTION.search(operation.op_name) or _ATTENTION.search(operation.function) or _ATTENTION.search(file)
    )


def _reads_weights(module: Module, operation: Operation, weights: Container[int]) -> bool:
    """Say whether weights are multiplied: then it is a projection, whatever file it is from."""
    for name in operation.operands:
        given = module.known.get((operation.computation, name))
        origin = buffers.argument(module, given, moved=True) if given else None
        if origin is not None and origin.number in weights:
            return True
    return False


def _inside(module: Module, operation: Operation) -> Iterator[Operation]:
    """Yield an operation and all that its fusion contains."""
    stack, seen = [operation], set[tuple[str, str]]()
    while stack and len(seen) < _MOST_INSIDE:
        one = stack.pop()
        if (one.computation, one.name) in seen:
            continue
        seen.add((one.computation, one.name))
        yield one
        if one.opcode == "fusion":
            stack += module.computations.get(one.calls, ())
