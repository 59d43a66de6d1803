"""``qwenperf webhook``: what arrives, over HTTP, and what the command ends with."""

import importlib.util
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from qwenperf.cli import main
from qwenperf.forge.webhook import is_genuine
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import Outcome, Verdict

_SPEC = importlib.util.spec_from_file_location(
    "sample_records_of_webhook", Path(__file__).parents[1] / "report" / "sample_records.py"
)
samples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(samples)


@pytest.fixture
def receiver():
    """A server that keeps what it gets and answers with ``status``."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            self.server.got.append((dict(self.headers), self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(self.server.status)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.status = [], 204
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def call(receiver, capsys, monkeypatch, tmp_path):
    """Send a run that failed; return the exit code, output and errors. Variables of CI are pasted with a newline."""
    monkeypatch.setenv("QWENPERF_WEBHOOK_SECRET", "hush\n")
    monkeypatch.setenv("QWENPERF_WEBHOOK_URL", f"http://127.0.0.1:{receiver.server_port}/hook\n")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["webhook", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return run


def test_a_verdict_arrives_signed(receiver, call, tmp_path):
    """With its conclusion, its sentence and its page."""
    (tmp_path / "run.json").write_text(dumps(samples.run()))
    code, out, _ = call(tmp_path, "--details-url", "https://example.test/1")
    ((headers, body),) = receiver.got
    told = json.loads(body)
    assert (code, told["exit_code"], told["conclusion"]) == (1, 1, "failure")
    assert told["title"].startswith("FAIL: 1 of 2 cases failed")
    assert "[details](https://example.test/1)" in told["markdown"]
    assert is_genuine("hush", headers, body, now=int(headers["X-Qwenperf-Timestamp"]))
    assert out.splitlines()[1] == headers["X-Qwenperf-Delivery"]


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 4)])
def test_a_message_that_is_refused_changes_no_verdict(receiver, call, tmp_path, strict, code):
    """It is a warning, unless one asks for more."""
    receiver.status = 404
    (tmp_path / "run.json").write_text(dumps(samples.run(samples.case())))
    ended, out, err = call(tmp_path, "--json", *strict)
    assert (ended, json.loads(out)["problem"]) == (code, "the webhook was refused: 404.")
    assert "warning: the webhook was refused: 404." in err


def test_noise_is_judged_as_the_project_says(receiver, call, tmp_path):
    """As the command that measured was."""
    noisy = Verdict(gate="speed", outcome=Outcome.INCONCLUSIVE, summary="too noisy to tell")
    (tmp_path / "run.json").write_text(dumps(samples.run(samples.case(verdicts=(noisy,)))))
    (tmp_path / "pyproject.toml").write_text('[tool.qwenperf]\ninconclusive = "fail"\n')
    assert call(tmp_path)[0] == 3
    assert json.loads(receiver.got[0][1])["conclusion"] == "failure"


def test_an_address_that_is_none_is_not_repeated_whole(call, tmp_path):
    """Whoever reads the log could post to it."""
    (tmp_path / "run.json").write_text(dumps(samples.run(samples.case())))
    code, _, err = call(tmp_path, "--url", "hooks.example.test/T000/SECRET")
    assert (code, "SECRET" in err, "'hooks.example.test' is no address of the web" in err) == (2, False, True)
