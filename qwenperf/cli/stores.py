"""The store that a command means: by its flag, a setting, or the folder in which runs are kept anyway."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qwenperf.cli.config import find_project
from qwenperf.cli.streams import say
from qwenperf.errors import StoreError

if TYPE_CHECKING:
    from qwenperf.store.directory import DirectoryStore
    from qwenperf.store.service_history import ServiceHistory

    History = DirectoryStore | ServiceHistory

store_option = click.option(
    "--store",
    "store_url",
    metavar="URL",
    help="Folder or URL of the store (default: the setting, else the runs' folder).",
)


def find_store(url: str | None) -> DirectoryStore:
    """Return the store at ``url``, else that of the settings, else the folder ``out``, with the project's aliases.

    Raises:
      StoreError: no driver for the URL, a store that this version cannot read, or a service.
      ConfigError: settings or aliases that cannot be honoured.
    """
    from qwenperf.store.directory import open_store
    from qwenperf.store.service_history import service_address

    place, aliases = _meant(url)
    if service_address(place) is not None:
        advice = "`qwenperf push` sends runs to a service, and `qwenperf history` shows them."
        raise StoreError(f"{place} is a service; this wants a folder of runs, or a URL of one.", advice=advice)
    return open_store(place, aliases)


def find_history(url: str | None) -> History:
    """Return what has the history: a store, or a project of a service; errors as ``find_store``."""
    from qwenperf.store.aliases import read_aliases
    from qwenperf.store.service_history import open_service

    place, aliases = _meant(url)
    service = open_service(place, os.environ.get("QWENPERF_TOKEN", ""), read_aliases(aliases))
    return service or find_store(url)


def _meant(url: str | None) -> tuple[str, tuple[Any, str]]:
    """Return the store that is meant, and the project's table of aliases with its origin."""
    project = find_project(Path.cwd())
    settings = project.settings({"store": url})
    return settings.store or settings.out, (project.table.get("aliases", {}), f"{project.file} [tool.qwenperf.aliases]")


def warn_of_problems(store: History) -> None:
    """Say which runs of a store are left out because they cannot be read."""
    problems = store.problems()
    if problems:
        first, more = problems[0], f", and {len(problems) - 1} more" if problems[1:] else ""
        say(f"qwenperf: warning: left out: {store.url}/{first.folder}: {first.message}{more} (`qwenperf store check`)")
