"""``--since``: a date, an age or a commit, as a moment."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from qwenperf.errors import UsageError
from qwenperf.schema.times import utc

_AGE = re.compile(r"(\d{1,6})([hdw])")
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_ADVICE = "Give a date (2026-11-28), an age (30d, 12w, 6h) or the beginning of a commit's hash."


def read_since(text: str, now: datetime, committed: Callable[[str], list[tuple[str, float]]]) -> datetime:
    """Return the moment that ``text`` means. ``committed``: commits by the beginning of their hash, and when they were.

    Raises:
      UsageError: it means none, two commits begin so, or one does and it is an age.
    """
    age = _AGE.fullmatch(text)
    if age is not None:
        # A day is written with a letter that hashes have as well.
        if _COMMIT.fullmatch(text) and committed(text):
            advice = "Give more of the hash, or the age in hours (h) or weeks (w)."
            raise UsageError(f"--since {text!r} is an age, and begins a commit too.", advice=advice)
        try:
            return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    if "-" in text:
        try:
            return utc(text)
        except ValueError as error:
            raise UsageError(f"--since {text!r} is no date.", advice=_ADVICE) from error
    if not _COMMIT.fullmatch(text):
        raise UsageError(f"--since {text!r} is no date, age or commit.", advice=_ADVICE)
    found = committed(text.lower())
    if len(found) != 1:
        names = ", ".join(sha[:12] for sha, _ in found[:5])
        seen_here = f"begins {len(found)} commits ({names})" if found else "begins no commit of a run in the store"
        raise UsageError(f"--since {text!r} {seen_here}.", advice=_ADVICE)
    return datetime.fromtimestamp(found[0][1], UTC)
