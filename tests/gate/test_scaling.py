from dataclasses import replace

import numpy as np
import pytest

from qwenperf.gate import scaling
from qwenperf.gate.budget import parse
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.schema.records import CompileEvent, Outcome, ProgramFacts, StreamEvidence
from qwenperf.stats.growth import growth

NONE = CaseBudget()


def stream(per_100, *, noise=0.0, steps=64, trials=5, start=16, seed=0):
    """Steps of 1 ms in the middle that grow by ``per_100`` of that per 100 positions."""
    positions = np.arange(start, start + steps)
    clean = 1e-3 * (1 + per_100 * (positions - positions.mean()) / 100)
    noisy = clean * (1 + noise * np.random.default_rng(seed).normal(size=(trials, steps)))
    return StreamEvidence(positions=tuple(positions.tolist()), step_s=tuple(map(tuple, noisy.tolist())))


def judged(make_case, evidence, budget=NONE):
    """Judge by the clock alone: an engine that shows no program."""
    return scaling.judge(make_case(evidence={"stream": evidence, "program": None}), budget)


def test_a_flat_step_passes(make_case):
    """A pre-allocated cache costs the same at every position."""
    verdict = judged(make_case, stream(0.0, noise=0.02))
    assert verdict.outcome is Outcome.PASS
    assert "within +10.0%" in verdict.summary


def test_a_copied_cache_fails_with_its_slope(make_case):
    """The growth is stated with its interval and in seconds a position."""
    verdict = judged(make_case, stream(0.6, noise=0.02))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.data["growth"] == pytest.approx(0.6, abs=0.05)
    assert "above its budget of +10.0%" in verdict.summary
    assert verdict.detail[0].endswith("us a step, positions 16 to 79")
    assert "cache" in verdict.advice


def test_noise_is_inconclusive_and_says_what_could_have_been_seen(make_case):
    """Twenty noisy steps cannot tell flat from 10%."""
    verdict = judged(make_case, stream(0.05, noise=0.2, steps=20))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert verdict.data["smallest_effect"] > 0.1
    assert "growth would be seen from about" in verdict.summary


def test_one_drifting_trial_is_no_growth(make_case):
    """A trial on a machine that slowed down does not fail the others."""
    flat, steep = stream(0.0, trials=2), stream(3.0, trials=3)
    mixed = StreamEvidence(positions=flat.positions, step_s=flat.step_s + steep.step_s)
    assert judged(make_case, mixed).outcome is Outcome.INCONCLUSIVE


def test_a_drift_over_few_steps_is_no_growth(make_case):
    """Fourteen steps that slow down by 4% are a steep slope and little time: too little to turn a check red."""
    drift = stream(0.3, noise=0.005, steps=14, start=8)
    seen = growth(drift.positions, drift.step_s)
    assert (seen.low > 0.1, min(seen.by_trial) > 0.1) == (True, True)
    assert judged(make_case, drift).outcome is Outcome.INCONCLUSIVE


def test_steps_that_get_faster_hide_growth(make_case):
    """A machine that becomes quieter during the request proves nothing."""
    verdict = judged(make_case, stream(-1.0, noise=0.01))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "hide growth" in verdict.summary
    assert judged(make_case, stream(-0.2, noise=0.01)).outcome is Outcome.PASS


def test_wild_steps_do_not_matter(make_case):
    """An interrupt now and then is not growth."""
    steady = stream(0.0, noise=0.01)
    wild = tuple(tuple(step * (50 if i % 9 == 8 else 1) for i, step in enumerate(trial)) for trial in steady.step_s)
    assert judged(make_case, StreamEvidence(positions=steady.positions, step_s=wild)).outcome is Outcome.PASS


def test_a_declared_limit_replaces_the_default(make_case):
    """Who expects growth says so."""
    budget = parse({"*": {"scaling_per_100_tokens": {"max": 0.8}}}).for_case("any", "any")
    assert judged(make_case, stream(0.6, noise=0.02), budget).outcome is Outcome.PASS


