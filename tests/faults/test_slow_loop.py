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


ATTEMPTS = 4
"""Other load may keep a verdict inconclusive, which is no verdict: measured again, never believed."""


def record_of(engine):
    prompt = np.random.default_rng(1).integers(0, 50000, (1, WORKLOAD.prompt_length), np.int32)
    spec = {"model": "gpt2-size", "engine": engine.name, "workload": vars(WORKLOAD)}
    options = Options(trials=3, logit_check=False)
    with CompileLog() as log:
        return measure_engine(
            engine, WORKLOAD, prompt, log=log, clock=Clock(log), options=options, case_id=engine.name, spec=spec
        )


def verdicts(base, engines):
    """Return what gate throughput says of each engine beside ``base``, which is measured just before them."""
    other = record_of(base)
    found = {engine.name: judge_case(record_of(engine), HALF, {other.id: other}) for engine in engines}
    return {name: next(one for one in each if one.gate == "throughput") for name, each in found.items()}


def test_a_loop_five_times_slower_fails_throughput_and_the_same_loop_passes():
    """Held to half the speed of a rung of the same run, which leaves room for a noisy machine on both sides."""
    model = load_model("gpt2-size")
    base = build_engine(model, "cached-host", capacity=20)
    left = [
        build_engine(model, "cached-host", name="same", capacity=20),
        build_engine(model, "cached-host", step=times_five, name="slow", capacity=20),
    ]
    said = {}
    for _ in range(ATTEMPTS):
        said |= verdicts(base, left)
        left = [engine for engine in left if said[engine.name].outcome is Outcome.INCONCLUSIVE]
        if not left:
            break
    assert said["same"].outcome is Outcome.PASS
    assert said["slow"].outcome is Outcome.FAIL
    assert "decode_tokens_per_s over cached-host" in said["slow"].summary
    assert "below its budget of at least 0.5" in said["slow"].summary
