from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import forward, logits, unembed, whole_sequence
from qwenperf.models.rope_scaling import RopeScaling
from qwenperf.models.rotary import make_tables
from qwenperf.models.seeded import seeded_params

SIZES = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
}
FAMILIES = {
    "qwen2": ModelConfig(model_type="qwen2", attention_bias=True, tie_word_embeddings=True, **SIZES),
    "llama": ModelConfig(model_type="llama", attention_bias=False, tie_word_embeddings=False, **SIZES),
    "qwen3-yarn": ModelConfig(
        model_type="qwen3",
        rope_scaling=RopeScaling(
            rope_type="yarn", factor=2.0, original_max_position_embeddings=4, attention_factor=1.1
        ),
        **SIZES,
    ),
    "gpt2": ModelConfig(
        model_type="gpt2",
        rope_theta=None,
        max_position_embeddings=7,
        tie_word_embeddings=True,
        **SIZES | {"num_key_value_heads": 4, "head_dim": 4},
    ),
}
TOKENS_BT = jnp.asarray(np.random.default_rng(1).integers(0, 32, (2, 7)), jnp.int32)


@pytest.fixture(scope="module", params=sorted(FAMILIES))
def family(request):
    """Config, weights, and the compiled uncached forward pass of one family."""
    config = FAMILIES[request.param]
    params = seeded_params(config, seed=3)
    return config, params, jax.jit(partial(logits, params, config))


def test_logits_are_f32_one_for_each_token_of_the_vocabulary(family):
    """Shape [B, T, V]."""
    out = family[2](TOKENS_BT)
    assert out.shape == (2, 7, 32)
    assert out.dtype == jnp.float32


def test_a_later_token_changes_nothing_before_it(family):
    """Causal: logits up to the changed position stay, those from it on move."""
    changed = TOKENS_BT.at[:, 4].set((TOKENS_BT[:, 4] + 1) % 32)
    before, after = family[2](TOKENS_BT), family[2](changed)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_padded_row_gets_the_logits_of_the_same_row_alone(family, side):
    """Rows of 7 and 4 tokens in one batch; padding is token 0 and its logits are finite."""
    *_, run = family
    short = TOKENS_BT[1:, :4]
    widths = ((0, 0), (3, 0) if side == "left" else (0, 3))
    padded = jnp.concatenate((TOKENS_BT[:1], jnp.pad(short, widths)))
    mask = jnp.concatenate((jnp.ones((1, 7), jnp.int32), jnp.pad(jnp.ones((1, 4), jnp.int32), widths)))
    out = run(padded, attention_mask_BT=mask)
    own = out[1, 3:] if side == "left" else out[1, :4]
    np.testing.assert_allclose(out[0], run(TOKENS_BT[:1])[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(own, run(short)[0], rtol=0, atol=1e-5)
    assert np.isfinite(out).all()


def test_a_row_of_padding_alone_gives_finite_logits(family):
    """An empty row in a batch must not spread NaN."""
    mask = jnp.asarray([[1] * 7, [0] * 7], jnp.int32)
    assert np.isfinite(family[2](TOKENS_BT, attention_mask_BT=mask)).all()


def test_positions_count_from_the_first_token_of_a_row():
    """Left and right padding; positions of padding are in range of any table."""
    mask = jnp.asarray([[0, 0, 1, 1], [1, 1, 1, 0]], jnp.int32)
    positions, _ = whole_sequence(jnp.zeros((2, 4), jnp.int32), mask)
    np.testing.assert_array_equal(positions, [[0, 0, 0, 1], [0, 1, 2, 2]])


def test_tables_and_recomputed_sines_give_the_same_logits(family):
    """A table is an optimisation, no other model; learned positions need none."""
    config, params, run = family
    positions, mask = whole_sequence(TOKENS_BT)
    tables = make_tables(config, 7)

    @jax.jit
    def with_tables(params, tables):
        hidden, _ = forward(params, config, TOKENS_BT, positions_BT=positions, mask_BTS=mask, tables=tables)
        return unembed(params, config, hidden)

    np.testing.assert_allclose(with_tables(params, tables), run(TOKENS_BT), rtol=0, atol=1e-5)


def test_each_layer_hands_its_keys_and_values_over_and_attends_to_what_comes_back(family):
    """``remember`` is asked once a layer, in order; zeros in place of values silence attention."""
    config, params, run = family
    positions, mask = whole_sequence(TOKENS_BT)
    seen = []

    def silence(memory, layer, new):
        seen.append((layer, new.keys.shape))
        silent = new._replace(values=jnp.zeros_like(new.values))
        return (*memory, silent), silent

    @jax.jit
    def silenced(params):
        hidden, known = forward(
            params, config, TOKENS_BT, positions_BT=positions, mask_BTS=mask, remember=silence, memory=()
        )
        return unembed(params, config, hidden), known

    out, known = silenced(params)
    shape = (2 * config.num_key_value_heads, 7, config.head_dim)
    assert seen == [(0, shape), (1, shape)]
    assert not np.asarray(known[1].values).any()
    assert not np.allclose(out, run(TOKENS_BT), atol=1e-3)


def test_an_untied_head_is_not_the_embedding():
    """LLaMA's lm_head decides its logits; a tied model has none."""
    config = FAMILIES["llama"]
    params = seeded_params(config, seed=3)
    run = jax.jit(logits, static_argnums=1)
    before = run(params, config, TOKENS_BT)
    doubled = params | {"lm_head": {"weight": 2 * params["lm_head"]["weight"]}}
    np.testing.assert_allclose(run(doubled, config, TOKENS_BT), 2 * before, rtol=1e-5, atol=1e-5)
    assert "lm_head" not in seeded_params(FAMILIES["qwen2"])


def test_a_fused_projection_is_the_three_in_one():
    """Rows of q, then k, then v; shared key heads included."""
    config = FAMILIES["qwen2"]
    params = seeded_params(config, seed=3)
    separate = params["layers"][0]["self_attn"]
    names = ("q_proj", "k_proj", "v_proj")
    fused = {part: jnp.concatenate([separate[name][part] for name in names]) for part in ("weight", "bias")}
    attention = {"qkv_proj": fused, "o_proj": separate["o_proj"]}
    layer = params["layers"][0] | {"self_attn": attention}
    run = jax.jit(logits, static_argnums=1)
    found = run(params | {"layers": (layer, params["layers"][1])}, config, TOKENS_BT)
    np.testing.assert_allclose(found, run(params, config, TOKENS_BT), rtol=0, atol=1e-5)


def test_learned_positions_are_the_rows_own(family):
    """Exchanging two rows of the table moves logits of GPT-2; no other family has a table."""
    config, params, run = family
    if config.rope_theta is not None:
        assert "embed_positions" not in params
        return
    table = params["embed_positions"]["weight"]
    assert table.shape == (7, 16)
    changed = params | {"embed_positions": {"weight": table[::-1]}}
    assert not np.allclose(logits(changed, config, TOKENS_BT), run(TOKENS_BT), atol=1e-3)
