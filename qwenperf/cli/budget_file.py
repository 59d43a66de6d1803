"""Budgets from where people keep them: a file that was named, or ``[tool.qwenperf.budgets]`` of the project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qwenperf.cli.config import Project, qwenperf_table, read_toml
from qwenperf.errors import ConfigError
from qwenperf.gate import aot_budget
from qwenperf.gate.aot_budget import ProgramBudgets
from qwenperf.gate.budget import TABLE, parse
from qwenperf.gate.budget_set import BudgetSet


def find_budgets(project: Project, file: Path | None) -> BudgetSet:
    """Return the budgets of ``file``, else those of the project.

    Raises:
      ConfigError: a file that cannot be read or has no budgets, or a bad key; names the file.
    """
    if file is None:
        return _parse(project.table.get("budgets", {}), project.file)
    table = qwenperf_table(read_toml(file), str(file))
    if "budgets" not in table:
        raise ConfigError(f"{file} has no {TABLE}.")
    return _parse(table["budgets"], str(file))


def find_program_budgets(project: Project, file: Path | None) -> ProgramBudgets:
    """Return the budgets of compiled programs, those whose glob has an ``@``; errors as ``find_budgets``."""
    find_budgets(project, file)  # what is wrong with the others is said too
    table = project.table.get("budgets", {}) if file is None else qwenperf_table(read_toml(file), str(file))["budgets"]
    return aot_budget.parse(table, f"{file or project.file} {TABLE}")


def budgets_line(project: Project, file: Path | None, budgets: BudgetSet) -> str:
    """Say which budgets a run was judged by, and where they are."""
    place = str(file or project.file)
    count = len(budgets.budgets)
    if not count:
        return f"budgets: none in {place}" if place else "budgets: none, as there is no pyproject.toml"
    return f"budgets: {place} ({count} table{'s' if count > 1 else ''})"


def _parse(value: Any, file: str) -> BudgetSet:
    origin = f"{file} {TABLE}"
    if not isinstance(value, Mapping):
        raise ConfigError(f"{origin} is not a table.")
    return parse(value, origin)
