"""Budgets that a pytest session's project declares, joined with those of a test's marker."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.errors import ConfigError

if TYPE_CHECKING:
    from qwenperf.gate.budget_set import BudgetSet


def budgets_for(case_id: str, marker: Mapping[str, Any], root: Path) -> BudgetSet:
    """Return ``[tool.qwenperf.budgets]`` of ``root``'s ``pyproject.toml`` and, before all of it, the marker's budgets.

    Raises:
      ConfigError: a file that is no TOML, or a bad key; names where it stands.
    """
    from qwenperf.gate.budget import parse
    from qwenperf.gate.budget_set import BudgetSet

    project = project_budgets(root)
    own = parse({"*": marker} if marker else {}, origin="marker qwenperf, budgets").budgets
    # Of two tables the one with more literal characters wins: a glob that is the whole id has most.
    return BudgetSet(budgets=project.budgets + tuple(replace(budget, pattern=escape(case_id)) for budget in own))


def project_budgets(root: Path) -> BudgetSet:
    """Return ``[tool.qwenperf.budgets]`` of ``root``'s ``pyproject.toml``; empty where there is none.

    Raises:
      ConfigError: a file that is no TOML, a table that is none, or a bad key.
    """
    from qwenperf.gate.budget import TABLE, parse

    file = root / "pyproject.toml"
    table: Any = _read(file) if file.is_file() else {}
    for key in ("tool", "qwenperf", "budgets"):
        table = table.get(key, {})
        if not isinstance(table, Mapping):
            raise ConfigError(f"{file}: {key} of {TABLE} is not a table.")
    return parse(table, origin=f"{file} {TABLE}")


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}.") from error
