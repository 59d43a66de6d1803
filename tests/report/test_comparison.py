"""The report of a comparison in a terminal of 80 columns."""

import io

import pytest
from rich.console import Console

from qwenperf.report.comparison import comparison_report
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideRecord
from qwenperf.schema.records import Finding, Outcome, Severity, Verdict

SIDE = SideRecord(label="main", kind="revision")


def lines_of(name):
    stage = {"estimate": 0.012, "low": -0.1234, "high": 0.1234, "pairs": 20}
    speed = Verdict(gate="speed", outcome=Outcome.INCONCLUSIVE, summary="x", data={"stage_1": stage, "cpu": 0.01})
    case = ComparedCase(id=name, verdicts=(speed,))
    return told(ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, cases=(case,)))


def test_a_case_that_was_not_compared_has_not_passed_and_an_excused_one_says_so():
    """The table says what the exit code says: 5 for a case without times, 0 for a cost that somebody accepted."""
    same = Verdict(gate="tokens", outcome=Outcome.PASS, summary="same tokens")
    lost = Verdict(gate="speed", outcome=Outcome.SKIPPED, summary="all pairs broke")
    slower = Verdict(gate="speed", outcome=Outcome.FAIL, summary="slower", data={"excused": "accepted: exact"})
    cases = (ComparedCase(id="a", verdicts=(same, lost)), ComparedCase(id="b", verdicts=(same, slower)))
    lines = told(ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, cases=cases))
    assert [line.split("  ")[-1].strip() for line in lines[2:4]] == ["not compared", "FAIL, excused"]
    assert "FAIL, excused: b: speed: slower" in lines


def told(record):
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


def test_cases_of_one_side_new_names_and_findings_are_listed():
    """So that a case that is no longer what it was is seen by whoever reads the terminal."""
    over = Finding(code="quarantine-over", severity=Severity.WARNING, message="it ended", advice="Mend it.")
    extra = {"new": ["a/b/c"], "renamed": {"d/e/f": "d/x/f"}}
    lines = told(ComparisonRecord(id="c", created_at="", base=SIDE, head=SIDE, extra=extra, findings=(over,)))
    assert "new: a/b/c: only head has it; nothing to compare with." in lines
    assert "renamed: d/e/f in base is d/x/f in head." in lines
    assert "warning: it ended Mend it." in lines
