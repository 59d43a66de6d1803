"""What sets a model family apart: two functions of its layers, and the names and shapes of its parameters.

Names are Llama's for every family (``self_attn``, ``mlp``, ``input_layernorm``...), so that whoever walks the tree
needs no cases; ``our_name`` translates those of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from qwenperf.models.config import ModelConfig
from qwenperf.models.layers import Weights, gated_mlp, rms_norm
from qwenperf.models.variant import Variant

Shape = tuple[int, ...]
Shapes = Iterator[tuple[str, Shape]]


def llama_name(stored: str) -> str:
    """Return our name for a tensor in Llama's naming, which is ours but for the prefix; empty for a mere buffer."""
    return "" if stored.endswith(".rotary_emb.inv_freq") else stored.removeprefix("model.")


def never(_name: str) -> bool:
    """Say no to every name."""
    return False


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family.

    Attributes:
      norm: (hidden, weights, config) to the normalised hidden.
      mlp: (hidden, weights, variant) to the feed-forward output.
      shapes: names and shapes of all parameters, in the order of the forward pass.
      our_name: our name for a tensor of a safetensors file; empty for a buffer that is no parameter.
      transposed: whether a safetensors file holds the parameter of this name (ours) as [in, out].
      gguf_pairs: whether llama.cpp's converter reordered the rows of q and k, to rotate neighbours together.
    """

    norm: Callable[[Any, Weights, ModelConfig], Any]
    mlp: Callable[[Any, Weights, Variant], Any]
    shapes: Callable[[ModelConfig], Shapes]
    our_name: Callable[[str], str] = llama_name
    transposed: Callable[[str], bool] = never
    gguf_pairs: bool = False


def root_mean_square(hidden_BTD: jax.Array, weights: Weights, config: ModelConfig) -> jax.Array:
    """Return the RMS norm with the configuration's epsilon."""
    return rms_norm(hidden_BTD, weights, config.rms_norm_eps)


def rotary_family(attention: Callable[[ModelConfig], Shapes], *, gguf_pairs: bool = False) -> Family:
    """Return a family of Llama's plan: RMS norms, rotary positions, a gated MLP.

    Args:
      attention: names and shapes of a layer's attention beside its four weight matrices, such as biases.
      gguf_pairs: see ``Family``.
    """

    def shapes(config: ModelConfig) -> Shapes:
        yield "embed_tokens.weight", (config.vocab_size, config.hidden_size)
        for index in range(config.num_hidden_layers):
            yield from ((f"layers.{index}.{name}", shape) for name, shape in layer(config))
        yield "norm.weight", (config.hidden_size,)
        if not config.tie_word_embeddings:
            yield "lm_head.weight", (config.vocab_size, config.hidden_size)

    def layer(config: ModelConfig) -> Shapes:
        hidden, intermediate = config.hidden_size, config.intermediate_size
        queries, keys = heads_width(config)
        yield "input_layernorm.weight", (hidden,)
        for name, out in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            yield f"self_attn.{name}.weight", (out, hidden)
        yield from attention(config)
        yield "self_attn.o_proj.weight", (hidden, queries)
        yield "post_attention_layernorm.weight", (hidden,)
        yield "mlp.gate_proj.weight", (intermediate, hidden)
        yield "mlp.up_proj.weight", (intermediate, hidden)
        yield "mlp.down_proj.weight", (hidden, intermediate)

    return Family(norm=root_mean_square, mlp=gated_mlp, shapes=shapes, gguf_pairs=gguf_pairs)


def heads_width(config: ModelConfig) -> tuple[int, int]:
    """Return the width of all query heads together, and of all key/value heads."""
    return config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
