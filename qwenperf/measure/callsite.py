"""Whose line of code caused a compile: the user's, not JAX's and not the measuring code's.

Nearest to the compile comes first; frames outside the code that drives a measurement do not count once
something inside it was found.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType, TracebackType

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_STDLIB = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})
_LIBRARIES = ("jax", "jaxlib", "flax", "numpy", "jaxtyping", "beartype", "equinox")
_DRIVERS = ("measure", "lab", "cli", "pytest_plugin", "__main__.py")
_GLUE = ("adapters",)
_INTERACTIVE = ("<stdin>", "<ipython")
_RANKS = ("user", "engine", "third party")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line of Python: ``file:line`` (relative when below the working folder) and the function around it."""

    location: str
    function: str


NOWHERE = Place(location="", function="")


def current_place() -> Place:
    """Return the line of the running call that is most likely the reader's own."""
    return choose(_running())


def place_of(traceback: TracebackType | None) -> Place:
    """Return the line on the way to an exception that is most likely the reader's own."""
    lines = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        lines.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return choose((*reversed(lines), *_running()))


def choose(lines: Iterable[tuple[str, int, str]]) -> Place:
    """Pick from ``(file, line, function)``, innermost first; ``NOWHERE`` if none is worth showing."""
    found: dict[str, tuple[str, int, str]] = {}
    for line in lines:
        kind = classify(line[0])
        if kind == "driver" and found:
            break
        if kind in _RANKS:
            found.setdefault(kind, line)
    for rank in _RANKS:
        if rank in found:
            file, number, function = found[rank]
            return Place(location=f"{_readable(file)}:{number}", function=function)
    return NOWHERE


@lru_cache(maxsize=4096)
def classify(file: str) -> str:
    """Say whose ``file`` is: user, engine (ours, under test), third party, driver (ours, measuring) or noise."""
    if file.startswith("<"):
        return "user" if file.startswith(_INTERACTIVE) else "noise"
    if file.startswith(_PACKAGE):
        room = Path(file[len(_PACKAGE) :]).parts[0]
        return "driver" if room in _DRIVERS else "noise" if room in _GLUE else "engine"
    for folder in _SITE:
        if file.startswith(folder):
            library = Path(file[len(folder) :]).parts[0]
            return "noise" if library in _LIBRARIES else "third party"
    return "noise" if file.startswith(_STDLIB) else "user"


def _running() -> Iterator[tuple[str, int, str]]:
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to the caller's frame
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def _readable(file: str) -> str:
    folder = str(Path.cwd()) + os.sep
    return file.removeprefix(folder)
