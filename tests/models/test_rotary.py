import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.config import ModelConfig
from qwenperf.models.rotary import compute, look_up, make_tables, rotate

CONFIG = ModelConfig(
    model_type="qwen2",
    vocab_size=16,
    hidden_size=32,
    intermediate_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    head_dim=16,
    rope_theta=10000.0,
)
POSITIONS_BT = jnp.asarray([[0, 1, 2, 3, 63], [5, 0, 17, 3, 40]], jnp.int32)


def _heads(dtype=np.float32):
    return jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 2, 16)).astype(dtype))


def _by_complex_numbers(x_BTHD, positions_BT):
    """The definition: the halves of a head are real and imaginary parts, turned by exp(i angle)."""
    x = np.asarray(x_BTHD, np.float64)
    pairs = x[..., :8] + 1j * x[..., 8:]
    angles = np.asarray(positions_BT)[..., None] * 10000.0 ** (-np.arange(8) / 8)
    turned = pairs * np.exp(1j * angles)[:, :, None, :]
    return np.concatenate((turned.real, turned.imag), axis=-1)


@pytest.mark.parametrize("source", ["tables", "computed"])
def test_rotation_is_the_product_with_a_complex_exponential(source):
    """Both ways to get sines agree with complex numbers in f64."""
    rotation = look_up(make_tables(CONFIG, 64), POSITIONS_BT) if source == "tables" else compute(CONFIG, POSITIONS_BT)
    np.testing.assert_allclose(
        rotate(_heads(), rotation), _by_complex_numbers(_heads(), POSITIONS_BT), rtol=0, atol=2e-5
    )


def test_position_zero_changes_nothing():
    """At position 0 the angle is 0."""
    rotation = compute(CONFIG, jnp.zeros((2, 5), jnp.int32))
    np.testing.assert_array_equal(rotate(_heads(), rotation), _heads())


def test_scores_depend_on_distance_alone():
    """Moving query and key by the same number of positions leaves their product as it was."""
    query, key = _heads(), _heads()[:, ::-1]

    def scores(offset):
        rotation = compute(CONFIG, POSITIONS_BT + jnp.int32(offset))
        return np.einsum("bthd,bshd->bhts", rotate(query, rotation), rotate(key, rotation))

    np.testing.assert_allclose(scores(0), scores(9), rtol=0, atol=2e-4)


def test_bf16_is_rotated_in_f32_and_rounded_once():
    """Rotation in bf16 would round three times."""
    narrow = _heads().astype(jnp.bfloat16)
    rotation = compute(CONFIG, POSITIONS_BT)
    expected = rotate(narrow.astype(jnp.float32), rotation).astype(jnp.bfloat16)
    np.testing.assert_array_equal(rotate(narrow, rotation), expected)


def test_a_program_with_tables_has_no_sine_and_one_without_has():
    """What the rotary gate relies on: tables are arguments, so that the compiler cannot bring sines back."""
    with_tables = jax.jit(look_up).lower(make_tables(CONFIG, 64), POSITIONS_BT).compile().as_text()
    without = jax.jit(lambda positions: compute(CONFIG, positions)).lower(POSITIONS_BT).compile().as_text()
    assert " sine(" not in with_tables
    assert " cosine(" not in with_tables
    assert " sine(" in without
    assert " cosine(" in without
