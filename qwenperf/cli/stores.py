"""The store that a command means: by its flag, a setting, or the folder in which runs are kept anyway."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from qwenperf.cli.config import find_project
from qwenperf.cli.streams import say

if TYPE_CHECKING:
    from qwenperf.store.directory import DirectoryStore

store_option = click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Folder or URL of the store (default: the setting, else the runs' folder).",
)


def find_store(url: str | None) -> DirectoryStore:
    """Return the store at ``url``, else that of the settings, else the folder ``out``, with the project's aliases.

    Raises:
      StoreError: no driver for the URL, or a store that this version cannot read.
      ConfigError: settings or aliases that cannot be honoured.
    """
    from qwenperf.store.directory import open_store

    project = find_project(Path.cwd())
    settings = project.settings({"store": url})
    aliases = project.table.get("aliases", {})
    return open_store(settings.store or settings.out, (aliases, f"{project.file} [tool.qwenperf.aliases]"))


def warn_of_problems(store: DirectoryStore) -> None:
    """Say which runs of a store are left out because they cannot be read."""
    problems = store.problems()
    if problems:
        first, more = problems[0], f", and {len(problems) - 1} more" if problems[1:] else ""
        say(f"qwenperf: warning: left out: {store.url}/{first.folder}: {first.message}{more} (`qwenperf store check`)")
