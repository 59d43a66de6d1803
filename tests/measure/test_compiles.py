"""Compiles are counted, placed and explained."""

import logging
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import RefusedCallError
from qwenperf.measure.compile_words import describe
from qwenperf.measure.compiles import CompileLog
from qwenperf.schema.records import CompileCause

ONES = {size: np.ones(size, np.float32) for size in range(1, 10)}


def fresh_step():
    @jax.jit
    def step(x, cache):
        return x * 2, cache["k"][0] * 2

    return step


def test_a_compile_is_counted_once_with_function_phase_and_the_callers_line():
    step = fresh_step()
    with CompileLog() as log:
        step(ONES[4], {"k": [ONES[4]]})
        step(ONES[4], {"k": [ONES[4]]})
    assert [(event.function, event.phase, event.cache_hit) for event in log.events] == [("step", "cold", False)]
    assert log.count() == log.count("cold") == log.count(function="step") == 1
    assert log.count("steady") == log.cache_hits() == 0
    assert log.seconds() > 0
    assert Path(log.events[0].location.rsplit(":", 1)[0]).name == "test_compiles.py"
    line = int(log.events[0].location.rsplit(":", 1)[1])
    assert "step(ONES[4]" in Path(__file__).read_text().splitlines()[line - 1]


def test_nothing_is_counted_before_entry_or_after_exit():
    step = fresh_step()
    step(ONES[1], {"k": [ONES[1]]})
    with CompileLog() as log:
        pass
    step(ONES[2], {"k": [ONES[2]]})
    assert log.events == ()


def test_opening_a_log_recompiles_nothing():
    step = fresh_step()
    step(ONES[3], {"k": [ONES[3]]})
    with CompileLog() as log:
        step(ONES[3], {"k": [ONES[3]]})
    step(ONES[3], {"k": [ONES[3]]})
    assert log.events == ()


def test_phases_nest_and_the_outer_one_comes_back():
    step = fresh_step()
    with CompileLog() as log:
        with log.phase("warmup"):
            step(ONES[1], {"k": [ONES[1]]})
            with log.phase("steady"):
                step(ONES[2], {"k": [ONES[2]]})
        assert log.current_phase == "cold"
    assert [event.phase for event in log.events] == ["warmup", "steady"]


@pytest.mark.parametrize(
    ("second", "cause"),
    [
        (
            (ONES[4], {"k": [ONES[1]]}),
            CompileCause(argument="cache['k'][0]", what="shape", before="f32[4]", after="f32[1]"),
        ),
        (
            (np.ones(4, np.int32), {"k": [ONES[4]]}),
            CompileCause(argument="x", what="dtype", before="f32", after="i32"),
        ),
        ((1.0, {"k": [ONES[4]]}), CompileCause(argument="x", what="weak_type", before="False", after="True")),
    ],
    ids=["shape", "dtype", "weak_type"],
)
@pytest.mark.parametrize("watched", [False, True])
def test_a_recompile_names_the_argument_and_what_changed(second, cause, watched):
    step = fresh_step()
    with CompileLog(explain=not watched) as log:
        called = log.watch(step) if watched else step
        called(ONES[4], {"k": [ONES[4]]})
        with log.phase("steady"):
            called(*second)
    event = log.events[-1]
    assert cause in event.causes
    assert (event.function, event.phase) == ("step", "steady")
    assert f"{cause.argument} {cause.what} {cause.before} -> {cause.after}" in describe(event)


@pytest.mark.parametrize("watched", [False, True])
def test_a_growing_argument_is_told_step_by_step(watched):
    step = fresh_step()
    with CompileLog(explain=not watched) as log:
        called = log.watch(step) if watched else step
        for size in (4, 5, 6, 7):
            called(ONES[4], {"k": [ONES[size]]})
    told = [(cause.before, cause.after) for event in log.events for cause in event.causes if cause.what == "shape"]
    assert told == [("f32[4]", "f32[5]"), ("f32[5]", "f32[6]"), ("f32[6]", "f32[7]")]


def test_another_function_of_the_same_name_starts_afresh():
    with CompileLog() as log:
        for sizes in ((4, 5), (7, 8)):
            step = fresh_step()
            for size in sizes:
                step(ONES[4], {"k": [ONES[size]]})
    assert (log.events[-1].causes[0].before, log.events[-1].causes[0].after) == ("f32[7]", "f32[8]")


