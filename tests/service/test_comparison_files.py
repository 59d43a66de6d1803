"""Files of comparisons: as those of runs, beside them, and gone with their comparison."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest
from sqlalchemy import insert

from qwenperf.service.db.database import Database
from qwenperf.service.db.tables import uploads
from qwenperf.service.jobs import expire, sweep
from qwenperf.service.problems import ConflictError

HERE, RUN = "/comparisons/compare-1", "/runs/run-000001"
PATH = "plugins/profile/case-base/host.xplane.pb"
TRACE = bytes(range(256)) * 400


def announce(project, path=PATH, data=TRACE, status=201, to=HERE, **more):
    told = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}
    return project.post(f"{to}/files", told, status)


def append(project, upload, offset, data, status=200):
    return project.ask("PATCH", f"/uploads/{upload}", status, content=data, headers={"Upload-Offset": str(offset)})


def send(project, path=PATH, data=TRACE, to=HERE):
    assert append(project, announce(project, path, data, to=to)["upload"], 0, data).json()["complete"]


def contents(project):
    """Return what lies on the disk for a project."""
    folder = Path(f"{project.server.service.files._root}/files/{project.row.id}")
    return [one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()]


@pytest.fixture
def compared(project, documents):
    """A project with a comparison and a run, of the same number in their tables where it is the first project."""
    project.post("/comparisons", documents.comparison())
    project.post("/runs", documents.run(1))
    return project


def test_a_file_of_a_comparison_comes_in_parts_and_is_then_there(compared):
    """Nothing of it before the last byte; then whole, by ranges, in what the API says, and in nobody else's files."""
    upload = announce(compared)["upload"]
    append(compared, upload, 0, TRACE[:1000])
    assert compared.get(f"{HERE}/files")["files"] == []
    again = announce(compared, status=200)
    assert (again["upload"], again["offset"]) == (upload, 1000)
    assert append(compared, upload, 1000, TRACE[1000:]).json()["complete"]
    (file,) = compared.get(HERE)["files"]
    assert file == {"path": PATH, "size": len(TRACE), "sha256": hashlib.sha256(TRACE).hexdigest()}
    assert compared.get(f"{HERE}/files")["files"] == [file]
    assert compared.ask("GET", f"{HERE}/files/{PATH}", 200).content == TRACE
    part = compared.ask("GET", f"{HERE}/files/{PATH}", 206, headers={"Range": "bytes=10-19"})
    assert part.content == TRACE[10:20]
    assert compared.get(f"{RUN}/files")["files"] == []
    compared.ask("GET", f"{RUN}/files/{PATH}", 404)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "C:/x", "a\\b", "comparison.json", "x" * 401])
def test_a_path_out_of_the_comparison_is_refused(compared, path):
    """And so is one that an archive has for the record."""
    assert announce(compared, path=path, status=422)["error"]


def test_what_is_not_what_it_says_is_refused(compared):
    """Other content than announced, another file at its path, or one below it; room is given back."""
    used = compared.row.used_bytes
    append(compared, announce(compared)["upload"], 0, bytes(len(TRACE)), 422)
    assert compared.row.used_bytes == used
    send(compared)
    announce(compared, data=b"other", status=409)
    announce(compared, path=f"{PATH}/below", data=b"other", status=409)
    compared.ask("PATCH", "", 200, json={"quota_bytes": compared.row.used_bytes + 10})
    announce(compared, path="more.pb", data=b"x" * 11, status=413)


def test_who_may_not_see_or_change_a_comparison_gets_nowhere_near_its_files(compared, shared):
    """Reading wants to see the project, sending a token that may push; another project's admin is a stranger."""
    send(compared)
    other = f"{compared.name}-2"
    compared.http.post("/api/v1/projects", json={"project": other}).raise_for_status()
    tokens = {scope: compared.post("/tokens", {"name": "x", "scope": scope})["token"] for scope in ("read", "push")}
    made = compared.http.post(f"/api/v1/projects/{other}/tokens", json={"name": "x", "scope": "admin"})
    tokens["other"] = made.json()["token"]
    place, body = compared.path + HERE, {"path": "b.pb", "size": 1, "sha256": "0" * 64}
    for who, statuses in (("read", (200, 403, 403)), ("push", (200, 201, 403)), ("other", (404, 404, 404))):
        with shared.client(tokens[who]) as http:
            asked = (http.get(f"{place}/files/{PATH}"), http.post(f"{place}/files", json=body), http.delete(place))
        assert tuple(answer.status_code for answer in asked) == statuses, who


def test_content_is_kept_once_for_runs_and_comparisons_and_survives_either(compared):
    """It takes room once; when the last that has it goes, it goes with the next round."""
    send(compared)
    used = compared.row.used_bytes
    assert announce(compared, "same.pb", status=200, to=RUN)["complete"]
    assert compared.row.used_bytes == used
    compared.ask("DELETE", HERE, 204)
    sweep(compared.server.service)
    assert compared.ask("GET", f"{RUN}/files/same.pb", 200).content == TRACE
    assert contents(compared) == [TRACE]
    compared.ask("DELETE", RUN, 204)
    sweep(compared.server.service)
    assert (compared.row.used_bytes, contents(compared)) == (0, [])


