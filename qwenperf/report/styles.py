"""Colours of outcomes in a terminal; never the only sign."""

from __future__ import annotations

from qwenperf.schema.records import Outcome

STYLES = {
    Outcome.PASS: "green",
    Outcome.IMPROVED: "green",
    Outcome.FAIL: "bold red",
    Outcome.INCONCLUSIVE: "yellow",
    Outcome.SKIPPED: "dim",
}

KINDS = {"good": "green", "bad": "bold red", "doubt": "yellow", "quiet": "dim"}
"""The same of the signs of ``html_signs``, by their kind."""
