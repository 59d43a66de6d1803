"""``qwenperf push`` and the store behind HTTP, against a real service."""

import json
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from qwenperf.cli.push import command
from qwenperf.errors import StoreError, UnknownNameError
from qwenperf.store.base import Window
from qwenperf.store.http import RefusedError, Service, UnreachableError
from qwenperf.store.parcels import pack
from qwenperf.store.remote import RemoteStore

SECRET = "hf_" + "a1B2" * 8


@pytest.fixture
def runs(tmp_path, documents):
    """Two run folders, the first with a trace and a secret."""
    for number in (1, 2):
        folder = tmp_path / "profiles" / f"run-{number}"
        folder.mkdir(parents=True)
        document = documents.run(number)
        if number == 1:
            document["environment"]["HF_TOKEN"] = SECRET
            document["cases"][0]["error"] = f"no access with {SECRET}"
            trace = folder / "plugins" / "profile" / "s"
            trace.mkdir(parents=True)
            (trace / "host.xplane.pb").write_bytes(b"trace" * 1000)
        (folder / "run.json").write_text(json.dumps(document))
    return tmp_path / "profiles"


@pytest.fixture
def push(project, tmp_path, monkeypatch, capsys):
    """Run the command for the project; returns exit code, JSON and what went to stderr."""
    for name in ("URL", "TOKEN", "PROJECT", "SPOOL"):
        monkeypatch.delenv(f"QWENPERF_{name}", raising=False)
    monkeypatch.setenv("QWENPERF_TOKEN", project.server.admin)

    def run(*places, url=project.server.url, **more):
        more = {"project": project.name, "spool-folder": tmp_path / "spool", "patience": 0, **more}
        options = [f"--{name}={value}" for name, value in more.items() if value is not True]
        options += [f"--{name}" for name, value in more.items() if value is True]
        code = command.main([*map(str, places), f"--url={url}", *options, "--json"], standalone_mode=False)
        out, err = capsys.readouterr()
        return code, json.loads(out)["pushed"], err

    return run


def test_a_run_arrives_with_its_trace_and_without_secrets(project, push, runs):
    """Whoever reads it there sees that something was removed, and where."""
    code, (done,), err = push(runs / "run-1")
    assert (code, done["fate"], done["files"], done["removed_secrets"]) == (0, "sent", 1, 2)
    assert "2 secrets removed" in err
    assert SECRET not in project.ask("GET", "/runs/run-000001/record", 200).text
    record = project.get("/runs/run-000001/record")
    assert record["environment"]["HF_TOKEN"] == "[removed]"
    (file,) = project.get("/runs/run-000001/files")["files"]
    assert file["path"] == "plugins/profile/s/host.xplane.pb"
    assert SECRET in (runs / "run-1" / "run.json").read_text()


def test_pushing_again_changes_nothing(project, push, runs):
    """And says so."""
    push(runs / "run-1", runs / "run-2")
    code, done, _ = push(runs / "run-1", runs / "run-2" / "run.json")
    assert (code, [one["fate"] for one in done]) == (0, ["already there"] * 2)
    assert len(project.get("/runs")["runs"]) == 2


def test_a_service_that_is_away_fails_no_job_and_gets_its_runs_later(project, push, runs):
    """What could not be sent waits, whole, and goes when it can; then nothing waits."""
    nowhere = "http://127.0.0.1:9"
    code, done, err = push(runs / "run-1", runs / "run-2", url=nowhere)
    assert (code, [one["fate"] for one in done]) == (0, ["spooled"] * 2)
    assert "--spool" in err
    assert SECRET not in "".join(path.read_text() for path in (runs.parent / "spool").rglob("record.json"))
    assert push(runs / "run-1", url=nowhere, strict=True)[0] == 4
    assert len(list((runs.parent / "spool").iterdir())) == 2
    for path in (runs.parent / "spool").rglob("parcel.json"):
        path.write_text(path.read_text().replace(nowhere, project.server.url))
    code, done, _ = push(spool=True)
    assert (code, sorted(one["fate"] for one in done)) == (0, ["sent", "sent"])
    assert len(project.get("/runs/run-000001/files")["files"]) == 1
    assert list((runs.parent / "spool").iterdir()) == []


@pytest.mark.parametrize(("strict", "expected"), [(False, 0), (True, 2)])
def test_what_is_refused_or_unreadable_is_told(push, runs, documents, strict, expected):
    """A record that no service takes is not kept; without --strict the job goes on."""
    bad = runs / "bad"
    bad.mkdir()
    document = documents.run(5)
    document["cases"][0]["metrics"]["tpot_s"]["unit"] = "ms"
    (bad / "run.json").write_text(json.dumps(document))
    more = {"strict": True} if strict else {}
    code, done, err = push(bad, runs / "nothing", **more)
    assert (code, [one["fate"] for one in done]) == (expected, ["refused", "lost"])
    assert "cases[0].metrics.tpot_s.unit" in err
    assert not (runs.parent / "spool").exists()


