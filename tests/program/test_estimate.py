"""Estimates follow from counts and published peaks."""

import math
from dataclasses import replace

import pytest

from qwenperf.program import estimate, roofline
from qwenperf.schema.analysis import Collective, OperationCost, ProgramAnalysis, TargetRecord

# Round peaks: 100 operations and 10 bytes a second, 4 bytes a second over the links.
TARGET = TargetRecord(
    name="x-1",
    platform="tpu",
    hbm_bytes=1000,
    hbm_bytes_per_s=10.0,
    flops_per_s={"bf16": 100.0, "int8": 200.0},
    interconnect_bytes_per_s=4.0,
    extra={"clock_hz": 50.0},
)
# One row: 40 operations; 20 bytes of weights and 4 of everything else, 3 of them a cache that is updated in place.
STEP = ProgramAnalysis(name="decode_step", flops=40.0, hbm_bytes=24.0, peak_bytes=100, alias_bytes=3)
ROW = {"tokens_per_call": 1, "batch": 1, "weight_bytes": 20, "cache_bytes": 3}


def test_the_roofline_is_the_longest_of_arithmetic_memory_and_links():
    told = estimate.estimate(STEP, TARGET, **ROW)
    assert (told.roofline_s, told.seconds, told.bound) == (2.4, 2.4, "memory")
    assert told.tokens_per_s == pytest.approx(1 / 2.4)
    assert told.mfu == pytest.approx(0.4 / 2.4)
    assert told.mbu == pytest.approx(23 / 2.4 / 10)
    busy = estimate.estimate(replace(STEP, flops=1000.0), TARGET, **ROW)
    assert (busy.seconds, busy.bound, busy.mfu) == (10.0, "compute", 1.0)


def test_a_table_that_is_looked_up_is_not_read_whole():
    """A model with an embedding table apart from its head: MBU is no more than what is read, at every batch."""
    told, plain = (
        estimate.estimate(replace(STEP, extra=extra), TARGET, **{**ROW, "weight_bytes": weights}, sweep=(1, 8))
        for extra, weights in (({"unread_weight_bytes": 30.0}, 50), ({}, 20))
    )
    assert told == plain
    assert [point.mbu <= 1 for point in told.sweep] == [True] * len(told.sweep)


def test_a_loop_over_tokens_reads_weights_and_cache_at_each_of_them():
    """Four steps in one call are used as well as one, and gain as much from a larger batch."""
    loop = replace(STEP, flops=160.0, hbm_bytes=96.0, extra={"weight_passes": 4.0})
    one = estimate.estimate(STEP, TARGET, **ROW, sweep=(1, 8))
    four = estimate.estimate(loop, TARGET, **{**ROW, "tokens_per_call": 4}, sweep=(1, 8))
    assert (four.tokens_per_s, four.mbu) == pytest.approx((one.tokens_per_s, one.mbu))
    for single, several in zip(one.sweep, four.sweep, strict=True):
        assert (several.batch, several.bound) == (single.batch, single.bound)
        assert (several.tokens_per_s, several.mbu) == pytest.approx((single.tokens_per_s, single.mbu))


def test_products_of_int8_take_the_chip_s_peak_for_int8():
    """Half the time here; the batch from which arithmetic bounds is another one too."""
    whole = replace(STEP, flops=1000.0, extra={"int8_flops": 600.0})
    told = estimate.estimate(whole, TARGET, **ROW)
    assert told.seconds == pytest.approx(400 / 100 + 600 / 200)
    assert "products of int8 with the peak of x-1 for int8" in told.assumptions
    plain = estimate.estimate(replace(STEP, flops=41.0), TARGET, **ROW)
    assert plain.compute_bound_batch in {200, 201}
    quick = estimate.estimate(replace(STEP, flops=41.0, extra={"int8_flops": 41.0}), TARGET, **ROW)
    assert (quick.compute_bound_batch, quick.extra["mfu_limit"]) == (None, pytest.approx(0.205 / 0.4))