def test_a_watched_call_and_the_explanation_do_not_repeat_each_other():
    step = fresh_step()
    with CompileLog() as log:
        called = log.watch(step)
        called(ONES[4], {"k": [ONES[4]]})
        called(ONES[4], {"k": [ONES[1]]})
    assert [(cause.argument, cause.what) for cause in log.events[-1].causes] == [("cache['k'][0]", "shape")]
    assert log.events[-1].extra["within"] == "step"


def test_a_static_argument_that_changed_is_named_by_the_ledger():
    function = jax.jit(lambda x, n: x * n, static_argnums=1)
    with CompileLog() as log:
        called = log.watch(function, "scale")
        called(ONES[4], 2)
        called(ONES[4], 3)
    assert any(cause.argument == "n" for cause in log.events[-1].causes)


def test_a_function_made_anew_for_each_call_is_a_cause_of_its_own():
    with CompileLog() as log:
        for _ in range(2):
            jax.jit(lambda x: x - 2)(ONES[7])
    assert log.count() == 2
    assert all(event.causes[0].what == "new" for event in log.events)
    assert "re-defined repeatedly" in log.events[1].explanation
    assert "never seen before defined at" in describe(log.events[1])


def test_two_logs_at_once_hear_the_same_and_close_in_any_order():
    step = fresh_step()
    outer, inner = CompileLog(), CompileLog(phase="warmup")
    outer.__enter__()
    inner.__enter__()
    step(ONES[4], {"k": [ONES[4]]})
    outer.__exit__(None, None, None)
    step(ONES[5], {"k": [ONES[5]]})
    inner.__exit__(None, None, None)
    step(ONES[6], {"k": [ONES[6]]})
    assert [event.phase for event in outer.events] == ["cold"]
    assert [event.phase for event in inner.events] == ["warmup", "warmup"]
    assert {cause.argument for cause in inner.events[1].causes} == {"x", "cache['k'][0]"}


def test_one_log_cannot_be_opened_twice():
    with CompileLog() as log, pytest.raises(RuntimeError, match="open already"):
        log.__enter__()


