"""What every other test runs under is really on."""

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from qwenperf.models.layers import linear


def test_arrays_of_different_dtypes_do_not_mix_silently():
    """A promotion that nobody wrote down is an error."""
    with pytest.raises(jax.dtypes.TypePromotionError, match="jax_numpy_dtype_promotion=strict"):
        jnp.ones(2, jnp.float32) + jnp.ones(2, jnp.bfloat16)


def test_arrays_of_different_rank_do_not_broadcast_silently():
    """A missing axis is an error."""
    with pytest.raises(ValueError, match="jax_numpy_rank_promotion"):
        jnp.ones((2, 2)) + jnp.ones(2)


def test_shapes_in_signatures_are_checked():
    """A call with shapes that contradict the signature fails."""
    with pytest.raises(TypeCheckError):
        linear(jnp.ones((1, 2, 3), jnp.int32), {"weight": jnp.ones((4, 3))})


def test_tests_run_on_the_cpu():
    """No accelerator is needed, or looked for."""
    assert jax.default_backend() == "cpu"
