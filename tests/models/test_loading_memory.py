import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from qwenperf.models.config import ModelConfig
from qwenperf.models.parameters import parameter_shapes

LAYERS, HIDDEN = 8, 1024
CONFIG = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": HIDDEN,
    "intermediate_size": 4 * HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "tie_word_embeddings": True,
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
model = load_model(sys.argv[1])
held = sum(leaf.nbytes for leaf in jax.tree.leaves(model.params))
print((status("VmHWM") - before) / held)
"""


@pytest.fixture
def folder(tmp_path):
    """About 540 MB in f32, a shard for each layer."""
    shapes = parameter_shapes(ModelConfig.from_hf(CONFIG))
    weight_map = {}
    for group in ("embed", "norm", *(f"layers.{index}." for index in range(LAYERS))):
        names = [name for name in shapes if name.startswith(group)]
        save_file(
            {f"model.{name}": np.ones(shapes[name], np.float32) for name in names}, tmp_path / f"{group}.safetensors"
        )
        weight_map |= {f"model.{name}": f"{group}.safetensors" for name in names}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_weights_are_held_once(folder):
    """Loading peaks well below two copies of the weights: tensors go to the device one by one."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.5
