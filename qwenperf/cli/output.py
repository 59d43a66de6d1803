"""Where words go: data to stdout, everything else to stderr; colour only where people look and did not refuse it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import IO, Any, NoReturn

import click
from rich.console import Console, RenderableType
from rich.text import Text

from qwenperf.cli.streams import writing_data

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
    """Write one JSON document, and nothing else, to stdout; errors as ``writing_data``."""
    with writing_data():
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def write(renderables: Iterable[RenderableType]) -> None:
    """Write what a person reads to stdout; errors as ``writing_data``.

    Lines are wrapped on a terminal only, so that a log can be searched. A table is never squeezed: a name that is cut
    says nothing, and a terminal folds what is too wide.
    """
    out = console(sys.stdout)
    with writing_data():
        for renderable in renderables:
            if isinstance(renderable, Text):
                out.print(renderable, soft_wrap=bool(renderable.no_wrap) or not out.is_terminal)
            else:
                out.print(renderable, width=max(out.width, PLAIN_WIDTH), crop=False)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines that other tools may read to stdout, as they are; errors as ``writing_data``."""
    with writing_data():
        sys.stdout.writelines(f"{line}\n" for line in lines)
