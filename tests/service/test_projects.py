"""Projects, and what everybody may ask of a service: health, metrics, badges, exports, its own description."""

import json
import socket
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update

from qwenperf.service import jobs
from qwenperf.service.db.tables import projects, records, runs, tokens
from qwenperf.service.jobs import sweep
from qwenperf.service.judging_runs import judge_arrived


def test_a_project_is_made_once_and_changed_by_name(project):
    """Fields that nobody knows, and values of the wrong kind, are refused with the field."""
    made = project.get("")
    assert (made["project"], made["public"], made["used_bytes"]) == (project.name, False, 0)
    again = project.http.post("/api/v1/projects", json={"project": project.name})
    assert again.status_code == 409
    changed = project.ask("PATCH", "", 200, json={"title": "Decode", "retention_days": 30, "public": True}).json()
    assert (changed["title"], changed["retention_days"], changed["public"]) == ("Decode", 30, True)
    for body in ({"titel": "x"}, {"title": 3}, {"public": "yes"}, {"quota_bytes": -1}, {"retention_days": 0}, {}, []):
        assert project.ask("PATCH", "", 422, json=body).json()["error"]


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "-a", "a" * 65, "a\x00", "ü", None, 3, ["a"]])
def test_a_name_that_no_address_can_have_is_refused(project, name):
    """Before anything is made."""
    answer = project.http.post("/api/v1/projects", json={"project": name})
    assert answer.status_code == 422


@pytest.mark.parametrize(
    "path", ["/runs", "/runs/x", "/series", "/export", "/badge.svg", "", "/uploads/x", "/runs/x/files"]
)
def test_a_private_project_is_not_there_for_strangers(project, shared, path):
    """Alike for one that exists and one that does not; a public one answers."""
    with shared.client("") as stranger:
        hidden = stranger.get(project.path + path)
        missing = stranger.get("/api/v1/projects/nosuch" + path)
        assert hidden.status_code == missing.status_code == 401
        assert hidden.json()["error"].replace(project.name, "nosuch") == missing.json()["error"]


def test_a_public_project_is_read_by_everybody_and_written_by_nobody_else(project, shared, documents):
    """Reading needs no token; pushing does."""
    project.ask("PATCH", "", 200, json={"public": True})
    with shared.client("") as stranger:
        assert stranger.get(f"{project.path}/runs").status_code == 200
        assert stranger.post(f"{project.path}/runs", json=documents.run(1)).status_code == 401
        assert project.name in [one["project"] for one in stranger.get("/api/v1/projects").json()["projects"]]


def test_health_needs_no_token_and_says_what_is_there(shared):
    """Alive without the database; ready with tables and files."""
    with shared.client("") as stranger:
        assert stranger.get("/healthz").json() == {"status": "alive"}
        assert stranger.get("/readyz").json() == {"status": "ready"}


def test_metrics_are_prometheus_text_and_name_projects_to_nobody_else(project, shared, documents):
    """Every line is a comment or a sample; a stranger sees sums only."""
    project.post("/runs", documents.run(1))
    text = project.http.get("/metrics").text
    assert f'qwenperf_used_bytes{{project="{project.name}"}}' in text
    assert 'qwenperf_records_received_total{kind="run",new="true"}' in text
    with shared.client("") as stranger:
        answer = stranger.get("/metrics")
    assert project.name not in answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    for line in answer.text.splitlines():
        assert line.startswith("# TYPE qwenperf_") or float(line.rpartition(" ")[2]) >= 0


def test_a_badge_tells_the_latest_outcome_or_a_value(project, documents):
    """As an SVG that reads aloud, with names escaped."""
    assert "no runs" in project.ask("GET", "/badge.svg", 200).text
    name = 'a<script>"&'
    project.post("/runs", documents.run(1, cases=(name,), tpot_s=0.0123))
    latest = ET.fromstring(project.ask("GET", "/badge.svg", 200).text)
    assert latest.get("aria-label") == f"{project.name}: pass"
    failed = documents.run(2, cases=("a", "b"))
    failed["cases"][1] |= {"status": "failed", "metrics": {}}
    project.post("/runs", failed)
    assert "1 not measured" in project.ask("GET", "/badge.svg", 200).text
    value = project.ask("GET", "/badge.svg", 200, params={"case": name, "metric": "tpot_s"})
    assert ET.fromstring(value.text).get("aria-label") == "tpot_s: 12.3 ms"
    assert value.headers["cache-control"] == "private, no-cache"
    project.ask("PATCH", "", 200, json={"public": True})
    shown = project.ask("GET", "/badge.svg", 200)
    assert shown.headers["cross-origin-resource-policy"] == "cross-origin"
    assert shown.headers["cache-control"] == "max-age=60"


