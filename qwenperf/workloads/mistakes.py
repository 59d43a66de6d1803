"""Which gates an engine fails on purpose: its name asks for the mistake that they are there to find. Data only."""

from __future__ import annotations

from collections.abc import Mapping

from qwenperf.workloads.engine import EngineSettings
from qwenperf.workloads.setting import Value

_FOUND_BY: Mapping[str, Mapping[str, tuple[Value, ...]]] = {
    "shapes": {"jit": (False,), "cache": ("none", "concat"), "shape": ("growing",), "position": ("static",)},
    "scaling": {"jit": (False,), "cache": ("none", "concat"), "shape": ("growing",), "position": ("static",)},
    "rotary": {"rotary": ("recomputed", "step")},
    "cache-alias": {"donate": (False,), "cache_dtype": ("int8",)},
}
"""By gate, setting and values: what the gate says of an engine with one of them is true, and no news."""


def on_purpose(settings: EngineSettings) -> dict[str, list[str]]:
    """Return, by gate, the settings that it may fail this engine for."""
    found: dict[str, list[str]] = {}
    for gate, causes in _FOUND_BY.items():
        told = [f"{name}={_text(getattr(settings, name))}" for name, bad in causes.items() if _is(settings, name, bad)]
        if told:
            found[gate] = told
    return found


def _is(settings: EngineSettings, name: str, bad: tuple[Value, ...]) -> bool:
    if name == "cache_dtype" and settings.key_block:
        # Blocks of keys are read after the write; read whole, XLA's CPU compiler fuses the cast with it and copies.
        return False
    return getattr(settings, name) in bad


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
