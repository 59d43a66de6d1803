"""Files of runs: sent in parts, checked, read again, and never out of their place."""

import hashlib
import io
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import insert, select

from qwenperf.service.api import uploads as answers
from qwenperf.service.db import files
from qwenperf.service.jobs import expire, sweep

TRACE = bytes(range(256)) * 9000


def announce(project, path="plugins/profile/s/host.xplane.pb", data=TRACE, status=201, **more):
    told = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}
    return project.post("/runs/run-000001/files", told, status)


def append(project, upload, offset, data, status=200):
    headers = {"Upload-Offset": str(offset), "Content-Type": "application/octet-stream"}
    return project.ask("PATCH", f"/uploads/{upload}", status, content=data, headers=headers)


@pytest.fixture
def traced(project, documents):
    """A project with one run, which has no files yet."""
    project.post("/runs", documents.run(1))
    return project


def test_a_file_sent_in_parts_is_there_when_the_last_came(traced):
    """Nothing of it can be seen before; then it is the same, byte by byte, and by ranges."""
    upload = announce(traced)["upload"]
    assert append(traced, upload, 0, TRACE[:1000]).json()["offset"] == 1000
    assert traced.get("/runs/run-000001/files")["files"] == []
    assert traced.get(f"/uploads/{upload}")["offset"] == 1000
    assert append(traced, upload, 1000, TRACE[1000:]).json()["complete"]
    (file,) = traced.get("/runs/run-000001/files")["files"]
    assert file["size"] == len(TRACE)
    path = f"/runs/run-000001/files/{file['path']}"
    answer = traced.ask("GET", path, 200)
    assert answer.content == TRACE
    assert answer.headers["content-disposition"].startswith("attachment")
    part = traced.ask("GET", path, 206, headers={"Range": "bytes=10-19"})
    assert (part.content, part.headers["content-range"]) == (TRACE[10:20], f"bytes 10-19/{len(TRACE)}")
    traced.ask("GET", path, 416, headers={"Range": f"bytes={len(TRACE)}-"})
    assert traced.ask("GET", f"/uploads/{upload}", 404)


def test_an_upload_goes_on_where_it_broke_off(traced):
    """Announced again it says its offset; a part for another offset is refused and says the right one."""
    upload = announce(traced)["upload"]
    append(traced, upload, 0, TRACE[:5000])
    again = announce(traced, status=200)
    assert (again["upload"], again["offset"]) == (upload, 5000)
    refused = append(traced, upload, 0, TRACE[:5000], 409)
    assert refused.headers["upload-offset"] == "5000"
    assert append(traced, upload, 5000, TRACE[5000:]).json()["complete"]


def test_content_that_is_not_what_was_announced_is_refused_and_forgotten(traced):
    """Its room is given back."""
    before = traced.row.used_bytes
    upload = announce(traced)["upload"]
    assert traced.row.used_bytes == before + len(TRACE)
    append(traced, upload, 0, bytes(len(TRACE)), 422)
    assert traced.get("/runs/run-000001/files")["files"] == []
    assert traced.row.used_bytes == before


def test_more_bytes_than_announced_are_refused(traced):
    """And none of them count."""
    upload = announce(traced, data=b"abc")["upload"]
    append(traced, upload, 0, b"abcd", 413)
    assert traced.get(f"/uploads/{upload}")["offset"] == 0
    assert append(traced, upload, 0, b"abc").json()["complete"]


def test_an_empty_file_is_a_file(traced):
    """Complete with a part of no bytes."""
    upload = announce(traced, data=b"")["upload"]
    assert append(traced, upload, 0, b"").json()["complete"]
    assert traced.ask("GET", "/runs/run-000001/files/plugins/profile/s/host.xplane.pb", 200).content == b""


def test_the_same_content_is_sent_and_kept_once(traced):
    """For another path of the project it is there at once, and takes no room."""
    append(traced, announce(traced)["upload"], 0, TRACE)
    used = traced.row.used_bytes
    assert announce(traced, status=200)["complete"]
    assert announce(traced, path="copy.pb", status=200)["complete"]
    assert traced.row.used_bytes == used
    assert traced.ask("GET", "/runs/run-000001/files/copy.pb", 200).content == TRACE


