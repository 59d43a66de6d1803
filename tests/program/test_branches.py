"""A call takes one branch of a conditional: the costliest one counts, and it is said that one was chosen."""

import pytest

from qwenperf.program import branches, hlo, loops
from qwenperf.program.analysis import analyse
from qwenperf.program.estimate import estimate
from qwenperf.schema.analysis import TargetRecord

GO = "%go (p: (s32[], f32[4])) -> pred[] {\n  ROOT %more = pred[] constant(true)\n}"
SMALL = ("%p = f32[64]{0} parameter(0)", "ROOT %s = f32[64]{0} negate(%p)")
LARGE = ("%p = f32[64]{0} parameter(0)", "%w = f32[64,64]{1,0} constant({...})",
         "ROOT %d = f32[64]{0} dot(%w, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}")  # fmt: skip
CHIP = TargetRecord(name="v2-1", platform="tpu", hbm_bytes_per_s=1e9, flops_per_s={"bf16": 1e12})


def switched(texts, *names, bodies, more=(), computations=()):
    """Make a program that takes one of the branches called ``names``."""
    return texts.program(
        "%a = f32[64]{0} parameter(0)",
        "%c = s32[] parameter(1)",
        f"ROOT %b = f32[64]{{0}} conditional(%c, {', '.join('%a' for _ in names)}), "
        f"branch_computations={{{', '.join(f'%{name}' for name in names)}}}",
        *more,
        computations=(
            *(texts.computation(name, *body) for name, body in zip(names, bodies, strict=True)),
            *computations,
        ),
    )


@pytest.mark.parametrize("order", [("small", "large"), ("large", "small")])
def test_the_costliest_branch_counts_wherever_it_stands(texts, order):
    text = switched(texts, *order, bodies=[SMALL if name == "small" else LARGE for name in order])
    alone = switched(texts, "large", bodies=[LARGE])
    found = analyse("step", text)
    assert found.flops == analyse("step", alone).flops == 2 * 64 * 64
    assert found.hbm_bytes == analyse("step", alone).hbm_bytes
    assert found.extra["conditionals"] == 1
    assert "conditionals" not in analyse("step", alone).extra


def test_what_a_branch_runs_counts_with_it(texts):
    """A branch that only loops over something cheap costs more than one dear product, if it loops often enough."""
    looping = (
        "%p = f32[64]{0} parameter(0)",
        "%state = (s32[], f32[4]{0}) tuple(%p, %p)",
        texts.loop(10**6, "often"),
        "ROOT %r = f32[64]{0} get-tuple-element(%loop), index=1",
    )
    often = texts.computation("often", *SMALL)
    text = switched(texts, "large", "looping", bodies=[LARGE, looping], computations=(often, GO))
    module = hlo.parse(text)
    assert branches.costliest(module, loops.schedule(module)) == {("main.1", "b"): "looping"}
    assert analyse("step", text).flops == 10**6 * 64


def test_what_should_not_be_there_is_found_in_every_branch(texts):
    """A cosine in the cheap branch is still a cosine in the program."""
    cosine = ("%p = f32[64]{0} parameter(0)", "ROOT %s = f32[64]{0} cosine(%p)")
    found = analyse("step", switched(texts, "large", "cosine", bodies=[LARGE, cosine]))
    assert len(found.trigonometric) == 1


def test_the_estimate_says_that_a_branch_was_chosen(texts):
    found = analyse("step", switched(texts, "small", "large", bodies=[SMALL, LARGE]))
    told = estimate(found, CHIP, tokens_per_call=1, batch=1, weight_bytes=0, cache_bytes=0).assumptions
    assert "the branch that costs most counts of each of 1 conditionals" in told
