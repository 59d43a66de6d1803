from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import TokenError
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.loss import make_batch
from qwenperf.models.perplexity import perplexity
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

CONFIG = ModelConfig.from_hf({**PRESETS["tiny"], "hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 40})


@pytest.fixture(scope="module")
def params():
    return seeded_params(CONFIG)


def test_perplexity_of_the_committed_text(golden, smollm2):
    """The real weights are as surprised by the text as transformers is."""
    expected = golden.facts["perplexity"]
    tokens = smollm2.tokenizer.encode((golden.folder / expected["text"]).read_text(encoding="utf-8"))
    assert len(tokens) == expected["tokens"]
    found = perplexity(smollm2.params, smollm2.config, np.asarray([tokens]))
    assert found == pytest.approx(expected["value"], rel=1e-3)


def test_it_is_the_definition(params):
    """exp(-mean log p) in f64; token t is judged by the logits before it."""
    tokens = np.random.default_rng(0).integers(0, 40, (2, 6))
    run = jax.jit(partial(logits, config=CONFIG))
    scores = np.asarray(run(params, tokens_BT=jnp.asarray(tokens, jnp.int32)), np.float64)[:, :-1]
    normal = np.log(np.exp(scores).sum(-1))
    found = np.take_along_axis(scores, tokens[:, 1:, None], -1)[..., 0] - normal
    assert perplexity(params, CONFIG, tokens) == pytest.approx(np.exp(-found.mean()), rel=1e-5)


def test_a_model_that_knows_nothing_is_as_surprised_as_a_die(params):
    """Equal logits give the size of the vocabulary."""
    blank = params | {"norm": {"weight": jnp.zeros(CONFIG.hidden_size)}}
    assert perplexity(blank, CONFIG, np.asarray([[1, 2, 3]])) == pytest.approx(40, rel=1e-5)


@pytest.mark.parametrize("tokens", [[[1]], [], [1, 2], [[1, 40]], [[-1, 2]], [[1.0, 2.5]]])
def test_tokens_that_cannot_be_judged_are_refused(params, tokens):
    """One token has nothing before it; ids outside the vocabulary, and what is no id, have no probability."""
    with pytest.raises(TokenError, match="perplexity"):
        perplexity(params, CONFIG, np.asarray(tokens))


GPT2 = ModelConfig.from_hf(
    PRESETS["gpt2"] | {"n_embd": 32, "n_head": 2, "n_layer": 1, "vocab_size": 40, "n_positions": 8}
)


@pytest.mark.parametrize("ask", ["perplexity", "logits", "batch"])
def test_more_tokens_than_learned_positions_are_refused(ask):
    """A look-up behind the table's end would be clamped: a number, and a wrong one. Padding takes no position."""
    weights = seeded_params(GPT2)
    asked = {
        "perplexity": partial(perplexity, weights, GPT2),
        "logits": partial(jax.eval_shape, partial(logits, weights, GPT2)),
        "batch": lambda tokens: make_batch(tokens, GPT2),
    }[ask]
    tokens = np.arange(9, dtype=np.int32)[None]
    asked(tokens[:, :8])
    with pytest.raises(TokenError, match="9 tokens; the model has 8 learned positions"):
        asked(tokens)
    make_batch(tokens, GPT2, attention_mask=[[0] + [1] * 8])
