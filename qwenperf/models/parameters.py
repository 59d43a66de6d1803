"""The parameters' names, shapes and tree: Llama's names in Hugging Face without the leading ``model.``.

The tree is a nested dict, ``layers`` a tuple with one dict a layer; a weight is [out, in] as in the files.
Nothing here knows where values come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from qwenperf.errors import UnknownNameError
from qwenperf.models.config import ModelConfig
from qwenperf.models.families import family_of
from qwenperf.models.family import Shape

__all__ = [
    "DTYPES", "Params", "Shape", "array_dtype", "build_params", "flatten", "nest", "parameter_shapes",
]  # fmt: skip

Params = dict[str, Any]

DTYPES: dict[str, Any] = {"f32": jnp.float32, "bf16": jnp.bfloat16}


def array_dtype(dtype: str) -> Any:
    """Return the JAX dtype called ``dtype`` (f32 or bf16).

    Raises:
      UnknownNameError: another name.
    """
    try:
        return DTYPES[dtype]
    except KeyError:
        raise UnknownNameError("dtype", dtype, DTYPES) from None


def parameter_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return the shape of every parameter by name, in the order of the forward pass."""
    return dict(family_of(config).shapes(config))


def build_params(config: ModelConfig, make: Callable[[str, Shape], jax.Array]) -> Params:
    """Return the tree with ``make(name, shape)`` called for one parameter after the other."""
    return nest({name: make(name, shape) for name, shape in parameter_shapes(config).items()})


def nest(flat: Mapping[str, Any]) -> Params:
    """Return dotted names as a tree; numbered children become a tuple."""
    tree: Params = {}
    for name, value in flat.items():
        *parents, leaf = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = value
    if "layers" in tree:
        tree["layers"] = tuple(tree["layers"][str(index)] for index in range(len(tree["layers"])))
    return tree


def flatten(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tree as dotted names; undoes ``nest``."""
    flat: dict[str, Any] = {}
    for name, child in params.items():
        if isinstance(child, Mapping):
            flat |= {f"{name}.{below}": value for below, value in flatten(child).items()}
        elif isinstance(child, tuple):
            numbered = {str(index): item for index, item in enumerate(child)}
            flat |= {f"{name}.{below}": value for below, value in flatten(numbered).items()}
        else:
            flat[name] = child
    return flat
