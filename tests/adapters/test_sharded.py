"""Engines whose cache is divided over devices, in a process of their own that has two of them."""

import os
import subprocess
import sys
import textwrap

import pytest

from qwenperf.schema.records import Outcome

PASS, FAIL = Outcome.PASS, Outcome.FAIL

ENGINES = """
    import functools
    import jax, jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from qwenperf.adapters import as_engine
    from qwenperf.gate import memory
    from qwenperf.lab.program_facts import facts_of
    from qwenperf.schema.records import CaseRecord, Evidence, metric

    mesh = jax.make_mesh((2,), ("heads",), axis_types=(AxisType.Auto,))
    split, whole = (NamedSharding(mesh, spec) for spec in (P(None, None, "heads", None), P()))
    table = jax.device_put(jax.random.normal(jax.random.key(1), (17, 2, 8)), NamedSharding(mesh, P(None, "heads")))

    def read(cache, length):
        seen = (jnp.arange(cache.shape[1]) < length).astype(jnp.float32)
        return jnp.einsum("bshd,s,vhd->bv", cache, seen, table)

    @functools.partial(jax.jit, out_shardings=(whole, (split, whole)))
    def prefill(tokens):
        cache = jnp.zeros((1, 512, 2, 8)).at[:, : tokens.shape[1]].set(table[tokens])
        return read(cache, tokens.shape[1]), (cache, jnp.int32(tokens.shape[1]))

    def in_place(token, state):
        cache, length = state
        cache = jax.lax.dynamic_update_slice(cache, table[token][:, None], (0, length, 0, 0))
        return read(cache, length + 1), (cache, length + 1)

    def copying(token, state):
        logits, new = in_place(token, state)
        return logits + 0.001 * read(state[0], state[1]), new

    def verdict(step, **donation):
        jitted = jax.jit(step, out_shardings=(whole, (split, whole)), **donation)
        engine = as_engine((prefill, jitted))
        (program,) = engine.programs(1, 5, 4).values()
        size = metric("kv_cache_allocated_bytes", engine.facts(1, 5, 4).kv_cache_allocated_bytes)
        evidence = Evidence(program=facts_of(program))
        case = CaseRecord(id="sharded", spec={}, metrics={"kv_cache_allocated_bytes": size}, evidence=evidence)
        found = memory.judge(case)
        return found.outcome.value, found.data["cache_bytes"], found.summary

    print(*verdict(in_place, donate_argnames="state"), sep="|")
    print(*verdict(in_place), sep="|")
    print(*verdict(copying, donate_argnames="state"), sep="|")
"""


@pytest.mark.slow
def test_a_cache_divided_over_devices_is_judged_by_one_device_s_part():
    """Donated whole it passes; kept, or read after it was written, it fails as it does on one device."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ENGINES)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    in_place, kept, copying = (line.split("|") for line in done.stdout.splitlines())
    part = str(512 * 8 * 4)
    assert in_place[:2] == [PASS.value, part]
    assert kept[:2] == [FAIL.value, part]
    assert "does not donate its cache" in kept[2]
    assert copying[:2] == [FAIL.value, part]
    assert "f32[1,512,1,8]" in copying[2]
