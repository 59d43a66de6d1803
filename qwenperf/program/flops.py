"""Floating-point operations of an instruction, from its shapes.

A product counts two operations for each pair of numbers that it multiplies and adds, other arithmetic one for each
element. Conversions, comparisons, selections, integer arithmetic and functions such as ``exp`` are counted apart, as
``other``: no chip's published peak is about them, while a compiler's own count may hold them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from qwenperf.program import attributes
from qwenperf.program.attributes import Dimension
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import Array, array, arrays
from qwenperf.schema.products import is_product, product_flops

_ARITHMETIC = frozenset("add subtract multiply divide maximum minimum negate abs remainder round-nearest-even".split())
_OTHER = frozenset(
    "convert compare select clamp and or xor not exponential exponential-minus-one log log-plus-one power sqrt rsqrt "
    "cbrt tanh sine cosine tan atan2 logistic erf floor ceil sign shift-left shift-right-logical "
    "shift-right-arithmetic is-finite round-nearest-afz popcnt reduce-precision map".split()
)
_FLOATING = ("f", "bf", "c")
_INT8 = frozenset({"s8", "u8", "s4", "u4"})
_NO_ARITHMETIC = frozenset({"parameter", "constant", "convert", "bitcast", "tuple"})
_MOST_PLACES = 10**6
_MOST_PAIRS = 10**30
"""More than any program computes; beyond it a text is garbled."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What is computed: ``products`` are the operations of matrix products, part of ``flops``.

    ``int8`` are those of them that multiply whole numbers of 8 bits or less, for which a chip has a peak of its own.
    """

    flops: float = 0.0
    products: float = 0.0
    other: float = 0.0
    int8: float = 0.0

    def __add__(self, more: Work) -> Work:
        return Work(
            flops=self.flops + more.flops,
            products=self.products + more.products,
            other=self.other + more.other,
            int8=self.int8 + more.int8,
        )


NOTHING = Work()


def work(module: Module) -> Mapping[str, Work]:
    """Return the work of one run of each computation by itself: what its loops and branches run is left to them."""
    done: dict[str, Work] = {}
    for name in module.computations:
        _fill(module, name, done)
    return done


def of(module: Module, operation: Operation, inside: Mapping[str, Work]) -> Work:
    """Return the work of one run of ``operation``; ``inside`` is that of the computations of its module."""
    if operation.opcode == "fusion":
        return inside.get(operation.calls, NOTHING)
    return _alone(module, operation)


def _fill(module: Module, name: str, done: dict[str, Work]) -> None:
    """Fill in a computation's work, those inside its fusions first; a circle, which is no HLO, counts as nothing."""
    stack = [name]
    while stack:
        current = stack[-1]
        operations = module.computations.get(current, ())
        missing = [
            one.calls
            for one in operations
            if one.opcode == "fusion" and one.calls not in done and one.calls not in stack
        ]
        if missing:
            stack.append(missing[0])
            continue
        done[current] = sum((of(module, one, done) for one in operations), NOTHING)
        stack.pop()


def _alone(module: Module, operation: Operation) -> Work:
    counted = _COUNTED.get(operation.opcode)
    if counted:
        return counted(module, operation)
    result, opcode = array(operation.type), operation.opcode
    if result is None:
        return NOTHING
    if opcode in _ARITHMETIC and result.dtype.startswith(_FLOATING):
        return Work(flops=float(result.elements))
    return Work(other=float(result.elements)) if opcode in _OTHER or opcode in _ARITHMETIC else NOTHING


def _product(flops: float, *factors: Array | None) -> Work:
    """Return the work of a product of ``factors``, where they are known."""
    whole = bool(factors) and all(one is not None and one.dtype in _INT8 for one in factors)
    return Work(flops=flops, products=flops, int8=flops if whole else 0.0)


def _dot(module: Module, operation: Operation) -> Work:
    left, result = _operand_array(module, operation, 0), array(operation.type)
    if left is None or result is None:
        return NOTHING
    contracted = attributes.axes(operation.attributes, "lhs_contracting_dims")
    inner = math.prod(left.sizes[axis] for axis in contracted if axis < len(left.sizes))
    return _product(2.0 * result.elements * inner, left, _operand_array(module, operation, 1))


