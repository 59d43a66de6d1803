"""What an admin changes on the pages, told as it is by the API, and what is refused beside its field."""

import html
import importlib.util
import re
from pathlib import Path

import pytest

from qwenperf.service.db import notices


def beside(name):
    """Load a module that lies beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browsing = beside("browsing")
service, browser, admin, checked = browsing.service, browsing.browser, browsing.admin, browsing.checked


def test_an_empty_project_tells_how_to_begin_and_shows_a_token_once(service, admin):
    page = admin.get("/p/empty")
    assert f"qwenperf push --url {service.url} --project empty profiles/*/" in page
    assert "QWENPERF_TOKEN" not in page
    shown = admin.send("/p/empty", "/p/empty/first-token", 200)
    token = re.search(r"qpf_[0-9a-f]{12}_[\w-]{43}", shown.text)[0]
    assert shown.headers["Cache-Control"] == "no-store"
    who = service.ask("GET", "/api/v1/whoami", token).json()
    assert (who["project"], who["scopes"]) == ("empty", ["push", "read"])
    assert token not in admin.get("/p/empty")
    assert token not in admin.get("/p/empty/admin")


def test_an_admin_makes_and_revokes_tokens_lets_jobs_in_and_all_is_told(service, admin):
    made = admin.send("/p/demo/admin", "/p/demo/admin/tokens", 200, name="ci", scope="push", days="30")
    token = re.search(r"qpf_[0-9a-f]{12}_[\w-]{43}", made.text)[0]
    assert service.ask("GET", "/api/v1/whoami", token).json()["project"] == "demo"
    admin.send("/p/demo/admin", "/p/demo/admin/revoke", prefix=token[:16])
    assert service.ask("GET", "/api/v1/whoami", token).status_code == 401
    policy = {"repository": "owner/name", "repository_id": "42", "refs": "refs/heads/main refs/tags/*"}
    admin.send("/p/demo/admin", "/p/demo/admin/jobs", **policy)
    listed = service.ask("GET", "/api/v1/projects/demo/oidc", service.admin).json()["policies"]
    assert [one["refs"] for one in listed] == [["refs/heads/main", "refs/tags/*"]]
    admin.send("/p/demo/admin", "/p/demo/admin/jobs/remove", number=str(listed[0]["id"]))
    assert service.ask("GET", "/api/v1/projects/demo/oidc", service.admin).json()["policies"] == []
    page = admin.get("/p/demo/admin")
    for action in ("token.create", "token.revoke", "oidc.allow", "oidc.remove"):
        assert action in page[page.index('id="audit"') :]


def test_settings_change_what_is_sent_and_a_project_s_admin_cannot_raise_its_quota(service, browser):
    browser.sign_in(service.token("admin", "empty"))
    page, form = "/p/empty/admin", {"title": "Renamed", "owner": "", "repository": "", "public": "yes"}
    browser.send(page, f"{page}/settings", **form, retention_days="90")
    shown = service.ask("GET", "/api/v1/projects/empty", service.admin).json()
    assert (shown["title"], shown["retention_days"], shown["public"]) == ("Renamed", 90, True)
    browser.send(page, f"{page}/settings", 403, **form, quota_mb="999999999")
    browser.send(page, f"{page}/settings", 422, **form, retention_days="0")
    browser.send(page, f"{page}/settings", **form, retention_days="")
    assert service.ask("GET", "/api/v1/projects/empty", service.admin).json()["retention_days"] is None


def test_projects_are_made_on_the_page_and_a_wrong_name_is_told(service, admin):
    admin.send("/", "/projects", name="from-the-page", title="T", public="yes", owner="", repository="")
    assert service.ask("GET", "/api/v1/projects/from-the-page").status_code == 200
    admin.send("/", "/projects", 422, name="Wrong Name")
    admin.send("/", "/projects", 409, name="from-the-page")


PAGE, API = "/p/demo/admin", "/api/v1/projects/demo"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def unset(service):
    """A project with neither webhook nor link, whatever a test before left."""
    for place in ("/webhook", "/github"):
        assert service.ask("DELETE", API + place, service.admin).status_code == 204


def beside_field(page, name):
    """Return what stands behind the field of this name that is marked as wrong, and in no other place."""
    marked = re.findall(r"<input [^>]*aria-invalid[^>]*>", page)
    assert len(marked) == 1
    assert f'name="{name}"' in marked[0]
    assert " autofocus" in marked[0]
    described = re.search(r'aria-describedby="([^ "]+)', marked[0])[1]
    told = re.findall(rf'<p class="wrong" role="alert" id="{described}">([^<]*)</p>', page)
    assert len(told) == page.count('role="alert"') == 1
    return html.unescape(told[0]), marked[0]


def actions(service):
    return [one["action"] for one in service.ask("GET", f"{API}/audit", service.admin).json()["audit"]]


@pytest.mark.usefixtures("unset")
def test_a_webhook_is_set_on_the_page_and_its_secret_shown_once(service, admin):
    """Neither path nor secret are on the page after that; the last message to it is told, and why it was not taken."""
    made = admin.send(PAGE, f"{PAGE}/webhook", 200, url=" https://hooks.example/T0-private-part ", secret="")
    secret = re.search(r"<code>([\w-]{43})</code>", checked(made.text))[1]
    assert made.headers["Cache-Control"] == "no-store"
    assert service.ask("GET", f"{API}/webhook", service.admin).json()["address"] == "https://hooks.example"
    page = checked(admin.get(PAGE))
    assert "<code>https://hooks.example</code>" in page
    assert "waits to be sent" in page
    assert not any(hidden in page for hidden in (secret, "private-part"))
    number = service.service.database.write(lambda connection: notices.claim(connection, service.clock(), 1))[0].id
    settled = {"state": notices.FAILED, "problem": "the receiver answered 410", "next_at": 0, "at": service.clock()}
    service.service.database.write(lambda connection: notices.settle(connection, number, **settled))
    assert "was given up: the receiver answered 410." in admin.get(PAGE)
    admin.send(PAGE, f"{PAGE}/webhook/remove")
    assert service.ask("GET", f"{API}/webhook", service.admin).status_code == 404
    assert actions(service)[:2] == ["webhook.remove", "webhook.set"]


@pytest.mark.usefixtures("unset")
def test_a_secret_that_somebody_chose_is_shown_to_nobody(service, admin):
    """It is used as it was typed."""
    chosen = "correct horse battery staple "
    admin.send(PAGE, f"{PAGE}/webhook", url="https://hooks.example/", secret=chosen)
    (message,) = service.service.database.write(lambda connection: notices.claim(connection, service.clock(), 1))
    assert message.secret == chosen
    assert chosen.strip() not in admin.get(PAGE)


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(
    ("wrong", "form"),
    [
        ("url", {"url": "http://hooks.example/"}),
        ("url", {"url": "https://169.254.169.254/latest/meta-data"}),
        ("url", {"url": "https://user:pass@hooks.example/"}),
        ("url", {"url": f"https://[{MARKUP}"}),
        ("url", {"url": ""}),
        ("url", {}),
        ("secret", {"url": "https://hooks.example/", "secret": "too-short"}),
    ],
)
def test_a_webhook_that_the_api_refuses_is_refused_beside_its_field(service, admin, wrong, form):
    """In the API's words, with what was typed, but for a secret; and nothing is kept."""
    before = actions(service)
    sent = admin.send(PAGE, f"{PAGE}/webhook", 422, **form)
    told, field = beside_field(checked(sent.text), wrong)
    said = service.ask("PUT", f"{API}/webhook", service.admin, json={"url": ""} | form).json()
    assert told == f"{said['error']} {said['advice']}".strip()
    assert "too-short" not in sent.text
    assert (form.get("url", "") in field) is (wrong == "url" and MARKUP not in form.get("url", ""))
    assert sent.headers["Cache-Control"] == "no-store"
    assert service.ask("GET", f"{API}/webhook", service.admin).status_code == 404
    assert actions(service) == before