def test_a_peak_for_int8_that_nobody_publishes_is_not_that_of_another_dtype():
    """What it would take is left out and told: an estimate is the least that a program needs."""
    unknown = replace(TARGET, flops_per_s={"bf16": 100.0})
    told = estimate.estimate(replace(STEP, flops=1000.0, extra={"int8_flops": 600.0}), unknown, **ROW)
    assert told.seconds == pytest.approx(4.0)
    assert "products of int8 take no time: no peak of x-1 for int8 is published" in told.assumptions
    none = estimate.estimate(STEP, unknown, **ROW, dtype="int8")
    assert (none.seconds, none.assumptions) == (
        None, ("no estimate: published peaks of x-1 for int8 are not known",)
    )  # fmt: skip
    told_of = {"name": "dot", "opcode": "dot", "category": "product", "shape": "s32[3]"}
    cost = OperationCost(**told_of, flops=600.0, bytes=1.0, extra={"int8_flops": 600.0})
    ((known,), (left_out,)) = (
        estimate.timed(replace(STEP, operations=(cost,)), target).operations for target in (TARGET, unknown)
    )
    assert (known.seconds, left_out.seconds) == (3.0, 0.1)


def test_exchanges_take_one_direction_of_the_links_and_a_ring_passes_twice():
    exchange = Collective(kind="all-reduce", shape="f32[3]", bytes=12, runs=2, extra={"group": 4})
    told = estimate.estimate(replace(STEP, collectives=(exchange,)), TARGET, **ROW)
    assert told.bound == "interconnect"
    assert told.seconds == pytest.approx(12 * 2 * 2 * 3 / 4 / 2.0)
    unknown = estimate.estimate(
        replace(STEP, collectives=(exchange,)), replace(TARGET, interconnect_bytes_per_s=None), **ROW
    )
    assert unknown.bound == "memory"
    assert any("links is unknown" in assumption for assumption in unknown.assumptions)


@pytest.mark.parametrize(
    ("kind", "sent"),
    [("all-gather", 9.0), ("reduce-scatter", 36.0), ("collective-permute", 12.0), ("all-reduce", 18.0)],
)
def test_each_kind_sends_its_share(kind, sent):
    """Of what a device sends on to one other, all of it."""
    assert roofline.exchanged_bytes(Collective(kind=kind, shape="", bytes=12, extra={"group": 4})) == sent


def test_the_compilers_cycles_count_where_they_are_longer():
    told = estimate.estimate(replace(STEP, estimated_cycles=500.0), TARGET, **ROW)
    assert (told.compiler_s, told.seconds, told.roofline_s) == (10.0, 10.0, 2.4)
    short = estimate.estimate(replace(STEP, estimated_cycles=50.0), TARGET, **ROW)
    assert (short.compiler_s, short.seconds) == (1.0, 2.4)


@pytest.mark.parametrize("seconds", [-8.0, math.inf, math.nan, 1e9])
def test_a_compilers_time_that_cannot_be_true_is_left_out(seconds):
    told = estimate.estimate(replace(STEP, extra={"compiler_seconds": seconds}), TARGET, **ROW)
    assert (told.compiler_s, told.seconds) == (None, 2.4)


def test_the_sweep_reads_weights_once_and_everything_else_for_each_row():
    told = estimate.estimate(STEP, TARGET, **ROW, sweep=(1, 2, 50))
    assert [point.seconds for point in told.sweep] == pytest.approx([2.4, 2.8, 22.0])
    assert [point.tokens_per_s for point in told.sweep] == pytest.approx([1 / 2.4, 2 / 2.8, 50 / 22])
    assert [point.fits for point in told.sweep] == [True, True, True]
    tight = estimate.estimate(STEP, replace(TARGET, hbm_bytes=105), **ROW, sweep=(1, 2, 3))
    assert [point.fits for point in tight.sweep] == [True, True, False]


def test_where_each_row_reads_longer_than_it_computes_no_batch_is_bound_by_arithmetic():
    # 0.4 s of arithmetic a row against 0.5 s of its cache.
    told = estimate.estimate(replace(STEP, hbm_bytes=25.0), TARGET, **ROW, sweep=(1, 4096))
    assert told.compute_bound_batch is None
    assert told.extra["batch_at_mfu"] == {"0.6": 12, "0.8": None}
    assert told.extra["mfu_limit"] == pytest.approx(0.8)
    assert told.sweep[-1].mfu == pytest.approx(0.8, rel=0.01)
    assert told.assumptions[-1].endswith("MFU stays below 80%")


