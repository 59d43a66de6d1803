from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import EnvironmentUnfitError, MeasurementError
from qwenperf.gate import memory
from qwenperf.lab.request import make_request, measure_request
from qwenperf.schema.records import Outcome

CAPACITY = 16


def prefill(tokens_BT):
    batch, length = tokens_BT.shape
    return jnp.zeros((batch, 5)), (jnp.zeros((batch, CAPACITY, 4)), jnp.int32(length))


def decode_step(tokens_B, state):
    cache, length = state
    cache = jax.lax.dynamic_update_slice(cache, jnp.ones((len(tokens_B), 1, 4)), (0, length, 0))
    return jnp.sum(cache, axis=1) @ jnp.ones((4, 5)), (cache, length + 1)


def measured(engine):
    return measure_request(make_request(engine, [3, 1], 4), trials=2, case_id="mine", spec={}, check=False)


@pytest.mark.parametrize(("donated", "outcome"), [((), Outcome.FAIL), ("state", Outcome.PASS)])
def test_a_plain_prefill_shows_the_size_of_the_cache_in_the_state_that_it_returns(donated, outcome):
    """Whether the cache is updated in place can be judged although prefill is not jitted."""
    case = measured((prefill, jax.jit(decode_step, donate_argnames=donated)))
    assert case.metrics["kv_cache_allocated_bytes"].value == CAPACITY * 4 * 4
    assert memory.judge(case).outcome is outcome


def test_facts_of_another_type_are_named():
    """A dict is no ``EngineFacts``, and the message says whose it is."""
    engine = SimpleNamespace(
        name="mine",
        generate=lambda tokens, new_tokens: np.zeros((len(tokens), new_tokens), np.int32),
        facts=lambda *_: {"kv_cache_bytes": 3},
    )
    with pytest.raises(MeasurementError, match=r"mine.facts\(\) returned dict {'kv_cache_bytes': 3}. Return "):
        measured(engine)


def test_under_debugging_no_request_is_measured():
    """Neither its times nor its programs are those of the service."""
    with jax.debug_nans(True), pytest.raises(EnvironmentUnfitError, match="JAX_DEBUG_NANS set"):
        measured((prefill, jax.jit(decode_step)))
