"""How a number that was not measured whole is told from one that was: by a mark, and by what the mark means."""

from __future__ import annotations

from qwenperf.schema.records import CaseRecord

MARK = "~"
LEGEND = f"{MARK}: extrapolated from the first and the last tokens of the request; see the notes."

_KEY = "extrapolated"


def is_extrapolated(case: CaseRecord, *names: str) -> bool:
    """Say whether any of these metrics was not measured whole; of any metric where none is named."""
    asked = names or tuple(case.metrics)
    return any(_KEY in case.metrics[name].extra for name in asked if name in case.metrics)


def marked(text: str, case: CaseRecord, *names: str) -> str:
    """Return ``text`` with the mark in front, where any of these metrics was not measured whole."""
    return f"{MARK}{text}" if is_extrapolated(case, *names) else text
