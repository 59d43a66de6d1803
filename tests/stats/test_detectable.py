"""The smallest slowdown that a plan finds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwenperf.errors import UsageError
from qwenperf.schema.records import Outcome
from qwenperf.stats.detectable import smallest_detectable
from qwenperf.stats.sequential import Plan, decide


@given(st.floats(0, 1), st.integers(6, 60), st.integers(1, 20))
def test_more_noise_and_more_cases_hide_more_and_more_pairs_less(sd, pairs, cases):
    """And nothing below the margin is called detectable."""
    seen = smallest_detectable(sd, pairs, Plan(), cases)
    assert seen >= Plan().margin - 1e-12
    assert smallest_detectable(sd * 1.5, pairs, Plan(), cases) >= seen
    # One more case may free what an early look of 12 pairs can no longer spend; twice as many never do.
    assert smallest_detectable(sd, pairs, Plan(), cases * 2) >= seen
    assert smallest_detectable(sd, pairs + 6, Plan(), cases) <= seen


def test_what_is_called_detectable_is_found_as_often_as_the_plan_says():
    """In normal noise, at the last look, one case alone: within 10 of 100."""
    random, found, plan = np.random.default_rng(6), 0, Plan()
    effect = math.log1p(smallest_detectable(0.1, 20, plan))
    for _ in range(300):
        pairs = (effect + 0.1 * random.normal(size=20)).tolist()
        found += decide({"case": pairs}, {}, plan, 2)["case"].outcome is Outcome.FAIL
    assert found / 300 == pytest.approx(plan.power, abs=0.1)


@pytest.mark.parametrize("wrong", [(math.nan, 20, 1), (-0.1, 20, 1), (0.1, 5, 1), (0.1, 20, 0)])
def test_what_has_no_effect_is_refused(wrong):
    """With what was given."""
    sd, pairs, cases = wrong
    with pytest.raises(UsageError, match="no effect can be stated"):
        smallest_detectable(sd, pairs, Plan(), cases)
