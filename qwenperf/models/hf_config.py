"""Reads Hugging Face's ``config.json``: which keys are honoured, which are without effect, and which are refused.

A configuration that asks for what the forward pass does not do is refused by the name of the field: a field that
is skipped changes the tokens without a word. Returns plain fields; ``config`` checks their values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from qwenperf.errors import ConfigError, nearest_advice
from qwenperf.models.hf_rope import rope_fields, rope_problem

ModelType = Literal["gpt2", "llama", "qwen2", "qwen3"]
MODEL_TYPES: tuple[str, ...] = get_args(ModelType)
STORED_DTYPES = ("float32", "bfloat16", "float16")

_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_READ = frozenset(
    """
    attention_bias head_dim layer_types max_position_embeddings model_type num_key_value_heads rms_norm_eps
    rope_parameters rope_scaling rope_theta sliding_window tie_word_embeddings use_sliding_window
    """.split()
) | set(_SIZES)
_READ_GPT2 = frozenset(
    "layer_norm_epsilon model_type n_embd n_head n_inner n_layer n_positions tie_word_embeddings vocab_size".split()
)
# Training, generation and bookkeeping: no effect on the logits of a given sequence.
_HARMLESS = frozenset(
    """
    _attn_implementation _name_or_path architectures attention_dropout attn_implementation auto_map bos_token_id
    chunk_size_feed_forward eos_token_id id2label initializer_range is_llama_config label2id max_window_layers
    name_or_path num_labels output_attentions output_hidden_states pad_token_id problem_type return_dict
    transformers.js_config transformers_version use_cache
    """.split()
)
_HARMLESS_GPT2 = _HARMLESS | frozenset(
    """
    attn_pdrop embd_pdrop gradient_checkpointing n_ctx resid_pdrop summary_activation summary_first_dropout
    summary_proj_to_labels summary_type summary_use_proj task_specific_params
    """.split()
)
# Fields that change the numbers, with the only values that the code does.
_ONLY_ALL: dict[str, tuple[Any, ...]] = {
    "quantization_config": (None,),
    "compression_config": (None,),
    "pruned_heads": ({}, None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "torch_dtype": (*STORED_DTYPES, None),
    "dtype": (*STORED_DTYPES, None),
}
_ONLY: dict[str, tuple[Any, ...]] = _ONLY_ALL | {
    "hidden_act": ("silu",),
    "mlp_bias": (False, None),
    "partial_rotary_factor": (1.0, None),
    "original_max_position_embeddings": (None,),
    "rope_interleaved": (False, None),
    "pretraining_tp": (1, None),
    "use_mrope": (False, None),
    "use_qk_norm": (False, None),
    "qk_layernorm": (False, None),
}
_ONLY_GPT2: dict[str, tuple[Any, ...]] = _ONLY_ALL | {
    "activation_function": ("gelu_new",),
    "scale_attn_weights": (True, None),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "reorder_and_upcast_attn": (False, None),
}
_BIASED = {"llama": False, "qwen2": True, "qwen3": False}
_QWEN3_HEAD_DIM = 128
_NESTED = ("rope_scaling", "rope_parameters")


def fields_from_hf(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the fields of a ``ModelConfig``; missing optional keys get transformers' defaults.

    Raises:
      ConfigError: a field is missing or asks for what the code does not do; names it and ``where``.
    """
    model_type = data.get("model_type")
    if model_type not in MODEL_TYPES:
        advice = nearest_advice(str(model_type), MODEL_TYPES)
        raise ConfigError(f"{where}: model_type {model_type!r} is not supported.", advice=advice)
    _refuse_malformed(data, where)
    _refuse_unsupported(data, where)
    return _gpt2_fields(data) if model_type == "gpt2" else _rotary_fields(data)


