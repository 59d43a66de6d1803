"""What is known of each instruction that ran: where it came from, what kind it is, what it costs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from qwenperf.traces import costs
from qwenperf.traces.categories import categorize
from qwenperf.traces.hlo_proto import Computation, Instruction, Module

_THROUGH = {"bitcast", "get-tuple-element", "copy", "convert", "reshape", "transpose"}
_MOVES = {"copy", "transpose", "bitcast", "parameter", "reshape"}
_CALLERS = {"while", "conditional", "call"}
_MOST_VIEWS = 4
"""A longer chain of views leads to nothing that a reader would recognise."""

_TPU_TEXT = re.compile(r"%?[^\s=]+ = (?P<shape>\([^=]*?\)|\S+) (?P<opcode>[a-z][\w-]*)\(")
_COMMENT = re.compile(r"/\*.*?\*/")
"""Behind each fifth member of a tuple its number is written: ``/*index=5*/``."""
_TPU_KINDS = {"convolution": "dot", "data formatting": "copy"}


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What an instruction is. ``reads`` is the largest argument of the program that it reads, layers as ``*``.

    ``flops`` and ``bytes`` are of one run.
    """

    opcode: str
    category: str
    shape: str
    op_name: str = ""
    source: str = ""
    reads: str = ""
    flops: float = 0.0
    bytes: float = 0.0


def origins(module: Module, names: Collection[str]) -> dict[str, Origin]:
    """Return what is known of the instructions of a module that have one of ``names``."""
    callers = {
        called: instruction
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        if instruction.opcode in _CALLERS
        for called in instruction.calls
    }
    return {
        instruction.name: _origin(module, computation, instruction, callers.get(computation.id))
        for computation in module.computations.values()
        for instruction in computation.instructions.values()
        if instruction.name in names
    }


def _origin(module: Module, computation: Computation, instruction: Instruction, caller: Instruction | None) -> Origin:
    inner = list(costs.inside(module, instruction)) if instruction.opcode == "fusion" else []
    inner = inner or [(computation, instruction)]
    opcodes = {one.opcode for _, one in inner}
    # Where an instruction has no name, what is fused into it tells; of a copy what is copied; then who called it.
    known = [instruction, *(one for _, one in reversed(inner))]
    known += _copied(computation, instruction) if opcodes <= _MOVES else []
    named = next((one for one in [*known, caller] if one is not None and one.op_name), instruction)
    path = [part for part in named.op_name.split("/")[:-1] if not part.startswith("jit(")]
    return Origin(
        opcode=instruction.opcode,
        category=categorize(instruction.opcode, opcodes, (*named.functions, *reversed(path)), instruction.target),
        shape=str(instruction.shape),
        op_name=named.op_name,
        source=named.source,
        reads=_reads(computation, instruction) if computation.id == module.entry else "",
        flops=float(sum(costs.flops(*one) for one in inner)),
        bytes=float(costs.moved_bytes(module, computation, instruction)),
    )


def _copied(computation: Computation, instruction: Instruction) -> list[Instruction]:
    """Return what made the array that an instruction copies, behind any views of it."""
    found: list[Instruction] = []
    while instruction.operands and len(found) < _MOST_VIEWS:
        operand = computation.instructions.get(instruction.operands[0])
        if operand is None or operand.opcode == "parameter":
            break
        found.append(operand)
        instruction = operand
        if operand.opcode not in _THROUGH:
            break
    return found


def _reads(computation: Computation, instruction: Instruction) -> str:
    """Return the path of the largest argument of the program among the operands; empty where there is none."""
    found = [_argument(computation, one) for one in instruction.operands]
    arguments = [one for one in found if one is not None and one.op_name]
    largest = max(arguments, key=lambda one: one.shape.bytes, default=None)
    return "" if largest is None else argument_path(largest.op_name)


def _argument(computation: Computation, number: int) -> Instruction | None:
    for _ in range(_MOST_VIEWS):
        one = computation.instructions.get(number)
        if one is None or one.opcode == "parameter":
            return one
        if one.opcode not in _THROUGH or not one.operands:
            return None
        number = one.operands[0]
    return None


def argument_path(path: str) -> str:
    """Write a key path with dots, and numbers as ``*``: ``params['layers'][3]['q']`` -> ``params.layers.*.q``."""
    dotted = re.sub(r"\[['\"]?([^\]'\"]*)['\"]?\]", r".\1", path)
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", dotted)


def of_tpu(name: str, stats: Mapping[str, object]) -> Origin | None:
    """Return what a TPU's profiler itself says of an operation; ``None`` where it says nothing."""
    text, kind, op_name, source = (str(stats.get(key) or "") for key in ("text", "hlo_category", "tf_op", "source"))
    match = _TPU_TEXT.match(_COMMENT.sub("", text))
    if match is None and not op_name:
        return None
    opcode = match["opcode"] if match else ""
    fused = {*re.findall(r"[a-z]+(?:-[a-z]+)*", name)} - {"fusion"} if opcode == "fusion" else {opcode}
    # A fusion without a telling name is of nothing that is known: that is no copy.
    computed = (fused | {opcode for words, opcode in _TPU_KINDS.items() if words in kind}) or {opcode}
    scopes = tuple(part for part in reversed(op_name.rstrip(":").split("/")[:-1]) if not part.startswith("jit("))
    return Origin(
        opcode=opcode,
        category=categorize(opcode, computed, scopes),
        shape=re.sub(r"\{[^{}]*\}", "", match["shape"]) if match else "",
        op_name=op_name.rstrip(":"),
        source="/".join(source.split("/")[-2:]),
        flops=_number(stats.get("flops")),
        bytes=_number(stats.get("bytes_accessed")),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0
