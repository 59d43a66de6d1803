"""Reads an optimised program's HLO text: operations, where they came from, parameters and aliases.

Works on ``compiled.as_text()`` of any backend, without JAX. Source lines are found both as written by
older compilers (``source_file=... source_line=...``) and in the stack frame tables of newer ones. An
operation whose text it does not understand is left out of the counts, never an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

_INSTRUCTION = re.compile(r"^\s+(?P<root>ROOT )?%?(?P<name>[^\s=]+) = (?P<rest>\S.*)$")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[^\s(]+) \(.*\) -> .*\{$")
_OPCODE = re.compile(r"\s*(?P<opcode>[a-z][\w-]*)\((?P<inside>[^)]*)\)")
_ALIAS = re.compile(r"\{(?P<output>[\d, ]*)\}: \((?P<parameter>\d+), \{(?P<index>[\d, ]*)\}")
_OPERAND = re.compile(r"%?([A-Za-z_][\w.\-]*)(?=\s*(?:,|$))")
_COMMENT = re.compile(r"/\*.*?\*/")
_CALLS = re.compile(r"(?:calls|to_apply)=%?(?P<name>[\w.\-]+)")
_LAYOUT = re.compile(r"\{[^{}]*\}")
_TABLE = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)$")
_SOURCE = re.compile(r'source_file="(?P<file>[^"]*)"(?: source_line=(?P<line>\d+))?')
_OP_NAME = re.compile(r'op_name="(?P<name>(?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One instruction. ``shape`` has no layout (``f32[3,4]``); ``source`` is ``file:line`` or empty.

    ``operands`` are names of instructions of the same computation, ``calls`` is the computation that it runs, ``root``
    says that it is its computation's result.
    """

    name: str
    opcode: str
    shape: str
    computation: str
    op_name: str = ""
    source: str = ""
    number: int | None = None
    root: bool = False
    operands: tuple[str, ...] = ()
    calls: str = ""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One argument of the program. ``path`` is the caller's key path (``cache['k']``) where the text tells it."""

    number: int
    path: str
    shape: str


@dataclass(frozen=True, kw_only=True)
class Module:
    """A parsed program. ``aliased`` are the numbers of the parameters that some output is written over."""

    name: str
    operations: tuple[Operation, ...]
    parameters: tuple[Parameter, ...]
    aliased: frozenset[int]


def parse(text: str) -> Module:
    """Parse the text of an optimised program; anything that is no HLO gives an empty module."""
    lines = text.splitlines()
    header = next((line for line in lines if line.startswith("HloModule ")), "")
    sources = _frame_sources(lines)
    operations, parameters = [], []
    for entry, operation in _operations(lines, sources):
        operations.append(operation)
        if entry and operation.number is not None:
            path = operation.op_name or operation.name
            parameters.append(Parameter(number=operation.number, path=path, shape=operation.shape))
    return Module(
        name=header.removeprefix("HloModule ").split(",")[0],
        operations=tuple(operations),
        parameters=tuple(sorted(parameters, key=lambda parameter: parameter.number)),
        aliased=frozenset(int(match["parameter"]) for match in _ALIAS.finditer(_alias_part(header))),
    )


def _operations(lines: list[str], sources: Mapping[int, str]) -> Iterator[tuple[bool, Operation]]:
    """Yield each instruction, and whether it is in the entry computation."""
    computation, entry = "", False
    for line in lines:
        start = _COMPUTATION.match(line)
        if start:
            computation, entry = start["name"], bool(start["entry"])
        match = _INSTRUCTION.match(line) if computation else None
        if not match:
            continue
        shape, rest = _split_type(match["rest"])
        opcode = _OPCODE.match(rest)
        if opcode:
            yield (
                entry,
                replace(
                    _operation(match["name"], opcode, shape=shape, computation=computation, rest=rest, sources=sources),
                    root=bool(match["root"]),
                ),
            )


def _operation(
    name: str, opcode: re.Match[str], *, shape: str, computation: str, rest: str, sources: Mapping[int, str]
) -> Operation:
    op_name, calls = _OP_NAME.search(rest), _CALLS.search(rest)
    is_parameter = opcode["opcode"] == "parameter" and opcode["inside"].isdigit()
    return Operation(
        name=name,
        opcode=opcode["opcode"],
        shape=_LAYOUT.sub("", shape),
        computation=computation,
        op_name=op_name["name"].replace("\\'", "'").replace('\\"', '"') if op_name else "",
        source=_source(rest, sources),
        number=int(opcode["inside"]) if is_parameter else None,
        operands=tuple(_OPERAND.findall(_COMMENT.sub("", opcode["inside"]))),
        calls=calls["name"] if calls else "",
    )


def _split_type(rest: str) -> tuple[str, str]:
    """Split ``f32[4]{0} add(...)`` behind the type, which is a tuple in parentheses or has no space in it."""
    if not rest.startswith("("):
        kind, _, tail = rest.partition(" ")
        return kind, tail
    depth = 0
    for index, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[: index + 1], rest[index + 1 :]
    return rest, ""


def _source(rest: str, sources: Mapping[int, str]) -> str:
    written = _SOURCE.search(rest)
    if written:
        return f"{written['file']}:{written['line'] or 0}"
    frame = re.search(r"stack_frame_id=(\d+)", rest)
    return sources.get(int(frame[1]), "") if frame else ""


def _frame_sources(lines: list[str]) -> dict[int, str]:
    """Join the tables at the top of the text: stack frame number -> ``file:line``."""
    tables = _tables(lines)
    files = {number: name.strip('"') for number, name in tables.get("FileNames", {}).items()}
    places = {}
    for number, value in tables.get("FileLocations", {}).items():
        fields = _fields(value)
        places[number] = f"{files.get(fields.get('file_name_id', 0), '')}:{fields.get('line', 0)}"
    frames = tables.get("StackFrames", {}).items()
    return {number: places.get(_fields(value).get("file_location_id", 0), "") for number, value in frames}


def _tables(lines: list[str]) -> dict[str, dict[int, str]]:
    tables: dict[str, dict[int, str]] = {}
    current: dict[int, str] | None = None
    for line in lines:
        number, _, value = line.partition(" ")
        if _TABLE.match(line):
            current = tables.setdefault(line, {})
        elif current is not None and number.isdigit():
            current[int(number)] = value
        else:
            current = None
    return tables


def _fields(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", text)}


def _alias_part(header: str) -> str:
    """Return what is between the braces of ``input_output_alias={...}``."""
    start = header.find("input_output_alias={")
    if start < 0:
        return ""
    first = header.index("{", start)
    depth = 0
    for index in range(first, len(header)):
        depth += (header[index] == "{") - (header[index] == "}")
        if depth == 0:
            return header[first : index + 1]
    return header[first:]
