import json
import shutil
import subprocess
import sys

import gguf
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


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_weights_are_held_once(folder, dtype):
    """Loading a bf16 checkpoint peaks at most a fifth above its weights: tensors go to the device one by one."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), dtype], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.2


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """Half as many values in Q8_0, a fifth of them the embedding, the largest tensor; and a vocabulary."""
    path = tmp_path_factory.mktemp("packed") / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(4)
    writer.add_context_length(64)
    writer.add_embedding_length(1024)
    writer.add_feed_forward_length(4096)
    writer.add_head_count(8)
    writer.add_layer_norm_rms_eps(1e-6)
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.Q8_0]
    for name, rows, columns in _matrices():
        zeros = np.zeros((rows, columns // block * size), np.uint8)
        writer.add_tensor(name, zeros, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    letters = [chr(0x4E00 + index) for index in range(200)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*letters, *(one + other for one in letters for other in letters)])
    writer.add_token_types([1] * 40200)
    writer.add_token_merges([f"{one} {other}" for one in letters for other in letters])
    for name in ("output_norm", *(f"blk.{index}.{norm}_norm" for index in range(4) for norm in ("attn", "ffn"))):
        writer.add_tensor(f"{name}.weight", np.ones(1024, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    yield path
    path.unlink()


def _matrices():
    yield "token_embd.weight", 20480, 1024
    for index in range(4):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{index}.{name}.weight", 1024, 1024
        for name, rows, columns in (("ffn_gate", 4096, 1024), ("ffn_up", 4096, 1024), ("ffn_down", 1024, 4096)):
            yield f"blk.{index}.{name}.weight", rows, columns


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_packed_weights_are_unpacked_in_pieces(packed, dtype):
    """No file, no tensor in f32 and no vocabulary in pieces is whole in memory beside the weights of a GGUF file."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(packed), dtype], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_real_weights_are_held_once(smollm2, dtype):
    """The same of a real file, tokenizer and all."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, smollm2.source.removeprefix("gguf:"), dtype],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 0.9 < float(done.stdout) < 1.2


def test_an_aligned_array_is_taken_over_without_a_copy():
    """On the CPU the device's buffer is the reader's own memory; on others there is no such promise."""
    values = empty_aligned((300, 1000), np.dtype(np.float32))
    values[:] = 1
    if jax.default_backend() == "cpu":
        assert jax.device_put(values).unsafe_buffer_pointer() == values.ctypes.data
