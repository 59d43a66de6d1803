"""Who may do what, asked of a real server over HTTP."""

import importlib.util
import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

pytest.importorskip("starlette")

from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


issuers, running = beside("issuer"), beside("running")
Clock, serving = running.Clock, running.serving


@pytest.fixture(scope="module", params=running.DATABASES)
def service(request, tmp_path_factory):
    """A service with two private projects and a public one, and an issuer of identities."""
    with issuers.running() as issuer, running.database(request) as database:
        settings = ServiceSettings(
            data=tmp_path_factory.mktemp("service"),
            database=database,
            oidc_issuer=issuer.url,
            oidc_audience=issuers.AUDIENCE,
            sweep_s=0,
        )
        with serving(settings, Clock(), issuer) as found:
            for name, public in (("first", False), ("second", False), ("open", True)):
                made = found.ask("POST", "/api/v1/projects", found.admin, json={"project": name, "public": public})
                assert made.status_code == 201, made.text
            yield found


@pytest.fixture
def now(service):
    """The service's own time, whatever a test before set."""
    service.clock.ahead_s = 0
    yield service.clock
    service.clock.ahead_s = 0


def test_the_first_token_may_do_everything_and_is_made_once(service):
    said = service.ask("GET", "/api/v1/whoami", service.admin).json()
    assert (said["project"], said["scopes"]) == (None, ["admin", "push", "read"])


def test_a_token_is_listed_by_its_prefix_and_never_again_by_its_secret(service):
    token = service.token("push", "first")
    listed = service.ask("GET", "/api/v1/projects/first/tokens", service.admin)
    assert token[:16] in listed.text
    assert token[17:] not in listed.text


@pytest.mark.parametrize(
    ("scope", "read", "write", "manage"),
    [(None, 401, 401, 401), ("read", 200, 403, 403), ("push", 200, 422, 403), ("admin", 200, 422, 200)],
)
def test_a_private_project_is_for_those_whose_scope_covers_it(service, scope, read, write, manage):
    token = service.token(scope, "first") if scope else None
    assert service.ask("GET", "/api/v1/projects/first/runs", token).status_code == read
    assert service.ask("POST", "/api/v1/projects/first/runs", token, content=b"{}").status_code == write
    assert service.ask("GET", "/api/v1/projects/first/tokens", token).status_code == manage


@pytest.mark.parametrize("scope", ["read", "push", "admin"])
def test_a_token_of_one_project_learns_nothing_of_another(service, scope):
    token = service.token(scope, "first")
    asked = [
        ("GET", ""), ("GET", "/runs"), ("GET", "/series"), ("GET", "/alerts"), ("GET", "/export"), ("GET", "/audit"),
        ("POST", "/runs"), ("GET", "/tokens"), ("POST", "/tokens"), ("GET", "/oidc"), ("PATCH", ""),
        ("GET", "/badge.svg"),
        ("DELETE", "/tokens/qpf_000000000000"), ("POST", "/accepted"),
    ]  # fmt: skip
    for method, path in asked:
        body = {"json": {}} if method in {"POST", "PATCH"} else {}
        private = service.ask(method, f"/api/v1/projects/second{path}", token, **body)
        absent = service.ask(method, f"/api/v1/projects/absent{path}", token, **body)
        assert private.status_code == absent.status_code == 404, (method, path)
        assert private.text.replace("second", "absent") == absent.text, (method, path)


def test_a_stranger_cannot_tell_a_private_project_from_none(service):
    private, absent = (service.ask("GET", f"/api/v1/projects/{name}/runs") for name in ("first", "absent"))
    assert private.status_code == absent.status_code == 401
    assert private.text.replace("first", "absent") == absent.text
    assert "Bearer" in private.headers["WWW-Authenticate"]


def test_a_public_project_is_read_by_everybody_and_written_by_nobody_without_a_token(service):
    assert service.ask("GET", "/api/v1/projects/open/runs").status_code == 200
    assert service.ask("POST", "/api/v1/projects/open/runs", content=b"{}").status_code == 401
    assert (
        service.ask("POST", "/api/v1/projects/open/runs", service.token("admin", "first"), json={}).status_code == 403
    )


