"""Models and engines of the timed gates; each is built and compiled once a session."""

import functools

import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.models.registry import load_model

PROMPT_LENGTH, NEW_TOKENS = 16, 20


@pytest.fixture(scope="session", params=["tiny", "4x128"])
def model(request):
    return load_model(request.param)


@pytest.fixture(scope="session")
def engine(model):
    """Return rungs of the model's ladder by name, with room for one request."""
    return functools.cache(lambda rung: build_engine(model, rung, capacity=PROMPT_LENGTH + NEW_TOKENS))


@pytest.fixture(scope="session")
def prompt(model):
    return np.random.default_rng(0).integers(0, model.config.vocab_size, (1, PROMPT_LENGTH), np.int32)
