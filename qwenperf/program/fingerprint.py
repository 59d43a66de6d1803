"""A fingerprint of an optimised program that stays when only names, lines or numbering change.

Large constants are left out of HLO text by the compiler (``constant({...})``): two programs that differ
in such values alone have one fingerprint. Kernels of Mosaic lie in it as bytes that hold their lines: where those move,
the fingerprint is another one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

_METADATA = re.compile(r',? metadata=\{(?:[^{}"]|"(?:[^"\\]|\\.)*")*\}')
_COMPUTATION = re.compile(r"^(ENTRY )?%?\S+ \(.*\) -> .*\{$")
_NAME = re.compile(r"%([\w.\-]+)")
_HEADER_NAME = re.compile(r"^HloModule [^,\s]+")
_TABLE_LINE = re.compile(r'^(?:FileNames|FunctionNames|FileLocations|StackFrames|\d+ [{"].*)$')


def fingerprint(text: str) -> str:
    """Return the SHA-256 of the canonical text of an optimised program."""
    return hashlib.sha256(canonical(text).encode()).hexdigest()


def canonical(text: str) -> str:
    """Return ``text`` without metadata and source tables, and with names numbered by first appearance."""
    return "\n".join(_canonical_lines(text))


def _canonical_lines(text: str) -> Iterator[str]:
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return numbers.setdefault(match[1], f"%{len(numbers)}")

    for line in text.splitlines():
        if not line.strip() or _TABLE_LINE.match(line):
            continue
        if _COMPUTATION.match(line):
            # Its parameters are repeated as instructions below; here they would only add their names.
            yield "ENTRY {" if line.startswith("ENTRY ") else _NAME.sub(numbered, line.split(" (")[0]) + " {"
        else:
            plain = _HEADER_NAME.sub("HloModule", _METADATA.sub("", line))
            yield _NAME.sub(numbered, plain)
