"""Budgets as people write them: ``[tool.qwenperf.budgets]``, every key, type and direction checked before a run.

    [tool.qwenperf.budgets."4x128/cached/*"]
    environment = "cpu-x86_64-*"               # class of machine that the absolute limits were set on
    decode_tokens_per_s = { min = 900.0 }      # any metric of the registry
    compiles_steady = { max = 0 }
    min_times = { rung = "naive", factor = 4.0 }
    min_roofline_share = 0.3

The glob is matched against case ids. A glob may hold a list of tables, one a class of environment. A glob with an ``@``
and a target is of compiled programs: ``aot_budget`` reads those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.errors import ConfigError
from qwenperf.gate import aot_budget
from qwenperf.gate.budget_set import Budget, BudgetSet, Times
from qwenperf.gate.budget_values import check_keys, check_known, limit, positive, table
from qwenperf.gate.target_globs import is_of_programs
from qwenperf.schema.metrics import REGISTRY, Direction
from qwenperf.workloads.case import ENGINES

TABLE = "[tool.qwenperf.budgets]"
KEYS = ("environment", "min_times", "min_roofline_share")


def parse(tables: Mapping[str, Any], origin: str = TABLE) -> BudgetSet:
    """Read budgets from the table's mapping; ``origin`` is what messages call it.

    Those of compiled programs are checked and left to ``aot_budget``.

    Raises:
      ConfigError: an unknown key or metric (offers the nearest), a wrong type, a limit in the wrong direction.
    """
    aot_budget.parse(tables, origin)
    measured = {pattern: value for pattern, value in tables.items() if not is_of_programs(pattern)}
    return BudgetSet(
        budgets=tuple(budget for pattern, value in measured.items() for budget in _budgets(pattern, value, origin))
    )


def _budgets(pattern: str, value: Any, origin: str) -> list[Budget]:
    where = f'{origin} "{pattern}"'
    tables = value if isinstance(value, list) else [value]
    return [_budget(pattern, table(entries, where), where) for entries in tables]


def _budget(pattern: str, entries: Mapping[str, Any], where: str) -> Budget:
    check_keys(entries, (*KEYS, *REGISTRY), where)
    environment = entries.get("environment")
    if environment is not None and not isinstance(environment, str):
        raise ConfigError(f"{where} environment is {environment!r}, which is not a glob of environment classes.")
    share = entries.get("min_roofline_share")
    return Budget(
        pattern=pattern,
        environment=environment,
        limits=tuple(
            limit(key, entry, where, REGISTRY[key].direction) for key, entry in entries.items() if key in REGISTRY
        ),
        min_times=_times(entries["min_times"], f"{where} min_times") if "min_times" in entries else None,
        min_roofline_share=None if share is None else positive(share, f"{where} min_roofline_share", most=1.0),
    )


def _times(value: Any, here: str) -> Times:
    entries = table(value, here)
    check_keys(entries, ("rung", "factor", "metric"), here)
    for key in ("rung", "factor"):
        if key not in entries:
            raise ConfigError(f"{here} has no `{key}`.", advice='Write { rung = "naive", factor = 4.0 }.')
    rung, metric = entries["rung"], entries.get("metric", Times.metric)
    check_known(rung, ENGINES, f"{here}.rung")
    directed = [name for name, definition in REGISTRY.items() if definition.direction is not Direction.NONE]
    check_known(metric, directed, f"{here}.metric")
    return Times(rung=rung, factor=positive(entries["factor"], f"{here}.factor"), metric=metric)
