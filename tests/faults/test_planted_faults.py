"""Each classic mistake, made in the real engine on purpose: the right gate fails, and its message says where."""

import re
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from qwenperf.decode import step as steps
from qwenperf.decode.build import build_engine
from qwenperf.decode.loop import generate
from qwenperf.decode.programs import compile_ahead, named
from qwenperf.models.attention import causal_mask
from qwenperf.schema.records import Outcome
from qwenperf.workloads.engine import RUNGS

CAPACITY = 12
HOST = RUNGS["cached-host"]


def told(verdict):
    """Everything that a verdict says."""
    return "\n".join((verdict.summary, *verdict.detail, verdict.advice))


def failed(verdicts):
    return {gate for gate, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL}


def shifted(params, tokens, state, tables, *, config, positions=0, mask=0):
    """The decode step, with positions or mask off by some."""
    tokens_B1 = jnp.expand_dims(tokens, 1)
    right_B1 = steps.next_positions(tokens_B1, state)
    mask_B1S = causal_mask(right_B1 + mask, CAPACITY)
    return steps.run_onto(
        params, tokens_B1, state, tables, config=config, positions_BT=right_B1 + positions, mask_BTS=mask_B1S
    )


def without_tables(params, tokens, state, tables, *, config):
    """The decode step that computes its sines and cosines anew."""
    del tables
    return steps.decode_step(params, tokens, state, None, config=config)


def in_another_order(params, tokens, state, tables, *, config):
    """The decode step that hands the layers' caches back in another order, so that none can stay where it lies."""
    result = steps.decode_step(params, tokens, state, tables, config=config)
    return result._replace(state=result.state._replace(layers=result.state.layers[::-1]))


@pytest.mark.parametrize("rung", ["cached", "cached-host"])
def test_the_engine_as_it_is_fails_no_gate(model, judge, rung):
    """Without a fault, every deterministic gate passes: none of them is blind or skipped."""
    verdicts = judge(build_engine(model, rung, capacity=CAPACITY))
    assert {
        gate: verdicts[gate].outcome.value for gate in ("shapes", "tokens", "rotary", "cache-alias")
    } == dict.fromkeys(("shapes", "tokens", "rotary", "cache-alias"), "pass")


def test_a_cache_that_grows_by_concatenation_fails_shapes(model, judge):
    """The step, the argument, the old and the new shape, and the line that called it are named."""
    verdicts = judge(build_engine(model, "cached-concat", name="mine", capacity=CAPACITY))
    assert failed(verdicts) == {"shapes"}
    message = told(verdicts["shapes"])
    assert "decode_step compiled 4 times within one request" in message
    assert re.search(r"argument `state.layers\[0\].keys` changed shape f32\[2,\d,16\] -> f32\[2,9,16\]", message)
    assert "called from qwenperf/decode/ladder_engine.py:" in message
    assert "update it in place" in message


def test_a_cache_that_outgrows_a_program_compiled_ahead_of_time_fails_shapes(model, judge):
    """An executable refuses what a jit would compile for: the same gate, with the same evidence."""
    settings = replace(HOST, donate=False)
    verdicts = judge(build_engine(model, settings, step=steps.decode_step_growing, name="mine", capacity=CAPACITY))
    assert "shapes" in failed(verdicts)
    message = told(verdicts["shapes"])
    assert "refuses" in message
    assert "layers[0].keys` changed shape f32[2,12,16] -> f32[2,13,16]" in message
    assert "qwenperf/decode/" in message


@pytest.mark.parametrize("off", [{"mask": -1}, {"mask": 1}, {"positions": 1}])
def test_a_mask_or_position_off_by_one_fails_tokens(model, judge, off):
    """The first token that differs, or the step whose logits do, and where to look."""
    verdicts = judge(build_engine(model, HOST, step=partial(shifted, **off), capacity=CAPACITY))
    assert failed(verdicts) == {"tokens"}
    message = told(verdicts["tokens"])
    assert "beyond the tolerance" in message
    assert "step " in message
    assert "positions and mask of the decode step" in message


