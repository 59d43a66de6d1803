"""Whatever is taken with 201 has its pages: a full record, changed in any place, is refused or can be looked at."""

import copy
import importlib.util
import json
import random
import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from qwenperf.schema.codec import dumps
from qwenperf.service.app import create_app, make_service
from qwenperf.service.auth import first_token
from qwenperf.service.settings import ServiceSettings

DEEP = 400
"""Nested so deep, a record can be parsed and no page can be made of it."""

ODD = (
    None, 0, -1, 1e149, 5e-324, 2**70, True, "", " ", "\x00", "\ud800", "a" * 3000, [], {}, [[]], {"": ""}, "<b>",
    "nan", "1970-01-01T00:00:00+14:00", [None], [1, "a", {}], {"a": None}, -0.0, "\u202e", "%s", "{{7*7}}",
    {"a": [{"b": [[]]}]},
)  # fmt: skip


LISTS = (
    "/", "/p/demo", "/p/demo/series", "/p/demo/matrix", "/p/demo/runs", "/p/demo/comparisons", "/p/demo/alerts",
    "/p/demo/compare", "/p/demo/admin", "/metrics", "/api/v1/projects/demo/export", "/api/v1/projects/demo/series",
    "/api/v1/projects/demo/badge.svg", "/api/v1/projects/demo/environments",
)  # fmt: skip
"""What shows all records of a project, of whatever each is."""


def samples():
    path = Path(__file__).parents[1] / "report" / "sample_records.py"
    spec = importlib.util.spec_from_file_location("sample_records_changed", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def asking(migrated, tmp_path_factory):
    """A client of a service in this process, where a bug is an answer, with a project."""
    folder = tmp_path_factory.mktemp("anything")
    shutil.copyfile(migrated, folder / "service.sqlite")
    settings = ServiceSettings(
        data=folder / "data", database=f"sqlite:///{folder / 'service.sqlite'}", sweep_s=0, judge=False,
        rate_per_s=1e6, rate_burst=10**6,
    )  # fmt: skip
    service = make_service(settings)
    token = first_token(service)
    with TestClient(create_app(settings, service), raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        client.post("/api/v1/projects", json={"project": "demo"}).raise_for_status()
        yield client


@pytest.fixture(scope="module")
def full():
    """A run and a comparison that have something of everything, as JSON data."""
    made = samples()
    found = {"runs": made.run(made.case()), "comparisons": made.comparison()}
    return {kind: json.loads(dumps(record)) for kind, record in found.items()}


def places(data, path=()):
    """Yield the path of everything in JSON data; of long arrays, of its first members."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data[:3]) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*path, key))


def put(data, path, value):
    """Put a value in a place."""
    *way, last = path
    for step in way:
        data = data[step]
    data[last] = copy.deepcopy(value)


def looked_at(client, kind, name):
    """Return what any page or answer about a record says that is a 5xx."""
    asked = [f"/p/demo/{kind}/{name}", f"/p/demo/{kind}/{name}/files.tar", f"/api/v1/projects/demo/{kind}/{name}"]
    if kind == "runs":
        sides = (("base", name), (name, "base"))
        asked += [f"/p/demo/compare?base={base}&head={head}" for base, head in sides]
        asked.append(f"/api/v1/projects/demo/compare?base=base&head={name}")
    answers = {path: client.get(path, headers={"Accept": "text/html"}).status_code for path in asked}
    return [(path, status) for path, status in answers.items() if status != 200]


@pytest.mark.parametrize("way", [("environment", "odd"), ("cases", 0, "spec", "odd"), ("odd",)])
def test_a_record_that_nests_too_deeply_for_a_page_is_refused(asking, full, way):
    """It would be taken, and be an internal error for whoever looks at it."""
    run = copy.deepcopy(full["runs"])
    put(run, way, "@")
    text = json.dumps(run).replace('"@"', "[" * DEEP + "]" * DEEP)
    refused = asking.post("/api/v1/projects/demo/runs", content=text)
    assert (refused.status_code, "nested" in refused.json()["error"]) == (422, True)


def test_a_record_that_nests_as_deep_as_is_taken_has_its_pages(asking, full):
    for kind, way in (("runs", ("environment", "odd")), ("comparisons", ("plan", "odd"))):
        record = copy.deepcopy(full[kind]) | {"id": "deep"}
        put(record, way, "@")
        text = json.dumps(record).replace('"@"', "[" * 98 + "]" * 98)
        assert asking.post(f"/api/v1/projects/demo/{kind}", content=text).status_code == 201
    base = full["runs"] | {"id": "base"}
    assert asking.post("/api/v1/projects/demo/runs", json=base).status_code < 300
    assert [looked_at(asking, kind, "deep") for kind in full] == [[], []]


@pytest.mark.parametrize(("name", "value"), [("list", [[]]), ("object", {"a": 1}), ("number", 7), ("truth", True)])
def test_a_machine_that_is_no_text_has_its_page(asking, full, name, value):
    """Nobody writes such an environment; somebody's own tool may."""
    run = copy.deepcopy(full["runs"]) | {"id": name}
    run["environment"] |= {"device_kind": value, "cpu_model": value, "cores": value, "jax": value, "platform": value}
    assert asking.post("/api/v1/projects/demo/runs", json=run).status_code == 201
    assert asking.get(f"/p/demo/runs/{name}", headers={"Accept": "text/html"}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["runs", "comparisons"])
def test_a_full_record_with_odd_things_in_any_place_is_refused_or_can_be_looked_at(asking, full, kind):
    """One to three places of a record that has everything hold what no writer of ours puts there."""
    choice = random.Random(kind)
    asking.post("/api/v1/projects/demo/runs", json=full["runs"] | {"id": "base"})
    found = [path for path in places(full[kind]) if path and path[0] not in {"id", "schema"}]
    taken, wrong = 0, []
    for number in range(200):
        record = copy.deepcopy(full[kind]) | {"id": f"x{number}"}
        changes = [(choice.choice(found), choice.choice(ODD)) for _ in range(choice.choice((1, 1, 2, 3)))]
        for path, value in changes:
            try:
                put(record, path, value)
            except (LookupError, TypeError):
                continue  # what an earlier change took away
        answer = asking.post(f"/api/v1/projects/demo/{kind}", content=json.dumps(record))
        if answer.status_code == 201:
            taken += 1
            wrong += [(changes, *bad) for bad in looked_at(asking, kind, f"x{number}")]
        elif answer.status_code != 422:
            wrong.append((changes, answer.status_code))
    assert not wrong
    assert taken > 30
    for path in LISTS:
        assert asking.get(path, headers={"Accept": "text/html"}).status_code == 200, path
