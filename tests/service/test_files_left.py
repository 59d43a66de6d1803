"""Whatever ends an upload too early, and whenever: its content does not stay in the file store, nobody's for ever."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from qwenperf.service.db import uploads
from qwenperf.service.files import Files
from qwenperf.service.jobs import sweep
from qwenperf.service.problems import ServiceUnavailableError

PATH = "plugins/profile/s/host.xplane.pb"
TRACE = bytes(range(256)) * 400


def announce(project, path=PATH, status=201, run=1, data=TRACE):
    told = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return project.post(f"/runs/run-{run:06d}/files", told, status)


def append(project, upload, offset, data, status=200):
    return project.ask("PATCH", f"/uploads/{upload}", status, content=data, headers={"Upload-Offset": str(offset)})


def contents(project):
    """Return what lies on the disk for a project, hidden or not."""
    folder = Path(f"{project.server.service.files._root}/files/{project.row.id}")
    return [one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()]


def away(*_):
    """Refuse, as a file store or database does that is away; what a kill leaves undone is undone then, too."""
    raise ServiceUnavailableError("it is away.")


@pytest.fixture
def traced(project, documents):
    """A project with two runs, which have no files yet."""
    for number in (1, 2):
        project.post("/runs", documents.run(number))
    return project


@pytest.fixture
def assembled(traced, monkeypatch):
    """An upload whose content was put together when the database went away."""
    database = traced.server.service.database
    upload, write = announce(traced)["upload"], database.write
    monkeypatch.setattr(
        database, "write", lambda work, **more: (away if "_complete" in work.__qualname__ else write)(work, **more)
    )
    append(traced, upload, 0, TRACE, 503)
    monkeypatch.undo()
    assert contents(traced) == [TRACE]
    return upload


def test_an_upload_that_could_not_be_completed_is_completed_later(traced, assembled):
    """What was put together is what it gets."""
    sweep(traced.server.service)
    assert append(traced, assembled, len(TRACE), b"").json()["complete"]
    assert traced.ask("GET", f"/runs/run-000001/files/{PATH}", 200).content == TRACE


def test_what_was_put_together_goes_with_its_upload_when_that_is_given_up(traced, assembled):
    """Also where the process ends between the database and the file store."""
    database = traced.server.service.database

    def work(connection):
        return uploads.give_up(connection, uploads.by_id(connection, traced.row.id, assembled))

    assert database.write(work)
    sweep(traced.server.service)
    assert contents(traced) == []


@pytest.mark.usefixtures("assembled")
def test_what_was_put_together_goes_with_its_record(traced):
    """Nobody completes it any more."""
    traced.ask("DELETE", "/runs/run-000001", 204)
    sweep(traced.server.service)
    assert contents(traced) == []


def test_content_that_the_project_has_already_is_not_kept_twice(traced, monkeypatch):
    """Though the file store refuses to remove it at once, the file is there."""
    first, second = announce(traced)["upload"], announce(traced, "copy.pb")["upload"]
    append(traced, first, 0, TRACE)
    monkeypatch.setattr(Files, "drop", away)
    assert append(traced, second, 0, TRACE).json()["complete"]
    monkeypatch.undo()
    sweep(traced.server.service)
    assert contents(traced) == [TRACE]
    assert traced.ask("GET", "/runs/run-000001/files/copy.pb", 200).content == TRACE


def before_it_counts(monkeypatch, service, work):
    """Do something after the content of an upload was put together and before it is a file."""
    assemble = service.files.assemble

    def late(*asked):
        name = assemble(*asked)
        monkeypatch.undo()
        work()
        return name

    monkeypatch.setattr(service.files, "assemble", late)


def test_what_is_put_together_while_its_record_goes_is_not_kept(traced, monkeypatch):
    """Whoever sent it hears that the upload is over."""

    def removed():
        traced.ask("DELETE", "/runs/run-000001", 204)
        monkeypatch.setattr(Files, "drop", away)

    before_it_counts(monkeypatch, traced.server.service, removed)
    append(traced, announce(traced)["upload"], 0, TRACE, 404)
    monkeypatch.undo()
    sweep(traced.server.service)
    assert contents(traced) == []


def test_what_another_record_has_by_then_stays(traced, monkeypatch):
    """Somebody else completed the upload, another run got the content, the first one went: all at the wrong time."""
    upload = announce(traced)["upload"]

    def overtaken():
        assert append(traced, upload, len(TRACE), b"").json()["complete"]
        assert announce(traced, status=200, run=2)["complete"]
        traced.ask("DELETE", "/runs/run-000001", 204)

    before_it_counts(monkeypatch, traced.server.service, overtaken)
    append(traced, upload, 0, TRACE, 404)
    sweep(traced.server.service)
    assert traced.ask("GET", f"/runs/run-000002/files/{PATH}", 200).content == TRACE


KILLED = """
import os, signal, sys
from qwenperf.service.files import Files

files = Files(sys.argv[1])
for name in ("1", "2"):
    with files.new_part("upload", name) as part:
        part.write(b"x" * 1000)
read, count = Files._blocks, []

def killed(self, path, start=0, end=None):
    for block in read(self, path, start, end):
        count.append(1)
        if len(count) == 4:  # it is checked first, then written
            os.kill(os.getpid(), signal.SIGKILL)
        yield block

Files._blocks = killed
files.assemble(7, "upload", ["1", "2"], sys.argv[2])
"""


def test_who_is_killed_while_it_puts_parts_together_leaves_nothing_among_the_files(tmp_path):
    """What it leaves lies with the parts, and goes with them."""
    wanted = hashlib.sha256(b"x" * 2000).hexdigest()
    command = [sys.executable, "-c", KILLED, tmp_path.as_uri(), wanted]
    assert subprocess.run(command, check=False).returncode == -9
    assert [one for one in (tmp_path / "files").rglob("*") if one.is_file()] == []
    assert len(list((tmp_path / "uploads" / "upload").iterdir())) == 3
    store = Files(tmp_path.as_uri())
    assert store.assemble(7, "upload", ["1", "2"], wanted) == f"{wanted}-upload"
    store.drop_parts("upload")
    assert [one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()] == [b"x" * 2000]
