import re

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.engine import (
    CompiledEngine,
    Engine,
    ReferencedEngine,
    SizedEngine,
    StepEngine,
    StreamingEngine,
)
from qwenperf.workloads.engine import RUNGS, EngineSettings

CACHE_BYTES = 2 * 2 * 1 * 2 * 16 * 16 * 4
"""Keys and values of 2 layers, batch 1, 2 kv heads, 16 positions of 16 f32."""
LENGTH_BYTES = 4


@pytest.fixture(scope="module")
def programs(engine):
    return engine("cached").programs(1, 7, 5)


def _moved(program):
    """Lines of the program that copy or transpose an array of the cache's size."""
    shape = re.escape(program.cache_shapes[0])
    return re.findall(rf"= {shape}\S* (?:copy|transpose)\(.*", program.compiled.as_text())


@pytest.mark.parametrize(
    "protocol", [Engine, StepEngine, StreamingEngine, ReferencedEngine, CompiledEngine, SizedEngine]
)
def test_a_reference_engine_offers_everything(protocol, engine):
    """Every gate can look."""
    assert isinstance(engine("cached"), protocol)


def test_the_cached_engine_has_three_programs(programs):
    """The step is there for streams and teacher forcing, beside the loop."""
    assert set(programs) == {"prefill", "decode_step", "generate"}
    assert "HloModule jit_decode_step" in programs["decode_step"].compiled.as_text()


@pytest.mark.parametrize("rung", ["eager", "naive", "cached-concat"])
def test_rungs_without_ahead_of_time_programs_show_none(rung, engine):
    """Nothing is compiled just to be looked at."""
    assert engine(rung).programs(1, 7, 5) == {}


@pytest.mark.parametrize("name", ["prefill", "decode_step", "generate"])
def test_the_donated_state_is_aliased_to_the_byte(name, programs):
    """The compiler granted what was asked for, and the arguments carry the names that the program has them under."""
    program = programs[name]
    assert program.donated == (
        "state.layers[0].keys",
        "state.layers[0].values",
        "state.layers[1].keys",
        "state.layers[1].values",
        "state.length",
    )
    assert program.donated_bytes == CACHE_BYTES + LENGTH_BYTES
    assert program.compiled.memory_analysis().alias_size_in_bytes == program.donated_bytes


@pytest.mark.parametrize("name", ["decode_step", "generate"])
@pytest.mark.parametrize("batch", [1, 3])
def test_no_step_copies_the_cache(name, batch, engine, program_of):
    """Neither a single step nor the body of the loop, at batch 1 as at batch 3."""
    program = program_of(engine("cached"), name, batch, 7, 5)
    assert program.cache_shapes == (f"f32[{2 * batch},16,16]",)
    assert _moved(program) == []


def test_without_donation_nothing_is_aliased_and_every_array_is_copied(model, program_of):
    """What the alias gate must see when donation is lost."""
    engine = build_engine(model, EngineSettings(donate=False), capacity=16)
    program = program_of(engine, "decode_step", 1, 7, 5)
    assert program.donated == ()
    assert program.compiled.memory_analysis().alias_size_in_bytes == 0
    assert len(_moved(program)) == 4


def test_a_weight_is_not_moved_in_a_step(programs):
    """[out, in] weights are contracted where they lie."""
    text = programs["decode_step"].compiled.as_text()
    assert not re.findall(r"= f32\[(?:256,64|64,256|128,64|64,128|64,64|32,64|64,32)\]\S* (?:copy|transpose)\(", text)


@pytest.mark.parametrize(("rotary", "sines"), [("tables", False), ("recomputed", True)])
def test_sines_are_in_the_step_only_where_rotary_is_recomputed(rotary, sines, model, program_of):
    """In the compiled text as in StableHLO."""
    engine = build_engine(model, EngineSettings(rotary=rotary), capacity=16)
    program = program_of(engine, "decode_step", 1, 7, 5)
    for name in ("sine", "cosine"):
        assert (f" {name}(" in program.compiled.as_text()) is sines
        assert (f"stablehlo.{name}" in program.lowered_text) is sines


def test_a_step_consumes_the_state_it_was_given(engine, prompt):
    """The old cache is gone: there is one cache, not two."""
    cached = engine("cached")
    _, state = cached.prefill(prompt(1, 7))
    _, after = cached.decode_step(np.zeros(1, np.int32), state)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(state.device))
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(after.device))


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung != "eager"])
def test_the_second_of_two_equal_requests_compiles_nothing(rung, engine, prompt):
    """Not even where each length has a program of its own; and no request compiles outside its own functions."""
    engine(rung).generate(prompt(3, 7), 3)
    compiled = []

    def listen(event, _seconds, **details):
        if event.endswith("backend_compile_duration"):
            compiled.append(details.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        engine(rung).generate(prompt(3, 7, seed=1), 3)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []


def test_a_first_request_compiles_its_programs_by_name_and_nothing_else(model, prompt):
    """State, prefill, the loop and the emptying; nothing nameless, nothing for another number of new tokens."""
    compiled = []

    def listen(event, _seconds, **details):
        if event.endswith("backend_compile_duration"):
            compiled.append(details.get("fun_name"))

    engine = build_engine(model, "cached", capacity=12)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        engine.compile(1, 5, 4)
        engine.generate(prompt(1, 5), 4)
        engine.generate(prompt(1, 5), 7)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    names = sorted(re.sub(r"^jit\((.*)\)$", r"\1", name) for name in compiled)
    assert names == ["clear", "decode_step", "generate", "new_cache", "prefill"]
