"""From a model's parameters to an engine's: what is where, and what is shared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import forward, unembed, whole_sequence
from qwenperf.models.layers import embed, product
from qwenperf.models.layout import fuse, prepare, split, stack, transpose
from qwenperf.models.seeded import seeded_params
from qwenperf.models.variant import Variant
from qwenperf.workloads.engine import EngineSettings
from qwenperf.workloads.models import PRESETS

CONFIG = ModelConfig.from_hf(PRESETS["tiny"])
PARAMS = seeded_params(CONFIG, seed=1)
LAYER = PARAMS["layers"][0]


def prepared(**settings):
    return prepare(PARAMS, CONFIG, EngineSettings(**settings))


def test_without_a_layout_every_array_is_the_models_own():
    """Nothing is copied, and a new tree is made: nobody changes the model's."""
    assert all(a is b for a, b in zip(jax.tree.leaves(prepared()), jax.tree.leaves(PARAMS), strict=True))
    assert prepared() is not PARAMS


def test_fusing_one_layer_module_leaves_the_others_shared():
    """q, k and v become one matrix and one bias; the MLP is the model's."""
    layer = prepared(qkv="fused")["layers"][0]
    assert set(layer["self_attn"]) == {"qkv_proj", "o_proj"}
    assert layer["self_attn"]["qkv_proj"]["weight"].shape == (64 + 32 + 32, 64)
    assert layer["self_attn"]["qkv_proj"]["bias"].shape == (128,)
    assert layer["mlp"]["down_proj"]["weight"] is LAYER["mlp"]["down_proj"]["weight"]
    assert set(prepared(gate_up="fused")["layers"][0]["mlp"]) == {"gate_up_proj", "down_proj"}


def test_splitting_undoes_fusing():
    """Weights and biases, by width."""
    modules = {name: LAYER["self_attn"][name] for name in ("q_proj", "k_proj", "v_proj")}
    parts = split(fuse(modules), {"q_proj": 64, "k_proj": 32, "v_proj": 32})
    for found, expected in zip(jax.tree.leaves(parts), jax.tree.leaves(modules), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_gpt2_has_one_projection_which_may_be_taken_apart():
    """Stored and fused are one thing; separate are three."""
    config = ModelConfig.from_hf(PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64})
    params = seeded_params(config)
    apart, stored, fused = (
        prepare(params, config, EngineSettings(qkv=qkv))["layers"][0]["self_attn"]
        for qkv in ("separate", "stored", "fused")
    )
    assert stored["qkv_proj"]["weight"] is fused["qkv_proj"]["weight"]
    assert {name: apart[name]["weight"].shape for name in apart} == dict.fromkeys(
        ("o_proj", "q_proj", "k_proj", "v_proj"), (32, 32)
    )


def test_in_out_says_so_by_name_and_holds_one_copy():
    """Every matrix of the layers and the head; norms stay. The tied embedding is the head, and read by columns."""
    params = prepared(contraction="in-out")
    assert set(params["layers"][0]["self_attn"]["q_proj"]) == {"weight_io", "bias"}
    assert params["layers"][0]["mlp"]["down_proj"]["weight_io"].shape == (128, 64)
    assert set(params["layers"][0]["input_layernorm"]) == {"weight"}
    assert set(params["embed_tokens"]) == {"weight_io"}
    tokens = jnp.asarray([[3, 0, 255]], jnp.int32)
    np.testing.assert_array_equal(embed(tokens, params["embed_tokens"]), embed(tokens, PARAMS["embed_tokens"]))


def test_a_transposed_matrix_multiplies_as_before():
    """Product and bias."""
    hidden = jnp.asarray(np.random.default_rng(0).normal(size=(1, 2, 64)), jnp.float32)
    module = LAYER["self_attn"]["q_proj"]
    expected = hidden @ np.asarray(module["weight"]).T
    np.testing.assert_allclose(product(hidden, transpose(module)), expected, rtol=1e-5, atol=1e-5)


def test_stacked_layers_are_one_with_an_axis_in_front():
    """In order, and every other part of the tree is the model's."""
    params = prepared(layers="scanned")
    stacked = params["layers"]["mlp"]["up_proj"]["weight"]
    for index, layer in enumerate(PARAMS["layers"]):
        np.testing.assert_array_equal(stacked[index], layer["mlp"]["up_proj"]["weight"])
    assert params["embed_tokens"]["weight"] is PARAMS["embed_tokens"]["weight"]


def test_a_stack_is_filled_layer_by_layer():
    """Each layer is asked for when the one before it is in the stack: two are never held beside it."""
    alive = []

    def layers():
        for index in range(3):
            alive.append(index)
            yield {"weight": np.full(4, index, np.float32)}

    filled = stack(layers(), 3)
    assert alive == [0, 1, 2]
    np.testing.assert_array_equal(filled["weight"][:, 0], [0, 1, 2])


@pytest.mark.parametrize("contraction", ["einsum", "batched", "dot_general"])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_products_are_equal_however_they_are_written(contraction, rows):
    """2 rows of 1 token, filled up to at least ``rows`` and cut back."""
    hidden = jnp.asarray(np.random.default_rng(0).normal(size=(2, 1, 64)), jnp.float32)
    weights = {"weight": LAYER["self_attn"]["q_proj"]["weight"]}
    expected = hidden @ np.asarray(weights["weight"]).T
    found = product(hidden, weights, Variant(contraction=contraction, rows=rows))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "copies"), [(1, True), (2, False)])
def test_one_row_of_bf16_makes_xla_copy_the_weight_to_f32_and_two_do_not(rows, copies):
    """What the setting is for, on CPU."""
    shapes = [jax.ShapeDtypeStruct(shape, "bfloat16") for shape in ((1, 1, 64), (128, 64))]

    def multiply(hidden, weight):
        return product(hidden, {"weight": weight}, Variant(rows=rows), np.dtype("float32"))

    compiled = jax.jit(multiply).lower(*shapes).compile()
    assert ("= f32[128,64]" in compiled.as_text()) is copies
    assert (compiled.memory_analysis().temp_size_in_bytes >= 128 * 64 * 4) is copies


@pytest.mark.parametrize("precision", ["highest", "high"])
def test_precision_reaches_every_product_of_the_pass(precision):
    """Those of attention too, which name none themselves; the default names none at all."""
    tokens = jnp.zeros((1, 3), jnp.int32)
    positions, mask = whole_sequence(tokens)

    def logits(params, variant):
        hidden, _ = forward(params, CONFIG, tokens, positions_BT=positions, mask_BTS=mask, variant=variant)
        return unembed(params, CONFIG, hidden, variant)

    def products(variant):
        text = jax.jit(logits, static_argnums=1).lower(PARAMS, variant).as_text()
        return [line for line in text.splitlines() if "dot_general" in line]

    wanted = f"precision = [{precision.upper()}, {precision.upper()}]"
    assert len(products(Variant(precision=precision))) == 2 * 9 + 1
    assert all(wanted in line for line in products(Variant(precision=precision)))
    assert not any(wanted in line for line in products(Variant()))
