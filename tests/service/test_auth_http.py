"""Who may do what, asked of a real server over HTTP."""

import importlib.util
import json
from pathlib import Path

import pytest


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


guarded = beside("guarded")
service, now = guarded.service, guarded.now


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
