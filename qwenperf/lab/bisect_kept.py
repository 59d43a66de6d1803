"""Comparisons of a bisection whose question has no answer yet: what they measured is used, and not measured again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from qwenperf.errors import RecordError
from qwenperf.lab.compare import FILE
from qwenperf.schema.codec import comparison_loads
from qwenperf.schema.comparison import ComparisonRecord

QUESTION = "question"
"""What a comparison's plan calls the digest of what it was asked."""


def digest(question: Sequence[Any]) -> str:
    """Return a name of a question, which is data."""
    return hashlib.sha256(json.dumps([*question], sort_keys=True).encode()).hexdigest()[:10]


def unfinished(folder: Path, question: Sequence[Any], answered: Container[str]) -> ComparisonRecord | None:
    """Return the comparison of ``question`` below ``folder`` that was cut short; ``None`` where there is none.

    One whose file is damaged is none: its pairs are measured again.
    """
    wanted = digest(question)
    for file in sorted(folder.glob(f"compare-*/{FILE}")):
        if file.parent.name in answered:
            continue
        try:
            record = comparison_loads(file.read_text(encoding="utf-8"), str(file))
        except (OSError, ValueError, RecordError):
            continue
        if record.plan.get(QUESTION) == wanted and record.id == file.parent.name and record.pairs:
            return record
    return None
