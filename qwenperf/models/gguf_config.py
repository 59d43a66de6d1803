"""From a GGUF file's metadata to a configuration. Metadata that nobody here knows are refused by name.

Stretched positions: ``rope.scaling.*`` for linear and yarn, one divisor a frequency (tensor ``rope_freqs.weight``)
for LLaMA 3.1 and later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from qwenperf.errors import CheckpointError, ConfigError
from qwenperf.models.config import MODEL_TYPES, ModelConfig
from qwenperf.models.gguf import ROPE_FACTORS, tensor_shape, tensor_values
from qwenperf.models.gguf_file import GgufFile
from qwenperf.models.hf_config import is_whole
from qwenperf.models.rope_scaling import RopeScaling

# Keys after the architecture's name, that the configuration is made of or that change nothing.
_USED_BY_ALL = {"block_count", "context_length", "embedding_length", "feed_forward_length", "attention.head_count"}
_USED = {
    "gpt2": {"attention.layer_norm_epsilon", "attention.head_count_kv", "vocab_size"},
    "rotary": {
        "attention.head_count_kv", "attention.key_length", "attention.value_length",
        "attention.layer_norm_rms_epsilon", "vocab_size", "rope.freq_base", "rope.dimension_count",
        "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length",
        "rope.scaling.finetuned", "rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_ext_factor",
        "rope.scale_linear",
    },
}  # fmt: skip


def gguf_config(file: GgufFile) -> ModelConfig:
    """Return the configuration that the file's metadata describe.

    Raises:
      ConfigError: another architecture, or metadata that ask for what the code does not do.
      CheckpointError: metadata or the embedding are missing.
    """
    arch = file.architecture
    if arch not in MODEL_TYPES:
        raise ConfigError(f"{file.path}: general.architecture {arch!r} is not supported; {', '.join(MODEL_TYPES)} are.")
    known = _USED_BY_ALL | _USED["gpt2" if arch == "gpt2" else "rotary"]
    unknown = [key for key in file.names if key.startswith(f"{arch}.") and key.removeprefix(f"{arch}.") not in known]
    if unknown:
        raise ConfigError(f"{file.path}: {unknown[0]} {file.get(unknown[0])!r} is not supported.")
    shapes = {tensor.name: tensor_shape(tensor) for tensor in file.tensors}
    if len(shapes.get("token_embd.weight", ())) != 2:
        raise CheckpointError(f"{file.path}: tensor 'token_embd.weight' is missing or no matrix.")
    data = {
        "model_type": arch,
        "vocab_size": shapes["token_embd.weight"][0],
        "tie_word_embeddings": "output.weight" not in shapes,
    }
    data |= _gpt2_data(file) if arch == "gpt2" else _rotary_data(file)
    config = ModelConfig.from_hf(data, source=str(file.path))
    return _with_factors(file, config) if ROPE_FACTORS in shapes else config


def _gpt2_data(file: GgufFile) -> dict[str, Any]:
    heads = _need(file, "attention.head_count")
    if _get(file, "attention.head_count_kv", heads) != heads:
        raise ConfigError(f"{file.path}: gpt2.attention.head_count_kv differs from gpt2.attention.head_count {heads}.")
    return {
        "n_embd": _need(file, "embedding_length"),
        "n_inner": _need(file, "feed_forward_length"),
        "n_layer": _need(file, "block_count"),
        "n_head": heads,
        "n_positions": _need(file, "context_length"),
        "layer_norm_epsilon": _shortest(_need(file, "attention.layer_norm_epsilon")),
    }


def _rotary_data(file: GgufFile) -> dict[str, Any]:
    arch = file.architecture
    heads, hidden = _need(file, "attention.head_count"), _need(file, "embedding_length")
    head_dim = _get(
        file, "attention.key_length", hidden // heads if is_whole(hidden) and is_whole(heads) and heads else None
    )
    for name in ("rope.dimension_count", "attention.value_length"):
        if _get(file, name, head_dim) != head_dim:
            raise ConfigError(f"{file.path}: {arch}.{name} {_get(file, name)} differs from head_dim {head_dim}.")
    return {
        "hidden_size": hidden,
        "intermediate_size": _need(file, "feed_forward_length"),
        "num_hidden_layers": _need(file, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _get(file, "attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": _shortest(_need(file, "attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(_get(file, "rope.freq_base", 10000.0)),
        "rope_scaling": _scaling(file),
        "max_position_embeddings": _need(file, "context_length"),
    }


def _scaling(file: GgufFile) -> dict[str, Any] | None:
    """Return ``rope_scaling`` as ``config.json`` would have it; llama.cpp takes a factor without a type as linear."""
    factor = _get(file, "rope.scaling.factor", _get(file, "rope.scale_linear"))
    kind = _get(file, "rope.scaling.type", "none" if factor is None else "linear")
    _refuse_other_values(file, kind)
    if kind == "none" or (kind == "linear" and factor in (None, 0.0, 1.0)):
        return None
    # A tuple: a file may say a list, which no set can be asked for.
    if kind not in ("linear", "yarn"):
        raise ConfigError(
            f"{file.path}: {file.architecture}.rope.scaling.type {kind!r} is not supported; 'linear' and 'yarn' are."
        )
    scaling = {"rope_type": kind, "factor": None if factor is None else _shortest(factor)}
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = _get(file, "rope.scaling.original_context_length")
        for name in ("beta_fast", "beta_slow"):
            value = _get(file, f"rope.scaling.yarn_{name}")
            scaling[name] = None if value is None else _shortest(value)
    return scaling


def _refuse_other_values(file: GgufFile, kind: str) -> None:
    """Refuse multipliers beside those that yarn's own formula gives."""
    only: Mapping[str, Callable[[Any], bool]] = {
        "rope.scaling.attn_factor": lambda value: value == 1,
        "rope.scaling.yarn_attn_factor": lambda value: value == 1,
        "rope.scaling.yarn_ext_factor": lambda value: value in ((1, -1) if kind == "yarn" else (0, -1)),
    }
    for name, fits in only.items():
        value = _get(file, name)
        if value is not None and not fits(value):
            raise ConfigError(f"{file.path}: {file.architecture}.{name} {value!r} is not supported.")


def _with_factors(file: GgufFile, config: ModelConfig) -> ModelConfig:
    stored = next(tensor for tensor in file.tensors if tensor.name == ROPE_FACTORS)
    if config.rope_theta is None or config.rope_scaling is not None:
        raise ConfigError(f"{file.path}: tensor {ROPE_FACTORS!r} beside other positions is not supported.")
    factors = tuple(map(_shortest, tensor_values(file, stored).ravel()))
    if set(factors) == {1.0}:
        return config
    try:
        return replace(config, rope_scaling=RopeScaling(rope_type="factors", factors=factors))
    except ConfigError as error:
        raise ConfigError(f"{file.path}: tensor {ROPE_FACTORS!r}: {error.message}") from None


def _get(file: GgufFile, name: str, default: Any = None) -> Any:
    return file.get(f"{file.architecture}.{name}", default)


def _need(file: GgufFile, name: str) -> Any:
    value = _get(file, name)
    if value is None:
        raise CheckpointError(f"{file.path}: metadata {file.architecture}.{name} is missing.")
    return value


def _shortest(value: Any) -> Any:
    """Return the decimal number that was rounded to f32 in the file (9.99999974e-06 is 1e-05); no number, as it is."""
    return float(str(np.float32(value))) if isinstance(value, (int, float, np.floating)) else value
