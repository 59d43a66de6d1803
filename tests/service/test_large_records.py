"""Large records cost memory by how many are read at a time: few are, whoever asks, and nobody else waits for them."""

import io
import json
import tarfile
import threading
import time

import anyio
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from qwenperf.service import large
from qwenperf.service.large import in_turn

NAMES = ("large-1", "large-2")


@pytest.fixture
def filled(project, documents, monkeypatch):
    """A project with two runs and a comparison that count as large, and a small one."""
    for number, name in enumerate(NAMES):
        project.post("/runs", documents.run(number) | {"id": name, "pad": "x" * 20_000})
    project.post("/runs", documents.run(5) | {"id": "small"})
    project.post("/comparisons", documents.comparison("large") | {"pad": "x" * 20_000})
    for place in ("large", "api.records", "api.export", "web.archive"):
        monkeypatch.setattr(f"qwenperf.service.{place}.LARGE", 10_000)
    return project


class Watched:
    """Counts how many are within at a time, each for as long as the test says."""

    def __init__(self, work):
        self.work, self.lock, self.within, self.most = work, threading.Lock(), 0, 0
        self.go = threading.Event()

    def __call__(self, *given, **more):
        """Do the work, and be counted meanwhile."""
        with self.lock:
            self.within += 1
            self.most = max(self.most, self.within)
        self.go.wait(5)
        try:
            return self.work(*given, **more)
        finally:
            with self.lock:
                self.within -= 1


@pytest.mark.parametrize(
    ("place", "work", "shown"),
    [
        ("web.records", "from_json", "runs/large-1"),
        ("web.records", "comparison_from_json", "comparisons/large"),
        ("web.compare", "paired", "compare?base=large-1&head=large-2"),
    ],
)
def test_few_large_records_are_read_for_pages_at_a_time(filled, monkeypatch, place, work, shown):
    """Six readers at once would hold six; small ones are read beside them without waiting."""
    module = __import__(f"qwenperf.service.{place}", fromlist=[work])
    watched = Watched(getattr(module, work))
    monkeypatch.setattr(module, work, watched)
    found = []

    def ask():
        with filled.server.client() as http:
            found.append(http.get(f"/p/{filled.name}/{shown}", headers={"Accept": "text/html"}).status_code)

    asking = [threading.Thread(target=ask) for _ in range(5)]
    for one in asking:
        one.start()
    while watched.within < large.AT_ONCE:
        assert any(one.is_alive() for one in asking)
        time.sleep(0.01)
    assert filled.ask("GET", "/runs/small", 200)
    watched.go.set()
    for one in asking:
        one.join()
    assert (found, watched.most) == ([200] * 5, large.AT_ONCE)


def test_what_passes_a_large_record_on_does_not_read_it(filled, documents):
    """Record, archive and export have it whole, and its announced length is right."""
    sent = documents.run(0) | {"id": "large-1", "pad": "x" * 20_000}
    answer = filled.ask("GET", "/runs/large-1/record", 200)
    assert (answer.json(), int(answer.headers["content-length"])) == (sent, len(answer.content))
    assert filled.ask("HEAD", "/runs/large-1/record", 200).headers["etag"] == answer.headers["etag"]
    packed = filled.http.get(f"/p/{filled.name}/runs/large-1/files.tar").content
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert json.load(archive.extractfile("large-1/run.json")) == sent
    lines = [json.loads(line) for line in filled.ask("GET", "/export", 200).text.splitlines()]
    assert [line["record"]["id"] for line in lines if "record" in line] == ["large-1", "large-2", "small", "large"]
    assert lines[1]["record"] == sent
    assert lines[-1] == {"type": "end", "entries": len(lines) - 1}


def test_large_work_waits_in_no_thread():
    """Threads are for everybody; a queue of large records must not take them all."""

    async def asked():
        app = type("App", (), {"state": type("State", (), {"large": anyio.CapacityLimiter(1)})})
        request = Request({"type": "http", "app": app})
        anyio.to_thread.current_default_thread_limiter().total_tokens = 1
        release, order = threading.Event(), []

        def work(name):
            assert name == "small" or release.wait(5)
            order.append(name)
            return PlainTextResponse(name)

        async with anyio.create_task_group() as group:
            for name in ("large", "large"):
                group.start_soon(in_turn, request, large.LARGE + 1, lambda name=name: work(name))
            await anyio.sleep(0.05)
            await in_turn(request, 1, lambda: work("small"))
            release.set()
        return order

    assert anyio.run(asked) == ["small", "large", "large"]


def test_a_stranger_makes_nobody_wait(filled):
    """Who may not see a large record is told so at once."""
    with filled.server.client("") as http:
        assert http.get(f"{filled.path}/runs/large-1", headers={"Accept": "application/json"}).status_code == 401
        assert http.get(f"/p/{filled.name}/runs/large-1", headers={"Accept": "application/json"}).status_code == 401
