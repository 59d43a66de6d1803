"""A bug in what is done for one of many: told, and no reason to leave the others undone."""

from __future__ import annotations

import logging
from types import TracebackType

from qwenperf.service.problems import ServiceUnavailableError

_LOG = logging.getLogger("qwenperf.service")


class Told:
    """What goes wrong within is logged, with a message and its values as loggers take them, and ends nothing else.

    A database or file store that cannot be reached is no bug: that goes on, and the next round tries again.
    """

    def __init__(self, message: str, *values: object) -> None:
        self._message, self._values = message, values

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """Keep an error, unless it is none of ours to keep."""
        if not isinstance(error, Exception) or isinstance(error, ServiceUnavailableError):
            return False
        _LOG.error(self._message, *self._values, exc_info=error)
        return True
