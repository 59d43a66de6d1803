"""What a compiled program depends on, as plain data: machine and software, and the engine that it was compiled for.

A program that was compiled elsewhere may crash, or compute something else, where it is loaded: every field counts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from qwenperf.models.config import ModelConfig
from qwenperf.workloads.engine import EngineSettings

_OF_START = ("start", "compile_cache")
"""Settings that say where programs come from, not what they are."""


def environment() -> dict[str, Any]:
    """Describe what compiles and runs programs here; starts JAX's backend."""
    device = jax.devices()[0]
    return {
        "jax": metadata.version("jax"),
        "jaxlib": metadata.version("jaxlib"),
        "python": platform.python_version(),
        "platform": device.platform,
        "platform_version": device.client.platform_version,
        "device_kind": device.device_kind,
        "device_count": jax.device_count(),
        "machine": platform.machine(),
        "cpu_features": _cpu_features(),
        "xla_flags": os.environ.get("XLA_FLAGS", "").split(),
        "libtpu_flags": os.environ.get("LIBTPU_INIT_ARGS", "").split(),
    }


def code(config: ModelConfig, settings: EngineSettings, capacity: int, dtype: str) -> dict[str, Any]:
    """Describe what programs are made from, but for their text, which is hashed."""
    told = {name: value for name, value in settings.to_json().items() if name not in _OF_START}
    return {
        "qwenperf": metadata.version("qwenperf"),
        **{f"config.{name}": value for name, value in asdict(config).items()},
        **{f"settings.{name}": value for name, value in told.items()},
        "capacity": capacity,
        "dtype": dtype,
    }


def text_hash(lowered: jax.stages.Lowered) -> str:
    """Return the SHA-256 of a program as it is given to the compiler."""
    return hashlib.sha256(lowered.as_text().encode()).hexdigest()


def differences(saved: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    """Name the fields that differ, with both values; of long lists only what one of them lacks."""
    for name in dict.fromkeys((*saved, *here)):
        before, now = saved.get(name), here.get(name)
        if before == now:
            continue
        if isinstance(before, list) and isinstance(now, list) and set(before) != set(now):
            more, less = sorted(set(before) - set(now)), sorted(set(now) - set(before))
            yield f"{name} (only in the file: {' '.join(more) or 'none'}; only here: {' '.join(less) or 'none'})"
        else:
            yield f"{name} ({before!r} in the file, {now!r} here)"


def _cpu_features() -> list[str]:
    """Return what the processor can do; the compiler uses all that it finds."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return [platform.processor()]
    match = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    return sorted(match[1].split()) if match else [platform.processor()]
