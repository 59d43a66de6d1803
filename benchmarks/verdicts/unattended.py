"""What long runs share that nobody watches: how they begin, what ends them, and where they take the code from."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from qwenperf.errors import ConfigError, QwenperfError
from qwenperf.measure.default_platform import default_platform

INTERRUPTED = 130


def unattended(work: Callable[[], int], *, kept: str) -> int:
    """Return the exit code of ``work``; ``kept`` says what is left of it when somebody ends it.

    A TERM ends it as Ctrl-C does, and an error of ours is one line.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    os.environ.update(default_platform(os.environ))
    try:
        return work()
    except KeyboardInterrupt:
        say(f"interrupted; {kept}")
        return INTERRUPTED
    except QwenperfError as error:
        say(str(error))
        return error.exit_code


def checkout() -> Path:
    """Return the root of the checkout.

    Raises:
      ConfigError: there is none around the benchmarks.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / "qwenperf").is_dir():
        raise ConfigError(f"{root} holds no qwenperf.", advice="Run it from a checkout.")
    return root


def say(text: str) -> None:
    """Tell on stderr how it goes."""
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
