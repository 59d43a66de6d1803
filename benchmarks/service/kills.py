"""Kill the service at random moments of uploads, and see that nothing is half there and nothing acknowledged is lost.

python -m benchmarks.service.kills --kills 200
python -m benchmarks.service.kills --kills 200 --database postgresql://USER@HOST/EMPTY_DATABASE
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service.records import text
from benchmarks.service.servers import Nursery, client

PROJECT = "/api/v1/projects/kills"
METRICS = 20
_WORKERS = 4
_LARGEST = 400_000
_PATIENCE_S = 20.0


@dataclass(kw_only=True)
class Acknowledged:
    """What the service said that it has: runs by id, and files by run and path, each with its SHA-256."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    runs: dict[str, str] = field(default_factory=dict)
    files: dict[tuple[str, str], str] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)


def kill_often(data: Path, *, kills: int, database: str = "", seed: int = 0) -> dict[str, Any]:
    """Kill a service ``kills`` times and return what was acknowledged, and what was found wrong."""
    random_ = random.Random(seed)  # noqa: S311  (moments, not secrets)
    told, wrong, numbers = Acknowledged(), [], iter(range(10**9))
    checked = 0
    with Nursery(data=data, database=database) as nursery:
        nursery.start()
        _make_project(nursery)
        for kill in range(kills):
            stop = threading.Event()
            workers = [
                threading.Thread(
                    target=_push, args=((nursery.url, nursery.token), numbers, told, stop, kill * 10 + index)
                )
                for index in range(_WORKERS)
            ]
            for worker in workers:
                worker.start()
            _under_way(told, random_.randrange(1, 12))
            time.sleep(random_.uniform(0, 0.05))
            nursery.kill()
            stop.set()
            for worker in workers:
                worker.join()
            nursery.start()
            wrong += _check(nursery, told, skip=checked)
            checked = len(told.runs)
        wrong += _check(nursery, told, skip=0)
    return {
        "kills": kills,
        "seed": seed,
        "database": database.partition(":")[0] or "sqlite",
        "acknowledged_runs": len(told.runs),
        "acknowledged_files": len(told.files),
        "wrong": [*told.unexpected, *wrong],
    }


def _make_project(nursery: Nursery) -> None:
    with client(nursery.url, nursery.token) as http:
        http.post("/api/v1/projects", json={"project": "kills"}).raise_for_status()


def _under_way(told: Acknowledged, count: int) -> None:
    """Wait until ``count`` things were acknowledged since this began: however slow the machine, much is under way."""
    before, begun = len(told.runs) + len(told.files), time.monotonic()
    while len(told.runs) + len(told.files) < before + count and time.monotonic() - begun < _PATIENCE_S:
        time.sleep(0.002)


def _push(nursery: tuple[str, str], numbers: Any, told: Acknowledged, stop: threading.Event, seed: int) -> None:
    """Send runs and their traces until the service is gone; note what it acknowledges."""
    random_ = random.Random(seed)  # noqa: S311  (sizes, not secrets)
    try:
        with client(*nursery) as http:
            while not stop.is_set():
                _push_one(http, random_, numbers, told)
    except httpx.TransportError:
        pass  # killed
    except httpx.HTTPStatusError as error:
        with told.lock:
            told.unexpected.append(f"{error.request.method} {error.request.url}: {error.response.text[:200]}")


def _push_one(http: httpx.Client, random_: random.Random, numbers: Any, told: Acknowledged) -> None:
    with told.lock:
        body = text(next(numbers), metrics=METRICS)
    answer = http.post(f"{PROJECT}/runs", content=body)
    answer.raise_for_status()
    record = answer.json()["records"][0]
    with told.lock:
        told.runs[record["id"]] = record["sha256"]
    data = random_.randbytes(random_.randrange(_LARGEST))
    digest = hashlib.sha256(data).hexdigest()
    path = "plugins/profile/s/a.xplane.pb"
    announced = {"path": path, "size": len(data), "sha256": digest}
    begun = http.post(f"{PROJECT}/runs/{record['id']}/files", json=announced).raise_for_status().json()
    offset = 0
    while not begun["complete"]:
        part = data[offset : offset + random_.randrange(50_000, 200_000)]
        headers = {"Upload-Offset": str(offset)}
        begun = http.patch(f"{PROJECT}/uploads/{begun['upload']}", content=part, headers=headers)
        begun = begun.raise_for_status().json()
        offset = begun["offset"]
    with told.lock:
        told.files[record["id"], path] = digest


def _check(nursery: Nursery, told: Acknowledged, *, skip: int) -> list[str]:
    """Return what is wrong: acknowledged and lost, or there and not whole. ``skip``: so many runs were seen."""
    with client(nursery.url, nursery.token) as http:
        wrong = [problem for run in list(told.runs)[skip:] for problem in _check_run(http, run, told)]
        listed = http.get(f"{PROJECT}/runs", params={"limit": 20}).raise_for_status().json()["runs"]
        for row in listed:
            if row["run"] not in told.runs:
                wrong += _check_run(http, row["run"], told)
    return wrong


def _check_run(http: httpx.Client, run: str, told: Acknowledged) -> list[str]:
    answer = http.get(f"{PROJECT}/runs/{run}")
    if answer.status_code != 200:
        return [f"{run} was acknowledged and answers {answer.status_code}"]
    found, wrong = answer.json(), []
    if run in told.runs and found["sha256"] != told.runs[run]:
        wrong.append(f"{run} has other content than was acknowledged")
    if len(found["metrics"]) != METRICS or len(found["verdicts"]) != 1 or len(found["case_list"]) != 1:
        wrong.append(f"{run} is half there: {len(found['metrics'])} of {METRICS} metrics")
    files = {file["path"]: file["sha256"] for file in found["files"]}
    wrong += [
        f"{run} lost {path}" for (name, path), digest in told.files.items() if name == run and files.get(path) != digest
    ]
    for path, digest in files.items():
        data = http.get(f"{PROJECT}/runs/{run}/files/{path}").raise_for_status().content
        if hashlib.sha256(data).hexdigest() != digest:
            wrong.append(f"{run} has {path} with other content than it says")
    return wrong


def main() -> int:
    """Kill, print what was found as JSON, and end with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--database", default="", help="an empty PostgreSQL database (default: SQLite)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.database:
        from qwenperf.service.db.upgrade import upgrade
        from qwenperf.service.settings import ServiceSettings

        upgrade(ServiceSettings(data=Path(), database=asked.database).database_url)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="qwenperf-kills-") as folder:
        done = kill_often(Path(folder), kills=asked.kills, database=asked.database, seed=asked.seed)
    done["seconds"] = round(time.monotonic() - begun, 1)
    sys.stdout.write(json.dumps(done, indent=2) + "\n")
    return 1 if done["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
