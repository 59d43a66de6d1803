"""A failed budget is held beside the newest earlier run that kept it: pure, records in, a record out."""

from dataclasses import replace

import pytest

from qwenperf.report.since import MOST_READ, explain_since
from qwenperf.schema.records import CaseRecord, Evidence, Outcome, RunRecord, Verdict

CASE = "tiny/cached/b1"
MACHINE = {"cpu_model": "one", "cores": 2, "platform": "cpu"}


def run(number, outcome, dot_s, **fields):
    """A run whose only case spends ``dot_s`` of a token in a product, and a millisecond more in the host."""
    row = {"name": "dot", "category": "matmul", "source": "layers.py:3", "count": 2, "wall_s": 2 * dot_s}
    summary = {
        "steps": 2, "step_s": [dot_s + 1e-3] * 2, "typical_steps": 2, "typical_s": 2 * dot_s + 2e-3,
        "operations": [row], "host": {"gap_s": 2e-3, "doing": []},
    }  # fmt: skip
    verdict = Verdict(gate="throughput", outcome=outcome, summary="seen", detail=("in the trace: dot",))
    case = CaseRecord(id=CASE, spec={}, verdicts=(verdict,), evidence=Evidence(trace_summary=summary))
    record = RunRecord(
        id=f"2026112{number}T000000Z-000000", created_at="2026-11-28", suite="smoke", environment=MACHINE,
        declared=(CASE,), cases=(case,),
    )  # fmt: skip
    return replace(record, **fields)


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
        run(1, Outcome.PASS, 1e-3, environment={**MACHINE, "cores": 64}),
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
