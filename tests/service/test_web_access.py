"""Signing in and out on the pages, who sees what, and that no other site changes anything."""

import importlib.util
import re
from pathlib import Path

import httpx
import pytest


def beside(name):
    """Load a module that lies beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browsing = beside("browsing")
service, browser, admin, Browser = browsing.service, browsing.browser, browsing.admin, browsing.Browser


def test_a_stranger_is_asked_to_sign_in_and_then_goes_on(service, browser):
    html = browser.get("/p/private?x=1")
    assert 'value="/p/private?x=1"' in html
    sent = browser.send("/login", "/login", token=service.admin, next="/p/private?x=1")
    assert sent.headers["Location"] == "/p/private?x=1"


@pytest.mark.parametrize(
    "onward", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/a\r\nX: y"]
)
def test_signing_in_leads_nowhere_else(service, browser, onward):
    assert browser.send("/login", "/login", token=service.admin, next=onward).headers["Location"] == "/"


def test_a_private_project_and_none_look_alike_to_a_stranger_and_to_another_s_token(service, browser):
    assert browser.get("/p/private").replace("private", "absent") == browser.get("/p/absent")
    browser.sign_in(service.token("admin", "empty"))
    private, absent = browser.get("/p/private", 404), browser.get("/p/absent", 404)
    assert private.replace("private", "absent") == absent


def test_a_problem_page_tells_a_stranger_of_no_private_project(service, browser):
    browser.sign_in(service.token("read", "empty"))
    assert '<nav aria-label="Project"' not in browser.get("/p/private/runs/absent", 404)


def test_a_wrong_token_is_refused_on_the_page(browser):
    answer = browser.sign_in("qpf_0123456789ab_" + "x" * 43, 401)
    assert 'role="alert"' in answer.text
    assert "Sign in</a>" in browser.get("/p/demo")


def test_the_session_s_cookie_is_not_the_token_and_scripts_cannot_read_it(service, browser):
    answer = browser.sign_in(service.admin)
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert service.admin[17:] not in cookie


def test_signing_out_ends_the_session_on_the_server(service, admin):
    cookies = dict(admin.client.cookies)
    admin.send("/", "/logout")
    assert "Sign in</a>" in admin.get("/")
    kept = httpx.get(f"{service.url}/admin", cookies=cookies, headers={"Accept": "text/html"}, verify=False)
    assert kept.status_code == 303


def test_revoking_a_token_ends_the_sessions_it_began(service, browser):
    token = service.token("admin", "demo")
    browser.sign_in(token)
    browser.get("/p/demo/admin")
    service.ask("DELETE", f"/api/v1/tokens/{token[:16]}", service.admin)
    assert "Sign in" in browser.get("/p/demo/admin")


def test_a_session_ends_with_its_time(service, admin):
    service.clock.ahead_s = 13 * 3600
    try:
        assert "Sign in</a>" in admin.get("/")
    finally:
        service.clock.ahead_s = 0


CHANGES = (
    ("/projects", {"name": "made-by-another-site"}),
    ("/p/demo/admin/tokens", {"name": "x", "scope": "admin", "days": ""}),
    ("/p/demo/admin/settings", {"public": "yes"}),
    ("/p/demo/admin/webhook", {"url": "https://hooks.example/"}),
    ("/p/demo/admin/webhook/remove", {}),
    ("/p/demo/admin/github", {"repository": "owner/name", "repository_id": "42"}),
    ("/p/demo/admin/github/remove", {}),
    ("/p/demo/accept", {"case": "a", "metric": "tpot_s", "run": "run-025", "reason": "x"}),
    ("/p/demo/first-token", {}),
    ("/logout", {}),
)


@pytest.mark.parametrize(("action", "fields"), CHANGES)
@pytest.mark.parametrize("csrf", [None, "", "0" * 64])
def test_a_form_of_another_site_changes_nothing(service, admin, action, fields, csrf):
    before = service.ask("GET", "/api/v1/audit", service.admin).text
    sent = fields if csrf is None else fields | {"csrf": csrf}
    assert admin.client.post(action, data=sent).status_code == 403
    assert service.ask("GET", "/api/v1/audit", service.admin).text == before
    assert "Sign out" in admin.get("/")


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}, {"Origin": "http://["}],
)
def test_a_form_that_the_browser_says_is_another_site_s_is_refused(admin, headers):
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', admin.get("/"))[1]
    assert admin.client.post("/logout", data={"csrf": csrf}, headers=headers).status_code == 403


def test_the_secret_of_one_session_s_forms_is_not_another_s(service, admin):
    other = Browser(service)
    other.sign_in(service.admin)
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', other.get("/"))[1]
    other.client.close()
    assert admin.client.post("/logout", data={"csrf": csrf}).status_code == 403


def test_the_api_takes_nothing_from_a_session_without_its_secret(admin):
    body = {"name": "x", "scope": "admin"}
    assert admin.client.post("/api/v1/tokens", json=body).status_code == 403
    csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', admin.get("/"))[1]
    assert admin.client.post("/api/v1/tokens", json=body, headers={"X-CSRF-Token": csrf}).status_code == 201
    assert admin.client.get("/api/v1/projects").status_code == 200


def test_an_archive_is_for_those_who_may_read(service):
    assert service.ask("GET", "/p/private/runs/x/files.tar", service.token("read", "demo")).status_code == 404
