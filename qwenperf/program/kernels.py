"""What a program calls that is no instruction of the compiler: kernels, library routines, the host.

A callback into Python and a transfer to or from the host are told apart from kernels: they stop a device.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from qwenperf.program import attributes
from qwenperf.program.facts import short_source
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import HOST_SPACE, Array, arrays

_MARKS = frozenset({
    "AllocateBuffer", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint", "PadToStatic",
    "SliceToDynamic", "AssumeGatherIndicesInBound", "X64SplitLow", "X64SplitHigh", "X64Combine", "ConcatBitcast",
})  # fmt: skip
"""Targets that the compiler puts in for itself and that compute nothing of the user's."""
_MARK_PREFIXES = ("AsyncCollective", "PrepareAsync")
_CALLBACK = re.compile(r"callback|host_?compute", re.IGNORECASE)
_TRANSFER_TARGETS = frozenset({"MoveToHost", "MoveToDevice", "annotate_device_placement", "PinToDevice"})
_HOST_OPCODES = frozenset({"infeed", "outfeed"})
_KERNEL_NAME = re.compile(r'"?kernel_name"?\s*[:=]\s*"?([\w.\-]+)')
_SCOPE = re.compile(r"(?:^|/)pallas_call(?:\[name=([\w.\-]+)\])?")


def kernels(module: Module) -> tuple[str, ...]:
    """Name each kernel that is called: ``flash_attention (tpu_custom_call) from attention.py:12``; each once."""
    return tuple(dict.fromkeys(_kernels(module)))


def host_calls(module: Module) -> tuple[str, ...]:
    """Name each callback into the host and each transfer to or from it, with its line; each once."""
    return tuple(dict.fromkeys(_host_calls(module)))


def _kernels(module: Module) -> Iterator[str]:
    for operation in module.operations:
        if operation.opcode == "custom-call" and not _is_mark(operation) and not _host_kind(operation):
            target = attributes.custom_target(operation.attributes)
            name = kernel_name(operation)
            yield f"{name} ({target}){_from(operation)}" if name and name != target else f"{target}{_from(operation)}"


def kernel_name(operation: Operation) -> str:
    """Return the name of a kernel as its author gave it; of a call without one the target's."""
    told = _KERNEL_NAME.search(operation.attributes)
    if told:
        return told[1]
    scope = _SCOPE.search(operation.op_name)
    if scope and scope[1]:
        return scope[1]
    if scope:
        before = operation.op_name[: scope.start()].rpartition("/")[2]
        return re.sub(r"^\w+\((.*)\)$", r"\1", before) or attributes.custom_target(operation.attributes)
    return attributes.custom_target(operation.attributes)


def _host_calls(module: Module) -> Iterator[str]:
    for operation in module.operations:
        kind = _host_kind(operation)
        if kind:
            yield f"{kind}{_from(operation)}"


def _host_kind(operation: Operation) -> str:
    """Return how an operation deals with the host; empty where it does not."""
    target = attributes.custom_target(operation.attributes) if operation.opcode == "custom-call" else ""
    if target and _CALLBACK.search(target):
        return "callback into the host"
    if target in _TRANSFER_TARGETS or operation.opcode in _HOST_OPCODES:
        return f"transfer ({target or operation.opcode})"
    if operation.opcode in {"send", "recv"} and "is_host_transfer=true" in operation.attributes:
        return f"transfer ({operation.opcode})"
    if operation.opcode in {"copy", "copy-start"} and len({one.space == HOST_SPACE for one in _moved(operation)}) > 1:
        return "transfer (copy to or from the host's memory)"
    return ""


def _moved(operation: Operation) -> list[Array]:
    return [one for one in arrays(operation.type) if one.dtype != "u32"]


def _is_mark(operation: Operation) -> bool:
    target = attributes.custom_target(operation.attributes)
    return target in _MARKS or target.startswith(_MARK_PREFIXES)


def _from(operation: Operation) -> str:
    return f" from {short_source(operation)}" if operation.source or operation.op_name else ""