def test_the_list_of_projects_holds_what_whoever_asks_may_see(service):
    def seen(token):
        return [one["project"] for one in service.ask("GET", "/api/v1/projects", token).json()["projects"]]

    assert seen(None) == ["open"]
    assert seen(service.token("read", "first")) == ["first", "open"]
    assert seen(service.admin) == ["first", "open", "second"]


def test_an_expired_token_is_refused_and_told_so(service, now):
    token = service.token("read", "first", expires_in_days=1)
    assert service.ask("GET", "/api/v1/projects/first", token).status_code == 200
    now.ahead_s = 24 * 3600 + 1
    answer = service.ask("GET", "/api/v1/projects/first", token)
    assert answer.status_code == 401
    assert "expired" in answer.json()["error"]


def test_a_revoked_token_is_refused_at_once(service):
    token = service.token("read", "first")
    assert service.ask("GET", "/api/v1/projects/first", token).status_code == 200
    gone = service.ask("DELETE", f"/api/v1/projects/first/tokens/{token[:16]}", service.admin)
    assert gone.status_code == 204
    assert "revoked" in service.ask("GET", "/api/v1/projects/first", token).json()["error"]


def test_an_admin_of_one_project_cannot_revoke_a_token_of_another(service):
    token, admin = service.token("read", "second"), service.token("admin", "first")
    assert service.ask("DELETE", f"/api/v1/projects/first/tokens/{token[:16]}", admin).status_code == 404
    assert service.ask("DELETE", f"/api/v1/tokens/{token[:16]}", admin).status_code == 403
    assert service.ask("GET", "/api/v1/projects/second", token).status_code == 200


def test_an_admin_of_one_project_cannot_make_more_of_the_service(service):
    admin = service.token("admin", "first")
    assert service.ask("POST", "/api/v1/projects", admin, json={"project": "mine"}).status_code == 403
    assert service.ask("POST", "/api/v1/tokens", admin, json={"name": "x", "scope": "admin"}).status_code == 403
    assert service.ask("GET", "/api/v1/audit", admin).status_code == 403
    assert service.ask("PATCH", "/api/v1/projects/first", admin, json={"quota_bytes": 1}).status_code == 403


@pytest.mark.parametrize(
    "authorization",
    ["Bearer nonsense", "Bearer qpf_0123456789ab_" + "x" * 43, "Basic YTpi", "bearer\tx", "qpf_x"],
)
def test_a_bad_credential_is_refused_even_where_nobody_needs_one(service, authorization):
    answer = service.ask("GET", "/api/v1/projects/open", headers={"Authorization": authorization})
    assert answer.status_code in {401, 429}


def test_a_secret_of_another_token_does_not_fit(service):
    one, other = service.token("read", "first"), service.token("read", "first")
    assert service.ask("GET", "/api/v1/projects/first", one[:16] + other[16:]).status_code in {401, 429}


def test_when_a_token_was_last_used_is_told(service):
    token = service.token("read", "first")

    def used():
        listed = service.ask("GET", "/api/v1/projects/first/tokens", service.admin).json()["tokens"]
        return next(one for one in listed if one["prefix"] == token[:16])["last_used_at"]

    assert used() is None
    service.ask("GET", "/api/v1/projects/first", token)
    assert used() is not None


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": "x"}, {"name": "x", "scope": "root"}, {"name": "", "scope": "read"},
        {"name": "x\n", "scope": "read"},
        {"name": "x", "scope": "read", "expires_in_days": 0}, {"name": "x", "scope": "read", "expires_in_days": True},
        {"name": "x", "scope": "read", "expires_in_days": 1e9}, {"name": "x", "scope": "read", "more": 1},
        {"name": "x\0", "scope": "read"}, {"name": "\ud800", "scope": "read"}, {"name": ["x"], "scope": "read"},
    ],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_not_made(service, body):
    content = json.dumps(body)
    answer = service.ask("POST", "/api/v1/projects/first/tokens", service.admin, content=content)
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "status"), [(b"[", 422), (b"[]", 422), (b"", 422), (b"[" * 60_000, 422), (b"x" * 70_000, 413)]
)
def test_a_body_that_is_no_object_is_refused(service, content, status):
    assert service.ask("POST", "/api/v1/tokens", service.admin, content=content).status_code == status


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


