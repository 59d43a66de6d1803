"""The known families by ``model_type``."""

from __future__ import annotations

from collections.abc import Mapping

from qwenperf.models.config import ModelConfig, ModelType
from qwenperf.models.family import Family
from qwenperf.models.gpt2 import GPT2
from qwenperf.models.llama import LLAMA
from qwenperf.models.qwen2 import QWEN2
from qwenperf.models.qwen3 import QWEN3

__all__ = ["FAMILIES", "Family", "family_of"]

FAMILIES: Mapping[ModelType, Family] = {"gpt2": GPT2, "llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3}


def family_of(config: ModelConfig) -> Family:
    """Return the family that a configuration is of."""
    return FAMILIES[config.model_type]
