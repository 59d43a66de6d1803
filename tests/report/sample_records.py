"""Records that pages are made of: a run and a comparison with something of everything."""

from dataclasses import replace

from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideEvidence, SideRecord
from qwenperf.schema.records import (
    CaseRecord,
    CompileCause,
    CompileEvent,
    Divergence,
    Evidence,
    Finding,
    Outcome,
    Roofline,
    RunRecord,
    Severity,
    Status,
    StreamEvidence,
    Verdict,
    metric,
)

CASE, OTHER = "4x128/cached/b1-p16-n64-f32", "4x128/naive/b1-p16-n64-f32"
ENVIRONMENT = {
    "cpu_model": "AMD EPYC", "cores": 2, "jax": "0.10.2", "platform": "cpu", "device_kind": "cpu", "x64": False,
    "isa": ["avx2", "fma"], "memory_bytes": 25276510208, "governor": None, "volatile": {"load": [0.5, 0.4, 0.3]},
}  # fmt: skip


def summary(*, dot_s=0.004, gap_s=0.002, version=2):
    """Return the summary of a trace of four steps, one of them slow, in which a token takes ``dot_s + gap_s``."""
    row = {
        "name": "dot", "program": "jit_step", "category": "matmul", "source": "models/layers.py:31",
        "shape": "f32[1,128]", "count": 12, "wall_s": 3 * dot_s, "time_s": 3 * dot_s, "flops": 1e6, "bytes": 3e7,
    }  # fmt: skip
    step_s = dot_s + gap_s
    return {
        "version": version,
        "steps": 4,
        "step_s": [step_s, step_s, step_s, 5 * step_s],
        "step_median_s": step_s,
        "step_busy_s": [dot_s, dot_s, dot_s, 2 * dot_s],
        "dispatches": [1, 1, 1, 2],
        "tokens_per_step": 1,
        "typical_steps": 3,
        "typical_s": 3 * step_s,
        "host_gap_s": 3 * gap_s,
        "operations": [row],
        "categories": {"matmul": {"count": 12, "time_s": 3 * dot_s, "wall_s": 3 * dot_s}},
        "host": {"gap_s": 3 * gap_s, "doing": [{"name": "Python", "time_s": 2 * gap_s}]},
        "remarks": [],
    }


def case(name=CASE, *, verdicts=None, trace=True, **fields):
    """Return a measured case with its trace."""
    passed = (
        Verdict(gate="shapes", outcome=Outcome.PASS, summary="no programs compiled after warm-up"),
        Verdict(gate="throughput", outcome=Outcome.SKIPPED, summary="no throughput budget declared"),
    )
    cause = CompileCause(argument="tokens", what="shape", before="(1, 16)", after="(1, 17)")
    evidence = Evidence(
        trace_summary=summary() if trace else None,
        roofline=Roofline(bytes_per_s=1e10, flops_per_s=1e11),
        stream=StreamEvidence(positions=(16, 17, 18, 19), step_s=((1e-3, 1e-3, 2e-3, 9e-3), (1e-3,) * 4, (1e-3,) * 4)),
        divergence=Divergence(equal=True, reference="uncached", max_logit_error=4e-6, logit_tolerance=6e-5),
        compiles=(CompileEvent(function="step", phase="cold", seconds=0.04, location="loop.py:7", causes=(cause,)),),
    )
    model, engine, _ = name.split("/", 2)
    workload = {"prompt_length": 16, "new_tokens": 64, "batch": 1, "dtype": "f32"}
    return replace(
        CaseRecord(
            id=name,
            spec={"model": model, "engine": engine, "workload": workload},
            metrics={
                "decode_tokens_per_s": metric(
                    "decode_tokens_per_s", 812.0, samples=(810.0, 814.0), interval=(810.0, 814.0), coverage=0.5
                ),
                "itl_p50_s": metric("itl_p50_s", 0.0058),
                "compiles_cold": metric("compiles_cold", 3),
                "compiles_steady": metric("compiles_steady", 0),
                "mbu": metric("mbu", 0.31),
            },
            evidence=evidence,
            verdicts=passed if verdicts is None else verdicts,
            trace="plugins/profile/cached/vm.xplane.pb" if trace else None,
        ),
        **fields,
    )


