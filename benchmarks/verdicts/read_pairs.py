"""Reads the table of pairs that the live run writes."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TimedPair:
    """One recorded pair: seconds a round of either side, and log ratios head/base of case and anchors."""

    kind: str
    number: int
    stage: int
    base: Array
    head: Array
    value: float
    memory: float
    compute: float


def read_pairs(path: Path) -> list[TimedPair]:
    """Return the pairs of a table as ``live_log`` writes it, in the order of time."""
    groups: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            groups.setdefault((row["kind"], row["try"], row["stage"], row["pair"]), []).append(row)
    return [_pair(key, rows) for key, rows in groups.items()]


def _pair(key: tuple[str, ...], rows: Sequence[Mapping[str, str]]) -> TimedPair:
    times = {
        name: np.asarray([[float(row[f"{name}_{side}_us"]) for side in "ab"] for row in rows])
        for name in ("wall", "memory", "compute")
    }
    ratios = {name: float(np.median(np.log(both[:, 1] / both[:, 0]))) for name, both in times.items()}
    return TimedPair(
        kind=key[0], number=int(key[1]), stage=int(key[2]),
        base=times["wall"][:, 0] / 1e6, head=times["wall"][:, 1] / 1e6,
        value=ratios["wall"], memory=ratios["memory"], compute=ratios["compute"],
    )  # fmt: skip
