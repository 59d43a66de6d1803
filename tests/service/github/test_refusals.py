"""A GitHub that is away, slow or says no: what waits is told later, what is given up is said."""

import json
import logging

import pytest


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
    assert demo.secret not in caplog.text + demo.page(run) + json.dumps(demo.posts())
