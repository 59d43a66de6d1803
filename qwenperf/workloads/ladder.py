"""The suite ``ladder`` as data: each value of each setting, alone on ``cached`` and together with all fastest ones.

What is compared is a pair of engines that differ in one setting. A value that ``cached`` cannot have (a position that
is static needs a loop on the host) is compared on an engine that can, and that is as near to ``cached`` as possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from qwenperf.errors import ConfigError
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.defaults import DEFAULTS
from qwenperf.workloads.engine import BEST, RUNGS, EngineSettings, engine_name
from qwenperf.workloads.flags import FLAG_SETS
from qwenperf.workloads.setting import NOT_BUILT, SETTINGS, Value

PLATFORMS: Mapping[str, str] = {"ladder": "cpu", "ladder-gpt2": "cpu", "ladder-gpu": "gpu", "ladder-tpu": "tpu"}
"""The suites of this kind, and the platform whose best engine they measure."""

_GROUND: tuple[Mapping[str, Any], ...] = (
    {},
    {"loop": "host"},
    {"donate": False},
    {"loop": "host", "donate": False},
    {"loop": "host", "donate": False, "cache": "none"},
    {"weights": "int8"},
)
"""What may have to change for a value to be possible at all, the least first; both engines of a pair have it."""

_WITH: Mapping[tuple[str, Value], Mapping[str, Any]] = {
    ("cache", "concat"): {"shape": "growing"},
}
"""What a value cannot be without, on its own side only."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two engines, by name, that differ in one setting."""

    engine: str
    base: str


@dataclass(frozen=True, kw_only=True)
class Step:
    """One value of one setting. ``alone`` on ``cached``; ``together`` on the best engine, where that can have it."""

    setting: str
    value: Value
    alone: Pair
    together: Pair | None


def ladder_steps(platform: str) -> tuple[Step, ...]:
    """Return a step for each value that ``cached`` does not have, of each setting that has code and means something.

    The best engine is that of ``platform``.
    """
    return tuple(_steps(BEST[f"best-{platform}"], platform))


def _steps(best: EngineSettings, platform: str) -> Iterator[Step]:
    for name, setting in SETTINGS.items():
        for value in () if name in NOT_BUILT else setting.values:
            if name == "xla_flags" and platform not in _platforms(str(value)):
                continue
            alone = _pair(RUNGS["cached"], name, value)
            if alone is not None:
                yield Step(setting=name, value=value, alone=alone, together=_pair(best, name, value))


def _platforms(flags: str) -> tuple[str, ...]:
    """Return where a set of XLA flags means something."""
    return FLAG_SETS[flags].platforms or tuple(DEFAULTS)


def _pair(plain: EngineSettings, name: str, value: Value) -> Pair | None:
    """Return the engine with the value and the one to compare it with; ``None`` where it is the plain one's own."""
    if getattr(plain, name) == value:
        return None
    for ground in _GROUND:
        try:
            base = replace(plain, **ground)
            changed = replace(base, **{name: value, **_WITH.get((name, value), {})})
        except ConfigError:
            continue
        if changed != base and name not in ground:
            return Pair(engine=_name(changed), base=_name(base))
    return None


def _name(settings: EngineSettings) -> str:
    """Return the name with the fewest words: by the rung that is nearest, of several the one with its cache."""
    nearest = min(RUNGS, key=lambda rung: (engine_name(settings, rung).count("+"), _unlike(settings, rung)))
    return engine_name(settings, nearest)


def _unlike(settings: EngineSettings, rung: str) -> tuple[bool, bool]:
    return RUNGS[rung].cache != settings.cache, rung != "cached"


def best_engine(platform: str) -> str:
    """Return the name of a platform's best engine as its case has it."""
    return _name(BEST[f"best-{platform}"])


def ladder_cases(model: str, workload: Workload, platform: str, **case: Any) -> tuple[Case, ...]:
    """Return the cases that all steps need, each engine once; ``cached`` and the best engine first."""
    pairs = [pair for step in ladder_steps(platform) for pair in (step.alone, step.together) if pair is not None]
    names = [name for pair in pairs for name in (pair.base, pair.engine)]
    engines = dict.fromkeys(("cached", best_engine(platform), *names))
    return tuple(Case(model=model, engine=engine, workload=workload, **case) for engine in engines)
