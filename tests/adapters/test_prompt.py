"""What people hand over, and what their functions return, is named where it cannot be used."""

import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.adapters import as_engine, prefix_logits
from qwenperf.adapters.prompt import as_tokens, new_tokens_only
from qwenperf.errors import MeasurementError, TokenError


@pytest.mark.parametrize("token", [2**40 + 3, 2**31, -(2**31) - 1])
def test_a_token_that_does_not_fit_is_refused_and_not_wrapped_round(token):
    """2**40 + 3 is not token 3."""
    with pytest.raises(TokenError, match=f"token {token}, which int32 does not hold"):
        as_tokens([1, token])


@pytest.mark.parametrize(
    ("result", "seen"), [(None, "None"), (jnp.zeros((1, 3)), "a ArrayImpl"), ((1, 2, 3), "3 values")]
)
def test_a_step_that_returns_no_pair_is_named(result, seen):
    """Each way to ask for a step says what came instead of logits and state."""
    engine = as_engine((lambda _: (jnp.zeros((1, 3)), 0), lambda *_: result), name="mine")
    with pytest.raises(MeasurementError, match=f"mine.decode_step returned {seen}. Return .logits, state."):
        engine.generate(np.zeros((1, 2), np.int32), 3)
    engine = as_engine((lambda _: result, lambda *_: None), name="mine")
    with pytest.raises(MeasurementError, match=f"mine.prefill returned {seen}"):
        engine.prefill(np.zeros((1, 2), np.int32))
    with pytest.raises(MeasurementError, match=f"prefill returned {seen}"):
        prefix_logits(lambda _: result)(np.zeros((1, 2), np.int32))


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (np.full((1, 3), 5.0), r"theirs\(\) returned float64\[1, 3\], and tokens are whole numbers. Return token ids"),
        (jnp.full((1, 3), 5.0), r"returned float32\[1, 3\]"),
        ([True, False, True], r"returned bool\[3\]"),
        ([[5, 6], [7]], "returned rows of different lengths"),
        ([[5, 6, 2**32 + 7]], f"returned token {2**32 + 7}, which int32 does not hold"),
    ],
)
def test_what_is_no_token_is_refused_and_not_made_one(result, told):
    """Also 5.0, which somebody forgot to round or to choose by; 2**32 + 7 is not token 7."""
    with pytest.raises(MeasurementError, match=told):
        new_tokens_only(result, np.zeros((1, 2), np.int32), 3, "theirs()")


@pytest.mark.parametrize("result", [[[5, 6, 7]], np.asarray([5, 6, 7], np.uint8), jnp.asarray([[1, 2, 5, 6, 7]])])
def test_tokens_of_any_whole_type_and_form_are_taken(result):
    """With the prompt before them or not, a batch of one with or without its axis."""
    assert new_tokens_only(result, np.asarray([[1, 2]]), 3, "theirs()").tolist() == [[5, 6, 7]]
