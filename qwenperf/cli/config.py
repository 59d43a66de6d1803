"""Reads what people write: ``[tool.qwenperf]`` of the nearest ``pyproject.toml``, and files of budgets."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qwenperf.cli.files import read_text, reason
from qwenperf.errors import ConfigError
from qwenperf.settings import Settings, from_environment, from_flags, from_table, merge


@dataclass(frozen=True, kw_only=True)
class Project:
    """The ``[tool.qwenperf]`` table in force, and the file that it came from (``""``: none)."""

    table: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""

    def settings(self, flags: Mapping[str, Any]) -> Settings:
        """Merge file, environment and ``flags``."""
        return merge(from_table(self.table, self.file), from_environment(os.environ), from_flags(flags))


def find_project(start: Path) -> Project:
    """Return the table of the nearest ``pyproject.toml`` at or above ``start``; empty where there is none."""
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            return Project(table=qwenperf_table(read_toml(file), str(file)), file=str(file))
    return Project()


def qwenperf_table(document: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    """Return ``[tool.qwenperf]`` of a document, empty where it is absent.

    Raises:
      ConfigError: it is not a table.
    """
    tool = document.get("tool", {})
    table = tool.get("qwenperf", {}) if isinstance(tool, Mapping) else {}
    if not isinstance(table, Mapping):
        raise ConfigError(f"{file}: [tool.qwenperf] is not a table.")
    return table


def read_toml(file: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
      ConfigError: it cannot be read or is not TOML; names the file.
    """
    try:
        return tomllib.loads(read_text(file))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"cannot read {file}: {reason(error) if isinstance(error, OSError) else error}.") from error
