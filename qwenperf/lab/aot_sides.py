"""Compiles the programs of two sides, each by its own code, with its own JAX and its own compiler.

A side is asked through ``qwenperf aot --json``, which is the interface that stays from one revision to the next.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from qwenperf.errors import MeasurementError, QwenperfError, UsageError
from qwenperf.lab.side_command import LIMIT_S, run_command
from qwenperf.lab.sides import Side
from qwenperf.schema.analysis import AotCase, AotRecord
from qwenperf.schema.codec import aot_loads


def compile_side(side: Side, arguments: Sequence[str], limit_s: float = LIMIT_S) -> AotRecord:
    """Return what the side's own code compiles for ``arguments`` of ``qwenperf aot``.

    Raises:
      UsageError: it refuses what it is asked for: all of it.
      MeasurementError: its command ends without a record; says what it said last.
    """
    engine = ["--engine", side.engine] if side.engine else []
    # It is started in a revision's folder, which on Python's path would hide Python's own modules.
    here = ["--no-engine-here"] if side.tree else []
    command = [side.python, "-P", "-m", "qwenperf", "aot", *arguments, *engine, *here, "--json"]
    try:
        # Its own folder of records is a copy of what it tells, and a tree of code is to stay as it was exported.
        with tempfile.TemporaryDirectory(prefix="qwenperf-aot-") as folder:
            done = run_command([*command, "--out", folder], side, limit_s)
        record = aot_loads(done.stdout, f"{side.name} ({side.label})")
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"{side.name} ({side.label}) was not compiled within {limit_s:.0f} s.") from error
    except OSError as error:
        raise MeasurementError(f"{side.name} ({side.label}) cannot be compiled: {error}.") from error
    except QwenperfError as error:
        said = [line for line in done.stderr.strip().splitlines() if line]
        told = said[-1].removeprefix("qwenperf: error: ") if said else f"exit code {done.returncode}, and {error}"
        kind = UsageError if done.returncode == UsageError.exit_code else MeasurementError
        raise kind(f"{side.name} ({side.label}) gives no record of compiled programs: {told}") from error
    if record.cases and all(case.extra.get("exit_code") == UsageError.exit_code for case in record.cases):
        raise UsageError(f"{side.name} ({side.label}): {record.cases[0].error}")
    _check_files(record, side)
    return record


def _check_files(record: AotRecord, side: Side) -> None:
    """Refuse programs of another copy of somebody's engine than the one in the tree of ``side``."""
    if side.tree is None:
        return
    for case in record.cases:
        file = case.extra.get("engine_file")
        if case.program is not None and not (file and Path(str(file)).is_relative_to(side.tree.root.resolve())):
            raise MeasurementError(
                f"{side.name} ({side.label}): {case.id} was compiled from {file or 'a file that it does not tell'}, "
                f"and not from the revision's tree {side.tree.root}."
            )


def with_model_of(record: AotRecord, model: str, given: str) -> AotRecord:
    """Return ``record`` with the ids of a model as the caller calls it; its side was ``given`` another name for it."""

    def renamed(name: str) -> str:
        return f"{model}{name.removeprefix(given)}" if name.startswith(f"{given}/") else name

    def own(case: AotCase) -> AotCase:
        told = case.spec.get("case")
        spec = case.spec
        if isinstance(told, Mapping) and told.get("model") == given:
            spec = {**spec, "case": {**told, "model": model}}
        return replace(case, id=renamed(case.id), spec=spec)

    return replace(record, cases=tuple(map(own, record.cases)), declared=tuple(map(renamed, record.declared)))


def with_engine_of(side: Side, record: AotRecord, own: Side) -> AotRecord:
    """Return ``record`` of the side ``own`` with the ids that its programs would have on ``side``.

    Two engines are compared as what one case had before and after.
    """
    if side.engine is None or own.engine is None:
        return record
    old, new = f"/{own.engine}/", f"/{side.engine}/"
    cases = tuple(replace(case, id=_last_replaced(case.id, old, new)) for case in record.cases)
    return replace(record, cases=cases, declared=tuple(_last_replaced(name, old, new) for name in record.declared))


def _last_replaced(name: str, old: str, new: str) -> str:
    """Return an id with another engine, which stands behind the model, and that may be a path with any names in it."""
    model, found, rest = name.rpartition(old)
    return f"{model}{new}{rest}" if found else name
