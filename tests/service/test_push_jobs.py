"""A job pushes for longer than its token is good: it gets another in time, once a request, and shows none of them."""

import importlib.util
import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from qwenperf.cli.push import command
from qwenperf.errors import StoreError
from qwenperf.store.http import RefusedError, Service, Token
from qwenperf.store.job_identity import hold_job_token


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guarded, runners = beside("guarded"), beside("runner")
service, now = guarded.service, guarded.now


@pytest.fixture
def job(service):
    """The variables of a job that may push to the service's first project."""
    number = runners.allow(service)
    with runners.runner(service.issuer) as variables, runners.called_by_its_address(service):
        yield variables
    service.ask("DELETE", f"/api/v1/projects/first/oidc/{number}", service.admin)


@pytest.fixture
def folder(tmp_path):
    """A run with two traces."""
    traces = tmp_path / "run" / "plugins" / "profile" / "session"
    traces.mkdir(parents=True)
    for name in ("one", "two"):
        (traces / f"{name}.xplane.pb").write_bytes(name.encode() * 1000)
    (tmp_path / "run" / "run.json").write_text(json.dumps(beside("documents").run(8) | {"id": "slowly-pushed"}))
    return tmp_path / "run"


def test_a_push_that_takes_longer_than_its_token_is_good_arrives_whole(
    service, job, folder, now, monkeypatch, tmp_path
):
    """Before each trace more time goes by than the token is good for; none of the tokens is shown."""
    tokens, answers, send = {job["ACTIONS_ID_TOKEN_REQUEST_TOKEN"]}, [], httpx.HTTPTransport.handle_request

    def late(transport, request):
        tokens.add(request.headers.get("authorization", "").removeprefix("Bearer "))
        answer = send(transport, request)
        answers.append((request.method, answer.status_code))
        if request.url.path.endswith("/files"):
            now.ahead_s += service.service.settings.oidc_token_s + 1
        return answer

    options = ["--url", service.url, "--project", "first", "--spool-folder", str(tmp_path / "spool"), "--patience", "0"]
    with monkeypatch.context() as patched:
        for name, value in job.items():
            patched.setenv(name, value)
        patched.delenv("QWENPERF_TOKEN", raising=False)
        patched.setattr(httpx.HTTPTransport, "handle_request", late)
        pushed = CliRunner().invoke(command, [str(folder), *options, "--strict"], standalone_mode=False)
    assert pushed.return_value == 0, pushed.output
    assert [status for method, status in answers if method == "PATCH"] == [401, 200, 401, 200]
    there = service.ask("GET", "/api/v1/projects/first/runs/slowly-pushed/files", service.admin).json()["files"]
    assert len(there) == 2
    shown = pushed.output + pushed.stderr
    assert len(tokens - {""}) == 4
    assert not any(one in shown for one in tokens - {""})


@pytest.mark.usefixtures("now")
def test_a_token_that_is_about_to_end_is_changed_before_it_does(service, job):
    """A minute before, by the service's own clock; until then one is enough."""
    at, said = [0.0], []
    asked = Service(url=service.url, patience_s=5, clock=lambda: at[0], say=said.append)
    hold_job_token(asked, "first", job)
    tokens = [asked.token]
    for at[0] in (800.0, 850.0, 860.0):
        assert asked.ask("GET", "/api/v1/whoami").json()["scopes"] == ["push", "read"]
        tokens.append(asked.token)
    asked.close()
    assert [token == tokens[0] for token in tokens] == [True, True, False, False]
    assert tokens[2] == tokens[3]
    assert not any(token in repr(asked) for token in tokens)
    assert said == []


def refusing(error, renew, said=None):
    """Return a service that refuses whatever it is asked, and the tokens that it was asked with."""
    seen = []

    def answer(request):
        seen.append(request.headers["authorization"])
        return httpx.Response(401, json={"error": error, "advice": "Ask for a new one."})

    say = said.append if said is not None else lambda _: None
    made = Service(url="http://h", token="t0", renew=renew, transport=httpx.MockTransport(answer), say=say)
    return made, seen


def test_another_token_is_asked_for_once_a_request_however_it_is_answered():
    """A service that finds every token over is not asked for ever."""
    made = []

    def renew(_asked):
        made.append(Token(text=f"t{len(made) + 1}"))
        return made[-1]

    asked, seen = refusing("The token qpf_000000000000 has expired.", renew)
    with pytest.raises(RefusedError, match="has expired"):
        asked.ask("GET", "/")
    assert seen == ["Bearer t0", "Bearer t1"]
    made.clear()
    asked, seen = refusing("The token qpf_000000000000 was revoked.", renew)
    with pytest.raises(RefusedError, match="revoked"):
        asked.ask("GET", "/")
    assert (seen, made) == (["Bearer t0"], [])


def test_where_there_is_no_other_token_it_is_said_and_the_refusal_stands():
    """As it does where nobody can make one."""

    def renew(_asked):
        raise StoreError("the runner signs nothing.")

    said = []
    asked, seen = refusing("The token qpf_000000000000 has expired.", renew, said)
    with pytest.raises(RefusedError, match="has expired"):
        asked.ask("GET", "/")
    assert seen == ["Bearer t0"]
    assert len(said) == 1
    assert "the runner signs nothing" in said[0]
    asked, seen = refusing("The token qpf_000000000000 has expired.", None)
    with pytest.raises(RefusedError, match="has expired"):
        asked.ask("GET", "/")
    assert seen == ["Bearer t0"]
