"""Somebody's own engine as data: ``package.module:factory`` in the place of a rung. Nothing is imported here."""

from __future__ import annotations

import re

from qwenperf.errors import ConfigError

_NAME = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<factory>[A-Za-z_]\w*)")


def is_factory(engine: str) -> bool:
    """Say whether an engine's name means a factory: rungs and settings have no colon."""
    return ":" in engine


def factory_parts(engine: str) -> tuple[str, str]:
    """Return the module and the function of ``package.module:factory``.

    Raises:
      ConfigError: anything else; settings belong to our own engines.
    """
    match = _NAME.fullmatch(engine)
    if match is None:
        raise ConfigError(f"engine {engine!r:.200} is no package.module:factory.", advice="Write my.module:make.")
    return match["module"], match["factory"]
