"""Settings: their types, and how three sources become one value each.

``[tool.qwenperf]`` in ``pyproject.toml`` is overruled by ``QWENPERF_*`` variables, those by flags; the origin
of every value is kept. This module reads neither files nor the environment: the edges hand both in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.errors import ConfigError, UnknownNameError, nearest_advice

PREFIX = "QWENPERF_"
INCONCLUSIVE = ("warn", "fail")
TABLES = ("budgets", "quarantine", "aliases")
"""Keys of ``[tool.qwenperf]`` that other rooms read."""

SERVICE_VARIABLES = (
    "QWENPERF_DATABASE", "QWENPERF_FILES", "QWENPERF_GITHUB_APP_ID", "QWENPERF_GITHUB_APP_KEY",
    "QWENPERF_GITHUB_APP_KEY_FILE", "QWENPERF_GITHUB_TOKEN", "QWENPERF_PROJECT", "QWENPERF_SERVICE", "QWENPERF_SPOOL",
    "QWENPERF_TOKEN", "QWENPERF_URL", "QWENPERF_WEBHOOK_SECRET", "QWENPERF_WEBHOOK_URL",
)  # fmt: skip
"""Variables of those who keep and tell what was measured, secrets among them: whoever measures needs none."""

FOREIGN_VARIABLES = (
    *SERVICE_VARIABLES, "QWENPERF_ASV_ONLY", "QWENPERF_CACHE", "QWENPERF_LOCK", "QWENPERF_LOCK_WAIT",
)  # fmt: skip
"""Variables with our prefix that are no settings of a run: where downloads and locks are, and where runs are sent."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is told besides its cases. ``None`` for a number means that each case decides.

    ``origins`` says of each name where its value came from: ``default``, a file, a variable or a flag.
    """

    suite: str = "smoke"
    out: str = "profiles"
    store: str | None = None
    trace: bool = True
    trace_python: bool = False
    trace_quota: int = 4_000_000_000
    time_limit_s: float | None = None
    trials: int | None = None
    inconclusive: str = "warn"
    origins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Origin:
    """One source of settings: ``values`` by setting name, ``names`` as people wrote them there."""

    values: Mapping[str, Any]
    names: Mapping[str, str]


def merge(*sources: Origin) -> Settings:
    """Merge sources, the later overruling the earlier; absent values stay at their defaults."""
    values = {name: value for source in sources for name, value in source.values.items()}
    origins = dict.fromkeys(_READERS, "default") | {
        name: source.names[name] for source in sources for name in source.values
    }
    return Settings(**values, origins=origins)


def from_table(table: Mapping[str, Any], file: str) -> Origin:
    """Read the ``[tool.qwenperf]`` table of ``file``.

    Raises:
      ConfigError: an unknown key (the nearest is offered) or a value of the wrong kind.
    """
    keys = {_key(name): name for name in _READERS}
    values, names = {}, {}
    for key, value in table.items():
        if key in TABLES:
            continue
        origin = f"{file} [tool.qwenperf] {key}"
        if key not in keys:
            raise ConfigError(f"unknown setting {origin}.", advice=nearest_advice(key, (*keys, *TABLES)))
        values[keys[key]], names[keys[key]] = _read(keys[key], value, origin), origin
    return Origin(values=values, names=names)


def from_environment(environ: Mapping[str, str]) -> Origin:
    """Read the ``QWENPERF_*`` variables of ``environ``.

    Raises:
      ConfigError: an unknown variable (the nearest is offered) or a value of the wrong kind.
    """
    variables = {f"{PREFIX}{_key(name).replace('-', '_').upper()}": name for name in _READERS}
    values, names = {}, {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in FOREIGN_VARIABLES:
            continue
        if variable not in variables:
            raise ConfigError(f"unknown variable {variable}.", advice=nearest_advice(variable, variables))
        name = variables[variable]
        values[name], names[name] = _read(name, text, variable), variable
    return Origin(values=values, names=names)


def from_flags(flags: Mapping[str, Any]) -> Origin:
    """Read command-line flags; ``None`` is a flag that was not given.

    Raises:
      ConfigError: a value of the wrong kind.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    names = {name: f"--{_key(name)}" for name in given}
    return Origin(values={name: _read(name, value, names[name]) for name, value in given.items()}, names=names)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of what may be deleted at any time: ``QWENPERF_CACHE``, else as the XDG base directory says.

    Raises:
      RuntimeError: nothing says it, and this user has no home.
    """
    given = environ.get("QWENPERF_CACHE")
    return Path(given) if given else Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "qwenperf"


def _key(name: str) -> str:
    """Return how people write a setting: without the unit, with dashes."""
    return name.removesuffix("_s").replace("_", "-")


def _read(name: str, value: Any, origin: str) -> Any:
    try:
        return _READERS[name](value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{origin} is {value!r:.200}: {error}.") from error
    except UnknownNameError as error:
        raise ConfigError(f"{origin} is {value!r}.", advice=error.advice) from error


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("expected a text that is not empty")
    if "\0" in value:
        raise ValueError("no name has a NUL in it")
    return value


def _flag(value: Any) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise TypeError("expected true or false")


def _positive(value: Any) -> float:
    number = math.nan if isinstance(value, bool) else float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError("expected a number of seconds above 0")
    return number


def _count(value: Any) -> int:
    if isinstance(value, bool | float) or int(value) < 1:
        raise ValueError("expected a whole number of at least 1")
    return int(value)


def read_size(value: Any) -> int:
    """Return the bytes that a size stands for, as people write it: ``500MB``, ``2G``, ``1000000``.

    Raises:
      ValueError: it is no size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)B?", str(value).strip(), re.IGNORECASE)
    size = math.inf if match is None else float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " ")
    if isinstance(value, bool) or not math.isfinite(size):
        raise ValueError("expected a size such as 500MB")
    return int(size)


def _inconclusive(value: Any) -> str:
    if value not in INCONCLUSIVE:
        raise UnknownNameError("choice", str(value), INCONCLUSIVE)
    return str(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    "suite": _text,
    "out": _text,
    "store": _text,
    "trace": _flag,
    "trace_python": _flag,
    "trace_quota": read_size,
    "time_limit_s": _positive,
    "trials": _count,
    "inconclusive": _inconclusive,
}
