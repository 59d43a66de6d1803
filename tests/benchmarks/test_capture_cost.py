"""What captures cost: the comparison's result in words and exit codes, and (slowly) one that is really made."""

import importlib
import json
import sys

import pytest

TOLD = {
    "at": "x", "case": "c", "outcome": "pass", "margin": 0.01, "estimate": 0.001, "low": -0.002, "high": 0.004,
    "pairs": 12, "cpu": None, "captures": 72, "compiles": 0, "lost": [], "broken": [], "ready_s": 4.0, "machine": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def cost(repository):
    sys.path.insert(0, str(repository))
    return importlib.import_module("benchmarks.capture_cost")


def test_the_result_is_one_line(cost):
    expected = "pass: 72 captures, 0 compiles in them; time +0.10% (-0.20% to +0.40%) over 12 pairs, margin 1%"
    assert cost.line(TOLD) == expected
    assert "2 lost (it was cut.)" in cost.line({**TOLD, "lost": ["it was cut."] * 2})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"outcome": "fail"}, 1),
        ({"outcome": "inconclusive"}, 3),
        ({"compiles": 1}, 1),
        ({"captures": 0}, 5),
        ({"outcome": "skipped"}, 5),
    ],
)
def test_captures_that_compile_or_slow_down_or_were_not_taken_are_no_success(cost, changes, code):
    assert cost.exit_code({**TOLD, **changes}) == code


@pytest.mark.slow
def test_captures_between_trials_are_really_taken_and_compile_nothing(cost, tmp_path, capsys):
    """On the tiny model; what it says of the time is not judged here."""
    cost.main(["--quick", "--json", "--folder", str(tmp_path)])
    told = json.loads(capsys.readouterr().out)
    assert (told["captures"], told["compiles"], told["lost"], told["broken"]) == (12, 0, [], [])
    assert list(tmp_path.rglob("*.xplane.pb")) == []