def test_content_of_another_project_is_not_there(traced, shared, documents):
    """Knowing a SHA-256 gives nobody somebody else's file."""
    append(traced, announce(traced)["upload"], 0, TRACE)
    with shared.client() as http:
        http.post("/api/v1/projects", json={"project": f"{traced.name}-2"}).raise_for_status()
        base = f"/api/v1/projects/{traced.name}-2"
        http.post(f"{base}/runs", json=documents.run(1)).raise_for_status()
        told = {"path": "x.pb", "size": len(TRACE), "sha256": hashlib.sha256(TRACE).hexdigest()}
        assert not http.post(f"{base}/runs/run-000001/files", json=told).json()["complete"]


def test_another_file_at_a_taken_path_is_refused(traced):
    """A file of a run never changes."""
    append(traced, announce(traced)["upload"], 0, TRACE)
    assert "path" in announce(traced, data=b"other", status=409)["advice"]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./x",
        "a/.",
        "C:\\x",
        "a\x00b",
        "run.json",
        "C:/x",
        "\u202egnp.exe",
        "a\nb",
        "..",
        "x" * 401,
        "ü" * 300,
    ],
)
def test_a_path_out_of_the_run_is_refused(traced, path):
    """Traversal, absolute names and names that no system has."""
    assert announce(traced, path=path, status=422)["error"]


@pytest.mark.parametrize(
    "more", [{"size": -1}, {"size": 10**30}, {"size": 1.5}, {"sha256": "A" * 64}, {"sha256": "../x"}, {"size": True}]
)
def test_an_announcement_that_makes_no_sense_is_refused(traced, more):
    """Before a byte is sent."""
    assert announce(traced, status=422, **more)["error"]


@pytest.mark.parametrize("complete", [True, False])
def test_a_name_is_no_folder_of_another_file_where_letters_are_small_in_one(traced, complete):
    """What can lie beside each other on a disk may come; a folder of another file may not."""
    upload = announce(traced, "ab%/b.pb")["upload"]
    if complete:
        append(traced, upload, 0, TRACE)
    announce(traced, "AB%", b"other")
    announce(traced, "abc", b"more")
    announce(traced, "ab%", b"third", status=409)


def test_a_file_beyond_the_limit_or_the_quota_is_refused_before_it_is_sent(traced):
    """The quota counts what is announced: two that fit one by one do not fit together."""
    assert announce(traced, status=413, size=60_000_000)["advice"]
    traced.ask("PATCH", "", 200, json={"quota_bytes": traced.row.used_bytes + len(TRACE) + 10})
    upload = announce(traced)["upload"]
    assert announce(traced, path="second.pb", data=b"x" * 11, status=413)["advice"]
    traced.ask("DELETE", f"/uploads/{upload}", 204)
    assert not announce(traced, path="second.pb", data=b"x" * 11)["complete"]


def test_a_run_beyond_the_quota_is_refused_whole(project, documents):
    """No part of it stays."""
    project.ask("PATCH", "", 200, json={"quota_bytes": 10})
    project.post("/runs", documents.run(1), 413)
    assert project.get("/runs")["runs"] == []
    assert project.get("/series")["series"] == []
    assert project.row.used_bytes == 0