def test_a_removed_run_takes_nothing_from_a_comparison(compared):
    """Nor does a round of tidying up."""
    send(compared)
    announce(compared, "same.pb", status=200, to=RUN)
    compared.ask("DELETE", RUN, 204)
    sweep(compared.server.service)
    assert compared.ask("GET", f"{HERE}/files/{PATH}", 200).content == TRACE


def test_a_removed_comparison_is_gone_and_may_come_again(compared, documents):
    """With record, verdicts, files and the room of what was under way; once more is answered alike, and told once."""
    send(compared)
    upload = announce(compared, path="late.pb", data=b"late")["upload"]
    for _ in range(2):
        compared.ask("DELETE", HERE, 204)
    compared.ask("DELETE", "/comparisons/nosuch", 404)
    for path in ("", "/record", "/files", f"/files/{PATH}"):
        compared.ask("GET", f"{HERE}{path}", 404)
    append(compared, upload, 0, b"late", 404)
    assert compared.get("/comparisons")["comparisons"] == []
    said = [one for one in compared.get("/audit")["audit"] if one["action"] == "comparison.delete"]
    assert [one["subject"] for one in said] == ["compare-1"]
    compared.ask("DELETE", RUN, 204)
    sweep(compared.server.service)
    assert (compared.row.used_bytes, contents(compared)) == (0, [])
    assert compared.post("/comparisons", documents.comparison())["records"][0]["created"]
    assert compared.get(f"{HERE}/files")["files"] == []


def test_retention_takes_files_and_what_is_under_way_with_the_comparison(compared):
    """And gives all of their room back."""
    service = compared.server.service
    send(compared)
    upload = announce(compared, path="late.pb", data=b"late")["upload"]
    append(compared, upload, 0, b"la")
    assert expire(service, compared.row.id, service.clock()) == 2
    assert (compared.row.used_bytes, contents(compared)) == (0, [])
    sweep(service)
    assert upload not in service.files.uploads()
    append(compared, upload, 2, b"te", 404)


def test_a_comparison_that_took_the_number_of_one_that_went_gets_none_of_its_files(compared, documents, monkeypatch):
    """Between the look and the announcement one goes and another comes, which SQLite gives the same number."""
    database = compared.server.service.database
    write = database.write

    def late(work, **more):
        if "_announce" not in work.__qualname__:
            return write(work, **more)
        monkeypatch.setattr(database, "write", write)
        compared.ask("DELETE", HERE, 204)
        compared.post("/comparisons", documents.comparison("compare-2"))
        return write(work, **more)

    monkeypatch.setattr(database, "write", late)
    assert "removed" in announce(compared, status=404)["error"]
    assert compared.get("/comparisons/compare-2/files")["files"] == []


def test_an_export_names_the_files_of_comparisons(compared):
    """So that whoever moves elsewhere knows what to fetch."""
    send(compared)
    lines = [json.loads(line) for line in compared.ask("GET", "/export", 200).text.splitlines()]
    files = {one["type"]: [file["path"] for file in one["files"]] for one in lines if "files" in one}
    assert files == {"run": [], "comparison": [PATH]}


def test_the_page_has_the_files_one_by_one_and_as_one_archive(compared):
    """The archive is the folder that the commands read: record and traces."""
    send(compared)
    page = compared.http.get(f"/p/{compared.name}{HERE}", headers={"Accept": "text/html"}).text
    assert f'href="{compared.path}{HERE}/files/{PATH}"' in page
    assert f"/p/{compared.name}{HERE}/files.tar | tar x" in page
    packed = compared.http.get(f"/p/{compared.name}{HERE}/files.tar").content
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["compare-1/comparison.json", f"compare-1/{PATH}"]
        record = json.load(archive.extractfile("compare-1/comparison.json"))
        assert archive.extractfile(f"compare-1/{PATH}").read() == TRACE
    assert record == compared.get(f"{HERE}/record")


def test_an_upload_is_of_one_record(database_url):
    """The database itself refuses one of none and one of two."""
    database = Database(database_url, pool_size=1)
    row = {"id": "u", "project_id": 1, "path": "p", "sha256": "s", "size": 1, "received": 0} | dict.fromkeys(
        ("created_at", "updated_at"), 1
    )
    try:
        for owners in ({}, {"run_id": 1, "comparison_id": 1}):
            with pytest.raises(ConflictError) as caught:
                database.write(lambda connection, one=row | owners: connection.execute(insert(uploads), one))
            assert "uploads_of_one" in str(caught.value.__cause__)
    finally:
        database.close()