def test_a_limit_of_another_machine_leaves_the_default(make_case):
    """And the verdict says that it was skipped."""
    table = {"environment": "tpu-*", "scaling_per_100_tokens": {"max": 0.8}}
    verdict = judged(make_case, stream(0.6), parse({"*": table}).for_case("any", "cpu-x86_64-2core"))
    assert verdict.outcome is Outcome.FAIL
    assert any("budget skipped, default used" in line for line in verdict.detail)


def test_false_alarms_on_flat_steps_are_rare(make_case):
    """Two hundred flat noisy streams: none fails."""
    outcomes = [judged(make_case, stream(0.0, noise=0.1, steps=32, seed=seed)).outcome for seed in range(200)]
    assert outcomes.count(Outcome.FAIL) == 0


@pytest.mark.parametrize("evidence", [None, stream(0.0, steps=4), StreamEvidence(positions=(1, 2, 3), step_s=())])
def test_too_little_is_never_a_pass(make_case, evidence):
    """No steps, no slope."""
    verdict = judged(make_case, evidence)
    assert verdict.outcome is Outcome.SKIPPED
    assert verdict.advice


def test_long_streams_are_thinned(make_case):
    """Thousands of positions do not need millions of pairs."""
    assert judged(make_case, stream(0.05, noise=0.01, steps=4096, trials=3)).outcome is Outcome.PASS


def stepped(make_case, *, compiles=("warmup",), operations=(("dot", 8),)):
    """A case too noisy for its clock, whose step was compiled in these phases."""
    return make_case(
        evidence={
            "stream": stream(0.05, noise=0.2, steps=20),
            "program": ProgramFacts(name="decode_step", operations=dict(operations)),
            "compiles": tuple(CompileEvent(function="decode_step", phase=phase, seconds=1.0) for phase in compiles),
        }
    )


def test_one_program_for_all_positions_is_told_where_the_clock_cannot_tell(make_case):
    """It does the same work at each position, and is no pass: of the host between two steps it knows nothing."""
    verdict = scaling.judge(stepped(make_case), NONE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "too noisy" in verdict.summary
    assert any("one program of straight code, decode_step" in line for line in verdict.detail)
    assert "the host's work between two steps is not seen by this" in verdict.detail
    assert verdict.data["one_program"] == "decode_step"


def test_an_interval_with_the_limit_in_it_is_never_a_pass(make_case):
    """Whatever the estimate is, and whatever the program looks like."""
    case, seen = stepped(make_case), []
    for seed in range(30):
        noisy = stream(0.0, noise=0.2, steps=20, seed=seed)
        verdict = scaling.judge(replace(case, evidence=replace(case.evidence, stream=noisy)), NONE)
        if verdict.data["low"] <= verdict.data["limit"] < verdict.data["high"]:
            seen.append(verdict)
    assert len(seen) > 20
    assert any(verdict.data["growth"] < 0 for verdict in seen)
    assert {verdict.outcome for verdict in seen} == {Outcome.INCONCLUSIVE}


@pytest.mark.parametrize(
    "case",
    [
        {"compiles": ("cold", "cold")},
        {"compiles": ()},
        {"operations": (("while", 1),)},
        {"operations": (("dot", 8), ("conditional", 1))},
        {"operations": (("dot", 8), ("custom-call", 1))},
        {"operations": ()},
    ],
    ids=["two programs", "compile not seen", "a loop", "a branch", "a custom call", "text not read"],
)
def test_anything_but_one_program_without_a_loop_proves_nothing(make_case, case):
    """Two programs may differ, and a loop may run once for each position: nothing is told of them."""
    verdict = scaling.judge(stepped(make_case, **case), NONE)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "one_program" not in verdict.data


def test_a_measured_growth_fails_whatever_the_program(make_case):
    """The host may do the copying: one program on the device is no excuse for steps that grow."""
    case = stepped(make_case)
    grown = replace(case, evidence=replace(case.evidence, stream=stream(0.6, noise=0.02)))
    assert scaling.judge(grown, NONE).outcome is Outcome.FAIL
