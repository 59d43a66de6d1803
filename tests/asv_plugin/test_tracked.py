"""What asv is told of each number: unit, direction, version, and NaN where there is none."""

import math

import pytest
from asv_runner.benchmarks.track import TrackBenchmark

from qwenperf.asv_plugin import TRACKED, Tracked, tracks
from qwenperf.asv_plugin.measured import numbers, only
from qwenperf.errors import MeasurementError, UnknownNameError, UsageError
from qwenperf.schema.metrics import REGISTRY, Direction
from qwenperf.schema.records import CaseRecord, Evidence, Finding, Severity, Status, metric


@tracks(["a", "b"], title="tiny")
class Suite:
    """The first way to write it."""

    def setup_cache(self):
        """Return what a measurement would."""
        return {"a": {"tpot_s": 0.5}}


def benchmark(suite, name):
    """What asv makes of a method."""
    instance = suite()
    return TrackBenchmark(f"suite.Suite.{name}", getattr(instance, name), [getattr(instance, name), instance])


def test_every_number_that_is_judged_gets_better_downwards():
    """ASV takes lower for better: a share that rises when it improves is turned round, a rate is shown only."""
    for tracked in TRACKED:
        if tracked.direction is Direction.HIGHER:
            assert tracked.function.startswith("track_shown_")
            continue
        rises = REGISTRY[tracked.metric].direction is Direction.HIGHER
        worse, better = (0.0, 1.0) if rises else (1.0, 0.0)
        assert tracked.value({tracked.metric: better}) < tracked.value({tracked.metric: worse})
        assert tracked.value({tracked.metric: better}) == 0


def test_a_rate_is_shown_as_it_is():
    """Nobody reads one over tokens per second."""
    (rate,) = [tracked for tracked in TRACKED if tracked.name == "tokens_per_s"]
    assert rate.value({"decode_tokens_per_s": 70.0}) == 70.0
    assert (rate.unit, rate.direction) == ("tokens/s", Direction.HIGHER)


def test_what_was_not_measured_is_no_point_in_a_graph():
    """An engine without a cache has no cache bytes, rather than none of them."""
    assert all(math.isnan(tracked.value({})) for tracked in TRACKED)
    assert math.isnan(Suite().track_ms_per_token(Suite().setup_cache(), "b"))


def test_asv_sees_unit_direction_version_and_cases():
    """As it will write them into benchmarks.json."""
    assert benchmark(Suite, "track_ms_per_token").do_setup_cache() == {"a": {"tpot_s": 0.5}}
    seen = benchmark(Suite, "track_shown_tokens_per_s")
    assert (seen.unit, seen.version, seen.direction, seen.type) == ("tokens/s", "1", "higher", "track")
    assert (seen.params, seen.param_names) == ([["'a'", "'b'"]], ["engine"])
    assert seen.pretty_name == "Tokens per second (tiny)"
    seen.set_param_idx(0)
    seen.set_cache({"a": {"decode_tokens_per_s": 3.0}})
    assert seen.do_run() == 3.0


def test_a_version_stays_when_code_is_moved_and_changes_when_somebody_says_so():
    """The code is another one here, and asv's own fingerprint of it too; the series goes on."""

    @tracks(["a", "b", "c"])
    class Rewritten:
        """Elsewhere, with another setup."""

        timeout = 7

        def setup_cache(self):
            """Measure in another way."""
            return {"a": {"tpot_s": 0.25}, "b": {}}

    for tracked in TRACKED:
        before, after = (benchmark(suite, tracked.function) for suite in (Suite, Rewritten))
        assert before.version == after.version == tracked.version
        assert before.code != after.code
    raised = tracks(["a"], [Tracked(name="x", metric="tpot_s", unit="s", pretty_name="X", version="2")])
    assert benchmark(raised(Rewritten), "track_x").version == "2"


def test_two_suites_do_not_share_a_cache_by_accident():
    """ASV tells caches apart by the line of setup_cache: an inherited one would be measured once for both."""
    with pytest.raises(UsageError, match="Child has no setup_cache of its own"):
        tracks(["a"])(type("Child", (Suite,), {}))


def test_only_what_is_asked_for_is_measured(capsys):
    """All of it by default; a name that is not there is an error."""
    cases = {"a": 1, "b": 2}
    assert only(cases, "") == cases
    assert only(cases, " b ,") == {"b": 2}
    assert "only b measured" in capsys.readouterr().err
    with pytest.raises(UnknownNameError, match="unknown case in QWENPERF_ASV_ONLY 'c'"):
        only(cases, "c")


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"evidence": Evidence(voids=("request: trial 1: grow compiled",))}, "a/cached: a void window: request: trial"),
        ({"status": Status.TIMED_OUT, "error": "killed"}, "a/cached: killed"),
    ],
)
def test_a_case_without_all_its_numbers_ends_the_run(broken, told):
    """A void window leaves metrics out, which must not become a silent gap in a graph."""
    whole = CaseRecord(id="a/naive", spec={}, metrics={"tpot_s": metric("tpot_s", 0.5)})
    assert numbers([whole]) == {"a/naive": {"tpot_s": 0.5}}
    with pytest.raises(MeasurementError, match=told):
        numbers([whole, CaseRecord(id="a/cached", spec={}, **broken)])


def test_every_tracked_metric_is_in_the_registry():
    """ASV shows our metrics under our definitions."""
    assert [tracked.metric for tracked in TRACKED if tracked.metric not in REGISTRY] == []


def test_the_page_s_ten_lines_are_a_suite(repository):
    """What is shown can be pasted."""
    page = (repository / "docs" / "asv.md").read_text(encoding="utf-8")
    made = {}
    exec(compile(page.split("```python\n")[1].split("```")[0], "docs/asv.md", "exec"), made)
    suite = made["Decode"]
    assert suite.params == (["my.engine:make", "cached"],)
    assert all(callable(getattr(suite, tracked.function)) for tracked in TRACKED)
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `track_")]
    assert sorted(rows) == sorted(tracked.function for tracked in TRACKED)


def test_a_commit_that_begins_to_recompile_has_its_point_in_that_graph(capsys):
    """What voids its windows is a series of its own: only the timed numbers are missing, and that is told."""
    voids = ("request: trial 1: grow compiled at mine.py:9",)
    metrics = {"compiles_steady": metric("compiles_steady", 8), "compile_s": metric("compile_s", 0.5)}
    case = CaseRecord(id="a/cached", spec={}, metrics=metrics, evidence=Evidence(voids=voids))
    assert numbers([case]) == {"a/cached": {"compiles_steady": 8, "compile_s": 0.5}}
    assert "a/cached: some numbers have no point: request: trial 1: grow compiled" in capsys.readouterr().err


def test_a_time_per_token_that_noise_swallowed_is_told(capsys):
    """A gap in a graph has its reason on standard error."""
    finding = Finding(
        code="no-decode-time", severity=Severity.NOTE, message="decoding took no time that could be told from noise"
    )
    case = CaseRecord(id="a/cached", spec={}, metrics={"ttft_s": metric("ttft_s", 0.5)}, findings=(finding,))
    assert numbers([case]) == {"a/cached": {"ttft_s": 0.5}}
    assert "a/cached: some numbers have no point: decoding took no time" in capsys.readouterr().err
