"""Where an engine's programs come from before its first request: ``start`` of ``workloads.setting``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from qwenperf.decode import executables, stamp
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.plan import Planned, Shape
from qwenperf.errors import ConfigError

Shapes = Iterable[Shape | tuple[int, int, int]]
"""Requests to be ready for: batch, prompt length, new tokens."""


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
      ConfigError: an engine whose programs are not compiled ahead of time.
      ExecutablesError: executables that cannot be saved.
      OutputError: ``path`` cannot be written.
    """
    if not engine.settings.ahead_of_time:
        raise ConfigError(f"{engine.name} compiles its programs when they are called: there is nothing to save.")
    executables.save(Path(path), _planned(engine, [Shape(*shape) for shape in shapes]), _code(engine))


def _planned(engine: LadderEngine, shapes: Sequence[Shape]) -> tuple[Planned, ...]:
    """Return the programs of all ``shapes``, each once."""
    programs = [program for shape in shapes for program in engine.plan(*shape)]
    return tuple({(program.name, program.key): program for program in programs}.values())


def _code(engine: LadderEngine) -> dict[str, object]:
    return stamp.code(engine.model.config, engine.settings, engine.capacity, engine.model.dtype)
