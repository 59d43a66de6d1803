"""One JSON object of a checkpoint's folder, or the error that says which file is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qwenperf.errors import CheckpointError


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that ``path`` holds.

    Raises:
      CheckpointError: the file is missing, or holds no JSON object.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: the file is missing.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON ({error}).") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path}: holds no JSON object.")
    return data
