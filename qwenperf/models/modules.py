"""A thin Flax NNX face over the same pure functions, for people who want a Module.

Engines never call it: they use the parameters as they are, since flattening a Module at every call costs
more than a small model's whole step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.parameters import Params
from qwenperf.models.registry import load_model


class CausalLM(nnx.Module):
    """A decoder as an ``nnx.Module``: one ``nnx.Param`` a tensor, called with tokens, answering with logits.

    ``weights`` is the tree of ``models.parameters`` as ``nnx.Dict`` and ``nnx.List``, so that filters find tensors by
    the names of their paths (``nnx.PathContains("q_proj")``). ``nnx.split`` and ``nnx.merge`` work as on any Module.
    """

    def __init__(self, config: ModelConfig, params: Params) -> None:
        self.config = config
        self.weights = nnx.Dict({name: _as_module(child) for name, child in params.items()})

    @classmethod
    def from_params(cls, config: ModelConfig, params: Params) -> CausalLM:
        """Return a Module that holds the arrays of ``params``, not copies."""
        return cls(config, params)

    @classmethod
    def load(cls, name: str, dtype: str = "f32", *, seed: int = 0) -> CausalLM:
        """Return the model called ``name``: a preset, a folder, a GGUF file or a hub id; see ``load_model``."""
        model = load_model(name, dtype, seed=seed)
        return cls(model.config, model.params)

    def to_params(self) -> Params:
        """Return the tree of arrays that engines take; the arrays themselves, not copies."""
        return {name: _as_params(child) for name, child in self.weights.items()}

    def __call__(
        self,
        tokens_BT: Int[Array, "B T"],
        *,
        attention_mask_BT: Int[Array, "B T"] | Bool[Array, "B T"] | None = None,
    ) -> Float[Array, "B T V"]:
        """Return f32 logits of every position; see ``models.decoder.logits``."""
        return logits(self.to_params(), self.config, tokens_BT, attention_mask_BT=attention_mask_BT)


def _as_module(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return nnx.Dict({name: _as_module(child) for name, child in tree.items()})
    if isinstance(tree, tuple):
        return nnx.List([_as_module(child) for child in tree])
    return nnx.Param(tree)


def _as_params(node: Any) -> Any:
    if isinstance(node, nnx.Dict):
        return {name: _as_params(child) for name, child in node.items()}
    if isinstance(node, nnx.List):
        return tuple(_as_params(child) for child in node)
    return node[...]
