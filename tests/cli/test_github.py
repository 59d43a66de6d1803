"""``qwenperf github``: what is posted where, over HTTP to a stand-in, and what the command ends with."""

import importlib.util
import io
import json
import os
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from qwenperf.cli import main
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import Outcome, Verdict


def _load(name, place):
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / place)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


samples = _load("sample_records_of_github", "report/sample_records.py")
stand_in = _load("github_stand_in", "forge/stand_in.py")
REPOSITORY, SHA, OTHER = stand_in.REPOSITORY, stand_in.SHA, stand_in.OTHER
NOISY = Verdict(gate="speed", outcome=Outcome.INCONCLUSIVE, summary="too noisy to tell")


@pytest.fixture
def github():
    """A GitHub that is asked for nothing which its description does not have."""
    server = stand_in.GitHubStandIn()
    yield server
    server.close()
    assert server.troubles == []


@pytest.fixture
def job(github, tmp_path, monkeypatch):
    """The environment of a job that a pull request of the repository itself started."""
    event = {"number": 7, "pull_request": {"head": {"sha": SHA}}, "repository": {"full_name": REPOSITORY}}
    for name in ("QWENPERF_GITHUB_APP_ID", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    told = {
        "API_URL": github.url,
        "EVENT_NAME": "pull_request",
        "EVENT_PATH": str(tmp_path / "event.json"),
        "REPOSITORY": REPOSITORY,
        "RUN_ID": "55",
        "SERVER_URL": "https://github.test",
        "SHA": "c" * 40,
        "STEP_SUMMARY": str(tmp_path / "summary.md"),
        "TOKEN": "ghs_secret",
    }
    for name, value in told.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    (tmp_path / "event.json").write_text(json.dumps(event))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fork(job, monkeypatch):
    """The environment of the job that reports what a fork's pull request measured."""
    run = {
        "id": 77,
        "event": "pull_request",
        "head_sha": SHA,
        "head_branch": "topic",
        "head_repository": {"full_name": stand_in.FORK},
    }
    (job / "event.json").write_text(json.dumps({"workflow_run": run, "repository": {"full_name": REPOSITORY}}))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_run")
    return job


@pytest.fixture
def call(capsys):
    """Run the command here; return its exit code, output and errors."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["github", *map(str, arguments)])
        return end.value.code, *capsys.readouterr()

    return run


def saved(folder, record, name="run.json"):
    """Write a record and return its folder."""
    (folder / "R").mkdir(exist_ok=True)
    (folder / "R" / name).write_text(dumps(record))
    return folder / "R"


def zipped(*members):
    """Return a .zip."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as made:
        for name, text in members:
            made.writestr(name, text)
    return data.getvalue()


def test_a_run_that_failed_is_a_red_check_and_a_comment(job, github, call):
    """On the head of the pull request, with a link to the job, and in the job's own summary."""
    code, out, _ = call(saved(job, samples.run()), "--summary")
    (check,) = github.checks
    assert (code, check["head_sha"], check["conclusion"]) == (1, SHA, "failure")
    assert check["details_url"] == "https://github.test/acme/engine/actions/runs/55"
    assert check["output"]["annotations"][0]["annotation_level"] == "failure"
    (comment,) = github.comments
    assert (job / "summary.md").read_text() in comment["body"]
    assert out.splitlines()[1:] == ["https://example.test/check/1", "https://example.test/c/1"]


@pytest.mark.parametrize(
    ("verdicts", "flags", "code", "conclusion"),
    [
        (None, (), 0, "success"),
        ((NOISY,), (), 0, "neutral"),
        ((NOISY,), ("--inconclusive", "fail"), 3, "failure"),
        ((samples.FAILED,), (), 1, "failure"),
    ],
)
def test_the_check_is_as_the_record_was_judged(job, github, call, verdicts, flags, code, conclusion):
    """A required check is red exactly where the command is."""
    folder = saved(job, samples.run(samples.case(verdicts=verdicts)))
    ended, out, _ = call(folder, "--json", *flags)
    assert (ended, github.checks[0]["conclusion"]) == (code, conclusion)
    told = json.loads(out)
    assert (told["exit_code"], told["conclusion"], told["problems"]) == (code, conclusion, [])


def test_noise_is_judged_as_the_project_says(job, github, call, monkeypatch):
    """As the command that measured was: else a required check lets through what ended with an error."""
    folder = saved(job, samples.run(samples.case(verdicts=(NOISY,))))
    (job / "pyproject.toml").write_text('[tool.qwenperf]\ninconclusive = "fail"\n')
    assert call(folder)[0] == 3
    monkeypatch.setenv("QWENPERF_INCONCLUSIVE", "warn")
    assert call(folder)[0] == 0
    assert [one["conclusion"] for one in github.checks] == ["failure", "neutral"]


def test_a_comparison_is_reported_too(job, github, call):
    """12% slower, confirmed."""
    code, _, _ = call(saved(job, samples.comparison(), "comparison.json"), "--name", "speed")
    assert (code, github.checks[0]["name"]) == (1, "speed")
    assert "takes 12\\.0% longer" in github.comments[0]["body"]


@pytest.mark.parametrize(("strict", "code"), [((), 0), (("--strict",), 4)])
def test_a_post_that_fails_changes_no_verdict(job, github, call, strict, code):
    """It is a warning, unless one asks for more."""
    github.fail(".*", 502, times=100)
    folder = saved(job, samples.run(samples.case()))
    ended, _, err = call(folder, "--patience", 0, *strict)
    assert ended == code
    assert "warning: no check: POST /repos/acme/engine/check-runs: 502 Bad; gave up." in err
    assert "warning: no comment" in err


def test_a_failed_gate_wins_over_a_failed_post(job, github, call):
    """--strict adds an error and hides none."""
    github.fail(".*", 403, times=100)
    assert call(saved(job, samples.run()), "--strict")[0] == 1


def test_without_a_token_nothing_is_asked(job, github, call, monkeypatch):
    """A fork's job has none, or one that may not write."""
    monkeypatch.delenv("GITHUB_TOKEN")
    code, _, err = call(saved(job, samples.run(samples.case())))
    assert (code, github.requests) == (0, [])
    assert "nothing was posted: there is no token; set $GITHUB_TOKEN." in err


def test_an_app_whose_key_is_none_changes_no_verdict(job, github, call, monkeypatch):
    """And the summary of the job is written all the same."""
    monkeypatch.setenv("QWENPERF_GITHUB_APP_KEY", "no key")
    code, _, err = call(saved(job, samples.run(samples.case())), "--app-id", "12", "--summary")
    assert code == 0
    assert "nothing was posted: the app's private key is none." in err
    assert "The case passed" in Path(os.environ["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    assert github.requests == []


def test_a_token_is_taken_without_the_newline_that_it_was_pasted_with(job, github, call, monkeypatch):
    """And one that no header can hold costs the post, not the verdict; nobody repeats it."""
    folder = saved(job, samples.run(samples.case()))
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret\n")
    assert call(folder)[0] == 0
    assert {one["headers"]["Authorization"] for one in github.requests} == {"Bearer ghs_secret"}
    monkeypatch.setenv("GITHUB_TOKEN", "ghs_secret ghs_secret")
    code, out, err = call(folder)
    assert (code, len(github.checks)) == (0, 1)
    assert "warning: no check: the token has a character that no token has." in err
    assert "ghs_secret" not in out + err


def test_dry_run_prints_the_requests(job, github, call, monkeypatch):
    """No token and no network are needed to see what would be sent."""
    monkeypatch.delenv("GITHUB_TOKEN")
    code, out, _ = call(saved(job, samples.run()), "--dry-run")
    requests = json.loads(out)
    assert [(one["method"], one["path"]) for one in requests] == [
        ("POST", "/repos/acme/engine/check-runs"),
        ("GET", "/repos/acme/engine/pulls/7"),
        ("GET", "/repos/acme/engine/issues/7/comments"),
        ("POST", "/repos/acme/engine/issues/7/comments"),
    ]
    assert (code, github.requests) == (1, [])


@pytest.mark.usefixtures("fork")
def test_a_fork_s_artifact_is_reported_where_the_event_says(github, call):
    """Whatever else the archive holds, a number of another pull request included."""
    evil = samples.case("4x128/cached/@acme", trace=False)
    members = [("pr-number.txt", "1"), ("event.json", "{}"), ("R/run.json", dumps(samples.run(evil)))]
    github.artifacts[3] = ("qwenperf", zipped(*members))
    code, _, _ = call("--artifact", "qwenperf")
    (check,) = github.checks
    assert (code, check["head_sha"], check["conclusion"]) == (0, SHA, "success")
    assert check["details_url"] == "https://github.test/acme/engine/actions/runs/77"
    assert github.asked()["POST /repos/acme/engine/issues/N/comments"] == 1
    assert "/repos/acme/engine/issues/7/comments" in {one["path"] for one in github.requests}


@pytest.mark.usefixtures("fork")
@pytest.mark.parametrize(
    ("artifacts", "told"),
    [
        ({}, "has no artifact"),
        ({3: ("qwenperf", b"junk")}, "is no archive"),
        ({3: ("qwenperf", zipped(("run.json", "{")))}, "is not JSON"),
        ({3: ("qwenperf", zipped(("run.json", "[" * 100_000)))}, "is not JSON"),
        ({3: ("qwenperf", zipped(("../run.json", "{}")))}, "lies outside"),
    ],
)
def test_a_required_check_comes_in_any_case(github, call, artifacts, told):
    """Red and with the reason: one that never comes would keep the pull request waiting."""
    github.artifacts.update(artifacts)
    code, _, err = call("--artifact", "qwenperf")
    (check,) = github.checks
    assert (code, check["conclusion"]) == (2, "failure")
    assert told in err
    assert told in check["output"]["title"]


@pytest.mark.usefixtures("fork")
@pytest.mark.parametrize(
    ("trouble", "code", "told"),
    [((b"x" * 1_001, 200), 2, "larger than 1,000 bytes"), ((b"junk", 410), 4, "410")],
)
def test_an_artifact_that_github_does_not_give_makes_a_red_check(github, call, monkeypatch, trouble, code, told):
    """One that is too large, or gone for good: nothing comes later in its place."""
    data, status = trouble
    github.artifacts[3] = ("qwenperf", data)
    monkeypatch.setattr("qwenperf.forge.artifact.MOST_ARCHIVE", 1_000)
    if status != 200:
        github.fail("GET .*/zip", status)
    ended, _, err = call("--artifact", "qwenperf")
    (check,) = github.checks
    assert (ended, check["conclusion"], told in check["output"]["title"], told in err) == (code, "failure", True, True)


@pytest.mark.usefixtures("fork")
@pytest.mark.parametrize("flag", [("--sha", OTHER), ("--pull-request", "1")])
def test_nobody_talks_a_fork_s_report_elsewhere(github, call, flag):
    """A number out of an artifact is what an attacker writes."""
    code, _, err = call("--artifact", "qwenperf", *flag)
    assert (code, github.requests) == (2, [])
    assert "do not go with a workflow_run event" in err


def test_outside_of_github_s_jobs_everything_is_typed(job, github, call, monkeypatch):
    """Any CI may report."""
    for name in ("EVENT_PATH", "EVENT_NAME", "REPOSITORY", "SHA", "SERVER_URL"):
        monkeypatch.delenv(f"GITHUB_{name}")
    folder = saved(job, samples.run(samples.case()))
    code, _, _ = call(folder, "--repository", REPOSITORY, "--sha", SHA, "--pull-request", 7)
    assert (code, len(github.checks), len(github.comments)) == (0, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "nothing to report"),
        (("R", "--artifact", "x"), "twice"),
        (("--artifact", "x", "--dry-run"), "asks nobody"),
        (("missing",), "cannot read"),
        (("R", "--event", "missing"), "cannot read the event"),
        (("R", "--repository", "acme/other"), "about acme/engine, and not about acme/other"),
    ],
)
def test_what_cannot_be_is_one_line(job, github, call, arguments, told):
    """With what to do, and before any request."""
    saved(job, samples.run())
    code, _, err = call(*arguments)
    assert (code, github.requests) == (2, [])
    assert told in err
    assert len(err.splitlines()) == 1


def test_an_archive_may_be_a_file(job, github, call):
    """Of another CI's artifact."""
    (job / "R.zip").write_bytes(zipped(("run.json", dumps(samples.run()))))
    assert call(job / "R.zip")[0] == 1
    assert len(github.comments) == 1


def test_a_dry_run_outside_of_github_s_jobs_goes_by_the_record(job, github, call, monkeypatch):
    """Its commit is what nobody else says; what is posted for real is said by somebody."""
    for name in ("EVENT_PATH", "EVENT_NAME", "REPOSITORY", "SHA", "SERVER_URL"):
        monkeypatch.delenv(f"GITHUB_{name}")
    folder = saved(job, replace(samples.run(samples.case()), commit={"sha": OTHER}))
    code, out, _ = call(folder, "--repository", REPOSITORY, "--dry-run")
    assert (code, json.loads(out)[0]["body"]["head_sha"]) == (0, OTHER)
    code, _, err = call(folder, "--dry-run")
    assert (code, "no repository is named. Give --repository OWNER/NAME, or set GITHUB_REPOSITORY." in err) == (2, True)
    code, _, err = call(folder, "--repository", REPOSITORY)
    assert (code, "no commit is named. Give --sha with all 40 digits, or set GITHUB_SHA." in err) == (2, True)
    assert github.requests == []
