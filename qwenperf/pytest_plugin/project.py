"""Budgets that a pytest session's project declares, joined with those of a test's marker."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qwenperf.errors import ConfigError

if TYPE_CHECKING:
    from qwenperf.gate.aot_budget import ProgramBudgets
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
    from qwenperf.gate.budget import parse

    return parse(*_table(root))


def program_budgets(root: Path, case_ids: Iterable[str], own: Mapping[str, Any]) -> ProgramBudgets:
    """Return the project's budgets of compiled programs and, before all of them, ``own`` for the programs named.

    Raises:
      ConfigError: a file that is no TOML, a table that is none, or a bad key.
    """
    from qwenperf.gate.aot_budget import ProgramBudgets, parse

    project = parse(*_table(root))
    stated = parse({"*@*": own} if own else {}, origin="compiles_for").budgets
    # Of two tables the one with more literal characters wins: a glob that is the whole id has most.
    told = [replace(budget, pattern=escape(case_id)) for case_id in case_ids for budget in stated]
    return ProgramBudgets(budgets=(*project.budgets, *told))


def _table(root: Path) -> tuple[Mapping[str, Any], str]:
    """Return ``[tool.qwenperf.budgets]``, and what messages call it."""
    from qwenperf.gate.budget import TABLE

    file = root / "pyproject.toml"
    table: Any = _read(file) if file.is_file() else {}
    for key in ("tool", "qwenperf", "budgets"):
        table = table.get(key, {})
        if not isinstance(table, Mapping):
            raise ConfigError(f"{file}: {key} of {TABLE} is not a table.")
    return table, f"{file} {TABLE}"


def _read(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}.") from error
