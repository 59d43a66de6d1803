"""Where an engine's programs come from before its first request: ``start`` of ``workloads.setting``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from qwenperf.decode import executables, stamp
from qwenperf.decode.bounds import MOST
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.plan import Planned, Shape
from qwenperf.errors import ConfigError

Shapes = Iterable[Shape | tuple[int, int, int]]
"""Requests to be ready for: batch, prompt length, new tokens."""


def shapes_of(given: Any, name: str) -> tuple[Shape, ...]:
    """Return the shapes of requests that the argument ``name`` tells of.

    Raises:
      ConfigError: anything but three whole numbers of at least 1 for each; says what was seen.
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ConfigError(f"{name} is {given!r}.", advice=_ADVICE)
    return tuple(_shape(one, name) for one in given)


def path_of(given: Any, name: str) -> Path:
    """Return the path that the argument ``name`` tells of.

    Raises:
      ConfigError: neither text nor a path.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise ConfigError(f"{name} is {given!r}, which is no path.")
    return Path(given)


def check_start(start: str, shapes: Sequence[object], path: Path | None) -> None:
    """Refuse what would be ignored, and what is missing.

    Raises:
      ConfigError: names the setting and the argument.
    """
    needed = {"request": (), "declared": ("declare",), "saved": ("declare", "executables")}[start]
    for name, given in (("declare", bool(shapes)), ("executables", path is not None)):
        if name in needed and not given:
            raise ConfigError(f"engine setting start={start!r} needs {name}, and was given none.")
        if given and name not in needed:
            raise ConfigError(f"{name} is given, and engine setting start={start!r} does not read it.")


def make_ready(engine: LadderEngine, shapes: Sequence[Shape], path: Path | None) -> None:
    """Compile the programs of ``shapes``, or load them from ``path``; their first request compiles nothing.

    Raises:
      CapacityError: a shape that does not fit.
      ExecutablesError: see ``executables.load``.
    """
    planned = _planned(engine, shapes)
    if path is not None:
        executables.load(path, planned, _code(engine))
    for program in planned:
        program.build()


def save_executables(engine: LadderEngine, path: Path | str, shapes: Shapes) -> None:
    """Save the programs of ``shapes`` for engines that are built with ``start=saved``; compiles those that are missing.

    The file is code: see ``executables`` for whom to trust.

    Raises:
      ConfigError: an engine whose programs are not compiled ahead of time, no shapes, or something that is none.
      ExecutablesError: executables that cannot be saved.
      OutputError: ``path`` cannot be written.
    """
    if not engine.settings.ahead_of_time:
        raise ConfigError(f"{engine.name} compiles its programs when they are called: there is nothing to save.")
    checked = shapes_of(shapes, "shapes")
    if not checked:
        raise ConfigError("shapes is empty: there is nothing to save.", advice=_ADVICE)
    executables.save(path_of(path, "path"), _planned(engine, checked), _code(engine))


_ADVICE = "Give a list of (batch, prompt length, new tokens), whole numbers of at least 1."


def _shape(given: Any, name: str) -> Shape:
    sizes = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else []
    whole = [int(size) for size in sizes if not isinstance(size, bool) and isinstance(size, Integral)]
    if len(sizes) != len(Shape._fields) or len(whole) != len(sizes) or not all(1 <= size <= MOST for size in whole):
        raise ConfigError(f"{name} has {given!r}, which is no shape of a request.", advice=_ADVICE)
    return Shape(*whole)


def _planned(engine: LadderEngine, shapes: Sequence[Shape]) -> tuple[Planned, ...]:
    """Return the programs of all ``shapes``, each once."""
    programs = [program for shape in shapes for program in engine.plan(*shape)]
    return tuple({(program.name, program.key): program for program in programs}.values())


def _code(engine: LadderEngine) -> dict[str, object]:
    return stamp.code(engine.model.config, engine.settings, engine.capacity, engine.model.dtype)
