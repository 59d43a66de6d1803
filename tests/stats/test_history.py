"""Steps, drift and environments are told from noise."""

import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwenperf.errors import EnvironmentUnfitError
from qwenperf.stats.history import find_changes
from qwenperf.stats.history_candidates import candidates
from qwenperf.stats.history_noise import Noise, measure_noise, tame

SD = 0.02


def noise(seed, count=200, correlation=0.0):
    """AR noise of deviation SD."""
    random = np.random.default_rng(seed)
    fresh, made = random.normal(size=count), np.empty(count)
    made[0] = fresh[0]
    for index in range(1, count):
        made[index] = correlation * made[index - 1] + np.sqrt(1 - correlation**2) * fresh[index]
    return SD * made


def at(place, count=200):
    return (np.arange(count) >= place).astype(float)


def places(found):
    return [step.place for step in found.steps]


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_noise_is_measured_whatever_steps_there_are(correlation):
    """Deviation and correlation, beside a step of 30 deviations and spikes."""
    values = noise(3, 400, correlation) + 0.6 * at(130, 400)
    values[[7, 200, 311]] += 5
    found = measure_noise(tame(values))
    assert found.deviation == pytest.approx(SD, rel=0.2)
    assert found.correlation == pytest.approx(correlation, abs=0.2)


def test_constant_values_have_no_noise_and_no_changes():
    """Nor have those that differ in the last bit only."""
    assert measure_noise(np.ones(20)) == Noise(deviation=0.0, correlation=0.0)
    values = np.full(60, 0.1)
    values[::2] = np.nextafter(0.1, 1)
    assert not find_changes(values).steps


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_a_step_is_found_where_it_is_with_its_size(correlation):
    """The stated range holds the place and the interval the size; nothing else is found."""
    found = find_changes(noise(16, correlation=correlation) + 0.05 * at(120))
    (step,) = found.steps
    assert step.place == pytest.approx(120, abs=5)
    assert step.first <= 120 <= step.last
    assert step.low < 0.05 < step.high
    assert step.p_value < 0.001
    assert found.drift is None
    assert found.levels[0] == pytest.approx(0, abs=0.01)
    assert found.levels[-1] == pytest.approx(0.05, abs=0.015)


def test_a_step_and_its_mirror_image_are_found_alike():
    """Down as well as up, and from the end as well as from the start."""
    values = noise(6) + 0.06 * at(80)
    up, down, back = (find_changes(one) for one in (values, -values, values[::-1].copy()))
    assert places(up) == places(down)
    assert places(back) == [pytest.approx(200 - places(up)[0], abs=1)]


def test_spikes_and_ends_are_no_steps():
    """However large, if they are fewer than a level needs."""
    values = noise(7)
    values[[60, 61, 140]] += 10
    values[[0, 198, 199]] -= 1
    assert not find_changes(values).steps


def test_readings_of_a_coarse_clock_are_no_steps_and_hide_none():
    """20 ms with 2% of noise, told in whole milliseconds: most readings are equal, and honest scatter is no outlier."""
    readings = [np.round(20 + 0.4 * np.random.default_rng(seed).normal(size=200)) for seed in range(8)]
    assert sum(bool(find_changes(np.log(one)).steps) for one in readings) <= 1
    slower = [find_changes(np.log(np.round(one * (1 + 0.1 * at(120))))).steps for one in readings]
    assert all(any(abs(step.place - 120) <= 2 for step in steps) for steps in slower)


def test_a_rise_that_is_taken_back_is_two_steps():
    """The second of which tells that the first is over."""
    first, second = find_changes(noise(8) + 0.06 * (at(80) - at(100))).steps
    assert (first.place, second.place) == (pytest.approx(80, abs=2), pytest.approx(100, abs=2))
    assert first.change > 0 > second.change


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_a_slow_creep_is_a_drift_and_no_staircase(correlation):
    """0.1% a point; its total over all points is told with an interval."""
    found = find_changes(noise(9, 150, correlation) + 0.001 * np.arange(150))
    assert not found.steps
    assert found.drift is not None
    assert found.drift.low < 0.149 < found.drift.high
    assert found.total == pytest.approx((found.drift.change, found.drift.low, found.drift.high))


