"""What ``qwenperf push`` says of the pull request that a job measured."""

import json

import pytest

from qwenperf.cli.push_pull import pull_query

HEAD, MERGE = "a" * 40, "c" * 40


@pytest.fixture
def job(tmp_path):
    """Return the variables of a job whose event is this."""

    def made(event, name="pull_request"):
        place = tmp_path / "event.json"
        place.write_text(event if isinstance(event, str) else json.dumps(event))
        return {"GITHUB_EVENT_NAME": name, "GITHUB_EVENT_PATH": str(place), "GITHUB_SHA": MERGE}

    return made


def pull(number=7, sha=HEAD):
    return {"number": number, "pull_request": {"head": {"sha": sha}}}


@pytest.mark.parametrize("commit", [{"sha": MERGE}, {"sha": HEAD}, {}])
def test_a_job_of_a_pull_request_says_its_number_and_its_head(job, commit):
    """What was measured is a merge, or the head itself; a comparison says neither in this place."""
    assert pull_query(commit, job(pull())) == {"pull_request": "7", "head_sha": HEAD}


@pytest.mark.parametrize(
    "event", ["", "[]", "{", "[" * 100_000, pull(number=True), pull(sha="main"), {"number": 7}, {}]
)
def test_an_event_that_says_no_such_thing_says_nothing(job, event):
    """A push never fails because of it."""
    assert pull_query({"sha": MERGE}, job(event)) == {}


def test_nothing_is_said_of_other_jobs_and_other_commits(job):
    """Of a commit that was measured elsewhere this job knows nothing."""
    assert pull_query({"sha": MERGE}, job(pull(), "push")) == {}
    assert pull_query({"sha": MERGE}, job(pull(), "pull_request_target")) == {}
    assert pull_query({"sha": "e" * 40}, job(pull())) == {}
    assert pull_query({"sha": []}, job(pull())) == {}
    assert pull_query({"sha": MERGE}, {}) == {}
