"""Qwen3: LLaMA with an RMS norm of each query and key head before it is turned; heads of a size of their own."""

from __future__ import annotations

from qwenperf.models.config import ModelConfig
from qwenperf.models.family import Shapes, rotary_family


def _attention(config: ModelConfig) -> Shapes:
    yield "self_attn.q_norm.weight", (config.head_dim,)
    yield "self_attn.k_norm.weight", (config.head_dim,)


QWEN3 = rotary_family(_attention)
