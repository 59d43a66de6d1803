"""Ways to ask an engine for tokens cost no more than the engine itself asks for."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.errors import MeasurementError
from qwenperf.lab.forms import Forms, stack
from qwenperf.models.registry import load_model
from qwenperf.workloads.case import Workload

_SPEC = importlib.util.spec_from_file_location("engines_by_hand", Path(__file__).with_name("engines.py"))
engines = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(engines)

WORK = Workload(prompt_length=2, new_tokens=5)
PROMPT = np.array([[3, 1]], np.int32)


class Noting(engines.Markov):
    """Notes what its steps are fed."""

    def __init__(self):
        super().__init__()
        self.fed = []

    def decode_step(self, tokens_B, state):
        """Return logits after a token."""
        self.fed.append(tokens_B)
        return super().decode_step(tokens_B, state)


def test_steps_are_fed_tokens_that_were_chosen_on_the_device():
    """No logits come to the host between two tokens, and the tokens are the greedy ones."""
    engine = Noting()
    tokens = stack(tuple(Forms(engine=engine, workload=WORK, prompt_BT=PROMPT).stream()))
    assert all(isinstance(fed, jax.Array) for fed in engine.fed)
    np.testing.assert_array_equal(tokens, engines.Markov().generate(PROMPT, WORK.new_tokens))


def test_our_engines_hand_tokens_over_on_the_host():
    """They are fetched once, and not sent back to be fetched again within the clock."""
    for rung in ("cached", "cached-host"):
        tokens = build_engine(load_model("tiny"), rung, capacity=8).generate(PROMPT, 4)
        assert type(tokens) is np.ndarray


@pytest.mark.parametrize(("vocab", "told"), [(None, "and no token is below 0"), (7, "and the vocabulary has 7")])
def test_a_negative_token_is_refused_whether_the_vocabulary_is_known_or_not(vocab, told):
    """A vocabulary that is not known is not told."""
    forms = Forms(engine=engines.Markov(), workload=WORK, prompt_BT=PROMPT, vocab_size=vocab)
    with pytest.raises(MeasurementError, match=f"tokens from -1 to 3, {told}"):
        forms.check_tokens(np.array([[0, 1, -1, 3, 2]]))


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ([(1,)] * 2, r"trial 3: markov streamed 2 items of int32\[1\] instead of 5 of \[1\]. What is timed is all"),
        ([(1,)] * 6, r"streamed 6 items of int32\[1\] instead"),
        ([(1,)] * 4 + [(2,)], r"streamed 5 items of int32\[1\], int32\[2\] instead"),
        ([()] * 5, r"streamed 5 items of int32\[\] instead"),
        ([], r"streamed 0 items instead"),
    ],
)
def test_a_stream_is_one_item_for_each_token(shapes, told):
    """Anything else is one line that says what was seen, and where."""
    forms = Forms(engine=engines.Markov(), workload=WORK, prompt_BT=PROMPT)
    forms.check_stream([np.zeros(1, np.int32)] * 5)
    with pytest.raises(MeasurementError, match=told):
        forms.check_stream([np.zeros(shape, np.int32) for shape in shapes], "trial 3")


def test_what_is_no_array_is_an_error_in_one_line():
    """Rows of different lengths, as an engine gives that stops at end tokens."""
    engine = engines.Bare()
    engine.generate = lambda *_: [[1, 2, 3], [1]]
    with pytest.raises(MeasurementError, match="bare returned a list, which is no array of tokens: "):
        Forms(engine=engine, workload=WORK, prompt_BT=PROMPT).request()
