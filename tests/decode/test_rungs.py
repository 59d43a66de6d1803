import numpy as np
import pytest

from qwenperf.workloads.case import ENGINES
from qwenperf.workloads.engine import RUNGS

NEW_TOKENS = dict.fromkeys(RUNGS, 3) | {"eager": 2}
"""Each token of the eager rung compiles some 60 programs."""
FIXED = ("padded", "cached-host", "cached")


def _assert_greedy(truth, prompt_BT, new_BN):
    """Each token is what an uncached pass over all that precedes it would choose: by induction, all are right."""
    whole = np.concatenate((prompt_BT, new_BN), axis=1)
    expected = truth(whole)[:, prompt_BT.shape[1] - 1 : -1].argmax(-1)
    np.testing.assert_array_equal(new_BN, expected)


def test_every_engine_that_a_case_may_name_has_settings():
    """Cases and ladder list the same rungs in the same order."""
    assert tuple(RUNGS) == ENGINES


@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_generates_the_greedy_tokens(rung, engine, truth, prompt):
    """Batch 3 from a prompt of 7."""
    new = np.asarray(engine(rung).generate(prompt(3, 7), NEW_TOKENS[rung]))
    assert new.dtype == np.int32
    _assert_greedy(truth, prompt(3, 7), new)


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (3, 1), (3, 7)])
@pytest.mark.parametrize("rung", ["padded", "cached"])
def test_odd_lengths_and_batches_up_to_the_last_position(rung, shape, engine, truth, prompt):
    """Prompts of 1 and 7, batches of 1 and 3, the capacity of 16 used to the full."""
    new = np.asarray(engine(rung).generate(prompt(*shape), 16 - shape[1]))
    assert new.shape == (shape[0], 16 - shape[1])
    _assert_greedy(truth, prompt(*shape), new)


@pytest.mark.parametrize("rung", ["naive", "cached-concat"])
def test_growing_rungs_start_from_one_token(rung, engine, truth, prompt):
    """A prompt of 1 grows by 1."""
    _assert_greedy(truth, prompt(1, 1), np.asarray(engine(rung).generate(prompt(1, 1), 2)))


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung != "eager"])
def test_teacher_forced_steps_give_the_uncached_logits(rung, engine, truth, prompt):
    """Fed the same tokens, prefill and steps agree with one pass over the sequence within 1e-5 of the largest logit."""
    tokens = prompt(3, 10)
    expected = truth(tokens)
    logits, state = engine(rung).prefill(tokens[:, :7])
    got = [logits]
    for position in (7, 8):
        logits, state = engine(rung).decode_step(tokens[:, position], state)
        got.append(logits)
    error = np.abs(np.stack(got, 1) - expected[:, 6:9]).max()
    assert error <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("rung", RUNGS)
def test_a_stream_yields_what_generate_returns(rung, engine, prompt):
    """One array [B] a step."""
    count = NEW_TOKENS[rung]
    streamed = list(engine(rung).stream(prompt(3, 7), count))
    assert [token.shape for token in streamed] == [(3,)] * count
    np.testing.assert_array_equal(np.stack(streamed, 1), engine(rung).generate(prompt(3, 7), count))


@pytest.mark.parametrize("rung", FIXED)
def test_a_request_leaves_nothing_behind_for_the_next(rung, engine, prompt):
    """A long request between two equal short ones reuses their buffers and changes nothing."""
    before = np.asarray(engine(rung).generate(prompt(1, 7), 5))
    engine(rung).generate(prompt(1, 7, seed=1), 9)
    np.testing.assert_array_equal(engine(rung).generate(prompt(1, 7), 5), before)


def test_a_state_in_a_callers_hands_is_not_reused(engine, prompt, truth):
    """Requests that run between two steps do not write into the caller's cache."""
    cached = engine("cached")
    tokens = prompt(1, 8)
    _, state = cached.prefill(tokens[:, :7])
    cached.generate(prompt(1, 7, seed=1), 9)
    cached.generate(prompt(1, 7, seed=2), 9)
    logits, _ = cached.decode_step(tokens[:, 7], state)
    np.testing.assert_allclose(logits, truth(tokens)[:, -1], rtol=0, atol=1e-4)


def test_uncached_logits_are_the_truth_on_every_rung(engine, prompt, truth):
    """The reference that divergence is measured against is one forward pass, whatever the rung."""
    for rung in ("padded", "cached"):
        np.testing.assert_allclose(engine(rung).uncached_logits(prompt(3, 10)), truth(prompt(3, 10)), atol=1e-5)
