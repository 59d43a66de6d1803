"""The rungs of the ladder: each adds one optimisation to the one before it."""

from __future__ import annotations

from qwenperf.decode.settings import EngineSettings
from qwenperf.errors import UnknownNameError

SETTINGS: dict[str, EngineSettings] = {
    "eager": EngineSettings(jit=False, cache="none", shape="growing", rotary="recomputed", donate=False),
    "naive": EngineSettings(cache="none", shape="growing", rotary="recomputed", donate=False),
    "padded": EngineSettings(cache="none", shape="padded", donate=False),
    "cached-concat": EngineSettings(cache="concat", shape="growing", donate=False),
    "cached-host": EngineSettings(cache="static", shape="padded", loop="host"),
    "cached": EngineSettings(cache="static", shape="padded", loop="device"),
}


def find_settings(rung: str) -> EngineSettings:
    """Return the settings of ``rung``.

    Raises:
      UnknownNameError: no such rung; offers the nearest name.
    """
    try:
        return SETTINGS[rung]
    except KeyError:
        raise UnknownNameError("engine", rung, SETTINGS) from None
