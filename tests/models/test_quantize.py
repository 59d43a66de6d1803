import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.models.config import ModelConfig
from qwenperf.models.parameters import flatten
from qwenperf.models.quantize import SCHEMES, Scheme, dequantize, quantize_matrix, quantize_params
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

INT8, GROUPS = Scheme(), Scheme(grouped=True)
INT4, INT4_SYMMETRIC = Scheme(bits=4, grouped=True, offset=True), Scheme(bits=4, grouped=True)
ALL = (INT8, GROUPS, INT4, INT4_SYMMETRIC)
WEIGHT = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32) + np.float32(0.5)


def quantized(weight, scheme):
    return quantize_matrix(jnp.asarray(weight), scheme=scheme)


def size(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def test_int8_has_a_scale_for_each_output():
    """The largest value of a row is 127 of its scale; every other one is the nearest whole number of scales."""
    node = quantized(WEIGHT, INT8)
    scale = np.abs(WEIGHT).max(axis=1) / 127
    np.testing.assert_allclose(node["scale"], scale, rtol=1e-6)
    np.testing.assert_array_equal(node["weight_q"], np.round(WEIGHT / scale[:, None]))
    assert np.abs(node["weight_q"]).max(axis=1).tolist() == [127] * 6


@pytest.mark.parametrize(("scheme", "steps"), [(GROUPS, 127), (INT4_SYMMETRIC, 7), (INT4, 7.5)])
def test_groups_have_their_own_scales(scheme, steps):
    """No value of a group of 32 neighbours is off by more than half of the group's step, bf16's rounding on top."""
    groups = WEIGHT.reshape(6, 2, 32)
    middle = (groups.max(-1) + groups.min(-1)) / 2 if scheme.offset else 0
    step = (np.abs(groups).max(-1) if not scheme.offset else groups.max(-1) - middle) / steps
    node = quantized(WEIGHT, scheme)
    np.testing.assert_allclose(node["scale"].astype(np.float32).T, step, rtol=2**-7)
    assert (step * (1 - 1e-6) <= node["scale"].astype(np.float32).T).all()
    off = np.abs(np.asarray(dequantize(node)).reshape(groups.shape) - groups)
    assert (off <= 0.5 * step[..., None] * 1.03).all()


def test_sixteen_levels_are_kept():
    """Weights that were rounded to a scale and a smallest value before, as in GGUF's q4_1, stay where they are."""
    levels = np.random.default_rng(1).integers(0, 16, (4, 2, 32))
    levels[..., 0], levels[..., 1] = 0, 15
    weight = (levels * np.float32(0.125) - np.float32(0.75)).reshape(4, 64)
    np.testing.assert_array_equal(dequantize(quantized(weight, INT4)), weight)


def test_two_values_share_a_byte():
    """The low half of byte j is value j, the high half value j + 16, both 8 too large."""
    weight = np.zeros((1, 32), np.float32)
    weight[0, [0, 1, 16]] = 7, -7, 3
    packed = np.asarray(quantized(weight, INT4_SYMMETRIC)["weight_q"])
    assert packed.shape == (1, 1, 16)
    assert packed.dtype == np.uint8
    assert packed[0, 0, :3].tolist() == [15 + 16 * 11, 1 + 16 * 8, 8 + 16 * 8]


@pytest.mark.parametrize("scheme", ALL)
def test_zeros_and_constants_stay(scheme):
    """A row without a range has a scale nonetheless; nothing is divided by zero."""
    weight = np.zeros((2, 32), np.float32)
    np.testing.assert_array_equal(dequantize(quantized(weight, scheme)), weight)
    for constant in (0.25, 0.01, -0.03):
        weight[:] = constant
        np.testing.assert_allclose(dequantize(quantized(weight, scheme)), weight, rtol=1e-2)


@pytest.mark.parametrize(("scheme", "size_by_formula"), [(INT8, 64 + 4), (GROUPS, 64 + 4), (INT4, 32 + 8)])
def test_bytes_are_those_of_the_formula(scheme, size_by_formula):
    """A row of 64: bytes of values, and one f32 scale, or two bytes a scale and offset of each of its two groups."""
    assert size(quantized(WEIGHT, scheme)) == 6 * size_by_formula


@pytest.mark.parametrize("preset", ["tiny", "gpt2"])
def test_matrices_are_quantised_and_nothing_else(preset):
    """Norms, biases and learned positions are the very arrays of the plain tree, which is left as it was."""
    small = {"n_embd": 64, "n_head": 2, "n_layer": 1, "vocab_size": 40, "n_positions": 32} if preset == "gpt2" else {}
    params = seeded_params(ModelConfig.from_hf(PRESETS[preset] | small))
    before = flatten(params)
    after = flatten(quantize_params(params, "int4-g32"))
    assert flatten(params).keys() == before.keys()
    matrices = [name for name, leaf in before.items() if leaf.ndim == 2 and not name.startswith("embed_positions")]
    assert matrices
    for name in matrices:
        assert name not in after
        narrow = np.int8 if name.startswith("embed_tokens") else np.uint8
        assert after[f"{name}_q"].dtype == narrow, name
    kept = before.keys() - set(matrices)
    assert all(after[name] is before[name] for name in kept)


@pytest.mark.parametrize(("name", "least"), [("int8", 3.6), ("int8-g32", 3.6), ("int4-g32", 5.0)])
def test_a_model_is_so_many_times_smaller(name, least):
    """By all arrays of the tree, those that stay f32 included, at sizes where matrices are most of it."""
    config = ModelConfig.from_hf({**PRESETS["tiny"], "hidden_size": 128, "intermediate_size": 512})
    params = seeded_params(config)
    assert size(params) / size(quantize_params(params, name)) > least


def test_what_cannot_be_quantised_is_named():
    """Inputs that groups do not divide, and a scheme that nobody knows."""
    config = ModelConfig.from_hf(
        {**PRESETS["tiny"], "hidden_size": 48, "num_attention_heads": 3, "num_key_value_heads": 3}
    )
    params = seeded_params(config)
    with pytest.raises(ConfigError, match="48 inputs, which groups of 32"):
        quantize_params(params, "int8-g32")
    with pytest.raises(UnknownNameError, match="int8-g32"):
        quantize_params(params, "int8-g31")
    assert set(SCHEMES) == {"int8", "int8-g32", "int4-g32"}
