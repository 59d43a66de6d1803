"""A service judges what arrives without being asked to, and leaves nothing behind when it ends."""

import multiprocessing
import time
from dataclasses import replace

import pytest

pytest.importorskip("asv")


@pytest.fixture
def settings(settings):
    """Settings of a service that tidies up, and judges, by itself."""
    return replace(settings, sweep_s=60)


@pytest.fixture
def ended():
    """What was found to run once the service had ended: asked for last, so that the service ends before."""
    before = set(multiprocessing.active_children())
    yield before
    assert set(multiprocessing.active_children()) == before


@pytest.mark.slow
def test_what_arrives_has_its_alerts_soon_after(ended, client, documents):
    """Nobody has to ask for it: two compiles more, in the last run, are told of."""
    for number in range(8):
        said = documents.run(number, compiles_steady=2 if number == 7 else 0)
        client.post("/api/v1/projects/demo/runs", json=said).raise_for_status()
    alerts, ends = [], time.monotonic() + 60
    while not alerts and time.monotonic() < ends:
        alerts = client.get("/api/v1/projects/demo/alerts").json()["alerts"]
        time.sleep(0.05)
    assert [one["state"] for one in alerts] == ["open"]
    assert set(multiprocessing.active_children()) > ended
