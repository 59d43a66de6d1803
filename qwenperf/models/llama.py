"""LLaMA: 2, 3, 3.1 and later (with scaled rotary positions), SmolLM2. No biases."""

from __future__ import annotations

from qwenperf.models.config import ModelConfig
from qwenperf.models.family import Shapes, rotary_family


def _attention(_config: ModelConfig) -> Shapes:
    yield from ()


LLAMA = rotary_family(_attention, gguf_pairs=True)
