"""Jobs push without a kept secret, by their signed identity: asked of a real server over HTTP."""

import importlib.util
import json
import threading
from pathlib import Path

import pytest


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guarded, runners = beside("guarded"), beside("runner")
service, now = guarded.service, guarded.now
allow, exchange = runners.allow, runners.exchange
runner, called_by_its_address = runners.runner, runners.called_by_its_address


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
