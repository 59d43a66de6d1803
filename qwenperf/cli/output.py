"""Where words go: data to stdout, everything else to stderr; colour only where people look and did not refuse it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NoReturn

import click
from rich.console import Console, RenderableType
from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON document to stdout.")
debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")

PLAIN_WIDTH = 80


class _Console(Console):
    """Rich's console, which would end the process with 1, a failed gate's code, when its reader hangs up."""

    def on_broken_pipe(self) -> NoReturn:
        """Pass the error on."""
        raise BrokenPipeError


def console(stream: IO[str]) -> Console:
    """Return a console on ``stream``: 80 columns and no colour unless it is a terminal (rich honours NO_COLOR)."""
    width = None if stream.isatty() else PLAIN_WIDTH
    return _Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def write_json(document: Any) -> None:
    """Write one JSON document, and nothing else, to stdout."""
    with _hang_ups():
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
        sys.stdout.flush()


def write(renderables: Iterable[RenderableType]) -> None:
    """Write what a person reads to stdout. Lines are wrapped on a terminal only, so that a log can be searched."""
    out = console(sys.stdout)
    with _hang_ups():
        for renderable in renderables:
            as_it_is = isinstance(renderable, Text) and (bool(renderable.no_wrap) or not out.is_terminal)
            out.print(renderable, soft_wrap=as_it_is)
        sys.stdout.flush()


def write_lines(lines: Iterable[str]) -> None:
    """Write lines that other tools may read to stdout, as they are."""
    with _hang_ups():
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()


@contextmanager
def _hang_ups() -> Iterator[None]:
    """Let a reader such as ``head`` hang up: the exit code still says what was found, not that nobody listened."""
    try:
        yield
    except BrokenPipeError:
        # What is still buffered would be written, and fail, when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(line: str) -> None:
    """Write one line that is not data to stderr."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
