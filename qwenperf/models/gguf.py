"""GGUF files of the Llama and Qwen2 architectures, read through the ``gguf`` package.

Tensors are dequantised one by one. The tokenizer inside is rebuilt by ``tokenizer``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType as Stored
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize

from qwenperf.errors import CheckpointError, ConfigError
from qwenperf.models.assemble import Tensor, assemble
from qwenperf.models.config import MODEL_TYPES, ModelConfig
from qwenperf.models.parameters import Params

READ_TYPES = (Stored.F32, Stored.F16, Stored.BF16, Stored.Q4_0, Stored.Q4_1, Stored.Q5_0, Stored.Q5_1, Stored.Q8_0)

_TOP = {"token_embd": "embed_tokens", "output_norm": "norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Metadata keys, after the architecture's name, that the configuration is made of or that change nothing.
_USED = {
    "block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "rope.freq_base",
    "attention.layer_norm_rms_epsilon", "vocab_size", "rope.dimension_count",
}  # fmt: skip


class _PlainReader(GGUFReader):
    """Reads through a plain view of the mapped file: metadata are many small slices, and np.memmap's are slow."""

    @property  # type: ignore[override]  # declared as a memmap, used as an array
    def data(self) -> np.ndarray:
        """The whole file, mapped."""
        return self._plain

    @data.setter
    def data(self, mapped: np.ndarray) -> None:
        self._plain = np.asarray(mapped)


class GgufFile:
    """An opened GGUF file: its metadata as Python values, its tensors not read yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = _PlainReader(path)
        except FileNotFoundError:
            raise CheckpointError(f"{path}: the file is missing.") from None
        except (OSError, ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
            raise CheckpointError(f"{path}: cannot be read as GGUF, it is cut short or damaged ({error}).") from error

    def get(self, key: str, default: Any = None) -> Any:
        """Return the metadata value of ``key`` as a number, string, bool or list."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    @property
    def architecture(self) -> str:
        """The model family that the file says it is of."""
        return str(self.get("general.architecture", ""))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metadata."""
        return tuple(self._reader.fields)

    @property
    def tensors(self) -> tuple[ReaderTensor, ...]:
        """The stored tensors, mapped and not read."""
        return tuple(self._reader.tensors)


def gguf_config(file: GgufFile) -> ModelConfig:
    """Return the configuration that the file's metadata describe.

    Raises:
      ConfigError: another architecture, or metadata that ask for what the code does not do.
      CheckpointError: metadata or the embedding are missing.
    """
    arch = file.architecture
    if arch not in MODEL_TYPES:
        raise ConfigError(f"{file.path}: general.architecture {arch!r} is not supported; {', '.join(MODEL_TYPES)} are.")
    unknown = [key for key in file.names if key.startswith(f"{arch}.") and key.removeprefix(f"{arch}.") not in _USED]
    if unknown:
        raise ConfigError(f"{file.path}: {unknown[0]} {file.get(unknown[0])!r} is not supported.")
    shapes = {tensor.name: _shape(tensor) for tensor in file.tensors}
    if "token_embd.weight" not in shapes:
        raise CheckpointError(f"{file.path}: tensor 'token_embd.weight' is missing.")
    heads, hidden = _need(file, "attention.head_count"), _need(file, "embedding_length")
    head_dim = file.get(f"{arch}.attention.key_length", hidden // heads if heads else 0)
    for name in ("rope.dimension_count", "attention.value_length"):
        if file.get(f"{arch}.{name}", head_dim) != head_dim:
            raise ConfigError(
                f"{file.path}: {arch}.{name} {file.get(f'{arch}.{name}')} differs from head_dim {head_dim}."
            )
    data = {
        "model_type": arch,
        "vocab_size": shapes["token_embd.weight"][0],
        "hidden_size": hidden,
        "intermediate_size": _need(file, "feed_forward_length"),
        "num_hidden_layers": _need(file, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.get(f"{arch}.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": _shortest(_need(file, "attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(file.get(f"{arch}.rope.freq_base", 10000.0)),
        "max_position_embeddings": _need(file, "context_length"),
        "tie_word_embeddings": "output.weight" not in shapes,
    }
    return ModelConfig.from_hf(data, source=str(file.path))


def load_gguf(file: GgufFile, config: ModelConfig, dtype: str) -> Params:
    """Return the file's tensors as parameters in ``dtype``.

    Raises:
      CheckpointError: a tensor is missing, left over, of another shape or of a type that is not read; names it.
    """
    tensors = {}
    for stored in file.tensors:
        if stored.tensor_type not in READ_TYPES:
            known = ", ".join(kind.name for kind in READ_TYPES)
            raise CheckpointError(
                f"{file.path}: tensor {stored.name!r} is stored as {stored.tensor_type.name}; only {known} are read."
            )
        name = our_name(stored.name)
        read = _reader(stored, _rotary_heads(name, config) if file.architecture == "llama" else 0)
        tensors[name] = Tensor(name=stored.name, file=file.path, shape=_shape(stored), read=read)
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


def _reader(stored: ReaderTensor, rotary_heads: int) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
        values = dequantize(stored.data, stored.tensor_type).reshape(_shape(stored))
        return half_split(values, rotary_heads) if rotary_heads else values

    return read


def _shape(stored: ReaderTensor) -> tuple[int, ...]:
    return tuple(int(size) for size in reversed(stored.shape))


def _need(file: GgufFile, name: str) -> Any:
    key = f"{file.architecture}.{name}"
    value = file.get(key)
    if value is None:
        raise CheckpointError(f"{file.path}: metadata {key} is missing.")
    return value


def _shortest(value: float) -> float:
    """Return the decimal number that was rounded to f32 in the file: 9.99999974e-06 is 1e-05."""
    return float(str(np.float32(value)))
