"""What arrives in a linked project, on GitHub: over HTTP to a stand-in that checks requests against its description."""

import importlib.util
import json
import logging
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from cryptography.hazmat.primitives import serialization
from sqlalchemy import select

from qwenperf.errors import ConfigError, UsageError
from qwenperf.service.db import github as posts
from qwenperf.service.db.tables import metadata
from qwenperf.service.github import access as access_module
from qwenperf.service.github.access import Access, check_credentials
from qwenperf.service.github.posting import post_due
from qwenperf.service.github.wanted import Link, Sent, wanted
from qwenperf.service.judging_runs import judge_arrived
from qwenperf.service.settings import ServiceSettings, from_text, to_text


def _load(name, place):
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / place)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


stand_in = _load("github_stand_in", "forge/stand_in.py")
issuers, running = _load("service_issuer", "service/issuer.py"), _load("service_running", "service/running.py")
REPOSITORY, SHA, OTHER = stand_in.REPOSITORY, stand_in.SHA, stand_in.OTHER
MERGE, SECRET, PUBLIC = "c" * 40, "ghs_secret", "https://perf.example.org"
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


def test_a_project_that_is_not_linked_posts_nothing(demo, github):
    """Whatever a record says of itself."""
    demo.push(demo.run(environment={"GITHUB_REPOSITORY": REPOSITORY, "repository": REPOSITORY}), pull_request=7)
    assert (demo.post(), demo.posts(), github.requests) == (0, [], [])
    demo.ask("GET", "/github", 404)


def test_a_run_is_a_check_and_a_comment_with_a_link_to_its_page(demo, github):
    """On the commit, and on the open pull request whose branch and newest commit it is."""
    demo.link(tokens=True)
    run = demo.push(demo.run(outcome="fail"))
    assert demo.post() == 1
    (check,), (comment,) = github.checks, github.comments
    place = f"{PUBLIC}/p/demo/runs/{run}"
    assert (check["name"], check["head_sha"], check["conclusion"]) == ("qwenperf/demo", SHA, "failure")
    assert (check["details_url"], check["status"]) == (place, "completed")
    assert comment["body"].startswith("<!-- qwenperf: qwenperf-demo -->\n###")
    assert f"[details]({place})" in comment["body"]
    (post,) = demo.posts()
    assert (post["state"], post["run"], post["commit"], post["problem"]) == ("sent", run, SHA, "")
    assert (post["check"], post["comment"]) == ("https://example.test/check/1", "https://example.test/c/1")
    for page in (demo.page(run), demo.page(run, "")):
        assert "GitHub was told." in page
        assert 'href="https://example.test/c/1"' in page
    assert {one["headers"].get("Authorization") for one in github.requests} == {f"Bearer {SECRET}"}


@pytest.mark.parametrize(("outcome", "concluded"), [("pass", "success"), ("inconclusive", "neutral")])
def test_a_required_check_is_red_only_where_a_job_would_fail(demo, github, outcome, concluded):
    """Noise lets a pull request through."""
    demo.link(tokens=True)
    demo.push(demo.run(outcome=outcome))
    demo.post()
    assert [one["conclusion"] for one in github.checks] == [concluded]


def test_a_comparison_is_told_of_its_head(demo, github):
    """Its page is linked; the number of its pull request comes from whoever sent it."""
    demo.link(tokens=True)
    document = demo.documents.comparison()
    document["head"]["commit"]["sha"] = SHA
    name = demo.push(document, kind="comparisons", pull_request=7)
    demo.post()
    assert github.checks[0]["details_url"] == f"{PUBLIC}/p/demo/comparisons/{name}"
    assert len(github.comments) == 1
    answer = demo.server.ask("GET", f"/p/demo/comparisons/{name}", "", headers={"Accept": "text/html"})
    assert "GitHub was told." in answer.text


def test_two_suites_of_a_commit_are_one_check_and_one_comment(demo, github):
    """A green one does not hide a red one, and a run that was measured again counts instead of the first."""
    demo.link(tokens=True)
    demo.push(demo.run(1, outcome="fail", suite="smoke"))
    demo.push(demo.run(2, outcome="pass", suite="ladder"))
    assert demo.post() == 2
    assert [one["conclusion"] for one in github.checks] == ["failure"]
    (comment,) = github.comments
    assert comment["body"].index("suite `smoke`") < comment["body"].index("suite `ladder`")
    demo.push(demo.run(3, outcome="pass", suite="smoke"))
    demo.post()
    assert [one["conclusion"] for one in github.checks] == ["failure", "success"]
    (comment,) = github.comments
    assert "run-000001" not in comment["body"]
    assert comment["body"].count("suite `") == 2


