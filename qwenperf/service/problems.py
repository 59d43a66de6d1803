"""Answers other than 2xx: what was wrong, and what to do about it, for programs and for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from qwenperf.errors import QwenperfError, RecordError, UnknownNameError, UsageError
from qwenperf.service.texts import words

RETRY_AFTER_S = 2


class Problem(Exception):  # noqa: N818  (the word of HTTP APIs)
    """An answer that ends a request early. ``advice`` says what to do."""

    def __init__(self, status: int, error: str, advice: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(error)
        # What was seen is told, and may be what no answer can hold.
        self.status, self.error, self.advice = status, words(error), words(advice)
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return f"{self.status}: {self.error} {self.advice}".strip()


class ServiceUnavailableError(QwenperfError):
    """Database or file store cannot be reached, or has no room; the same request may succeed later."""

    exit_code = 5
    default_advice = "Try again: nothing of the request was kept."


class ConflictError(UsageError):
    """What was sent contradicts what is there."""


class NotFoundError(UsageError):
    """What was asked for is not there."""


class FieldError(UsageError):
    """A value that was sent is none. ``field`` is its name, so that a form can say beside it what is wrong."""

    def __init__(self, field: str, message: str, *, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.field = field


@contextmanager
def in_field(name: str, advice: str = "") -> Iterator[None]:
    """Say of which field the errors within are; ``advice`` is given instead of theirs.

    Raises:
      FieldError: there was one.
    """
    try:
        yield
    except UsageError as error:
        raise FieldError(name, error.message, advice=advice or error.advice) from error


_STATUS = (
    (ServiceUnavailableError, 503),
    (ConflictError, 409),
    (NotFoundError, 404),
    (UnknownNameError, 404),
    (RecordError, 422),
    (UsageError, 422),
)


def of_error(error: QwenperfError) -> Problem:
    """Return the answer that tells of ``error``."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    return Problem(status, error.message, error.advice, headers)
