"""Which Python an environment is made with: ours where the packages take it, else the nearest here that they take.

The installer itself is asked whether the packages exist for an interpreter, so that its index and settings are the
user's own. Found are the interpreters on ``PATH``, those of pyenv and those of uv.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from qwenperf.errors import EnvironmentUnfitError, MeasurementError, UsageError

LEAST = (3, 11)
"""The oldest Python that the package runs on."""

NEWEST_TRIED = 20
_LIMIT_S = 120
_ASK = "import json, sys; print(json.dumps([sys.version, list(sys.version_info[:2]), sys.implementation.name]))"
_NUMBER = re.compile(r"(\d+)\.(\d+)")
_NEEDED = re.compile(r"Python\s*((?:[<>=!~]=?\s*[\d.]+\s*,?\s*)+)")


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """A Python: ``version`` is what it says of itself, ``number`` its major and minor."""

    path: str
    version: str
    number: tuple[int, int]

    @property
    def short(self) -> str:
        """Its version in one word."""
        return self.version.split()[0]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """An interpreter and the folder of its environment, which is there already where ``made``."""

    interpreter: Interpreter
    folder: Path
    made: bool


def choose(requirements: Sequence[str], folder: Callable[[Interpreter], Path], python: str | None = None) -> Choice:
    """Return the interpreter for an environment with ``requirements``, which ``folder`` is the place of.

    An environment that is whole already is taken, and nothing is asked of the package index. ``python`` names the
    interpreter to use; without it ours comes first, then the others, the nearest version first.

    Raises:
      UsageError: ``python`` is none.
      MeasurementError: the package index has no such version.
      EnvironmentUnfitError: no interpreter here is one that the packages take; says which are needed.
    """
    tried = (ask(python),) if python else interpreters()
    if python and tried[0] is None:
        raise UsageError(f"--python {python!r} is no Python that runs.")
    known = [one for one in tried if one is not None]
    for one in known:
        if (folder(one) / "complete").is_file():
            return Choice(interpreter=one, folder=folder(one), made=True)
    said: dict[str, str] = {}
    for one in known:
        trouble = _trouble(one, requirements)
        if trouble is None:
            return Choice(interpreter=one, folder=folder(one), made=False)
        said[one.short] = trouble
    raise _refusal(requirements, said)


def interpreters() -> tuple[Interpreter, ...]:
    """Return the Pythons of this machine, one a version: ours, then the nearest first."""
    ours = Interpreter(path=sys.executable, version=sys.version, number=sys.version_info[:2])
    found = {ours.number: ours}
    for path, number in _paths():
        # Not asked where its place tells that it is one too many: pyenv's own scripts take long.
        one = ask(path) if number not in found and number >= LEAST else None
        if one is not None and one.number >= LEAST:
            found.setdefault(one.number, one)
    others = [one for one in found.values() if one is not ours]
    return (ours, *sorted(others, key=lambda one: (abs(one.number[1] - ours.number[1]), -one.number[1])))


@cache
def ask(path: str) -> Interpreter | None:
    """Return what a Python says of itself; ``None`` where it does not run, or is another implementation."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )  # fmt: skip
        version, number, name = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return None
    if name != "cpython":
        return None
    return Interpreter(path=path, version=version, number=(number[0], number[1]))


def _paths() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield places of interpreters, and the versions that they are of by their names."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for path in sorted(pyenv.glob("versions/3.*/bin/python3"), reverse=True):
        named = _NUMBER.match(path.parts[-3])
        if named:
            yield str(path), (int(named[1]), int(named[2]))
    for minor in range(LEAST[1], NEWEST_TRIED):
        found = shutil.which(f"python{LEAST[0]}.{minor}")
        if found:
            yield found, (LEAST[0], minor)
    yield from _of_uv()


def _of_uv() -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the interpreters that uv has installed or found; it downloads none."""
    uv = find_uv()
    if uv is None:
        return
    command = [uv, "python", "list", "--only-installed", "--output-format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
        listed = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return
    for one in listed:
        named = _NUMBER.match(str(one.get("version"))) if isinstance(one, dict) else None
        if named and one.get("path"):
            yield one["path"], (int(named[1]), int(named[2]))


def find_uv() -> str | None:
    """Return uv's program: on ``PATH``, or beside our interpreter."""
    beside = Path(sys.executable).parent / "uv"
    return shutil.which("uv") or (str(beside) if beside.is_file() else None)


def _trouble(python: Interpreter, requirements: Sequence[str]) -> str | None:
    """Return why the installer finds no such packages for ``python``; ``None`` where it does."""
    uv = find_uv()
    if uv:
        command = [uv, "pip", "compile", "--quiet", "--no-deps", "--no-header", "--python", python.path, "-"]
    else:
        command = [python.path, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
        command += requirements
    try:
        done = subprocess.run(
            command, input="\n".join(requirements), capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None if done.returncode == 0 else " ".join(done.stderr.split()) or f"exit code {done.returncode}"


def _refusal(requirements: Sequence[str], said: dict[str, str]) -> MeasurementError | EnvironmentUnfitError:
    """Return the error for what the installer said of each interpreter."""
    wanted = " and ".join(requirements)
    needed = [found[1].strip(" ,") for text in said.values() for found in [_NEEDED.search(text)] if found]
    first = next(iter(said.values()), "no Python was found")
    if needed:
        return EnvironmentUnfitError(
            f"{wanted} needs Python {needed[0]}, and here are {', '.join(said) or 'none'}.",
            advice="Install such a Python (pyenv or `uv python install`), or name one with --python.",
        )
    return MeasurementError(f"{wanted} cannot be had: {first[-400:]}")
