"""How soon a change for the worse is told of while much else arrives: from the answer to a push to the alert."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from benchmarks.service.records import compiles
from benchmarks.service.servers import client

_EVERY_S, _LOOKS_S, _GIVES_UP_S = 1.5, 0.1, 120.0
_CASES = 60


@contextmanager
def telling(url: str, token: str, series: str = "first") -> Iterator[dict[str, Any]]:
    """Send a change for the worse again and again while the block runs; what is yielded says then how long it took."""
    told: dict[str, Any] = {}
    stop = threading.Event()
    taken: list[float] = []
    path = f"/api/v1/projects/told-{series}"
    with client(url, token) as http:
        http.post("/api/v1/projects", json={"project": f"told-{series}"}).raise_for_status()
        for number in range(2):
            http.post(f"{path}/runs", content=compiles(number, range(_CASES), 0)).raise_for_status()
        thread = threading.Thread(target=_ask, args=(http, path, stop, taken))
        thread.start()
        yield told
        stop.set()
        thread.join()
    ordered = sorted(taken)
    told["points"] = 2 * _CASES + len(ordered)
    told |= {"alerts": len(ordered), "p50": round(ordered[len(ordered) // 2], 2), "max": round(ordered[-1], 2)}


def _ask(http: httpx.Client, path: str, stop: threading.Event, taken: list[float]) -> None:
    for number in range(_CASES):
        http.post(f"{path}/runs", content=compiles(2 + number, [number], 1)).raise_for_status()
        begun = time.monotonic()
        while not _is_told(http, path, number) and time.monotonic() - begun < _GIVES_UP_S:
            time.sleep(_LOOKS_S)
        taken.append(time.monotonic() - begun)
        if stop.wait(_EVERY_S):
            return


def _is_told(http: httpx.Client, path: str, number: int) -> bool:
    found = http.get(f"{path}/alerts").raise_for_status().json()["alerts"]
    return len(found) > number
