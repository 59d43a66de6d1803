"""What ``/metrics`` counts of requests: every answer, by the pattern of its address."""

import importlib.util
import os
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def requests(http):
    """Return how many requests there were by method, route and status, as Prometheus reads it."""
    found = text_string_to_metric_families(http.get("/metrics").text)
    samples = [one for family in found for one in family.samples if one.name == "qwenperf_requests_total"]
    return {tuple(one.labels[name] for name in ("method", "route", "status")): one.value for one in samples}


def more(http, ask):
    """Return what was counted while something was asked, without the questions for the counts."""
    before = requests(http)
    ask()
    after = requests(http)
    grown = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    grown.pop(("GET", "/metrics", "200"))
    return grown


def away():
    raise RuntimeError("no file store")


def test_probes_are_counted_by_what_they_were_told(shared, monkeypatch):
    """An operator sees from when on a service was not ready; a bug is an answer, too."""
    with shared.client("") as http:
        shared.service.readiness.forget()
        assert more(http, lambda: [http.get("/healthz"), http.get("/healthz"), http.get("/readyz")]) == {
            ("GET", "/healthz", "200"): 2,
            ("GET", "/readyz", "200"): 1,
        }
        monkeypatch.setattr(shared.service.files, "check", away)
        shared.service.readiness.forget()
        with shared.client("") as other:  # its connection ends with a bug
            assert more(http, lambda: other.get("/readyz")) == {("GET", "/readyz", "500"): 1}


def test_addresses_are_counted_by_their_pattern(project, shared, documents):
    """So that neither projects nor strangers make new numbers, and no name is told."""
    place = "/api/v1/projects/{project}"
    asked = [("GET", "", 200), ("POST", "/runs", 201), ("GET", "/runs/nosuch", 404), ("GET", "/runs/run-000001", 200)]

    def ask():
        for method, path, status in asked:
            project.ask(method, path, status, **({"json": documents.run(1)} if method == "POST" else {}))
        assert project.http.get(f"/p/{project.name}", headers={"Accept": "text/html"}).status_code == 200
        assert project.http.get("/static/style.css").status_code == 200

    assert more(project.http, ask) == {
        ("GET", place, "200"): 1,
        ("POST", f"{place}/runs", "201"): 1,
        ("GET", f"{place}/runs/{{run}}", "404"): 1,
        ("GET", f"{place}/runs/{{run}}", "200"): 1,
        ("GET", "/p/{project}", "200"): 1,
        ("GET", "/static", "200"): 1,
    }
    with shared.client("") as stranger:
        assert project.name not in stranger.get("/metrics").text


@pytest.mark.parametrize(
    ("method", "path", "counted"),
    [
        ("GET", "/nosuch", ("GET", "", "404")),
        ("GET", "/nosuch/either", ("GET", "", "404")),
        ("BREW", "/healthz", ("other", "", "405")),
        ("DELETE", "/healthz", ("DELETE", "", "405")),
    ],
)
def test_what_nothing_takes_is_counted_as_one(shared, method, path, counted):
    """Whatever somebody invents."""
    with shared.client("") as http:
        assert more(http, lambda: http.request(method, path)) == {counted: 1}


def test_each_of_several_workers_says_which_it_is(shared):
    """Any of them answers: sums of two, taken for one, would fall and rise at each question."""
    with shared.client() as http:
        assert "worker=" not in http.get("/metrics").text
        before = shared.service.settings
        object.__setattr__(shared.service, "settings", replace(before, workers=2))
        told = http.get("/metrics").text
        object.__setattr__(shared.service, "settings", before)
    of_a_process = [line for line in told.splitlines() if line.startswith(("qwenperf_requests_", "qwenperf_peak_"))]
    assert of_a_process
    assert all(f'worker="{os.getpid()}"' in line for line in of_a_process)
    assert not any("worker=" in line for line in told.splitlines() if line.startswith("qwenperf_runs "))


def test_callers_that_were_turned_away_are_counted(tmp_path):
    """Or nobody would see why a job gets 429."""
    settings = ServiceSettings(data=tmp_path, anonymous_per_s=0.01, anonymous_burst=2, sweep_s=0)
    with beside("running").serving(settings) as found:
        assert [found.ask("GET", "/api/v1/projects").status_code for _ in range(3)] == [200, 200, 429]
        seen = found.ask("GET", "/metrics", found.admin)
    assert 'qwenperf_requests_total{method="GET",route="",status="429"} 1' in seen.text
