"""Count what detectors report of histories whose truth is known: `python -m benchmarks.history`.

Factors of the method were chosen on other seeds than ``SEED``, which only judges.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.history import otava
from benchmarks.history.detectors import PEERS, Said, best_place, ours
from benchmarks.history.series import KINDS, SCENARIOS, History, histories
from benchmarks.history.tables import markdown
from benchmarks.verdicts.table import rate

SEED = 20261128
NEAR = 5
PEERS_TOO = ("unchanged", "step", "drift")
"""What other detectors are asked about; ours is asked about everything."""


def main() -> None:
    """Draw, ask, count, print the tables, write both files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="histories of each kind of noise and each scenario")
    parser.add_argument("--peers", type=int, default=200, help="so many of them are shown to the other detectors")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-otava", action="store_true", help="leave Otava out: nothing is installed")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    asked = parser.parse_args()
    python, why = (None, "left out by --no-otava") if asked.no_otava else otava.environment()
    rows = {kind: measure(kind, asked.count, asked.peers, asked.seed, python) for kind in KINDS}
    result = {
        "command": f"python -m benchmarks.history --count {asked.count} --peers {asked.peers} --seed {asked.seed}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "on": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"numpy {np.__version__}, asv {metadata.version('asv')}"
        + (f", apache-otava {otava.VERSION}" if python else ""),
        "count": asked.count,
        "peers": min(asked.peers, asked.count),
        "otava": why,
        "noise": rows,
    }
    asked.out.mkdir(parents=True, exist_ok=True)
    text = markdown(result)
    (asked.out / "history.json").write_text(json.dumps(result, indent=1) + "\n")
    (asked.out / "history.md").write_text(text)
    print(text)  # noqa: T201 - the tables are what the command is for


def measure(kind: str, count: int, peers: int, seed: int, python: Path | None) -> dict[str, Any]:
    """Return every rate of one kind of noise, by scenario and detector, with its interval."""
    rows: dict[str, Any] = {}
    for scenario in SCENARIOS:
        drawn = histories(kind, scenario, count, seed)
        rows[scenario] = {"qwenperf": rates(drawn, [ours(one) for one in drawn])}
        shown = drawn[:peers] if scenario in PEERS_TOO else []
        for name, ask in PEERS.items() if shown else ():
            rows[scenario][name] = rates(shown, [ask(one) for one in shown])
        if python is not None and shown:
            found = [Said(places=places) for places in otava.change_points(python, shown)]
            rows[scenario]["Otava"] = rates(shown, found)
        best = [best_place(one, kind) for one in drawn if scenario == "step"]
        if best and None not in best:
            said = [Said(places=(place,)) for place in best if place is not None]
            rows[scenario]["best possible"] = rates(drawn, said)
    return rows


def rates(drawn: Sequence[History], said: Sequence[Said]) -> Mapping[str, Any]:
    """Return how often anything is reported, the step is found, and what is told of it is so."""
    count = len(drawn)
    counts = {
        "any": rate(sum(one.anything for one in said), count),
        "drift": rate(sum(one.drifted for one in said), count),
        "crept": rate(sum(one.crept for one in said), count),
        "several": rate(sum(len(one.places) > 1 for one in said), count),
    }
    if drawn[0].place is None:
        return counts
    nearest = [
        min(one.places, key=lambda place: abs(place - (history.place or 0)), default=None)
        for history, one in zip(drawn, said, strict=True)
    ]
    off = [
        None if place is None or history.place is None else abs(place - history.place)
        for history, place in zip(drawn, nearest, strict=True)
    ]
    counts |= {
        "found": rate(sum(one is not None and one <= NEAR for one in off), count),
        "exact": rate(sum(one == 0 for one in off), count),
    }
    told = [
        (history, one, place)
        for history, one, place, distance in zip(drawn, said, nearest, off, strict=True)
        if one.ranges and place is not None and distance is not None and distance <= 2 * NEAR
    ]
    if told:
        inside = [one.ranges[place][0] <= (history.place or 0) <= one.ranges[place][1] for history, one, place in told]
        counts["range holds"] = rate(sum(inside), len(told))
        counts["range length"] = float(np.median([one.ranges[p][1] - one.ranges[p][0] + 1 for _, one, p in told]))
    return counts


if __name__ == "__main__":
    main()
