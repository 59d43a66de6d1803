"""Cases whose real weights could not be had: what a table and a page call them, so that nobody takes them for those."""

from __future__ import annotations

from collections.abc import Iterable

from qwenperf.schema.records import Finding

CODE = "weights-unavailable"
"""The finding of ``models.weights``, which this room may not import."""


def of_model(name: str, findings: Iterable[Finding]) -> str:
    """Return a model's name; with a word on its weights where they are not the ones that were asked for."""
    return f"{name} (SEEDED WEIGHTS)" if any(one.code == CODE for one in findings) else name


def lost_line(findings: Iterable[Finding]) -> str:
    """Return the line below a headline that says that weights were lost; empty where none were."""
    lost = any(one.code == CODE for one in findings)
    return f"Measured on seeded weights: the real ones could not be had, see the finding {CODE}." if lost else ""
