"""Checks and comments, over HTTP to a stand-in that checks requests against GitHub's own description."""

from dataclasses import replace

import pytest

from qwenperf.forge.report import conclusion, fitted, post

MARKER = "<!-- qwenperf: qwenperf -->"


def test_a_report_is_a_completed_check_and_a_comment(api, github, target, report):
    """Both are there, on the commit and the pull request that the event names."""
    posted = post(api, target, replace(report, details_url="https://example.test/run"))
    (check,) = github.checks
    assert (check["head_sha"], check["conclusion"], check["status"]) == (target.sha, "success", "completed")
    assert check["details_url"] == "https://example.test/run"
    assert [one["body"] for one in github.comments] == [f"{MARKER}\n### pass\n"]
    assert (posted.check, posted.comments, posted.problems) == (
        "https://example.test/check/1",
        ("https://example.test/c/1",),
        (),
    )
    assert {one["headers"]["Authorization"] for one in github.requests} == {"Bearer ghs_secret"}


def test_a_second_report_changes_the_comment(api, github, target, report):
    """There is one comment, however many reports, and however far down it is."""
    for number in range(150):
        github.comment(f"talk {number}")
    post(api, target, report)
    post(api, target, replace(report, summary="### fail\n"))
    assert [one["body"] for one in github.comments[150:]] == [f"{MARKER}\n### fail\n"]


def test_another_name_is_another_comment(api, github, target, report):
    """Two suites do not overwrite each other."""
    post(api, target, report)
    post(api, target, replace(report, name="nightly --> <b>"))
    assert len(github.comments) == 2
    assert github.comments[1]["body"].startswith("<!-- qwenperf: nightly-b- ")


def test_names_that_differ_in_a_sign_are_told_apart(api, github, target, report):
    """What is left of them in the marker is the same."""
    for name in ("perf gpu", "perf/gpu", "perf-gpu", "perf gpu"):
        post(api, target, replace(report, name=name))
    assert len(github.comments) == 3


def test_names_of_other_scripts_are_told_apart(api, github, target, report):
    """None of their letters can stand in the marker."""
    for name in ("\u6027\u80fd", "\u6e2c\u8a66", "\u6027\u80fd"):
        post(api, target, replace(report, name=name))
    assert len(github.comments) == 2


@pytest.mark.parametrize(
    ("kind", "association", "body"),
    [("User", "NONE", MARKER), ("User", "CONTRIBUTOR", MARKER), ("Bot", "NONE", f"> {MARKER}")],
)
def test_a_stranger_s_comment_is_left_alone(api, github, target, report, kind, association, body):
    """The marker is no secret: who wrote it counts, and where it stands."""
    github.comment(body, kind=kind, association=association)
    post(api, target, report)
    assert [one["body"] for one in github.comments] == [body, f"{MARKER}\n### pass\n"]


def test_a_member_s_token_finds_its_comment_again(api, github, target, report):
    """A personal token writes as a person."""
    github.login = {"type": "User", "association": "MEMBER"}
    post(api, target, report)
    post(api, target, report)
    assert len(github.comments) == 1


def test_a_comment_whose_answer_was_lost_is_not_made_twice(api, github, target, report):
    """GitHub made it and the answer was a 502: it is looked for before it would be made again."""
    github.fail("POST .*/comments", 502, after=True)
    assert post(api, target, report).comments == ("https://example.test/c/1",)
    assert len(github.comments) == 1


def test_a_comment_that_is_gone_when_it_is_changed_is_looked_for_again(api, github, target, report):
    """Somebody may delete it between the two."""
    github.comment(MARKER)
    github.fail("PATCH .*/comments/1", 404)
    posted = post(api, target, report)
    assert posted.comments == ("https://example.test/c/1",)


def test_annotations_come_in_fifties(api, github, target, report):
    """GitHub takes no more in one request; all of them arrive."""
    remarks = [
        {"path": ".github", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": str(number)}
        for number in range(120)
    ]
    post(api, target, replace(report, annotations=remarks))
    (check,) = github.checks
    assert [one["message"] for one in check["output"]["annotations"]] == [str(number) for number in range(120)]
    assert github.asked()["PATCH /repos/acme/engine/check-runs/N"] == 2


def test_a_report_that_is_there_already_is_not_posted_again(api, github, target, report):
    """Its id says which it is: what was made by a try whose answer was lost is found, and another is made anew."""
    first, other = replace(report, external_id="one"), replace(report, external_id="two", conclusion="failure")
    github.fail("POST .*/check-runs", 502, after=True)
    for told in (first, first, other, other):
        assert post(api, target, told, comment=False).problems == ()
    assert [one["external_id"] for one in github.checks] == ["one", "one", "two"]
    post(api, replace(target, sha="b" * 40), other, comment=False)
    assert len(github.checks) == 4


@pytest.mark.parametrize("line", ["x\n", "x" * 99 + "\n", "\N{ROCKET}" * 49 + "\n"])
def test_what_is_too_long_is_cut_at_a_line(api, github, target, report, line):
    """65,535 characters as GitHub counts them, the marker included."""
    post(api, target, replace(report, summary=line * 40_000))
    for text in (github.comments[0]["body"], github.checks[0]["output"]["summary"]):
        size = len(text.encode("utf-16-le")) // 2
        assert 65_535 - len(line) - 60 < size <= 65_535
        assert set(text.splitlines()[2:-2]) == {line.rstrip()}


def test_what_fits_is_whole():
    """Not a character is lost at the limit."""
    assert fitted("x" * 65_535) == "x" * 65_535


def test_a_check_that_is_refused_does_not_cost_the_comment(api, github, target, report):
    """A token may have one right and not the other; why is said with what to do."""
    github.fail("POST .*/check-runs", 403, "Resource not accessible by integration")
    posted = post(api, target, report)
    assert posted.comments
    assert "403 Resource not accessible by integration. The job needs `checks: write`" in posted.problems[0]
    assert github.asked()["POST /repos/acme/engine/check-runs"] == 1


@pytest.mark.parametrize(
    ("code", "settled", "told"),
    [
        (0, True, "success"),
        (0, False, "neutral"),
        (1, True, "failure"),
        (2, False, "failure"),
        (3, False, "failure"),
        (4, False, "failure"),
        (5, True, "failure"),
        (70, True, "failure"),
        (130, True, "cancelled"),
    ],
)
def test_a_check_is_red_where_the_command_is(code, settled, told):
    """A required check lets success and neutral through, and nothing else."""
    assert conclusion(code, is_settled=settled) == told