def test_a_run_that_was_interrupted_has_no_green_badge(project, documents):
    """What was measured passed, and the rest nobody knows."""
    project.post("/runs", documents.run(1) | {"interrupted": True})
    told = project.ask("GET", "/badge.svg", 200).text
    assert "interrupted" in told
    assert "#2e7d32" not in told


def test_an_export_holds_no_connection_while_its_reader_is_slow_or_gone(project, shared, documents):
    """Otherwise a few readers who never read would end the service for everybody."""
    project.ask("PATCH", "", 200, json={"public": True})
    for number in range(5):
        # More than the sockets' buffers hold.
        project.post("/runs", documents.run(number) | {"pad": "x" * 1_900_000})
    host, port = shared.url.removeprefix("http://").split(":")
    readers = [socket.socket() for _ in range(8)]
    try:
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect((host, int(port)))
            reader.sendall(f"GET {project.path}/export HTTP/1.1\r\nHost: h\r\n\r\n".encode())
        for reader in readers:
            assert reader.recv(12) == b"HTTP/1.1 200"
        assert project.get("")
    finally:
        for reader in readers:
            reader.close()
    assert project.get("")


def test_a_bug_is_answered_with_the_headers_of_every_answer(project, shared, monkeypatch):
    """In JSON, without a word of what broke."""
    monkeypatch.setattr("qwenperf.service.api.projects.shapes.project_in_full", lambda _: 1 / 0)
    with shared.client() as http:
        answer = http.get(project.path)
    assert (answer.status_code, answer.json()["error"]) == (500, "internal error.")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_no_redirect_leads_to_a_host_that_the_request_names(shared):
    """An address with a slash too many is not there."""
    with shared.client("") as stranger:
        answer = stranger.get("/api/v1/projects/", headers={"Host": "evil.example"})
    assert (answer.status_code, "evil" in answer.text) == (404, False)


def test_an_export_holds_everything_and_says_that_it_is_whole(project, documents):
    """Each line is an object with a type; records are as they were sent."""
    sent = [documents.run(number) for number in range(3)]
    for document in sent:
        project.post("/runs", document)
    project.post("/comparisons", documents.comparison())
    project.post("/accepted", {"case": "tiny/cached", "metric": "tpot_s", "run": "run-000001", "reason": "known"})
    lines = [json.loads(line) for line in project.ask("GET", "/export", 200).text.splitlines()]
    types = [line["type"] for line in lines]
    assert types == ["project", "run", "run", "run", "comparison", "accepted", "change", "change", "end"]
    assert [line["record"] for line in lines if line["type"] == "run"] == sent
    assert lines[-1]["entries"] == len(lines) - 1


def test_an_export_has_what_is_in_no_record(project, shared, documents):
    """Budgets and what they said of a run, which gate fails where, and for those who manage it who changed what."""
    budgets = {"*": {"tpot_s": {"max": 0.5}}}
    project.ask("PATCH", "", 200, json={"budgets": budgets, "public": True})
    for number in range(2):
        project.post("/runs", documents.run(number))
    while judge_arrived(shared.service):
        pass
    lines = [json.loads(line) for line in project.ask("GET", "/export", 200).text.splitlines()]
    by_type = {line["type"]: line for line in lines}
    run = project.get("/runs/run-000001")
    assert by_type["project"]["budgets"] == budgets == project.get("")["budgets"]
    assert by_type["run"]["verdicts"] == run["verdicts"]
    assert "fail" in {one["outcome"] for one in run["verdicts"]}
    alert = by_type["alert"]
    assert (alert["kind"], alert["environment"]) == ("gate", run["environment"])
    assert alert["environment"] == project.get("/alerts")["alerts"][0]["environment"]
    changes = project.get("/audit")["audit"]
    assert [
        {key: one for key, one in line.items() if key != "type"} for line in lines if line["type"] == "change"
    ] == changes
    with shared.client("") as stranger:
        seen = [json.loads(line) for line in stranger.get(f"{project.path}/export").text.splitlines()]
    assert [line["type"] for line in seen] == [line["type"] for line in lines if line["type"] != "change"]
    assert lines[-1]["entries"] == len(lines) - 1


