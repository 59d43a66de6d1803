"""Backups: one moment of a service, whole, that starts by itself and goes back into either kind of database."""

import hashlib
from dataclasses import replace

import pytest

from qwenperf.errors import OutputError, UsageError
from qwenperf.service import backup as module
from qwenperf.service.app import make_service
from qwenperf.service.backup import backup, restore
from qwenperf.service.db import comparisons, files, projects, runs, series
from qwenperf.service.jobs import expire
from qwenperf.service.settings import ServiceSettings

TRACE = b"trace" * 100


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


def test_a_file_that_retention_took_meanwhile_fails_the_backup(filled, server, settings, tmp_path, monkeypatch):
    """It is told, and nothing half is left; the files are those of the rows that were copied."""
    assert filled.get("/readyz").status_code == 200
    copy = module._copy

    def copied(*both):
        done = copy(*both)
        with server.service.database.read() as connection:
            number = projects.by_name(connection, "demo").id
        expire(server.service, number, server.service.clock())
        return done

    monkeypatch.setattr(module, "_copy", copied)
    with pytest.raises(UsageError, match="missing"):
        backup(settings, tmp_path / "saved")
    assert not list(tmp_path.glob("saved*"))
