"""How an engine's weights lie: fused, stored [in, out], stacked. Pure functions from parameters to parameters.

The model's own tree is never changed, and what a layout leaves alone is shared with it, not copied. Each layer goes
through all conversions before the next one starts, and a stack is written layer by layer, so that at most one layer
is there twice. Names in a module tell what came out: ``weight`` is [out, in], ``weight_io`` [in, out].
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.family import heads_width
from qwenperf.models.layers import Weights
from qwenperf.models.parameters import Params
from qwenperf.models.quantize import quantize_module, quantize_tables, schemes_of
from qwenperf.workloads.engine import EngineSettings

Convert = Callable[[Params], Params]
"""From one module or layer to the same one in another layout."""

_QKV = ("q_proj", "k_proj", "v_proj")
_GATE_UP = ("gate_proj", "up_proj")


def prepare(params: Params, config: ModelConfig, settings: EngineSettings) -> Params:
    """Return the parameters as ``settings`` want them; in this order: fused, converted, stacked.

    Raises:
      ConfigError: a layout of matrices that the model does not have.
    """
    fuse = partial(_fuse_layer, config=config, settings=settings)
    convert = _matrix_conversion(settings)
    layers = (_convert_matrices(fuse(layer), convert) for layer in params["layers"])
    prepared = dict(params)
    if settings.weights != "native":
        prepared |= quantize_tables(params, settings.weights)
    elif convert is not None:
        head = "embed_tokens" if config.tie_word_embeddings else "lm_head"
        prepared[head] = convert(params[head])
    scanned = settings.layers == "scanned"
    prepared["layers"] = stack(layers, config.num_hidden_layers) if scanned else tuple(layers)
    return prepared


def fuse(modules: Mapping[str, Weights]) -> dict[str, Array]:
    """Return one module whose outputs are those of ``modules`` one after the other."""
    parts = tuple(modules.values())
    return {name: jnp.concatenate([part[name] for part in parts]) for name in parts[0]}


def split(module: Weights, widths: Mapping[str, int]) -> dict[str, dict[str, Array]]:
    """Return modules of these widths, whose outputs one after the other are those of ``module``; undoes ``fuse``."""
    pieces: dict[str, dict[str, Array]] = {}
    start = 0
    for name, width in widths.items():
        pieces[name] = {part: array[start : start + width] for part, array in module.items()}
        start += width
    return pieces


def stack(layers: Iterable[Params], count: int) -> Params:
    """Return ``count`` layers as one, every array with an axis of layers in front."""
    stacked: Any = None
    for index, layer in enumerate(layers):
        if stacked is None:
            stacked = jax.tree.map(lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype), layer)
        stacked = _put(stacked, layer, index)
    return dict(stacked)


def transpose(module: Weights) -> Params:
    """Return the module with its matrix stored as [in, out]."""
    return {"weight_io" if name == "weight" else name: _swap(name, leaf) for name, leaf in module.items()}


def is_matrix(module: Any) -> bool:
    """Say whether ``module`` is one that inputs are multiplied with."""
    return isinstance(module, Mapping) and "weight" in module and module["weight"].ndim == 2


def _fuse_layer(layer: Params, *, config: ModelConfig, settings: EngineSettings) -> Params:
    attention, mlp = dict(layer["self_attn"]), dict(layer["mlp"])
    if settings.qkv == "fused" and "qkv_proj" not in attention:
        attention["qkv_proj"] = fuse({name: attention.pop(name) for name in _QKV})
    if settings.qkv == "separate" and "qkv_proj" in attention:
        queries, keys = heads_width(config)
        attention |= split(attention.pop("qkv_proj"), dict(zip(_QKV, (queries, keys, keys), strict=True)))
    if settings.gate_up == "fused":
        if "gate_proj" not in mlp:
            raise ConfigError(
                f"engine setting gate_up='fused': a {config.model_type} model has no gate beside its up projection.",
                advice="Leave gate_up out for this model.",
            )
        mlp["gate_up_proj"] = fuse({name: mlp.pop(name) for name in _GATE_UP})
    return {**layer, "self_attn": attention, "mlp": mlp}


def _matrix_conversion(settings: EngineSettings) -> Convert | None:
    """Return what becomes of each matrix of the layers and of the head."""
    if settings.weights != "native":
        return partial(quantize_module, scheme=schemes_of(settings.weights).layers)
    return transpose if settings.contraction == "in-out" else None


def _convert_matrices(layer: Params, convert: Convert | None) -> Params:
    return layer if convert is None else dict(_converted(layer, convert))


def _converted(node: Mapping[str, Any], convert: Convert) -> Iterator[tuple[str, Any]]:
    for name, child in node.items():
        if is_matrix(child):
            yield name, convert(child)
        else:
            yield name, dict(_converted(child, convert)) if isinstance(child, Mapping) else child


def _swap(name: str, leaf: Array) -> Array:
    return leaf.T if name == "weight" else leaf


@partial(jax.jit, donate_argnums=0)
def _put(stacked: Any, layer: Any, index: Any) -> Any:
    return jax.tree.map(lambda old, new: lax.dynamic_update_index_in_dim(old, new, index, 0), stacked, layer)