def test_a_pull_request_of_a_fork_is_found_by_its_number_and_never_by_its_branch(demo, github):
    """Anybody may name a branch of theirs like one of ours; a number that is not this commit's changes nothing."""
    demo.link(tokens=True)
    github.pulls[0]["head"] = stand_in.FORK
    demo.push(demo.run(1))
    demo.post()
    assert (len(github.checks), len(github.comments)) == (1, 0)
    demo.push(demo.run(2, sha=OTHER, suite="other"), pull_request=7)
    demo.post()
    assert (len(github.checks), len(github.comments)) == (2, 0)
    demo.push(demo.run(3, suite="third"), pull_request=7)
    demo.post()
    assert (len(github.checks), len(github.comments)) == (3, 1)


def test_a_run_is_told_of_as_the_project_s_budgets_judge_it(demo, github):
    """Not as it judged itself; a budget for another suite is no fault of this one."""
    budgets = {"tiny/*": {"compiles_steady": {"max": 0}}, "elsewhere/*": {"compiles_steady": {"max": 0}}}
    demo.ask("PATCH", "", 200, json={"budgets": budgets})
    demo.link(tokens=True)
    for number, compiles in enumerate((2, 0)):
        run = demo.documents.run(number, branch="topic", compiles_steady=compiles)
        run["commit"]["sha"] = SHA
        demo.push(run)
        demo.post()
    assert github.checks[0]["conclusion"] == "failure"
    assert github.checks[1]["conclusion"] != "failure"


def test_a_post_is_one_worker_s_and_a_dead_one_s_is_another_s(demo):
    """Two at once would overwrite what each other said; other projects do not wait for it."""
    demo.link(tokens=True)
    for number in range(2):
        demo.push(demo.run(number))

    def claimed():
        now = demo.server.clock()
        return demo.server.service.database.write(lambda connection: posts.claim(connection, now, judges=False))

    first = claimed()
    assert (first.tries, claimed()) == (1, None)
    demo.server.clock.ahead_s += 301
    again = claimed()
    assert (again.id, again.tries, claimed()) == (first.id, 2, None)


def test_a_long_queue_of_one_project_keeps_no_other_waiting(demo, monkeypatch):
    """While one of its posts is under way, the rest of its queue is not looked at."""
    monkeypatch.setattr(posts, "_CANDIDATES", 1)
    demo.link(tokens=True)
    for number in range(2):
        demo.push(demo.run(number))
    admin, service = demo.server.admin, demo.server.service
    link = {"repository": REPOSITORY, "repository_id": "4711", "tokens": True}
    for method, path, sent in (
        ("POST", "", {"project": "other"}), ("PUT", "/other/github", link), ("POST", "/other/runs", demo.run(3)),
    ):  # fmt: skip
        assert demo.server.ask(method, f"/api/v1/projects{path}", admin, json=sent).is_success

    def claimed():
        now = demo.server.clock()
        return service.database.write(lambda connection: posts.claim(connection, now, judges=False))

    assert [claimed().project for _ in range(2)] == ["demo", "other"]
    assert claimed() is None


def test_the_same_record_again_is_told_once(demo, github):
    """A push that is tried again adds nothing."""
    demo.link(tokens=True)
    for _ in range(2):
        demo.push(demo.run())
        demo.post()
    assert len(github.checks) == len(github.comments) == len(demo.posts()) == 1


def test_tokens_do_not_count_unless_an_admin_says_so(demo, github):
    """Only GitHub's word for a job does; the page says why to who can change that, and to nobody else."""
    demo.link()
    run = demo.push(demo.run(), pull_request=7, head_sha=SHA)
    assert (demo.post(), github.requests) == (0, [])
    assert [one["state"] for one in demo.posts()] == ["refused"]
    assert "pushed with a token" in demo.page(run)
    assert "pushed with a token" not in demo.page(run, "")


