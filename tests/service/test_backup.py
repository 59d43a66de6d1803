"""Backups: one moment of a service, whole, that starts by itself and goes back into either kind of database."""

import hashlib
import importlib.util
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from qwenperf.errors import OutputError, UsageError
from qwenperf.service import backup as module
from qwenperf.service.app import make_service
from qwenperf.service.backup import backup, restore
from qwenperf.service.db import comparisons, files, holds, projects, runs, series
from qwenperf.service.db.database import Database
from qwenperf.service.db.tables import metadata
from qwenperf.service.holding import Hold
from qwenperf.service.jobs import expire, sweep
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.times import SECOND_US
from qwenperf.service.unfinished import new_folder

TRACE = b"trace" * 100


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


running = beside("running")


@pytest.fixture
def filled(client, documents):
    """The service behind ``client``, with runs, a comparison that has a file of one, and an upload under way."""
    for number in range(3):
        client.post("/api/v1/projects/demo/runs", json=documents.run(number)).raise_for_status()
    base = "/api/v1/projects/demo/runs/run-000001/files"
    for path, data, sent in (("a.pb", TRACE, TRACE), ("b.pb", b"other", b"oth")):
        told = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        upload = client.post(base, json=told).json()["upload"]
        place = f"/api/v1/projects/demo/uploads/{upload}"
        client.patch(place, content=sent, headers={"Upload-Offset": "0"}).raise_for_status()
    client.post("/api/v1/projects/demo/comparisons", json=documents.comparison()).raise_for_status()
    told = {"path": "c.pb", "size": len(TRACE), "sha256": hashlib.sha256(TRACE).hexdigest()}
    assert client.post("/api/v1/projects/demo/comparisons/compare-1/files", json=told).json()["complete"]
    return client


def look(settings):
    """Return what a service on ``settings`` has."""
    service = make_service(settings)
    try:
        with service.database.read() as connection:
            project = projects.by_name(connection, "demo")
            listed = runs.recent(connection, project.id)
            (file,) = files.of_run(connection, runs.by_name(connection, project.id, "run-000001").id)
            (compared,) = files.of_comparison(connection, comparisons.by_name(connection, project.id, "compare-1").id)
            (one,) = series.catalogue(connection, project.id)
            window = series.window(connection, one.id, series.Wanted())
            held = sum(len(row.name) > 0 for row in listed)
            records = [runs.record(connection, row.record_id) for row in listed]
        return {
            "runs": [row.name for row in listed],
            "records": records,
            "file": b"".join(service.files.read(project.id, file.name)),
            "compared": (compared.path, b"".join(service.files.read(project.id, compared.name))),
            "points": [point.value for point in window.points],
            "held": held,
        }
    finally:
        service.database.close()


