import json
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from qwenperf.models.config import ModelConfig
from qwenperf.models.parameters import parameter_shapes
from qwenperf.models.safetensors_file import empty_aligned

CONFIG = {
    "model_type": "llama",
    "vocab_size": 40000,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
}
MEASURE = """
import sys
import jax
from qwenperf.models.registry import load_model

def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith(key)).split()[1]) * 1024

load_model("tiny")
before = status("VmRSS")
model = load_model(sys.argv[1], sys.argv[2])
held = sum(leaf.nbytes for leaf in jax.tree.leaves(model.params))
print((status("VmHWM") - before) / held)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """About 430 MB in bf16, a fifth of them the head, which is loaded last, on top of all others."""
    folder = tmp_path_factory.mktemp("large")
    shapes = parameter_shapes(ModelConfig.from_hf(CONFIG))
    ones = {f"model.{name}": np.ones(shape, jnp.bfloat16) for name, shape in shapes.items()}
    save_file(ones, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_weights_are_held_once(folder, dtype):
    """Loading a bf16 checkpoint peaks at most a fifth above its weights: tensors go to the device one by one."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), dtype], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.2


def test_an_aligned_array_is_taken_over_without_a_copy():
    """On the CPU the device's buffer is the reader's own memory; on others there is no such promise."""
    values = empty_aligned((300, 1000), np.dtype(np.float32))
    values[:] = 1
    if jax.default_backend() == "cpu":
        assert jax.device_put(values).unsafe_buffer_pointer() == values.ctypes.data
