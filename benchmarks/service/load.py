"""How fast the service is: ingest, alerts, windows, pages, readers beside ingest, retention, memory. In five minutes.

    python -m benchmarks.service.load
    python -m benchmarks.service.load --database postgresql://USER@HOST/EMPTY_DATABASE

Server, fill and clients are processes of their own on one machine, so that the clients' work is in the figures too.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import platform
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.service.fill import fill
from benchmarks.service.records import text
from benchmarks.service.servers import client, peak_bytes
from benchmarks.service.told import telling

Paths = Callable[[random.Random], tuple[str, dict[str, Any]]]

PROJECT = "/api/v1/projects/load"
_PUSHERS, _READERS = 8, 50
_MOST_PER_S, _CREATED = 400, 201
_EVERY_S = 5.0
_WINDOW = {"case": "model-0/engine-0/b1-p128-n128-f32", "metric": "metric_07_s"}


@contextmanager
def served(folder: Path, database: str) -> Iterator[tuple[str, str, int]]:
    """Serve in a process of its own; yield address, token and process id."""
    command = [
        sys.executable,
        "-m",
        "qwenperf",
        "serve",
        "--data",
        str(folder),
        "--port",
        "0",
        "--sweep",
        "1",
        "--json",
    ]
    command += ["--database", database] if database else []
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    told = json.loads(process.stdout.readline())
    try:
        yield told["url"], told["token"], process.pid
    finally:
        process.terminate()
        process.wait(60)


def push_for(url: str, token: str, seconds: float, first: int, said: Any) -> None:
    """Push from several threads, and say how many runs were acknowledged, in how long, and how each one took.

    Who sends shares the machine with who answers: runs are written before the clock starts, and sent by no more than it
    takes, which a job's own client is not.
    """
    taken: list[float] = []
    bodies = [text(number, series=9) for number in range(first, first + round(seconds * _MOST_PER_S))]
    lock, left = threading.Lock(), iter(bodies)
    ends = time.monotonic() + seconds

    def work() -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        while time.monotonic() < ends:
            with lock:
                body = next(left)
            begun = time.perf_counter()
            connection.request("POST", f"{PROJECT}/runs", body, {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            told = answer.read()
            if answer.status != _CREATED:
                raise RuntimeError(f"{answer.status}: {told[:200]!r}")
            with lock:
                taken.append(time.perf_counter() - begun)
        connection.close()

    begun = time.monotonic()
    together([work] * _PUSHERS)
    said.put((len(taken), time.monotonic() - begun, quantiles(taken)))


def together(work: list[Callable[[], None]]) -> None:
    """Do everything at once, and wait for all of it."""
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ingest(url: str, token: str, seconds: float, first: int) -> Callable[[], dict[str, Any]]:
    """Begin to push in another process; what is returned waits for its end."""
    said: Any = multiprocessing.Queue()
    process = multiprocessing.Process(target=push_for, args=(url, token, seconds, first, said))
    process.start()

    def wait() -> dict[str, Any]:
        count, took, spread = said.get(timeout=seconds + 120)
        process.join()
        return {"runs_per_s": round(count / took, 1), "runs": count, "acknowledged_ms": spread}

    return wait


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the largest, in milliseconds."""
    ordered = sorted(seconds) or [0.0]
    return {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 1)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))
    }


def read(
    url: str, token: str, paths: Callable[[random.Random], tuple[str, dict[str, Any]]], count: int
) -> dict[str, float]:
    """Ask one after the other, and return how long the answers took."""
    random_ = random.Random(0)  # noqa: S311  (which windows, not secrets)
    taken = []
    with client(url, token) as http:
        for _ in range(count):
            path, query = paths(random_)
            begun = time.perf_counter()
            http.get(path, params=query).raise_for_status()
            taken.append(time.perf_counter() - begun)
    return quantiles(taken)


def window(random_: random.Random) -> tuple[str, dict[str, Any]]:
    """Return a window of any series: all of it, or a part."""
    case = f"model-0/engine-{random_.randrange(2)}/b1-p128-n128-f32"
    query: dict[str, Any] = {"case": case, "metric": f"metric_{random_.randrange(50):02d}_s", "limit": 500}
    if random_.random() < 0.5:
        query |= {"start": f"2026-01-{random_.randrange(1, 15):02d}", "end": f"2026-01-{random_.randrange(16, 30):02d}"}
    return f"{PROJECT}/series/window", query


def overview(_: random.Random) -> tuple[str, dict[str, Any]]:
    """Return the page of the project."""
    return "/p/load", {}


