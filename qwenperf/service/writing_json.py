"""JSON text as it is kept: no spaces, keys sorted, finite numbers only."""

from __future__ import annotations

import json
from typing import Any


def compact(data: Any) -> str:
    """Return ``data`` as text that is equal for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
