"""``qwenperf serve`` and ``qwenperf db`` as people start them: real processes."""

import json
import signal
import subprocess
import sys

import httpx
import pytest

from qwenperf.cli.db import command as db
from qwenperf.cli.serve import command as serve
from qwenperf.errors import ConfigError, OutputError, UsageError
from qwenperf.service.db.upgrade import newest


def start(*options):
    """Start a service, and return its process and what it said of itself."""
    command = [sys.executable, "-m", "qwenperf", "serve", "--port", "0", "--json", *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, json.loads(process.stdout.readline())


def stop(process):
    """Stop a service as people do, and return its exit code and the rest of what it wrote."""
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    return process.returncode, rest, errors


@pytest.mark.slow
def test_a_service_starts_with_nothing_but_a_folder_and_keeps_what_it_was_sent(tmp_path, documents):
    """The first start prints a token once; the second has the run, and no token to tell."""
    data = tmp_path / "data"
    process, told = start("--data", data)
    with httpx.Client(base_url=told["url"], headers={"Authorization": f"Bearer {told['token']}"}) as http:
        http.post("/api/v1/projects", json={"project": "demo"}).raise_for_status()
        http.post("/api/v1/projects/demo/runs", json=documents.run(1)).raise_for_status()
        code, rest, errors = stop(process)
        assert code in {0, 130}, errors
        assert told["token"] not in rest + errors
        process, again = start("--data", data)
        assert again["token"] is None
        http.base_url = again["url"]
        assert len(http.get("/api/v1/projects/demo/runs").json()["runs"]) == 1
    stop(process)


def run(command, capsys, *arguments):
    """Run a command in this process, and return its JSON."""
    assert command.main([*map(str, arguments), "--json"], standalone_mode=False) == 0
    return json.loads(capsys.readouterr().out)


def test_a_database_is_upgraded_backed_up_and_restored_by_commands(tmp_path, capsys):
    """And a lost token is replaced by whoever can reach the folder."""
    data, saved, new = (tmp_path / name for name in ("data", "saved", "new"))
    data.mkdir()
    assert run(db, capsys, "upgrade", "--data", data)["before"] is None
    assert run(db, capsys, "token", "lost mine", "--data", data)["token"].startswith("qpf_")
    done = run(db, capsys, "backup", saved, "--data", data)
    assert done["rows"] > 0
    assert run(db, capsys, "restore", saved, "--data", new)["rows"] == done["rows"]
    assert run(db, capsys, "upgrade", "--data", new) == {"before": newest(), "after": newest()}


@pytest.mark.parametrize("as_json", [True, False])
def test_serving_a_backup_says_that_it_is_one(tmp_path, capsys, monkeypatch, as_json):
    """And what makes a service of it; a service says nothing of the kind."""
    data, saved = tmp_path / "data", tmp_path / "saved"
    data.mkdir()
    run(db, capsys, "upgrade", "--data", data)
    run(db, capsys, "backup", saved, "--data", data)
    monkeypatch.setattr("qwenperf.service.serving.serve", lambda _, ready: ready("http://here", None))
    said = []
    for folder in (data, saved):
        serve.main(["--data", str(folder), *["--json"][:as_json]], standalone_mode=False)
        out = capsys.readouterr().out
        said.append(json.loads(out)["backup"] if as_json else "db restore" in out)
    assert said == [False, True]


@pytest.mark.parametrize("asked", [["upgrade"], ["token", "x"], ["backup", "b"]])
@pytest.mark.parametrize("named", [["--data", "nowhere"], ["--data", "nowhere", "--database", "sqlite:///no.sqlite"]])
def test_a_name_that_is_mistyped_makes_no_service(tmp_path, monkeypatch, asked, named):
    """Nor a token of one that nobody runs."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no service"):
        db.main([*asked, *named], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--workers", "2"], ConfigError),
        (["--database", "mysql://x"], ConfigError),
        (["--quota", "many"], ConfigError),
        (["--host", "192.0.2.1"], OutputError),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(tmp_path, options, error):
    """Before anything listens."""
    with pytest.raises(error):
        serve.main(["--data", str(tmp_path / "data"), "--port", "0", *options], standalone_mode=False)


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_several_workers_share_one_database_and_any_goes_on_with_an_upload(database_url, tmp_path, documents):
    """Each request on a connection of its own, so that different workers answer them."""
    import hashlib

    files = (tmp_path / "files").as_uri()
    process, told = start("--data", tmp_path, "--database", database_url, "--files", files, "--workers", "3")
    headers = {"Authorization": f"Bearer {told['token']}"}

    def ask(method, path, **more):
        more["headers"] = headers | more.get("headers", {})
        answer = httpx.request(method, told["url"] + "/api/v1/projects" + path, timeout=60, verify=False, **more)
        return answer.raise_for_status()

    ask("POST", "", json={"project": "demo"})
    for number in range(10):
        ask("POST", "/demo/runs", json=documents.run(number))
    data = bytes(range(256)) * 100
    sent = {"path": "a.pb", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = ask("POST", "/demo/runs/run-000001/files", json=sent).json()["upload"]
    for offset in range(0, len(data), 3000):
        part = data[offset : offset + 3000]
        done = ask("PATCH", f"/demo/uploads/{upload}", content=part, headers={"Upload-Offset": str(offset)}).json()
    assert done["complete"]
    assert ask("GET", "/demo/runs/run-000001/files/a.pb").content == data
    assert len(ask("GET", "/demo/runs").json()["runs"]) == 10
    stop(process)
