"""The report of a comparison in a terminal of 80 columns."""

import io

import pytest
from rich.console import Console

from qwenperf.report.comparison import comparison_report
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideRecord
from qwenperf.schema.records import Outcome, Verdict

SIDE = SideRecord(label="main", kind="revision")


def lines_of(name):
    stage = {"estimate": 0.012, "low": -0.1234, "high": 0.1234, "pairs": 20}
    speed = Verdict(gate="speed", outcome=Outcome.INCONCLUSIVE, summary="x", data={"stage_1": stage, "cpu": 0.01})
    case = ComparedCase(id=name, verdicts=(speed,))
    record = ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, cases=(case,))
    text = io.StringIO()
    console = Console(file=text, width=80)
    for part in comparison_report(record, "file"):
        console.print(part)
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("4x128/cached/b1-p16-n64-f32", ["4x128/cached/", "b1-p16-n64-f32"]),
        ("qwen2.5-0.5b/cached/b1-p128-n64-bf16", ["qwen2.5-0.5b/", "cached/", "b1-p128-n64-bf16"]),
    ],
)
def test_a_case_is_split_between_its_parts_and_all_numbers_stay(name, parts):
    """In no place that a reader would take for the end of a word."""
    _, _, *rows = lines_of(name)
    assert [row.split("  ")[0].strip() for row in rows[: len(parts)]] == parts
    assert rows[0].split()[1:] == ["+1.2%", "-12.3%", "to", "+12.3%", "+1.0%", "20", "-", "inconclusive"]
