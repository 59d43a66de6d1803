"""Qwen2 and Qwen2.5: LLaMA with a bias on q, k and v."""

from __future__ import annotations

from qwenperf.models.config import ModelConfig
from qwenperf.models.family import Shapes, heads_width, rotary_family


def _attention(config: ModelConfig) -> Shapes:
    if not config.attention_bias:
        return
    queries, keys = heads_width(config)
    for name, out in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
        yield f"self_attn.{name}.bias", (out,)


QWEN2 = rotary_family(_attention)
