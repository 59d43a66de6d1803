"""The one way to make a reference engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax

from qwenperf.decode.bounds import check_capacity
from qwenperf.decode.hooks import Hook, Hooks, capture, hooks_of, place_hooks
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.process import check_process
from qwenperf.decode.reading import in_pieces
from qwenperf.decode.rung import make_calls, steps_of
from qwenperf.decode.start import Shapes, check_start, make_ready, path_of, shapes_of
from qwenperf.decode.state import StepFunction
from qwenperf.decode.tables import make_step_tables
from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.layout import prepare
from qwenperf.models.registry import Model
from qwenperf.workloads.engine import EngineSettings, engine_name, parse_engine
from qwenperf.workloads.setting import NOT_BUILT


def build_engine(
    model: Model,
    settings: EngineSettings | str,
    *,
    capacity: int | None = None,
    name: str | None = None,
    prefill: StepFunction | None = None,
    step: StepFunction | None = None,
    declare: Shapes = (),
    executables: Path | str | None = None,
    hooks: Hook | Iterable[Hook] = (),
) -> LadderEngine:
    """Return an engine for ``model``; nothing is compiled before its first request, unless ``start`` says so.

    Args:
      model: configuration and weights.
      settings: an engine's name (see ``workloads.engine``), or settings of your own.
      capacity: positions (prompt and new tokens) that a request may need at most.
      name: what tables call the engine; the rung's name by default.
      prefill: a pure function to use instead of the settings' own (see ``state.StepFunction``).
      step: the same for the decode step.
      declare: shapes of requests to be ready for, where ``start`` is ``declared`` or ``saved``.
      executables: the file with their programs, where ``start`` is ``saved``; see ``start.save_executables``. Loading
        it runs what is in it: give only files of your own.
      hooks: what to capture or replace inside the steps of a static cache, see ``hooks``; the setting of that name
        adds a capture of every layer's output.

    Raises:
      UnknownNameError: no such rung, setting or hook point.
      ConfigError: a capacity that the model does not have, settings that exclude each other, or one that JAX, having
        started, cannot honour any more.
      ExecutablesError: saved programs that are not of this engine, code and machine.
    """
    chosen = _chosen(settings)
    check_process(chosen)
    positions = check_capacity(capacity, model.config.max_position_embeddings)
    _check_prefill(chosen, prefill)
    shapes = shapes_of(declare, "declare")
    path = None if executables is None else path_of(executables, "executables")
    check_start(chosen.start, shapes, path)
    steps = steps_of(chosen, _hooks(chosen, hooks, model.config, own_steps=prefill is not None or step is not None))
    steps = replace(steps, prefill=prefill or steps.prefill, decode_step=step or steps.decode_step)
    dtype = model.params["norm"]["weight"].dtype  # is never quantised
    engine = LadderEngine(
        name=name or engine_name(chosen),
        model=model,
        params=prepare(model.params, model.config, chosen),
        settings=chosen,
        capacity=positions,
        tables=make_step_tables(model.config, positions, chosen),
        calls=make_calls(chosen, steps, model.config, positions, dtype),
    )
    make_ready(engine, shapes, path)
    return engine


def build_abstract(
    model: Model, settings: EngineSettings | str, *, capacity: int, platform: str, name: str | None = None
) -> LadderEngine:
    """Return an engine of shapes: its programs can be lowered for ``platform``, and it can run none.

    ``model.params`` are shapes too. Settings of the process and of where programs come from (``xla_flags``,
    ``compile_cache``, ``start``) are left to whoever compiles.

    Raises:
      UnknownNameError: no such rung, setting or value.
      ConfigError: a capacity that the model does not have, or settings that exclude each other or the model.
    """
    chosen, config = _chosen(settings), model.config
    positions = check_capacity(capacity, config.max_position_embeddings)
    steps = steps_of(chosen, _hooks(chosen, (), config, own_steps=False))
    dtype = model.params["norm"]["weight"].dtype  # is never quantised
    return LadderEngine(
        name=name or engine_name(chosen),
        model=model,
        params=jax.eval_shape(partial(prepare, config=config, settings=chosen), model.params),
        settings=chosen,
        capacity=positions,
        tables=jax.eval_shape(partial(make_step_tables, config, positions, chosen)),
        calls=make_calls(chosen, steps, config, positions, dtype, platform=platform),
    )


def _chosen(settings: EngineSettings | str) -> EngineSettings:
    chosen = parse_engine(settings) if isinstance(settings, str) else settings
    _check_built(chosen)
    return chosen


def _hooks(settings: EngineSettings, hooks: Hook | Iterable[Hook], config: ModelConfig, *, own_steps: bool) -> Hooks:
    named = [capture("layers.*.output")] if settings.hooks == "capture" else []
    placed = place_hooks([*named, *hooks_of(hooks)], config)
    if placed.placed and settings.cache != "static":
        raise ConfigError(f"hooks need cache='static'; this engine has cache={settings.cache!r}.")
    if placed.placed and own_steps:
        raise ConfigError("hooks with a prefill or step of your own would not be in it.", advice="Leave out one.")
    return placed


def _check_prefill(settings: EngineSettings, prefill: StepFunction | None) -> None:
    if prefill is not None and in_pieces(settings):
        name = "prefill_chunk" if settings.prefill_chunk else "bucket"
        raise ConfigError(
            f"engine setting {name}={getattr(settings, name)} with a prefill of your own: it is not told which tokens "
            "are padding.",
            advice="Leave out one of them.",
        )


def _check_built(settings: EngineSettings) -> None:
    for name in NOT_BUILT:
        value = getattr(settings, name)
        if value != getattr(EngineSettings(), name):
            raise ConfigError(f"engine setting {name}={value!r} is not built yet.")
