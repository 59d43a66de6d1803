import pytest

from qwenperf.gate import shapes
from qwenperf.gate.budget import parse
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.schema.records import CompileCause, CompileEvent, Outcome, metric

NONE = CaseBudget()


def growing(step, function="decode_step", **changes):
    cause = CompileCause(
        argument="cache.k[0]", what="shape", before=f"f32[1,2,{step},64]", after=f"f32[1,2,{step + 1},64]"
    )
    return CompileEvent(
        **{"function": function, "phase": "steady", "seconds": 0.2, "location": "app.py:42", "causes": (cause,)}
        | changes
    )


def test_no_compile_after_warm_up_passes(make_case):
    """Compiles before are welcome, and counted in the message."""
    verdict = shapes.judge(make_case(), NONE)
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary == "no programs compiled after warm-up (1 before)"


def test_a_growing_cache_names_function_argument_shapes_and_line(make_case):
    """The first line is enough to find the bug."""
    events = tuple(growing(step) for step in range(17, 32))
    case = make_case(evidence={"compiles": events}, metrics={"compiles_steady": metric("compiles_steady", 15)})
    verdict = shapes.judge(case, NONE)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == (
        "decode_step compiled 15 times after warm-up: argument `cache.k[0]` changed shape "
        "f32[1,2,17,64] -> f32[1,2,18,64], called from app.py:42"
    )
    assert verdict.detail[0] == "decode_step: 15 in 3.00 s, called from app.py:42"
    assert verdict.detail[-1] == "  and 10 more"
    assert "buckets" in verdict.advice
    assert verdict.data["functions"] == {"decode_step": 15}


def test_each_function_is_counted_on_its_own(make_case):
    """An unrelated compile does not hide in a sum."""
    case = make_case(evidence={"compiles": (growing(1), growing(2), growing(9, function="sample"))})
    verdict = shapes.judge(case, NONE)
    assert verdict.summary.startswith("decode_step compiled 2 times")
    assert verdict.summary.endswith("; and 1 more function")
    assert any(line.startswith("sample: 1 in") for line in verdict.detail)


@pytest.mark.parametrize(
    ("what", "advice"), [("dtype", "Cast it once"), ("weak_type", "weakly typed"), ("sharding", "device_put")]
)
def test_the_advice_fits_what_changed(make_case, what, advice):
    """A dtype is not fixed by padding."""
    cause = CompileCause(argument="tokens", what=what, before="int32", after="int64")
    verdict = shapes.judge(make_case(evidence={"compiles": (growing(1, causes=(cause,)),)}), NONE)
    assert f"argument `tokens` changed {what.replace('_', ' ')} int32 -> int64" in verdict.summary
    assert advice in verdict.advice


def test_a_refused_call_is_the_same_failure(make_case):
    """An ahead-of-time program that refuses an argument would have been a recompile."""
    case = make_case(evidence={"compiles": (growing(8, refused=True),)})
    verdict = shapes.judge(case, NONE)
    assert verdict.outcome is Outcome.FAIL
    told = "decode_step was called 1 time after warm-up with arguments that its compiled program refuses"
    assert verdict.summary.startswith(told)
    assert "f32[1,2,8,64] -> f32[1,2,9,64]" in verdict.summary


def test_a_call_refused_outside_the_steady_phase_says_where(make_case):
    """Whenever it happens, the engine cannot serve that shape."""
    verdict = shapes.judge(make_case(evidence={"compiles": (growing(8, refused=True, phase="check"),)}), NONE)
    assert verdict.outcome is Outcome.FAIL
    assert "in phase check with arguments" in verdict.summary


def test_compiles_of_the_check_do_not_count(make_case):
    """Looking at an engine is no service."""
    case = make_case(evidence={"compiles": (growing(8, phase="check"),)})
    assert shapes.judge(case, NONE).summary == "no programs compiled after warm-up"


def test_a_program_from_the_persistent_cache_was_new_all_the_same(make_case):
    """A warm cache on disk does not make shapes stable."""
    verdict = shapes.judge(make_case(evidence={"compiles": (growing(8, cache_hit=True),)}), NONE)
    assert verdict.outcome is Outcome.FAIL
    assert "was loaded from the persistent cache 1 time after warm-up" in verdict.summary


def test_without_a_cause_the_explanation_is_shown(make_case):
    """JAX's own words are better than none."""
    event = growing(1, causes=(), explanation="never seen function", location="")
    verdict = shapes.judge(make_case(evidence={"compiles": (event,)}), NONE)
    assert verdict.summary == "decode_step compiled 1 time after warm-up"
    assert "  never seen function" in verdict.detail
    assert "a jit built anew" in verdict.advice


def test_a_count_without_events_fails_too(make_case):
    """What was counted is believed even when nobody can say which it was."""
    case = make_case(metrics={"compiles_steady": metric("compiles_steady", 4)}, evidence={"compiles": ()})
    verdict = shapes.judge(case, NONE)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary.startswith("4 programs")


def test_an_allowance_is_kept_and_not_exceeded(make_case):
    """A declared number of compiles passes, one more fails and says what was allowed."""
    case = make_case(evidence={"compiles": (growing(1), growing(2))})
    for allowed, outcome in ((2, Outcome.PASS), (1, Outcome.FAIL)):
        budget = parse({"*": {"compiles_steady": {"max": allowed}}}).for_case(case.id, "any")
        assert shapes.judge(case, budget).outcome is outcome
    assert shapes.judge(case, budget).summary.endswith("(1 allowed)")


def test_uncounted_compiles_are_never_a_pass(make_case):
    """No counter, no verdict."""
    case = make_case(metrics={})
    case.metrics.pop("compiles_steady")
    verdict = shapes.judge(case, NONE)
    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.advice