def series_page(random_: random.Random) -> tuple[str, dict[str, Any]]:
    """Return the page of any series."""
    return "/p/load/series", {**_WINDOW, "metric": f"metric_{random_.randrange(50):02d}_s"}


def read_by_many(url: str, token: str, seconds: float) -> dict[str, Any]:
    """Read as fifty people do, a page or a window every five seconds each, and return how long the answers took."""
    taken: list[float] = []
    ends = time.monotonic() + seconds

    def work(index: int) -> Callable[[], None]:
        def inner() -> None:
            random_ = random.Random(index)  # noqa: S311  (which windows, not secrets)
            time.sleep(random_.uniform(0, _EVERY_S))
            with client(url, token) as http:
                while time.monotonic() < ends:
                    path, query = random_.choice((window, window, overview, series_page))(random_)
                    begun = time.perf_counter()
                    http.get(path, params=query).raise_for_status()
                    taken.append(time.perf_counter() - begun)
                    time.sleep(max(0.0, _EVERY_S - taken[-1]))

        return inner

    together([work(index) for index in range(_READERS)])
    return {"reads_per_s": round(len(taken) / seconds, 1), "answers_ms": quantiles(taken)}


def retention(url: str, token: str, fresh: int) -> dict[str, Any]:
    """Let all expire but the ``fresh`` points that have just come; return how long it and answers meanwhile took."""
    taken = []
    with client(url, token) as http:
        before = points(http)
        http.patch(PROJECT, json={"retention_days": 1}).raise_for_status()
        begun = time.monotonic()
        while points(http) > fresh and time.monotonic() - begun < 180:
            asked = time.perf_counter()
            http.get(f"{PROJECT}/runs", params={"limit": 20}).raise_for_status()
            taken.append(time.perf_counter() - asked)
            time.sleep(0.1)
        return {"points": before - fresh, "seconds": round(time.monotonic() - begun, 1), "answers_ms": quantiles(taken)}


def points(http: httpx.Client) -> int:
    """Return how many points the service says it has."""
    lines = http.get("/metrics").raise_for_status().text.splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("qwenperf_points "))


def measure(folder: Path, database: str, *, runs: int, seconds: float) -> dict[str, Any]:
    """Measure everything, and return it."""
    with served(folder, database) as (url, token, pid):
        with client(url, token) as http:
            http.post("/api/v1/projects", json={"project": "load"}).raise_for_status()
        found: dict[str, Any] = {}
        with telling(url, token) as told:
            found["ingest"] = ingest(url, token, seconds, 0)()
        found["told_s"] = told
        begun = time.monotonic()
        fill(folder, database, "load", runs=runs)
        found["filled"] = {"runs": runs, "points": runs * 100, "seconds": round(time.monotonic() - begun, 1)}
        found["window_ms"] = read(url, token, window, 200)
        found["overview_ms"] = read(url, token, overview, 60)
        found["series_page_ms"] = read(url, token, series_page, 60)
        with telling(url, token, "beside") as told:
            pushed = ingest(url, token, seconds, 50_000)
            found["beside_ingest"] = read_by_many(url, token, seconds)
            found["ingest_beside_readers"] = pushed()
        found["told_beside_readers_s"] = told
        found["peak_mb"] = round(peak_bytes(pid) / 1e6)
        fresh = 50 * (found["ingest"]["runs"] + found["ingest_beside_readers"]["runs"])
        fresh += found["told_s"]["points"] + found["told_beside_readers_s"]["points"]
        found["retention"] = retention(url, token, fresh)
        found["peak_mb_after_retention"] = round(peak_bytes(pid) / 1e6)
    return found


def main() -> int:
    """Measure, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", default="", help="an empty PostgreSQL database (default: SQLite)")
    parser.add_argument("--runs", type=int, default=10_000, help="runs of 100 points to fill it with")
    parser.add_argument("--seconds", type=float, default=20, help="length of each ingest")
    asked = parser.parse_args()
    if asked.database:
        from qwenperf.service.db.upgrade import upgrade
        from qwenperf.service.settings import ServiceSettings

        upgrade(ServiceSettings(data=Path(), database=asked.database).database_url)
    with tempfile.TemporaryDirectory(prefix="qwenperf-load-") as folder:
        found = measure(Path(folder), asked.database, runs=asked.runs, seconds=asked.seconds)
    machine = {
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
    }
    found |= machine | {"database": asked.database.partition(":")[0] or "sqlite", "load": os.getloadavg()[0]}
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
