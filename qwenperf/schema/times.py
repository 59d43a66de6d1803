"""Times as records write them: ISO 8601, in UTC where no zone is named."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(text: str) -> datetime:
    """Return an ISO 8601 time in UTC; one without a zone is in UTC already.

    Raises:
      ValueError: no time, or one before or after all years.
    """
    seen = datetime.fromisoformat(text)
    try:
        return (seen if seen.tzinfo else seen.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is before or after all years") from None
