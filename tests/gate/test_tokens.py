import dataclasses

import pytest

from qwenperf.gate import tokens
from qwenperf.schema.records import Divergence, Outcome, TokenEvidence

OFF_BY_ONE = Divergence(
    equal=False,
    reference="uncached greedy decoding",
    row=0,
    position=7,
    expected_token=512,
    actual_token=87,
    reference_margin=0.41,
    engine_margin=-0.3,
    tolerance=1e-5,
    max_logit_error=0.2,
    logit_tolerance=1e-5,
    worst_step=9,
)
TIE = dataclasses.replace(OFF_BY_ONE, near_tie=True, reference_margin=2e-6, engine_margin=-1e-6, max_logit_error=4e-6)


def judged(make_case, divergence, **evidence):
    return tokens.judge(make_case(evidence={"divergence": divergence, **evidence}))


def test_equal_tokens_and_logits_pass(make_case):
    """The pass says how many tokens, and how close the logits were."""
    verdict = tokens.judge(make_case())
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary == "all 40 tokens equal to uncached greedy decoding"
    assert verdict.detail == (
        "fed the same tokens, logits differ by 1e-06 of the largest at step 3, within the tolerance of 1e-05",
    )


def test_a_bug_names_position_tokens_margins_and_logits(make_case):
    """A mask off by one is told from rounding."""
    verdict = judged(make_case, OFF_BY_ONE)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == (
        "token 7 differs: uncached greedy decoding chose 512, the engine 87: a bug, not rounding "
        "(a near tie would be within 1e-05)"
    )
    assert verdict.detail[0] == (
        "logit of 512 over 87: +0.41 for uncached greedy decoding, -0.3 for the engine; rounding 1e-05"
    )
    assert "differ by 0.2 of the largest at step 9, beyond" in verdict.detail[1]
    assert "offset of one" in verdict.advice


def test_the_row_is_named_in_a_batch(make_case):
    """A batch bug often hits one row."""
    batch = TokenEvidence(prompt=((1,), (2,)), generated=((0,) * 40, (1,) * 40))
    verdict = judged(make_case, dataclasses.replace(OFF_BY_ONE, row=1), tokens=batch)
    assert verdict.summary.startswith("row 1, token 7 differs")


def test_a_near_tie_with_equal_logits_passes_and_is_named(make_case):
    """Rounding is no bug, and no secret either."""
    verdict = judged(make_case, TIE)
    assert verdict.outcome is Outcome.PASS
    assert "a near tie within rounding; logits agree at every step" in verdict.summary
    assert verdict.data["near_tie"] is True


def test_a_near_tie_does_not_hide_a_later_bug(make_case):
    """The teacher-forced logits decide."""
    verdict = judged(make_case, dataclasses.replace(TIE, max_logit_error=0.05))
    assert verdict.outcome is Outcome.FAIL
    assert "a near tie, but a bug is behind it" in verdict.summary


def test_a_near_tie_without_logits_is_inconclusive(make_case):
    """An engine without steps cannot prove that it was rounding."""
    verdict = judged(make_case, dataclasses.replace(TIE, max_logit_error=None))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "decode_step" in verdict.advice


def test_equal_tokens_with_other_logits_fail(make_case):
    """Tokens may be equal by luck."""
    equal = Divergence(equal=True, reference="uncached", max_logit_error=0.1, logit_tolerance=1e-5)
    verdict = judged(make_case, equal)
    assert verdict.outcome is Outcome.FAIL
    assert "the tokens are equal, but fed the same tokens, logits differ by 0.1" in verdict.summary


def test_equal_tokens_without_logits_pass_and_say_so(make_case):
    """A callable gives tokens only."""
    verdict = judged(make_case, Divergence(equal=True, reference="uncached"))
    assert verdict.outcome is Outcome.PASS
    assert "not compared" in verdict.detail[0]


def test_the_form_that_differs_is_named(make_case):
    """The stream may be wrong where the request is right."""
    verdict = judged(make_case, dataclasses.replace(OFF_BY_ONE, extra={"form": "stream"}))
    assert verdict.summary.startswith("token 7 of the stream differs")


def test_logits_that_are_not_finite_are_told_apart(make_case):
    """NaN is neither rounding nor an offset."""
    verdict = judged(make_case, dataclasses.replace(TIE, extra={"not_finite": True}))
    assert verdict.outcome is Outcome.FAIL
    assert "logits there are not finite" in verdict.summary


def test_logits_that_are_not_finite_are_told_without_a_choice_of_tokens(make_case):
    """The token may well be the same: only what is not finite is told."""
    told = "the logit of 6 is -inf for the engine only"
    same = dataclasses.replace(OFF_BY_ONE, expected_token=15, actual_token=15, extra={"not_finite": told})
    assert judged(make_case, same).summary == f"token 7: {told}"


def test_a_token_that_is_masked_is_told_apart(make_case):
    """There are logits, and they forbid it: that is no lack of logits."""
    masked = dataclasses.replace(OFF_BY_ONE, reference_margin=None, engine_margin=None, extra={"masked": True})
    verdict = judged(make_case, masked)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary.endswith("the engine 87, which uncached greedy decoding masks")


@pytest.mark.parametrize("generated", [((1, 2),), (), ((0,) * 40, ())])
def test_too_few_tokens_fail(make_case, generated):
    """Stopping early is fast, and wrong."""
    verdict = judged(
        make_case, Divergence(equal=True, reference="u"), tokens=TokenEvidence(prompt=(), generated=generated)
    )
    assert verdict.outcome is Outcome.FAIL
    assert "of 40 tokens were generated" in verdict.summary


def test_no_reference_is_never_a_pass(make_case):
    """Nothing compared, nothing proved."""
    verdict = judged(make_case, None)
    assert verdict.outcome is Outcome.SKIPPED
    assert "uncached_logits" in verdict.advice