def unread_keys(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a ``config.json`` that are neither used nor known to be without effect."""
    if data.get("model_type") == "gpt2":
        return tuple(sorted(set(data) - _READ_GPT2 - _HARMLESS_GPT2 - set(_ONLY_GPT2)))
    return tuple(sorted(set(data) - _READ - _HARMLESS - set(_ONLY)))


def is_whole(value: object) -> bool:
    """Tell a whole number from everything else; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


def _rotary_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    model_type = data["model_type"]
    sizes = {name: _required(data, name) for name in _SIZES}
    longest = data.get("max_position_embeddings", 2048 if model_type == "llama" else 32768)
    return {
        "model_type": model_type,
        **sizes,
        "num_key_value_heads": _kv_heads(data),
        "head_dim": _head_dim(data),
        "rms_norm_eps": data.get("rms_norm_eps", 1e-6),
        "max_position_embeddings": longest,
        "tie_word_embeddings": _flag(data, "tie_word_embeddings", default=False),
        "attention_bias": _BIASED[model_type],
        **rope_fields(data, longest),
    }


def _gpt2_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    hidden, heads = _required(data, "n_embd"), _required(data, "n_head")
    inner = data.get("n_inner")
    return {
        "model_type": "gpt2",
        "vocab_size": _required(data, "vocab_size"),
        "hidden_size": hidden,
        # A size that is no number is refused by its name.
        "intermediate_size": 4 * hidden if inner is None and is_whole(hidden) else inner,
        "num_hidden_layers": _required(data, "n_layer"),
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": _shared(hidden, heads, "n_embd", "n_head"),
        "layer_norm_epsilon": data.get("layer_norm_epsilon", 1e-5),
        "max_position_embeddings": data.get("n_positions", 1024),
        "tie_word_embeddings": _flag(data, "tie_word_embeddings", default=True),
        "attention_bias": True,
        "rope_theta": None,
        "hidden_act": "gelu_new",
    }


def _refuse_malformed(data: Mapping[str, Any], where: str) -> None:
    """Refuse values that cannot even be compared with what is allowed."""
    nested = [(name, data[name]) for name in _NESTED if isinstance(data.get(name), Mapping)]
    for path, fields in (("", data), *((f"{name}.", inner) for name, inner in nested)):
        for name, value in fields.items():
            if is_whole(value) and abs(value) > sys.float_info.max:
                raise ConfigError(f"{where}: {path}{name} is a whole number too large to compute with.")
        if isinstance(fields.get("rope_theta"), (list, Mapping)):
            raise ConfigError(f"{where}: {path}rope_theta is {_brief(fields['rope_theta'])}, which is not a number.")


def _refuse_unsupported(data: Mapping[str, Any], where: str) -> None:
    is_gpt2 = data["model_type"] == "gpt2"
    for name, allowed in (_ONLY_GPT2 if is_gpt2 else _ONLY).items():
        if name in data and data[name] not in allowed:
            raise ConfigError(f"{where}: {name} {_brief(data[name])} is not supported; only {allowed[0]!r} is.")
    checks: tuple[Callable[[Mapping[str, Any]], str], ...] = (_bias_problem, _window_problem, rope_problem)
    for problem in () if is_gpt2 else (check(data) for check in checks):
        if problem:
            raise ConfigError(f"{where}: {problem}")


def _bias_problem(data: Mapping[str, Any]) -> str:
    asked = data.get("attention_bias")
    always = _BIASED[data["model_type"]]
    if asked is None or asked is always:
        return ""
    return f"attention_bias {asked!r} is not supported for {data['model_type']}, which is done with {always} only."


def _window_problem(data: Mapping[str, Any]) -> str:
    if data.get("use_sliding_window"):
        return (
            f"use_sliding_window {data['use_sliding_window']!r} is not supported; every layer attends to all positions."
        )
    kinds = data.get("layer_types")
    if kinds is not None and not (isinstance(kinds, (list, tuple)) and all(isinstance(kind, str) for kind in kinds)):
        return f"layer_types is {_brief(kinds)}, which is not a list of names."
    others = set(kinds or ()) - {"full_attention"}
    if others:
        return f"layer_types has {', '.join(map(repr, sorted(others)))}; only 'full_attention' is supported."
    # Qwen files carry a window that use_sliding_window, false by default, leaves unused.
    if data["model_type"] == "llama" and data.get("sliding_window") is not None and "use_sliding_window" not in data:
        return f"sliding_window {data['sliding_window']!r} is not supported; every layer attends to all positions."
    return ""


def _kv_heads(data: Mapping[str, Any]) -> Any:
    if data.get("num_key_value_heads") is None and data["model_type"] == "llama":
        return _required(data, "num_attention_heads")
    return _required(data, "num_key_value_heads")


def _head_dim(data: Mapping[str, Any]) -> Any:
    if data.get("head_dim") is not None:
        return data["head_dim"]
    # Qwen3's heads are no share of the hidden size.
    if data["model_type"] == "qwen3":
        return _QWEN3_HEAD_DIM
    hidden, heads = _required(data, "hidden_size"), _required(data, "num_attention_heads")
    return _shared(hidden, heads, "hidden_size", "num_attention_heads")


def _shared(hidden: Any, heads: Any, hidden_name: str, heads_name: str) -> int:
    if not is_whole(hidden) or not is_whole(heads) or heads < 1:
        return 1  # the size itself is refused by name
    if hidden % heads:
        raise ConfigError(f"{hidden_name} {hidden} is no multiple of {heads_name} {heads}, and no head_dim is given.")
    return int(hidden // heads)


def _required(data: Mapping[str, Any], name: str) -> Any:
    if data.get(name) is None:
        raise ConfigError(f"{name} is missing.")
    return data[name]


def _flag(data: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = data.get(name, default)
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {value!r}, which is neither true nor false.")
    return value


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
