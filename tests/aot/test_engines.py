"""Which engines can be compiled before they run, known without JAX."""

import subprocess
import sys

import pytest

from qwenperf.aot.engines import settings_for
from qwenperf.errors import ConfigError


@pytest.mark.parametrize(
    ("engine", "platform", "told"),
    [
        ("eager", "tpu", "jit=False dispatches operations one by one"),
        ("cached-host+position=static", "tpu", "position='static'"),
        ("my.module:factory", "tpu", "made by a factory"),
        ("cached+xla_flags=cpu-no-fast-math", "tpu", "is for cpu, and the target is tpu"),
        ("cached+xla_flags=tpu-async-collectives", "cpu", "is for tpu, and the target is cpu"),
    ],
)
def test_what_has_no_program_for_a_target_is_one_clear_error(engine, platform, told):
    """Nothing is left out in silence."""
    with pytest.raises(ConfigError, match=told):
        settings_for(engine, platform)


def test_it_is_known_before_jax_is_imported():
    """A command refuses an engine at once."""
    asked = "import sys, qwenperf.aot.engines; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
