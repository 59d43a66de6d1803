"""Settings that belong to the process: JAX reads them when it starts, so that an engine can only check them."""

from __future__ import annotations

import os

import jax

from qwenperf.errors import ConfigError
from qwenperf.workloads.engine import EngineSettings
from qwenperf.workloads.flags import FLAG_SETS, missing_flags


def check_process(settings: EngineSettings) -> None:
    """Refuse settings that this process does not have.

    Raises:
      ConfigError: flags of another platform, flags that JAX was not started with, or no persistent compilation cache.
    """
    _check_flags(settings.xla_flags)
    if settings.compile_cache and not compile_cache_is_on():
        raise ConfigError(
            "engine setting compile_cache=true, and JAX's persistent compilation cache is off in this process.",
            advice="Set JAX_COMPILATION_CACHE_DIR before JAX starts; `qwenperf run` does it for the case.",
        )


def compile_cache_is_on() -> bool:
    """Say whether JAX looks for programs in a persistent cache."""
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    return bool(folder and getattr(jax.config, "jax_enable_compilation_cache", False))


def _check_flags(name: str) -> None:
    chosen, backend = FLAG_SETS[name], jax.default_backend()
    if chosen.platforms and backend not in chosen.platforms:
        known = [other.name for other in FLAG_SETS.values() if not other.platforms or backend in other.platforms]
        raise ConfigError(
            f"engine setting xla_flags={name!r} is for {' and '.join(chosen.platforms)}, and this process runs on "
            f"{backend}.",
            advice=f"For {backend}: {', '.join(known)}.",
        )
    missing = missing_flags(os.environ, name)
    if missing:
        raise ConfigError(
            f"engine setting xla_flags={name!r} needs {' '.join(missing)} in {chosen.variable}, which JAX reads once, "
            "when it starts.",
            advice=f"Set {chosen.variable} before JAX starts; `qwenperf run` does it for the case.",
        )
