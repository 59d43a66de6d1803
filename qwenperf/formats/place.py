"""Another tool's JSON, read with care: each value is asked for by type, and an error says where it was.

A tool's file may have keys that nobody here knows: what is not asked for is left alone, and kept by the readers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from qwenperf.errors import FormatError
from qwenperf.schema.hints import join, show

DEEPEST = 100
"""Objects and arrays inside one another: no tool nests ten. How deep Python can go differs by version and caller."""


@dataclass(frozen=True, kw_only=True)
class Document:
    """One file as text. ``name`` is where it lies, or where it belongs below the folder that is written."""

    name: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Place:
    """A value of a parsed document, its key path, and the advice that goes with the file's format."""

    value: Any
    path: str
    source: str
    advice: str = ""

    def fail(self, why: str, advice: str = "") -> FormatError:
        """Return the error that says what is wrong with this value: ``why`` follows the key path."""
        where = f"{self.source}: " if self.source else ""
        return FormatError(f"{where}{self.path or 'the document'} {why}.", advice=advice or self.advice)

    def wrong(self, noun: str) -> FormatError:
        """Return the error that this value is not ``noun``."""
        return self.fail(f"is {show(self.value)}, which is not {noun}")

    def child(self, key: str, value: Any) -> Place:
        """Return ``value`` as what lies under ``key`` here."""
        return Place(value=value, path=join(self.path, key), source=self.source, advice=self.advice)

    def object(self) -> dict[str, Any]:
        """Return an object's entries."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value

    def at(self, key: str) -> Place:
        """Return what lies under ``key``, which has to be there."""
        entries = self.object()
        if key not in entries:
            found = ", ".join(entries) or "no key"
            raise self.child(key, None).fail("is missing", f"Found: {show_keys(found)}. {self.advice}".strip())
        return self.child(key, entries[key])

    def maybe(self, key: str) -> Place | None:
        """Return what lies under ``key``; ``None`` where it is absent or null."""
        value = self.object().get(key)
        return None if value is None else self.child(key, value)

    def items(self) -> Iterator[tuple[str, Place]]:
        """Yield the entries of an object."""
        for key, value in self.object().items():
            yield key, self.child(key, value)

    def entries(self) -> list[Place]:
        """Return the entries of an array."""
        if not isinstance(self.value, list):
            raise self.wrong("an array")
        return [
            Place(value=value, path=f"{self.path}[{index}]", source=self.source, advice=self.advice)
            for index, value in enumerate(self.value)
        ]

    def text(self) -> str:
        """Return text."""
        if not isinstance(self.value, str):
            raise self.wrong("text")
        return self.value

    def number(self) -> float:
        """Return a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.wrong("a number")
        try:
            value = float(self.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.fail(
                f"is {show(self.value)}; records hold finite numbers only", "Measure again, or take it out."
            )
        return value

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def free(self) -> Any:
        """Return data that nobody looks into, as records can hold it."""
        return plain(self.value)


def parse(document: Document, advice: str = "") -> Place:
    """Return the one JSON value of ``document``.

    Raises:
      FormatError: no JSON, a key twice in one object, or nested deeper than ``DEEPEST``.
    """
    return _place(_load(document, document.text), document, advice)


def parse_lines(document: Document, advice: str = "") -> list[Place]:
    """Return the JSON values of ``document``, one after another: whole files and files with a value a line alike."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    values, position, text = [], 0, document.text
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise _no_json(document, error) from error
        values.append(value)
    if not values:
        raise FormatError(f"{document.name or 'the document'} is empty.", advice="Was it cut short?")
    places = [_place(value, document, advice) for value in values]
    if len(places) == 1:
        return places
    return [
        Place(value=one.value, path=f"line {number}", source=one.source, advice=advice)
        for number, one in enumerate(places, start=1)
    ]


def plain(value: Any) -> Any:
    """Return JSON data as records can hold it: a number that is not finite becomes its name."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def show_keys(text: str, limit: int = 200) -> str:
    """Cut a list of keys to the length of a message."""
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


_HALVES = re.compile("[\ud800-\udfff]")


def to_text(data: Any, *, indent: int | None = 1) -> str:
    """Return JSON text with a newline at its end; half a character, which no file can hold, is escaped."""
    text = json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=False) + "\n"
    return _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _load(document: Document, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _no_json(document, error) from error


def _no_json(document: Document, error: Exception) -> FormatError:
    return FormatError(f"{document.name or 'the document'} is not JSON: {error}.", advice="Was it cut short?")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that is there twice: the parser would keep the last and lose a result."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is there twice in one object")
    return entries


def _place(value: Any, document: Document, advice: str) -> Place:
    """Return a whole document's place, refused where walking it could end the interpreter's stack."""
    level = [value]
    for _ in range(DEEPEST):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            break
    else:
        advice = "No tool writes such a file."
        raise FormatError(f"{document.name or 'the document'} is nested deeper than {DEEPEST} levels.", advice=advice)
    return Place(value=value, path="", source=document.name, advice=advice)


def _parts(value: Any) -> Iterable[Any]:
    """Return what is inside an object or an array; nothing for all else."""
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
