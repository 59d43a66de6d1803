"""Histories become regressions: which way is worse, what explains a step, what was taken back."""

import dataclasses
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from qwenperf.gate.history import changes_of, judge_series
from qwenperf.gate.history_input import MOST
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.regressions import Cause, Form, RegressionStatus
from qwenperf.schema.series import Point, Series

START = datetime(2026, 1, 1, tzinfo=UTC)
COUNT = 120


def noise(seed=1, count=COUNT):
    return 1 + 0.02 * np.random.default_rng(seed).normal(size=count)


def at(place, count=COUNT):
    return (np.arange(count) >= place).astype(float)


def series(values, *, metric="tpot_s", direction=Direction.LOWER, kind=Kind.TIMED, environments=None, **fields):
    points = tuple(
        Point(
            value=float(value),
            run=f"r{index}",
            measured_at=(START + timedelta(hours=index)).isoformat(),
            commit=f"{index:040x}",
            environment=environments[index] if environments else "e",
            trace="t.xplane.pb" if index % 10 == 0 else None,
            **{name: value_of(index) for name, value_of in fields.items()},
        )
        for index, value in enumerate(values)
    )
    return Series(case="tiny/cached", metric=metric, unit="s", direction=direction, kind=kind, points=points)


def only(found):
    (one,) = found
    return one


@pytest.mark.parametrize("direction", [Direction.LOWER, Direction.HIGHER])
def test_a_step_for_the_worse_is_a_regression(direction):
    """Seconds that grow, tokens per second that shrink; the other way round it is an improvement."""
    slower, faster = 0.01 * noise() * (1 + 0.1 * at(60)), 0.01 * noise() / (1 + 0.1 * at(60))
    worse, better = (slower, faster) if direction is Direction.LOWER else (faster, slower)
    found = judge_series(series(worse, direction=direction))
    one = only(found.regressions)
    assert not found.improvements
    assert one.status is RegressionStatus.NEW
    assert one.cause is Cause.CODE
    assert one.run == "r60"
    assert one.interval[0] < one.size < one.interval[1]
    assert abs(one.size) == pytest.approx(0.1, abs=0.02)
    assert one.after / one.before == pytest.approx(1 + one.size)
    assert only(judge_series(series(better, direction=direction)).improvements).run == "r60"


def test_a_regression_names_the_commits_that_may_have_begun_it():
    """The last good one, the first bad one, those between, and the nearest traces of either level."""
    one = only(judge_series(series(0.01 * noise() * (1 + 0.05 * at(63)))).regressions)
    places = [int(commit, 16) for commit in one.commits]
    assert places == list(range(places[0], places[-1] + 1))
    assert 63 in places
    assert int(one.good, 16) == places[0] - 1
    assert int(one.bad, 16) == places[-1]
    assert (one.first_run, one.end_run) == (f"r{places[0]}", f"r{places[-1]}")
    assert one.traced_runs == ("r60", "r70")


def test_a_fact_has_no_regressions_but_places_to_draw():
    """Nobody says which way it improves."""
    neutral = series(0.01 * noise() * (1 + 0.1 * at(60)), direction=Direction.NONE)
    found = judge_series(neutral)
    assert not found.regressions
    assert not found.improvements


def test_changes_are_drawn_at_their_first_points():
    """Better and worse."""
    values = 0.01 * noise() * (1 + 0.1 * at(40) - 0.1 * at(80))
    assert changes_of(series(values)) == (pytest.approx(40, abs=1), pytest.approx(80, abs=1))


def test_what_is_taken_back_is_fixed():
    """Half of it is not."""
    gone = judge_series(series(0.01 * noise() * (1 + 0.1 * at(40) - 0.1 * at(80)))).regressions
    assert only(gone).status is RegressionStatus.FIXED
    assert only(gone).fixed_run in {"r79", "r80", "r81"}
    half = judge_series(series(0.01 * noise() * (1 + 0.2 * at(40) - 0.08 * at(80)))).regressions
    assert only(half).status is RegressionStatus.NEW


