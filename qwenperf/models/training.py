"""A reference training step over the same pure functions: next-token cross entropy and an optimiser of optax.

One jitted function of a state and a batch, with each usual optimisation a setting. Knows nothing of data, files and
loops; it is there to be measured and gated like any other step that is called again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]

from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.loss import Batch, count_targets, summed_loss
from qwenperf.models.parameters import Params, array_dtype


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """How a training step is written; the numbers it computes are the same but for rounding (and clipping).

    Attributes:
      learning_rate: of AdamW, where no optimiser is given.
      weight_decay: the same.
      clip_norm: the most that the global norm of the gradients may be; ``None`` leaves them as they are.
      remat: compute each layer's activations again in the backward pass, instead of keeping them.
      microbatches: into how many parts a batch is cut, whose gradients are added up one after the other.
      compute_dtype: f32, or bf16: the forward and backward pass round the weights, which stay f32 in the state.
      donate: give the state up to the step, which then updates it in place.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    clip_norm: float | None = None
    remat: bool = False
    microbatches: int = 1
    compute_dtype: str = "f32"
    donate: bool = True

    def __post_init__(self) -> None:
        """Refuse what no step can be made of.

        Raises:
          ConfigError: names the setting and its value.
          UnknownNameError: no such dtype.
        """
        array_dtype(self.compute_dtype)
        if type(self.microbatches) is not int or self.microbatches < 1:
            raise ConfigError(f"microbatches is {self.microbatches!r}, which is not a whole number of at least 1.")
        limits = {"learning_rate": self.learning_rate, "clip_norm": 1.0 if self.clip_norm is None else self.clip_norm}
        for name, value in limits.items():
            if not _is_number(value) or value <= 0:
                raise ConfigError(f"{name} is {value!r}, which is not a number above 0.")
        if not _is_number(self.weight_decay) or self.weight_decay < 0:
            raise ConfigError(f"weight_decay is {self.weight_decay!r}, which is not a number of at least 0.")


class TrainState(NamedTuple):
    """What a step hands on to the next one: f32 weights, and what the optimiser remembers."""

    params: Params
    optimizer: Any


class Progress(NamedTuple):
    """What one step says of itself: the loss per target before it, and the gradients' global norm before clipping."""

    loss: jax.Array
    grad_norm: jax.Array


Step = Callable[[TrainState, Batch], tuple[TrainState, Progress]]


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """A model's training: ``init`` makes the first state, ``step`` takes a state and a batch to the next state."""

    config: ModelConfig
    settings: TrainSettings
    optimizer: optax.GradientTransformation
    step: Step

    def init(self, params: Params) -> TrainState:
        """Return the state before the first step, with weights of its own in f32: a donated one is used up."""
        # A plain astype would hand the caller's own arrays on, to be given up by the first step.
        own = jax.tree.map(lambda value: jnp.array(value, jnp.float32, copy=True), params)
        return TrainState(params=own, optimizer=self.optimizer.init(own))


def make_trainer(
    config: ModelConfig,
    settings: TrainSettings | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> Trainer:
    """Return a trainer with a jitted step.

    Args:
      config: the model's shapes.
      settings: how the step is written.
      optimizer: in place of AdamW with the settings' rate and decay.
    """
    settings = settings or TrainSettings()
    if optimizer is None:
        optimizer = optax.adamw(settings.learning_rate, weight_decay=settings.weight_decay)
    if settings.clip_norm is not None:
        optimizer = optax.chain(optax.clip_by_global_norm(settings.clip_norm), optimizer)

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Progress]:
        loss, gradients = gradients_of(state.params, config, batch, settings)
        # optax raises floats to whole numbers; our own arithmetic stays strict.
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            updates, remembered = optimizer.update(gradients, state.optimizer, state.params)
            progress = Progress(loss=loss, grad_norm=optax.tree.norm(gradients))
            params = optax.apply_updates(state.params, updates)
        return TrainState(params=params, optimizer=remembered), progress

    step = jax.jit(train_step, donate_argnames=("state",) if settings.donate else ())
    return Trainer(config=config, settings=settings, optimizer=optimizer, step=step)


def gradients_of(
    params: Params, config: ModelConfig, batch: Batch, settings: TrainSettings
) -> tuple[jax.Array, Params]:
    """Return the loss per target of ``batch`` and its f32 gradients.

    Losses of the parts of a batch are summed, and divided by the targets of the whole: a mean of means would give the
    tokens of short rows more weight.

    Raises:
      ConfigError: the rows cannot be shared evenly by the microbatches.
    """
    part_loss = partial(_part_loss, config=config, settings=settings)
    targets = count_targets(batch)
    if settings.microbatches == 1:
        total, gradients = jax.value_and_grad(part_loss)(params, batch)
    else:
        total, gradients = _accumulated(part_loss, params, _parts(batch, settings.microbatches))
    return total / targets, jax.tree.map(lambda gradient: gradient / targets, gradients)


def _part_loss(params: Params, batch: Batch, *, config: ModelConfig, settings: TrainSettings) -> jax.Array:
    dtype = array_dtype(settings.compute_dtype)
    rounded = jax.tree.map(lambda value: value.astype(dtype), params)
    return summed_loss(rounded, config, batch, around=jax.checkpoint if settings.remat else None)


def _accumulated(
    part_loss: Callable[[Params, Batch], jax.Array], params: Params, parts: Batch
) -> tuple[jax.Array, Params]:
    """Add up losses and gradients in a loop on the device: the activations of one part are alive at a time."""

    def add(sums: tuple[jax.Array, Params], part: Batch) -> tuple[tuple[jax.Array, Params], None]:
        found = jax.value_and_grad(part_loss)(params, part)
        return jax.tree.map(jnp.add, sums, found), None

    zeros = (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, params))
    sums, _ = jax.lax.scan(add, zeros, parts)
    return sums


def _parts(batch: Batch, microbatches: int) -> Batch:
    rows = batch.tokens.shape[0]
    if rows % microbatches:
        raise ConfigError(
            f"a batch of {rows} rows cannot be shared evenly by {microbatches} microbatches.",
            advice=f"Give a multiple of {microbatches} rows.",
        )
    parts: Batch = jax.tree.map(lambda value: value.reshape(microbatches, -1, *value.shape[1:]), batch)
    return parts


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