def test_a_job_of_a_pull_request_is_told_of_at_its_head(demo, github):
    """What it measured is a merge that nobody sees: GitHub says of which head, and the record's branch says nothing."""
    demo.link()
    token = demo.job(ref="refs/pull/7/merge", sha=MERGE, event_name="pull_request")
    demo.push(demo.run(sha=MERGE, branch="HEAD"), token)
    demo.post()
    assert [one["head_sha"] for one in github.checks] == [SHA]
    assert len(github.comments) == 1
    assert [(one["commit"], one["pull_request"]) for one in demo.posts()] == [(SHA, 7)]


@pytest.mark.parametrize(("said", "told"), [({}, 0), ({"head_sha": OTHER}, 0), ({"head_sha": SHA}, 1)])
def test_a_pull_request_that_moved_on_keeps_what_its_newest_commit_says(demo, github, said, told):
    """The merge is another: of a newer commit, or of a newer base, which only the job can tell apart."""
    demo.link()
    github.merge = "d" * 40
    token = demo.job(ref="refs/pull/7/merge", sha=MERGE, event_name="pull_request")
    demo.push(demo.run(sha=MERGE), token, **said)
    demo.post()
    assert len(github.checks) == len(github.comments) == told
    assert [one["state"] for one in demo.posts()] == ["sent" if told else "failed"]


def test_a_merge_that_github_has_not_made_anew_yet_says_nothing_of_the_new_head(demo, github):
    """Right after a push the pull request has the new head and the old head's merge."""
    demo.link()
    token = demo.job(ref="refs/pull/7/merge", sha=MERGE, event_name="pull_request")
    demo.push(demo.run(sha=MERGE), token, head_sha=OTHER)
    demo.post()
    assert github.checks == []
    assert [one["state"] for one in demo.posts()] == ["failed"]


def test_a_job_of_a_branch_is_told_of_at_its_commit(demo, github):
    """And in the pull request of that branch."""
    demo.link()
    demo.push(demo.run(branch="other"), demo.job(ref="refs/heads/topic", sha=SHA, event_name="push"))
    demo.post()
    assert ([one["head_sha"] for one in github.checks], len(github.comments)) == ([SHA], 1)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"repository_id": "1", "repository": "acme/other"}, "a job of acme/other pushed it"),
        ({"event_name": "workflow_run"}, "may carry a stranger's record"),
        ({"event_name": "pull_request_target"}, "may carry a stranger's record"),
        ({"sha": OTHER}, f"it is of commit {SHA[:12]}, and the job that pushed it is of {OTHER[:12]}"),
        ({"ref": "refs/pull/7/merge", "sha": MERGE}, "it is of commit"),
    ],
)
def test_a_record_that_its_job_does_not_vouch_for_is_not_told_of(demo, github, claims, why):
    """A job may carry what a stranger's code wrote, about any commit and any pull request."""
    demo.link()
    token = demo.job(**{"ref": "refs/heads/main", "sha": SHA, "event_name": "push"} | claims)
    demo.push(demo.run(), token, pull_request=7)
    assert (demo.post(), github.requests) == (0, [])
    (post,) = demo.posts()
    assert post["state"] == "refused"
    assert why in post["problem"]


def test_a_repository_that_took_over_the_name_is_told_nothing(demo, github):
    """An id cannot be taken over."""
    demo.link(tokens=True)
    github.number = 4712
    demo.push(demo.run())
    demo.post()
    assert (github.checks, github.comments) == ([], [])
    assert "id 4712, and not 4711" in demo.posts()[0]["problem"]


