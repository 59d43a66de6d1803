"""A decode loop made five times slower fails gate throughput. Timed, so only among the slow proofs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode import step as steps
from qwenperf.decode.build import build_engine
from qwenperf.gate.budget_set import Budget, BudgetSet, Times
from qwenperf.gate.evaluate import judge_case
from qwenperf.lab.measure_engine import measure_engine
from qwenperf.lab.options import Options
from qwenperf.measure.clock import Clock
from qwenperf.measure.compiles import CompileLog
from qwenperf.models.registry import load_model
from qwenperf.schema.records import Outcome
from qwenperf.workloads.case import Workload

pytestmark = pytest.mark.slow

WORKLOAD = Workload(prompt_length=8, new_tokens=12)
HALF = BudgetSet(budgets=(Budget(pattern="*", min_times=Times(rung="cached-host", factor=0.5)),))


def times_five(params, tokens, state, tables, *, config):
    """The decode step done five times over, each waiting for the one before it."""

    def waste(_, tokens_B):
        wasted = steps.decode_step(params, tokens_B, state, tables, config=config)
        # Never true, and the compiler cannot know it: nothing is left out or done once for all.
        return jnp.where(wasted.logits[:, 0] > 1e30, wasted.token, tokens_B)

    tokens = jax.lax.fori_loop(0, 4, waste, tokens)
    return steps.decode_step(params, tokens, state, tables, config=config)


def record_of(engine):
    prompt = np.random.default_rng(1).integers(0, 50000, (1, WORKLOAD.prompt_length), np.int32)
    spec = {"model": "gpt2-size", "engine": engine.name, "workload": vars(WORKLOAD)}
    with CompileLog() as log:
        return measure_engine(
            engine,
            WORKLOAD,
            prompt,
            log=log,
            clock=Clock(log),
            options=Options(trials=3),
            case_id=engine.name,
            spec=spec,
        )


def test_a_loop_five_times_slower_fails_throughput_and_the_same_loop_passes():
    """Held to half the speed of a rung of the same run, which leaves room for a noisy machine on both sides."""
    model = load_model("gpt2-size")
    base = record_of(build_engine(model, "cached-host", capacity=20))
    outcomes = {}
    for name, step in (("same", None), ("slow", times_five)):
        case = record_of(build_engine(model, "cached-host", step=step, name=name, capacity=20))
        verdicts = {one.gate: one for one in judge_case(case, HALF, {base.id: base})}
        outcomes[name] = verdicts["throughput"]
        assert verdicts["tokens"].outcome is Outcome.PASS
    assert outcomes["same"].outcome is Outcome.PASS
    assert outcomes["slow"].outcome is Outcome.FAIL
    assert "decode_tokens_per_s over cached-host" in outcomes["slow"].summary
    assert "below its budget of at least 0.5" in outcomes["slow"].summary
