"""Where words go: data to stdout, everything else to stderr; colour only where people look and did not refuse it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import IO, Any, NoReturn

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from qwenperf.cli.streams import writing_data

json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON document to stdout.")
debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")

PLAIN_WIDTH = 80

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All but tab and the end of a line."""

_HALF = re.compile("[\ud800-\udfff]")
"""Half a character, which JSON can hold and UTF-8 cannot."""


class _Console(Console):
    """Rich's console, which would end the process with 1, a failed gate's code, when its reader hangs up."""

    def on_broken_pipe(self) -> NoReturn:
        """Pass the error on."""
        raise BrokenPipeError

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Leave out what steers a terminal: names of cases, and words of errors, are anybody's."""
        for one in super().render(renderable, options):
            yield one if one.control else Segment(shown(one.text), one.style)


def shown(text: str) -> str:
    """Return text as a terminal and a file can take it: control characters gone, half characters replaced."""
    return _HALF.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub("", text))


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
    out, wide = console(sys.stdout), console(sys.stdout)
    wide.width = max(wide.width, PLAIN_WIDTH)
    with writing_data():
        for renderable in renderables:
            if isinstance(renderable, Text):
                out.print(renderable, soft_wrap=bool(renderable.no_wrap) or not out.is_terminal)
            else:
                wide.print(renderable)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines that other tools may read to stdout, as ``shown``; errors as ``writing_data``."""
    with writing_data():
        sys.stdout.writelines(f"{shown(line)}\n" for line in lines)
