"""A failed budget is held beside the newest earlier run that kept it: pure, records in, a record out."""

import importlib.util
from pathlib import Path

import pytest

from qwenperf.report.since import MOST_READ, explain_since
from qwenperf.schema.records import Outcome

_SPEC = importlib.util.spec_from_file_location("traced_runs", Path(__file__).parents[1] / "traced_runs.py")
made = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(made)
run = made.run


def told(*runs):
    """What the verdict of the last of some runs says, the others being those before it."""
    before = runs[-2::-1]
    return explain_since(runs[-1], lambda _: before).cases[0].verdicts[0].detail


def test_the_newest_run_that_kept_the_budget_is_compared_with():
    passed, failed = Outcome.PASS, Outcome.FAIL
    assert told(run(1, passed, 1e-3), run(2, passed, 2e-3), run(3, failed, 8e-3), run(4, failed, 5e-3)) == (
        "in the trace: dot",
        "since 20261122T000000Z-000000: dot +3.00 ms a token (2.00 ms -> 5.00 ms): matmul, from layers.py:3",
    )


@pytest.mark.parametrize(
    "before",
    [
        run(1, Outcome.PASS, 1e-3, environment={**made.MACHINE, "cores": 64}),
        run(1, Outcome.FAIL, 1e-3),
        run(1, Outcome.PASS, 9e-3),
        run(1, Outcome.PASS, 1e-3, cases=()),
    ],
    ids=["another machine", "failed too", "was slower", "other cases"],
)
def test_what_explains_nothing_is_not_compared_with(before):
    assert told(before, run(4, Outcome.FAIL, 5e-3)) == ("in the trace: dot",)


def test_a_run_that_passes_asks_for_none_and_one_that_fails_for_few():
    """Records are read when they are asked for: an old folder of runs costs nothing, a failure a bounded part of it."""
    asked = []

    def endless(run_id):
        while True:
            asked.append(run_id)
            yield run(1, Outcome.FAIL, 1e-3)

    passed, failed = run(4, Outcome.PASS, 1e-3), run(4, Outcome.FAIL, 5e-3)
    assert explain_since(passed, endless) == passed
    assert asked == []
    assert explain_since(failed, endless) == failed
    assert asked == [failed.id] * MOST_READ
