"""A run that an admin removes is gone for whoever looks, once and for all."""

import hashlib
import re
from pathlib import Path

import pytest

from qwenperf.service.db import files
from qwenperf.service.jobs import sweep
from qwenperf.service.problems import ServiceUnavailableError

TRACE = bytes(range(256)) * 20


def send_file(project, run, data=TRACE, path="plugins/profile/s/host.xplane.pb"):
    told = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = project.post(f"/runs/{run}/files", told, 201)["upload"]
    project.ask("PATCH", f"/uploads/{upload}", 200, content=data, headers={"Upload-Offset": "0"})


def values(project, case="tiny/cached"):
    points = project.get("/series/window", case=case, metric="tpot_s")["points"]
    return [(point["run"], point["value"]) for point in points]


@pytest.fixture
def three(project, documents):
    """Three runs of one series, the last of which has a case of its own and a trace."""
    for number in (1, 2):
        project.post("/runs", documents.run(number, value=float(number)))
    project.post("/runs", documents.run(3, value=3.0, cases=("tiny/cached", "tiny/new")))
    send_file(project, "run-000003")
    return project


def test_a_removed_run_leaves_its_series_as_if_it_had_never_come(three):
    """The newest value is the one before; a series that had no other point is gone, and so are record and files."""
    used = three.get("")["used_bytes"]
    three.ask("DELETE", "/runs/run-000003", 204)
    assert values(three) == [("run-000001", 1.0), ("run-000002", 2.0)]
    (series,) = three.get("/series")["series"]
    assert (series["total"], series["last_value"]) == (2, 2.0)
    for path in ("", "/record", "/files", "/verdicts", "/files/plugins/profile/s/host.xplane.pb"):
        three.ask("GET", f"/runs/run-000003{path}", 404)
    assert [run["run"] for run in three.get("/runs")["runs"]] == ["run-000002", "run-000001"]
    assert three.get("")["used_bytes"] < used


def test_files_go_with_the_next_round_and_give_their_room_back(three):
    """Those that another run has too stay."""
    service = three.server.service
    other = b"of another run"
    send_file(three, "run-000002", other)
    folder = f"{service.files._root}/files/{three.row.id}"
    three.ask("DELETE", "/runs/run-000003", 204)
    before = three.get("")["used_bytes"]
    sweep(service)
    assert three.get("")["used_bytes"] == before - len(TRACE)
    assert [hashlib.sha256(one).hexdigest() for one in contents(folder)] == [hashlib.sha256(other).hexdigest()]
    assert three.ask("GET", "/runs/run-000002/files/plugins/profile/s/host.xplane.pb", 200).content == other


def test_what_a_round_forgot_and_could_not_remove_goes_with_the_next(three, monkeypatch):
    """The file store was away, or the service ended, when the database knew the file no more."""
    service = three.server.service
    folder = f"{service.files._root}/files/{three.row.id}"
    three.ask("DELETE", "/runs/run-000003", 204)

    def away(*_):
        raise ServiceUnavailableError("the file store is away.")

    with monkeypatch.context() as patch:
        patch.setattr(type(service.files), "drop", away)
        with pytest.raises(ServiceUnavailableError):
            sweep(service)
    assert contents(folder) == [TRACE]
    with service.database.read() as connection:
        assert len(files.going(connection, three.row.id)) == 1
    sweep(service)
    assert contents(folder) == []
    with service.database.read() as connection:
        assert files.going(connection, three.row.id) == []


def contents(folder):
    """Return what lies below a folder."""
    return [one.read_bytes() for one in sorted(Path(folder).rglob("*")) if one.is_file()]


def test_removing_once_more_changes_nothing_and_a_name_that_never_was_is_told(three):
    """A client that got no answer sends it again; one that mistyped a name must hear of it."""
    for _ in range(2):
        three.ask("DELETE", "/runs/run-000002", 204)
    three.ask("DELETE", "/runs/run-000009", 404)
    said = [one for one in three.get("/audit")["audit"] if one["action"] == "run.delete"]
    assert [one["subject"] for one in said] == ["run-000002"]
    assert "sha256" in str(said[0]["detail"])


def test_a_removed_run_may_come_again(three, documents):
    """And be removed again."""
    three.ask("DELETE", "/runs/run-000002", 204)
    assert three.post("/runs", documents.run(2, value=2.0))["records"][0]["created"]
    assert len(values(three)) == 3
    three.ask("DELETE", "/runs/run-000002", 204)
    assert len(values(three)) == 2


def test_an_upload_under_way_goes_with_its_run(three):
    """Its room is given back, and what is still sent is refused."""
    before = three.get("")["used_bytes"]
    told = {"path": "late.pb", "size": 1_000_000, "sha256": "0" * 64}
    upload = three.post("/runs/run-000001/files", told, 201)["upload"]
    three.ask("DELETE", "/runs/run-000001", 204)
    three.ask("PATCH", f"/uploads/{upload}", 404, content=b"x", headers={"Upload-Offset": "0"})
    assert three.get("")["used_bytes"] <= before


@pytest.mark.parametrize(("scope", "status"), [("read", 403), ("push", 403), ("admin", 204)])
def test_only_an_admin_removes(three, scope, status):
    """Whoever pushes may add, and take nothing away."""
    token = three.post("/tokens", {"name": "x", "scope": scope})["token"]
    with three.server.client(token) as http:
        assert http.delete(f"{three.path}/runs/run-000001").status_code == status
    with three.server.client("") as http:
        assert http.delete(f"{three.path}/runs/run-000001").status_code == 401
    assert len(three.get("/runs")["runs"]) == (2 if status == 204 else 3)


def test_the_page_of_a_record_removes_it_if_that_is_meant(three, documents):
    """Its form has the session's secret and a box to tick; who may not, sees none."""
    page = f"/p/{three.name}/runs/run-000001"
    with three.server.client("") as http:
        http.headers["accept"] = "text/html"

        def secret(path):
            return re.search(r'name="csrf" value="([0-9a-f]{64})"', http.get(path).text)[1]

        http.post("/login", data={"csrf": secret("/login"), "token": three.server.admin, "next": "/"})
        assert "Remove this run" in http.get(page).text
        for fields, status in (
            ({"sure": "yes"}, 403), ({"csrf": "0" * 64, "sure": "yes"}, 403), ({"csrf": secret(page)}, 422),
        ):  # fmt: skip
            assert http.post(f"{page}/delete", data=fields).status_code == status
            assert len(three.get("/runs")["runs"]) == 3
        done = http.post(f"{page}/delete", data={"csrf": secret(page), "sure": "yes"})
        assert (done.status_code, done.headers["location"]) == (303, f"/p/{three.name}/runs")
        assert http.get(page).status_code == 404
        compared = f"/p/{three.name}/comparisons/compare-1"
        three.post("/comparisons", documents.comparison())
        assert "Remove this comparison" in http.get(compared).text
        done = http.post(f"{compared}/delete", data={"csrf": secret(compared), "sure": "yes"})
        assert (done.status_code, done.headers["location"]) == (303, f"/p/{three.name}/comparisons")
        assert http.get(compared).status_code == 404
    reader = three.post("/tokens", {"name": "x", "scope": "read"})["token"]
    with three.server.client(reader) as http:
        assert (
            "Remove this run" not in http.get(f"/p/{three.name}/runs/run-000002", headers={"accept": "text/html"}).text
        )
