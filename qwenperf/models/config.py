"""What a model is made of: shapes and constants of a decoder, as our forward pass reads them.

Where they come from is the business of ``hf_config`` (``config.json``) and ``gguf_config`` (GGUF metadata).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qwenperf.errors import ConfigError, TokenError
from qwenperf.models.hf_config import MODEL_TYPES, ModelType, fields_from_hf, is_whole, unread_keys
from qwenperf.models.rope_scaling import RopeScaling

__all__ = ["MODEL_TYPES", "ModelConfig", "ModelType", "unread_keys"]

_SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Shapes and constants of a decoder; field names are the keys of ``config.json`` (Qwen2's where families differ).

    ``attention_bias`` says that q, k and v have a bias: true for Qwen2 and GPT-2. ``rope_theta`` is None where
    positions are learned: then there are ``max_position_embeddings`` of them and no more.
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
    layer_norm_epsilon: float = 1e-5
    rope_theta: float | None = 10000.0
    rope_scaling: RopeScaling | None = None
    max_position_embeddings: int = 32768
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    hidden_act: str = "silu"

    def __post_init__(self) -> None:
        """Refuse sizes that no decoder can have.

        Raises:
          ConfigError: names the field and its value.
        """
        for name in _SIZES:
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise ConfigError(f"model config: {name} is {value!r}, which is not a whole number of at least 1.")
        for name in ("rms_norm_eps", "layer_norm_epsilon", *(["rope_theta"] if self.rope_theta is not None else [])):
            value = getattr(self, name)
            if not _is_number(value) or not math.isfinite(value) or value <= 0:
                raise ConfigError(f"model config: {name} is {value!r}, which is not a positive number.")
        if self.num_attention_heads % self.num_key_value_heads:
            raise ConfigError(
                f"model config: num_attention_heads {self.num_attention_heads} cannot be shared evenly by "
                f"num_key_value_heads {self.num_key_value_heads}."
            )
        if self.rope_theta is not None and self.head_dim % 2:
            raise ConfigError(f"model config: head_dim is {self.head_dim}; rotary positions need an even one.")
        self._check_scaling()

    def _check_scaling(self) -> None:
        scaling, theta = self.rope_scaling, self.rope_theta
        if scaling is None:
            return
        if theta is None or (scaling.rope_type == "yarn" and theta <= 1):
            raise ConfigError(f"model config: rope_theta {theta!r} cannot be scaled by {scaling.rope_type!r}.")
        if scaling.rope_type == "factors" and len(scaling.factors) != self.head_dim // 2:
            raise ConfigError(
                f"model config: {len(scaling.factors)} rope factors for the {self.head_dim // 2} pairs of a head."
            )

    def check_positions(self, count: int) -> None:
        """Refuse a sequence longer than a table of learned positions: a look-up behind its end is clamped in silence.

        Raises:
          TokenError: says how many tokens and positions there are.
        """
        if self.rope_theta is None and count > self.max_position_embeddings:
            raise TokenError(
                f"a sequence has {count} tokens; the model has {self.max_position_embeddings} learned positions.",
                advice="Cut it into shorter rows.",
            )

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
        try:
            return cls(**fields_from_hf(data, where))
        except ConfigError as error:
            message = error.message.removeprefix("model config: ").removeprefix(f"{where}: ")
            raise ConfigError(f"{where}: {message}", advice=error.advice) from None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
