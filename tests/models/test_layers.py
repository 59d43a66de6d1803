import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.models.layers import contract_last, embed, gated_mlp, gelu_mlp, layer_norm, linear, rms_norm

RNG = np.random.default_rng(0)
HIDDEN_BTD = RNG.normal(size=(2, 3, 8)).astype(np.float32)
WEIGHT_OI = RNG.normal(size=(5, 8)).astype(np.float32)


def test_rms_norm_divides_by_the_root_mean_square():
    """The formula in f64, eps under the root."""
    weight = RNG.normal(size=8).astype(np.float32)
    wide = HIDDEN_BTD.astype(np.float64)
    expected = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 0.5) * weight
    out = rms_norm(jnp.asarray(HIDDEN_BTD), {"weight": jnp.asarray(weight)}, 0.5)
    np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)


def test_rms_norm_of_bf16_squares_in_f32():
    """Mean and root are taken in f32; the result is the f32 one, rounded once."""
    narrow = jnp.asarray(HIDDEN_BTD, jnp.bfloat16)
    ones = {"weight": jnp.ones(8, jnp.bfloat16)}
    expected = rms_norm(narrow.astype(jnp.float32), {"weight": jnp.ones(8)}, 1e-6).astype(jnp.bfloat16)
    np.testing.assert_array_equal(rms_norm(narrow, ones, 1e-6), expected)


def test_rms_norm_of_heads_is_that_of_each_row():
    """Any number of axes before the last: a head is a row."""
    heads = jnp.asarray(RNG.normal(size=(2, 3, 4, 8)).astype(np.float32))
    weights = {"weight": jnp.asarray(RNG.normal(size=8).astype(np.float32))}
    expected = rms_norm(heads.reshape(2, 12, 8), weights, 1e-6).reshape(heads.shape)
    np.testing.assert_array_equal(rms_norm(heads, weights, 1e-6), expected)


def test_layer_norm_takes_mean_and_variance_away():
    """The formula in f64, eps added to the variance, weight and bias last."""
    weight, bias = RNG.normal(size=(2, 8)).astype(np.float32)
    wide = HIDDEN_BTD.astype(np.float64) + 3
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 0.5) * weight + bias
    weights = {"weight": jnp.asarray(weight), "bias": jnp.asarray(bias)}
    np.testing.assert_allclose(layer_norm(jnp.asarray(HIDDEN_BTD + 3), weights, 0.5), expected, rtol=1e-5, atol=1e-5)


def test_layer_norm_of_bf16_is_rounded_once():
    """Weight and bias too are applied in f32."""
    narrow = jnp.asarray(HIDDEN_BTD, jnp.bfloat16)
    weights = {name: jnp.full(8, 1.5, jnp.bfloat16) for name in ("weight", "bias")}
    wide = {name: value.astype(jnp.float32) for name, value in weights.items()}
    expected = layer_norm(narrow.astype(jnp.float32), wide, 1e-5).astype(jnp.bfloat16)
    np.testing.assert_array_equal(layer_norm(narrow, weights, 1e-5), expected)


def test_linear_multiplies_by_out_in_and_adds_the_bias_where_there_is_one():
    """Weights lie as in Hugging Face's files."""
    bias = RNG.normal(size=5).astype(np.float32)
    weights = {"weight": jnp.asarray(WEIGHT_OI)}
    np.testing.assert_allclose(linear(jnp.asarray(HIDDEN_BTD), weights), HIDDEN_BTD @ WEIGHT_OI.T, rtol=1e-5, atol=1e-6)
    weights["bias"] = jnp.asarray(bias)
    np.testing.assert_allclose(
        linear(jnp.asarray(HIDDEN_BTD), weights), HIDDEN_BTD @ WEIGHT_OI.T + bias, rtol=1e-5, atol=1e-6
    )


def test_a_weight_is_read_as_it_lies():
    """One token: the compiled product holds no copy and no transpose of the weight."""
    args = jnp.ones((1, 1, 64)), jnp.ones((128, 64))
    text = jax.jit(contract_last).lower(*args).compile().as_text()
    moved = [line for line in text.splitlines() if (" copy(" in line or " transpose(" in line) and "128" in line]
    assert not [line for line in moved if "64" in line]


def test_bf16_logits_are_accumulated_and_returned_in_f32():
    """The head's product asks for f32, so that near-ties are not rounded into ties."""
    out = contract_last(jnp.ones((1, 1, 8), jnp.bfloat16), jnp.asarray(WEIGHT_OI, jnp.bfloat16), jnp.dtype(jnp.float32))
    assert out.dtype == jnp.float32
    narrow = np.asarray(jnp.asarray(WEIGHT_OI, jnp.bfloat16), np.float32)
    np.testing.assert_allclose(out[0, 0], narrow.sum(-1), rtol=1e-6, atol=1e-6)


def test_embedding_returns_the_tokens_rows():
    """Row 3, then row 0."""
    table = jnp.asarray(WEIGHT_OI)
    np.testing.assert_array_equal(embed(jnp.asarray([[3, 0]], jnp.int32), {"weight": table})[0], WEIGHT_OI[[3, 0]])


def test_the_mlp_gates_with_silu():
    """down(silu(gate x) * up x) in f64."""
    gate, up = RNG.normal(size=(2, 6, 8))
    down = RNG.normal(size=(8, 6))
    names = {"gate_proj": gate, "up_proj": up, "down_proj": down}
    weights = {name: {"weight": jnp.asarray(value, jnp.float32)} for name, value in names.items()}
    gated = HIDDEN_BTD @ gate.T
    expected = (gated / (1 + np.exp(-gated)) * (HIDDEN_BTD @ up.T)) @ down.T
    np.testing.assert_allclose(gated_mlp(jnp.asarray(HIDDEN_BTD), weights), expected, rtol=1e-4, atol=1e-4)


def test_the_other_mlp_is_a_gelu_between_two_matrices_with_biases():
    """down(gelu(up x)), the gelu by its tanh formula, in f64; the exact gelu differs in the fourth digit."""
    up, down = RNG.normal(size=(6, 8)), RNG.normal(size=(8, 6))
    up_bias, down_bias = RNG.normal(size=6), RNG.normal(size=8)
    weights = {
        "up_proj": {"weight": jnp.asarray(up, jnp.float32), "bias": jnp.asarray(up_bias, jnp.float32)},
        "down_proj": {"weight": jnp.asarray(down, jnp.float32), "bias": jnp.asarray(down_bias, jnp.float32)},
    }
    x = HIDDEN_BTD.astype(np.float64) @ up.T + up_bias
    gelu = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    np.testing.assert_allclose(
        gelu_mlp(jnp.asarray(HIDDEN_BTD), weights), gelu @ down.T + down_bias, rtol=1e-5, atol=2e-5
    )