@pytest.mark.usefixtures("filled")
def test_a_backup_taken_while_the_service_runs_is_a_service(settings, tmp_path):
    """On SQLite, whatever it was on: with runs, points, files and tokens; what was under way is left out."""
    done = backup(settings, tmp_path / "saved")
    assert (done["runs"], done["files"], done["file_bytes"]) == (3, 1, len(TRACE))
    assert look(ServiceSettings(data=tmp_path / "saved")) == look(settings)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("target", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_a_backup_is_restored_and_goes_on(settings, tmp_path, request, target, documents):
    """Into an empty service of either kind; the next run gets a number behind the old ones."""
    backup(settings, tmp_path / "saved")
    new = ServiceSettings(data=tmp_path / "new")
    if target == "postgresql":
        cluster = request.getfixturevalue("cluster")
        name = f"restored_{abs(hash(str(tmp_path))) % 10**9}"
        cluster.run(f"CREATE DATABASE {name}")
        new = replace(new, database=cluster.url(name))
    restore(new, tmp_path / "saved")
    assert look(new) == look(settings)
    service = make_service(new)
    assert not service.is_backup
    from qwenperf.service.arrivals import pack, read_record
    from qwenperf.service.writing_json import compact

    arrived = read_record(compact(documents.run(9)).encode())
    assert pack(documents.run(9)).sha256 == arrived.content.sha256
    with service.database.read() as connection:
        project = projects.by_name(connection, "demo")
    number, is_new = service.database.write(
        lambda connection: runs.keep(connection, project.id, arrived, at=1, by="test")
    )
    assert (number, is_new) == (4, True)
    with pytest.raises(UsageError, match="has data"):
        restore(new, tmp_path / "saved")
    service.database.close()
    if target == "postgresql":
        cluster.run(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_backup_that_is_served_is_looked_at_and_never_changed(filled, server, settings, tmp_path):
    """Long after, when all in it is old: no job runs that would remove it, and whoever asks for a change is told."""
    filled.patch("/api/v1/projects/demo", json={"retention_days": 1}).raise_for_status()
    backup(settings, tmp_path / "saved")
    clock = running.Clock()
    clock.ahead_s = 90 * 24 * 3600
    before = set(threading.enumerate())
    held = hold_of(tmp_path / "saved")
    with running.serving(ServiceSettings(data=tmp_path / "saved", sweep_s=0.02), clock) as found:
        run = "/api/v1/projects/demo/runs/run-000001"
        assert len(found.ask("GET", run.rpartition("/")[0], server.admin).json()["runs"]) == 3
        for method, path in (("DELETE", run), ("PATCH", "/api/v1/projects/demo"), ("POST", "/api/v1/tokens")):
            refused = found.ask(method, path, server.admin, json={})
            assert (refused.status_code, "backup" in refused.json()["error"]) == (403, True)
        refused = found.ask("POST", "/p/demo/dismiss", server.admin, headers={"Accept": "text/html"})
        assert (refused.status_code, "db restore" in refused.text) == (403, True)
        assert not {one.name for one in set(threading.enumerate()) - before} & {"qwenperf-sweep", "qwenperf-notify"}
        sweep(found.service)
    assert hold_of(tmp_path / "saved") == held


def test_whoever_looks_at_a_backup_signs_in_as_ever(filled, server, settings, tmp_path):
    """Else nobody would see what is private."""
    assert filled.get("/readyz").status_code == 200
    backup(settings, tmp_path / "saved")
    with running.serving(ServiceSettings(data=tmp_path / "saved")) as found:
        form = found.client.get("/login")
        csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', form.text)[1]
        sent = {"csrf": csrf, "token": server.admin, "next": "/p/demo"}
        assert found.client.post("/login", data=sent).status_code == 303
        assert "run-000002" in found.client.get("/p/demo").text


def hold_of(folder):
    """Return all rows of a backup but sessions."""
    database = Database(ServiceSettings(data=folder).database_url, pool_size=1)
    try:
        with database.read() as connection:
            return {
                table.name: connection.execute(select(table)).all()
                for table in metadata.sorted_tables
                if table.name != "sessions"
            }
    finally:
        database.close()


@pytest.mark.usefixtures("filled")
def test_a_backup_never_writes_over_anything(settings, tmp_path):
    """Nor restores what is no backup."""
    (tmp_path / "there").mkdir()
    with pytest.raises(OutputError, match="there already"):
        backup(settings, tmp_path / "there")
    with pytest.raises(UsageError, match="no backup"):
        restore(ServiceSettings(data=tmp_path / "x"), tmp_path / "there")
    with pytest.raises(UsageError, match="no service"):
        backup(ServiceSettings(data=tmp_path / "nothing"), tmp_path / "saved")


@pytest.mark.usefixtures("filled")
def test_a_damaged_or_missing_file_is_told_and_not_restored(settings, tmp_path):
    """What a backup holds is held against what its rows say."""
    backup(settings, tmp_path / "saved")
    assert (tmp_path / "saved").stat().st_mode & 0o077 == 0
    (file,) = (one for one in (tmp_path / "saved" / "files").rglob("*") if one.is_file())
    file.write_bytes(b"other")
    with pytest.raises(UsageError, match="damaged"):
        restore(ServiceSettings(data=tmp_path / "one"), tmp_path / "saved")
    file.unlink()
    with pytest.raises(UsageError, match="missing"):
        restore(ServiceSettings(data=tmp_path / "two"), tmp_path / "saved")


def swept_between(server, monkeypatch, ahead_s=0):
    """Let retention take all there is between a backup's rows and its files, so long after; return the file's place."""
    copy, service = module._copy, server.service
    (file,) = (one for one in contents(service) if one.read_bytes() == TRACE)

    def copied(*both):
        done = copy(*both)
        with service.database.read() as connection:
            number = projects.by_name(connection, "demo").id
        late = replace(service, clock=lambda: service.clock() + ahead_s * SECOND_US)
        assert expire(late, number, late.clock()) > 0
        return done

    monkeypatch.setattr(module, "_copy", copied)
    return file


def contents(service):
    """Return the files in the file store of a service."""
    return [one for one in Path(service.files._root, "files").rglob("*") if one.is_file()]


def test_a_backup_has_the_files_of_its_moment_though_retention_goes_on(filled, server, settings, tmp_path, monkeypatch):
    """They stay until it is done, and go with the next round."""
    assert filled.get("/readyz").status_code == 200
    before, file = look(settings), swept_between(server, monkeypatch)
    assert backup(settings, tmp_path / "saved")["files"] == 1
    assert look(ServiceSettings(data=tmp_path / "saved")) == before
    assert file.exists()
    sweep(server.service)
    assert not file.exists()


def test_a_backup_keeps_files_for_an_hour_where_it_was_killed(filled, server, settings, tmp_path, monkeypatch):
    """Or where it stands still: then a missing file is told, and nothing half is left."""
    assert filled.get("/readyz").status_code == 200
    file = swept_between(server, monkeypatch, ahead_s=3601)
    with pytest.raises(UsageError, match="missing"):
        backup(settings, tmp_path / "saved")
    assert not file.exists()
    assert not list(tmp_path.glob("saved*"))


def test_a_hold_is_put_off_as_long_as_somebody_copies(database_url):
    """However long one file takes; and it ends with the block."""
    now = [1_000_000]
    database = Database(database_url, pool_size=2)

    def is_held():
        with database.read() as connection:
            return holds.are_held(connection, now[0])

    try:
        with Hold(database, clock=lambda: now[0]) as hold:
            for _ in range(9):
                now[0] += 600 * SECOND_US
                hold.go_on()
                assert is_held()
            now[0] += 3601 * SECOND_US
            assert not is_held()
            hold.go_on()
            assert is_held()
        assert not is_held()
    finally:
        database.close()


def test_what_a_killed_backup_left_is_begun_anew(tmp_path):
    """Nobody has to remove it by hand; what is being written, or is no such thing, stays."""
    command = """
import os, sys, pathlib
from qwenperf.service.unfinished import new_folder
with new_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "half").write_text("x")
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", command, tmp_path / "saved"], check=False)
    assert (tmp_path / "saved.unfinished" / "half").exists()
    with new_folder(tmp_path / "saved") as folder:
        assert not (folder / "half").exists()
        (folder / "whole").write_text("x")
        with pytest.raises(OutputError, match="another process"), new_folder(tmp_path / "saved"):
            pass
    assert [one.name for one in (tmp_path / "saved").iterdir()] == ["whole"]
    (tmp_path / "mine.unfinished").mkdir()
    with pytest.raises(OutputError, match="there already"), new_folder(tmp_path / "mine"):
        pass
