"""From settings to functions: which prefill and step a rung has, what state it starts from, how they are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from qwenperf.decode import prefill, step, uncached
from qwenperf.decode.cache import allocate
from qwenperf.decode.hooks import NO_HOOKS, Hooks, keeping, make_room
from qwenperf.decode.loop import generate
from qwenperf.decode.programs import NewState, compile_ahead, compile_on_call, compile_options, named
from qwenperf.decode.reading import in_pieces
from qwenperf.decode.reuse import Clear, make_clear
from qwenperf.decode.state import KVCache, StepFunction, TokenBuffer
from qwenperf.decode.static_position import at_positions, before_positions
from qwenperf.models.config import ModelConfig
from qwenperf.models.variant import variant_of
from qwenperf.workloads.engine import EngineSettings


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The two pure functions that a rung is made of, and the hooks that are in them."""

    prefill: StepFunction
    decode_step: StepFunction
    hooks: Hooks = NO_HOOKS


_STEPS: dict[tuple[str, str], Steps] = {
    ("none", "growing"): Steps(prefill=uncached.prefill_sequence, decode_step=uncached.step_sequence),
    ("none", "padded"): Steps(prefill=uncached.prefill_buffer, decode_step=uncached.step_buffer),
    ("concat", "growing"): Steps(prefill=step.prefill_growing, decode_step=step.decode_step_growing),
    ("static", "padded"): Steps(prefill=step.prefill, decode_step=step.decode_step),
}


@dataclass(frozen=True, kw_only=True)
class Calls:
    """A rung's functions, ready to be called; ``generate`` where the loop is on the device.

    ``empty`` is the pure function behind ``new_state``, for those who want to know a state's shapes. ``clear`` is
    there where the next request gets the last one's arrays, see ``reuse``. ``in_pieces`` says that ``prefill`` takes
    a span.
    """

    empty: Callable[[int], Any]
    new_state: Callable[[int], Any]
    prefill: Callable[..., Any]
    decode_step: Callable[..., Any]
    generate: Callable[..., Any] | None
    clear: Clear | None = None
    in_pieces: bool = False
    hooks: Hooks = NO_HOOKS


def steps_of(settings: EngineSettings, hooks: Hooks = NO_HOOKS) -> Steps:
    """Return the prefill and step of ``settings``; a prefill in pieces takes a span as well, see ``prefill``."""
    plain = _STEPS[settings.cache, settings.shape]
    variant = variant_of(settings)
    read: Callable[..., Any] = plain.prefill
    if in_pieces(settings):
        read = prefill.prefill_chunk if settings.prefill_chunk else prefill.prefill_padded
    bound = partial(keeping, variant=variant, hooks=hooks) if hooks.placed else partial(partial, variant=variant)
    return Steps(prefill=bound(read), decode_step=bound(plain.decode_step), hooks=hooks)


def make_calls(
    settings: EngineSettings, steps: Steps, config: ModelConfig, capacity: int, dtype: Any, *, platform: str = ""
) -> Calls:
    """Return the functions of a rung, run as ``settings`` say on ``platform`` (JAX's own); nothing is compiled yet."""
    options = compile_options(settings, platform)

    def ready(name: str, function: Callable[..., Any], **bound: Any) -> Callable[..., Any]:
        call = named(name, function, config=config, **bound)
        if settings.ahead_of_time:
            return compile_ahead(call, donate=settings.donate, options=options)
        if settings.position == "static":
            place = before_positions if name == "prefill" else at_positions
            return place(call, donate=settings.donate, options=options)
        return compile_on_call(call, options=options) if settings.jit else call

    loop = partial(ready, "generate", generate, step=steps.decode_step, capacity=capacity)
    empty = _state_maker(settings, steps.hooks, config, capacity, dtype, platform=platform or jax.default_backend())
    return Calls(
        empty=empty,
        new_state=NewState(make=empty) if settings.jit and settings.shape == "padded" else empty,
        prefill=ready("prefill", steps.prefill),
        decode_step=ready("decode_step", steps.decode_step),
        generate=loop() if settings.loop == "device" else None,
        clear=make_clear(settings),
        in_pieces=in_pieces(settings),
        hooks=steps.hooks,
    )


def _state_maker(
    settings: EngineSettings, hooks: Hooks, config: ModelConfig, capacity: int, dtype: Any, *, platform: str
) -> Callable[[int], Any]:
    def new_cache(batch: int) -> KVCache:
        cache = allocate(config, batch, capacity, dtype, settings, platform=platform)
        return make_room(cache, hooks, config=config, batch=batch, capacity=capacity, dtype=dtype)

    def new_buffer(batch: int) -> TokenBuffer:
        return TokenBuffer(tokens=jnp.zeros((batch, capacity), jnp.int32), length=jnp.int32(0))

    def nothing(_batch: int) -> None:
        return None

    if settings.shape == "growing":
        return nothing
    return new_cache if settings.cache == "static" else new_buffer
