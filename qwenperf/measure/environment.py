"""What a run was made on: the machine and its software, as plain data, and what is unfit about it.

Everything but ``volatile`` is stable and makes up the fingerprint: only runs of one fingerprint are compared
in absolute numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.schema.records import Finding, Severity

_PACKAGES = ("qwenperf", "jax", "jaxlib", "flax", "numpy", "libtpu")
_ISA_X86 = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16")
_ISA_ARM = ("asimd", "sve", "i8mm", "bf16")
_DEBUG_FLAGS = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs", "jax_check_tracer_leaks", "jax_log_compiles")
_UNFIT_FLAGS = ("jax_disable_jit", "jax_debug_nans", "jax_debug_infs", "jax_check_tracer_leaks")
"""Debugging under which other programs run than in service: none compiled, or nothing donated."""

_CORES = Path("/sys/devices/system/cpu")
_SYSFS = _CORES / "cpu0"
_BUSY_SHARE = 0.75
"""Load average per core from which other work is to be suspected; a quiet machine that ran nothing is near 0."""


def describe() -> dict[str, Any]:
    """Describe machine and software; starts the JAX backend to ask for its devices."""
    devices = jax.devices()
    return {
        "cpu_model": cpu_model(),
        "machine": platform.machine(),
        "isa": _isa(),
        "cores": usable_cores(),
        "cpu_quota": _cpu_quota(),
        "memory_bytes": _total_memory_bytes(),
        "last_level_cache_bytes": last_level_cache_bytes(),
        "governor": _read(_SYSFS / "cpufreq" / "scaling_governor") or None,
        "kernel": platform.release(),
        "system": platform.system(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "platform": jax.default_backend(),
        "device_kind": devices[0].device_kind,
        "device_count": len(devices),
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "x64": bool(_flag("jax_enable_x64")),
        "matmul_precision": _flag("jax_default_matmul_precision"),
        "debug_flags": debug_flags(),
        "persistent_cache": bool(_flag("jax_compilation_cache_dir") and _flag("jax_enable_compilation_cache")),
        "volatile": {"load": list(os.getloadavg())},
    }


def debug_flags() -> list[str]:
    """Return JAX's debugging flags that are on, by environment variable or in the code around."""
    return [name for name in _DEBUG_FLAGS if _flag(name)]


def fingerprint(environment: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits that are equal for equal stable fields."""
    stable = {key: value for key, value in environment.items() if key != "volatile"}
    return hashlib.sha256(json.dumps(stable, sort_keys=True, default=str).encode()).hexdigest()[:16]


def findings(environment: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Remark on what makes measurements in ``environment`` slower, noisier or different from what one thinks."""
    found = [_x64(environment), _load(environment), _debug(environment), _cached(environment)]
    return tuple(finding for finding in found if finding)


def check_fit(environment: Mapping[str, Any] | None = None) -> None:
    """Refuse an environment in which no measurement means anything; by default that of this process, as it is now.

    Raises:
      EnvironmentUnfitError: a debugging flag changes what runs; names its variable.
    """
    environment = {"debug_flags": debug_flags()} if environment is None else environment
    names = [name.upper() for name in environment.get("debug_flags") or () if name in _UNFIT_FLAGS]
    if names:
        raise EnvironmentUnfitError(
            f"{' and '.join(names)} set: JAX compiles other programs when it debugs (nothing donated, or none at all).",
            advice="Unset it to measure.",
        )


def _x64(environment: Mapping[str, Any]) -> Finding | None:
    if not environment.get("x64"):
        return None
    return Finding(
        code="x64-enabled",
        severity=Severity.WARNING,
        message="jax_enable_x64 is on: arrays made without a dtype have 64 bits.",
        advice="Unset JAX_ENABLE_X64; speed and tokens of a float64 program say nothing of the float32 one.",
    )


def _load(environment: Mapping[str, Any]) -> Finding | None:
    load = environment.get("volatile", {}).get("load") or [0.0]
    cores = environment.get("cores") or 1
    if not busy(load[0], cores):
        return None
    return Finding(
        code="load-high",
        severity=Severity.WARNING,
        message=f"load average {load[0]:.1f} on {cores} cores: other work may be slowing this machine down.",
        advice="Stop other work and measure again before believing a speed.",
        data={"load": load[0], "cores": cores},
    )


def busy(load: float, cores: int) -> bool:
    """Say whether a load average is one at which measurements are not to be believed."""
    return load > _BUSY_SHARE * cores


def _debug(environment: Mapping[str, Any]) -> Finding | None:
    flags = environment.get("debug_flags")
    if not flags:
        return None
    return Finding(
        code="debug-flags",
        severity=Severity.WARNING,
        message=f"debugging is on: {', '.join(flags)}.",
        advice="Switch it off for measurements: it changes what is compiled, or how often the host waits.",
        data={"flags": list(flags)},
    )


def _cached(environment: Mapping[str, Any]) -> Finding | None:
    if not environment.get("persistent_cache"):
        return None
    return Finding(
        code="persistent-cache",
        severity=Severity.NOTE,
        message="the persistent compilation cache is on: compile seconds and cold times are not those of a first run.",
        advice="Unset JAX_COMPILATION_CACHE_DIR to measure compiling.",
    )


def usable_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_level_cache_bytes() -> int | None:
    """Return the size of the largest cache of the first core; ``None`` where the system does not tell."""
    sizes = [_kilobytes(_read(path)) for path in _SYSFS.glob("cache/index*/size")]
    return max(sizes, default=0) or None


def last_level_caches_bytes(cores: Path = _CORES) -> int | None:
    """Return the sizes of the last caches of all cores that this process may run on, those that they share once.

    Some processors have one for every eight cores, and all threads together read from all of them. ``None`` where the
    system does not tell.
    """
    found: dict[str, int] = {}
    for core in _core_numbers():
        known = [(_kilobytes(_read(one / "size")), _read(one / "shared_cpu_list")) for one in _caches(cores, core)]
        size, shared = max(known, default=(0, ""))
        found[shared or str(core)] = size
    return sum(found.values()) or None


def _caches(cores: Path, core: int) -> list[Path]:
    return list((cores / f"cpu{core}").glob("cache/index*"))


def _core_numbers() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def _kilobytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(match[1]) * 1024 ** " KMG".index(match[2] or " ") if match else 0


def cpu_model() -> str:
    """Return the processor's name, as the system tells it."""
    match = re.search(r"^(?:model name|Model|Processor)\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    return match[1].strip() if match else platform.processor() or platform.machine()


def _isa() -> list[str]:
    match = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _read(Path("/proc/cpuinfo")), re.MULTILINE)
    flags = set(match[1].split()) if match else set()
    return [name for name in _ISA_X86 + _ISA_ARM if name in flags]


def _cpu_quota() -> float | None:
    """Return the cores' worth of time that a container may use; ``None`` without a limit."""
    quota, _, period = _read(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _total_memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def usable_memory_bytes() -> int | None:
    """Return the bytes of memory that this process may have: those of the machine, or of a container with fewer."""
    limit = _read(Path("/sys/fs/cgroup/memory.max"))
    known = [_total_memory_bytes(), int(limit) if limit.isdecimal() else None]
    return min((one for one in known if one), default=None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _flag(name: str) -> Any:
    """Return a JAX flag; ``None`` where this version has no such flag."""
    return getattr(jax.config, name, None)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