def test_rotary_tables_rebuilt_in_the_step_fail_rotary(model, judge):
    """The operation and the line of source that asked for it are named."""
    verdicts = judge(build_engine(model, HOST, step=without_tables, capacity=CAPACITY))
    assert failed(verdicts) == {"rotary"}
    message = told(verdicts["rotary"])
    assert "decode_step computes rotary angles anew in each step" in message
    assert "cosine from rotary.py:" in message


def test_a_cache_that_is_not_donated_fails_cache_alias(model, judge):
    """The step holds the cache twice."""
    verdicts = judge(build_engine(model, replace(HOST, donate=False), capacity=CAPACITY))
    assert failed(verdicts) == {"cache-alias"}
    assert "decode_step does not donate its cache" in told(verdicts["cache-alias"])


def test_a_donated_cache_that_is_copied_fails_cache_alias(model, judge):
    """Donation that the compiler could not use is found in the program, though the step asked for it."""
    verdicts = judge(build_engine(model, HOST, step=in_another_order, capacity=CAPACITY))
    assert "cache-alias" in failed(verdicts)
    assert "f32[2,12,16]" in told(verdicts["cache-alias"])


def write_by_selection(old, new, length):
    """Write the new position by choosing between old and new at every position."""

    def chosen(old_BSKD, new_B1KD):
        positions = jnp.arange(old_BSKD.shape[1]).reshape(1, -1, *([1] * (old_BSKD.ndim - 2)))
        return jnp.where(positions == length, new_B1KD, old_BSKD)

    return jax.tree.map(chosen, old, new)


def with_selection(params, tokens, state, tables, *, config):
    """The decode step that writes its cache as a whole: right values, aliased, and no copy anywhere."""
    tokens_B1 = jnp.expand_dims(tokens, 1)
    positions_B1 = steps.next_positions(tokens_B1, state)
    mask_B1S = causal_mask(positions_B1, CAPACITY)
    return steps.run_onto(
        params, tokens_B1, state, tables, config=config, positions_BT=positions_B1, mask_BTS=mask_B1S,
        write=write_by_selection,
    )  # fmt: skip


@pytest.mark.parametrize("rung", ["cached-host", "cached"])
def test_a_cache_that_is_rewritten_as_a_whole_fails_cache_alias(model, judge, rung):
    """A selection over all positions aliases and copies nothing, and still costs the whole cache at each token."""
    engine = (
        with_loop_of(with_selection, model)
        if rung == "cached"
        else build_engine(model, HOST, step=with_selection, capacity=CAPACITY)
    )
    verdicts = judge(engine)
    assert failed(verdicts) == {"cache-alias"}
    message = told(verdicts["cache-alias"])
    assert "f32[2,12,16] rewritten as a whole" in message
    assert "test_planted_faults.py:" in message


def with_loop_of(step, model):
    """The engine ``cached`` with a fault in its loop on the device only: its single step is as it should be."""
    engine = build_engine(model, "cached", capacity=CAPACITY)
    loop = named("generate", generate, config=model.config, step=step, capacity=CAPACITY)
    return replace(engine, calls=replace(engine.calls, generate=compile_ahead(loop, donate=True)))


def test_rotary_tables_rebuilt_in_the_loop_on_the_device_fail_rotary(model, judge):
    """A request runs the loop and never the single step, so the loop is what is read."""
    verdicts = judge(with_loop_of(without_tables, model))
    assert failed(verdicts) == {"rotary"}
    assert "generate computes rotary angles anew in each step: cosine from rotary.py:" in told(verdicts["rotary"])


def test_a_cache_copied_in_the_loop_on_the_device_fails_cache_alias(model, judge):
    """Aliased at both ends of the request and copied at every token inside."""
    verdicts = judge(with_loop_of(in_another_order, model))
    assert "cache-alias" in failed(verdicts)
    assert "generate copies or rewrites an array of the cache's shape" in told(verdicts["cache-alias"])
