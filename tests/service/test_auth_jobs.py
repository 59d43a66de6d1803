"""Jobs push without a kept secret, by their signed identity: asked of a real server over HTTP."""

import importlib.util
import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guarded = beside("guarded")
service, now = guarded.service, guarded.now


def allow(service, project="first", **policy):
    body = {"repository": "owner/name", "repository_id": "4711"} | policy
    answer = service.ask("POST", f"/api/v1/projects/{project}/oidc", service.admin, json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def exchange(service, text, project="first"):
    return service.ask("POST", "/api/v1/oidc/exchange", json={"project": project, "token": text})


@pytest.fixture
def allowed(service):
    number = allow(service)
    yield number
    service.ask("DELETE", f"/api/v1/projects/first/oidc/{number}", service.admin)


@pytest.mark.usefixtures("allowed")
def test_a_job_gets_a_push_token_for_its_identity_and_for_nothing_else(service):
    answer = exchange(service, service.issuer.sign())
    assert answer.status_code == 201, answer.text
    token = answer.json()["token"]
    who = service.ask("GET", "/api/v1/whoami", token).json()
    assert (who["kind"], who["project"], who["scopes"]) == ("oidc", "first", ["push", "read"])
    assert "owner/name@refs/heads/main" in who["name"]
    assert service.ask("POST", "/api/v1/projects/first/runs", token, json={}).status_code == 422
    assert service.ask("GET", "/api/v1/projects/first/tokens", token).status_code == 403
    assert service.ask("GET", "/api/v1/projects/second", token).status_code == 404


@contextmanager
def runner(issuer):
    """What GitHub's runner offers its jobs: an address that signs for an audience, and a token for it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            held = self.headers["Authorization"] == "Bearer runner's" and query.get("api-version") == "2.0"
            body = json.dumps({"value": issuer.sign(aud=query["audience"])} if held else {}).encode()
            self.send_response(200 if held else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/sign?api-version=2.0"
    yield {"ACTIONS_ID_TOKEN_REQUEST_URL": url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner's"}
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def called_by_its_address(running):
    """Let identities be for the service's address, as they are where an operator says no audience."""
    before = running.service.settings
    object.__setattr__(running.service, "settings", replace(before, oidc_audience="", public_url=running.url))
    yield
    object.__setattr__(running.service, "settings", before)


def test_a_push_from_a_job_needs_no_token(service, monkeypatch, tmp_path):
    """Its runner signs for the service's address; a job that no policy names is told why, and fails nothing."""
    from click.testing import CliRunner

    from qwenperf.cli.push import command

    documents = beside("documents")
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(documents.run(7) | {"id": "pushed-by-a-job"}))
    with monkeypatch.context() as patched, runner(service.issuer) as variables, called_by_its_address(service):
        for name, value in variables.items():
            patched.setenv(name, value)
        push = [str(folder), "--url", service.url, "--project", "first", "--spool-folder", str(tmp_path / "spool")]
        refused = CliRunner().invoke(command, push, standalone_mode=False)
        assert "no token for this job" in refused.stderr
        number = allow(service)
        sent = CliRunner().invoke(command, [*push, "--strict"], standalone_mode=False)
        service.ask("DELETE", f"/api/v1/projects/first/oidc/{number}", service.admin)
    assert (refused.return_value, sent.return_value) == (0, 0), sent.output
    assert service.ask("GET", "/api/v1/projects/first/runs/pushed-by-a-job", service.admin).status_code == 200


@pytest.mark.usefixtures("allowed")
def test_the_token_of_a_job_soon_ends(service, now):
    token = exchange(service, service.issuer.sign()).json()["token"]
    now.ahead_s = 901
    assert service.ask("GET", "/api/v1/projects/first", token).status_code == 401


@pytest.mark.usefixtures("allowed")
def test_an_identity_is_good_once(service):
    text = service.issuer.sign()
    assert exchange(service, text).status_code == 201
    again = exchange(service, text)
    assert again.status_code == 401
    assert "before" in again.json()["error"]


@pytest.mark.usefixtures("allowed")
def test_an_identity_is_good_once_even_when_it_is_sent_many_times_at_once(service):
    text, answers = service.issuer.sign(), []
    threads = [threading.Thread(target=lambda: answers.append(exchange(service, text).status_code)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 401, 401, 401, 401, 401]


@pytest.mark.usefixtures("allowed")
def test_a_job_of_another_repository_gets_nothing_whatever_its_name(service):
    answer = exchange(service, service.issuer.sign(repository_id="1"))
    assert answer.status_code == 403
    assert "token" not in answer.json()


@pytest.mark.usefixtures("allowed")
def test_a_job_cannot_tell_a_project_that_does_not_want_it_from_none(service):
    other, absent = (exchange(service, service.issuer.sign(), name) for name in ("second", "absent"))
    assert other.status_code == absent.status_code == 403
    assert other.text == absent.text


@pytest.mark.usefixtures("allowed")
def test_an_expired_identity_gets_nothing(service):
    assert exchange(service, service.issuer.sign(exp=1_000_000_000)).status_code == 401


def test_a_removed_policy_lets_nobody_in(service):
    number = allow(service, "second")
    assert exchange(service, service.issuer.sign(), "second").status_code == 201
    service.ask("DELETE", f"/api/v1/projects/second/oidc/{number}", service.admin)
    assert exchange(service, service.issuer.sign(), "second").status_code == 403


def test_the_audit_log_tells_who_changed_what_and_no_secret(service):
    token = service.token("push", "first")
    service.ask("DELETE", f"/api/v1/projects/first/tokens/{token[:16]}", service.admin)
    allow(service)
    exchange(service, service.issuer.sign())
    log = service.ask("GET", "/api/v1/projects/first/audit", service.admin)
    actions = [one["action"] for one in log.json()["audit"]]
    assert actions[:4] == ["oidc.exchange", "oidc.allow", "token.revoke", "token.create"]
    assert token[17:] not in log.text
    first = log.json()["audit"][3]
    assert (first["subject"], first["project"], first["address"]) == (token[:16], "first", "127.0.0.1")
    assert first["actor"].startswith("first admin")