def test_the_batch_at_which_arithmetic_bounds_and_those_before_it():
    # 0.4 s of arithmetic a row against 2 s of weights and 0.1 s a row: equal at b = 2 / 0.3.
    step = replace(STEP, hbm_bytes=21.0)
    told = estimate.estimate(step, TARGET, **(ROW | {"cache_bytes": 1}), sweep=(1, 4, 6, 7, 16))
    assert told.compute_bound_batch == 7
    assert [point.bound for point in told.sweep] == ["memory", "memory", "memory", "compute", "compute"]
    batches = told.extra["batch_at_mfu"]
    assert batches == {"0.6": 4, "0.8": 5}
    mfu = {point.batch: point.mfu for point in told.sweep}
    assert mfu[4] >= 0.6 > mfu[1]


def test_a_sweep_reaches_the_batch_from_which_arithmetic_bounds():
    """However far beyond its last size that is; no sweep stays none."""
    step, row = replace(STEP, hbm_bytes=21.0), ROW | {"cache_bytes": 1}
    told = estimate.estimate(step, TARGET, **row, sweep=(1, 2))
    assert [(point.batch, point.bound) for point in told.sweep] == [(1, "memory"), (2, "memory"), (7, "compute")]
    assert estimate.estimate(step, TARGET, **row, sweep=()).sweep == ()


def test_a_step_compiled_for_several_rows_gives_the_same_sweep():
    """Four rows of the same step: the same times at each batch."""
    four = replace(STEP, flops=160.0, hbm_bytes=20 + 4 * 4.0)
    told = estimate.estimate(
        four, TARGET, tokens_per_call=4, batch=4, weight_bytes=20, cache_bytes=12, sweep=(1, 2, 50)
    )
    one = estimate.estimate(STEP, TARGET, **ROW, sweep=(1, 2, 50))
    assert [point.seconds for point in told.sweep] == pytest.approx([point.seconds for point in one.sweep])
    assert [point.mbu for point in told.sweep] == pytest.approx([point.mbu for point in one.sweep])


def test_the_peak_is_that_of_the_dtype():
    busy = replace(STEP, flops=1000.0)
    assert estimate.estimate(busy, TARGET, **ROW, dtype="int8").seconds == 5.0
    assert estimate.estimate(busy, TARGET, **ROW, dtype="float32").seconds == 10.0


@pytest.mark.parametrize(
    ("analysis", "target"),
    [
        (STEP, TargetRecord(name="cpu", platform="cpu")),
        (ProgramAnalysis(name="empty"), TARGET),
        (ProgramAnalysis(name="nothing", flops=0.0, hbm_bytes=0.0), TARGET),
    ],
)
def test_what_is_not_known_gives_no_estimate_and_says_why(analysis, target):
    told = estimate.estimate(analysis, target, **ROW)
    assert (told.seconds, told.tokens_per_s, told.sweep) == (None, None, ())
    assert told.assumptions[0].startswith("no estimate: ")


def test_assumptions_name_what_was_left_out():
    analysis = replace(STEP, unknown_loops=("while.3",), kernels=("flash",), estimated_cycles=500.0)
    analysis = replace(analysis, extra={"operations_without_cycles": 12})
    text = " | ".join(estimate.estimate(analysis, TARGET, **ROW).assumptions)
    for part in ("while.3", "kernels", "leaves out 12 instructions", "peaks of x-1"):
        assert part in text


def test_each_operation_gets_the_time_of_its_longest_part():
    def cost(name, **figures):
        return OperationCost(name=name, opcode="fusion", category="matmul", shape="", **figures)

    analysis = replace(
        STEP, operations=(cost("a", flops=10.0), cost("b", bytes=40.0), cost("c", bytes=10.0, cycles=500.0))
    )
    timed = estimate.timed(analysis, TARGET).operations
    assert [(one.name, one.seconds) for one in timed] == [("c", 10.0), ("b", 4.0), ("a", 0.1)]
    assert estimate.timed(analysis, TargetRecord(name="cpu", platform="cpu")) is analysis


def test_a_longer_program_never_takes_less():
    seconds = [
        estimate.estimate(replace(STEP, flops=40.0 * size, hbm_bytes=24.0 * size), TARGET, **ROW).seconds
        for size in (1, 2, 4, 8)
    ]
    assert seconds == sorted(seconds)
