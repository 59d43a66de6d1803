"""Failures that somebody answers for."""

from datetime import UTC, date, datetime

import pytest

from qwenperf.errors import ConfigError
from qwenperf.gate import aot
from qwenperf.gate.comparison import exit_code
from qwenperf.gate.excuses import excuse, from_table, from_trailers
from qwenperf.schema.analysis import AotCase, AotRecord, TargetRecord
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideRecord
from qwenperf.schema.records import Outcome, Verdict

TODAY = date(2026, 6, 1)


def make_comparison(gate):
    side = SideRecord(label="x", kind="revision")
    verdict = Verdict(gate=gate, outcome=Outcome.FAIL, summary="slower")
    case = ComparedCase(id="4x128/cached/x", verdicts=(verdict,))
    return ComparisonRecord(id="c", created_at="", base=side, head=side, cases=(case,))


def test_an_accepted_cost_stays_visible_and_fails_nothing():
    """The number is kept, with the reason beside it."""
    seen = excuse(make_comparison("speed"), from_trailers(["4x128/*: the new check costs 4%"]), TODAY)
    verdict = seen.cases[0].verdicts[0]
    assert (verdict.outcome, verdict.detail) == (Outcome.FAIL, ("accepted: the new check costs 4%",))
    assert exit_code(seen) == 0
    assert exit_code(excuse(make_comparison("speed"), from_trailers(["gpt2/*: other"]), TODAY)) == 1


def make_programs(gate):
    verdict = Verdict(gate=gate, outcome=Outcome.FAIL, summary="more")
    target = TargetRecord(name="v5e-1", platform="tpu")
    case = AotCase(id="4x128/cached/x@v5e-1/prefill", target=target, verdicts=(verdict,))
    return AotRecord(id="r", created_at="", environment={}, cases=(case,))


@pytest.mark.parametrize(
    ("gate", "pattern", "code"),
    [
        ("temp_bytes", "4x128/*@*", 0),
        ("temp_bytes", "4x128/*", 1),
        ("temp_bytes", "*", 1),
        ("compiles", "*@*", 1),
        ("memory", "*@*", 1),
    ],
)
def test_a_compiled_program_is_excused_by_its_own_globs_and_for_a_cost_alone(gate, pattern, code):
    """A flaky machine explains nothing of what a compiler made; one that refuses a program costs all of it."""
    excuses = from_table({pattern: {"reason": "flaky driver", "until": TODAY}})
    assert aot.exit_code(excuse(make_programs(gate), excuses, TODAY)) == code


def test_compiling_one_program_more_is_a_cost():
    """Of a request that is measured, it may be worth it."""
    assert exit_code(excuse(make_comparison("compiles"), from_trailers(["*: a chunk of its own"]), TODAY)) == 0


def test_a_changed_token_is_never_excused():
    """It is no cost."""
    assert exit_code(excuse(make_comparison("tokens"), from_trailers(["*: we know"]), TODAY)) == 1


def test_a_quarantine_ends_on_its_day():
    """And says so, so that nobody wonders why the check is red again."""
    excuses = from_table({"4x128/*": {"reason": "flaky driver", "until": TODAY}})
    assert exit_code(excuse(make_comparison("speed"), excuses, TODAY)) == 0
    later = excuse(make_comparison("speed"), excuses, date(2026, 6, 2))
    assert exit_code(later) == 1
    assert [finding.code for finding in later.findings] == ["quarantine-over"]


@pytest.mark.parametrize(
    ("entry", "seen"),
    [
        ("flaky", "is no table"),
        ({"until": TODAY}, "has no reason"),
        ({"reason": "flaky"}, "has no day until which it holds"),
        ({"reason": "flaky", "until": "2026-12-31"}, "without quotes"),
        ({"reason": "flaky", "until": datetime(2026, 6, 1, tzinfo=UTC)}, "without quotes"),
        ({"reason": "flaky", "untill": TODAY}, "Did you mean 'until'"),
    ],
)
def test_a_quarantine_without_reason_or_day_is_refused(entry, seen):
    """It would be for ever, and nobody would know why."""
    with pytest.raises(ConfigError) as caught:
        from_table({"case": entry})
    assert seen in str(caught.value)


@pytest.mark.parametrize("trailer", ["4x128/*", "4x128/*: ", ": because"])
def test_an_acceptance_without_a_reason_is_refused(trailer):
    """It would be a way to switch the gate off."""
    with pytest.raises(ConfigError, match="gives no reason"):
        from_trailers([trailer])
