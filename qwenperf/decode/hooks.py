"""Hooks: capture or replace activations at named points of chosen layers, inside the compiled steps.

    hooks = (capture("layers.*.output"), replace("layers.3.mlp", jnp.zeros_like))

Hooks are part of a program and not of a call: they are bound before anything is traced, so no step compiles anew for
them, and a program without hooks is the plain one. Names of points: ``models.taps.points_of``. A name may hold ``*``.
Hooks of one point act in the order given: a capture sees what the replacements before it made.

What is captured stays on the device. It comes back from each step ([B, T, D]), and lies in the cache's ``seen`` by
position ([B, S, D], S the capacity), where a loop on the device collects it too. Where layers are scanned, a capture
at any layer has the scan put out that point of all layers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from qwenperf.decode.state import KVCache, StepResult
from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.models.config import ModelConfig
from qwenperf.models.taps import points_of
from qwenperf.models.variant import Variant

Change = Callable[[Array], Array]
"""A pure function of an activation that keeps its shape and dtype."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One wish: capture ``point`` where there is no ``change``, else replace it."""

    point: str
    change: Change | None = None


def capture(point: str) -> Hook:
    """Return a hook that captures the activations at ``point``, a name or a pattern such as ``layers.*.output``."""
    return Hook(point=point)


def replace(point: str, change: Change) -> Hook:
    """Return a hook that lets ``change(activation)`` go on from ``point``, a name or a pattern."""
    return Hook(point=point, change=change)


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """The hooks of one model: each with the points that it stands at."""

    placed: tuple[tuple[Hook, tuple[str, ...]], ...] = ()

    @property
    def captured(self) -> tuple[str, ...]:
        """The points that are captured."""
        return tuple(name for hook, names in self.placed if hook.change is None for name in names)


NO_HOOKS = Hooks()


def hooks_of(given: Any) -> list[Hook]:
    """Return the hooks that an argument tells of: one, or several.

    Raises:
      ConfigError: neither.
    """
    if isinstance(given, Hook):
        return [given]
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ConfigError(f"hooks are {given!r}.", advice='Write hooks=[capture("norm")].')
    return list(given)


def place_hooks(hooks: Iterable[Hook], config: ModelConfig) -> Hooks:
    """Return ``hooks`` at the points of a model.

    Raises:
      UnknownNameError: a point that the model does not have; offers the nearest.
      ConfigError: something that is no hook, or a point captured twice.
    """
    known = points_of(config.num_hidden_layers)
    placed: list[tuple[Hook, tuple[str, ...]]] = []
    for hook in hooks:
        if not _is_hook(hook):
            raise ConfigError(f"{hook!r} is no hook.", advice='Write capture("norm") or replace("norm", function).')
        names = tuple(name for name in known if fnmatchcase(name, hook.point))
        if not names:
            raise UnknownNameError("hook point", hook.point, known)
        placed.append((hook, names))
    made = Hooks(placed=tuple(placed))
    for name in made.captured:
        if made.captured.count(name) > 1:
            raise ConfigError(f"hook point {name!r} is captured twice.")
    return made


def hooked(step: Callable[..., StepResult], variant: Variant, hooks: Hooks) -> Callable[..., Any]:
    """Return ``step`` of a static cache with ``hooks`` in it; it returns its result and what was captured, by point.

    Args:
      step: one of ``decode.step`` or ``decode.prefill`` that writes to a static cache.
      variant: what the step is to be written like.
      hooks: what stands where; none leave the step as it is.
    """

    def run(
        params: Any, tokens: Any, state: KVCache, tables: Any, *span: Any, **given: Any
    ) -> tuple[StepResult, dict[str, Array]]:
        tap = _Standing(hooks=hooks)
        bound = dataclasses.replace(variant, tap=tap)
        result = step(params, tokens, state, tables, *span, variant=bound, **given)
        real = span[0][1] if span else jnp.int32(tokens.shape[1] if tokens.ndim > 1 else 1)
        seen = _write(state.seen, tap.captured, result.state.length, real)
        return result._replace(state=result.state._replace(seen=seen)), tap.captured

    return run


def keeping(step: Callable[..., StepResult], variant: Variant, hooks: Hooks) -> Callable[..., StepResult]:
    """Return ``step`` with ``hooks`` in it; what is captured is in the state's ``seen`` only."""
    both = hooked(step, variant, hooks)

    def run(params: Any, tokens: Any, state: KVCache, tables: Any, *span: Any, **given: Any) -> StepResult:
        result: StepResult = both(params, tokens, state, tables, *span, **given)[0]
        return result

    return run


