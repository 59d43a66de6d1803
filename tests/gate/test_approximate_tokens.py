"""Approximate engines are held to a stated bound and to their own choice; exact ones to the truth, as ever."""

import dataclasses

import numpy as np
import pytest

from qwenperf.gate.tokens import judge
from qwenperf.lab.divergence import compare
from qwenperf.lab.logits import Logits
from qwenperf.schema.records import Divergence, Outcome

SEEN = Divergence(
    equal=False, reference="uncached", position=3, expected_token=7, actual_token=9, reference_margin=0.2,
    engine_margin=-0.1, tolerance=1e-4, max_logit_error=0.02, logit_tolerance=1e-5, worst_step=3,
)  # fmt: skip


def judged(make_case, engine="cached+weights=int8", **changes):
    seen = dataclasses.replace(SEEN, **changes)
    return judge(make_case(engine, evidence={"divergence": seen}))


def test_other_tokens_within_the_bound_pass(make_case):
    """The verdict says how far the logits are off, what was allowed, for what, and where tokens part."""
    verdict = judged(make_case)
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary == "logits differ by 0.02 of the largest, within 0.12, the bound stated for weights=int8"
    assert verdict.detail == ("token 3 is the first that is not that of uncached",)


def test_an_error_beyond_the_bound_fails_even_with_equal_tokens(make_case):
    """Equal tokens are luck where logits are that far off."""
    for equal in (True, False):
        verdict = judged(make_case, equal=equal, max_logit_error=0.2)
        assert verdict.outcome is Outcome.FAIL
        assert "beyond 0.12" in verdict.summary


@pytest.mark.parametrize("engine", ["cached", "cached+layers=scanned", "cached+window=64", "naive"])
def test_an_exact_engine_is_not_let_off(make_case, engine):
    """The same divergence, which is no near tie, is a bug there."""
    verdict = judged(make_case, engine)
    assert verdict.outcome is Outcome.FAIL
    assert "a bug, not rounding" in verdict.summary


def test_a_token_that_is_not_the_engine_s_own_choice_fails(make_case):
    """A loop that computes something else than its steps is no cost of a setting."""
    verdict = judged(make_case, extra={"not_own_choice": {"row": 0, "position": 5, "count": 1, "form": "stream"}})
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary.startswith("token 5 of the stream is not what the engine's own logits choose")


def compared(*, nan=False, mask=None, steps=True):
    """Return 8 tokens compared: another than uncached's at 1, which the engine's logits choose, and a fault at 5."""
    uncached = np.tile(np.array([3, 2.9, 1, 0.5], np.float32), (1, 8, 1))
    engine, tokens = uncached.copy(), np.zeros((1, 8), np.int64)
    engine[0, 1, 1], tokens[0, 1] = 3.1, 1
    if nan:
        engine[0, 5, 2] = np.nan
    if mask is not None:
        uncached[0, 5, 2] = engine[0, 5, 2] = mask
        tokens[0, 5] = 2
    return compare(tokens, Logits(uncached=uncached, engine=engine if steps else None), "f32")


def test_the_difference_alone_is_allowed(make_case):
    """Or the faults below would prove nothing."""
    case = make_case("cached+weights=int8", evidence={"divergence": compared()})
    assert judge(case).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"nan": True}, "token 5: the engine has NaN among its logits"),
        ({"mask": -np.inf}, "token 5 differs: uncached chose 0, the engine 2, which uncached masks"),
        ({"mask": -1e9}, "token 5 differs: uncached chose 0, the engine 2, which uncached masks"),
        ({"mask": -1e9, "steps": False}, "token 5 differs: uncached chose 0, the engine 2, which uncached masks"),
    ],
)
def test_no_bound_excuses_what_is_no_number_or_masked(make_case, fault, told):
    """As for any engine, also behind a difference that is allowed."""
    verdict = judge(make_case("cached+weights=int8", evidence={"divergence": compared(**fault)}))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == told


def test_without_logits_nothing_is_known(make_case):
    """Differing tokens alone say neither."""
    assert judged(make_case, max_logit_error=None, logit_tolerance=None).outcome is Outcome.INCONCLUSIVE


def test_the_engine_s_own_choice_is_looked_for_in_its_own_logits():
    """Whatever the truth chooses; a tie within rounding is a choice too."""
    uncached = np.array([[[0.0, 1, 2], [2, 0, 1]]], np.float32)
    engine = np.array([[[0.0, 2, 1.9], [2, 2 - 1e-6, 1]]], np.float32)
    own = compare(np.array([[1, 1]]), Logits(uncached=uncached, engine=engine), "f32")
    assert "not_own_choice" not in own.extra
    stray = compare(np.array([[2, 0]]), Logits(uncached=uncached, engine=engine), "f32")
    assert stray.extra["not_own_choice"] == {"row": 0, "position": 0, "count": 1}
    assert stray.equal


def test_a_case_measured_at_both_ends_is_not_too_short(make_case):
    """Fewer tokens than the workload's were promised, and made."""
    whole = make_case(evidence={"tokens": dataclasses.replace(make_case().evidence.tokens, generated=((1, 2),))})
    assert "2 of 40 tokens" in judge(whole).summary
    said = dataclasses.replace(whole, spec={**whole.spec, "measured_tokens": 2})
    assert judge(said).outcome is Outcome.PASS
