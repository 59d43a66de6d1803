"""GGUF files, written here by the gguf package as llama.cpp's converter lays them out."""

from dataclasses import replace

import gguf
import jax
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Stored
from gguf.quants import dequantize, quantize

from qwenperf.errors import CheckpointError, ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.gguf import half_split, our_name
from qwenperf.models.parameters import flatten
from qwenperf.models.registry import load_model
from qwenperf.models.rope_scaling import RopeScaling, frequencies
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

LLAMA = ModelConfig.from_hf({**PRESETS["tiny"], "model_type": "llama"})
# Rows of K formats are made of blocks of 256.
WIDE = replace(LLAMA, hidden_size=256, intermediate_size=256, head_dim=64, num_hidden_layers=1, vocab_size=32)
FAMILIES = {
    "llama-untied": replace(LLAMA, tie_word_embeddings=False),
    "qwen2": ModelConfig.from_hf(PRESETS["tiny"]),
    "qwen3": ModelConfig.from_hf({**PRESETS["tiny"], "model_type": "qwen3", "head_dim": 24}),
    "qwen3-untied": ModelConfig.from_hf(
        {**PRESETS["tiny"], "model_type": "qwen3", "head_dim": 24, "tie_word_embeddings": False}
    ),
    "gpt2": ModelConfig.from_hf(PRESETS["gpt2"] | {"n_embd": 48, "n_layer": 2, "vocab_size": 40, "n_positions": 32}),
    "gpt2-untied": ModelConfig.from_hf(
        PRESETS["gpt2"] | {"n_embd": 48, "n_layer": 2, "vocab_size": 40, "n_inner": 32, "tie_word_embeddings": False}
    ),
}
# Where the f16 scales are in a block, in bytes.
K_SCALES = {Stored.Q2_K: (80, 82), Stored.Q3_K: (108,), Stored.Q4_K: (0, 2), Stored.Q5_K: (0, 2), Stored.Q6_K: (208,)}
NAMES = {
    "embed_tokens": "token_embd",
    "embed_positions": "position_embd",
    "lm_head": "output",
    "qkv_proj": "attn_qkv",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
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


def describe(writer, config):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if config.model_type == "gpt2":
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if config.head_dim != config.hidden_size // config.num_attention_heads:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def pack(values, kind):
    """Quantise; the K formats have no quantiser in Python: any bytes with scales of a sensible size are a tensor."""
    if not kind.name.endswith("_K"):
        return quantize(values, kind)
    block, size = GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(values.size)
    packed = rng.integers(0, 256, (len(values), values.shape[1] // block, size), np.uint8)
    for start in K_SCALES[kind]:
        packed[..., start : start + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    return packed.reshape(len(values), -1)


def write(path, params, config=None, arch="", stored=Stored.F32, extra=(), leave_out="", order=gguf.GGUFEndian.LITTLE):
    config = config or LLAMA
    arch = arch or config.model_type
    writer = gguf.GGUFWriter(path, arch, endianess=order)
    describe(writer, config)
    for add in extra:
        add(writer)
    expected = {}
    for name, value in flatten(params).items():
        values, kind = np.asarray(value), stored if value.ndim == 2 else Stored.F32
        if name == leave_out:
            continue
        packed = pack(values, kind)
        expected[name] = dequantize(packed, kind)
        part = gguf_name(name).split(".")[-2]
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(part, 0)
        moved = neighbours(packed, heads) if heads and arch == "llama" else packed
        writer.add_tensor(gguf_name(name), moved, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


@pytest.fixture(scope="module")
def llama():
    return seeded_params(LLAMA)


def assert_holds(params, expected):
    found = flatten(params)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(np.asarray(value), expected[name], err_msg=name)


@pytest.mark.parametrize(
    "stored",
    [Stored.F32, Stored.F16, Stored.BF16, Stored.Q8_0, Stored.Q4_0, Stored.Q4_1, Stored.Q5_0, Stored.Q5_1],
)
def test_tensor_types(tmp_path, llama, stored):
    """Each tensor type is dequantised, and q and k rows return to the order of the safetensors files."""
    expected = write(tmp_path / "model.gguf", llama, stored=stored)
    model = load_model(str(tmp_path / "model.gguf"))
    assert model.config == LLAMA
    assert_holds(model.params, expected)
    assert [finding.code for finding in model.findings] == ["tokenizer-missing"]


@pytest.mark.parametrize("stored", K_SCALES)
def test_k_types(tmp_path, stored):
    """Formats with super-blocks of 256 are dequantised, in the same order of rows."""
    expected = write(tmp_path / "model.gguf", seeded_params(WIDE), WIDE, stored=stored)
    assert_holds(load_model(str(tmp_path / "model.gguf")).params, expected)
    assert 0 < np.abs(expected["layers.0.mlp.up_proj.weight"]).max() < 1e3


def test_a_k_block_is_dequantised_by_its_specification(tmp_path):
    """Q6_K written out: 128 low halves, 64 high quarters, 16 scales, one f16; value = d * scale * (q - 32)."""
    expected = write(tmp_path / "model.gguf", seeded_params(WIDE), WIDE, stored=Stored.Q6_K)
    block = pack(np.zeros((32, 256), np.float32), Stored.Q6_K)[0]
    low, high, scales = block[:128].astype(int), block[128:192].astype(int), block[192:208].view(np.int8)
    row = []
    for index in range(256):
        half, inside = divmod(index, 128)
        quarter, lane = divmod(inside, 32)
        four = low[64 * half + 32 * (quarter % 2) + lane] >> (4 * (quarter // 2)) & 15
        two = high[32 * half + lane] >> (2 * quarter) & 3
        row.append(float(np.float16(0.01)) * scales[index // 16] * ((four | two << 4) - 32))
    np.testing.assert_allclose(expected["embed_tokens.weight"][0], row, rtol=1e-6)


def test_a_type_that_is_not_read_is_named(tmp_path):
    """Ternary weights are no format of ours."""
    ternary = quantize(np.ones((64, 256), np.float32), Stored.TQ1_0)
    path = tmp_path / "model.gguf"
    write(
        path,
        seeded_params(WIDE),
        WIDE,
        extra=(lambda w: w.add_tensor("blk.0.ffn_up_shexp.weight", ternary, raw_dtype=Stored.TQ1_0),),
    )
    with pytest.raises(CheckpointError, match=r"blk\.0\.ffn_up_shexp.* TQ1_0"):
        load_model(str(path))


@pytest.mark.parametrize("name", FAMILIES)
def test_families(tmp_path, name):
    """Rows of other architectures stay where they are; biases, head norms and an output of its own are read."""
    config = FAMILIES[name]
    params = seeded_params(config)
    write(tmp_path / "model.gguf", params, config)
    model = load_model(str(tmp_path / "model.gguf"))
    assert model.config == config
    jax.tree.map(np.testing.assert_array_equal, model.params, params)


FACTORS = np.asarray([1, 1, 1, 1.5, 2, 4, 8, 8], np.float32)


@pytest.mark.parametrize(
    ("extra", "scaling"),
    [
        ((lambda w: w.add_rope_scaling_factor(2.0),), {"rope_type": "linear", "factor": 2.0}),
        ((lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.NONE),), None),
        (
            (
                lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR),
                lambda w: w.add_rope_scaling_factor(4.0),
                lambda w: w.add_rope_scaling_finetuned(value=True),
            ),
            {"rope_type": "linear", "factor": 4.0},
        ),
        (
            (
                lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),
                lambda w: w.add_rope_scaling_factor(4.0),
                lambda w: w.add_rope_scaling_orig_ctx_len(256),
                lambda w: w.add_rope_scaling_yarn_beta_fast(16.0),
            ),
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 256,
                "beta_fast": 16.0,
                "attention_factor": 1 + 0.1 * np.log(4),
            },
        ),
        (
            (lambda w: w.add_tensor("rope_freqs.weight", FACTORS),),
            {"rope_type": "factors", "factors": tuple(FACTORS.tolist())},
        ),
        ((lambda w: w.add_tensor("rope_freqs.weight", np.ones(8, np.float32)),), None),
    ],
)
def test_stretched_positions(tmp_path, llama, extra, scaling):
    """What the metadata or a tensor say about rotary positions ends up in the configuration."""
    write(tmp_path / "model.gguf", llama, extra=extra)
    expected = None if scaling is None else RopeScaling(**scaling)
    assert load_model(str(tmp_path / "model.gguf")).config == replace(LLAMA, rope_scaling=expected)


def test_factors_are_what_llama3_computes():
    """The converter's divisors and the formula of config.json give the same frequencies."""
    llama3 = ModelConfig.from_hf(PRESETS["llama-3.2-1b"])
    plain = frequencies(llama3.rope_theta, 64, None).astype(np.float64)
    formula = frequencies(llama3.rope_theta, 64, llama3.rope_scaling)
    factors = RopeScaling(rope_type="factors", factors=tuple((plain / formula).tolist()))
    np.testing.assert_allclose(frequencies(llama3.rope_theta, 64, factors), formula, rtol=1e-6)
    assert (plain / formula).max() == pytest.approx(32)


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


def test_another_order_of_bytes_is_refused(tmp_path, llama):
    """Its metadata are understood, and its weights would be other numbers."""
    write(tmp_path / "model.gguf", llama, order=gguf.GGUFEndian.BIG)
    with pytest.raises(CheckpointError, match="order of bytes"):
        load_model(str(tmp_path / "model.gguf"))


NORM = b"output_norm.weight"


@pytest.mark.parametrize(
    ("place", "number"),
    [(4, 1 << 40), (4, (1 << 64) - 1), (4 + 8 + 4, 1 << 50), (-8, 1 << 62)],
    ids=["more values than there are bytes", "minus one", "an offset behind the end", "a name without end"],
)
def test_sizes_that_are_not_there_are_refused(tmp_path, llama, place, number):
    """What a tensor's entry says of itself is checked by the file that there is, before anything is allocated for it.

    An entry is the length of the name, the name, the number of sizes, the sizes, the type and the offset of the data.
    """
    path = tmp_path / "model.gguf"
    write(path, llama)
    data = bytearray(path.read_bytes())
    start = data.index(NORM) + place + (len(NORM) if place > 0 else 0)
    data[start : start + 8] = number.to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.gguf"):
        load_model(str(path))


@pytest.mark.parametrize("place", [8, 16], ids=["tensors", "metadata"])
def test_more_entries_than_there_are_are_refused(tmp_path, llama, place):
    """The counts stand behind the magic number and the version."""
    path = tmp_path / "model.gguf"
    write(path, llama)
    data = bytearray(path.read_bytes())
    data[place : place + 8] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"model\.gguf"):
        load_model(str(path))


@pytest.mark.parametrize(
    ("arch", "extra", "leave_out", "error", "named"),
    [
        ("llama", (), "layers.1.mlp.up_proj.weight", CheckpointError, r"layers\.1\.mlp\.up_proj"),
        ("llama", (), "embed_tokens.weight", CheckpointError, "token_embd"),
        ("mamba", (), "", ConfigError, "general.architecture 'mamba'"),
        ("llama", (lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE),), "", ConfigError, "longrope"),
        ("llama", (lambda w: w.add_rope_scaling_type(gguf.RopeScalingType.YARN),), "", ConfigError, "no factor"),
        ("llama", (lambda w: w.add_array("llama.rope.scaling.type", ["yarn"]),), "", ConfigError, "rope.scaling.type"),
        ("llama", (lambda w: w.add_rope_scaling_attn_factors(1.2),), "", ConfigError, "rope.scaling.attn_factor"),
        ("llama", (lambda w: w.add_rope_scaling_yarn_log_mul(0.1),), "", ConfigError, "yarn_log_multiplier"),
        ("llama", (lambda w: w.add_rope_dimension_count(8),), "", ConfigError, "rope.dimension_count"),
        ("llama", (lambda w: w.add_sliding_window(8),), "", ConfigError, "sliding_window"),
        ("llama", (lambda w: w.add_tensor("rope_freqs.weight", FACTORS[1:]),), "", ConfigError, "7 rope factors"),
        ("llama", (lambda w: w.add_tensor("rope_freqs.weight", 0 * FACTORS),), "", ConfigError, "rope_freqs"),
        (
            "llama",
            (
                lambda w: w.add_rope_scaling_factor(2.0),
                lambda w: w.add_tensor("rope_freqs.weight", FACTORS),
            ),
            "",
            ConfigError,
            "rope_freqs",
        ),
        ("gpt2", (), "", ConfigError, "gpt2.rope.freq_base"),
    ],
)
def test_what_is_not_done_is_named(tmp_path, llama, arch, extra, leave_out, error, named):
    """A missing or extra tensor, another architecture, scaled positions and windows are errors."""
    write(tmp_path / "model.gguf", llama, arch=arch, extra=extra, leave_out=leave_out)
    with pytest.raises(error, match=named):
        load_model(str(tmp_path / "model.gguf"))
