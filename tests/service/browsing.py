"""What tests of pages share: a browser without a screen, what a page must keep to, and a service without runs."""

import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside this one."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


running, filled = beside("running"), beside("filled")


@pytest.fixture(scope="module", params=running.DATABASES)
def service(request, tmp_path_factory):
    """A service with two public projects and a private one, all of them without runs."""
    folder = tmp_path_factory.mktemp("forms")
    with running.database(request) as database:
        settings = ServiceSettings(data=folder, database=database, judge=False, sweep_s=0, anonymous_burst=10_000)
        with running.serving(settings) as found:
            filled.make_project(found, "demo", public=True, title="Demo of decoding", repository="owner/name")
            filled.make_project(found, "empty", public=True)
            filled.make_project(found, "private")
            yield found


class Browser:
    """Cookies, forms and links, without a screen."""

    def __init__(self, service):
        # Reading certificates that nobody shows takes longer than a test.
        self.client = httpx.Client(base_url=service.url, headers={"Accept": "text/html"}, timeout=20, verify=False)

    def get(self, path, status=200):
        """Return a page's text."""
        answer = self.client.get(path, follow_redirects=True)
        assert answer.status_code == status, (path, answer.status_code, answer.text[:500])
        return answer.text

    def send(self, page, action, status=303, **fields):
        """Send the form of ``page`` that goes to ``action``."""
        csrf = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get(page))
        sent = self.client.post(action, data={"csrf": csrf[1] if csrf else ""} | fields)
        assert sent.status_code == status, (sent.status_code, sent.text[:800])
        return sent

    def sign_in(self, token, status=303):
        """Sign in with a token."""
        return self.send("/login", "/login", status, token=token, next="/")


@pytest.fixture
def browser(service):
    found = Browser(service)
    yield found
    found.client.close()


@pytest.fixture
def admin(service, browser):
    browser.sign_in(service.admin)
    return browser


VOID = {"meta", "wbr", "link", "input", "br", "img", "hr", "circle", "rect", "line", "path", "polyline"}


class Strict(HTMLParser):
    """Collects what a strict policy forbids, and whether elements close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        """Look at an element."""
        names = dict(attrs)
        self.wrong += [f"{tag} {name}" for name in names if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and not (names.get("src") or "").startswith("/static/")):
            self.wrong.append(f"inline {tag}")
        if tag == "img" or (names.get("href") or "").startswith(("javascript:", "data:")):
            self.wrong.append(f"{tag} {names}")
        if "id" in names:
            self.ids.append(names["id"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Look at an element that closes itself."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        """Hold an end to its beginning."""
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.wrong.append(f"{tag} closes what it did not open")


def checked(html):
    """Return a page's text after holding it to the policy."""
    parser = Strict()
    parser.feed(html)
    assert parser.wrong == []
    assert len(set(parser.ids)) == len(parser.ids)
    return html
