"""What may be wrong with this machine before anything is measured: typed findings with advice. Linux mostly.

Reads files and versions; a missing file says nothing. ``root`` stands for ``/``, so that other machines can be tried.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from qwenperf.lab import machine
from qwenperf.schema.records import Finding, Severity

_STEAL_SHARE = 0.02
"""Of all cores' time. Above it, other guests of the host visibly slow this one down."""

_PROFILERS = ("tensorboard-plugin-profile", "xprof", "tensorboard")
_CPU = Path("sys/devices/system/cpu")


def machine_findings(root: Path = Path("/"), *, watch_s: float = 1.0) -> tuple[Finding, ...]:
    """Return what is unfit about the machine itself; takes ``watch_s`` seconds to look at stolen time."""
    found = (_governor(root), _turbo(root), _smt(root), _throttled(root), _steal(root, watch_s), *_profilers())
    return tuple(finding for finding in found if finding)


def _governor(root: Path) -> Finding | None:
    names = {_read(path) for path in (root / _CPU).glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    if not names or names == {"performance"}:
        return None
    return _warning(
        "governor",
        f"the cores' frequency governor is {' and '.join(sorted(names))}: a core speeds up while it is measured.",
        "sudo cpupower frequency-set --governor performance",
    )


def _turbo(root: Path) -> Finding | None:
    if _read(root / _CPU / "intel_pstate" / "no_turbo") != "0" and _read(root / _CPU / "cpufreq" / "boost") != "1":
        return None
    return Finding(
        code="turbo",
        severity=Severity.NOTE,
        message="turbo frequencies are on: the first seconds of work are faster than the rest.",
        advice="Paired comparisons stand it; for single runs switch it off in /sys/devices/system/cpu.",
    )


def _smt(root: Path) -> Finding | None:
    if _read(root / _CPU / "smt" / "active") != "1":
        return None
    return Finding(
        code="smt",
        severity=Severity.NOTE,
        message="two hardware threads share a core: another process on the sibling takes half of it.",
        advice="Leave the siblings idle, or pin with --cores to one thread of each core.",
    )


def _throttled(root: Path) -> Finding | None:
    counts = [_read(path) for path in (root / _CPU).glob("cpu[0-9]*/thermal_throttle/core_throttle_count")]
    total = sum(int(count) for count in counts if count.isdigit())
    if not total:
        return None
    return _warning(
        "throttling", f"the cores were slowed down by heat {total} times since boot.", "Cool the machine, or wait."
    )


def _steal(root: Path, watch_s: float) -> Finding | None:
    stat = root / "proc" / "stat"
    cores = len(list((root / _CPU).glob("cpu[0-9]*"))) or 1
    before, start = machine.steal_s(stat), time.monotonic()
    time.sleep(watch_s)
    share = (machine.steal_s(stat) - before) / (cores * max(time.monotonic() - start, 1e-9))
    if share <= _STEAL_SHARE:
        return None
    return _warning(
        "steal", f"other guests of this host took {share:.0%} of its time just now.", "Use another host, or wait."
    )


def _profilers() -> Iterator[Finding]:
    for name in _PROFILERS:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            yield Finding(
                code="profiler-missing",
                severity=Severity.NOTE,
                message=f"{name} is not installed: traces are written and cannot be opened here.",
                advice="pip install 'qwenperf[profile]'",
            )


def versions() -> dict[str, str | None]:
    """Return the versions of what opens traces; ``None`` where it is not installed."""
    found: dict[str, str | None] = {}
    for name in _PROFILERS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _warning(code: str, message: str, advice: str) -> Finding:
    return Finding(code=code, severity=Severity.WARNING, message=message, advice=advice)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""
