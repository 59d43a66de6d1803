import jax.numpy as jnp
import numpy as np

from qwenperf.models.keys_values import read
from qwenperf.models.scaled import quantize_rows


def test_a_row_does_not_know_the_others():
    """Each row is rounded by its own largest value; a row of zeros stays one."""
    x = np.zeros((3, 64), np.float32)
    x[1, 0], x[2, 0] = 1e-3, 1e3
    whole, scale = quantize_rows(jnp.asarray(x))
    assert np.abs(whole).max(axis=1).tolist() == [0, 127, 127]
    np.testing.assert_allclose(scale, [0, 1e-3 / 127, 1e3 / 127], rtol=1e-6)


def test_rounding_to_int8_is_within_half_a_step():
    """Each row has its own scale, and a row of zeros stays zero."""
    x = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    x[1] *= 100
    x[2, 2] = 0
    kept = quantize_rows(jnp.asarray(x))
    assert (np.abs(np.asarray(kept.whole)).max(-1)[np.asarray(kept.scale) > 0] == 127).all()
    half = np.abs(x).max(-1, keepdims=True) / 254
    assert (np.abs(np.asarray(read(kept, jnp.float32)) - x) <= half * 1.001).all()
