"""Text of other people made harmless in GitHub's Markdown: it is shown as it is, and does nothing.

A record may come from a stranger's pull request. What it says must not become HTML, a link, an image, a mention that
notifies somebody, a reference to another issue, or a second column of a table. Entities are no help: GitHub looks for
mentions after it has decoded them. So punctuation is escaped, and what GitHub would look for is broken by a space of no
width.
"""

from __future__ import annotations

import re
import unicodedata

_PUNCTUATION = re.compile(r"([!\"#$&()*+.:<=>@\[\\\]^_`{|}~-])")
_BREAK = "\N{ZERO WIDTH SPACE}"
_LOOKED_FOR = re.compile(r"(?<=[@#])(?=\w)|(?<=:)(?=\S)|(?<=\bwww)(?=\.)|(?<=\bGH)(?=-\d)", re.IGNORECASE)
_COMMIT = re.compile(r"\b[0-9a-f]{7,}\b", re.IGNORECASE)
_SIX = re.compile(r"(.{6})(?=.)")
_CUT = "\N{HORIZONTAL ELLIPSIS}"


def line(text: str, most: int = 300) -> str:
    """Return ``text`` as one line without what cannot be seen, such as marks that turn its direction.

    Nor does it hold ``##[``, with which a line in the log of a job begins a command to GitHub's runner.
    """
    shown = "".join(one if one.isprintable() else " " for one in text[: 4 * most] if not _is_hidden(one))
    told = " ".join(shown.split()).replace("##[", "## [")
    return told if len(told) <= most else f"{told[: most - 1].rstrip()}{_CUT}"


def prose(text: str, most: int = 300) -> str:
    """Return ``text`` as one line of Markdown that says just that."""
    broken = _LOOKED_FOR.sub(_BREAK, line(text, most))
    broken = _COMMIT.sub(lambda found: _SIX.sub(rf"\1{_BREAK}", found[0]), broken)
    return _PUNCTUATION.sub(r"\\\1", broken)


def code(text: str, most: int = 200) -> str:
    """Return ``text`` as code in a line, which GitHub neither links nor reads; in tables, too."""
    told = line(text, most).replace("`", "'").replace("|", "\N{BROKEN BAR}")
    return f"`{told}`" if told else "-"


def table(names: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table of cells that are Markdown already."""
    return [_row(names), _row(("---",) * len(names)), *map(_row, rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _is_hidden(one: str) -> bool:
    return unicodedata.category(one) in {"Cf", "Cs", "Co", "Cn"}
