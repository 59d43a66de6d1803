"""Instructions that do not wait, as a compiler writes them in short, written out.

``custom-call-start(%a), custom_call_target="f"`` is short for ``async-start(%a), calls=%wrapped`` and a computation
that holds the custom call alone (https://openxla.org/xla/async_ops). Everything here reads the long form: what a
computation holds is counted, followed and told by its line like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from qwenperf.program.shapes import members, without_layout

if TYPE_CHECKING:
    from qwenperf.program.hlo import Operation

_OF_THEIR_OWN = frozenset(
    "all-gather all-reduce collective-permute copy send recv async call reduce-scatter all-to-all ragged-all-to-all "
    "collective-broadcast slice dynamic-slice".split()
)
"""Instructions whose ``-start`` and ``-done`` are opcodes, or are read as such everywhere: exchanges, prefetches."""

_START, _UPDATE, _DONE = "-start", "-update", "-done"


def written_out(operation: Operation) -> Iterator[Operation]:
    """Yield an instruction as it is; of a short form the long one, and the computation that it stands for."""
    for ending in (_UPDATE, _DONE):
        if _is_short(operation.opcode, ending):
            yield replace(operation, opcode=f"async{ending}", calls="", called=())
            return
    parts = members(operation.type)
    if not _is_short(operation.opcode, _START) or len(parts) < 2 or not operation.type.startswith("(("):
        yield operation
        return
    wrapped = f"{operation.name}.wrapped"
    yield replace(operation, opcode="async-start", calls=wrapped, called=(wrapped,), attributes="")
    names = tuple(f"{wrapped}.{number}" for number in range(len(operation.operands)))
    for number, (name, kind) in enumerate(zip(names, members(parts[0]), strict=False)):
        yield replace(
            operation, name=name, opcode="parameter", computation=wrapped, number=number, root=False, operands=(),
            calls="", called=(), type=kind, shape=without_layout(kind), inside=str(number), attributes="", op_name="",
            source="", function="",
        )  # fmt: skip
    yield replace(
        operation, name=f"{wrapped}.root", opcode=operation.opcode.removesuffix(_START), computation=wrapped, root=True,
        operands=names, type=parts[1], shape=without_layout(parts[1]),
    )  # fmt: skip


def _is_short(opcode: str, ending: str) -> bool:
    return opcode.endswith(ending) and opcode.removesuffix(ending) not in _OF_THEIR_OWN
