"""What was known of regressions meets what is found today."""

import dataclasses

import pytest

from qwenperf.errors import UnknownNameError, UsageError
from qwenperf.gate.history import Judged
from qwenperf.gate.history_status import accept, confirmed, kept_meanwhile, merged
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.regressions import Form, Regression, RegressionStatus
from qwenperf.schema.series import Point, Series

COUNT = 50
NEW = RegressionStatus.NEW


def regression(place, *, metric="tpot_s", **changes):
    one = Regression(
        id=f"{place:08x}",
        case="tiny",
        metric=metric,
        unit="s",
        direction=Direction.LOWER,
        form=Form.STEP,
        before=1.0,
        after=1.1,
        size=0.1,
        interval=(0.08, 0.12),
        p_value=1e-6,
        run=f"r{place}",
        first_run=f"r{place - 1}",
        end_run=f"r{place + 2}",
        found_at="today",
    )
    return dataclasses.replace(one, **changes)


def judged(*regressions, metric="tpot_s", kind=Kind.TIMED, runs=(), settled=0):
    names = tuple(f"r{index}" for index in range(COUNT))
    points = tuple(Point(value=1.0, run=name, measured_at="") for name in names)
    series = Series(case="tiny", metric=metric, unit="s", direction=Direction.LOWER, kind=kind, points=points)
    return Judged(series=series, regressions=regressions, points=COUNT, runs=runs or names, settled=settled)


def test_a_change_that_is_found_again_keeps_its_name():
    """Though its place moved by what its range and a few points more allow; numbers are today's."""
    old = regression(20, found_at="last week", size=0.3)
    (one,) = merged([old], [judged(regression(16))])
    assert (one.id, one.found_at, one.size, one.run) == (old.id, "last week", 0.1, "r16")


@pytest.mark.parametrize("old", [regression(28), regression(20, size=-0.1), regression(20, form=Form.DRIFT)])
def test_another_place_way_or_form_is_another_change(old):
    """The old one, which no longer stands, is gone."""
    new = regression(20, id="new")
    assert merged([old], [judged(new)]) == (new,)


def test_what_was_accepted_stays_accepted():
    """Found again or not, with its reason."""
    old = regression(20, status=RegressionStatus.ACCEPTED, reason="needed")
    assert merged([old], [judged()]) == (old,)
    assert merged([old], [judged(regression(20))]) == (old,)
    later = regression(22, id="later")
    assert merged([old], [judged(later)]) == (later, old)


def test_what_was_not_looked_at_is_kept():
    """Another metric, or a run that is out of sight."""
    other, old = regression(20, metric="ttft_s"), regression(20, run="r-1")
    assert merged([other, old], [judged()]) == (other, old)


def test_a_change_that_has_fallen_out_of_sight_is_kept():
    """Nobody fixed it: what is too old for a long history, at its first points, or of an environment seldom seen."""
    old = regression(20)
    assert merged([old], [judged(runs=tuple(f"r{index}" for index in range(21, COUNT)))]) == (old,)
    runs = tuple(f"r{index}" for index in range(18, COUNT))
    assert merged([old], [judged(runs=runs, settled=5)]) == (old,)
    assert merged([old], [judged(runs=runs)]) == ()


def test_a_drift_whose_beginning_falls_out_of_sight_is_the_same_one():
    """It is counted from the first point that is looked at; once it is not found it is gone."""
    drift = regression(0, form=Form.DRIFT, first_run="r1", end_run="r40")
    runs = tuple(f"r{index}" for index in range(5, COUNT))
    later = regression(5, form=Form.DRIFT, first_run="r6", end_run="r49")
    (one,) = merged([drift], [judged(later, runs=runs)])
    assert (one.id, one.run) == (drift.id, "r5")
    assert merged([drift], [judged(runs=runs)]) == ()


def test_what_somebody_kept_meanwhile_is_not_lost():
    """An acceptance wins over what a look that began before it found; what the look dropped stays dropped."""
    first, gone, other = regression(1), regression(2), regression(3)
    said = dataclasses.replace(first, status=RegressionStatus.ACCEPTED, reason="needed")
    assert kept_meanwhile([first], [first, gone], [said, gone, other]) == (said, other)
    assert kept_meanwhile([], [first], [said]) == (said,)


def test_many_histories_err_together():
    """With 100 of them a p that is enough for one is none; a small one stands, and what has no noise always does."""
    weak, strong, exact = regression(5, p_value=0.01), regression(6, p_value=1e-5), regression(7, p_value=0.0)
    assert confirmed([judged(weak)])[0].regressions == (weak,)
    many = [judged(weak), judged(strong), *(judged() for _ in range(98)), judged(exact, kind=Kind.DETERMINISTIC)]
    kept = [each.regressions for each in confirmed(many)]
    assert kept[0] == ()
    assert kept[1] == (strong,)
    assert kept[-1] == (exact,)


def test_a_regression_is_accepted_by_the_beginning_of_its_name():
    """With a reason; nothing else changes."""
    first, second = regression(1, id="aa11"), regression(2, id="ab22")
    done, other = accept([first, second], "aa", " needed ", "now")
    assert (done.status, done.reason, done.accepted_at) == (RegressionStatus.ACCEPTED, "needed", "now")
    assert other == second


@pytest.mark.parametrize(
    ("name", "reason", "error", "message"),
    [
        ("a", "needed", UsageError, "aa11, ab22"),
        ("aa11", " ", UsageError, "reason is empty"),
        ("ac11", "needed", UnknownNameError, "unknown regression 'ac11'"),
        ("", "needed", UnknownNameError, "unknown regression"),
    ],
)
def test_what_cannot_be_accepted_is_refused(name, reason, error, message):
    """Two that begin so, no reason, or none of that name."""
    with pytest.raises(error, match=message):
        accept([regression(1, id="aa11"), regression(2, id="ab22")], name, reason, "now")
