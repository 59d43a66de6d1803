"""A service as a store: what it is asked for, and what is looked for in its answers."""

import httpx
import pytest

from qwenperf.store.base import Window
from qwenperf.store.http import Service
from qwenperf.store.remote import RemoteStore

HERE, THERE = "0123456789abcdef", "fedcba9876543210"
POINT = {
    "measured_at": "2026-01-01T00:00:00Z", "committed_at": None, "at": "2026-01-01T00:00:00Z", "commit": "",
    "branch": "", "interval": None, "samples": 1, "accepted": None,
}  # fmt: skip
RUN = {
    "at": "2026-01-01T00:00:00Z", "measured_at": "2026-01-01T00:00:00Z", "committed_at": None, "suite": "",
    "commit": "", "branch": "", "cases": 1, "interrupted": False,
}  # fmt: skip


@pytest.fixture
def store():
    """A project with a point of each of two environments, which knows them by their whole hashes as a service does."""

    def answer(request):
        wanted = request.url.params.get("environment")
        places = [place for place in (HERE, THERE) if wanted in {None, place}]
        points = [POINT | {"value": 1.0, "run": f"run-{place}", "environment": place} for place in places]
        told = {"unit": "s", "direction": "lower", "kind": "timed", "buckets": [], "points": points}
        runs = [RUN | {"run": f"run-{place}", "environment": place} for place in places]
        return httpx.Response(200, json=told | {"runs": runs, "next": None})

    transport = httpx.MockTransport(answer)
    return RemoteStore(Service(url="http://service.example", transport=transport, patience_s=0), "demo")


@pytest.mark.parametrize(
    ("environment", "found"),
    [(None, [HERE, THERE]), (HERE, [HERE]), (HERE[:8], [HERE]), ("f", [THERE]), ("cpu-x86_64-2core", [])],
)
def test_the_beginning_of_an_environment_s_hash_asks_for_it(store, environment, found):
    """As of a store in a folder; a service tells no classes."""
    window = Window(environment=environment)
    assert [point.environment for point in store.series("a", "tpot_s", window).points] == found
    assert sorted(run.environment for run in store.runs(window)) == found
