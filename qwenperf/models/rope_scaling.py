"""Frequencies of rotary positions, plain or stretched beyond the length that a model was first trained on.

    angle[p, f] = p * frequency[f],   frequency[f] = theta ** (-f / F),   F = head_dim / 2

``linear`` divides every frequency; ``llama3`` the low ones only; ``yarn`` goes from dividing to leaving along
the frequencies, and scales sines and cosines; ``factors`` divides each by its own number, which is how GGUF files
carry ``llama3``. Formulas in f64, rounded once to f32: an exponent's own rounding would grow with the position.
Sources: https://arxiv.org/abs/2309.00071 (yarn), transformers' ``modeling_rope_utils`` (names and defaults).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from qwenperf.errors import ConfigError

RopeType = Literal["linear", "llama3", "yarn", "factors"]
ROPE_TYPES: tuple[str, ...] = get_args(RopeType)

_POSITIVE = (
    "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor", "attention_factor",
    "beta_fast", "beta_slow",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How positions are stretched; field names are the keys of ``rope_parameters`` in ``config.json``.

    ``attention_factor`` multiplies sines and cosines (``yarn`` only); ``factors`` has one divisor a frequency.
    """

    rope_type: RopeType
    factor: float = 1.0
    original_max_position_embeddings: int = 1
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    factors: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that no formula can use.

        Raises:
          ConfigError: names the field and its value.
        """
        for name, value in (*((name, getattr(self, name)) for name in _POSITIVE), *enumerate(self.factors)):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value <= 0:
                raise ConfigError(
                    f"rope scaling {self.rope_type}: {name} is {value!r}, which is not a positive number."
                )
        if not isinstance(self.truncate, bool):
            raise ConfigError(f"rope scaling: truncate is {self.truncate!r}, which is neither true nor false.")
        if self.rope_type == "llama3" and self.high_freq_factor <= self.low_freq_factor:
            raise ConfigError(
                f"rope scaling llama3: high_freq_factor {self.high_freq_factor} is not above "
                f"low_freq_factor {self.low_freq_factor}."
            )


def frequencies(theta: float, head_dim: int, scaling: RopeScaling | None) -> np.ndarray:
    """Return the angle per position of each of the head_dim / 2 pairs, in radians, as f32."""
    plain_F = theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    scaled_F = plain_F if scaling is None else _SCALED[scaling.rope_type](plain_F, theta, scaling)
    return scaled_F.astype(np.float32)


def attention_factor(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    """Return yarn's multiplier of sines and cosines where the configuration does not give it."""

    def grown(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    return grown(mscale) / grown(mscale_all_dim) if mscale and mscale_all_dim else grown(1.0)


def _linear(plain_F: np.ndarray, _theta: float, scaling: RopeScaling) -> np.ndarray:
    return plain_F / scaling.factor


def _llama3(plain_F: np.ndarray, _theta: float, scaling: RopeScaling) -> np.ndarray:
    """Leave turns that come round often within the original length, divide those that hardly do, blend between."""
    rounds_F = scaling.original_max_position_embeddings * plain_F / (2 * math.pi)
    kept_F = (rounds_F - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    return _blend(plain_F, kept_F, scaling.factor)


def _yarn(plain_F: np.ndarray, theta: float, scaling: RopeScaling) -> np.ndarray:
    def index_that_turns(rounds: float) -> float:
        length = scaling.original_max_position_embeddings / (rounds * 2 * math.pi)
        return len(plain_F) * math.log(length) / math.log(theta)

    first, last = index_that_turns(scaling.beta_fast), index_that_turns(scaling.beta_slow)
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    # The bounds are transformers': the upper one is head_dim - 1, although there are half as many frequencies.
    first, last = max(first, 0), min(last, 2 * len(plain_F) - 1)
    ramp_F = (np.arange(len(plain_F)) - first) / (last - first if last != first else 0.001)
    return _blend(plain_F, 1 - ramp_F, scaling.factor)


def _factors(plain_F: np.ndarray, _theta: float, scaling: RopeScaling) -> np.ndarray:
    return plain_F / np.asarray(scaling.factors, np.float64)


def _blend(plain_F: np.ndarray, kept_F: np.ndarray, factor: float) -> np.ndarray:
    """Return the plain frequency where ``kept_F`` is 1 or more, the divided one where it is 0 or less."""
    share_F = np.clip(kept_F, 0, 1)
    blended_F: np.ndarray = plain_F * (share_F + (1 - share_F) / factor)
    return blended_F


_SCALED: Mapping[str, Callable[[np.ndarray, float, RopeScaling], np.ndarray]] = {
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "factors": _factors,
}