@pytest.mark.parametrize("direction", [Direction.LOWER, Direction.HIGHER])
def test_exact_numbers_that_come_back_are_fixed_whatever_their_size(direction):
    """Shares are rounded, and nothing is left open in which that could hide; nearly back is not back."""
    for other in range(4097, 12_000, 83):
        good, bad = (4096, other) if direction is Direction.LOWER else (other, 4096)
        there = {
            levels: judge_series(series(np.repeat(levels, 6), kind=Kind.DETERMINISTIC, direction=direction)).regressions
            for levels in ((good, bad, good), (good, bad, (good + bad) / 2, good), (good, bad, bad + (good - bad) / 2))
        }
        assert [[one.status for one in found] for found in there.values()] == [
            [RegressionStatus.FIXED], [RegressionStatus.FIXED], [RegressionStatus.NEW],
        ]  # fmt: skip


def test_what_falls_by_more_than_a_share_can_say_is_fixed():
    """Of 1 to 1e-20 the share is -1, which has no logarithm."""
    one = only(judge_series(series(np.repeat([1e-20, 1.0, 1e-20], 6), kind=Kind.DETERMINISTIC)).regressions)
    assert (one.status, one.fixed_run) == (RegressionStatus.FIXED, "r12")


@pytest.mark.parametrize("kind", [Kind.TIMED, Kind.DETERMINISTIC])
def test_a_better_environment_takes_no_code_back(kind):
    """What code made slower it must make faster again, however fast the new machine is."""
    values = np.repeat([100.0, 120.0, 90.0], 40) * (noise() if kind is Kind.TIMED else 1)
    one = only(judge_series(series(values, kind=kind, environments=["old"] * 80 + ["new"] * 40)).regressions)
    assert (one.status, one.cause) == (RegressionStatus.NEW, Cause.CODE)
    assert one.run in {"r39", "r40", "r41"}


def test_a_change_of_environment_is_blamed_before_code():
    """With both names; a step elsewhere is code's."""
    environments = ["old"] * 60 + ["new"] * 60
    values = 0.01 * noise() * (1 + 0.1 * at(60) + 0.1 * at(90))
    shift, step = judge_series(series(values, environments=environments)).regressions
    assert (shift.cause, shift.run) == (Cause.ENVIRONMENT, "r60")
    assert "old before, new after" in shift.explained[0]
    assert step.cause is Cause.CODE


def test_values_of_a_rare_environment_are_left_out_and_counted():
    """They can be compared with nothing."""
    environments = ["e"] * COUNT
    environments[50] = environments[70] = "elsewhere"
    values = 0.01 * noise()
    values[[50, 70]] *= 3
    found = judge_series(series(values, environments=environments))
    assert found.left_out == 2
    assert found.points == COUNT - 2
    assert not found.regressions


def test_a_machine_that_slows_down_is_blamed_before_code():
    """Its roofline fell at the same run; one that did not fall, or fell elsewhere, explains nothing."""
    case = series(0.01 * noise() * (1 + 0.1 * at(60)))

    def roofline(values):
        return series(values, metric="roofline_bytes_per_s", direction=Direction.HIGHER)

    slowed = roofline(1e10 * noise(2) / (1 + 0.1 * at(60)))
    one = only(judge_series(case, canaries=[slowed]).regressions)
    assert one.cause is Cause.MACHINE
    assert "roofline_bytes_per_s" in one.explained[0]
    for other in (1e10 * noise(2), 1e10 * noise(2) * (1 + 0.1 * at(60)), 1e10 * noise(2) / (1 + 0.02 * at(60))):
        assert only(judge_series(case, canaries=[roofline(other)]).regressions).cause is Cause.CODE
    faster = series(0.01 * noise() / (1 + 0.1 * at(60)))
    recovered = roofline(1e10 * noise(2) * (1 + 0.1 * at(60)))
    assert only(judge_series(faster, canaries=[recovered]).improvements).cause is Cause.MACHINE
    assert only(judge_series(faster, canaries=[slowed]).improvements).cause is Cause.CODE
    short = dataclasses.replace(slowed, points=slowed.points[:61])
    assert only(judge_series(case, canaries=[short]).regressions).cause is Cause.CODE


