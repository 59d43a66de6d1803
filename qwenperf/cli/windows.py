"""The part of a history that flags ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qwenperf.cli.since import read_since
from qwenperf.errors import UsageError
from qwenperf.store.base import Window

if TYPE_CHECKING:
    from qwenperf.cli.stores import History


_MOST = 1 << 62
"""A number that every index takes, and that no history reaches."""


def read_window(
    store: History,
    *,
    branch: str | None = None,
    since: str | None = None,
    environment: str | None = None,
    last: int | None = None,
) -> Window:
    """Return the window that the flags of a command mean.

    Raises:
      UsageError: as ``read_since``, or a name that is not UTF-8.
    """
    for option, text in (("--branch", branch), ("--environment", environment)):
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise UsageError(f"{option} {text!a} is not UTF-8.")
    last = None if last is None else min(last, _MOST)
    moment = None if since is None else read_since(since, datetime.now(UTC), store.committed)
    return Window(branch=branch, since=moment, environment=environment, last=last)
