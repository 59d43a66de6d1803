"""The event that a job of GitHub Actions was started by, as the job's own machine has it in a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SHA = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""A commit as git names it, by SHA-1 or SHA-256."""

_MOST_BYTES = 20_000_000


def read_event(path: str) -> Any:
    """Return the document at ``path``; ``None`` where there is none that can be read."""
    try:
        if not path or Path(path).stat().st_size > _MOST_BYTES:
            return None
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
