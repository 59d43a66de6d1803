"""Whole numbers that somebody gave: numpy's will do, truths and texts will not."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import Any

from qwenperf.errors import UsageError


def as_whole(value: Any) -> int | None:
    """Return ``value`` as Python's whole number, the only one that JSON knows; ``None`` where it is none."""
    with suppress(TypeError):
        return None if isinstance(value, bool) else operator.index(value)
    return None


def whole_number(name: str, value: Any, *, least: int) -> int:
    """Return ``value`` as Python's whole number, the only one that JSON knows.

    Raises:
      UsageError: it is none, or less than ``least``.
    """
    number = as_whole(value)
    if number is None or number < least:
        raise UsageError(f"{name}={value!r} is not a whole number of at least {least}.")
    return number
