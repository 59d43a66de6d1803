"""The tolerance of bf16 is wide, and still too narrow for an offset of one behind a longer prompt."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode import step as steps
from qwenperf.decode.build import build_engine
from qwenperf.lab.check import check_tokens
from qwenperf.models.attention import causal_mask
from qwenperf.models.registry import load_model
from qwenperf.workloads.case import Workload

WORK = Workload(batch=2, prompt_length=40, new_tokens=8, dtype="bf16")
CAPACITY = WORK.prompt_length + WORK.new_tokens


def shifted(params, tokens, state, tables, *, config, positions=0, mask=0):
    """The decode step, with positions or mask off by some."""
    tokens_B1 = jnp.expand_dims(tokens, 1)
    right_B1 = steps.next_positions(tokens_B1, state)
    mask_B1S = causal_mask(right_B1 + mask, CAPACITY)
    return steps.run_onto(
        params, tokens_B1, state, tables, config=config, positions_BT=right_B1 + positions, mask_BTS=mask_B1S
    )


@pytest.mark.parametrize(
    ("off", "right"), [({}, True), ({"mask": -1}, False), ({"positions": 1}, False)], ids=["none", "mask", "position"]
)
def test_an_offset_of_one_is_beyond_the_rounding_of_bf16(off, right):
    """Logits of the right step agree; those of a wrong one differ by several times the tolerance."""
    engine = build_engine(load_model("tiny", "bf16"), "cached-host", step=partial(shifted, **off), capacity=CAPACITY)
    prompt = np.random.default_rng(1).integers(0, 200, (WORK.batch, WORK.prompt_length), np.int32)
    tokens = engine.generate(prompt, WORK.new_tokens)
    found = check_tokens(engine, WORK, prompt, {"request": tokens}, engine.uncached_logits)
    assert (found.max_logit_error <= found.logit_tolerance) == right
    if not right:
        assert found.max_logit_error > 3 * found.logit_tolerance