def test_every_operation_is_published_and_what_is_not_there_says_so(shared):
    """The document is OpenAPI, names every path, and a wrong method or path is answered in JSON."""
    with shared.client("") as stranger:
        document = stranger.get("/api/v1/openapi.json").json()
        assert document["openapi"].startswith("3.1")
        assert "/api/v1/projects/{project}/runs" in document["paths"]
        ids = [
            one["operationId"] for path in document["paths"].values() for one in path.values() if "operationId" in one
        ]
        assert len(ids) == len(set(ids))
        wrong = stranger.delete("/api/v1/projects")
        assert wrong.status_code == 405
        assert set(wrong.headers["allow"].split(", ")) >= {"GET", "POST"}
        assert stranger.get("/api/v1/nosuch").json()["error"]


def long_ago(project):
    """Let all runs of a project have come long ago."""
    came = update(runs).where(runs.c.project_id == project.row.id).values(received_at=1)
    project.server.service.database.write(lambda connection: connection.execute(came).rowcount)


def test_a_run_that_has_just_come_stays_however_old_its_commit_is(project, documents):
    """Who fills a history in from behind keeps it for as long as any other run."""
    service = project.server.service
    project.post("/runs", documents.run(1))
    project.ask("PATCH", "", 200, json={"retention_days": 7})
    sweep(service)
    assert len(project.get("/runs")["runs"]) == 1
    sweep(replace(service, clock=lambda: service.clock() + 8 * 24 * 3600 * 10**6))
    assert project.get("/runs")["runs"] == []


def test_a_project_that_cannot_be_tidied_keeps_no_other_from_it(project, shared, documents, monkeypatch):
    """Its runs stay until the next round."""
    project.post("/runs", documents.run(1))
    project.ask("PATCH", "", 200, json={"retention_days": 1})
    broken, expired = project.row.id, jobs.retention.expire
    other = f"{project.name}-2"

    def broke(connection, project_id, before):
        if project_id == broken:
            raise OverflowError
        return expired(connection, project_id, before)

    with shared.client() as http:
        http.post("/api/v1/projects", json={"project": other}).raise_for_status()
        http.patch(f"/api/v1/projects/{other}", json={"retention_days": 1}).raise_for_status()
        http.post(f"/api/v1/projects/{other}/runs", json=documents.run(1)).raise_for_status()
        monkeypatch.setattr(jobs.retention, "expire", broke)
        sweep(replace(shared.service, clock=lambda: shared.service.clock() + 90 * 24 * 3600 * 10**6))
        assert http.get(f"/api/v1/projects/{other}/runs").json()["runs"] == []
    assert len(project.get("/runs")["runs"]) == 1


def test_a_token_of_a_person_is_listed_before_any_number_of_jobs(project):
    """A thousand of a week's jobs hide none that may have to be revoked."""
    project.post("/tokens", {"name": "a person's", "scope": "push"})
    of_job = {"project_id": project.row.id, "kind": "oidc", "hash": "x", "scopes": "push", "claims": ""}
    rows = [
        of_job | {"name": f"job {one}", "prefix": f"{project.name}{one}", "created_at": one, "created_by": "job"}
        for one in range(1001)
    ]
    project.server.service.database.write(lambda connection: connection.execute(insert(tokens), rows).rowcount)
    listed = project.get("/tokens")["tokens"]
    assert [one["name"] for one in listed[:2]] == ["a person's", "job 1000"]


