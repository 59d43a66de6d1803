"""Arithmetic in 64-bit floating point, which no accelerator does well and nobody decodes with on purpose."""

from __future__ import annotations

from qwenperf.program.facts import short_source
from qwenperf.program.hlo import Module
from qwenperf.program.shapes import arrays

_WIDE = frozenset({"f64", "c128"})
_GIVEN = frozenset("constant tuple get-tuple-element bitcast broadcast copy while fusion call".split())
"""What hands a value on or contains the operation that makes it: that one is named."""


def double_precision(module: Module) -> tuple[str, ...]:
    """Name each place that computes in 64 bits: ``f64 multiply from rotary.py:12``; an argument by its path."""
    found: dict[str, None] = {}
    for operation in module.operations:
        wide = next((one.dtype for one in arrays(operation.type) if one.dtype in _WIDE), None)
        if wide is None or operation.opcode in _GIVEN:
            continue
        if operation.opcode == "parameter":
            if operation.computation == module.entry:
                found[f"{wide} argument `{operation.op_name or operation.name}`"] = None
        else:
            found[f"{wide} {operation.opcode} from {short_source(operation)}"] = None
    return tuple(sorted(found))
