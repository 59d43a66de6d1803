"""Where words go: data to stdout, everything else to stderr; colour only where people look and did not refuse it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import IO, Any

import click
from rich.console import Console, RenderableType

json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON document to stdout.")
debug_option = click.option("--debug", is_flag=True, help="Show the traceback of an internal error.")

PLAIN_WIDTH = 80


def console(stream: IO[str]) -> Console:
    """Return a console on ``stream``: 80 columns and no colour unless it is a terminal (rich honours NO_COLOR)."""
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, highlight=False, emoji=False, markup=False)


def write_json(document: Any) -> None:
    """Write one JSON document, and nothing else, to stdout."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
    sys.stdout.flush()


def write(renderables: Iterable[RenderableType]) -> None:
    """Write what a person reads to stdout."""
    out = console(sys.stdout)
    for renderable in renderables:
        out.print(renderable)


def say(line: str) -> None:
    """Write one line that is not data to stderr."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