def test_retention_removes_old_runs_whole(project, documents):
    """Points, files and records go with them, room is given back, and what is younger stays."""
    from qwenperf.service.jobs import expire

    for number in range(6):
        project.post("/runs", documents.run(number, cases=("old",) if number < 3 else ("old", "new")))
    long_ago(project)
    service, row = project.server.service, project.row
    cut = 1767225600_000000 + 4 * 3600 * 10**6
    assert expire(service, row.id, cut) == 4
    assert [one["run"] for one in project.get("/runs")["runs"]] == ["run-000005", "run-000004"]
    totals = {one["case"]: one["total"] for one in project.get("/series")["series"]}
    assert totals == {"old": 2, "new": 2}
    assert 0 < project.row.used_bytes < row.used_bytes
    expire(service, row.id, 2 * cut)
    assert project.get("/series")["series"] == []
    assert project.row.used_bytes == 0


def test_points_cases_and_verdicts_count_for_the_quota_and_are_given_back(project, documents):
    """A small record can have any number of them: many equal values are nothing once they are compressed."""
    metrics = {f"m{number}": 1.0 for number in range(50)}
    many = documents.run(1, cases=[f"case-{number}" for number in range(20)], **metrics)
    rows = 1000 * 100 + 20 * 200 + 20 * 400
    project.post("/runs", many)
    assert rows < project.row.used_bytes < rows + 5000
    used = project.row.used_bytes
    project.post("/comparisons", documents.comparison())
    assert 400 < project.row.used_bytes - used < 800
    project.ask("PATCH", "", 200, json={"quota_bytes": 2 * rows})
    assert project.post("/runs", documents.run(2, cases=many["declared"], **metrics), 413)["error"]
    project.ask("DELETE", "/runs/run-000001", 204)
    project.ask("DELETE", "/comparisons/compare-1", 204)
    assert project.row.used_bytes == 0


def test_a_verdict_beside_the_fork_point_is_counted_before_it_is_known(project, documents):
    """It comes after the run was taken, and its room is there; all of it is given back, whether it came or not."""
    sent = {"fork_point": "0" * 40, "forked_at": "2026-01-01T00:00:00+00:00"}
    used = []
    for number, more in ((1, {}), (2, sent)):
        before = project.row.used_bytes
        project.ask("POST", "/runs", 201, json=documents.run(number, branch="topic"), params=more)
        used.append(project.row.used_bytes - before)
    assert 350 < used[1] - used[0] < 450
    while judge_arrived(project.server.service):
        pass
    for number in (1, 2):
        project.ask("DELETE", f"/runs/run-{number:06d}", 204)
    assert project.row.used_bytes == 0


def test_what_came_before_rows_were_counted_gives_none_back(project, documents):
    """An upgraded project goes on with the room that it had, and never below nothing."""
    project.post("/runs", documents.run(1))
    service, row = project.server.service, project.row
    record = select(runs.c.record_id).where(runs.c.project_id == row.id).scalar_subquery()
    was = {"used_bytes": row.used_bytes - (100 + 200 + 400)}

    def as_before(connection):
        connection.execute(update(records).where(records.c.id == record).values(rows_bytes=0))
        connection.execute(update(projects).where(projects.c.id == row.id).values(was))

    service.database.write(as_before)
    project.ask("DELETE", "/runs/run-000001", 204)
    assert project.row.used_bytes == 0


def test_files_go_with_the_last_run_that_names_them(project, documents):
    """Content that another run has too stays."""
    import hashlib

    from qwenperf.service.jobs import expire

    data = b"trace"
    for number in (1, 2):
        project.post("/runs", documents.run(number))
        told = {"path": "a.pb", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        found = project.http.post(f"{project.path}/runs/run-00000{number}/files", json=told).json()
        if not found["complete"]:
            headers = {"Upload-Offset": "0"}
            project.ask("PATCH", f"/uploads/{found['upload']}", 200, content=data, headers=headers)
    long_ago(project)
    hour, first = 3600 * 10**6, 1767225600_000000
    service, folder = project.server.service, f"files/{project.row.id}/"
    expire(service, project.row.id, first + 2 * hour)
    assert project.ask("GET", "/runs/run-000002/files/a.pb", 200).content == data
    expire(service, project.row.id, first + 3 * hour)
    held = service.settings.files_url.removeprefix("file://")
    from pathlib import Path

    assert not [path for path in Path(held).rglob("*") if path.is_file() and folder in path.as_posix()]
