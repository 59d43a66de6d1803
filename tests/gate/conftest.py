"""Records as a lab would leave them: a good case, to be broken in one place by each test."""

import dataclasses

import pytest

from qwenperf.schema.records import (
    CaseRecord,
    CompileEvent,
    Divergence,
    Evidence,
    ProgramFacts,
    Roofline,
    RunRecord,
    StreamEvidence,
    TokenEvidence,
    metric,
)
from qwenperf.workloads.case import Case, Workload

NEW_TOKENS = 40
CACHE_BYTES = 100_000


def timed(name, value):
    """Five readings that spread by 3% to each side, as many as an interval needs."""
    samples = tuple(factor * value for factor in (0.97, 0.99, 1, 1.01, 1.03))
    return metric(name, value, samples=samples, interval=(samples[0], samples[-1]), coverage=0.9375)


def good_metrics(speed):
    values = {
        "compiles_steady": 0,
        "compiles_cold": 3,
        "kv_cache_allocated_bytes": CACHE_BYTES,
        "temp_bytes": 4096,
        "dispatches_per_token": 1 / NEW_TOKENS,
        "mbu": 0.4,
        "mfu": 0.1,
        "bytes_per_step": 1_000_000,
        "ttft_s": 0.01,
    }
    made = {name: metric(name, value) for name, value in values.items()}
    made["decode_tokens_per_s"] = timed("decode_tokens_per_s", speed)
    made |= {name: timed(name, made[name].value) for name in ("mbu", "mfu", "ttft_s")}
    return made


def good_evidence():
    return Evidence(
        tokens=TokenEvidence(prompt=((1, 2, 3),), generated=(tuple(range(NEW_TOKENS)),)),
        divergence=Divergence(
            equal=True, reference="uncached greedy decoding", max_logit_error=1e-6, logit_tolerance=1e-5, worst_step=3
        ),
        compiles=(CompileEvent(function="decode_step", phase="cold", seconds=0.5),),
        program=ProgramFacts(name="decode_step", operations={"dot": 8, "add": 20}, alias_bytes=CACHE_BYTES),
        roofline=Roofline(bytes_per_s=2e10, flops_per_s=2e11),
        stream=StreamEvidence(positions=tuple(range(16, 16 + NEW_TOKENS)), step_s=((0.001,) * NEW_TOKENS,) * 5),
    )


@pytest.fixture
def make_case():
    """Return a maker of measured cases in which nothing is wrong; ``evidence`` and ``metrics`` overrule parts of it."""

    def make(engine="cached", *, speed=1000.0, evidence=None, metrics=None, **changes):
        case = Case(model="4x128", engine=engine, workload=Workload(prompt_length=16, new_tokens=NEW_TOKENS))
        record = CaseRecord(
            id=case.id,
            spec=case.to_json(),
            metrics={**good_metrics(speed), **(metrics or {})},
            evidence=dataclasses.replace(good_evidence(), **(evidence or {})),
        )
        return dataclasses.replace(record, **changes)

    return make


@pytest.fixture
def make_run():
    """Return a maker of runs on a known 2-core machine."""

    def make(*cases, **changes):
        environment = {"platform": "cpu", "machine": "x86_64", "cores": 2}
        run = RunRecord(
            id="r1",
            created_at="2026-01-01T00:00:00Z",
            suite="quick",
            environment=environment,
            declared=tuple(case.id for case in cases),
            cases=cases,
        )
        return dataclasses.replace(run, **changes)

    return make
