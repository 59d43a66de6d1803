"""The tensors of a GGUF file as parameters.

They are dequantised one by one and some rows at a time, straight to their final dtype, and pages of the file that
were read are given back, so that loading takes little more memory than the result. The configuration is read by
``gguf_config``, the tokenizer inside is rebuilt by ``tokenizer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType as Stored
from gguf import ReaderTensor
from gguf.quants import dequantize

from qwenperf.errors import CheckpointError
from qwenperf.models.assemble import Tensor, assemble
from qwenperf.models.config import ModelConfig
from qwenperf.models.families import family_of
from qwenperf.models.gguf_file import GgufFile
from qwenperf.models.parameters import Params, array_dtype
from qwenperf.models.safetensors_file import empty_aligned

READ_TYPES = (
    Stored.F32, Stored.F16, Stored.BF16, Stored.Q4_0, Stored.Q4_1, Stored.Q5_0, Stored.Q5_1, Stored.Q8_0,
    Stored.Q2_K, Stored.Q3_K, Stored.Q4_K, Stored.Q5_K, Stored.Q6_K,
)  # fmt: skip
ROPE_FACTORS = "rope_freqs.weight"
"""The one tensor that belongs to the configuration."""
_PIECE_VALUES = 1 << 20

_TOP = {"token_embd": "embed_tokens", "position_embd": "embed_positions", "output_norm": "norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def load_gguf(file: GgufFile, config: ModelConfig, dtype: str) -> Params:
    """Return the file's tensors as parameters in ``dtype``.

    Raises:
      CheckpointError: a tensor is missing, left over, of another shape or of a type that is not read; names it. Or
        numbers have the other order of bytes.
    """
    pairs = family_of(config).gguf_pairs
    tensors: dict[str, Tensor] = {}
    for stored in file.tensors:
        if stored.name == ROPE_FACTORS:
            continue
        _check_type(file, stored)
        name = our_name(stored.name)
        read = _reader(file, stored, _rotary_heads(name, config) if pairs else 0, array_dtype(dtype))
        tensors[name] = Tensor(name=stored.name, file=file.path, shape=tensor_shape(stored), read=read)
    return assemble(config, tensors, dtype, str(file.path))


def our_name(name: str) -> str:
    """Return our name for a GGUF tensor's: ``blk.3.attn_q.weight`` is ``layers.3.self_attn.q_proj.weight``."""
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in _LAYER:
        return f"layers.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in _TOP:
        return f"{_TOP[parts[0]]}.{parts[1]}"
    return name


def half_split(weight: np.ndarray, heads: int) -> np.ndarray:
    """Reorder a Llama q or k projection's rows from GGUF's order to that of the safetensors files.

    llama.cpp rotates neighbours (0, 1), (2, 3), ... of a head together, Hugging Face the halves (0, D/2),
    (1, D/2 + 1), ...; the converter to GGUF moved the rows from the second order to the first; this moves them back.
    """
    pairs = weight.reshape(heads, weight.shape[0] // heads // 2, 2, *weight.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _rotary_heads(name: str, config: ModelConfig) -> int:
    if ".q_proj." in name:
        return config.num_attention_heads
    return config.num_key_value_heads if ".k_proj." in name else 0


def _reader(file: GgufFile, stored: ReaderTensor, rotary_heads: int, dtype: Any) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        if len(stored.shape) == 1:
            return tensor_values(file, stored).astype(dtype)
        outputs, inputs = shape = tensor_shape(stored)
        rows = np.arange(outputs)
        order = half_split(rows, rotary_heads) if rotary_heads else rows
        values = empty_aligned(shape, np.dtype(dtype))
        step = max(1, _PIECE_VALUES // inputs)
        for start in range(0, outputs, step):
            piece = slice(start, start + step)
            packed = stored.data[order[piece]] if rotary_heads else stored.data[piece]
            values[piece] = dequantize(packed, stored.tensor_type)
            file.give_back()
        return values

    return read


def tensor_values(file: GgufFile, stored: ReaderTensor) -> np.ndarray:
    """Return a tensor dequantised to f32.

    Raises:
      CheckpointError: of a type or an order of bytes that is not read.
    """
    _check_type(file, stored)
    return dequantize(stored.data, stored.tensor_type).reshape(tensor_shape(stored))


def tensor_shape(stored: ReaderTensor) -> tuple[int, ...]:
    """Return a tensor's shape, outermost axis first (GGUF has it the other way round)."""
    return tuple(int(size) for size in reversed(stored.shape))


def _check_type(file: GgufFile, stored: ReaderTensor) -> None:
    if file.is_swapped:
        # Dequantising takes numbers as they lie.
        raise CheckpointError(
            f"{file.path}: tensors have the other order of bytes than this machine, and are not read.",
            advice="Turn the file round: gguf-convert-endian, of the package gguf.",
        )
    if stored.tensor_type not in READ_TYPES:
        known = ", ".join(kind.name for kind in READ_TYPES)
        raise CheckpointError(
            f"{file.path}: tensor {stored.name!r} is stored as {stored.tensor_type.name}; only {known} are read."
        )
