"""A run that misses its budget says what takes longer than in the run before that kept it."""

from dataclasses import replace

import pytest

from qwenperf.cli import main
from qwenperf.cli.earlier_traces import EarlierTraces
from qwenperf.schema.codec import dumps
from qwenperf.schema.records import CaseRecord, Evidence, Outcome, RunRecord, Verdict, metric

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


@pytest.fixture
def told(tmp_path):
    """What the verdict of the last of some runs says, the others being beside it."""

    def told(*runs):
        for one in runs:
            (tmp_path / one.id).mkdir()
            (tmp_path / one.id / "run.json").write_text(dumps(one))
        return EarlierTraces(out=tmp_path).explain(runs[-1]).cases[0].verdicts[0].detail

    return told


def test_the_newest_run_that_kept_the_budget_is_compared_with(told):
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
        run(9, Outcome.PASS, 1e-3),
        run(1, Outcome.PASS, 9e-3),
        run(1, Outcome.PASS, 1e-3, cases=()),
    ],
    ids=["another machine", "failed too", "later", "was slower", "other cases"],
)
def test_what_explains_nothing_is_not_compared_with(told, before):
    assert told(before, run(4, Outcome.FAIL, 5e-3)) == ("in the trace: dot",)


def test_a_run_that_passes_reads_nothing_and_a_record_that_cannot_be_read_costs_nothing(told, tmp_path):
    (tmp_path / "20261101T000000Z-000000").mkdir()
    (tmp_path / "20261101T000000Z-000000" / "run.json").write_text("{")
    traces = EarlierTraces(out=tmp_path)
    assert traces.explain(run(4, Outcome.PASS, 1e-3)) == run(4, Outcome.PASS, 1e-3)
    assert traces.known == {}
    assert told(run(4, Outcome.FAIL, 5e-3)) == ("in the trace: dot",)


def test_the_gate_command_says_it(told, tmp_path, capsys):
    """Of a saved run, by the budgets that it is given."""
    slow = run(4, Outcome.FAIL, 5e-3)
    case = replace(slow.cases[0], metrics={"decode_tokens_per_s": metric("decode_tokens_per_s", 10.0)})
    told(run(2, Outcome.PASS, 2e-3), replace(slow, cases=(case,)))
    (tmp_path / "budgets.toml").write_text('[tool.qwenperf.budgets."*"]\ndecode_tokens_per_s = { min = 900 }\n')
    with pytest.raises(SystemExit) as end:
        main(["gate", str(tmp_path / slow.id), "--budgets", str(tmp_path / "budgets.toml")])
    assert end.value.code == 1
    assert "since 20261122T000000Z-000000: dot +3.00 ms a token" in capsys.readouterr().out
