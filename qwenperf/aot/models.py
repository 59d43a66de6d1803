"""Our models and engines as shapes: the programs of a case, ready to be lowered for a target. Allocates no weight."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax

from qwenperf.aot.engines import backend, settings_for
from qwenperf.aot.sharding import ModelLayout, layout_of
from qwenperf.aot.topology import Target, devices
from qwenperf.decode.build import build_abstract
from qwenperf.decode.ladder_engine import LadderEngine
from qwenperf.decode.plan import Planned
from qwenperf.decode.programs import AheadOfTime, abstract_tokens
from qwenperf.errors import CheckpointError, UnknownNameError
from qwenperf.models.checkpoint import download_snapshot, read_config
from qwenperf.models.config import ModelConfig
from qwenperf.models.parameters import array_dtype, nest, parameter_shapes
from qwenperf.models.registry import Model
from qwenperf.schema.records import Finding, Severity
from qwenperf.workloads.case import Case
from qwenperf.workloads.engine import EngineSettings
from qwenperf.workloads.models import PRESETS


@dataclass(frozen=True, kw_only=True)
class CaseProgram:
    """One program of a case, for one target: the jitted function, and shapes that say where they lie.

    ``weight_bytes`` and ``cache_bytes`` are those of one device.
    """

    jitted: Any
    arguments: tuple[Any, ...]
    tokens_per_call: int
    weight_bytes: int
    cache_bytes: int
    layers: int
    layout: ModelLayout
    options: Mapping[str, str]
    findings: tuple[Finding, ...] = ()


def case_program(case: Case, name: str, target: Target) -> CaseProgram:
    """Return the program ``name`` of ``case`` for ``target``.

    Raises:
      UnknownNameError: no such model, engine or dtype.
      ConfigError: an engine that has no such program, or settings that its model or the target cannot have.
      CheckpointError: a model's folder or file that cannot be read.
      EnvironmentUnfitError: no compiler for the target, or no hub.
    """
    found, work = devices(target), case.workload
    key = _EngineKey(
        model=case.model,
        engine=case.engine,
        dtype=work.dtype,
        capacity=work.prompt_length + work.new_tokens,
        platform=target.platform,
        settings=settings_for(case.engine, target.platform),
        sharded=len(found) > 1,
    )
    engine, findings = _engine(key)
    layout = layout_of(engine.model.config, engine.settings, found, batch=work.batch)
    call, (params, tokens, state, tables, *span) = _call(engine, case, name)
    placed = (layout.weights(params), layout.tokens(tokens), layout.state(state), layout.whole(tables))
    return CaseProgram(
        jitted=call.jitted if isinstance(call, AheadOfTime) else call,
        arguments=(*placed, *map(layout.whole, span)),
        tokens_per_call=math.prod(tokens.shape),
        weight_bytes=part_bytes(placed[0]),
        cache_bytes=part_bytes(placed[2]),
        layers=engine.model.config.num_hidden_layers,
        layout=layout,
        options=_options(engine.settings, target),
        findings=(*findings, *layout.findings),
    )


def part_bytes(tree: Any) -> int:
    """Return the bytes that one device holds of a tree of placed shapes."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * int(leaf.dtype.itemsize) for leaf in jax.tree.leaves(tree)
    )


def _options(settings: EngineSettings, target: Target) -> Mapping[str, str]:
    """Return what the compiler is told that the lowered program does not show."""
    return {"platform": target.platform, "fusion": settings.fusion, "xla_flags": settings.xla_flags}


@dataclass(frozen=True, kw_only=True)
class _EngineKey:
    """What an engine of shapes depends on: targets that agree in this share it, and its programs are traced once."""

    model: str
    engine: str
    dtype: str
    capacity: int
    platform: str
    settings: EngineSettings
    sharded: bool


@cache
def _engine(key: _EngineKey) -> tuple[LadderEngine, tuple[Finding, ...]]:
    settings, findings = key.settings, list[Finding]()
    abstract = abstract_model(key.model, key.dtype)
    if key.sharded and settings.qkv == "stored" and "qkv_proj" in abstract.params["layers"][0]["self_attn"]:
        settings = replace(settings, qkv="separate")
        findings.append(_QKV_SEPARATE)
    if key.sharded and _is_head_major_by_default(settings, key.engine):
        settings = replace(settings, cache_layout="position-major")
        findings.append(_POSITION_MAJOR)
    engine = build_abstract(abstract, settings, capacity=key.capacity, platform=backend(key.platform), name=key.engine)
    return engine, tuple(findings)


_QKV_SEPARATE = Finding(
    code="qkv-separate",
    severity=Severity.NOTE,
    message="the model is stored with q, k and v in one matrix; on several devices they are taken apart, because heads "
    "that are divided over devices would have to be exchanged after each product.",
    advice="Engine setting qkv=fused keeps one matrix.",
)

_POSITION_MAJOR = Finding(
    code="cache-position-major",
    severity=Severity.NOTE,
    message="on several devices the cache has positions before heads; head-major, the default on one, has rows and "
    "heads on one axis, and what divides that exchanges keys and values in each layer of a prefill.",
    advice="Engine setting cache_layout=head-major keeps it.",
)


def _is_head_major_by_default(settings: EngineSettings, engine: str) -> bool:
    """Say whether a static cache is head-major because nobody asked for anything else."""
    asked = any(part.startswith("cache_layout=") for part in engine.split("+"))
    return settings.cache == "static" and settings.cache_layout == "head-major" and not asked


def abstract_model(name: str, dtype: str) -> Model:
    """Return the model called ``name``, its weights as shapes; errors as ``case_program``."""
    config = model_config(name)
    kind = array_dtype(dtype)
    params = nest({path: jax.ShapeDtypeStruct(shape, kind) for path, shape in parameter_shapes(config).items()})
    return Model(name=name, config=config, params=params, dtype=dtype, source="shapes")


def model_config(name: str) -> ModelConfig:
    """Return the configuration of a preset, a folder, a GGUF file or a hub id; reads no weights."""
    path = Path(name).expanduser()
    if name in PRESETS:
        return ModelConfig.from_hf(PRESETS[name], source=f"preset {name}")
    if path.is_file():
        from qwenperf.models.gguf_config import gguf_config
        from qwenperf.models.gguf_file import GgufFile

        return gguf_config(GgufFile(path))
    if path.is_dir():
        return read_config(path)[0]
    if name.startswith((".", "/", "~")) or path.suffix == ".gguf":
        raise CheckpointError(f"{name}: no such folder or file.")
    if name.count("/") != 1:
        raise UnknownNameError("model", name, PRESETS)
    return read_config(download_snapshot(name, config_only=True))[0]


def _call(engine: LadderEngine, case: Case, name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the function behind the program ``name``, and the shapes of its arguments."""
    work = case.workload
    if engine.settings.ahead_of_time:
        planned = _named(engine.plan(work.batch, work.prompt_length, work.new_tokens), name)
        return planned.call, planned.arguments
    # What is compiled when it is called: the first step is as good as any, they differ in length alone.
    calls, state = engine.calls, jax.eval_shape(partial(engine.calls.empty, work.batch))
    prefill = (engine.params, abstract_tokens(work.batch, work.prompt_length), state, engine.tables)
    if name == "prefill":
        return calls.prefill, prefill
    state = jax.eval_shape(calls.prefill, *prefill).state
    return calls.decode_step, (engine.params, abstract_tokens(work.batch), state, engine.tables)


def _named(planned: Sequence[Planned], name: str) -> Planned:
    """Return the first program of that name: where a prompt is read in chunks, the first chunk's."""
    return next(one for one in planned if one.name == name)
