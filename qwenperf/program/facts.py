"""What gates ask of a parsed program: sines and cosines, copies of the cache, donations that were lost."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import HOST_SPACE, arrays

_SHAPE = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<sizes>[^\]]*)\]")
_TRIGONOMETRIC = {"sine": "sine", "cosine": "cosine", "tan": "tangent"}
_TRIGONOMETRIC_NAMES = {"sin": "sine", "cos": "cosine", "tan": "tangent"}
_ARITHMETIC = {"add", "subtract", "multiply", "divide", "select", "custom-call"}
"""What a sine becomes where a compiler expands it; a folded one becomes a constant and is no work."""


def opcodes(module: Module) -> dict[str, int]:
    """Count operations by opcode over all computations, those inside fusions included; most frequent first."""
    return dict(Counter(operation.opcode for operation in module.operations).most_common())


def trigonometric(module: Module) -> tuple[str, ...]:
    """Name each place that computes a sine, cosine or tangent: ``cosine from rotary.py:88``.

    Seen by opcode, or by the name that arithmetic keeps where a compiler has expanded the function.
    """
    found = dict.fromkeys(_trigonometric(module))
    return tuple(sorted(found))


def _trigonometric(module: Module) -> Iterator[str]:
    for operation in module.operations:
        kind = _TRIGONOMETRIC.get(operation.opcode)
        if kind is None and operation.opcode in _ARITHMETIC:
            kind = _TRIGONOMETRIC_NAMES.get(operation.op_name.rpartition("/")[2])
        if kind:
            yield f"{kind} from {short_source(operation)}"


def short_source(operation: Operation) -> str:
    """Return where an operation comes from: ``rotary.py:88``, or its name where the text has no line."""
    file, _, line = operation.source.rpartition(":")
    return f"{PurePath(file).name}:{line}" if file else operation.op_name or operation.computation


def copies(module: Module, shapes: Iterable[str]) -> tuple[str, ...]:
    """Name each copy of an array of one of ``shapes`` (``f32[1,2,36,64]``; axes of size 1 do not count).

    What is brought from main memory onto the chip, or taken back, is none: the chip works on it there.
    """
    wanted = {_squeezed(shape) for shape in shapes}
    return tuple(
        f"{operation.name}: {_first_shape(operation.shape)} copied in {operation.computation}{_origin(operation)}"
        for operation in module.operations
        if operation.opcode in ("copy", "copy-start")
        and _squeezed(operation.shape) in wanted
        and not _is_onto_the_chip(module, operation)
    )


def _is_onto_the_chip(module: Module, operation: Operation) -> bool:
    """Say whether a copy is between main memory and the chip's own, in either direction."""
    given = module.operand(operation, 0)
    # What starts a copy gives a token as well, which is no part of the array.
    moved = [*arrays(operation.type), *(arrays(given.type) if given else ())]
    spaces = {one.space for one in moved if one.sizes == moved[0].sizes}
    return 0 in spaces and len(spaces) > 1 and HOST_SPACE not in spaces


def copied_bytes(told: str) -> int | None:
    """Return the bytes of the array that ``told``, a line about a copy, names; ``None`` where it names none."""
    match = _SHAPE.search(told)
    if match is None:
        return None
    bits = re.search(r"\d+", match["dtype"].replace("pred", "8"))
    sizes = [size for size in match["sizes"].split(",") if size]
    if bits is None or not all(size.isdecimal() for size in sizes):
        return None
    return int(bits[0]) * math.prod(map(int, sizes)) // 8


def is_shape(shape: str, wanted: Iterable[str]) -> bool:
    """Say whether ``shape`` is one of ``wanted``; axes of size 1 do not count, and a tuple is none."""
    return not shape.startswith("(") and _squeezed(shape) in {_squeezed(one) for one in wanted}


def _origin(operation: Operation) -> str:
    """Name the source of an operation where it has one: a copy that the compiler put in has none."""
    return f" from {short_source(operation)}" if operation.source or operation.op_name else ""


def _first_shape(shape: str) -> str:
    match = _SHAPE.search(shape)
    return match[0] if match else shape


def _squeezed(shape: str) -> tuple[str, ...]:
    match = _SHAPE.search(shape)
    if not match:
        return (shape,)
    return (match["dtype"], *(size for size in match["sizes"].split(",") if size not in ("", "1")))


def unaliased(module: Module, donated: Iterable[str]) -> tuple[str, ...]:
    """Name each parameter that was donated and is not written over; with its shape.

    ``donated`` are key paths in either spelling (``cache.k[0]``, ``cache['k'][0]``); a path stands for all below it.
    """
    given_up = tuple(_dotted(path) for path in donated)
    return tuple(
        f"{parameter.path} {parameter.shape}"
        for parameter in module.parameters
        if parameter.number not in module.aliased and _is_below(_dotted(parameter.path), given_up)
    )


def matched(module: Module, donated: Iterable[str]) -> bool:
    """Say whether any parameter of the program has one of the ``donated`` names."""
    given_up = tuple(_dotted(path) for path in donated)
    return any(_is_below(_dotted(parameter.path), given_up) for parameter in module.parameters)


def _dotted(path: str) -> str:
    return re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path)


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(f"{root}.") for root in roots)
