"""Stretched frequencies: what each way leaves alone, and what it divides. The numbers are held by the golden files."""

import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.rope_scaling import RopeScaling, attention_factor, frequencies
from qwenperf.models.rotary import compute, look_up, make_tables

THETA, SIZE = 10000.0, 64
PLAIN = frequencies(THETA, SIZE, None)
LENGTH = 2048


def stretched(rope_type, **given):
    scaling = RopeScaling(rope_type=rope_type, factor=8.0, original_max_position_embeddings=LENGTH, **given)
    return frequencies(THETA, SIZE, scaling)


def test_linear_divides_all():
    """As if the positions themselves were divided."""
    np.testing.assert_allclose(stretched("linear"), PLAIN / 8, rtol=1e-6)


@pytest.mark.parametrize(
    ("rope_type", "fast", "slow"), [("llama3", LENGTH / 4, LENGTH / 1), ("yarn", LENGTH / 32, LENGTH / 1)]
)
def test_fast_turns_stay_and_slow_ones_are_divided(rope_type, fast, slow):
    """By wavelength in positions: under ``fast`` as it was, over ``slow`` an eighth, and no jump between."""
    found, wavelength = stretched(rope_type), 2 * np.pi / PLAIN
    share = (found / PLAIN).astype(np.float64)
    np.testing.assert_allclose(share[wavelength < 0.9 * fast], 1, rtol=1e-6)
    np.testing.assert_allclose(share[wavelength > 1.5 * slow], 1 / 8, rtol=1e-6)
    assert (np.diff(share) <= 1e-6).all()
    assert ((share > 0.2) & (share < 0.9)).any()


def test_yarn_without_truncation_starts_between_two_frequencies():
    """Rounding the bounds outwards moves the ramp."""
    assert not np.allclose(stretched("yarn"), stretched("yarn", truncate=False))


def test_the_attention_factor_of_yarn():
    """0.1 ln(factor) + 1, or the quotient of two such with mscale; nothing when nothing is stretched."""
    assert attention_factor(4.0, None, None) == pytest.approx(1 + 0.1 * np.log(4))
    assert attention_factor(4.0, 2.0, 1.0) == pytest.approx((1 + 0.2 * np.log(4)) / (1 + 0.1 * np.log(4)))
    assert attention_factor(1.0, None, None) == 1


def test_sines_and_cosines_carry_the_attention_factor():
    """In tables and computed on the spot alike, whatever the position."""
    sizes = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = ModelConfig(
        model_type="llama", **sizes, num_attention_heads=1, num_key_value_heads=1, head_dim=8,
        rope_scaling=RopeScaling(rope_type="yarn", factor=4.0, attention_factor=1.25),
    )  # fmt: skip
    positions = jnp.asarray([[0, 3, 11]], jnp.int32)
    computed, looked_up = compute(config, positions), look_up(make_tables(config, 12), positions)
    for rotation in (computed, looked_up):
        np.testing.assert_allclose(np.hypot(rotation.cos, rotation.sin), 1.25, rtol=1e-6)
    np.testing.assert_allclose(computed.cos, looked_up.cos, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"factor": -1.0}, "factor is -1.0"),
        ({"factor": float("nan")}, "factor is nan"),
        ({"beta_slow": True}, "beta_slow is True"),
        ({"factors": (1.0, 0.0)}, "1 is 0.0"),
    ],
)
def test_numbers_that_no_formula_can_use(given, named):
    """Each is named."""
    with pytest.raises(ConfigError, match=named):
        RopeScaling(rope_type="linear", **given)
