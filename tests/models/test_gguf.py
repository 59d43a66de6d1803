"""GGUF files, written here by the gguf package as llama.cpp's converter lays them out."""

import gguf
import jax
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Stored
from gguf.quants import dequantize, quantize

from qwenperf.errors import CheckpointError, ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.gguf import half_split, our_name
from qwenperf.models.parameters import flatten
from qwenperf.models.registry import load_model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

HEADS = {"attn_q": 4, "attn_k": 2}
NAMES = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}


def gguf_name(name):
    parts = name.split(".")
    prefix = f"blk.{parts[1]}." if parts[0] == "layers" else ""
    return f"{prefix}{NAMES[parts[-2]]}.{parts[-1]}"


def neighbours(weight, heads):
    """Reorder rows as convert_hf_to_gguf.py does for Llama."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


def write(path, params, arch="llama", stored=Stored.F32, extra=(), leave_out=""):
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(2)
    writer.add_context_length(1024)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(128)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    for add in extra:
        add(writer)
    expected = {}
    for name, value in flatten(params).items():
        values, kind = np.asarray(value), stored if value.ndim == 2 else Stored.F32
        if name == leave_out:
            continue
        packed = quantize(values, kind)
        expected[name] = dequantize(packed, kind)
        heads = HEADS.get(gguf_name(name).split(".")[-2], 0) if arch == "llama" else 0
        writer.add_tensor(gguf_name(name), neighbours(packed, heads) if heads else packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.fixture(scope="module")
def llama():
    return seeded_params(ModelConfig.from_hf({**PRESETS["tiny"], "model_type": "llama"}))


@pytest.mark.parametrize("stored", [Stored.F32, Stored.F16, Stored.BF16, Stored.Q8_0, Stored.Q4_1, Stored.Q4_0])
def test_tensor_types(tmp_path, llama, stored):
    """Each tensor type is dequantised, and q and k rows return to the order of the safetensors files."""
    expected = write(tmp_path / "model.gguf", llama, stored=stored)
    model = load_model(str(tmp_path / "model.gguf"))
    assert model.config == ModelConfig.from_hf({**PRESETS["tiny"], "model_type": "llama"})
    found = flatten(model.params)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(np.asarray(value), expected[name], err_msg=name)
    assert [finding.code for finding in model.findings] == ["tokenizer-missing"]


def test_qwen2_rows_stay(tmp_path):
    """The Qwen2 architecture keeps the order of rows, and has its biases."""
    params = seeded_params(ModelConfig.from_hf(PRESETS["tiny"]))
    write(tmp_path / "model.gguf", params, arch="qwen2")
    jax.tree.map(np.testing.assert_array_equal, load_model(str(tmp_path / "model.gguf")).params, params)


def test_half_split_undoes_the_converter():
    """Rows that the converter moved come back, which they would not if left alone."""
    rows = np.arange(24.0).reshape(24, 1)
    assert not np.array_equal(neighbours(rows, 3), rows)
    np.testing.assert_array_equal(half_split(neighbours(rows, 3), 3), rows)
    assert our_name("rope_freqs.weight") == "rope_freqs.weight"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.5, 0.999])
def test_cut_short(tmp_path, llama, share):
    """A file that is cut anywhere is refused by name."""
    path = tmp_path / "model.gguf"
    write(path, llama)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(CheckpointError, match=r"model\.gguf"):
        load_model(str(path))


@pytest.mark.parametrize(
    ("arch", "extra", "leave_out", "error", "named"),
    [
        ("llama", (), "layers.1.mlp.up_proj.weight", CheckpointError, r"layers\.1\.mlp\.up_proj"),
        ("llama", (), "embed_tokens.weight", CheckpointError, "token_embd"),
        ("mamba", (), "", ConfigError, "general.architecture 'mamba'"),
        ("llama", (lambda w: w.add_rope_scaling_factor(2.0),), "", ConfigError, "rope.scaling.factor"),
        ("llama", (lambda w: w.add_rope_dimension_count(8),), "", ConfigError, "rope.dimension_count"),
        ("llama", (lambda w: w.add_sliding_window(8),), "", ConfigError, "sliding_window"),
        (
            "llama",
            (lambda w: w.add_tensor("rope_freqs.weight", np.ones(8, np.float32)),),
            "",
            CheckpointError,
            "rope_freqs",
        ),
    ],
)
def test_what_is_not_done_is_named(tmp_path, llama, arch, extra, leave_out, error, named):
    """A missing or extra tensor, another architecture, scaled positions and windows are errors."""
    write(tmp_path / "model.gguf", llama, arch=arch, extra=extra, leave_out=leave_out)
    with pytest.raises(error, match=named):
        load_model(str(tmp_path / "model.gguf"))