def make_room(
    state: KVCache, hooks: Hooks, *, config: ModelConfig, batch: int, capacity: int, dtype: jnp.dtype
) -> KVCache:
    """Return an empty cache with room for what ``hooks`` capture; without captures it stays as it is."""
    hidden = ((batch, capacity, config.hidden_size), dtype)
    logits = ((batch, capacity, config.vocab_size), jnp.float32)
    room = {name: jnp.zeros(*(logits if name == "logits" else hidden)) for name in hooks.captured}
    return state._replace(seen=room) if room else state


def _write(
    seen: Mapping[str, Float[Array, "B S D"]],
    captured: Mapping[str, Float[Array, "B T D"]],
    end: Int[Array, ""],
    real: Int[Array, ""],
) -> Any:
    """Write what was captured at the ``real`` positions before ``end``; of ``logits`` there is the last one only."""
    if not captured:
        return seen
    return {
        name: lax.dynamic_update_slice_in_dim(
            seen[name], new, end - (jnp.int32(1) if name == "logits" else real), axis=1
        )
        for name, new in captured.items()
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class _Standing:
    """A ``Tap`` for one trace: remembers what it saw, so it is made anew for each."""

    hooks: Hooks
    captured: dict[str, Array] = field(default_factory=dict)
    drained: dict[str, Array] = field(default_factory=dict)

    def __call__(self, point: str, value: Array, layer: int | Array | None = None) -> Array:
        if isinstance(layer, jax.Array):
            return self._scanned(point, value, layer)
        name = point if layer is None else _name(point, layer)
        for hook, names in self.hooks.placed:
            if name in names and hook.change is None:
                self.captured[name] = value
            elif name in names:
                value = _changed(hook, name, value)
        return value

    def drain(self) -> dict[str, Array]:
        out = dict(self.drained)
        self.drained.clear()
        return out

    def keep(self, stacked: Mapping[str, Array]) -> None:
        for point, value_LBTD in stacked.items():
            names = {_name(point, index): index for index in range(value_LBTD.shape[0])}
            self.captured.update(
                {name: value_LBTD[index] for name, index in names.items() if name in self.hooks.captured}
            )

    def _scanned(self, point: str, value: Array, layer: Array) -> Array:
        """Act at all layers in one body: whether this is one of the hook's own is data."""
        for hook, names in self.hooks.placed:
            own = [name for name in names if name.startswith("layers.") and _name(point, _layer(name)) == name]
            if own and hook.change is None:
                self._drain_once(point, value)
            elif own:
                here = jnp.any(jnp.asarray([_layer(name) for name in own], jnp.int32) == layer)
                value = lax.cond(here, lambda x, hook=hook, name=own[0]: _changed(hook, name, x), lambda x: x, value)
        return value

    def _drain_once(self, point: str, value: Array) -> None:
        if point in self.drained and self.drained[point] is not value:
            raise ConfigError(
                f"hooks: {point} is captured before and after a replacement, in layers that are scanned.",
                advice="Capture it in one place, or build with layers='unrolled'.",
            )
        self.drained[point] = value


def _changed(hook: Hook, name: str, value: Array) -> Array:
    assert hook.change is not None
    try:
        new: Any = hook.change(value)
    except Exception as error:
        cause = (str(error).strip().splitlines() or [""])[0]
        raise ConfigError(
            f"the replacement at hook point {name!r} raised {type(error).__name__}: {cause}",
            advice="It is called with one array while JAX traces it, and returns the array that goes on.",
        ) from error
    if not isinstance(new, jax.Array) or (new.shape, new.dtype) != (value.shape, value.dtype):
        seen = f"{new.dtype}{list(new.shape)}" if isinstance(new, jax.Array) else repr(new)
        raise ConfigError(
            f"the replacement at hook point {name!r} returned {seen} for {value.dtype}{list(value.shape)}.",
            advice="Return an array of the activation's shape and dtype.",
        )
    return new


def _is_hook(given: Any) -> bool:
    point, change = getattr(given, "point", None), getattr(given, "change", None)
    return isinstance(given, Hook) and isinstance(point, str) and (change is None or callable(change))


def _name(point: str, layer: int) -> str:
    return point.replace("layers.", f"layers.{layer}.", 1)


def _layer(name: str) -> int:
    return int(name.split(".")[1])