def test_compiles_of_two_threads_keep_their_own_explanations():
    steps = [fresh_step(), fresh_step()]
    ready = threading.Barrier(2)

    def work(step, size):
        for length in (size, size + 1):
            ready.wait()
            step(ONES[length], {"k": [ONES[length]]})

    with CompileLog() as log:
        threads = [threading.Thread(target=work, args=(steps[i], 2 + 4 * i)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    befores = {(cause.before, cause.after) for event in log.events for cause in event.causes if cause.what == "shape"}
    assert log.count() == 4
    assert befores == {("f32[2]", "f32[3]"), ("f32[6]", "f32[7]")}


def test_explanations_are_heard_but_shown_to_nobody_and_jax_is_left_as_it_was(capfd, caplog):
    logger = logging.getLogger("jax")
    before = (list(logger.handlers), logger.propagate, jax.config.jax_explain_cache_misses)
    step = fresh_step()
    with CompileLog() as log, caplog.at_level(logging.WARNING):
        step(ONES[8], {"k": [ONES[8]]})
        logging.getLogger("jax._src.other").warning("a warning of JAX about something else")
    assert log.events[0].explanation.startswith("TRACING CACHE MISS")
    assert "CACHE MISS" not in caplog.text
    assert "something else" in caplog.text
    assert "CACHE MISS" not in capfd.readouterr().err
    assert before == (list(logger.handlers), logger.propagate, jax.config.jax_explain_cache_misses)


def test_somebody_who_asked_for_explanations_still_sees_them(caplog):
    jax.config.update("jax_explain_cache_misses", True)
    try:
        with CompileLog() as log:
            fresh_step()(ONES[8], {"k": [ONES[8]]})
        assert jax.config.jax_explain_cache_misses
    finally:
        jax.config.update("jax_explain_cache_misses", False)
    assert "CACHE MISS" in caplog.text
    assert log.events[0].explanation


def test_jax_is_left_as_it_was_when_the_measured_code_fails():
    before = (list(logging.getLogger("jax").handlers), jax.config.jax_explain_cache_misses)
    with pytest.raises(ZeroDivisionError), CompileLog():
        raise ZeroDivisionError
    assert before == (list(logging.getLogger("jax").handlers), jax.config.jax_explain_cache_misses)


def test_listeners_cleared_by_somebody_else_do_not_break_the_exit():
    with CompileLog():
        jax.monitoring.clear_event_listeners()


def test_a_call_that_an_ahead_of_time_executable_refuses_is_evidence_like_a_compile():
    compiled = fresh_step().lower(ONES[4], {"k": [ONES[4]]}).compile()
    with CompileLog(phase="steady") as log, pytest.raises(RefusedCallError, match=r"cache\['k'\]\[0\] shape") as raised:
        log.watch(compiled, "decode_step")(ONES[4], {"k": [ONES[5]]})
    event = log.events[-1]
    assert (event.function, event.refused, event.phase) == ("decode_step", True, "steady")
    assert event.causes == (CompileCause(argument="cache['k'][0]", what="shape", before="f32[4]", after="f32[5]"),)
    assert "test_compiles.py:" in event.location
    assert log.count() == 0
    assert isinstance(raised.value.__cause__, TypeError)


def test_a_refused_tree_is_evidence_too():
    compiled = fresh_step().lower(ONES[4], {"k": [ONES[4]]}).compile()
    with CompileLog() as log, pytest.raises(RefusedCallError), log.refusals():
        compiled(ONES[4], {"k": [ONES[4], ONES[4]]})
    assert log.events[-1].causes[0].what == "structure"
    assert log.events[-1].causes[0].argument == "args[1]['k']"
    assert "test_a_refused_tree" in log.events[-1].function


def test_any_other_type_error_passes_through():
    with CompileLog() as log, pytest.raises(TypeError, match="unsupported operand"), log.refusals():
        _ = 1 + "a"
    assert log.events == ()


SHARDED = """
    import jax, jax.numpy as jnp
    from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
    from qwenperf.errors import RefusedCallError
    from qwenperf.measure.compiles import CompileLog
    mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
    one, two = (jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, spec)) for spec in (P("x"), P(None, "x")))
    step = jax.jit(lambda cache: cache + 1)
    with CompileLog() as log:
        called = log.watch(step, "step")
        called(one)
        called(two)
        for cause in log.events[-1].causes: print(cause.argument, cause.what, cause.before, cause.after, sep="|")
        try:
            log.watch(step.lower(one).compile(), "aot")(two)
        except RefusedCallError as error:
            print(log.events[-1].causes[0].argument, log.events[-1].causes[0].what, log.events[-1].refused, sep="|")
"""

CACHED = """
    import sys, jax, numpy as np
    from qwenperf.measure.compiles import CompileLog
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    @jax.jit
    def step(x):
        return x * 3 + 1
    with CompileLog() as log:
        step(np.ones(int(sys.argv[2]), np.float32))
        step(np.ones(9, np.float32))
    print([(e.function, e.cache_hit, "saved_s" in e.extra) for e in log.events], log.count(), log.cache_hits())
    print(log.seconds() == sum(e.seconds for e in log.events if not e.cache_hit))
"""


def child(code, *arguments, **environment):
    """Run ``code`` in a fresh process; return its standard output and error."""
    import os

    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", textwrap.dedent(code), *arguments],
        env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_sharding_that_changed_is_named_for_a_recompile_and_for_a_refusal():
    out, _ = child(SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=2")
    recompile, refusal = out.splitlines()
    assert re.match(r"cache\|sharding\|.*'x'.*\|.*None, 'x'", recompile)
    assert refusal == "cache|sharding|True"


def test_programs_from_the_persistent_cache_are_counted_apart_in_a_second_process(tmp_path):
    first, noise = child(CACHED, str(tmp_path), "4")
    second, more_noise = child(CACHED, str(tmp_path), "5")
    assert first.splitlines() == ["[('step', False, False), ('step', False, False)] 2 0", "True"]
    assert second.splitlines() == ["[('step', False, False), ('step', True, True)] 1 1", "True"]
    assert noise == more_noise == ""


def test_eager_operations_are_named_and_placed_too():
    with CompileLog() as log:
        jnp.ones((3, 11, 5)) * 2
    assert "broadcast_in_dim" in {event.function for event in log.events}
    assert all("test_compiles.py:" in event.location for event in log.events)


def test_a_compile_of_another_thread_counts_and_names_it():
    """A phase is a time: what compiles beside a timed call disturbs it, whoever asked for it."""
    with CompileLog(phase="steady") as log:
        worker = threading.Thread(target=lambda: jax.jit(lambda x: x * 5 - 2)(np.zeros(3, np.float32)), name="beside")
        worker.start()
        worker.join()
    assert log.count("steady") == 1
    assert log.events[0].extra["thread"] == "beside"