def test_an_archive_is_a_file_and_is_never_unpacked(traced, shared):
    """A link and a path out of it lie in it, and nowhere else."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as archive:
        link = tarfile.TarInfo("../../escaped")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    append(traced, announce(traced, path="a.tar.gz", data=held.getvalue())["upload"], 0, held.getvalue())
    assert traced.ask("GET", "/runs/run-000001/files/a.tar.gz", 200).content == held.getvalue()
    data = shared.service.settings.data
    assert not list(data.parent.rglob("escaped"))


def test_a_page_in_a_file_is_no_page(traced):
    """HTML that somebody uploads is handed out as bytes to be kept."""
    page = b"<script>alert(1)</script>"
    append(traced, announce(traced, path="report.html", data=page)["upload"], 0, page)
    answer = traced.ask("GET", "/runs/run-000001/files/report.html", 200)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_one_upload_sent_twice_at_once_is_complete_once(traced, shared):
    """Whoever is later hears where the upload is, or that it is over; the file is whole."""
    upload = announce(traced)["upload"]
    begun = threading.Barrier(3)

    def body():
        yield TRACE[:100_000]
        begun.wait(10)
        yield TRACE[100_000:]

    def send(_):
        with shared.client() as http:
            return http.patch(f"{traced.path}/uploads/{upload}", content=body(), headers={"Upload-Offset": "0"})

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(send, range(3)))
    codes = sorted(answer.status_code for answer in answers)
    assert codes[0] == 200
    assert set(codes[1:]) <= {404, 409}
    assert all(answer.headers["upload-offset"] for answer in answers if answer.status_code == 409)
    assert traced.ask("GET", "/runs/run-000001/files/plugins/profile/s/host.xplane.pb", 200).content == TRACE
    assert announce(traced, status=200)["complete"]


def test_parts_that_go_while_they_are_put_together_are_told(traced):
    """The upload is over and its room is given back: it begins anew."""
    used = traced.row.used_bytes
    upload = announce(traced)["upload"]
    append(traced, upload, 0, TRACE[:10])
    files = traced.server.service.files
    files.drop_parts(upload)
    append(traced, upload, 10, TRACE[10:], 404)
    assert traced.row.used_bytes == used
    assert append(traced, announce(traced)["upload"], 0, TRACE).json()["complete"]


def test_a_file_cannot_lie_below_another(traced):
    """No disk that an archive is unpacked to holds both."""
    append(traced, announce(traced, path="a/b", data=b"x")["upload"], 0, b"x")
    assert announce(traced, path="a/b/c", data=b"y", status=409)["error"]
    assert announce(traced, path="a", data=b"y", status=409)["error"]
    assert not announce(traced, path="a/bc", data=b"y")["complete"]


def test_content_that_is_known_has_its_own_size(traced):
    """A claim is no proof."""
    append(traced, announce(traced)["upload"], 0, TRACE)
    announce(traced, path="other.pb", status=409, size=12)


def test_retention_gives_back_what_an_upload_under_way_has_taken(traced):
    """Its room, and its parts on the disk."""
    service = traced.server.service
    upload = announce(traced)["upload"]
    append(traced, upload, 0, TRACE[:10])
    assert expire(service, traced.row.id, service.clock()) == 1
    assert traced.row.used_bytes == 0
    assert upload in service.files.uploads()
    sweep(service)
    assert upload not in service.files.uploads()
    append(traced, upload, 10, TRACE[10:], 404)


def test_an_upload_that_nobody_goes_on_with_is_forgotten(traced):
    """Its room is given back, its parts go; one that goes on stays."""
    service = traced.server.service
    used = traced.row.used_bytes
    upload = announce(traced)["upload"]
    append(traced, upload, 0, TRACE[:10])
    sweep(service)
    assert traced.get(f"/uploads/{upload}")["offset"] == 10
    later = replace(service, clock=lambda: service.clock() + 25 * 3600 * 10**6)
    sweep(later)
    traced.ask("GET", f"/uploads/{upload}", 404)
    assert traced.row.used_bytes == used


def test_giving_up_what_was_completed_meanwhile_takes_nothing_away(traced, monkeypatch):
    """The file is its run's, and whoever gave it up is told that the upload is over."""
    upload = announce(traced)["upload"]
    find = answers._upload_for

    def completed(*asked):
        row = find(*asked)
        monkeypatch.undo()
        append(traced, upload, 0, TRACE)
        return row

    monkeypatch.setattr(answers, "_upload_for", completed)
    assert "over" in traced.ask("DELETE", f"/uploads/{upload}", 404).json()["error"]
    assert traced.ask("GET", "/runs/run-000001/files/plugins/profile/s/host.xplane.pb", 200).content == TRACE


def test_any_number_of_files_that_nobody_has_goes_some_at_a_time(traced):
    """No statement holds the names of all of them."""
    database, number = traced.server.service.database, traced.row.id
    rows = [
        {"project_id": number, "sha256": f"{one:064x}", "size": 0, "name": f"{one:064x}-{one:032x}", "created_at": 1}
        for one in range(1100)
    ]
    database.write(lambda connection: connection.execute(insert(files.files), rows).rowcount)
    assert 0 < len(database.write(lambda connection: files.drop_unnamed(connection, number))) <= 500
    sweep(traced.server.service)
    with database.read() as connection:
        assert connection.execute(select(files.files.c.id).where(files.files.c.project_id == number)).all() == []
