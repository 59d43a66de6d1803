"""What a case's engine asks of its process: variables that JAX reads when it starts, and a process before it.

A persistent cache, or a file of programs, is worth something to the second process that meets it. So a case that has
one gets a first process, which leaves its programs in a folder that is new and is removed afterwards: what is measured
as cold never depends on what ran yesterday. Imports no JAX.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qwenperf
from qwenperf.errors import QwenperfError
from qwenperf.lab.run_folder import writing
from qwenperf.measure.default_platform import default_platform
from qwenperf.schema.records import Finding, Severity
from qwenperf.units import seconds
from qwenperf.workloads.case import Case
from qwenperf.workloads.engine import EngineSettings, parse_engine
from qwenperf.workloads.flags import with_flags

_CACHE = "cache"


def settings_of(case: Case) -> EngineSettings:
    """Return the settings of a case's engine; plain ones where its name has an error, which its process will tell."""
    try:
        return parse_engine(case.engine)
    except QwenperfError:
        return EngineSettings()


def needs_first_process(settings: EngineSettings) -> bool:
    """Say whether an earlier process has to leave programs."""
    return settings.start == "saved" or settings.compile_cache


@contextmanager
def place_of_programs(settings: EngineSettings) -> Iterator[Path | None]:
    """Make an empty folder for what a first process leaves, and remove it at the end; ``None`` where none is needed.

    Raises:
      OutputError: it cannot be made.
    """
    if not needs_first_process(settings):
        yield None
        return
    with writing(Path(tempfile.gettempdir())):
        folder = tempfile.TemporaryDirectory(prefix="qwenperf-programs-", ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name)


def measuring_environ(
    environ: Mapping[str, str], settings: EngineSettings | None = None, place: Path | None = None
) -> dict[str, str]:
    """Return the environment of a measuring process.

    The persistent compilation cache is off, because a first request that finds yesterday's programs is not cold; where
    the engine has it on, it is in ``place``, and keeps the smallest program. The package is found where ours was,
    whatever the working folder holds (``-P`` in the command keeps that out). The platform is the CPU where there is no
    device of another, however this process was started.
    """
    environ = {**environ, **default_platform(environ)}
    kept = {name: value for name, value in environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    ours = str(Path(qwenperf.__file__).resolve().parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join([ours, *filter(None, [environ.get("PYTHONPATH")])])
    kept["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    if settings is None:
        return kept
    if settings.compile_cache and place is not None:
        kept["JAX_ENABLE_COMPILATION_CACHE"] = "true"
        kept["JAX_COMPILATION_CACHE_DIR"] = str(place / _CACHE)
        kept["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    return with_flags(kept, settings.xla_flags)


def of_the_machine(environment: Mapping[str, Any], settings: EngineSettings) -> dict[str, Any]:
    """Return a process's environment without what its case asked for: the rest is what a run's cases have in common."""
    told = dict(environment)
    if settings.compile_cache:
        told["persistent_cache"] = False
    if settings.xla_flags != "none":
        told["xla_flags"] = os.environ.get("XLA_FLAGS", "")
    return told


def not_asked_for(findings: tuple[Finding, ...], settings: EngineSettings) -> tuple[Finding, ...]:
    """Return findings without the remark on a persistent cache that the case asked for."""
    return tuple(finding for finding in findings if not (settings.compile_cache and finding.code == "persistent-cache"))


def left_finding(left: Mapping[str, Any]) -> Finding:
    """Say what an earlier process left."""
    return Finding(
        code="programs-left",
        severity=Severity.NOTE,
        message=f"an earlier process compiled {left['programs']} programs in {seconds(left['compile_s'])} and left "
        "them: cold figures are those of a process that finds them.",
        data=dict(left),
    )
