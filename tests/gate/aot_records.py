"""Records of compiled programs made by hand: a good one, to be broken in one place by each test."""

from dataclasses import replace

from qwenperf.schema.analysis import (
    AotCase,
    AotRecord,
    Argument,
    BufferCopy,
    Collective,
    Estimate,
    Fit,
    OperationCost,
    ProgramAnalysis,
    SweepPoint,
    TargetRecord,
)

WEIGHT = "params.layers.w_gate_up"
SHAPE = "bf16[24,896,9728]"
WEIGHT_BYTES = 24 * 896 * 9728 * 2
CACHE = Argument(path="cache.k", shape="bf16[24,2,576,64]", bytes=3_538_944, donated=True)

RELAYOUT = BufferCopy(
    kind="relayout",
    shape=SHAPE,
    bytes=WEIGHT_BYTES,
    buffer=WEIGHT,
    before=f"{SHAPE}{{2,1,0}}",
    after=f"{SHAPE}{{1,2,0}}",
    source="qwen2.py:88",
    operation="copy.1",
)
WIDER = "f32[24,896,9728]"
UPCAST = replace(
    RELAYOUT, kind="upcast", shape=WIDER, bytes=2 * WEIGHT_BYTES, before=SHAPE, after=WIDER, operation="fusion.9"
)
ALL_REDUCE = Collective(
    kind="all-reduce", shape="bf16[1,896]", bytes=1792, runs=24, per_layer=True, source="layers.py:7"
)
PERMUTE = replace(ALL_REDUCE, kind="collective-permute", shape="bf16[1,1152]", bytes=2304, source="attention.py:30")
PRODUCT = OperationCost(
    name="fusion.1", opcode="fusion", category="matmul", shape="bf16[1,9728]", source="layers.py:20",
    op_name="jit(step)/gate_up", runs=24, flops=8e8, bytes=9e8, seconds=5e-4,
)  # fmt: skip
SCORES = OperationCost(
    name="fusion.2", opcode="fusion", category="attention", shape="f32[14,4096,4096]", source="attention.py:40",
    op_name="jit(step)/scores", flops=1e9, bytes=1.9e9, seconds=1e-3,
)  # fmt: skip


def good_program(**changes):
    """Return what a compiler makes of a decode step that nothing is wrong with."""
    program = ProgramAnalysis(
        name="decode_step",
        fingerprint="a",
        flops=1e9,
        hbm_bytes=1.0e9,
        argument_bytes=1_000_000_000,
        output_bytes=3_600_000,
        temp_bytes=700_000,
        alias_bytes=3_538_944,
        peak_bytes=1_010_000_000,
        operations=(PRODUCT,),
        fusions=40,
    )
    return replace(program, **changes)


UNREAD = ProgramAnalysis(name="decode_step", temp_bytes=700_000, peak_bytes=1_010_000_000)
"""A program of which the compiler tells sizes, and whose text says nothing."""


def good_case(program=None, target="v7x-4", **changes):
    """Return a case that every gate passes."""
    estimate = Estimate(
        seconds=1.3e-3, tokens_per_s=790.0, mfu=0.01, mbu=0.9, bound="memory", compute_bound_batch=240,
        extra={"batch_at_mfu": {"0.6": 130, "0.8": None}},
        sweep=(
            SweepPoint(batch=1, seconds=1e-3, tokens_per_s=790, mfu=0.01, mbu=0.9, bound="memory"),
            SweepPoint(batch=256, seconds=2e-3, tokens_per_s=128e3, mfu=0.7, mbu=0.5, bound="compute"),
        ),
    )  # fmt: skip
    case = AotCase(
        id=f"qwen2.5-0.5b/cached/b1-p512-n64-bf16@{target}/decode_step",
        target=TargetRecord(
            name=target, platform="tpu", topology="tpu7x:2x2x1", generation="v7x", chips=4, devices=8,
            hbm_bytes=103_079_215_104, hbm_bytes_per_s=3.69e12, mesh={"data": 4, "tensor": 2},
        ),
        arguments=(Argument(path=WEIGHT, shape=SHAPE, bytes=WEIGHT_BYTES), CACHE),
        program=program or good_program(),
        estimate=estimate,
        fit=Fit(peak_bytes=1_010_000_000, hbm_bytes=103_079_215_104, fits=True, longest_context=500_000),
        compile_s=2.0,
    )  # fmt: skip
    return replace(case, **changes)


def record(*cases, **changes):
    """Return a record of these cases."""
    cases = cases or (good_case(),)
    environment = {"jax": "0.10.2", "jaxlib": "0.10.2", "libtpu": "0.0.42"}
    made = AotRecord(
        id="r1", created_at="now", environment=environment, declared=tuple(case.id for case in cases), cases=cases
    )
    return replace(made, **changes)
