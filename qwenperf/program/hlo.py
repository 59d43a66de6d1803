"""Reads an optimised program's HLO text: operations, where they came from, parameters and aliases.

Works on ``compiled.as_text()`` of any backend, without JAX. Source lines are found both as written by
older compilers (``source_file=... source_line=...``) and in the stack frame tables of newer ones. An
operation whose text it does not understand is left out of the counts, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from qwenperf.program import attributes, sources
from qwenperf.program.shapes import without_layout
from qwenperf.program.short_forms import written_out
from qwenperf.program.sources import Sources

_INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?%?(?P<name>[^\s=]+) = (?P<rest>\S.*)$")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[^\s(]+) \(.*\) -> .*\{$")
_OPCODE = re.compile(r"\s*(?P<opcode>[a-z][\w-]*)\(")
# Begun at the start of a word only, and never given back: garbled lines are long.
_OPERAND = re.compile(r"(?<![\w.\-%])%?([A-Za-z_][\w.\-]*+)(?=\s*+(?:,|$))")
_COMMENT = re.compile(r"/\*.*?\*/")
_BRACKET = re.compile(r"[()]")
_MOST_STEPS = 1000
HANDED_ON = frozenset(
    "bitcast optimization-barrier opt-barrier copy-done async-done async-update call-done call-update domain".split()
)
"""What hands on the very bytes that it was given."""
CALLS = frozenset({"call", "call-start", "async-start"})
"""What runs another computation once, itself or by another part of the chip."""
_MOST_PARAMETERS = 6
"""Digits of the number of a parameter."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One instruction. ``shape`` has no layout (``f32[3,4]``), ``type`` has; ``source`` is ``file:line`` or empty.

    ``operands`` are names of instructions of the same computation, ``calls`` is the computation that it runs or
    applies, ``called`` all that it names, ``inside`` what is written between the brackets, ``attributes`` what is
    written behind them, ``root`` says that it is its computation's result.
    """

    name: str
    opcode: str
    shape: str
    computation: str
    op_name: str = ""
    source: str = ""
    function: str = ""
    number: int | None = None
    root: bool = False
    operands: tuple[str, ...] = ()
    calls: str = ""
    called: tuple[str, ...] = ()
    type: str = ""
    inside: str = ""
    attributes: str = ""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One argument of the program. ``path`` is the caller's key path (``cache['k']``) where the text tells it."""

    number: int
    path: str
    shape: str
    type: str = ""


@dataclass(frozen=True, kw_only=True)
class Module:
    """A parsed program. ``aliased`` are the numbers of the parameters that some output is written over."""

    name: str
    operations: tuple[Operation, ...]
    parameters: tuple[Parameter, ...]
    aliased: frozenset[int]
    entry: str = ""

    @cached_property
    def computations(self) -> Mapping[str, tuple[Operation, ...]]:
        """Operations by the name of their computation, in the order of the text."""
        found: dict[str, list[Operation]] = {}
        for operation in self.operations:
            found.setdefault(operation.computation, []).append(operation)
        return {name: tuple(operations) for name, operations in found.items()}

    @cached_property
    def known(self) -> Mapping[tuple[str, str], Operation]:
        """Operations by computation and name."""
        return {(operation.computation, operation.name): operation for operation in self.operations}

    @cached_property
    def callers(self) -> Mapping[str, tuple[Operation, ...]]:
        """For each computation, the operations that name it."""
        found: dict[str, list[Operation]] = {}
        for operation in self.operations:
            for name in operation.called:
                found.setdefault(name, []).append(operation)
        return {name: tuple(operations) for name, operations in found.items()}

    @cached_property
    def users(self) -> Mapping[tuple[str, str], tuple[tuple[Operation, int], ...]]:
        """For each computation and name, the operations that use the result, and as which operand."""
        found: dict[tuple[str, str], list[tuple[Operation, int]]] = {}
        for operation in self.operations:
            for position, name in enumerate(operation.operands):
                found.setdefault((operation.computation, name), []).append((operation, position))
        return {key: tuple(uses) for key, uses in found.items()}

    def operand(self, operation: Operation, index: int) -> Operation | None:
        """Return the operation whose result is operand ``index`` of ``operation``; ``None`` where there is none."""
        if not 0 <= index < len(operation.operands):
            return None
        return self.known.get((operation.computation, operation.operands[index]))

    def hands_on(self, body: str, member: int) -> bool:
        """Say whether the body of a loop hands a member of its state on as it got it."""
        root = self.root(body)
        current = self.operand(root, member) if root and root.opcode == "tuple" else None
        for _ in range(_MOST_STEPS):
            if current is None or current.opcode not in HANDED_ON:
                break
            current = self.operand(current, 0)
        if current is None or current.opcode != "get-tuple-element":
            return False
        source = self.operand(current, 0)
        is_state = source is not None and source.opcode == "parameter"
        return is_state and attributes.count_from_zero(current.attributes, "index") == member

    def parameter(self, number: int) -> Parameter | None:
        """Return an argument of the program by its number."""
        return self._by_number.get(number)

    def root(self, computation: str) -> Operation | None:
        """Return the operation whose result a computation returns."""
        return self._roots.get(computation)

    @cached_property
    def _by_number(self) -> Mapping[int, Parameter]:
        return {parameter.number: parameter for parameter in self.parameters}

    @cached_property
    def _roots(self) -> Mapping[str, Operation]:
        return {operation.computation: operation for operation in self.operations if operation.root}


