"""Budgets as people write them: ``[tool.qwenperf.budgets]``, every key, type and direction checked before a run.

    [tool.qwenperf.budgets."4x128/cached/*"]
    environment = "cpu-x86_64-*"               # class of machine that the absolute limits were set on
    decode_tokens_per_s = { min = 900.0 }      # any metric of the registry
    compiles_steady = { max = 0 }
    min_times = { rung = "naive", factor = 4.0 }
    min_roofline_share = 0.3

The glob is matched against case ids. A glob may hold a list of tables, one a class of environment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from qwenperf.errors import ConfigError, nearest_advice
from qwenperf.gate.budget_set import Budget, BudgetSet, Times
from qwenperf.gate.limits import Limit
from qwenperf.schema.metrics import REGISTRY, Direction
from qwenperf.workloads.case import ENGINES

TABLE = "[tool.qwenperf.budgets]"
KEYS = ("environment", "min_times", "min_roofline_share")


def parse(table: Mapping[str, Any], origin: str = TABLE) -> BudgetSet:
    """Read budgets from the table's mapping; ``origin`` is what messages call it.

    Raises:
      ConfigError: an unknown key or metric (offers the nearest), a wrong type, a limit in the wrong direction.
    """
    return BudgetSet(
        budgets=tuple(budget for pattern, value in table.items() for budget in _budgets(pattern, value, origin))
    )


def _budgets(pattern: str, value: Any, origin: str) -> list[Budget]:
    where = f'{origin} "{pattern}"'
    tables = value if isinstance(value, list) else [value]
    return [_budget(pattern, _table(table, where), where) for table in tables]


def _budget(pattern: str, table: Mapping[str, Any], where: str) -> Budget:
    _check_keys(table, (*KEYS, *REGISTRY), where)
    environment = table.get("environment")
    if environment is not None and not isinstance(environment, str):
        raise ConfigError(f"{where} environment is {environment!r}, which is not a glob of environment classes.")
    share = table.get("min_roofline_share")
    return Budget(
        pattern=pattern,
        environment=environment,
        limits=tuple(_limit(key, entry, where) for key, entry in table.items() if key in REGISTRY),
        min_times=_times(table["min_times"], f"{where} min_times") if "min_times" in table else None,
        min_roofline_share=None if share is None else _positive(share, f"{where} min_roofline_share", most=1.0),
    )


def _limit(metric: str, value: Any, where: str) -> Limit:
    here = f"{where} {metric}"
    table = _table(value, here)
    _check_keys(table, ("min", "max"), here)
    if not table:
        raise ConfigError(f"{here} is empty.", advice="Give it a `min` or a `max`.")
    least, most = (_number(table[key], f"{here}.{key}") if key in table else None for key in ("min", "max"))
    if least is not None and most is not None and least > most:
        raise ConfigError(f"{here} has min {least:g} above max {most:g}.")
    _check_direction(metric, least, most, here)
    return Limit(metric=metric, min=least, max=most, origin=where)


def _check_direction(metric: str, least: float | None, most: float | None, here: str) -> None:
    """Refuse a lone limit on the good side: it could only ever fail an improvement."""
    direction = REGISTRY[metric].direction
    if direction is Direction.HIGHER and least is None:
        raise ConfigError(f"{here} has only a max, and higher is better.", advice="Give it a `min`.")
    if direction is Direction.LOWER and most is None:
        raise ConfigError(f"{here} has only a min, and lower is better.", advice="Give it a `max`.")


def _times(value: Any, here: str) -> Times:
    table = _table(value, here)
    _check_keys(table, ("rung", "factor", "metric"), here)
    for key in ("rung", "factor"):
        if key not in table:
            raise ConfigError(f"{here} has no `{key}`.", advice='Write { rung = "naive", factor = 4.0 }.')
    rung, metric = table["rung"], table.get("metric", Times.metric)
    _check_known(rung, ENGINES, f"{here}.rung")
    directed = [name for name, definition in REGISTRY.items() if definition.direction is not Direction.NONE]
    _check_known(metric, directed, f"{here}.metric")
    return Times(rung=rung, factor=_positive(table["factor"], f"{here}.factor"), metric=metric)


def _check_known(name: Any, known: Iterable[str], here: str) -> None:
    known = tuple(known)
    if name not in known:
        raise ConfigError(f"{here} is {name!r}.", advice=nearest_advice(str(name), known))


def _check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown key {key!r} in {where}.", advice=nearest_advice(key, known))


def _table(value: Any, here: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{here} is {value!r}, which is not a table.", advice="Write { min = ... } or { max = ... }.")
    return value


def _number(value: Any, here: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"{here} is {value!r:.60}, which is not a finite number.")
    return number


def _positive(value: Any, here: str, most: float = math.inf) -> float:
    number = _number(value, here)
    if not 0 < number <= most:
        raise ConfigError(
            f"{here} is {value!r}, which is not above 0" + (f" and at most {most:g}." if most < math.inf else ".")
        )
    return number
