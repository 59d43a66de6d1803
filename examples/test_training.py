"""A training step, or any other jitted function that is called again and again with what it returned."""

import numpy as np
import pytest

from qwenperf.models.config import ModelConfig
from qwenperf.models.loss import make_batch
from qwenperf.models.seeded import seeded_params
from qwenperf.models.training import TrainSettings, make_trainer

CONFIG = ModelConfig(
    model_type="llama",
    vocab_size=31,
    hidden_size=16,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=8,
    tie_word_embeddings=True,
)
ROWS, LENGTH = 4, 16


@pytest.fixture(scope="module")
def trainer():
    """Return the reference trainer: AdamW, gradients clipped and added up over two halves of a batch."""
    return make_trainer(CONFIG, TrainSettings(clip_norm=1.0, microbatches=2))


@pytest.fixture(scope="module")
def batches():
    """Return batches of one shape: other tokens compile nothing."""
    random = np.random.default_rng(0)
    return [make_batch(random.integers(0, 31, (ROWS, LENGTH)), CONFIG) for _ in range(4)]


def test_no_step_recompiles_or_copies_its_state(qwenperf, trainer, batches):
    """Two calls may compile; weights and moments alias in the compiled program, and memory keeps its budget."""
    case = qwenperf.steps(trainer.step, trainer.init(seeded_params(CONFIG)), calls=batches)
    assert case.metrics["peak_bytes"].value < 1_000_000


@pytest.mark.perf
@pytest.mark.qwenperf(budgets={"call_tokens_per_s": {"min": 100}})
def test_it_is_fast_enough(qwenperf, trainer, batches):
    """A floor in tokens per second; refused under pytest-xdist."""
    state = trainer.init(seeded_params(CONFIG))
    qwenperf.steps(trainer.step, state, calls=batches, tokens_per_call=ROWS * LENGTH)
