"""A service that is linked to a GitHub on this machine, which checks requests against its own description."""

import importlib.util
import sys
from pathlib import Path

import pytest

from qwenperf.service.github import access as access_module
from qwenperf.service.github.access import Access
from qwenperf.service.github.posting import post_due
from qwenperf.service.settings import ServiceSettings


def _load(name, place):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / place)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


stand_in = _load("github_stand_in", "forge/stand_in.py")
issuers, running = _load("service_issuer", "service/issuer.py"), _load("service_running", "service/running.py")
REPOSITORY, SHA = stand_in.REPOSITORY, stand_in.SHA
SECRET, PUBLIC = "ghs_secret", "https://perf.example.org"
PROJECT = "/api/v1/projects/demo"


@pytest.fixture
def github():
    """A repository with a pull request of a branch of its own, which is asked for nothing that GitHub has not."""
    server = stand_in.GitHubStandIn()
    server.pulls[0]["head"] = REPOSITORY
    yield server
    server.close()
    assert server.troubles == []


@pytest.fixture(scope="module")
def issuer():
    with issuers.running() as found:
        yield found


@pytest.fixture(autouse=True)
def no_patience(monkeypatch):
    """A request that fails is tried again by the job, and not within it: tests wait for nothing."""
    monkeypatch.setattr(access_module, "PATIENCE_S", 0.0)


class Linked:
    """A service with a project, and what one does with both."""

    secret, public_url = SECRET, PUBLIC

    def __init__(self, server, documents):
        self.server, self.documents = server, documents
        self.access = Access(settings=server.service.settings)

    def ask(self, method, path, status, token=None, **more):
        """Ask for something of the project, and hold the answer to its status."""
        answer = self.server.ask(method, f"{PROJECT}{path}", token or self.server.admin, **more)
        assert answer.status_code == status, answer.text
        return answer

    def link(self, **more):
        """Link the project to the stand-in's repository."""
        self.ask("PUT", "/github", 200, json={"repository": REPOSITORY, "repository_id": "4711"} | more)

    def run(self, number=1, *, sha=SHA, branch="topic", outcome="pass", suite="smoke", **more):
        """Return a run of a commit."""
        made = self.documents.run(number, branch=branch)
        made["commit"]["sha"], made["suite"] = sha, suite
        made["cases"][0]["verdicts"][0]["outcome"] = outcome
        return made | more

    def push(self, document, token=None, kind="runs", **query):
        """Send a record, which GitHub's state never keeps anybody from doing."""
        status = {200, 201}
        answer = self.server.ask("POST", f"{PROJECT}/{kind}", token or self.server.admin, json=document, params=query)
        assert answer.status_code in status, answer.text
        return answer.json()["records"][0]["id"]

    def job(self, **claims):
        """Return the token of a job with these claims."""
        told = {"repository": REPOSITORY} | claims
        who = {"repository": told["repository"], "repository_id": told.get("repository_id", "4711")}
        self.ask("POST", "/oidc", 201, json=who)
        identity = self.server.issuer.sign(**told)
        answer = self.server.ask("POST", "/api/v1/oidc/exchange", json={"project": "demo", "token": identity})
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]

    def post(self):
        """Do what the job does, once."""
        return post_due(self.server.service, self.access)

    def posts(self):
        """Return what the list of posts says, the first one first."""
        return self.ask("GET", "/github/posts", 200).json()["posts"][::-1]

    def page(self, run, token=None):
        """Return the page of a run, as an admin sees it or who has another token."""
        token = self.server.admin if token is None else token
        return self.server.ask("GET", f"/p/demo/runs/{run}", token, headers={"Accept": "text/html"}).text


@pytest.fixture
def settings_of(database_url, tmp_path, github, issuer):
    """What makes settings of a service whose threads stand still."""
    usual = {"sweep_s": 0, "judge": False, "github_token": SECRET}
    return lambda **more: ServiceSettings(
        data=tmp_path / "data", database=database_url, pool_size=6, github_api_url=github.url, public_url=PUBLIC,
        oidc_issuer=issuer.url, oidc_audience=issuers.AUDIENCE, **usual | more,
    )  # fmt: skip


@pytest.fixture
def serving(settings_of, issuer, documents):
    """What serves a project ``demo``, with settings besides."""

    def made(**more):
        with running.serving(settings_of(**more), issuer=issuer) as found:
            found.ask("POST", "/api/v1/projects", found.admin, json={"project": "demo", "public": True})
            yield Linked(found, documents)

    return made


@pytest.fixture
def demo(serving):
    yield from serving()
