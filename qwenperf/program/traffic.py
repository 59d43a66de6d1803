"""Bytes that an instruction reads from main memory and writes to it.

Only what lies in main memory counts: on a TPU most intermediate values stay on the chip, and the text says so. What is
sliced or looked up is read in the part that is wanted, what is updated in place is written in the part that changes,
and what an instruction is given twice is read once. Padding of tiles is moved like everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import starmap

from qwenperf.program import attributes, demand
from qwenperf.program.hlo import Module, Operation
from qwenperf.program.shapes import Array, array, arrays, members

FREE = frozenset(
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency domain partition-id replica-id while "
    "conditional call call-start call-update optimization-barrier opt-barrier copy-done async-start async-update "
    "async-done".split()
)
"""Moves nothing by itself; what loops, branches and calls run is counted where it runs."""

_SLICES = frozenset({"slice", "dynamic-slice", "gather"})
_UPDATES = {"dynamic-update-slice": 1, "scatter": 2}
"""What writes a part of its first operand, and which operand that part is."""
_LOOKED_THROUGH = frozenset({"bitcast", "reshape", "copy-done"})
_NO_WORK = frozenset({
    "AllocateBuffer", "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint",
    "AssumeGatherIndicesInBound",
})  # fmt: skip
"""Targets of custom calls that are marks for the compiler."""

_MOST_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Read:
    """What is read of one operand: ``stored`` bytes are moved from main memory, ``logical`` ones hold elements."""

    operand: str
    stored: float
    logical: float


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What one run of an instruction reads and writes in main memory."""

    reads: tuple[Read, ...] = ()
    written: float = 0.0

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return sum(read.stored for read in self.reads) + self.written


NONE = Traffic()


def of(module: Module, operation: Operation) -> Traffic:
    """Return what one run of ``operation`` moves."""
    opcode = operation.opcode
    if opcode in FREE or opcode.endswith("-done") or attributes.custom_target(operation.attributes) in _NO_WORK:
        return NONE
    reads = tuple(read for read in starmap(_read, _operands(module, operation)) if read)
    told = attributes.kernel_cost(operation.attributes).get("bytes_accessed")
    if told is not None and any(read.stored for read in reads):
        # A kernel may read only a part of what it is given: its author says how much.
        return Traffic(written=told)
    return Traffic(reads=reads, written=_written(module, operation))


def _operands(module: Module, operation: Operation) -> Iterator[tuple[Operation, float, float]]:
    """Yield each operand with the number of elements that are read of it, and how many it has."""
    shares = demand.needs(module, operation.calls) if operation.opcode == "fusion" else {}
    seen: dict[str, list[int]] = {}
    for number, name in enumerate(operation.operands):
        seen.setdefault(name, []).append(number)
    for numbers in seen.values():
        given = module.operand(operation, numbers[0])
        one = array(given.type) if given else None
        if given is None:
            continue
        whole = float(one.elements if one else sum(part.elements for part in arrays(given.type)))
        used = sum(_used(operation, number, whole, shares) for number in numbers)
        yield given, min(used, whole), whole


def _read(given: Operation, used: float, whole: float) -> Read | None:
    parts = [one for one in arrays(given.type) if one.space == 0]
    if not parts or not whole or not used:
        return None
    share = used / whole
    return Read(
        operand=given.name,
        stored=share * sum(one.stored_bytes for one in parts),
        logical=share * sum(one.bytes for one in parts),
    )


def _used(operation: Operation, number: int, whole: float, shares: Mapping[int, float]) -> float:
    """Return how many elements of operand ``number`` are read."""
    opcode = operation.opcode.removesuffix("-start")
    if opcode == "fusion":
        return whole * shares.get(number, 1.0)
    if opcode in _SLICES and number == 0:
        return _elements(result_type(operation))
    if opcode in _UPDATES and number == 0:
        return 0.0
    return whole


def _written(module: Module, operation: Operation) -> float:
    """Return the bytes written to main memory: of an update in place, those of the part."""
    kinds = members(result_type(operation))
    total = 0.0
    for index, kind in enumerate(kinds):
        one = array(kind)
        if index and one is not None and _is_work_room(operation, one):
            continue
        if one is None:
            total += sum(part.stored_bytes for part in arrays(kind) if part.space == 0)
        elif one.space == 0:
            total += _written_elements(module, operation, index, one) * one.bits / 8 * one.padding
    return total


def _is_work_room(operation: Operation, one: Array) -> bool:
    """Say whether a library is given ``one`` to work in: as large as it may want, and nobody says how much it uses."""
    is_library = operation.opcode == "custom-call" and attributes.custom_target(operation.attributes).startswith("__")
    return is_library and one.dtype in {"s8", "u8"} and len(one.sizes) == 1


def _written_elements(module: Module, operation: Operation, index: int, result: Array) -> float:
    maker = _maker(module, operation, index)
    if maker is None or maker.opcode not in _UPDATES or not (maker is operation or demand.is_given(module, maker)):
        return float(result.elements)
    part = module.operand(maker, _UPDATES[maker.opcode])
    return min(float(result.elements), _elements(part.type)) if part else float(result.elements)


def _maker(module: Module, operation: Operation, index: int) -> Operation | None:
    """Return what makes member ``index`` of a result, inside of fusions too; bitcasts are looked through."""
    current: Operation | None = operation
    for _ in range(_MOST_STEPS):
        if current is None:
            return None
        if current.opcode == "fusion":
            current = module.root(current.calls)
        elif current.opcode == "tuple":
            current, index = module.operand(current, index), 0
        elif current.opcode in _LOOKED_THROUGH and current is not operation:
            current = module.operand(current, 0)
        else:
            return current
    return None


def result_type(operation: Operation) -> str:
    """Return the type of what an instruction makes: what starts a copy or an exchange also gives what it was given."""
    if not operation.opcode.endswith("-start"):
        return operation.type
    parts = members(operation.type)
    if operation.opcode == "copy-start" or len(parts) < 2:
        return parts[0] if parts else operation.type
    return parts[1] if operation.type.startswith("(") and operation.opcode != "all-reduce-start" else operation.type


def _elements(text: str) -> float:
    return float(sum(one.elements for one in arrays(text)))
