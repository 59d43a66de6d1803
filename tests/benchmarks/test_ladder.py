"""The ASV suite, as far as it can be told without measuring."""

import math
import sys

import pytest

from qwenperf.schema.metrics import REGISTRY, Direction
from qwenperf.schema.records import CaseRecord, Evidence, Status, metric
from qwenperf.workloads.case import ENGINES


@pytest.fixture(scope="module")
def suite(repository):
    sys.path.insert(0, str(repository))
    from benchmarks import ladder

    return ladder


def test_every_tracked_metric_is_in_the_registry(suite):
    """ASV shows our metrics under our definitions."""
    assert [tracked.metric for tracked in suite.TRACKED if tracked.metric not in REGISTRY] == []


def test_versions_and_units_are_explicit(suite):
    """A series ends when somebody says so, and not when a line of code is moved."""
    benchmarks = [getattr(suite.Ladder, f"track_{tracked.name}") for tracked in suite.TRACKED]
    assert [benchmark.version for benchmark in benchmarks] == [tracked.version for tracked in suite.TRACKED]
    assert all(benchmark.unit and benchmark.pretty_name for benchmark in benchmarks)


def test_every_number_gets_better_downwards(suite):
    """ASV takes lower for better, so that a metric that rises when it improves is turned round."""
    for tracked in suite.TRACKED:
        worse, better = (1.0, 0.0) if REGISTRY[tracked.metric].direction is Direction.LOWER else (0.0, 1.0)
        assert tracked.value({tracked.metric: better}) < tracked.value({tracked.metric: worse})
        assert tracked.value({tracked.metric: better}) == 0


def test_only_shares_are_turned_round(suite):
    """One minus a number means something for shares only."""
    turned = {tracked.metric for tracked in suite.TRACKED if REGISTRY[tracked.metric].direction is Direction.HIGHER}
    assert {REGISTRY[name].unit for name in turned} == {"ratio"}


def test_what_was_not_measured_is_no_point_in_a_graph(suite):
    """An engine without a cache has no cache bytes, rather than none of them."""
    assert all(math.isnan(tracked.value({})) for tracked in suite.TRACKED)


def test_each_rung_is_tracked(suite):
    """The suite follows the list of rungs."""
    assert suite.Ladder.params == (list(ENGINES),)


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ({"evidence": Evidence(voids=("request: trial 1: grow compiled",))}, "a/cached: a void window: request: trial"),
        ({"status": Status.TIMED_OUT, "error": "killed"}, "a/cached: killed"),
    ],
)
def test_a_case_without_all_its_numbers_ends_the_run(suite, broken, told):
    """A void window leaves metrics out, which must not become a silent gap in a graph."""
    whole = CaseRecord(id="a/naive", spec={"engine": "naive"}, metrics={"tpot_s": metric("tpot_s", 0.5)})
    assert suite.numbers([whole]) == {"naive": {"tpot_s": 0.5}}
    with pytest.raises(RuntimeError, match=told):
        suite.numbers([whole, CaseRecord(id="a/cached", spec={"engine": "cached"}, **broken)])


@pytest.mark.slow
def test_the_suite_measures_a_rung(suite):
    """A real case ends in a number for every tracked metric."""
    cases = suite.ladder("tiny", suite.WORKLOAD, engines=("cached",), trials=2)
    values = suite.measure(cases)["cached"]
    assert [tracked.name for tracked in suite.TRACKED if not math.isfinite(tracked.value(values))] == []


@pytest.mark.slow
def test_a_case_that_fails_fails_the_suite(suite):
    """A history with silent gaps is worse than a run that ends."""
    cases = suite.ladder("tiny", suite.WORKLOAD, engines=("cached",), time_limit_s=0.2)
    with pytest.raises(RuntimeError, match="tiny/cached"):
        suite.measure(cases)
