"""Compiles the programs of two sides, each by its own code, with its own JAX and its own compiler.

A side is asked through ``qwenperf aot --json``, which is the interface that stays from one revision to the next.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from qwenperf.errors import MeasurementError, QwenperfError, UsageError
from qwenperf.lab.revisions import default_cache, install
from qwenperf.lab.sides import Side
from qwenperf.schema.analysis import AotRecord
from qwenperf.schema.codec import aot_loads

LIMIT_S = 3600.0
_GRACE_S = 10.0
"""Seconds that an interrupted command has to end its own processes and to remove its folders."""

_INTERRUPTED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 2); os.execvp(sys.argv[1], sys.argv[1:])"
"""Has Linux interrupt a command (2) as soon as the process that started it is gone (1), however that ended."""

_VERSION = re.compile(r"\d+(\.\w+)+")


def compile_side(side: Side, arguments: Sequence[str], limit_s: float = LIMIT_S) -> AotRecord:
    """Return what the side's own code compiles for ``arguments`` of ``qwenperf aot``.

    Raises:
      UsageError: it refuses what it is asked for: all of it.
      MeasurementError: its command ends without a record; says what it said last.
    """
    engine = ["--engine", side.engine] if side.engine else []
    command = [side.python, "-P", "-m", "qwenperf", "aot", *arguments, *engine, "--json"]
    try:
        # Its own folder of records is a copy of what it tells, and a tree of code is to stay as it was exported.
        with tempfile.TemporaryDirectory(prefix="qwenperf-aot-") as folder:
            done = _run([*command, "--out", folder], side, limit_s)
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
    return record


def _run(command: Sequence[str], side: Side, limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a side's command; one that is not waited for to its end is asked to end, and leaves nothing behind."""
    watched = [sys.executable, "-I", "-c", _INTERRUPTED] if sys.platform == "linux" else []
    environ = side.child_environ(os.environ)
    with subprocess.Popen(
        [*watched, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=side.root
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


def with_engine_of(side: Side, record: AotRecord, own: Side) -> AotRecord:
    """Return ``record`` of the side ``own`` with the ids that its programs would have on ``side``.

    Two engines are compared as what one case had before and after.
    """
    if side.engine is None or own.engine is None:
        return record
    old, new = f"/{own.engine}/", f"/{side.engine}/"
    cases = tuple(replace(case, id=case.id.replace(old, new, 1)) for case in record.cases)
    return replace(record, cases=cases, declared=tuple(name.replace(old, new, 1) for name in record.declared))


def version_side(
    name: str, root: Path, *, jax: str | None = None, libtpu: str | None = None, cache: Path | None = None
) -> Side:
    """Return the side ``name``: the code in ``root`` under another JAX or another TPU compiler.

    Args:
      name: ``base`` or ``head``.
      root: the folder that holds the package and its ``pyproject.toml``.
      jax: version of jax and jaxlib; the one that runs here where none is given.
      libtpu: version of the TPU compiler; what that JAX asks for where none is given.
      cache: where environments are kept.

    Raises:
      UsageError: that is no version, or ``root`` has no ``pyproject.toml``.
      MeasurementError: the environment cannot be made; says what the installer said.
    """
    given = {"jax": jax, "libtpu": libtpu}
    for package, version in given.items():
        if version is not None and not _VERSION.fullmatch(version):
            raise UsageError(f"{version!r} is no version of {package}.", advice="Write it as 0.10.2.")
    project = root / "pyproject.toml"
    if not project.is_file():
        raise UsageError(f"{root} has no pyproject.toml to take the other packages from.")
    own = jax or metadata.version("jax")
    wanted = [f"jax[tpu]=={own}", f"jaxlib=={own}"] if libtpu is None else [f"jax=={own}", f"jaxlib=={own}"]
    wanted += [f"libtpu=={libtpu}"] if libtpu else []
    wanted += tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    key = hashlib.sha256("\n".join((sys.executable, sys.version, *wanted)).encode()).hexdigest()[:20]
    folder = (cache or default_cache()) / "environments" / f"aot-{own}-{libtpu or 'own'}-{key}"
    install(folder, wanted)
    label = ", ".join(f"{package} {version}" for package, version in given.items() if version)
    return Side(name=name, label=label, kind="versions", root=root, python=str(folder / "bin" / "python"))
