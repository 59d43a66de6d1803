"""Attention, masks and caches in all their forms: exact ones keep every token, approximate ones a stated error."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import forward, unembed
from qwenperf.models.registry import Model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.approximate import logit_bound
from qwenperf.workloads.engine import EngineSettings, parse_engine
from qwenperf.workloads.models import PRESETS

CAPACITY = 14
"""No multiple of the blocks below: the last block overlaps the one before it."""
NEW = 6
_TINY = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 48, "vocab_size": 64}
SHAPES = {
    "qwen2": PRESETS["tiny"] | _TINY,
    "gpt2": PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64, "n_positions": CAPACITY},
}
CASES = [("qwen2", 3), ("gpt2", 1)]
EXACT = [
    "attention=repeated",
    "attention=einsum",
    "attention=dot_product_attention",
    "mask=additive",
    "mask=where",
    "mask=table",
    "key_block=5",
    "cache_layout=position-major",
    "cache_layout=stacked",
    "reuse=false",
    "attention=einsum+mask=additive+cache_layout=position-major",
    "attention=repeated+key_block=5+layers=scanned",
    "attention=dot_product_attention+mask=additive+cache_layout=stacked",
    "mask=table+key_block=4+prefill_chunk=3",
]
WINDOW = 4
WINDOWED = ["window=4", "window=4+key_block=3+cache_layout=position-major", "window=4+mask=table+prefill_chunk=3"]
APPROXIMATE = [
    "cache_dtype=bf16",
    "cache_dtype=int8",
    "cache_dtype=int8+key_block=5+cache_layout=stacked",
    "cache_dtype=int8+cache_layout=position-major+attention=dot_product_attention",
]


@cache
def build(family, dtype="f32", layers=1):
    config = replace(ModelConfig.from_hf(SHAPES[family]), num_hidden_layers=layers)
    params = seeded_params(config, seed=2)
    if dtype == "bf16":
        params = jax.tree.map(lambda leaf: leaf.astype(jax.numpy.bfloat16), params)
    return Model(name=family, config=config, params=params, dtype=dtype)


@cache
def truth(family, window=0, layers=1):
    """Return logits [B, T, V] of sequences of the full capacity, by a mask that is written out here."""
    model = build(family, layers=layers)
    order = np.arange(CAPACITY)
    mask = order[None] <= order[:, None]
    if window:
        mask &= order[:, None] - order[None] < window

    @jax.jit
    def run(tokens):
        shape = tokens.shape
        positions = np.broadcast_to(order.astype(np.int32), shape)
        hidden, _ = forward(
            model.params, model.config, tokens, positions_BT=jax.numpy.asarray(positions),
            mask_BTS=jax.numpy.asarray(np.broadcast_to(mask, (*shape, CAPACITY))),
        )  # fmt: skip
        return unembed(model.params, model.config, hidden)

    return run


def layers_for(changes):
    """Return 2 where layers share an array, else 1, which compiles sooner."""
    return 2 if "stacked" in changes or "scanned" in changes else 1


def prompt_of(batch, length=7):
    return np.random.default_rng([3, batch]).integers(0, 64, (batch, length), np.int32)


def assert_greedy(family, batch, changes, window=0):
    layers = layers_for(changes)
    engine = build_engine(build(family, layers=layers), f"cached+{changes}", capacity=CAPACITY)
    prompt = prompt_of(batch)
    new = np.asarray(engine.generate(prompt, NEW))
    whole = np.zeros((batch, CAPACITY), np.int32)
    whole[:, : 7 + NEW] = np.concatenate((prompt, new), axis=1)
    chosen = np.asarray(truth(family, window, layers)(whole)).argmax(-1)
    np.testing.assert_array_equal(new, chosen[:, 6 : 6 + NEW])
    # A model whose greedy tokens were all the same would hide faults.
    assert len(np.unique(new)) > 2


@pytest.mark.parametrize("changes", EXACT)
@pytest.mark.parametrize(("family", "batch"), CASES)
def test_an_exact_form_gives_the_greedy_tokens(family, batch, changes):
    """Each token is what an uncached pass over all that precedes it chooses, with grouped heads and without."""
    assert_greedy(family, batch, changes)


@pytest.mark.parametrize("changes", WINDOWED)
@pytest.mark.parametrize(("family", "batch"), [("qwen2", 1), ("gpt2", 3)])
def test_a_window_gives_the_greedy_tokens_of_the_model_with_that_window(family, batch, changes):
    """The truth is an uncached pass whose mask has the window; without it, another model."""
    assert_greedy(family, batch, changes, WINDOW)


def test_the_engines_own_truth_has_the_window():
    """What divergence is measured against sees no more keys than the engine."""
    engine = build_engine(build("qwen2"), "cached+window=4", capacity=CAPACITY)
    tokens = prompt_of(3, CAPACITY)
    own = engine.uncached_logits(tokens)
    np.testing.assert_allclose(own, truth("qwen2", WINDOW)(tokens), rtol=0, atol=1e-5)
    assert np.abs(own - truth("qwen2")(tokens)).max() > 1e-2


def forced(model, changes, tokens):
    """Return logits of the steps after a prompt of 7, fed the tokens that follow it."""
    engine = build_engine(model, f"cached-host{changes}", capacity=CAPACITY)
    _, state = engine.prefill(tokens[:, :7])
    out = []
    for position in range(7, CAPACITY):
        logits, state = engine.decode_step(tokens[:, position], state)
        out.append(np.asarray(logits, np.float32))
    return np.stack(out, 1)


def error_of(got, expected):
    """Return the largest error as a share of the largest logit of its row and step."""
    return (np.abs(got - expected).max(-1) / np.abs(expected).max(-1)).max()


@pytest.mark.parametrize("changes", APPROXIMATE)
@pytest.mark.parametrize(("family", "batch"), [("qwen2", 3), ("gpt2", 1)])
def test_a_smaller_cache_keeps_its_stated_error(family, batch, changes):
    """Logits of teacher-forced steps are off by something, so the cache is in that dtype, and by no more than said."""
    tokens = prompt_of(batch, CAPACITY)
    layers = layers_for(changes)
    expected = np.asarray(truth(family, layers=layers)(tokens))[:, 7:]
    error = error_of(forced(build(family, layers=layers), f"+{changes}", tokens), expected)
    assert 1e-4 < error < logit_bound(parse_engine(f"cached-host+{changes}"))


@pytest.mark.parametrize("softmax", ["accumulated", "native"])
def test_a_softmax_in_bf16_keeps_its_stated_error(softmax):
    """Against the same bf16 model with its softmax in f32."""
    tokens, model = prompt_of(3, CAPACITY), build("qwen2", "bf16")
    expected = forced(model, "", tokens)
    error = error_of(forced(model, f"+softmax={softmax}", tokens), expected)
    assert 0 < error < logit_bound(EngineSettings(softmax=softmax))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ("attention=dot_product_attention+key_block=8", "needs key_block=0"),
        ("attention=dot_product_attention+softmax=native", "needs softmax='f32'"),
        ("key_block=8+softmax=native", "needs softmax='f32'"),
        ("position=static", "needs jit=True and loop='host'"),
    ],
)
def test_forms_that_cannot_go_together_are_refused(changes, told):
    """Rather than one of them ignored."""
    with pytest.raises(ConfigError, match=told):
        parse_engine(f"cached+{changes}")


@pytest.mark.parametrize("engine", ["naive+mask=table", "padded+window=4", "cached-concat+reuse=false"])
def test_forms_of_a_static_cache_are_refused_without_one(engine):
    """Rather than ignored."""
    with pytest.raises(ConfigError, match="needs"):
        parse_engine(engine)
