"""Ways to ask an engine for tokens cost no more than the engine itself asks for."""

import importlib.util
from pathlib import Path

import jax
import numpy as np

from qwenperf.decode.build import build_engine
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
