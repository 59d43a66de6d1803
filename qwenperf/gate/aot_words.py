"""What a compiled program does, in words: copies, a collective, an argument, an operation, a refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from qwenperf import units
from qwenperf.program.buffers import dotted
from qwenperf.program.copies import describe
from qwenperf.schema.analysis import AotCase, Argument, BufferCopy, Collective, OperationCost

_SUMMARY = 300
"""Characters of a compiler's message that a line shows; the record holds all of it."""

_LAYER = re.compile(r"\.\d+(?=\.|$)")
_STATUS = re.compile(r"^(?:[A-Z_]{6,}|[\w.]*(?:Error|Exception)): ")
_NOISE = re.compile(r"^(?:XLA:TPU compile permanent error\. |Mosaic failed to compile TPU kernel: )")


def where(case: AotCase) -> str:
    """Name a program and its target: ``decode_step on v7x-4``."""
    return f"{program_name(case)} on {case.target.name}"


def program_name(case: AotCase) -> str:
    """Return the last part of the case's id."""
    return case.id.rpartition("/")[2]


def place(source: str) -> str:
    """Return ``qwen2.py:88`` of a whole path."""
    file, colon, line = source.rpartition(":")
    return f"{PurePath(file).name}{colon}{line}" if file else PurePath(source).name


def alike(copies: Sequence[BufferCopy]) -> list[list[BufferCopy]]:
    """Group the copies that every layer makes of a part of its own, those that move most first."""
    groups: dict[tuple[str, str, str], list[BufferCopy]] = {}
    for one in copies:
        groups.setdefault((one.kind, _LAYER.sub(".*", one.buffer), one.shape), []).append(one)
    return sorted(groups.values(), key=lambda group: -sum(one.bytes * one.runs for one in group))


def copies_text(group: Sequence[BufferCopy]) -> str:
    """Describe a group of copies that are alike by its first one."""
    first = replace(group[0], before=_plain(group[0].before), source=place(group[0].source))
    return describe(first) + (f" and {len(group) - 1} like it" if group[1:] else "")


def collective_text(one: Collective) -> str:
    """Say what is exchanged, and which line asks for it."""
    per_layer = ", in each layer" if one.per_layer else ""
    size = units.byte_count(one.bytes)
    return f"{one.kind} of {_plain(one.shape)} ({size}){_times(one.runs)}{per_layer}{_line(one.source, one.operation)}"


def argument_text(one: Argument) -> str:
    """Name an argument with its shape and size."""
    return f"`{one.path}` ({_plain(one.shape)}, {units.byte_count(one.bytes)})"


def operation_text(one: OperationCost) -> str:
    """Name an operation by what it writes and which line asks for it."""
    where = _line(one.source, dotted(one.op_name) or one.name)
    return f"{one.category} {_plain(one.shape)}{_times(one.runs)}{where}"


def refusal(error: str) -> str:
    """Return the first sentence of a compiler's message, in one line."""
    line = next((line.strip() for line in error.splitlines() if line.strip()), "no reason given")
    told = _NOISE.sub("", _STATUS.sub("", _STATUS.sub("", line))).rstrip(".")
    return told if len(told) <= _SUMMARY else f"{told[:_SUMMARY]}..."


def _times(runs: int) -> str:
    return f", {runs} times" if runs > 1 else ""


def _line(source: str, otherwise: str = "") -> str:
    if source:
        return f", from {place(source)}"
    return f", from {otherwise}" if otherwise else ""


def _plain(shape: str) -> str:
    """Return a shape without its layout."""
    return re.sub(r"\{[^{}]*\}", "", shape)
