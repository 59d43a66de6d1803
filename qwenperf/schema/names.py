"""Ids as names of folders: ids come from records, and records from anywhere."""

from __future__ import annotations

import hashlib
import re

_LIMIT = 120
_FILES = (".toml", ".json")
"""Endings of the files that a store keeps beside its folders."""


def folder_name(run: str) -> str:
    """Return the folder of a run: its id where that is an ordinary name, a cleaned one with a hash otherwise.

    Ids that differ get names that differ, and none leaves the store.
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "-", run).strip("-.") or "run"
    if name == run and len(name) <= _LIMIT and not name.endswith(_FILES):
        return name
    return f"{name[:_LIMIT]}-{hashlib.sha256(run.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
