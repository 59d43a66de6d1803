"""What a loop contains counts as often as the loop runs."""

from qwenperf.program import hlo, loops

GO = """\
%go (p: (s32[], f32[4])) -> pred[] {
  %p.9 = (s32[], f32[4]{0}) parameter(0)
  ROOT %more = pred[] constant(true)
}"""
LINES = ("%a = (s32[], f32[4]{0}) parameter(0)",)


def nested(texts, outer, inner):
    """Make a loop in a loop."""
    body = texts.computation(
        "outer",
        "%p = (s32[], f32[4]{0}) parameter(0)",
        texts.loop(inner, "inner").replace("%state", "%p").replace("%loop", "ROOT %loop.2"),
    )
    deep = texts.computation("inner", "ROOT %p = (s32[], f32[4]{0}) parameter(0)")
    return texts.parsed(*LINES, texts.loop(outer, "outer").replace("%state", "%a"), computations=(body, deep, GO))


def test_bodies_run_as_often_as_their_loops_and_loops_within_loops_multiply(texts):
    schedule = loops.schedule(nested(texts, 3, 24))
    assert schedule.runs == {"main.1": 1, "outer": 3, "inner": 72, "go": 3 + 1 + 3 * 25}
    assert schedule.unknown == ()


def test_a_loop_of_unknown_length_is_counted_once_and_named(texts):
    schedule = loops.schedule(nested(texts, None, 24))
    assert schedule.runs["inner"] == 24
    assert schedule.unknown == ("loop",)
    assert schedule.repeated("outer")
    assert not schedule.repeated("main.1")


def test_a_loop_that_never_runs_counts_nothing(texts):
    assert loops.schedule(nested(texts, 0, 24)).runs["inner"] == 0


def test_branches_and_calls_run_once_and_what_a_fusion_contains_does_not_run_by_itself(texts):
    computations = [
        texts.computation(name, "ROOT %p = f32[4]{0} parameter(0)") for name in ("yes", "no", "called", "fused")
    ]
    module = texts.parsed(
        "%a = f32[4]{0} parameter(0)",
        "%b = f32[4]{0} conditional(%c, %a, %a), branch_computations={%yes, %no}",
        "%d = f32[4]{0} call(%a), to_apply=%called",
        "%e = ((f32[4]{0}), f32[4]{0}, s32[]) async-start(%a), calls=%called",
        "ROOT %f = f32[4]{0} fusion(%a), kind=kLoop, calls=%fused",
        computations=computations,
    )
    assert loops.schedule(module).runs == {"main.1": 1, "yes": 1, "no": 1, "called": 2}


def test_of_a_conditional_the_branch_that_is_named_runs(texts):
    computations = [texts.computation(name, "ROOT %p = f32[4]{0} parameter(0)") for name in ("yes", "no")]
    module = texts.parsed(
        "%a = f32[4]{0} parameter(0)",
        "ROOT %b = f32[4]{0} conditional(%c, %a, %a), branch_computations={%yes, %no}",
        computations=computations,
    )
    assert loops.schedule(module, {("main.1", "b"): "no"}).runs == {"main.1": 1, "no": 1}


def test_computations_that_call_each_other_in_a_circle_end(texts):
    circle = [
        texts.computation("one", "ROOT %d = f32[4]{0} call(%p), to_apply=%two"),
        texts.computation("two", "ROOT %d = f32[4]{0} call(%p), to_apply=%one"),
    ]
    module = texts.parsed("ROOT %d = f32[4]{0} call(%a), to_apply=%one", computations=circle)
    assert set(loops.schedule(module).runs) == {"main.1", "one", "two"}


def test_no_program_has_no_runs():
    assert loops.schedule(hlo.parse("")).runs == {}