@pytest.mark.usefixtures("unset")
def test_a_project_is_linked_and_unlinked_on_the_page(service, admin):
    """Which says whom it tells, and that this service cannot, without credentials."""
    link = {"repository": "acme/engine", "repository_id": "4711"}
    admin.send(PAGE, f"{PAGE}/github", **link, tokens="yes")
    shown = service.ask("GET", f"{API}/github", service.admin).json()
    assert (shown["repository"], shown["repository_id"], shown["tokens"]) == ("acme/engine", "4711", True)
    page = checked(admin.get(PAGE))
    assert '<a href="https://github.com/acme/engine">acme/engine</a>, with the id 4711, also for what is pushed' in page
    assert "no credentials for GitHub" in page
    admin.send(PAGE, f"{PAGE}/github", **link)
    assert service.ask("GET", f"{API}/github", service.admin).json()["tokens"] is False
    admin.send(PAGE, f"{PAGE}/github/remove")
    assert service.ask("GET", f"{API}/github", service.admin).status_code == 404
    assert actions(service)[:3] == ["github.unlink", "github.link", "github.link"]


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(
    ("wrong", "form"),
    [
        ("repository", {"repository": "engine", "repository_id": "4711"}),
        ("repository", {"repository": "acme/../x", "repository_id": "4711"}),
        ("repository_id", {"repository": "acme/engine", "repository_id": "acme"}),
        ("repository_id", {"repository": "acme/engine", "repository_id": "0"}),
        ("repository_id", {"repository": "acme/engine", "repository_id": ""}),
    ],
)
def test_a_link_that_is_none_is_refused_beside_its_field(service, admin, wrong, form):
    """With the box that was ticked still ticked."""
    sent = admin.send(PAGE, f"{PAGE}/github", 422, **form, tokens="yes")
    told, field = beside_field(checked(sent.text), wrong)
    assert told
    assert f'value="{form[wrong]}"' in field
    assert re.search(r'<input type="checkbox" name="tokens"[^>]* checked>', sent.text)
    assert service.ask("GET", f"{API}/github", service.admin).status_code == 404