def test_a_project_that_is_linked_elsewhere_meanwhile_tells_nobody(demo, github):
    """What was meant for one repository is nobody else's business."""
    demo.link(tokens=True)
    demo.push(demo.run())
    demo.link(tokens=True, repository="acme/other", repository_id="5")
    demo.post()
    assert github.requests == []
    assert "another repository by now" in demo.posts()[0]["problem"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_github_that_is_away_is_told_later(demo, github, status):
    """The record is there at once; what waits, and why, is in the list, on the page and in the numbers."""
    demo.link(tokens=True)
    github.fail("GET .*", status)
    run = demo.push(demo.run())
    assert demo.post() == 1
    (post,) = demo.posts()
    assert (post["state"], post["tries"]) == ("waiting", 1)
    assert f"{status} Bad" in post["problem"]
    assert "GitHub will be told." in demo.page(run)
    assert demo.post() == 0
    demo.server.clock.ahead_s += 3600
    assert demo.post() == 1
    assert len(github.checks) == len(github.comments) == 1
    assert [(one["state"], one["tries"], one["problem"]) for one in demo.posts()] == [("sent", 2, "")]
    numbers = demo.server.ask("GET", "/metrics", demo.server.admin).text
    assert 'qwenperf_github_tries_total{state="waiting"} 1' in numbers
    assert 'qwenperf_github_tries_total{state="sent"} 1' in numbers


def test_a_limit_is_waited_for(demo, github):
    """As long as GitHub asks."""
    demo.link(tokens=True)
    github.fail("POST .*/check-runs", 403, "API rate limit exceeded", Retry_After="1800")
    demo.push(demo.run())
    demo.post()
    demo.server.clock.ahead_s += 1790
    assert demo.post() == 0
    demo.server.clock.ahead_s += 20
    assert demo.post() == 1
    assert len(github.checks) == 1


def test_a_check_whose_answer_was_lost_is_not_made_twice(demo, github):
    """The next try finds it by its id."""
    demo.link(tokens=True)
    github.fail("POST .*/check-runs", 502, after=True)
    demo.push(demo.run())
    demo.post()
    demo.server.clock.ahead_s += 3600
    demo.post()
    assert len(github.checks) == len(github.comments) == 1
    assert demo.posts()[0]["check"] == "https://example.test/check/1"


def test_what_is_given_up_is_said(demo, github):
    """After half a day or so."""
    demo.link(tokens=True)
    github.fail("GET .*", 502, times=20)
    demo.push(demo.run())
    tries = 0
    for _ in range(20):
        tries += demo.post()
        demo.server.clock.ahead_s += 7200
    assert tries == 16
    assert [one["state"] for one in demo.posts()] == ["failed"]


def test_a_refusal_is_final_and_told_without_the_token(demo, github, caplog):
    """A token of a person may comment and make no checks: the comment comes all the same."""
    demo.link(tokens=True)
    github.fail("POST .*/check-runs", 403, "Resource not accessible by personal access token")
    run = demo.push(demo.run())
    with caplog.at_level(logging.INFO):
        demo.post()
    (post,) = demo.posts()
    assert (post["state"], post["comment"]) == ("failed", "https://example.test/c/1")
    assert "no check: " in post["problem"]
    assert "GitHub was not told of commit" in caplog.text
    assert SECRET not in caplog.text + demo.page(run) + json.dumps(demo.posts())


def test_no_credential_is_in_the_database(demo):
    """Nor in what the settings say of themselves; worker processes get it all the same."""
    demo.link(tokens=True)
    demo.push(demo.run())
    demo.post()
    with demo.server.service.database.read() as connection:
        rows = [str(row) for table in metadata.sorted_tables for row in connection.execute(select(table))]
    assert any(REPOSITORY in row for row in rows)
    assert not any(SECRET in row for row in rows)
    settings = demo.server.service.settings
    assert SECRET not in repr(settings)
    assert from_text(to_text(settings)) == settings


def test_an_app_has_a_token_of_the_linked_repository_alone(serving, github, tmp_path):
    """By its number; and asks for the next one when that has grown old, and not for each post."""
    kind, no = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    pem = issuers.key("app").private_bytes(serialization.Encoding.PEM, kind, no)
    (tmp_path / "app.pem").write_bytes(pem)
    for demo in serving(github_token="", github_app_id="123", github_app_key=str(tmp_path / "app.pem")):
        demo.link(tokens=True)
        for number in range(2):
            demo.push(demo.run(number, suite=f"s{number}"))
            demo.post()
        asked = [one["body"] for one in github.requests if one["path"].endswith("/access_tokens")]
        assert asked == [{"repository_ids": [4711], "permissions": {"checks": "write", "pull_requests": "write"}}]
        assert len(github.comments) == 1


def test_a_key_that_went_away_is_looked_for_again(serving, github, tmp_path):
    """An operator mends that; what waits is told then."""
    for demo in serving(github_token="", github_app_id="123", github_app_key=str(tmp_path / "gone.pem")):
        demo.link(tokens=True)
        demo.push(demo.run())
        demo.post()
        assert (demo.posts()[0]["state"], github.requests) == ("waiting", [])


def test_a_run_is_told_of_as_it_was_judged_here(serving):
    """It waits for that, but not for ever."""
    for demo in serving(judge=True):
        demo.link(tokens=True)
        demo.push(demo.run(1))
        assert demo.post() == 0
        judge_arrived(demo.server.service)
        assert demo.post() == 1
        demo.push(demo.run(2, suite="other"))
        assert demo.post() == 0
        demo.server.clock.ahead_s += 61
        assert demo.post() == 1


def test_the_service_posts_by_itself(serving, github):
    """A thread beside the answers does; what it is told of a commit arrives without anybody asking."""
    for demo in serving(sweep_s=60.0):
        demo.link(tokens=True)
        demo.push(demo.run())
        ends = time.monotonic() + 20
        while not github.comments and time.monotonic() < ends:
            time.sleep(0.05)
        assert len(github.comments) == 1


def test_only_who_looks_after_the_service_links_a_project(demo):
    """It posts under a name of its own: a project's admin must not choose where; to end it they may."""
    mine = {"repository": REPOSITORY, "repository_id": "4711"}
    admin, pusher = demo.server.token("admin", "demo"), demo.server.token("push", "demo")
    demo.ask("PUT", "/github", 403, admin, json=mine)
    demo.ask("PUT", "/github", 403, pusher, json=mine)
    demo.ask("GET", "/github", 403, pusher)
    demo.link()
    assert demo.ask("GET", "/github", 200, admin).json()["check"] == "qwenperf/demo"
    demo.ask("DELETE", "/github", 204, admin)
    demo.ask("GET", "/github", 404, admin)
    actions = [one["action"] for one in demo.ask("GET", "/audit", 200).json()["audit"]]
    assert actions[:2] == ["github.unlink", "github.link"]


@pytest.mark.parametrize(
    "more",
    [
        {"repository": "engine"},
        {"repository": "acme/../x"},
        {"repository_id": "acme"},
        {"repository_id": "0"},
        {"repository_id": "\N{SUPERSCRIPT TWO}"},
        {"tokens": "yes"},
        {"secret": "x"},
    ],
)
def test_a_link_that_is_none_is_refused(demo, more):
    """In words."""
    demo.ask("PUT", "/github", 422, json={"repository": REPOSITORY, "repository_id": "4711"} | more)


def test_what_is_sent_beside_a_record_is_checked(demo):
    """A pull request is a number, a commit has all its digits."""
    for query in ({"pull_request": "0"}, {"pull_request": "x"}, {"head_sha": "main"}):
        demo.ask("POST", "/runs", 422, json=demo.run(), params=query)


@pytest.mark.parametrize("given", [{"github_app_id": "1"}, {"github_app_key": "app.pem"}])
def test_half_of_an_app_does_not_start(given):
    """The other half is named."""
    with pytest.raises(ConfigError, match="half"):
        check_credentials(ServiceSettings(data=Path(), **given))


def test_a_key_that_cannot_be_read_does_not_start(tmp_path):
    """Better now than at the first run."""
    settings = ServiceSettings(data=Path(), github_app_id="1", github_app_key=str(tmp_path / "none.pem"))
    with pytest.raises(UsageError, match=r"none\.pem"):
        check_credentials(settings)
    whole = replace(settings, github_app_id="", github_app_key="", github_token=f"{SECRET}\n")
    check_credentials(whole)
    with pytest.raises(UsageError, match="no address of an API"):
        check_credentials(replace(whole, github_api_url="github.com"))
    with pytest.raises(ConfigError) as caught:
        check_credentials(replace(whole, github_token=f"{SECRET} more"))
    assert SECRET not in str(caught.value)


def test_a_record_without_a_commit_is_its_job_s():
    """Files of other tools name none; a token vouches for nothing."""
    job = {"repository_id": "1", "event_name": "push", "sha": SHA, "ref": "refs/heads/main"}
    link = Link(repository_id="1", repository=REPOSITORY, tokens=True)
    assert wanted(link, Sent(commit="", kind="oidc", job=job)).sha == SHA
    assert "names no commit" in wanted(link, Sent(commit="", job={})).refused
    assert "names no commit" in wanted(link, Sent(commit=SHA[:12], job={})).refused
