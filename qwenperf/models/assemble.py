"""From named tensors in files to the parameter tree: checks names and shapes first, then streams.

One tensor is on its way at a time, so that loading holds the weights once: what was read is on the device
in its final dtype before the next is touched. Which file format the tensors come from is the caller's business.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from qwenperf.errors import CheckpointError
from qwenperf.models.config import ModelConfig
from qwenperf.models.parameters import Params, Shape, array_dtype, build_params, parameter_shapes

_SHOWN = 4


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One stored tensor, not read yet. ``name`` is the file's own name for it, for messages."""

    name: str
    file: Path
    shape: Shape
    read: Callable[[], np.ndarray]


def assemble(config: ModelConfig, tensors: Mapping[str, Tensor], dtype: str, where: str) -> Params:
    """Return the parameter tree with the values of ``tensors`` (by our names) in ``dtype``.

    Args:
      config: what the model should have.
      tensors: what the files have.
      dtype: f32 or bf16.
      where: the checkpoint, for messages.

    Raises:
      CheckpointError: a tensor is missing, left over, or of another shape; names it and its file.
    """
    target = array_dtype(dtype)
    if config.num_hidden_layers > len(tensors):
        # Said before names are made of so many: a config may lie.
        raise CheckpointError(
            f"{where}: its config says {config.num_hidden_layers} layers, and it has {len(tensors)} tensors."
        )
    shapes = parameter_shapes(config)
    tensors = _without_tied_head(config, tensors)
    _check_names(shapes, tensors, where)
    for name, shape in shapes.items():
        found = tensors[name]
        if found.shape != shape:
            raise CheckpointError(
                f"{found.file}: tensor {found.name!r} has shape {list(found.shape)}; its config says {list(shape)}."
            )

    def make(name: str, _: Shape) -> jax.Array:
        # Blocking bounds the memory: dispatch is asynchronous and would keep every source array alive.
        values: jax.Array = jax.block_until_ready(_cast(jax.device_put(tensors[name].read()), target))
        return values

    return build_params(config, make)


@functools.partial(jax.jit, static_argnums=1)
def _convert(values: jax.Array, dtype: Any) -> jax.Array:
    return values.astype(dtype)


def _cast(values: jax.Array, dtype: Any) -> jax.Array:
    return values if values.dtype == jnp.dtype(dtype) else _convert(values, dtype)


def _check_names(shapes: Mapping[str, Shape], tensors: Mapping[str, Tensor], where: str) -> None:
    missing = [name for name in shapes if name not in tensors]
    if missing:
        raise CheckpointError(f"{where}: tensor {_listed(missing)} is missing; the config asks for it.")
    extra = [tensor for name, tensor in tensors.items() if name not in shapes]
    if extra:
        names = _listed([tensor.name for tensor in extra])
        raise CheckpointError(f"{extra[0].file}: tensor {names} has no place in a model of this config.")


def _without_tied_head(config: ModelConfig, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Drop an ``lm_head`` stored although it is tied; refuse one that differs from the embedding."""
    head, embedding = tensors.get("lm_head.weight"), tensors.get("embed_tokens.weight")
    if head is None or embedding is None or not config.tie_word_embeddings:
        return tensors
    if not np.array_equal(head.read(), embedding.read()):
        raise CheckpointError(
            f"{head.file}: tensor {head.name!r} differs from {embedding.name!r}, but tie_word_embeddings is true."
        )
    return {name: tensor for name, tensor in tensors.items() if name != "lm_head.weight"}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more
