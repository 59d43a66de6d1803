"""The results as markdown: what was asked for, and the same of others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.verdicts.table import shown, table

Row = Mapping[str, Any]


def markdown(result: Mapping[str, Any]) -> str:
    """Return all tables of a result."""
    noise: Mapping[str, Mapping[str, Mapping[str, Row]]] = result["noise"]
    heads = ("", *noise)
    made = f"`{result['command']}`, {result['date']}, {result['on']}."
    counts = f"{result['count']} histories in each cell, 2% noise; other detectors are shown {result['peers']} of them."
    parts = [f"{made} {counts} In brackets: 95% intervals.\n"]
    if result["otava"]:
        parts.append(f"Otava has no figures: {result['otava']}.\n")
    parts += [
        table("200 points, nothing changed: any change reported", heads, _rows(noise, "unchanged", "any")),
        table("A step of 3% in the middle half: found within 5 points", heads, _rows(noise, "step", "found")),
        table("The same step: found at its very point", heads, _rows(noise, "step", "exact")),
        table("The same step: more than one step reported", heads, _rows(noise, "step", "several")),
        table("0.1% a commit over 150 commits: anything reported", heads, _rows(noise, "drift", "any")),
        table("qwenperf alone", heads, _own(noise)),
    ]
    return "\n".join(parts)


def _rows(noise: Mapping[str, Any], scenario: str, key: str) -> dict[str, list[str]]:
    names = dict.fromkeys(name for kind in noise.values() for name in kind[scenario])
    # Who is told that there is one step reports no other: that says nothing.
    kept = [name for name in names if name != "best possible" or key == "found"]
    return {name: [_cell(kind[scenario].get(name), key) for kind in noise.values()] for name in kept}


def _cell(row: Row | None, key: str) -> str:
    return "-" if row is None or key not in row else shown(row[key])


_OWN: Mapping[str, tuple[str, Callable[[Row], str]]] = {
    "0.1% a commit over 150 commits: flagged as drift": ("drift", lambda row: shown(row["drift"])),
    "the same after 50 flat commits and a release": ("drift since a release", lambda row: shown(row["drift"])),
    "the same: how far it crept is told, as a drift or as the sum of steps": (
        "drift since a release",
        lambda row: shown(row["crept"]),
    ),
    "nothing changed: something is said to have crept": ("unchanged", lambda row: shown(row["crept"])),
    "single spikes of 15%, first and last point too: any change": ("spikes", lambda row: shown(row["any"])),
    "a step of 5% within 5 points": ("large step", lambda row: shown(row["found"])),
    "a step of 3% with 20 points after it, within 5": ("fresh step", lambda row: shown(row["found"])),
    "the true point of a step of 3% is in the stated range": ("step", lambda row: _cell(row, "range holds")),
    "points in that range, median": (
        "step",
        lambda row: f"{row['range length']:.0f}" if "range length" in row else "-",
    ),
}


def _own(noise: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        title: [written(kind[scenario]["qwenperf"]) for kind in noise.values()]
        for title, (scenario, written) in _OWN.items()
    }
