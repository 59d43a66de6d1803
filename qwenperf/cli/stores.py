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

_BY_HAND = ("--store", "QWENPERF_STORE")

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

    place, aliases, _ = _meant(url)
    if service_address(place) is not None:
        advice = "`qwenperf push` sends runs to a service, and `qwenperf history` shows them."
        raise StoreError(f"{place} is a service; this wants a folder of runs, or a URL of one.", advice=advice)
    store = open_store(place, aliases)
    if not store.place.shared:
        raise StoreError(f"{place} is forgotten when this command ends.", advice="Give a folder, or another URL.")
    return store


def find_history(url: str | None) -> History:
    """Return what has the history: a store, or a project of a service; errors as ``find_store``."""
    from qwenperf.store.aliases import read_aliases
    from qwenperf.store.service_history import open_service

    place, aliases, origin = _meant(url)
    service = open_service(place, _token(place, origin), read_aliases(aliases))
    return service or find_store(url)


def _token(place: str, origin: str) -> str:
    """Return the token for a service; none where a file of the checkout names it, which a pull request can change."""
    from qwenperf.store.service_history import service_address

    token, address = os.environ.get("QWENPERF_TOKEN", ""), service_address(place)
    known = os.environ.get("QWENPERF_URL", "").rstrip("/")
    if not token or address is None or origin in _BY_HAND or address[0] == known:
        return token
    say(f"qwenperf: warning: QWENPERF_TOKEN is not sent to {address[0]}, which {origin} names: set QWENPERF_URL to it.")
    return ""


def _meant(url: str | None) -> tuple[str, tuple[Any, str], str]:
    """Return the store that is meant, the project's table of aliases with its origin, and who named the store."""
    project = find_project(Path.cwd())
    settings = project.settings({"store": url})
    aliases = (project.table.get("aliases", {}), f"{project.file} [tool.qwenperf.aliases]")
    return settings.store or settings.out, aliases, settings.origins["store"]


def warn_of_problems(store: History) -> None:
    """Say which runs of a store are left out because they cannot be read."""
    from qwenperf.report.series_scale import printable

    problems = store.problems()
    if problems:
        first, more = problems[0], f", and {len(problems) - 1} more" if problems[1:] else ""
        told = printable(f"{store.url}/{first.folder}: {first.message}")
        say(f"qwenperf: warning: left out: {told}{more} (`qwenperf store check`)")
