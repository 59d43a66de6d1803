"""Runs a side's own ``qwenperf`` command, the interface that stays from one revision to the next."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from qwenperf.errors import MeasurementError, RecordError
from qwenperf.lab.sides import Side
from qwenperf.measure.measuring_lock import one_measurement
from qwenperf.schema.codec import loads
from qwenperf.schema.records import CaseRecord, RunRecord, Status

LIMIT_S = 3600.0
_GRACE_S = 10.0
"""Seconds that an interrupted command has to end its own processes and to remove its folders."""

_INTERRUPTED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 2); os.execvp(sys.argv[1], sys.argv[1:])"
"""Has Linux interrupt a command (2) as soon as the process that started it is gone (1), however that ended."""

_WHERE = "import os, qwenperf; print(os.path.dirname(os.path.dirname(os.path.realpath(qwenperf.__file__))))"


def run_command(command: Sequence[str], side: Side, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a side's command; one that is not waited for to its end is asked to end, and leaves nothing behind.

    It is started in the revision's files.

    Raises:
      OSError: it does not start.
      subprocess.TimeoutExpired: it did not end in time.
    """
    watched = [sys.executable, "-I", "-c", _INTERRUPTED] if sys.platform == "linux" else []
    environ = side.child_environ(os.environ)
    place = side.root if side.tree is None else side.tree.place()
    with subprocess.Popen(
        [*watched, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=place
    ) as child:
        try:
            said = child.communicate(timeout=limit_s)
        except BaseException:
            child.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                child.communicate(timeout=_GRACE_S)
            child.kill()
            raise
    return subprocess.CompletedProcess(command, child.returncode, *said)


def check_package(side: Side, limit_s: float = 120.0) -> None:
    """Refuse a side that would run another package than its own tree's, such as an installed one.

    Raises:
      MeasurementError: its package does not import, or lies elsewhere; says what was seen.
    """
    try:
        done = run_command([side.python, "-P", "-c", _WHERE], side, limit_s)
    except (OSError, subprocess.SubprocessError) as error:
        raise MeasurementError(f"{side.label} does not start: {error}.") from error
    if done.returncode:
        raise MeasurementError(f"{side.label} does not import: {_last(done)}")
    if done.stdout.strip() != os.path.realpath(side.root):
        raise MeasurementError(f"{side.label} holds no package qwenperf: it would come from {done.stdout.strip()}.")


@one_measurement()
def run_side(side: Side, arguments: Sequence[str], limit_s: float = LIMIT_S, *, traced: bool = False) -> RunRecord:
    """Return the run that the side's own code makes of ``arguments`` of ``qwenperf run``, without traces.

    ``traced``: with their summaries; the files are removed.

    Raises:
      MeasurementError: its command ends without a record; says what it said last. Or an engine was not its tree's.
    """
    kept = "--trace" if traced else "--no-trace"
    command = [side.python, "-P", "-m", "qwenperf", "run", *arguments, kept, "--json"]
    try:
        # Its folder is a copy of what it tells, and a tree of code is to stay as it was exported.
        with tempfile.TemporaryDirectory(prefix="qwenperf-run-", ignore_cleanup_errors=True) as folder:
            done = run_command([*command, "--out", folder], side, limit_s)
        run = loads(done.stdout, side.label)
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"{side.label} was not measured within {limit_s:.0f} s.") from error
    except OSError as error:
        raise MeasurementError(f"{side.label} cannot be measured: {error}.") from error
    except RecordError as error:
        raise MeasurementError(f"{side.label} gives no record of a run: {_last(done) or error}") from error
    if run.interrupted:
        raise KeyboardInterrupt
    _check_files(run, side)
    return run


def _check_files(run: RunRecord, side: Side) -> None:
    """Refuse a run of another copy of somebody's engine than the one in the tree of ``side``."""
    if side.tree is None:
        return
    for case in run.cases:
        file = case.extra.get("engine_file")
        if case.metrics and not (file and Path(str(file)).is_relative_to(side.tree.root.resolve())):
            raise MeasurementError(
                f"{side.label}: {case.id} was measured with an engine from {file or 'a file that it does not tell'}, "
                f"and not from the revision's tree {side.tree.root}."
            )


def case_of(run: RunRecord, case: str) -> CaseRecord:
    """Return the record of one case.

    Raises:
      MeasurementError: it was not measured; says why.
    """
    found = next((one for one in run.cases if one.id == case), None)
    if found is None:
        raise MeasurementError(f"{case} is not among what was measured: {', '.join(one.id for one in run.cases)}.")
    if found.status is not Status.MEASURED and not found.metrics:
        raise MeasurementError(f"{case} was not measured: {found.error or found.status.value}")
    return found


def value_of(run: RunRecord, case: str, metric: str) -> float:
    """Return a metric of a case; errors as ``case_of``, also where the metric is missing."""
    found = case_of(run, case)
    if metric not in found.metrics:
        why = found.error or "; ".join(found.evidence.voids) or "its engine does not tell it"
        raise MeasurementError(f"{case} has no {metric}: {why}")
    return found.metrics[metric].value


def _last(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last words of a command: those of its error, or of its JSON."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(done.stdout)["error"]["message"])
    said = [line for line in done.stderr.strip().splitlines() if line]
    return said[-1].removeprefix("qwenperf: error: ") if said else f"exit code {done.returncode}"