def test_reading_changes_nothing_in_the_audit_log(service):
    before = service.ask("GET", "/api/v1/audit", service.admin).json()
    service.ask("GET", "/api/v1/projects/first", service.admin)
    assert service.ask("GET", "/api/v1/audit", service.admin).json() == before


@pytest.mark.parametrize(
    "path", ["/", "/login", "/api/v1/projects", "/api/v1/absent", "/static/style.css", "/static/absent"]
)
def test_every_answer_carries_the_security_headers(service, path):
    headers = service.ask("GET", path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert "Strict-Transport-Security" not in headers


def test_too_many_requests_are_turned_away_with_the_time_to_wait(tmp_path):
    settings = ServiceSettings(data=tmp_path, anonymous_per_s=0.01, anonymous_burst=3, rate_burst=1000, sweep_s=0)
    with serving(settings, Clock()) as found:
        answers = [found.ask("GET", "/api/v1/projects") for _ in range(5)]
        assert [one.status_code for one in answers] == [200, 200, 200, 429, 429]
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert "Content-Security-Policy" in answers[-1].headers
        # Another caller, and probes, are served.
        assert found.ask("GET", "/api/v1/projects", found.admin).status_code == 200
        assert found.ask("GET", "/healthz").status_code == 200


def test_invented_cookies_are_no_way_around_the_limit(tmp_path):
    """Only a credential that was found good has a rate of its own."""
    settings = ServiceSettings(data=tmp_path, anonymous_per_s=0.01, anonymous_burst=3, rate_burst=1000, sweep_s=0)
    with serving(settings, Clock()) as found:
        answers = []
        for number in range(5):
            with httpx.Client(
                base_url=found.url, verify=False, cookies={"qwenperf_session": f"invented{number}"}
            ) as stranger:
                answers.append(stranger.get("/api/v1/projects").status_code)
        assert answers == [200, 200, 200, 429, 429]
    with serving(replace(settings, data=tmp_path / "other"), Clock()) as found:
        assert {found.ask("GET", "/api/v1/projects", found.admin).status_code for _ in range(8)} == {200}


def test_whoever_tries_tokens_is_turned_away_and_those_with_good_ones_are_not(tmp_path):
    with serving(ServiceSettings(data=tmp_path, sweep_s=0), Clock()) as found:
        tried = [
            found.ask("GET", "/api/v1/whoami", f"qpf_{number:012x}_{'x' * 43}").status_code for number in range(40)
        ]
        assert tried[0] == 401
        assert tried[-1] == 429
        assert found.ask("GET", "/api/v1/whoami", found.admin).status_code == 200


def test_a_forwarded_address_is_believed_only_where_the_operator_says_so(tmp_path):
    for trusted in (False, True):
        settings = ServiceSettings(
            data=tmp_path / str(trusted), anonymous_burst=1, anonymous_per_s=0.01, trust_forwarded=trusted, sweep_s=0
        )
        with serving(settings, Clock()) as found:
            asked = [
                found.ask("GET", "/", headers={"X-Forwarded-For": f"1.1.1.1, 10.0.0.{number}"}).status_code
                for number in range(3)
            ]
            assert (429 in asked) is not trusted


def test_over_https_cookies_are_for_https_and_browsers_are_told_to_stay(tmp_path):
    settings = ServiceSettings(data=tmp_path, public_url="https://perf.example.org", sweep_s=0)
    with serving(settings, Clock()) as found:
        answer = found.ask("GET", "/login")
        assert answer.headers["Set-Cookie"].startswith("__Host-")
        assert "Secure" in answer.headers["Set-Cookie"]
        assert "max-age" in answer.headers["Strict-Transport-Security"]


def test_the_service_listens_to_this_machine_only_by_default(tmp_path):
    assert ServiceSettings(data=tmp_path).host == "127.0.0.1"