def _convolution(module: Module, operation: Operation) -> Work:
    """Count only what falls on real numbers: a batch of products is written as a convolution with holes."""
    left, kernel = (_operand_array(module, operation, number) for number in (0, 1))
    result = array(operation.type)
    labels = attributes.dim_labels(operation.attributes)
    if left is None or kernel is None or result is None or labels is None:
        return NOTHING
    if any(len(names) != len(one.sizes) for names, one in zip(labels, (left, kernel, result), strict=True)):
        return NOTHING
    sizes, kernels, outputs = (
        dict(zip(names, one.sizes, strict=True)) for names, one in zip(labels, (left, kernel, result), strict=True)
    )
    axes = enumerate(attributes.window(operation.attributes))
    pairs = math.prod(valid_pairs(sizes.get(str(n), 1), outputs.get(str(n), 1), axis) for n, axis in axes)
    # Groups show in the shapes: those of features in the kernel's inputs, those of the batch in the output's batch.
    flops = 2.0 * outputs.get("b", 1) * outputs.get("f", 1) * kernels.get("i", 1) * min(pairs, _MOST_PAIRS)
    return _product(flops, left, kernel)


def valid_pairs(size: int, outputs: int, axis: Dimension) -> int:
    """Count the pairs of an output and a place in the window that fall on a number of the input, along one axis."""
    dilated = (size - 1) * axis.base_dilation + 1 if size else 0
    if axis.size > _MOST_PLACES:
        # Too many to walk through: every place counts, which is exact without padding and holes.
        return outputs * axis.size
    return sum(
        _outputs_on_numbers(dilated, outputs, axis, place * axis.window_dilation - axis.low)
        for place in range(axis.size)
    )


def _outputs_on_numbers(dilated: int, outputs: int, axis: Dimension, offset: int) -> int:
    """Count the outputs for which ``output * stride + offset`` falls on a number and not on a hole or the padding."""
    step = axis.base_dilation // math.gcd(axis.base_dilation, axis.stride)
    tried = range(-offset % step, min(step, outputs)) if axis.stride == 1 else range(min(step, outputs, _MOST_PLACES))
    first = next((one for one in tried if (one * axis.stride + offset) % axis.base_dilation == 0), None)
    if first is None:
        return 0
    low = max(first, first + -(-(-offset - first * axis.stride) // (step * axis.stride)) * step)
    last = min(outputs - 1, (dilated - 1 - offset) // axis.stride)
    return (last - low) // step + 1 if last >= low else 0


def _reduction(module: Module, operation: Operation) -> Work:
    """Count one operation an element that is reduced."""
    first = _operand_array(module, operation, 0)
    results = arrays(operation.type)
    if first is None or not results:
        return NOTHING
    elements = float(first.elements)
    if operation.opcode == "reduce-window":
        window = attributes.window(operation.attributes)
        reach = math.prod(itertools.starmap(_reach, zip(window, results[0].sizes, strict=False)))
        elements = float(results[0].elements * min(reach, _MOST_PAIRS))
    inner = [one for one in module.computations.get(operation.calls, ()) if one.opcode not in _NO_ARITHMETIC]
    arithmetic = all(one.opcode in _ARITHMETIC for one in inner) and first.dtype.startswith(_FLOATING)
    return Work(flops=elements) if arithmetic else Work(other=elements * max(1, len(inner)))


def _reach(axis: Dimension, outputs: int) -> int:
    """Return how many numbers are summed for one output: one, where all outputs are the one sum of the whole axis."""
    return 1 if axis.low == axis.high == outputs - 1 and axis.size == 2 * outputs - 1 else axis.size


def _custom(module: Module, operation: Operation) -> Work:
    told = attributes.kernel_cost(operation.attributes)
    if told:
        return _product(told.get("flops", 0.0))
    if not is_product(attributes.custom_target(operation.attributes)):
        return NOTHING
    left, right = (_operand_array(module, operation, number) for number in (0, 1))
    result = next(iter(arrays(operation.type)), None)
    if left is None or right is None or result is None:
        return NOTHING
    return _product(product_flops(left.sizes, right.sizes, result.sizes), left, right)


def _operand_array(module: Module, operation: Operation, number: int) -> Array | None:
    found = module.operand(operation, number)
    return array(found.type) if found else None


_COUNTED: Mapping[str, Callable[[Module, Operation], Work]] = {
    "dot": _dot,
    "convolution": _convolution,
    "custom-call": _custom,
    "reduce": _reduction,
    "reduce-window": _reduction,
}
