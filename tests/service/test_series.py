"""Series over HTTP: windows, buckets, two runs side by side, accepted changes."""

import pytest

HOURS = 40


@pytest.fixture
def filled(project, documents):
    """A project with a series of 40 points, one of them a spike, in two environments by turns."""
    for number in range(HOURS):
        value = 100.0 if number == 17 else 1.0 + number / 1000
        environment = {**documents.ENVIRONMENT, "cpu_model": "ab"[number % 2]}
        project.post("/runs", documents.run(number, value=value, environment=environment))
    return project


SERIES = {"case": "tiny/cached", "metric": "tpot_s"}


def test_a_window_holds_its_points_in_order_with_where_they_came_from(filled):
    """Both ends count; each point says its run, commit, branch and environment."""
    found = filled.get("/series/window", start="2026-01-01T05:00:00Z", end="2026-01-01T07:00:00+00:00", **SERIES)
    assert [point["run"] for point in found["points"]] == [f"run-{number:06d}" for number in (5, 6, 7)]
    assert (found["total"], found["buckets"], found["unit"]) == (3, [], "s")
    first = found["points"][0]
    assert (first["value"], first["commit"], first["branch"]) == (1.005, f"{5:040x}", "main")
    assert first["environment"] != found["points"][1]["environment"]


def test_buckets_keep_the_spike_and_mix_no_environments(filled):
    """Down-sampled to a few spans, the largest value is still there, and counts add up to all points."""
    found = filled.get("/series/window", limit=5, **SERIES)
    assert found["points"] == []
    assert sum(bucket["count"] for bucket in found["buckets"]) == found["total"] == HOURS
    assert max(bucket["max"] for bucket in found["buckets"]) == 100.0
    assert len(found["buckets"]) <= 2 * 5
    by_environment = {bucket["environment"] for bucket in found["buckets"]}
    assert len(by_environment) == 2
    one = filled.get("/series/window", limit=5, environment=by_environment.pop(), **SERIES)
    assert one["total"] == HOURS // 2
    assert all(bucket["min"] <= bucket["mean"] <= bucket["max"] for bucket in one["buckets"])


def test_the_page_draws_a_series_longer_than_its_chart(filled, monkeypatch):
    """Means of stretches, with how many runs each stands for."""
    monkeypatch.setattr("qwenperf.service.web.series._DRAWN", 5)
    page = filled.http.get(f"/p/{filled.name}/series", params=SERIES | {"environment": "all"})
    assert (page.status_code, "drawn as the means of" in page.text) == (200, True)
    told = filled.http.get(f"/p/{filled.name}/series.json", params=SERIES | {"environment": "all"}).json()["told"]
    assert sum(int(one.split()[0]) for one in told) == HOURS


def test_an_empty_window_and_an_unknown_series_are_told_apart(filled):
    """Nothing there in that time is an answer; nothing of that name ever is 404."""
    assert filled.get("/series/window", start="2030-01-01", **SERIES)["total"] == 0
    assert "nosuch" in filled.get("/series/window", 404, case="tiny/cached", metric="nosuch")["error"]


@pytest.mark.parametrize(
    "query",
    [
        {"case": "tiny/cached"},
        {**SERIES, "limit": 0},
        {**SERIES, "limit": "many"},
        {**SERIES, "start": "1; DROP TABLE points"},
        {**SERIES, "start": "2026-02-01", "end": "2026-01-01"},
        {**SERIES, "start": "99999-01-01"},
        {**SERIES, "branch": "a\x00b"},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(project, query):
    """Before the database is asked."""
    assert project.get("/series/window", 422, **query)["error"]


def test_filters_are_values_and_never_statements(filled):
    """What looks like SQL or a pattern matches nothing."""
    for text in ("' OR 1=1 --", "%", "_", "'; DROP TABLE runs; --", "\\", '"'):
        for name in ("branch", "environment"):
            assert filled.get("/series/window", **SERIES, **{name: text})["total"] == 0
            assert filled.get("/runs", **{name: text})["runs"] == []
        assert filled.get("/series", case=text)["series"] == []
    assert len(filled.get("/runs")["runs"]) == HOURS


def test_the_newest_point_is_that_of_the_latest_commit_and_not_of_the_last_arrival(project, documents):
    """A run of an old commit that arrives late changes no overview."""
    for number in (5, 2):
        project.post("/runs", documents.run(number, value=float(number)))
    (found,) = project.get("/series")["series"]
    assert (found["last_value"], found["total"]) == (5.0, 2)


def test_series_are_listed_a_part_at_a_time(project, documents):
    """Behind the last one of the part before."""
    project.post("/runs", documents.run(1, cases=("a", "b"), tpot_s=1.0, ttft_s=2.0))
    first = project.get("/series", limit=3)
    last = first["series"][-1]
    rest = project.get("/series", after_case=last["case"], after_metric=last["metric"])
    names = [(one["case"], one["metric"]) for one in [*first["series"], *rest["series"]]]
    assert first["more"]
    assert names == sorted({(case, metric) for case in "ab" for metric in ("tpot_s", "ttft_s")})


def test_two_runs_are_put_side_by_side_without_a_verdict(project, documents):
    """Which way each metric went, what only one has, and whether their times may be compared."""
    project.post("/runs", documents.run(1, tpot_s=1.0, ttft_s=1.0, weight_bytes=5))
    other = {"platform": "cpu", "cpu_model": "other"}
    project.post("/runs", documents.run(2, tpot_s=2.0, decode_tokens_per_s=9.0, weight_bytes=5, environment=other))
    found = project.get("/compare", base="run-000001", head="run-000002")
    change = {one["metric"]: one["change"] for one in found["metrics"]}
    assert change == {"tpot_s": "worse", "ttft_s": "gone", "decode_tokens_per_s": "new", "weight_bytes": "same"}
    assert not found["comparable"]
    for number in (3, 4):
        project.post("/runs", documents.run(number, environment={}))
    found = project.get("/compare", base="run-000003", head="run-000004")
    assert (found["comparable"], "does not say where" in found["why"]) == (False, True)
    assert "nosuch" in project.get("/compare", 404, base="nosuch", head="run-000002")["error"]


def test_an_accepted_change_is_told_with_its_point(project, documents):
    """Who accepted what, from which run on, and why; it is part of the window from then on."""
    for number in (1, 2):
        project.post("/runs", documents.run(number))
    said = {**SERIES, "run": "run-000002", "reason": "the new layout costs this"}
    project.post("/accepted", said)
    points = project.get("/series/window", **SERIES)["points"]
    assert [point["accepted"] for point in points] == [None, said["reason"]]
    (listed,) = project.get("/accepted")["accepted"]
    assert listed["reason"] == said["reason"]
    assert listed["accepted_by"]
    assert project.post("/accepted", {**said, "reason": " "}, 422)["error"]
    assert project.post("/accepted", {**said, "run": "nosuch"}, 404)["error"]
    assert project.post("/accepted", {**said, "reasons": "x"}, 422)["error"]


def test_environments_are_listed(filled):
    """How many runs each gave."""
    assert [one["runs"] for one in filled.get("/environments")["environments"]] == [HOURS // 2, HOURS // 2]