def parse(text: str) -> Module:
    """Parse the text of an optimised program; anything that is no HLO gives an empty module."""
    lines = text.splitlines()
    header = next((line for line in lines if line.startswith("HloModule ")), "")
    where = sources.read(lines)
    operations, parameters, entry_name = list[Operation](), [], ""
    for entry, operation in _operations(lines, where):
        operations += written_out(operation)
        entry_name = operation.computation if entry else entry_name
        if entry and operation.number is not None:
            parameters.append(_parameter(operation, operation.number))
    return Module(
        name=header.removeprefix("HloModule ").split(",")[0],
        operations=tuple(operations),
        parameters=tuple(sorted(parameters, key=lambda parameter: parameter.number)),
        aliased=attributes.aliased(header),
        entry=entry_name,
    )


def _parameter(operation: Operation, number: int) -> Parameter:
    path = operation.op_name or operation.name
    return Parameter(number=number, path=path, shape=operation.shape, type=operation.type)


def _operations(lines: list[str], where: Sources) -> Iterator[tuple[bool, Operation]]:
    """Yield each instruction, and whether it is in the entry computation."""
    computation, entry = "", False
    for line in lines:
        start = _COMPUTATION.match(line)
        if start:
            computation, entry = start["name"], bool(start["entry"])
        match = _INSTRUCTION.match(line) if computation else None
        if not match:
            continue
        kind, rest = _split_type(match["rest"])
        opcode = _OPCODE.match(rest)
        if opcode:
            parts = _split_operands(rest, opcode.end())
            made = _operation(match, opcode["opcode"], kind=kind, parts=parts, computation=computation, where=where)
            yield entry, made


def _operation(
    match: re.Match[str], opcode: str, *, kind: str, parts: tuple[str, str], computation: str, where: Sources
) -> Operation:
    inside, behind = parts
    is_parameter = opcode == "parameter" and inside.isdecimal() and len(inside) <= _MOST_PARAMETERS
    place, called = where.place(behind), attributes.called(behind)
    return Operation(
        name=match["name"],
        opcode=opcode,
        shape=without_layout(kind),
        computation=computation,
        op_name=attributes.op_name(behind),
        source=place.text,
        function=place.function,
        number=int(inside) if is_parameter else None,
        root=bool(match["root"]),
        operands=tuple(_OPERAND.findall(_COMMENT.sub("", inside))) if opcode != "constant" else (),
        calls=attributes.calls(behind),
        called=called,
        type=kind,
        inside=inside,
        attributes=behind,
    )


def _split_type(rest: str) -> tuple[str, str]:
    """Split ``f32[4]{0} add(...)`` behind the type, which is a tuple in parentheses or has no space in it."""
    if not rest.startswith("("):
        kind, _, tail = rest.partition(" ")
        return kind, tail
    end = _closing(rest, 1)
    return rest[:end], rest[end:]


def _split_operands(rest: str, start: int) -> tuple[str, str]:
    """Split what is between the brackets of an instruction, opened before ``start``, from what is behind them."""
    end = _closing(rest, start)
    return rest[start : end - 1] if end > start and rest[end - 1] == ")" else rest[start:end], rest[end:]


def _closing(text: str, start: int) -> int:
    """Return the place behind the bracket that closes the one before ``start``; the end of a text cut short."""
    depth = 1
    for match in _BRACKET.finditer(text, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)
