import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import TokenError
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.loss import Batch, count_targets, make_batch, summed_loss
from qwenperf.models.seeded import seeded_params

CONFIG = ModelConfig(
    model_type="qwen2",
    vocab_size=19,
    hidden_size=8,
    intermediate_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=4,
    tie_word_embeddings=True,
    attention_bias=True,
)
ROW = [3, 1, 4, 1, 5, 9]
PADDED = {
    "right": ([*ROW, 0, 0], [1] * 6 + [0] * 2),
    "left": ([0, 0, *ROW], [0] * 2 + [1] * 6),
}


@pytest.fixture(scope="module")
def params():
    return seeded_params(CONFIG)


@jax.jit
def loss(params, batch):
    return summed_loss(params, CONFIG, batch)


@pytest.fixture(scope="module")
def surprise(params):
    """What each token but the first costs, from the logits, by numpy."""
    scores = np.asarray(jax.jit(lambda params: logits(params, CONFIG, jnp.array([ROW])))(params)[0], np.float64)
    normal = np.log(np.exp(scores).sum(-1))
    return np.array([normal[at] - scores[at, token] for at, token in enumerate(ROW[1:])])


def test_the_loss_is_the_negative_log_probability_of_each_next_token(params, surprise):
    """Every token but the first counts, given those before it."""
    batch = make_batch([ROW], CONFIG)
    assert float(count_targets(batch)) == 5
    np.testing.assert_allclose(loss(params, batch), surprise.sum(), rtol=1e-5)


@pytest.mark.parametrize("side", PADDED)
def test_padding_costs_nothing_and_changes_nothing(params, surprise, side):
    """A padded row costs what it costs alone; the first token behind left padding is predicted from nothing."""
    tokens, mask = PADDED[side]
    batch = make_batch([tokens], CONFIG, attention_mask=[mask])
    assert float(count_targets(batch)) == 5
    np.testing.assert_allclose(loss(params, batch), surprise.sum(), rtol=1e-5)


def test_tokens_that_are_only_read_cost_nothing(params, surprise):
    """Of a question and its answer the answer is learnt, from both."""
    batch = make_batch([ROW], CONFIG, loss_mask=[[0, 0, 0, 0, 1, 1]])
    assert float(count_targets(batch)) == 2
    np.testing.assert_allclose(loss(params, batch), surprise[-2:].sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("tokens", "masks", "message"),
    [
        ([[3]], {}, r"int64\[1, 1\]"),
        ([[0.5, 1.0]], {}, r"float64\[1, 2\]"),
        ([[1, 2], [3]], {}, "different lengths"),
        ([[1, 19]], {}, "tokens from 1 to 19; the vocabulary has 19"),
        ([[-1, 2]], {}, "tokens from -1 to 2"),
        ([[1, 2]], {"attention_mask": [[1]]}, r"attention_mask is int64\[1, 1\]; the tokens are \[1, 2\]"),
        ([[1, 2]], {"loss_mask": [[1.0, 0.5]]}, r"loss_mask is float64"),
        ([[1, 2]], {"loss_mask": [[1, 0]]}, "no token to learn"),
        ([[1, 2]], {"attention_mask": [[0, 1]]}, "no token to learn"),
    ],
)
def test_a_batch_that_means_nothing_is_refused_on_the_host(tokens, masks, message):
    """Tokens are checked before any device sees them, and a batch without a target would divide by zero."""
    with pytest.raises(TokenError, match=message):
        make_batch(tokens, CONFIG, **masks)


def test_a_batch_is_a_tree_of_arrays():
    """It passes through jit as it is, with and without masks."""
    assert len(jax.tree.leaves(Batch(jnp.zeros((1, 2), jnp.int32)))) == 1
    assert len(jax.tree.leaves(make_batch([ROW], CONFIG, loss_mask=[[1] * 6]))) == 2
