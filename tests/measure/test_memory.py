"""Bytes are counted, and a program's facts are gathered from the compiler."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.measure import memory


def step(cache, x_D, position):
    keys = jax.lax.dynamic_update_slice(cache["k"], x_D[None], (position, 0))
    return {"k": keys}, keys @ x_D


CACHE = {"k": np.zeros((16, 4), np.float32)}


def facts(*, donate=(0,), function=step, **options):
    lowered = jax.jit(function, donate_argnums=donate).lower(CACHE, np.ones(4, np.float32), np.int32(3))
    options = {"donated": ("cache",), "donated_bytes": 256, "cache_shapes": ("f32[16,4]",), **options}
    return memory.program_facts("decode_step", lowered.compile(), lowered_text=lowered.as_text(), **options)


def test_a_donated_step_is_aliased_without_copies_or_trigonometry():
    found = facts()
    assert found.name == "decode_step"
    assert (found.alias_bytes, found.unaliased_donations, found.cache_copies) == (256, (), ())
    assert found.argument_bytes >= 256 + 16 + 4
    assert found.trigonometric == ()
    assert found.operations["dynamic-update-slice"] == 1
    assert found.flops > 0
    assert len(found.fingerprint) == 64
    assert found.extra == {"lowered_trigonometric": {}}


def test_a_cache_that_is_donated_and_still_copied_by_the_compiler_is_named():
    def summed(cache, x_D, position):
        keys = jax.lax.dynamic_update_slice(cache["k"], x_D[None], (position, 0))
        return {"k": keys}, jnp.sum(keys, axis=0)  # the update is fused into the sum, and done once more in place

    found = facts(function=summed)
    assert (found.alias_bytes, found.unaliased_donations) == (256, ())
    assert "f32[16,4] copied in main" in found.cache_copies[0]


def test_a_step_that_does_not_donate_names_its_cache_and_the_copy():
    found = facts(donate=())
    assert found.alias_bytes == 0
    assert found.unaliased_donations == ("cache['k'] f32[16,4]",)
    assert len(found.cache_copies) == 1


def test_a_step_that_builds_rotary_tables_names_the_lines():
    def rebuilt(cache, x_D, position):
        return step(cache, x_D * jnp.cos(jnp.float32(position)), position)

    found = facts(function=rebuilt)
    assert [name.rpartition(":")[0] for name in found.trigonometric] == ["cosine from test_memory.py"]
    assert found.extra == {"lowered_trigonometric": {"cosine": 1}}


def test_donations_that_the_program_does_not_name_are_judged_by_their_bytes():
    assert facts(donated=("state",)).unaliased_donations == ()
    assert facts(donate=(), donated=("state",)).unaliased_donations == ("256 of 256 donated bytes",)


class Silent:
    """A compiled program of a backend that tells nothing, or nonsense."""

    def __init__(self, cost):
        self.cost = cost

    def as_text(self):
        """Tell nothing."""

    def cost_analysis(self):
        """Tell what the test wants."""
        return self.cost

    def memory_analysis(self):
        """Tell nothing."""
        raise NotImplementedError


@pytest.mark.parametrize("cost", [None, [], {}, {"flops": -8.0}, [{"flops": -1.0}]])
def test_what_a_backend_does_not_tell_is_none(cost):
    found = memory.program_facts("decode_step", Silent(cost))
    assert (found.flops, found.bytes_accessed, found.alias_bytes, found.fingerprint) == (None, None, None, "")
    assert found.operations == {}


def test_the_peak_stays_when_the_memory_is_given_back():
    ballast = np.ones(100_000_000, np.uint8)
    peak = memory.peak_rss_bytes()
    assert peak > ballast.nbytes
    del ballast
    assert memory.peak_rss_bytes() > peak - 10_000_000  # the kernel's counters may lag by some pages
