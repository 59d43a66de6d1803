"""``with no_recompiles():``, a block of a test in which nothing may compile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from qwenperf.errors import QwenperfError

if TYPE_CHECKING:
    from qwenperf.lab.calls import Watched


@dataclass(kw_only=True)
class Block:
    """A class, so that a failure shows the test's line and not contextlib's.

    ``judge`` is told what was watched, and ``crashed`` of an error in the block.
    """

    judge: Callable[[Watched], object]
    crashed: Callable[[Exception], None]
    inner: AbstractContextManager[Watched] | None = None
    watched: Watched | None = None
    entered: bool = False

    def __enter__(self) -> Watched:
        __tracebackhide__ = True
        from qwenperf.lab.calls import steady_block

        self.entered = True
        self.inner = steady_block("the block")
        try:
            self.watched = self.inner.__enter__()
        except QwenperfError as error:
            self.crashed(error)
            raise
        return self.watched

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        __tracebackhide__ = True
        assert self.inner is not None
        assert self.watched is not None
        handled = bool(self.inner.__exit__(kind, error, traceback))
        if error is not None and not handled and isinstance(error, Exception):
            self.crashed(error)
        if kind is None or handled:
            self.judge(self.watched)
        return handled
