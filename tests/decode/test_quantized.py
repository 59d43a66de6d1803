"""Engines with quantised weights, against the plain model and against one whose weights were rounded beforehand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.quantize import dequantize, quantize_params
from qwenperf.models.registry import Model, load_model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

# Largest error of a logit, in standard deviations of all logits; measured and then doubled.
BOUNDS = {
    "weights=int8": 0.06,
    "weights=int8-g32": 0.06,
    "weights=int4-g32": 0.6,
    "weights=int8+activations=int8": 0.2,
    "weights=int4-g32+activations=int8": 0.6,
}


def two_logits(built, tokens):
    """Return logits [2, B, V]: after the prompt, and after a step."""
    first, state = built.prefill(tokens[:, :-1])
    first = np.asarray(first)
    second, _ = built.decode_step(tokens[:, -1], state)
    return np.stack([first, np.asarray(second)])


@pytest.fixture(scope="module")
def uncached(model):
    """Return the last two logits [2, B, V] of one pass with other weights of the same shapes; compiled once."""
    run = jax.jit(partial(logits, config=model.config))
    return lambda params, tokens: np.asarray(run(params, tokens_BT=tokens.astype(np.int32)))[:, -2:].swapaxes(0, 1)


def rounded(node):
    """Return a quantised tree with plain matrices of the same values."""
    if isinstance(node, tuple):
        return tuple(rounded(below) for below in node)
    if not isinstance(node, dict):
        return node
    if "weight_q" not in node:
        return {name: rounded(below) for name, below in node.items()}
    kept = {"bias": node["bias"]} if "bias" in node else {}
    return {"weight": dequantize(node), **kept}


@pytest.mark.parametrize("settings", BOUNDS)
def test_logits_are_near_the_plain_ones(settings, engine, truth, prompt):
    """After the prompt and after a step; as far as the bits allow, and not nearer: the setting is no empty word."""
    tokens = prompt(2, 6)
    expected = truth(tokens)[:, -2:].swapaxes(0, 1)
    off = np.abs(two_logits(engine(f"cached+{settings}"), tokens) - expected).max() / expected.std()
    assert BOUNDS[settings] / 20 < off < BOUNDS[settings]


@pytest.mark.parametrize(
    "settings",
    [
        "weights=int8",
        "weights=int4-g32",
        "weights=int8-g32+qkv=fused+gate_up=fused+layers=scanned",
        "weights=int8+rows=4",
    ],
)
def test_the_error_is_that_of_the_rounded_weights(settings, engine, model, prompt, uncached):
    """A plain pass over the rounded matrices gives the same logits; fused, scanned and padded rows too."""
    tokens = prompt(2, 6, seed=1)
    name = settings.split("+")[0].removeprefix("weights=")
    expected = uncached(rounded(quantize_params(model.params, name)), tokens)
    found = two_logits(engine(f"cached+{settings}"), tokens)
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max(), rtol=1e-4)


@pytest.mark.slow
def test_every_rung_can_have_quantised_weights(engine, prompt):
    """Without a cache and with one, in one loop and step by step, the same tokens."""
    tokens = prompt(2, 5, seed=2)
    expected = engine("cached+weights=int8").generate(tokens, 4)
    for rung in ("naive", "cached-host"):
        np.testing.assert_array_equal(engine(f"{rung}+weights=int8").generate(tokens, 4), expected)


def test_the_models_own_weights_stay_plain(engine, model, truth, prompt):
    """The engine's truth is the unquantised model, whose arrays nobody touched."""
    tokens = prompt(2, 6, seed=3)
    built = engine("cached+weights=int8")
    assert model.params["embed_tokens"]["weight"].dtype == np.float32
    np.testing.assert_allclose(built.uncached_logits(tokens), truth(tokens), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("untied", [False, True])
def test_facts_count_quantised_bytes(untied):
    """All arrays of the engine's tree; a step reads of an embedding that is no head only its rows."""
    config = ModelConfig.from_hf({**PRESETS["tiny"], "tie_word_embeddings": not untied})
    small = Model(name="small", config=config, params=seeded_params(config), dtype="f32")
    facts = build_engine(small, "cached+weights=int8", capacity=16).facts(2, 5, 4)
    quantized = quantize_params(small.params, "int8")
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(quantized))
    assert facts.weight_bytes == size
    unread = (256 - 2) * (64 + 4) if untied else 0
    assert facts.bytes_per_step == size - unread + facts.kv_cache_bytes
    plain = build_engine(small, "cached", capacity=16).facts(2, 5, 4)
    assert facts.kv_cache_bytes == plain.kv_cache_bytes


def test_bf16_models_keep_their_dtype(prompt):
    """Hidden states and cache are bf16 as before, the cache as its bits; logits are f32."""
    narrow = load_model("tiny", "bf16")
    built = build_engine(narrow, "cached+weights=int4-g32+activations=int8+rows=2", capacity=16)
    found, state = built.prefill(prompt(1, 5))
    assert found.dtype == np.float32
    assert {leaf.dtype.name for leaf in jax.tree.leaves(state.device.layers)} == {"uint16"}


@pytest.mark.slow
def test_gpt2_is_quantised_with_its_biases(prompt):
    """Fused q, k and v, learned positions and biases: near the plain logits."""
    shape = PRESETS["gpt2"] | {"n_embd": 64, "n_head": 2, "n_layer": 1, "vocab_size": 256, "n_positions": 32}
    config = ModelConfig.from_hf(shape)
    small = Model(name="small", config=config, params=seeded_params(config), dtype="f32")
    tokens = prompt(1, 6)
    plain = np.asarray(logits(small.params, config, jnp.asarray(tokens, jnp.int32)))[0, -2:]
    found = two_logits(build_engine(small, "cached+weights=int8-g32", capacity=16), tokens)[:, 0]
    assert 0 < np.abs(plain - found).max() < 0.06 * plain.std()
