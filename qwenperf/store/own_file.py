"""``store.toml``: what a store says of itself, which is the version of its layout and the cases that were renamed."""

from __future__ import annotations

import tomllib
from typing import Any

from qwenperf.errors import ConfigError, StoreError
from qwenperf.store.places import Place

NOTE = "store.toml"
VERSION = 1
"""Of the layout of a store."""


def own_aliases(place: Place) -> Any:
    """Return the table of aliases of a store, empty where it has no such file.

    Raises:
      StoreError: the store has a layout that this version does not know.
      ConfigError: the file cannot be understood; names it.
    """
    data = place.note(NOTE)
    origin = f"{place.url}/{NOTE}"
    try:
        table = tomllib.loads("" if data is None else data.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{origin} is not TOML: {error}.") from error
    version = table.get("version", VERSION)
    if version != VERSION:
        message = f"{origin} says version {version!r}; this qwenperf reads {VERSION}."
        raise StoreError(message, advice="Use the qwenperf that wrote it, or a newer one.")
    unknown = table.keys() - {"version", "aliases"}
    if unknown:
        raise ConfigError(f"{origin} has {', '.join(sorted(map(repr, unknown)))}; it knows version and [aliases].")
    return table.get("aliases", {})
