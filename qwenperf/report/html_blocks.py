"""Turns what a terminal shows into blocks of a page, so that both show the same numbers: rich in, plain data out.

Also where a part of a record cannot be shown: a record may be of any age and origin, and one odd value must not cost
the rest of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

_Part = TypeVar("_Part")


@dataclass(frozen=True, kw_only=True)
class Column:
    """The head of a column; numbers stand to the right."""

    name: str
    right: bool = False


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts. ``links`` are the targets of the rows' first cells, where there are any."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Note:
    """A paragraph; ``strong`` where it is the title of what follows."""

    kind: ClassVar[str] = "note"
    text: str
    strong: bool = False


Block = Table | Note


def blocks(renderables: Iterable[RenderableType], caption: str = "") -> tuple[Block, ...]:
    """Return tables and paragraphs; a title right before a table becomes its caption, instead of ``caption``."""
    found: list[Block] = []
    for one in renderables:
        if isinstance(one, RichTable):
            title = found.pop() if found and isinstance(found[-1], Note) and found[-1].strong else None
            found.append(table(one, title.text if isinstance(title, Note) else caption))
        elif str(one).strip():
            found.append(Note(text=str(one).strip("\n"), strong=isinstance(one, Text) and _is_title(one)))
    return tuple(found)


def _is_title(text: Text) -> bool:
    return "bold" in (str(text.style), *(str(span.style) for span in text.spans if span.start == 0))


def table(seen: RichTable, caption: str, links: Iterable[str] = ()) -> Table:
    """Return a terminal's table as data."""
    columns = tuple(Column(name=str(column.header), right=column.justify == "right") for column in seen.columns)
    cells = ([str(cell) for cell in column.cells] for column in seen.columns)
    return Table(caption=caption, columns=columns, rows=tuple(zip(*cells, strict=True)), links=tuple(links))


def attempt(what: str, make: Callable[[], _Part], instead: Callable[[Note], _Part]) -> _Part:
    """Return what ``make`` makes; where the record does not allow it, what ``instead`` makes of a note on why."""
    try:
        return make()
    except Exception as error:  # noqa: BLE001  (records of any age and origin: the rest of the page is still right)
        return instead(Note(text=f"{what} cannot be shown: {type(error).__name__}: {error}"))


def attempted(what: str, make: Callable[[], Iterable[RenderableType]], caption: str = "") -> Iterator[Block]:
    """Yield the blocks of what ``make`` makes, or the note on why there are none."""
    yield from attempt(what, lambda: blocks(make(), caption), lambda note: (note,))
