"""The part of a history that flags ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from qwenperf.cli.since import read_since
from qwenperf.store.base import Window

if TYPE_CHECKING:
    from qwenperf.cli.stores import History


def read_window(
    store: History,
    *,
    branch: str | None = None,
    since: str | None = None,
    environment: str | None = None,
    last: int | None = None,
) -> Window:
    """Return the window that the flags of a command mean; errors as ``read_since``."""
    moment = None if since is None else read_since(since, datetime.now(UTC), store.committed)
    return Window(branch=branch, since=moment, environment=environment, last=last)
