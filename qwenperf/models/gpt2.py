"""GPT-2: learned positions, layer norms, biases everywhere, q, k and v in one matrix, a GELU instead of a gate.

Checkpoints store its matrices as [in, out] (they were 1 x 1 convolutions); here all are [out, in].
"""

from __future__ import annotations

import re

import jax

from qwenperf.models.config import ModelConfig
from qwenperf.models.family import Family, Shapes
from qwenperf.models.layers import Weights, gelu_mlp, layer_norm

_MODULES = {
    "wte": "embed_tokens",
    "wpe": "embed_positions",
    "ln_f": "norm",
    "ln_1": "input_layernorm",
    "attn.c_attn": "self_attn.qkv_proj",
    "attn.c_proj": "self_attn.o_proj",
    "ln_2": "post_attention_layernorm",
    "mlp.c_fc": "mlp.up_proj",
    "mlp.c_proj": "mlp.down_proj",
}
_NAME = re.compile(r"(?:transformer\.)?(?:h\.(\d+)\.)?(.+)\.(weight|bias)")
# The causal mask, which older files store with the weights.
_MASK = re.compile(r"(?:transformer\.)?h\.\d+\.attn\.(?:masked_)?bias")


def our_name(stored: str) -> str:
    """Return our name for a stored tensor: ``h.3.attn.c_proj.bias`` is ``layers.3.self_attn.o_proj.bias``."""
    if _MASK.fullmatch(stored):
        return ""
    found = _NAME.fullmatch(stored)
    if found is None or found[2] not in _MODULES:
        return stored
    layer = "" if found[1] is None else f"layers.{found[1]}."
    return f"{layer}{_MODULES[found[2]]}.{found[3]}"


def _norm(hidden_BTD: jax.Array, weights: Weights, config: ModelConfig) -> jax.Array:
    return layer_norm(hidden_BTD, weights, config.layer_norm_epsilon)


def _is_stored_transposed(name: str) -> bool:
    return name.startswith("layers.") and name.endswith("_proj.weight")


def _shapes(config: ModelConfig) -> Shapes:
    hidden = config.hidden_size
    yield "embed_tokens.weight", (config.vocab_size, hidden)
    yield "embed_positions.weight", (config.max_position_embeddings, hidden)
    for index in range(config.num_hidden_layers):
        yield from ((f"layers.{index}.{name}", shape) for name, shape in _layer_shapes(config))
    yield "norm.weight", (hidden,)
    yield "norm.bias", (hidden,)
    if not config.tie_word_embeddings:
        yield "lm_head.weight", (config.vocab_size, hidden)


def _layer_shapes(config: ModelConfig) -> Shapes:
    hidden, intermediate = config.hidden_size, config.intermediate_size
    modules: dict[str, tuple[int, ...]] = {
        "input_layernorm": (hidden,),
        "self_attn.qkv_proj": (3 * hidden, hidden),
        "self_attn.o_proj": (hidden, hidden),
        "post_attention_layernorm": (hidden,),
        "mlp.up_proj": (intermediate, hidden),
        "mlp.down_proj": (hidden, intermediate),
    }
    for module, shape in modules.items():
        yield f"{module}.weight", shape
        yield f"{module}.bias", shape[:1]


GPT2 = Family(norm=_norm, mlp=gelu_mlp, shapes=_shapes, our_name=our_name, transposed=_is_stored_transposed)
