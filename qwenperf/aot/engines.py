"""Which engines have programs that can be compiled before they run, and for which platforms. Imports no JAX."""

from __future__ import annotations

from qwenperf.errors import ConfigError
from qwenperf.workloads.engine import EngineSettings, parse_engine
from qwenperf.workloads.factory import is_factory
from qwenperf.workloads.flags import FLAG_SETS


def settings_for(engine: str, platform: str) -> EngineSettings:
    """Return the settings of an engine.

    Raises:
      UnknownNameError: no such rung, setting or value.
      ConfigError: settings that have no program, or are not for this platform.
    """
    if is_factory(engine):
        raise ConfigError(
            f"engine {engine!r} is made by a factory, with real weights.",
            advice="Compile its jitted functions with qwenperf.compile_for or the pytest fixture.",
        )
    settings = parse_engine(engine)
    why = _no_program(settings)
    if why:
        raise ConfigError(f"engine {engine!r} has no program before it runs: {why}.", advice="Take `cached`.")
    flags = FLAG_SETS[settings.xla_flags]
    if flags.platforms and backend(platform) not in flags.platforms:
        raise ConfigError(
            f"engine setting xla_flags={flags.name!r} is for {' and '.join(flags.platforms)}, and the target is "
            f"{platform}."
        )
    return settings


def backend(platform: str) -> str:
    """Return what JAX calls the backend of a target's platform."""
    return "gpu" if platform == "cuda" else platform


def _no_program(settings: EngineSettings) -> str:
    if not settings.jit:
        return "jit=False dispatches operations one by one"
    if settings.position == "static":
        return "position='static' has the position in each of its programs"
    return ""
