import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.quantize import Scheme, dequantize, quantize_matrix
from qwenperf.models.quantized_product import quantized_product, quantized_rows

INT8, GROUPS, INT4 = Scheme(), Scheme(grouped=True), Scheme(bits=4, grouped=True, offset=True)
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(24, 64)).astype(np.float32) + np.float32(0.2)


@pytest.fixture(scope="module", params=[INT8, GROUPS, INT4], ids=["int8", "int8-g32", "int4-g32"])
def node(request):
    return quantize_matrix(jnp.asarray(WEIGHT), scheme=request.param)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_inputs_as_they_are_meet_the_dequantised_matrix(node, dtype):
    """The product in the input's dtype; a head asks for f32."""
    x = jnp.asarray(RNG.normal(size=(2, 3, 64)), dtype)
    exact = np.asarray(x, np.float64) @ np.asarray(dequantize(node), np.float64).T
    out = quantized_product(x, node, "native")
    assert out.dtype == dtype
    near = 2e-2 if dtype == jnp.bfloat16 else 1e-5
    np.testing.assert_allclose(out.astype(np.float32), exact, atol=near * np.abs(exact).max())
    assert quantized_product(x, node, "native", jnp.float32).dtype == jnp.float32


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_int8_inputs_are_the_rounded_ones_and_the_sum_is_whole(node, rows):
    """Max |x| / 127 is a row's step; products of rounded inputs with the matrix, in f64, for few and for many rows."""
    x = RNG.normal(size=(1, rows, 64)).astype(np.float32) * 5
    step = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    exact = (np.round(x / step) * step).astype(np.float64) @ np.asarray(dequantize(node), np.float64).T
    out = quantized_product(jnp.asarray(x), node, "int8")
    np.testing.assert_allclose(out, exact, atol=2e-6 * np.abs(exact).max(), rtol=1e-5)
    plain = quantized_product(jnp.asarray(x), node, "native")
    assert np.abs(np.asarray(plain) - exact).max() > 1e-4


def test_rows_of_a_table_are_those_of_the_matrix(node):
    """What is looked up is what the head multiplies by."""
    tokens = jnp.asarray([[3, 0], [23, 3]], jnp.int32)
    np.testing.assert_array_equal(quantized_rows(tokens, node), np.asarray(dequantize(node))[np.asarray(tokens)])


def test_two_rows_read_int8_as_it_lies():
    """On CPU one row makes XLA write the matrix anew, four bytes for one; two rows do not."""
    big = jax.ShapeDtypeStruct((512, 256), jnp.float32)
    for scheme in (INT8, GROUPS):
        node = jax.eval_shape(lambda weight, scheme=scheme: quantize_matrix(weight, scheme=scheme), big)

        def temporary(rows, node=node):
            x = jax.ShapeDtypeStruct((1, rows, 256), jnp.float32)
            run = jax.jit(lambda x, node: quantized_product(x, node, "int8"))
            return run.lower(x, node).compile().memory_analysis().temp_size_in_bytes

        assert temporary(1) > 512 * 256 * 4
        assert temporary(2) < 512 * 256