def test_a_bad_token_keeps_the_run_for_a_better_one(push, runs):
    """An expired token is the usual cause: nothing is lost by it."""
    _, (done,), err = push(runs / "run-2", token="qpf_nobody")
    assert done["fate"] == "spooled"
    assert "401" in err


def test_without_an_address_nothing_is_sent_and_no_job_fails(push, runs):
    """A pull request from a fork has no secrets."""
    code, (done,), err = push(runs / "run-1", url="")
    assert (code, done["fate"]) == (0, "lost")
    assert "QWENPERF_URL" in err


def test_a_store_behind_http_answers_as_one_on_disk_does(project, store, documents):
    """Runs, records, cases and series, oldest first, within a window; unknown names offer the nearest."""
    for number in (3, 1, 2):
        project.post("/runs", documents.run(number, value=float(number)))
    assert [run.run for run in store.runs()] == ["run-000001", "run-000002", "run-000003"]
    assert [run.run for run in store.runs(Window(last=1))] == ["run-000003"]
    since = datetime(2026, 1, 1, 2, tzinfo=UTC)
    assert [run.run for run in store.runs(Window(since=since))] == ["run-000002", "run-000003"]
    assert store.get("run-000002").commit["branch"] == "main"
    assert store.cases() == {"tiny/cached": ["tpot_s"]}
    series = store.series("tiny/cached", "tpot_s", Window(last=2))
    assert [(point.value, point.run) for point in series.points] == [(2.0, "run-000002"), (3.0, "run-000003")]
    assert store.series("tiny/cached", "tpot_s", Window(branch="nosuch")).points == ()
    for ask in (lambda: store.get("run-000009"), lambda: store.series("tiny/cached", "tpot")):
        with pytest.raises(UnknownNameError, match="Did you mean"):
            ask()


@pytest.fixture
def store(project):
    """The project, as a store."""
    service = Service(url=project.server.url, token=project.server.admin)
    yield RemoteStore(service, project.name)
    service.close()


class Moody(BaseHTTPRequestHandler):
    """Refuses twice, then passes on what it was asked for."""

    asked: ClassVar[list] = []
    answers: ClassVar[list] = []

    def do_GET(self):
        """Answer with what comes next."""
        self.asked.append(self.headers.get("Authorization"))
        status, headers = self.answers.pop(0)
        self.send_response(status)
        for name, value in {"Content-Length": "2", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def moody():
    """A server that answers what it is told to, and the service at its address with the pauses that it made."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    pauses = []
    service = Service(url=f"http://127.0.0.1:{server.server_address[1]}", token="t", sleep=pauses.append)
    Moody.asked = []
    yield service, pauses
    service.close()
    server.shutdown()
    server.server_close()


def test_a_request_is_tried_again_after_growing_pauses(moody):
    """After 503 and 429, for at least as long as the service asks."""
    service, pauses = moody
    Moody.answers = [(503, {"Retry-After": "7"}), (429, {}), (200, {})]
    assert service.ask("GET", "/").status_code == 200
    assert pauses[0] >= 7
    assert pauses[1] <= 1
    assert Moody.asked == ["Bearer t"] * 3


def test_a_refusal_is_not_tried_again_and_a_redirect_not_followed(moody):
    """A token goes to the address that somebody typed, and nowhere else."""
    service, pauses = moody
    for status in (401, 404, 422, 302):
        Moody.answers = [(status, {"Location": "http://127.0.0.1:9/"})]
        with pytest.raises(RefusedError) as caught:
            service.ask("GET", "/")
        assert caught.value.status == status
    assert pauses == []


def test_patience_ends(moody):
    """A service that only ever says later is given up in words."""
    service, _ = moody
    now = [0.0]
    service.clock = lambda: now[0]
    service.sleep = lambda seconds: now.__setitem__(0, now[0] + seconds)
    Moody.answers = [(503, {})] * 1000
    with pytest.raises(UnreachableError, match="503"):
        service.ask("GET", "/")
    assert 30 < now[0] <= 60


def test_an_address_that_is_none_is_an_error_of_ours():
    """Not a traceback of the library."""
    for url in ("", "localhost", "ftp://x", "http://[", "http://\x00"):
        with pytest.raises(StoreError):
            Service(url=url, patience_s=0).ask("GET", "/")


def test_the_rest_of_a_file_is_sent_after_a_break(project, store, documents, tmp_path):
    """An earlier try got half of it there; only the other half travels."""
    import hashlib

    project.post("/runs", documents.run(1))
    data = bytes(range(256)) * 4000
    (tmp_path / "a.pb").write_bytes(data)
    told = {"path": "a.pb", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    upload = project.post("/runs/run-000001/files", told)["upload"]
    project.ask("PATCH", f"/uploads/{upload}", 200, content=data[:1000], headers={"Upload-Offset": "0"})
    sent = store.send(pack(documents.run(1), "run-000001", {"a.pb": tmp_path / "a.pb"}))
    assert (sent.created, sent.files) == (False, 1)
    assert project.ask("GET", "/runs/run-000001/files/a.pb", 200).content == data
