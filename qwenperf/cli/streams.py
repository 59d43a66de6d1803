"""Standard streams that may be closed, full or hung up: nothing that they do may change what a command ends with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from qwenperf.errors import OutputError


def open_missing() -> None:
    """Give a command that was started without stdout or stderr (``>&-``) one that nobody reads."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The lowest free descriptor is the missing one: no file of ours can take its number and get its words.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (open until the end)


def give_up(stream: IO[str]) -> None:
    """Send the rest of ``stream`` nowhere; what is still buffered would be written, and fail, when Python ends."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def give_up_terminals() -> None:
    """Give up the streams that are terminals: one that hangs up takes no more words."""
    for stream in (sys.stdout, sys.stderr):
        if stream.isatty():
            give_up(stream)


@contextmanager
def writing_data() -> Iterator[None]:
    """Write to stdout, and see that it arrives. A reader such as ``head`` may hang up: that is no error.

    Raises:
      OutputError: no space, or any other refusal of the system.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        give_up(sys.stdout)
    except OSError as error:
        raise refusal(error) from error


def refusal(error: OSError) -> OutputError:
    """Give stdout up and return the error that says why."""
    give_up(sys.stdout)
    return OutputError(f"cannot write to stdout: {error.strerror or error}.", advice="Is the disk full?")


def say(line: str) -> None:
    """Write one line that is not data to stderr; where that is impossible it is lost.

    It stays one line and steers no terminal: names in it come from records, and records from anywhere.
    """
    shown = "".join(letter if letter.isprintable() else " " if letter.isspace() else "?" for letter in line)
    try:
        sys.stderr.write(f"{shown}\n")
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)


@contextmanager
def verdict_survives() -> Iterator[None]:
    """Say that a report could not be printed, and go on: the exit code still says what was found."""
    try:
        yield
    except OutputError as error:
        say(f"qwenperf: warning: {error}")
