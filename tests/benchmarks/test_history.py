"""The benchmark of change detection: its histories are what they say, and its counts are right."""

import math

import numpy as np
import pytest

from benchmarks.history.__main__ import rates
from benchmarks.history.detectors import Said, asv_regressions, asv_steps, best_place, ours
from benchmarks.history.series import KINDS, NOISE, History, histories
from benchmarks.history.tables import markdown


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_the_deviation_and_the_likeness_that_it_says(kind):
    """A seed gives the same histories again."""
    drawn = np.stack([one.values for one in histories(kind, "unchanged", 300, 5)]) / 100 - 1
    np.testing.assert_array_equal(drawn[0], histories(kind, "unchanged", 1, 5)[0].values / 100 - 1)
    assert drawn.std() == pytest.approx(NOISE, rel=0.05)
    near = np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]
    assert near == pytest.approx(0.5 if kind == "AR(0.5)" else 0, abs=0.03)


def test_a_step_is_where_the_truth_says():
    """With its size; drift begins at its release."""
    drawn = histories("iid", "step", 200, 5)
    sizes = [one.values[one.place :].mean() / one.values[: one.place].mean() - 1 for one in drawn]
    assert np.mean(sizes) == pytest.approx(0.03, abs=0.001)
    grown = np.mean([one.values for one in histories("iid", "drift since a release", 200, 5)], axis=0)
    assert grown[:50].mean() == pytest.approx(100, rel=0.002)
    assert grown[-10:].mean() == pytest.approx(114.5, rel=0.005)


def test_what_is_said_is_counted_against_the_truth():
    """Near, at the very point, elsewhere, several, nothing."""
    truth = [History(values=np.ones(200), place=100)] * 4
    said = [Said(places=(100,)), Said(places=(20, 105)), Said(places=(106,)), Said()]
    counts = rates(truth, said)
    assert [counts[name]["hits"] for name in ("any", "found", "exact", "several")] == [3, 2, 1, 1]
    held = rates(truth[:1], [Said(places=(99,), ranges={99: (98, 100)})])
    assert (held["range holds"]["hits"], held["range length"]) == (1, 3)


def test_every_detector_sees_what_nobody_can_miss():
    """A step of ten deviations; and who knows the law of the noise is not far off."""
    history = History(
        values=np.asarray([100.0] * 100 + [120.0] * 100) * histories("iid", "unchanged", 1, 5)[0].values / 100
    )
    for said in (ours(history), asv_steps(history), asv_regressions(history)):
        assert said.places == (100,)
    assert best_place(history, "iid") == pytest.approx(100, abs=5)
    assert best_place(history, "heavy-tailed") is None


def test_tables_show_every_detector_and_why_one_is_missing():
    """A cell without a figure is a dash."""
    row = rates([History(values=np.ones(3))], [Said()])
    found = rates([History(values=np.ones(3), place=1)], [Said(places=(1,), ranges={1: (1, 1)})])
    scenarios = {key: {"qwenperf": row} for key in ("unchanged", "spikes", "drift", "drift since a release")}
    steps = {key: {"qwenperf": found} for key in ("large step", "fresh step")}
    noise = {"iid": {**scenarios, **steps, "step": {"qwenperf": found, "best possible": found}}}
    text = markdown({
        "command": "x", "date": "d", "on": "m", "count": 1, "peers": 1, "otava": "no network", "noise": noise,
    })  # fmt: skip
    assert "Otava has no figures: no network." in text
    assert "| best possible | 100.0%" in text


def fewest(count, rate):
    """So many of ``count`` at least, but for one time in a thousand, where each has a chance of ``rate``."""
    chances = [math.comb(count, hits) * rate**hits * (1 - rate) ** (count - hits) for hits in range(count + 1)]
    return int(np.searchsorted(np.cumsum(chances), 0.001))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "found", "drifted"), [("iid", 0.90, 0.93), ("heavy-tailed", 0.94, 0.98), ("AR(0.5)", 0.66, 0.80)]
)
def test_change_detection_is_as_good_as_it_was(kind, found, drifted):
    """Of unchanged histories 5% at most, steps of 3% within 5 points, drifts; on another seed than the published.

    ``found`` and ``drifted`` are the lower ends of intervals of 200 histories; under AR(0.5) nobody can find more than
    five steps in six. What creeps is told whether it is a drift or several steps.
    """
    unchanged, stepped = (histories(kind, name, 60, 17) for name in ("unchanged", "step"))
    drifting = histories(kind, "drift", 25, 17)
    assert sum(not ours(one).anything for one in unchanged) >= fewest(60, 0.95)
    assert rates(stepped, [ours(one) for one in stepped])["found"]["hits"] >= fewest(60, found)
    said = [ours(one) for one in drifting]
    assert sum(one.drifted for one in said) >= fewest(25, drifted)
    assert sum(one.crept for one in said) >= fewest(25, 0.98)


def test_what_creeps_is_no_drift_unless_it_is_reported():
    """The sum of several steps is told, and nothing is listed as a drift for it."""
    steps = 0.06 * sum((np.arange(120) >= place).astype(float) for place in (30, 50, 110))
    said = ours(History(values=histories("iid", "unchanged", 1, 5)[0].values[:120] * (1 + steps)))
    assert (said.crept, said.drifted) == (True, False)
