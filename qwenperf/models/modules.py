"""A thin Flax NNX face over the same pure functions, for people who want a Module.

Engines never call it: they use the parameters as they are, since flattening a Module at every call costs
more than a small model's whole step.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import nnx

from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.parameters import Params, flatten, nest


class CausalLM(nnx.Module):
    """A decoder as an ``nnx.Module``: one ``nnx.Param`` a tensor, called with tokens, answering with logits.

    ``nnx.split`` and ``nnx.merge`` work as on any Module.
    """

    def __init__(self, config: ModelConfig, params: Params) -> None:
        self.config = config
        self.weights = nnx.Dict({_key(name): nnx.Param(value) for name, value in flatten(params).items()})

    @classmethod
    def from_params(cls, config: ModelConfig, params: Params) -> CausalLM:
        """Return a Module that holds the arrays of ``params``, not copies."""
        return cls(config, params)

    def to_params(self) -> Params:
        """Return the tree of arrays that engines take."""
        return nest({_name(key): param[...] for key, param in self.weights.items()})

    def __call__(self, tokens_BT: jax.Array, *, attention_mask_BT: jax.Array | None = None) -> Any:
        """Return f32 logits [B, T, V] of every position; see ``models.decoder.logits``."""
        return logits(self.to_params(), self.config, tokens_BT, attention_mask_BT=attention_mask_BT)


def _key(name: str) -> str:
    """Write a dotted name without dots, which attribute paths of NNX use themselves."""
    return name.replace(".", "/")


def _name(key: str) -> str:
    return key.replace("/", ".")
