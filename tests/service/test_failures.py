"""What the service leans on goes away and comes back: clear answers, and nothing lost or half there."""

import hashlib
import shutil
from pathlib import Path

import pytest


def announce(http, data):
    told = {"path": "a.pb", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    answer = http.post("/api/v1/projects/demo/runs/run-000001/files", json=told)
    answer.raise_for_status()
    return f"/api/v1/projects/demo/uploads/{answer.json()['upload']}"


def test_a_file_store_that_refuses_is_told_and_the_upload_goes_on_later(client, server, documents):
    """503 with a time to come back at; the part did not count, and the same part is taken afterwards."""
    client.post("/api/v1/projects/demo/runs", json=documents.run(1)).raise_for_status()
    data = b"trace" * 1000
    place = announce(client, data)
    files = Path(server.service.settings.files_url.removeprefix("file://"))
    shutil.rmtree(files, ignore_errors=True)
    files.write_text("no folder any more")
    refused = client.patch(place, content=data, headers={"Upload-Offset": "0"})
    assert (refused.status_code, set(refused.json())) == (503, {"error", "advice"})
    assert int(refused.headers["retry-after"]) > 0
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
    assert client.get(place).json()["offset"] == 0
    files.unlink()
    server.service.readiness.forget()
    assert client.patch(place, content=data, headers={"Upload-Offset": "0"}).json()["complete"]
    assert client.get("/api/v1/projects/demo/runs/run-000001/files/a.pb").content == data
    assert client.get("/readyz").status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_database_that_went_away_and_came_back_is_used_again(client, server, cluster, documents):
    """It crashes under a running service: 503 meanwhile, and afterwards every run that was acknowledged."""
    client.post("/api/v1/projects/demo/runs", json=documents.run(1)).raise_for_status()
    cluster.stop()
    try:
        refused = client.post("/api/v1/projects/demo/runs", json=documents.run(2))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert "127.0.0.1" not in refused.text
        assert client.get("/readyz").status_code == 503
    finally:
        cluster.start()
    client.post("/api/v1/projects/demo/runs", json=documents.run(3)).raise_for_status()
    found = client.get("/api/v1/projects/demo/runs").json()["runs"]
    assert [row["run"] for row in found] == ["run-000003", "run-000001"]
    server.service.readiness.forget()
    assert client.get("/readyz").status_code == 200


def test_a_file_that_the_store_has_lost_is_told(client, server, documents):
    """And not an answer that looks whole."""
    client.post("/api/v1/projects/demo/runs", json=documents.run(1)).raise_for_status()
    data = b"trace"
    client.patch(announce(client, data), content=data, headers={"Upload-Offset": "0"}).raise_for_status()
    shutil.rmtree(server.service.settings.files_url.removeprefix("file://"))
    lost = client.get("/api/v1/projects/demo/runs/run-000001/files/a.pb")
    assert (lost.status_code, "lost" in lost.json()["error"]) == (503, True)


@pytest.mark.usefixtures("client")
def test_a_token_that_is_no_good_any_more_is_refused_before_the_body_is_read(server):
    """A stranger cannot make the service read, unpack or parse anything."""
    with server.client("qpf_nobody") as stranger:
        answer = stranger.post("/api/v1/projects/demo/runs", content=b"{" * 1000)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