def test_drift_is_counted_from_where_it_is_asked_for():
    """What was before the release is level."""
    values = noise(10) + 0.001 * np.maximum(np.arange(200) - 50, 0)
    drift = find_changes(values, since=50).drift
    assert drift.since == 50
    assert drift.change == pytest.approx(0.149, abs=0.02)


def test_a_step_inside_a_drift_is_found_beside_it():
    """And the drift leaves it out."""
    found = find_changes(noise(11) + 0.001 * np.arange(200) + 0.1 * at(70))
    assert places(found) == [pytest.approx(70, abs=2)]
    assert found.drift.change == pytest.approx(0.199, abs=0.03)
    assert found.total[0] == pytest.approx(0.299, abs=0.03)


def test_an_environment_explains_before_a_step_does():
    """What changes with it is its shift; a step elsewhere is found all the same."""
    found = find_changes(noise(12) + 0.1 * at(100) + 0.06 * at(150), groups=[0] * 100 + [1] * 100)
    (shift,) = found.shifts
    assert (shift.place, shift.change) == (100, pytest.approx(0.1, abs=0.02))
    assert places(found) == [pytest.approx(150, abs=3)]


def test_runners_that_take_turns_are_no_steps():
    """However far they are apart, and a step that both have is found."""
    groups = [index % 2 for index in range(200)]
    found = find_changes(noise(13) + 0.3 * np.asarray(groups) + 0.05 * at(90), groups=groups)
    assert places(found) == [pytest.approx(90, abs=5)]
    assert found.shifts[0].change == pytest.approx(0.3, abs=0.02)


def test_a_known_place_begins_a_new_window():
    """It is not reported, and neither are the levels around it."""
    values = noise(14) + 0.1 * at(100)
    assert places(find_changes(values)) == [pytest.approx(100, abs=1)]
    assert not find_changes(values, restarts=[100]).steps


def test_too_few_points_have_no_changes():
    """Two levels of five are ten points."""
    assert not find_changes(np.repeat([0.0, 1.0], 4)).steps
    assert find_changes(np.asarray([])).noise is None


@given(
    scale=st.floats(1e-6, 1e6),
    shift=st.floats(-1e3, 1e3),
    seed=st.integers(0, 50),
)
@settings(max_examples=15, deadline=None)
def test_places_do_not_depend_on_the_unit(scale, shift, seed):
    """Seconds or milliseconds, from zero or from somewhere else."""
    values = noise(seed, 80) + 0.08 * at(40, 80)
    assert places(find_changes(values)) == places(find_changes(shift * scale + values * scale))


@given(values=st.lists(st.floats(-1e6, 1e6), min_size=0, max_size=40), least=st.integers(3, 6))
@settings(max_examples=40, deadline=None)
def test_any_finite_values_are_taken_apart_with_levels_long_enough(values, least):
    """Ties, outliers and constants included: nothing raises, and every number is finite."""
    found = find_changes(np.asarray(values), least=least)
    edges = [0, *places(found), len(values)]
    assert not found.steps or min(after - before for before, after in pairwise(edges)) >= least
    assert np.isfinite([*found.levels, *found.total]).all()
    assert all(step.first <= step.place <= step.last for step in found.steps)


def test_without_asv_the_error_names_the_extra(monkeypatch):
    """It is no dependency of the package itself."""
    monkeypatch.setitem(sys.modules, "asv.step_detect", None)
    with pytest.raises(EnvironmentUnfitError, match=r"qwenperf\[history\]"):
        candidates(noise(1), Noise(deviation=SD, correlation=0.0), 5)