def test_an_accepted_step_begins_a_new_window():
    """Told by a record or by the point; what comes later is found against the accepted level."""
    values = 0.01 * noise() * (1 + 0.1 * at(40) + 0.1 * at(80))
    first, second = judge_series(series(values)).regressions
    accepted = dataclasses.replace(first, status=RegressionStatus.ACCEPTED, reason="rotary in f32")
    assert only(judge_series(series(values), known=[accepted]).regressions).run == second.run
    told = series(values, accepted=lambda index: "rotary in f32" if index == 40 else None)
    assert only(judge_series(told).regressions).run == second.run


def test_drift_is_counted_from_the_release_and_anew_from_its_acceptance():
    """0.1% a commit: a drift, no staircase; accepted, the rest is too little to tell."""
    values = 0.01 * noise() * (1 + 0.002 * np.maximum(np.arange(COUNT) - 30, 0))
    release = (START + timedelta(hours=30, minutes=5)).isoformat()
    found = judge_series(series(values), released_at=release)
    one = only(found.regressions)
    assert one.form is Form.DRIFT
    assert one.run == "r30"
    assert one.size == pytest.approx(0.178, abs=0.04)
    assert found.crept[0] == pytest.approx(one.size)
    accepted = dataclasses.replace(one, status=RegressionStatus.ACCEPTED, last_run=f"r{COUNT - 3}")
    assert not judge_series(series(values), known=[accepted]).regressions


def test_an_accepted_drift_is_no_staircase_and_hides_no_step():
    """What grew is left out of what is looked at, and nothing else; a step's level is the one before it."""
    values = 0.01 * noise() * (1 + 0.003 * np.minimum(np.arange(COUNT), 90))
    drift = only(judge_series(series(values[:91])).regressions)
    assert drift.form is Form.DRIFT
    accepted = dataclasses.replace(drift, status=RegressionStatus.ACCEPTED)
    assert not judge_series(series(values), known=[accepted]).regressions
    for place in (45, 105):
        stepped = judge_series(series(values * (1 + 0.15 * at(place))), known=[accepted]).regressions
        step = only(stepped)
        assert (step.form, int(step.run[1:])) == (Form.STEP, pytest.approx(place, abs=2))
        assert step.size == pytest.approx(0.15, abs=0.03)
        assert step.before == pytest.approx(0.01 * (1 + 0.003 * min(place, 90)), rel=0.03)


def test_steps_add_up_to_a_creep():
    """Each may be small; their sum since the release is told too. One step alone is no creep."""
    values = 0.01 * noise() * (1 + 0.06 * at(30) + 0.06 * at(50) + 0.06 * at(110))
    found = judge_series(series(values))
    assert found.crept[0] == pytest.approx(0.18, abs=0.04)
    assert judge_series(series(0.01 * noise() * (1 + 0.1 * at(60)))).crept is None
    one = dataclasses.replace(
        series(values), points=(Point(value=0.0, run="zero", measured_at=""), *found.series.points)
    )
    assert judge_series(one).is_relative  # the 0 is of an environment of its own and left out


@pytest.mark.parametrize("direction", [Direction.LOWER, Direction.HIGHER])
def test_numbers_without_noise_change_when_they_change(direction):
    """One byte is enough, once it stays; a lone value is not."""
    values = np.full(20, 4096.0)
    values[5] = 9000
    values[12:] += 1 if direction is Direction.LOWER else -1
    one = only(judge_series(series(values, kind=Kind.DETERMINISTIC, direction=direction)).regressions)
    assert one.run == "r12"
    assert abs(one.size) == pytest.approx(1 / 4096)
    assert one.commits == (f"{12:040x}",)
    environments = ["old"] * 12 + ["new"] * 8
    moved = series(values, kind=Kind.DETERMINISTIC, direction=direction, environments=environments)
    assert only(judge_series(moved).regressions).cause is Cause.ENVIRONMENT


