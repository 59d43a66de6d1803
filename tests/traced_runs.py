"""Runs of one case with a trace, as those who explain a failed budget by earlier runs are given them."""

from dataclasses import replace

from qwenperf.schema.records import CaseRecord, Evidence, RunRecord, Verdict

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
