"""Programs are counted while they are compiled, and only then."""

import jax
import jax.numpy as jnp

from qwenperf.lab.counting import count_compiles


def test_each_compile_is_told_and_a_warm_call_is_not():
    """The count grows with each new shape."""
    told = []
    count_compiles(told.append, every_s=0.0)
    function = jax.jit(lambda x: x * 3 + 1)
    function(jnp.ones(7))
    first = len(told)
    assert first >= 1
    assert told == list(range(1, first + 1))
    function(jnp.ones(7))
    warm = len(told)
    function(jnp.ones(7))
    assert len(told) == warm
