"""Times on the wire (ISO 8601) and in the database (microseconds since the epoch, UTC)."""

from __future__ import annotations

from datetime import datetime, timedelta

from qwenperf.errors import RecordError, UsageError
from qwenperf.store.rows import moment

_START = datetime(1970, 1, 1)  # noqa: DTZ001  (of UTC, whose zone takes as long to write as all the rest)
DAY_US = 86_400_000_000
SECOND_US = 1_000_000
_FIRST, _LAST = -62_135_596_800 * SECOND_US, 253_402_300_799 * SECOND_US
"""The years 1 and 9999, beyond which no time can be written."""

_EARLIEST, _LATEST = 0, 4_102_444_800
"""1970 and 2100, in seconds: nothing was measured before, and what is later would never be old."""


def iso(at: int) -> str:
    """Write a time of the database for programs and people: ``2026-11-28T08:00:00Z``."""
    at = min(max(at, _FIRST), _LAST)
    return f"{(_START + timedelta(microseconds=at)).isoformat()}Z"


def microseconds(seconds: float) -> int:
    """Return a time in seconds since the epoch as the database keeps it."""
    return round(seconds * SECOND_US)


def measured(seconds: float, name: str) -> int:
    """Return a time at which something was measured or committed, as the database keeps it.

    Raises:
      RecordError: nothing was measured then.
    """
    if not _EARLIEST <= seconds < _LATEST:
        advice = "Is the clock of that machine right? Times from 1970 to 2099 are taken."
        raise RecordError(f"{name} is {iso(microseconds(seconds))}, when nothing is measured.", advice=advice)
    return microseconds(seconds)


def not_ahead(at: int, now: int, name: str) -> None:
    """Refuse a time that lies more than a day ahead of the service's clock: nothing would ever be newer.

    Raises:
      RecordError: it does.
    """
    if at > now + DAY_US:
        advice = "Is the clock of the machine that measured, or of who made the commit, right? A day ahead is taken."
        raise RecordError(f"{name} is {iso(at)}, and here it is {iso(now)}.", advice=advice)


def from_query(text: str, name: str) -> int:
    """Return the time of a query parameter: ISO 8601, UTC where it has no zone.

    Raises:
      UsageError: it is no time.
    """
    try:
        # A plus sign in an address that nobody encoded arrives as a space.
        at = microseconds(moment(text.strip().replace(" ", "+"), name))
    except RecordError as error:
        raise UsageError(error.message, advice=error.advice) from None
    return min(max(at, _FIRST), _LAST)
