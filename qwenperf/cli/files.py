"""Reads files that people name, whatever lies there: a pipe, a device or a huge file is an error and not a hang."""

from __future__ import annotations

from pathlib import Path

from qwenperf import units

SIZE_LIMIT = 256_000_000


def named_path(text: str) -> Path:
    """Return a path that was typed, for ``click``: nothing at all is no name.

    Raises:
      ValueError: the text is empty.
    """
    if not text:
        raise ValueError("the name is empty")
    return Path(text)


def is_there(path: Path) -> bool:
    """Say whether something is at ``path``; a name that no system can have, such as one too long, is nowhere."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read_text(file: Path) -> str:
    """Return the text of a regular file of ordinary size, without the mark that some editors put first.

    Raises:
      OSError: it cannot be read.
      ValueError: it is no regular file, too large, or not UTF-8.
    """
    if is_there(file) and not file.is_file() and not file.is_dir():
        raise ValueError("not a regular file")
    size = file.stat().st_size
    if size > SIZE_LIMIT:
        raise ValueError(f"{units.byte_count(size)} is more than the {units.byte_count(SIZE_LIMIT)} that are read")
    return file.read_text(encoding="utf-8-sig")


def reason(error: OSError | ValueError) -> str:
    """Say in a few words why a file could not be read."""
    return str(getattr(error, "strerror", None) or error)
