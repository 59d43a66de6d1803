"""A million points in a store, and how long a window of 500 takes.

    python -m benchmarks.store [--points 1000000] [--repeats 50] [--folder DIR] [--json]

Writes runs as `qwenperf run` leaves them, without evidence, and lets the store index them. Then it asks for windows of
a store that is open, and of one that is opened for the question and looks at its folders for news first. A folder that
is named is kept, and filled once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from qwenperf.store.base import Window
from qwenperf.store.directory import DirectoryStore, open_store

CASES, METRICS, WINDOW = 20, 25, 500
START = datetime(2020, 1, 1, tzinfo=UTC)


def fill(folder: Path, points: int) -> int:
    """Write the runs that are not there yet, and return how many there are: one commit in two, every 8 hours."""
    runs = -(-points // (CASES * METRICS))
    random.seed(0)
    for number in range(runs):
        place = folder / f"run-{number:06}"
        if not (place / "run.json").exists():
            place.mkdir(parents=True)
            (place / "run.json").write_text(json.dumps(record(number)))
    return runs


def record(number: int) -> dict[str, Any]:
    """Return a run as JSON data."""
    commit = number // 2
    at = START + timedelta(hours=8 * commit)
    return {
        "schema": "qwenperf.run.v1",
        "id": f"run-{number:06}",
        "created_at": (at + timedelta(hours=1 + number % 2)).isoformat(),
        "suite": "benchmark",
        "environment": {"platform": "cpu", "machine": "x86_64", "cores": 2 + 6 * (number % 2)},
        "commit": {"sha": f"{commit:040x}", "branch": "main" if commit % 5 else "side", "committed_at": at.isoformat()},
        "cases": [{"id": f"model/engine-{case:02}", "spec": {}, "metrics": metrics()} for case in range(CASES)],
    }


def metrics() -> dict[str, Any]:
    """Return the metrics of one case."""
    found = {}
    for place in range(METRICS):
        value = random.gauss(1.0, 0.02)
        found[f"metric_{place:02}_s"] = {
            "value": value,
            "unit": "s",
            "direction": "lower",
            "kind": "timed",
            "samples": [value] * 5,
            "interval": [0.98 * value, 1.02 * value],
            "coverage": 0.9375,
        }
    return found


def questions() -> dict[str, Callable[[DirectoryStore, str, str], Any]]:
    """Return what is asked, by name."""
    windows = {
        "the last 500": Window(last=WINDOW),
        "500 of one environment": Window(last=WINDOW, environment="cpu-x86_64-8core"),
        "500 of one branch": Window(last=WINDOW, branch="main"),
        "500 since the middle": Window(last=WINDOW, since=START + timedelta(days=100)),
    }
    return {
        name: lambda store, case, metric, w=window: store.series(case, metric, w) for name, window in windows.items()
    }


def measure(url: str, repeats: int) -> dict[str, Any]:
    """Time each question on random series: asked of an open store, and of one that is opened for it."""
    random.seed(1)
    told: dict[str, Any] = {}
    opened = open_store(url)
    opened.counts()
    for name, ask in questions().items():
        warm, cold, points = [], [], 0
        for _ in range(repeats):
            case, metric = f"model/engine-{random.randrange(CASES):02}", f"metric_{random.randrange(METRICS):02}_s"  # noqa: S311
            began = time.perf_counter()
            points = len(ask(opened, case, metric).points)
            warm.append(time.perf_counter() - began)
            began = time.perf_counter()
            ask(open_store(url), case, metric)
            cold.append(time.perf_counter() - began)
        told[name] = {"points": points, "query": summary(warm), "opened for it": summary(cold)}
    return told


def summary(times: list[float]) -> dict[str, float]:
    """Return median and worst, in milliseconds."""
    return {"median_ms": round(1e3 * statistics.median(times), 2), "worst_ms": round(1e3 * max(times), 2)}


def main() -> int:
    """Fill, index, ask, tell."""
    parser = argparse.ArgumentParser(description="A million points in a store, and how long a window of 500 takes.")
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="qwenperf-store-") as made:
        folder = asked.folder or Path(made)
        os.environ["QWENPERF_CACHE"] = str(folder.parent / f"{folder.name}-cache")
        runs, filled = timed(lambda: fill(folder, asked.points))
        counts, indexed = timed(open_store(str(folder)).counts)
        told = {
            "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
            "runs": runs,
            **counts,
            "written_s": round(filled, 1),
            "indexed_s": round(indexed, 1),
            "index_bytes": sum(file.stat().st_size for file in Path(os.environ["QWENPERF_CACHE"]).rglob("*.sqlite")),
            "questions": measure(str(folder), asked.repeats),
        }
    sys.stdout.write(json.dumps(told, indent=2) + "\n" if asked.json else words(told))
    return 0


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what ``work`` returns, and its seconds."""
    began = time.perf_counter()
    done = work()
    return done, time.perf_counter() - began


def words(told: dict[str, Any]) -> str:
    """Return the result as a person reads it."""
    head = {name: value for name, value in told.items() if name != "questions"}
    lines = [f"{name}: {value}" for name, value in head.items()]
    lines += [
        "",
        "| question | points | query, median | worst | store opened for it, median | worst |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, seen in told["questions"].items():
        cells = [f"{seen[kind][one]} ms" for kind in ("query", "opened for it") for one in ("median_ms", "worst_ms")]
        lines.append(f"| {name} | {seen['points']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
