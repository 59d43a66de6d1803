"""Steps as pure functions, and steps of somebody else's in a reference engine."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.cache import allocate, write_by_concatenation
from qwenperf.decode.step import extend, next_positions, prefill, run_onto
from qwenperf.models.attention import causal_mask
from qwenperf.models.rotary import make_tables
from qwenperf.workloads.engine import EngineSettings


def test_a_prompt_in_two_parts_equals_the_prompt_at_once(model, prompt, truth):
    """Extending a cache that holds 3 positions by 4 gives the logits of 7."""
    tokens = jnp.asarray(prompt(3, 7), jnp.int32)
    tables = make_tables(model.config, 16)
    cache = allocate(model.config, 3, 16, jnp.dtype(jnp.float32))
    first, second = (jax.jit(partial(part, config=model.config)) for part in (prefill, extend))
    state = first(model.params, tokens[:, :3], cache, tables).state
    result = second(model.params, tokens[:, 3:], state, tables)
    np.testing.assert_allclose(result.logits, truth(tokens)[:, -1], rtol=0, atol=1e-4)
    assert result.state.length == 7


def test_a_prefill_forgets_what_the_cache_held(model, prompt, truth):
    """A cache full of large numbers is read nowhere."""
    tokens = jnp.asarray(prompt(3, 7), jnp.int32)
    clean = allocate(model.config, 3, 16, jnp.dtype(jnp.float32))
    dirty = jax.tree.map(lambda leaf: leaf + 100, clean)
    run = jax.jit(partial(prefill, config=model.config))
    result = run(model.params, tokens, dirty, make_tables(model.config, 16))
    np.testing.assert_allclose(result.logits, truth(tokens)[:, -1], rtol=0, atol=1e-4)
    assert result.state.length == 7


@pytest.mark.parametrize(("position", "seen"), [(1, 0), (0, -1)])
def test_a_position_or_mask_off_by_one_changes_tokens(position, seen, model, engine, prompt):
    """The faults that the token gate is for can be planted in three lines."""

    def wrong(params, tokens, state, tables, *, config):
        tokens_B1 = jnp.expand_dims(tokens, 1)
        right = next_positions(tokens_B1, state)
        mask = causal_mask(right + seen, state.layers[0].keys.shape[1])
        return run_onto(params, tokens_B1, state, tables, config=config, positions_BT=right + position, mask_BTS=mask)

    faulty = build_engine(model, EngineSettings(), capacity=16, step=wrong)
    right = np.asarray(engine("cached").generate(prompt(3, 7), 9))
    assert (np.asarray(faulty.generate(prompt(3, 7), 9)) != right).any()


def test_a_step_that_grows_a_static_cache_is_refused_by_its_executable(model, prompt):
    """The state of another shape is not compiled for in silence: the second step raises, naming the argument."""

    def growing(params, tokens, state, tables, *, config):
        tokens_B1 = jnp.expand_dims(tokens, 1)
        mask = causal_mask(next_positions(tokens_B1, state), state.layers[0].keys.shape[1] + 1)
        return run_onto(
            params,
            tokens_B1,
            state,
            tables,
            config=config,
            positions_BT=next_positions(tokens_B1, state),
            mask_BTS=mask,
            write=write_by_concatenation,
        )

    engine = build_engine(model, EngineSettings(donate=False), capacity=16, step=growing)
    with pytest.raises(TypeError, match=r"compiled with float32\[2,16,16\] and called with float32\[2,17,16\]"):
        engine.generate(prompt(1, 7), 4)
