"""What a model is made of: Hugging Face's ``config.json``, reduced to what our forward pass does.

A configuration that asks for anything else is refused by the name of the field: a field that is skipped
changes the tokens without a word. Keys that cannot change the numbers (dropout, names, generation
settings) are accepted; keys that nobody here knows are listed by ``unread_keys``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from qwenperf.errors import ConfigError, nearest_advice

ModelType = Literal["qwen2", "llama"]
MODEL_TYPES: tuple[str, ...] = get_args(ModelType)
STORED_DTYPES = ("float32", "bfloat16", "float16")

_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_ALL_SIZES = (*_SIZES, "num_key_value_heads", "head_dim", "max_position_embeddings")
_READ = frozenset(
    """
    attention_bias dtype head_dim hidden_act layer_types max_position_embeddings model_type num_key_value_heads
    rms_norm_eps rope_parameters rope_scaling rope_theta sliding_window tie_word_embeddings torch_dtype
    use_sliding_window
    """.split()
) | set(_SIZES)
# Training, generation and bookkeeping: no effect on the logits of a given sequence.
_HARMLESS = frozenset(
    """
    _attn_implementation _name_or_path architectures attention_dropout attn_implementation auto_map bos_token_id
    chunk_size_feed_forward eos_token_id id2label initializer_range is_llama_config label2id max_window_layers
    name_or_path num_labels output_attentions output_hidden_states pad_token_id problem_type return_dict
    transformers.js_config transformers_version use_cache
    """.split()
)
# Fields that change the numbers, with the only values that the code does.
_ONLY: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",),
    "quantization_config": (None,),
    "compression_config": (None,),
    "mlp_bias": (False, None),
    "partial_rotary_factor": (1.0, None),
    "rope_interleaved": (False, None),
    "pretraining_tp": (1, None),
    "use_mrope": (False, None),
    "use_qk_norm": (False, None),
    "qk_layernorm": (False, None),
    "pruned_heads": ({}, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "torch_dtype": (*STORED_DTYPES, None),
    "dtype": (*STORED_DTYPES, None),
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Shapes and constants of a decoder; field names are the keys of ``config.json``.

    ``attention_bias`` says that q, k and v (not o) have a bias: true for Qwen2, false for Llama.
    """

    model_type: ModelType
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    max_position_embeddings: int = 32768
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    hidden_act: str = "silu"

    def __post_init__(self) -> None:
        """Refuse sizes that no decoder can have.

        Raises:
          ConfigError: names the field and its value.
        """
        for name in _ALL_SIZES:
            value = getattr(self, name)
            if not _is_whole(value) or value < 1:
                raise ConfigError(f"model config: {name} is {value!r}, which is not a whole number of at least 1.")
        for name in ("rms_norm_eps", "rope_theta"):
            value = getattr(self, name)
            if not _is_number(value) or not math.isfinite(value) or value <= 0:
                raise ConfigError(f"model config: {name} is {value!r}, which is not a positive number.")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"model config: num_attention_heads {self.num_attention_heads} cannot be shared evenly by "
                f"num_key_value_heads {self.num_key_value_heads}."
            )
        if self.head_dim % 2:
            raise ConfigError(f"model config: head_dim is {self.head_dim}; rotary positions need an even one.")

    @classmethod
    def from_hf(cls, data: Mapping[str, Any], source: str = "") -> ModelConfig:
        """Read the content of a ``config.json``; missing optional keys get transformers' defaults.

        Args:
          data: the parsed JSON object.
          source: where it came from, for messages.

        Raises:
          ConfigError: a field is missing, malformed, or asks for what the code does not do; names it.
        """
        where = source or "model config"
        model_type = data.get("model_type")
        if model_type not in MODEL_TYPES:
            advice = nearest_advice(str(model_type), MODEL_TYPES)
            raise ConfigError(f"{where}: model_type {model_type!r} is not supported.", advice=advice)
        _refuse_unsupported(data, where)
        try:
            return cls(
                model_type=model_type,
                **{name: _required(data, name) for name in _SIZES},
                num_key_value_heads=_kv_heads(data),
                head_dim=_head_dim(data),
                rms_norm_eps=data.get("rms_norm_eps", 1e-6),
                rope_theta=_rope_theta(data),
                max_position_embeddings=data.get("max_position_embeddings", 2048 if model_type == "llama" else 32768),
                tie_word_embeddings=_flag(data, "tie_word_embeddings"),
                attention_bias=model_type == "qwen2",
            )
        except ConfigError as error:
            raise ConfigError(f"{where}: {error.message.removeprefix('model config: ')}", advice=error.advice) from None


