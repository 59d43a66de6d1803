"""Starts JAX in a measuring process, once and before anything is built: what cannot work is one clear error."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from qwenperf.errors import EnvironmentUnfitError


def start_jax() -> dict[str, Any]:
    """Import JAX, start its backend, and return the environment as ``measure.environment`` describes it.

    Raises:
      EnvironmentUnfitError: JAX refuses a setting or has no such platform, or a setting changes what is measured.
    """
    try:
        from qwenperf.measure import environment

        seen = environment.describe()
    except (ImportError, RuntimeError, ValueError, AssertionError) as error:  # JAX has no class of its own for these
        said = " ".join(str(error).split()) or type(error).__name__
        raise EnvironmentUnfitError(f"JAX does not start: {said.rstrip('.')}.", advice=settings(os.environ)) from error
    environment.check_fit(seen)
    return seen


def settings(environ: Mapping[str, str]) -> str:
    """Name the variables that JAX was told by, but for the one that every measuring process has."""
    names = [name for name in environ if name.startswith("JAX_") or name == "XLA_FLAGS"]
    names = [name for name in sorted(names) if name != "JAX_ENABLE_COMPILATION_CACHE"]
    told = ", ".join(f"{name}={environ[name]!r}" for name in names)
    return f"It was told {told}." if told else ""
