"""Text that others sent: which names are taken, and what is left out of words before a database holds them."""

from __future__ import annotations

import re
from functools import lru_cache

from qwenperf.errors import RecordError, UsageError
from qwenperf.schema.hints import show

_PROJECT = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+@-]{0,199}")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_LINE_BREAKS = re.compile(r"[\t\n]")
WORDS_LIMIT = 4000
NAME_LIMIT = 500
NAME_BYTES = 1300
"""Of a case's name and of a metric's: PostgreSQL's index of series has room for 2,700 bytes of both."""


def words(text: object, limit: int = WORDS_LIMIT) -> str:
    """Return text that people read, without what no database or page can hold, and no longer than ``limit``."""
    clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text or ""))
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def record_name(text: str, path: str) -> str:
    """Return the name of a run or comparison, which is a part of addresses.

    Raises:
      RecordError: it is none.
    """
    if _NAME.fullmatch(text) is None:
        raise RecordError(
            f"{path} is {show(text)}, which is no name.",
            advice="Use letters, digits and . _ : + @ -, at most 200, a letter or digit first.",
        )
    return text


def label(text: str, path: str) -> str:
    """Return the name of a case or metric: one printable line.

    Raises:
      RecordError: it is none.
    """
    if not is_label(text):
        advice = f"One printable line of at most {NAME_LIMIT} characters, and {NAME_BYTES} bytes in UTF-8."
        raise RecordError(f"{path} is {show(text[:80])}, which is no name.", advice=advice)
    return text


def is_label(text: str) -> bool:
    """Say whether a case or metric can have this name."""
    return len(text) <= NAME_LIMIT and _is_printed(text)


@lru_cache(maxsize=4096)
def _is_printed(text: str) -> bool:
    """Say whether a short text is one printable line; remembered, as every run has the names of the one before."""
    if not text.strip() or _UNPRINTABLE.search(text) or _LINE_BREAKS.search(text):
        return False
    return text.isascii() or len(text.encode()) <= NAME_BYTES


def is_line(text: str) -> bool:
    """Say whether ``text`` is a line that people type: printable, with spaces of any width."""
    return _SPACES.sub(" ", text).isprintable()


def project_name(text: object) -> str:
    """Return the name of a project.

    Raises:
      UsageError: it is none.
    """
    if not isinstance(text, str) or _PROJECT.fullmatch(text) is None:
        raise UsageError(
            f"the project is {show(text)}, which is no name.",
            advice="Use small letters, digits and . _ -, at most 64, a letter or digit first and last.",
        )
    return text


def is_project_name(text: str) -> bool:
    """Say whether a project can have this name."""
    return _PROJECT.fullmatch(text) is not None


def holdable(text: str) -> bool:
    """Say whether a database can look for ``text``."""
    return _UNPRINTABLE.search(text) is None
