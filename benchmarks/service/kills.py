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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service.records import comparison_text, text
from benchmarks.service.servers import Nursery, client

PROJECT = "/api/v1/projects/kills"
METRICS = 20
_COMPARED = 4
"""Of so many records one is a comparison."""

_WORKERS = 4
_LARGEST = 400_000
_PATIENCE_S = 20.0


@dataclass(kw_only=True)
class Acknowledged:
    """What the service said that it has: records by where they are, and files by that and path, each with SHA-256."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    records: dict[str, str] = field(default_factory=dict)
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
            checked = len(told.records)
        wrong += _check(nursery, told, skip=0)
    return {
        "kills": kills,
        "seed": seed,
        "database": database.partition(":")[0] or "sqlite",
        "acknowledged_runs": sum(place.startswith("runs/") for place in told.records),
        "acknowledged_comparisons": sum(place.startswith("comparisons/") for place in told.records),
        "acknowledged_files": len(told.files),
        "wrong": [*told.unexpected, *wrong],
    }


def _make_project(nursery: Nursery) -> None:
    with client(nursery.url, nursery.token) as http:
        http.post("/api/v1/projects", json={"project": "kills"}).raise_for_status()


def _under_way(told: Acknowledged, count: int) -> None:
    """Wait until ``count`` things were acknowledged since this began: however slow the machine, much is under way."""
    before, begun = len(told.records) + len(told.files), time.monotonic()
    while len(told.records) + len(told.files) < before + count and time.monotonic() - begun < _PATIENCE_S:
        time.sleep(0.002)


def _push(nursery: tuple[str, str], numbers: Any, told: Acknowledged, stop: threading.Event, seed: int) -> None:
    """Send runs, comparisons and their traces until the service is gone; note what it acknowledges."""
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
        number = next(numbers)
    body = text(number, metrics=METRICS) if number % _COMPARED else comparison_text(number)
    answer = http.post(f"{PROJECT}/runs", content=body)
    answer.raise_for_status()
    record = answer.json()["records"][0]
    place = f"{record['kind']}s/{record['id']}"
    with told.lock:
        told.records[place] = record["sha256"]
    data = random_.randbytes(random_.randrange(_LARGEST))
    digest = hashlib.sha256(data).hexdigest()
    path = "plugins/profile/s/a.xplane.pb"
    announced = {"path": path, "size": len(data), "sha256": digest}
    begun = http.post(f"{PROJECT}/{place}/files", json=announced).raise_for_status().json()
    offset = 0
    while not begun["complete"]:
        part = data[offset : offset + random_.randrange(50_000, 200_000)]
        headers = {"Upload-Offset": str(offset)}
        begun = http.patch(f"{PROJECT}/uploads/{begun['upload']}", content=part, headers=headers)
        begun = begun.raise_for_status().json()
        offset = begun["offset"]
    with told.lock:
        told.files[place, path] = digest


def _check(nursery: Nursery, told: Acknowledged, *, skip: int) -> list[str]:
    """Return what is wrong: acknowledged and lost, or there and not whole. ``skip``: so many records were seen."""
    with client(nursery.url, nursery.token) as http:
        wrong = [problem for place in list(told.records)[skip:] for problem in _check_record(http, place, told)]
        for kind in ("run", "comparison"):
            listed = http.get(f"{PROJECT}/{kind}s", params={"limit": 20}).raise_for_status().json()[f"{kind}s"]
            for place in (f"{kind}s/{row[kind]}" for row in listed):
                if place not in told.records:
                    wrong += _check_record(http, place, told)
    return wrong


def _check_record(http: httpx.Client, place: str, told: Acknowledged) -> list[str]:
    answer = http.get(f"{PROJECT}/{place}")
    if answer.status_code != 200:
        return [f"{place} was acknowledged and answers {answer.status_code}"]
    found, wrong = answer.json(), []
    if place in told.records and found["sha256"] != told.records[place]:
        wrong.append(f"{place} has other content than was acknowledged")
    if not _is_whole(found):
        wrong.append(f"{place} is half there: {len(found['verdicts'])} verdicts")
    files = {file["path"]: file["sha256"] for file in found["files"]}
    wrong += [
        f"{place} lost {path}" for (of, path), digest in told.files.items() if of == place and files.get(path) != digest
    ]
    for path, digest in files.items():
        data = http.get(f"{PROJECT}/{place}/files/{path}").raise_for_status().content
        if hashlib.sha256(data).hexdigest() != digest:
            wrong.append(f"{place} has {path} with other content than it says")
    return wrong


def _is_whole(found: Mapping[str, Any]) -> bool:
    """Say whether all is there that every record of ours has."""
    is_run = "run" in found
    measured = not is_run or (len(found["metrics"]) == METRICS and len(found["case_list"]) == 1)
    return measured and len(found["verdicts"]) == 1


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
