"""Where an operation was written: the stack frame tables of HLO text, and which frame is the user's.

A frame names its place and the frame that called it. The innermost frame may lie in a library: the user wants the
innermost one outside JAX and Flax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_TABLE = re.compile(r"^(FileNames|FunctionNames|FileLocations|StackFrames)$")
_WRITTEN = re.compile(r'source_file="(?P<file>[^"]*)"(?: source_line=(?P<line>\d{1,9}))?')
_FRAME = re.compile(r"stack_frame_id=(\d{1,9})")
_LIBRARY = re.compile(
    r"(?:^|(?:site|dist)-packages[/\\])(?:jax|jaxlib|flax)[/\\]|[/\\](?:jax[/\\]_src|flax[/\\](?:core|linen|nnx))[/\\]"
)
"""Where libraries are installed, or what only they have: somebody's own code may lie in a folder named ``jax``."""
_MOST_FRAMES = 200


@dataclass(frozen=True, kw_only=True)
class Place:
    """One line of source. ``function`` is its qualified name, empty where the text does not tell it."""

    file: str
    line: int
    function: str = ""

    @property
    def text(self) -> str:
        """``file:line``, empty where there is no file."""
        return f"{self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The tables of one text, joined: the place that a user would look at, by number of the frame."""

    places: Mapping[int, Place]

    def place(self, attributes: str) -> Place:
        """Return where the operation with these attributes was written; a place without a file where unknown."""
        written = _WRITTEN.search(attributes)
        if written:
            return Place(file=written["file"], line=int(written["line"] or 0))
        frame = _FRAME.search(attributes)
        return self.places.get(int(frame[1]), NOWHERE) if frame else NOWHERE


NOWHERE = Place(file="", line=0)


def read(lines: Iterable[str]) -> Sources:
    """Read the tables at the top of the text; of none where there are none."""
    tables = _tables(lines)
    files, functions = (_names(tables.get(name, {})) for name in ("FileNames", "FunctionNames"))
    locations = {number: _fields(value) for number, value in tables.get("FileLocations", {}).items()}
    places = {
        number: Place(
            file=files.get(fields.get("file_name_id", 0), ""),
            line=fields.get("line", 0),
            function=functions.get(fields.get("function_name_id", 0), ""),
        )
        for number, fields in locations.items()
    }
    frames = {number: _fields(value) for number, value in tables.get("StackFrames", {}).items()}
    return Sources(places={number: _users(number, frames, places) for number in frames})


def _users(number: int, frames: Mapping[int, Mapping[str, int]], places: Mapping[int, Place]) -> Place:
    """Return the innermost place outside libraries, or the innermost one where all are inside."""
    # Parents are written one too high by the compilers seen so far (a frame would be its own parent): told from that.
    shift = 1 if any(fields.get("parent_frame_id") == key for key, fields in frames.items()) else 0
    innermost = places.get(frames[number].get("file_location_id", 0), NOWHERE)
    current = number
    for _ in range(_MOST_FRAMES):
        if current not in frames:
            break
        place = places.get(frames[current].get("file_location_id", 0), NOWHERE)
        if place.file and not _LIBRARY.search(place.file):
            return place
        parent = frames[current].get("parent_frame_id", 0) - shift
        if parent == current:
            break
        current = parent
    return innermost


def _tables(lines: Iterable[str]) -> dict[str, dict[int, str]]:
    tables: dict[str, dict[int, str]] = {}
    current: dict[int, str] | None = None
    for line in lines:
        number, _, value = line.partition(" ")
        if _TABLE.match(line):
            current = tables.setdefault(line, {})
        elif current is not None and number.isdecimal() and len(number) < 10:
            current[int(number)] = value
        else:
            current = None
    return tables


def _names(table: Mapping[int, str]) -> dict[int, str]:
    return {number: name.strip('"') for number, name in table.items()}


def _fields(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"\b(\w++)=(\d{1,9})", text)}