def unread_keys(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a ``config.json`` that are neither used nor known to be without effect."""
    return tuple(sorted(set(data) - _READ - _HARMLESS - set(_ONLY)))


def _refuse_unsupported(data: Mapping[str, Any], where: str) -> None:
    for name, allowed in _ONLY.items():
        if name in data and data[name] not in allowed:
            raise ConfigError(f"{where}: {name} {_brief(data[name])} is not supported; only {allowed[0]!r} is.")
    for check in (_bias_problem, _window_problem, _rope_problem):
        problem = check(data)
        if problem:
            raise ConfigError(f"{where}: {problem}")


def _bias_problem(data: Mapping[str, Any]) -> str:
    asked = data.get("attention_bias")
    always = data["model_type"] == "qwen2"
    if asked is None or asked is always:
        return ""
    return f"attention_bias {asked!r} is not supported for {data['model_type']}, which is done with {always} only."


def _window_problem(data: Mapping[str, Any]) -> str:
    if data.get("use_sliding_window"):
        return (
            f"use_sliding_window {data['use_sliding_window']!r} is not supported; every layer attends to all positions."
        )
    others = set(data.get("layer_types") or ()) - {"full_attention"}
    if others:
        return f"layer_types has {', '.join(map(repr, sorted(others)))}; only 'full_attention' is supported."
    # Qwen2 files carry a window that use_sliding_window, false by default, leaves unused.
    if data["model_type"] == "llama" and data.get("sliding_window") is not None and "use_sliding_window" not in data:
        return f"sliding_window {data['sliding_window']!r} is not supported; every layer attends to all positions."
    return ""


def _rope_problem(data: Mapping[str, Any]) -> str:
    for name in ("rope_scaling", "rope_parameters"):
        rope = data.get(name)
        if rope is None:
            continue
        if not isinstance(rope, Mapping):
            return f"{name} is {_brief(rope)}, which is not an object."
        kinds = {rope[key] for key in ("rope_type", "type") if rope.get(key) is not None}
        if name == "rope_scaling" and not kinds:
            return f"{name} {_brief(dict(rope))} has no rope_type; only 'default' is supported."
        if kinds - {"default"}:
            return (
                f"{name} of type {', '.join(map(repr, sorted(map(str, kinds))))} is not supported; only 'default' is."
            )
        rest = set(rope) - {"rope_type", "type", "rope_theta"}
        if rope.get("partial_rotary_factor") == 1:
            rest -= {"partial_rotary_factor"}
        if rest:
            return f"{name} has {', '.join(sorted(map(str, rest)))}, which is not supported."
    return ""


def _rope_theta(data: Mapping[str, Any]) -> Any:
    given = [data["rope_theta"]] if data.get("rope_theta") is not None else []
    for name in ("rope_parameters", "rope_scaling"):
        theta = (data.get(name) or {}).get("rope_theta")
        given += [theta] if theta is not None else []
    if len(set(given)) > 1:
        raise ConfigError(f"rope_theta is given more than once, with different values: {given}.")
    return given[0] if given else 10000.0


def _kv_heads(data: Mapping[str, Any]) -> Any:
    if data.get("num_key_value_heads") is None and data["model_type"] == "llama":
        return _required(data, "num_attention_heads")
    return _required(data, "num_key_value_heads")


def _head_dim(data: Mapping[str, Any]) -> Any:
    if data.get("head_dim") is not None:
        return data["head_dim"]
    hidden, heads = _required(data, "hidden_size"), _required(data, "num_attention_heads")
    if _is_whole(hidden) and _is_whole(heads) and heads > 0 and hidden % heads:
        raise ConfigError(
            f"hidden_size {hidden} is no multiple of num_attention_heads {heads}, and no head_dim is given."
        )
    return hidden // heads if _is_whole(hidden) and _is_whole(heads) and heads > 0 else 1


def _required(data: Mapping[str, Any], name: str) -> Any:
    if data.get(name) is None:
        raise ConfigError(f"{name} is missing.")
    return data[name]


def _flag(data: Mapping[str, Any], name: str) -> bool:
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, which is neither true nor false.")
    return value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
