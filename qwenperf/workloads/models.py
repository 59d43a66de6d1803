"""Model presets as data: shapes by the keys of Hugging Face's ``config.json``. Nothing here imports JAX."""

from __future__ import annotations

from typing import Any

Shape = dict[str, Any]


def _qwen2(hidden: int, layers: int, heads: tuple[int, int], intermediate: int, vocab: int, **other: Any) -> Shape:
    query_heads, kv_heads = heads
    return {
        "model_type": "qwen2",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": query_heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": intermediate,
        "vocab_size": vocab,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": True,
        **other,
    }


def _gpt2(hidden: int, layers: int, heads: int, vocab: int, positions: int) -> Shape:
    return {
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "vocab_size": vocab,
        "n_positions": positions,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": True,
    }


_LLAMA_3_2 = {
    "model_type": "llama",
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "max_position_embeddings": 131072,
}

SMOLLM2 = "smollm2-135m"
"""The preset with real weights, where they can be fetched."""

PRESETS: dict[str, Shape] = {
    "tiny": _qwen2(64, 2, (4, 2), 128, 256, max_position_embeddings=1024),
    "4x128": _qwen2(128, 4, (4, 2), 512, 1000, max_position_embeddings=4096),
    # Qwen2's layout in the size of GPT-2 small.
    "gpt2-size": _qwen2(768, 12, (12, 12), 3072, 50257, max_position_embeddings=1024),
    "qwen2.5-0.5b": _qwen2(896, 24, (14, 2), 4864, 151936),
    "qwen2.5-1.5b": _qwen2(1536, 28, (12, 2), 8960, 151936),
    "qwen2.5-3b": _qwen2(2048, 36, (16, 2), 11008, 151936),
    "qwen2.5-7b": _qwen2(3584, 28, (28, 4), 18944, 152064, tie_word_embeddings=False),
    "gpt2": _gpt2(768, 12, 12, 50257, 1024),
    "qwen3-0.6b": _qwen2(1024, 28, (16, 8), 3072, 151936)
    | {"model_type": "qwen3", "head_dim": 128, "max_position_embeddings": 40960},
    "llama-3.2-1b": _qwen2(2048, 16, (32, 8), 8192, 128256) | _LLAMA_3_2,
    SMOLLM2: _qwen2(576, 30, (9, 3), 1536, 49152)
    | {"model_type": "llama", "rms_norm_eps": 1e-5, "rope_theta": 100000.0, "max_position_embeddings": 8192},
}
