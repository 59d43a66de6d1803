"""Where a compiler does not write down how often a loop runs, its counter shows it."""

import pytest

from qwenperf.program import trips

STATE = "(s32[], f32[4]{0}, s32[])"


def rounds(texts, *, begin="%zero", bound="%n", direction="LT", step="%next", left="%i", extra=()):
    """Count the rounds of a loop from 0 to 24, or another one."""
    condition = texts.computation(
        "go",
        f"%p = {STATE} parameter(0)",
        "%i = s32[] get-tuple-element(%p), index=0",
        "%last = s32[] get-tuple-element(%p), index=2",
        "%n = s32[] constant(24)",
        f"ROOT %c = pred[] compare({left}, {bound}), direction={direction}",
    )
    body = texts.computation(
        "body",
        f"%p = {STATE} parameter(0)",
        "%i = s32[] get-tuple-element(%p), index=0",
        "%x = f32[4]{0} get-tuple-element(%p), index=1",
        "%last = s32[] get-tuple-element(%p), index=2",
        "%one = s32[] constant(1)",
        "%two = s32[] constant(2)",
        "%i.1 = s32[]{:S(6)} copy(%i)",
        "%next = s32[] add(%i.1, %one)",
        "%after = s32[] add(%two, %i)",
        "%down = s32[] subtract(%i, %one)",
        "%fused.next = s32[] fusion(%one, %i), kind=kLoop, calls=%adding",
        "%data = s32[] multiply(%i, %one)",
        f"ROOT %t = {STATE} tuple({step}, %x, %last)",
    )
    adding = texts.computation(
        "adding", "%q.0 = s32[] parameter(0)", "%q.1 = s32[] parameter(1)", "ROOT %s = s32[] add(%q.1, %q.0)"
    )
    lines = (
        "%a = f32[4]{0} parameter(0)",
        "%zero = s32[] constant(0)",
        "%copied = s32[] copy(%zero)",
        "%hundred = s32[] constant(100)",
        "%sixteen = s32[] constant(16)",
        "%given = s32[] parameter(1)",
        f"%state = {STATE} tuple({begin}, %a, %sixteen)",
        texts.loop(None, "body", state=STATE),
        *extra,
    )
    module = texts.parsed(*lines, computations=(condition, body, adding))
    return trips.trips(module, texts.named(module, "loop"))


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        ({}, 24),
        ({"begin": "%copied"}, 24),
        ({"direction": "LE"}, 25),
        ({"direction": "NE"}, 24),
        ({"step": "%after"}, 12),
        ({"step": "%fused.next"}, 24),
        ({"bound": "%last"}, 16),
        ({"left": "%n", "bound": "%i", "direction": "GT"}, 24),
        ({"begin": "%hundred"}, 0),
        ({"begin": "%hundred", "direction": "GT", "step": "%down"}, 76),
        ({"begin": "%hundred", "direction": "GE", "step": "%down"}, 77),
    ],
)
def test_a_counter_from_a_constant_by_a_constant_to_a_constant_is_counted(texts, loop, count):
    assert rounds(texts, **loop) == count


@pytest.mark.parametrize(
    "loop",
    [
        {"begin": "%given"},
        {"step": "%data"},
        {"step": "%i"},
        {"direction": "GT"},
        {"direction": "EQ"},
        {"step": "%down"},
        {"bound": "%i"},
        {"direction": "NE", "step": "%after", "bound": "%odd"},
    ],
)
def test_a_loop_that_depends_on_data_or_never_ends_has_no_count(texts, loop):
    assert rounds(texts, **loop) is None


def test_what_the_compiler_says_comes_first(texts):
    module = texts.parsed(texts.loop(7, "body"))
    assert trips.trips(module, texts.named(module, "loop")) == 7
