"""An engine is held to as many rooflines as there are devices that work for it."""

import os
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

from qwenperf.measure.devices import devices_used


def spread(*devices):
    """An array over devices: platform, id and process of each."""
    names = ("platform", "id", "process_index")
    made = [SimpleNamespace(**dict(zip(names, device, strict=True))) for device in devices]
    return SimpleNamespace(sharding=SimpleNamespace(device_set=[*made]))


def test_each_accelerator_counts_and_a_host_s_cpu_counts_once():
    """The widest array tells: a counter on one device does not make an engine of four one of one."""
    four = spread(*(("gpu", number, number // 2) for number in range(4)))
    assert devices_used([spread(("gpu", 0, 0)), four]) == 4
    assert devices_used([spread(*(("cpu", number, 0) for number in range(8)))]) == 1
    assert devices_used([spread(("cpu", 0, 0), ("cpu", 1, 0), ("cpu", 2, 1))]) == 2
    assert devices_used([]) == 1


def test_arrays_of_this_process_are_found_by_themselves():
    """Nobody has to hand over what the engine holds."""
    held = jnp.zeros(3)
    assert devices_used() == devices_used([held]) == 1


SHARDED = """
    import jax, jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P
    from qwenperf.measure.devices import devices_used

    held = jax.device_put(jnp.zeros(4), NamedSharding(jax.make_mesh((2,), ("x",)), P("x")))
    assert len(held.sharding.device_set) == 2
    print(devices_used())
"""


@pytest.mark.slow
def test_two_devices_made_of_one_cpu_share_its_roofline():
    """Twice the bandwidth would halve what the engine reached."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SHARDED)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("1", 0), done.stderr