def test_an_error_by_rounding_has_no_regressions_and_a_wrong_token_has():
    """Every new value of the first is certain and means nothing; gate tokens holds it to a tolerance."""
    fixed = {"kind": Kind.DETERMINISTIC}
    rounding = judge_series(series([3.0e-7] * 5 + [3.2e-7] * 5, metric="max_logit_error", **fixed))
    assert not rounding.regressions
    assert not rounding.improvements
    wrong = series([1.0] * 5 + [0.98] * 5, metric="tokens_equal", direction=Direction.HIGHER, **fixed)
    assert only(judge_series(wrong).regressions).size == pytest.approx(-0.02)


def test_environments_that_take_turns_are_each_held_against_themselves():
    """However far they are apart: a rise in both is one regression, at the first commit that either shows it at."""
    environments = ["old", "new"] * 20
    turns = np.where(np.arange(40) % 2, 900.0, 100.0)
    quiet = judge_series(series(turns, kind=Kind.DETERMINISTIC, environments=environments))
    assert not quiet.regressions
    one = only(
        judge_series(
            series(turns * (1 + 0.5 * at(20, 40)), kind=Kind.DETERMINISTIC, environments=environments)
        ).regressions
    )
    assert (one.run, one.cause, one.size) == ("r20", Cause.CODE, pytest.approx(0.5))
    assert [int(commit, 16) for commit in one.commits] == [20]
    told = series(turns * (1 + 0.5 * at(20, 40)), kind=Kind.DETERMINISTIC, environments=environments)
    assert not judge_series(told, known=[dataclasses.replace(one, status=RegressionStatus.ACCEPTED)]).regressions


def test_a_drift_of_bytes_is_that_of_its_environment():
    """Counted from its own first point after the release."""
    values = np.stack([1000.0 + np.arange(20), np.full(20, 7.0)], axis=1).ravel()
    grows = series(values, kind=Kind.DETERMINISTIC, environments=["a", "b"] * 20)
    release = (START + timedelta(hours=11, minutes=5)).isoformat()
    one = only(judge_series(grows, released_at=release).regressions)
    assert (one.form, one.run) == (Form.DRIFT, "r10")
    assert (one.before, one.after) == pytest.approx((1005.0, 1018.0))


def test_counts_that_begin_at_zero_are_told_in_their_unit():
    """There is no share of nothing."""
    values = np.concatenate([np.zeros(10), np.full(10, 3.0)])
    one = only(judge_series(series(values, kind=Kind.DETERMINISTIC)).regressions)
    assert (one.size, one.is_relative) == (3.0, False)


def test_growth_at_every_commit_is_one_drift():
    """Bytes that grow with each commit are one record."""
    values = 1000.0 + np.maximum(np.arange(20) - 5, 0)
    one = only(judge_series(series(values, kind=Kind.DETERMINISTIC)).regressions)
    assert one.form is Form.DRIFT


@pytest.mark.parametrize("values", [[], [0.01], [0.01] * 200, [float("nan")] * 30, [0.0] * 30])
def test_histories_without_anything_to_tell_tell_nothing(values):
    """Empty, short, constant, not finite, or 0."""
    found = judge_series(series(values))
    assert not found.regressions
    assert found.noise is None
    assert found.points + found.left_out == len(values)


def test_a_long_history_is_looked_at_from_its_end():
    """Time grows with points, and a step of years ago is nobody's question."""
    old = series(np.concatenate([np.full(COUNT, 1.0), np.full(MOST, 2.0)]), kind=Kind.DETERMINISTIC)
    assert judge_series(old).points == MOST
    assert judge_series(old).runs[0] == f"r{COUNT}"
    assert judge_series(old).settled == 5
    assert not judge_series(old).regressions