FAILED = Verdict(
    gate="throughput",
    outcome=Outcome.FAIL,
    summary="decode_tokens_per_s 812 tokens/s misses its budget of at least 1,000 tokens/s",
    detail=("in the trace: dot (matmul)",),
    advice="Compare the traces before lowering the budget.",
)


def run(*cases, **fields):
    """Return a run of ``cases``, by default one that passes and one that is too slow."""
    cases = cases or (case(OTHER, trace=False), case(verdicts=(FAILED,)))
    finding = Finding(
        code="load-high", severity=Severity.WARNING, message="load average 2.1.", advice="Stop other work."
    )
    record = RunRecord(
        id="20261128T081521Z-3f3847",
        created_at="2026-11-28T08:15:21+00:00",
        suite="quick",
        environment=ENVIRONMENT,
        commit={"sha": "f1095ac0f1095ac0", "branch": "topic", "dirty": True},
        declared=tuple(one.id for one in cases),
        cases=cases,
        findings=(finding,),
    )
    return replace(record, **fields)


def broken(name=OTHER):
    """Return a case whose process died."""
    return CaseRecord(
        id=name, spec={"engine": "naive"}, status=Status.FAILED, error="the process died of signal 9\nlast words"
    )


def plain(name="tests/test_parse.py::test_a_long_name_of_a_test[with-a-parameter-that-is-long-too]"):
    """Return a case of another tool, which knows neither engines nor workloads."""
    known = {name: metric(name, 1e-3) for name in ("call_s", "ttft_s", "itl_p50_s", "tpot_s", "request_s")}
    return CaseRecord(id=name, spec={"name": name}, metrics=known)


SPEED = Verdict(
    gate="speed",
    outcome=Outcome.FAIL,
    summary="time +12.0% (+10.0% to +14.0%) over 6 pairs, margin 3.0%; confirmed by 12 fresh pairs (+12.1%)",
    data={
        "stage_1": {"outcome": "fail", "estimate": 0.12, "low": 0.10, "high": 0.14, "margin": 0.03, "pairs": 6},
        "stage_2": {"outcome": "fail", "estimate": 0.121, "low": 0.11, "high": 0.13, "margin": 0.03, "pairs": 12},
        "samples": {"stage_1": [0.12] * 6},
        "cpu": 0.1,
    },
)
SAME = Verdict(
    gate="programs", outcome=Outcome.PASS, summary="other programs in head: decode_step", data={"same": False}
)
SIDE = SideRecord(label="main", kind="revision", environment=ENVIRONMENT)


def pair(number, *, stage=1, slower=1.12, name=CASE):
    """Return a pair of processes in which head takes ``slower`` times base's 0.384 s for a request of 64 tokens."""
    one = RoundRecord(order="ABBA", wall_s=(0.384, 0.384 * slower, 0.384 * slower, 0.384), cpu_s=(0.3,) * 4)
    return PairRecord(number=number, first="base", stage=stage, rounds={name: (one, one)})


def compared(name=CASE, *, verdicts=(SAME, SPEED), **extra):
    """Return a case of a comparison that was traced on both sides; head spends 0.72 ms more of a token in `dot`."""
    side = SideEvidence(tokens=((1, 2),), metrics={"temp_bytes": metric("temp_bytes", 1000)})
    told = {"trace_summaries": {"base": summary(), "head": summary(dot_s=0.00472)}, **extra}
    head = replace(side, metrics={"temp_bytes": metric("temp_bytes", 2000)})
    spec = {"model": "4x128", "workload": {"new_tokens": 64}}
    return ComparedCase(id=name, spec=spec, base=side, head=head, verdicts=verdicts, extra=told)


def comparison(*cases, **fields):
    """Return a comparison in which head is 12% slower, which fresh pairs confirm."""
    cases = cases or (compared(),)
    record = ComparisonRecord(
        id="compare-20261128T075759Z-9740af",
        created_at="2026-11-28T07:57:59+00:00",
        base=SIDE,
        head=replace(SIDE, label="topic", environment={**ENVIRONMENT, "qwenperf": "0.2.0"}),
        plan={"margin": 0.03, "looks": [6], "rounds": 2, "trial_s": 0.02},
        declared=tuple(one.id for one in cases),
        cases=cases,
        pairs=(*(pair(number) for number in range(1, 7)), *(pair(number, stage=2) for number in range(1, 13))),
    )
    return replace(record, **fields)