@pytest.mark.usefixtures("unset")
def test_who_manages_one_project_unlinks_it_and_links_it_nowhere(service, browser):
    """The service speaks there under a name of its own; the form is offered to nobody else."""
    link = {"repository": "acme/engine", "repository_id": "4711"}
    service.ask("PUT", f"{API}/github", service.admin, json=link)
    browser.sign_in(service.token("admin", "demo"))
    page = browser.get(PAGE)
    assert f'action="{PAGE}/github"' not in page
    browser.send(PAGE, f"{PAGE}/github", 403, **link)
    browser.send(PAGE, f"{PAGE}/github/remove")
    assert service.ask("GET", f"{API}/github", service.admin).status_code == 404


@pytest.mark.parametrize("scope", ["read", "push"])
def test_who_does_not_manage_a_project_sends_none_of_its_forms(service, browser, scope):
    """Whatever the form says."""
    browser.sign_in(service.token(scope, "demo"))
    for place in ("webhook", "webhook/remove", "github", "github/remove", "settings"):
        browser.send("/", f"{PAGE}/{place}", 403, url="https://hooks.example/", title="x")


def test_the_default_branch_is_changed_on_the_page_and_never_empty(service, admin):
    """What else was typed into the form is kept where one field is refused."""
    said = {"title": "Demo", "owner": "Ada", "repository": "owner/name", "public": "yes"}
    admin.send(PAGE, f"{PAGE}/settings", **said, default_branch=" trunk ")
    assert service.ask("GET", API, service.admin).json()["default_branch"] == "trunk"
    for wrong, given in (("default_branch", ""), ("default_branch", "x" * 201), ("retention_days", "0")):
        form = said | {"title": "Another", "default_branch": "trunk"} | {wrong: given}
        sent = admin.send(PAGE, f"{PAGE}/settings", 422, **form)
        assert beside_field(checked(sent.text), wrong)[0]
        assert 'value="Another"' in sent.text
    shown = service.ask("GET", API, service.admin).json()
    assert (shown["title"], shown["default_branch"]) == ("Demo", "trunk")
    admin.send(PAGE, f"{PAGE}/settings", **said, default_branch="main")
    told = service.ask("GET", f"{API}/audit", service.admin).json()["audit"][0]
    assert (told["action"], told["detail"]) == ("project.change", {"default_branch": "main"})


def test_tokens_and_jobs_that_are_none_are_refused_beside_their_field(admin):
    """As all forms of the page."""
    for wrong, place, form in (
        ("days", "tokens", {"name": "ci", "scope": "push", "days": "0"}),
        ("name", "tokens", {"name": "", "scope": "push", "days": "1"}),
        ("repository_id", "jobs", {"repository": "owner/name", "repository_id": "owner"}),
    ):
        sent = admin.send(PAGE, f"{PAGE}/{place}", 422, **form)
        assert beside_field(checked(sent.text), wrong)[0]
