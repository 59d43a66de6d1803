"""Which file each side would take somebody's own engine from, asked of a process of that side before any is measured.

``python -P -m qwenperf.lab.engine_files SPEC``: SPEC is JSON, ``tree`` and ``engines``. The last line of its output is
JSON too: for each engine the ``file`` of its module, or an ``error``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from qwenperf.errors import EnvironmentUnfitError, MeasurementError, QwenperfError, UsageError
from qwenperf.lab.own_tree import OwnTree, check_engine_file, import_from
from qwenperf.lab.side_command import run_command
from qwenperf.lab.sides import Side

_LIMIT_S = 120.0
_FILES = "Files that git does not hold are in no revision's tree."


def engine_files(side: Side, engines: Sequence[str]) -> dict[str, str]:
    """Return the files of the modules of ``engines`` in the tree of ``side``; those that do not import are left out.

    Raises:
      EnvironmentUnfitError: one is imported from elsewhere; says from where.
      UsageError: ``side`` is the base and none of them imports; says why. What only head cannot do is a verdict.
      MeasurementError: the side's process does not answer.
    """
    told = _ask(side, engines)
    errors = {engine: seen for engine, seen in told.items() if "error" in seen}
    whose = f"{side.name} ({side.label})"
    for seen in errors.values():
        if seen["exit_code"] == EnvironmentUnfitError.exit_code:
            raise EnvironmentUnfitError(f"{whose}: {seen['error']}")
    if len(errors) == len(told) and side.name == "base":
        first = next(iter(errors.values()))
        raise UsageError(f"{whose}: {first['error']}", advice=_FILES)
    return {engine: seen["file"] for engine, seen in told.items() if engine not in errors}


def engine_file(side: Side, engine: str) -> str:
    """Return the file of the module of ``engine`` in the tree of ``side``.

    Raises:
      EnvironmentUnfitError: it is imported from elsewhere; says from where.
      UsageError: it does not import, or has no such function; says why.
      MeasurementError: the side's process does not answer.
    """
    seen = _ask(side, [engine])[engine]
    if "error" not in seen:
        return str(seen["file"])
    if seen["exit_code"] == EnvironmentUnfitError.exit_code:
        raise EnvironmentUnfitError(seen["error"])
    raise UsageError(seen["error"], advice=_FILES)


def _ask(side: Side, engines: Sequence[str]) -> Mapping[str, Any]:
    if side.tree is None:
        return {}
    spec = json.dumps({"tree": side.tree.to_json(), "engines": list(engines)})
    command = [side.python, "-P", "-m", "qwenperf.lab.engine_files", spec]
    try:
        done = run_command(command, side, _LIMIT_S)
        told: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasurementError(f"{side.name} ({side.label}) does not start: {error}.") from error
    except (ValueError, IndexError) as error:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise MeasurementError(
            f"{side.name} ({side.label}) does not import its engines: {said[-1] if said else done.returncode}"
        ) from error
    return told


def main(arguments: Sequence[str]) -> None:
    """Import the engines of SPEC from its tree, and say where from."""
    from qwenperf.lab.own_engine import find_factory

    spec = json.loads(arguments[0])
    tree = OwnTree.from_json(spec["tree"])
    import_from(tree)
    told: dict[str, Any] = {}
    for engine in spec["engines"]:
        try:
            with redirect_stdout(sys.stderr):  # somebody's module may greet
                find_factory(engine)
            told[engine] = {"file": check_engine_file(engine, tree)}
        except QwenperfError as error:
            said = str(error) if isinstance(error, EnvironmentUnfitError) else error.message
            told[engine] = {"error": said, "exit_code": error.exit_code}
    sys.stdout.write(f"\n{json.dumps(told)}\n")
    sys.stdout.flush()
    os._exit(0)  # what the modules have started, such as threads, is not waited for


if __name__ == "__main__":
    main(sys.argv[1:])
