"""Verdicts of comparisons, on records as the lab would leave them; noise is seeded."""

import dataclasses
import math
import random

import pytest

from qwenperf.gate.comparison import exit_code, judge_comparison
from qwenperf.gate.differences import environment_key
from qwenperf.gate.saved import compare_saved
from qwenperf.gate.speed import decide_cases, token_times
from qwenperf.schema.codec import comparison_loads, dumps
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, PairRecord, RoundRecord, SideEvidence, SideRecord
from qwenperf.schema.records import Outcome, Status, TokenEvidence, metric
from qwenperf.stats.confirm import CONFIRM
from qwenperf.stats.spending import Plan

CASE = "4x128/cached/b1-p16-n64-f32"
PLAN = Plan()
TEN_TOKENS = {"workload": {"new_tokens": 10}}
EVIDENCE = SideEvidence(
    tokens=((1, 2, 3),),
    programs={"decode_step": "same"},
    metrics={"temp_bytes": metric("temp_bytes", 1000.0), "weight_bytes": metric("weight_bytes", 4000.0)},
    extra={"compiles": 3},
)
ENVIRONMENT = {"cpu_model": "a", "cores": 2, "jax": "0.10.2", "volatile": {"load": [0.1]}}


def make_pairs(slowdown, count, *, stage=1, noise=0.01, seed=1):
    draw = random.Random(seed)
    return tuple(
        PairRecord(
            number=number,
            first="base",
            stage=stage,
            rounds={CASE: tuple(make_round(slowdown * math.exp(draw.gauss(0, noise))) for _ in range(3))},
        )
        for number in range(1, count + 1)
    )


def make_round(ratio):
    return RoundRecord(order="ABBA", wall_s=(1.0, ratio, ratio, 1.0), cpu_s=(2.0, 2 * ratio, 2 * ratio, 2.0))


@pytest.fixture
def compare():
    """Return a judge of a comparison with given pairs; ``head`` and ``extra`` overrule parts of it."""

    def judged(
        pairs,
        *,
        confirming=(),
        head=EVIDENCE,
        base=EVIDENCE,
        extra=None,
        plan=None,
        environment=ENVIRONMENT,
        case_extra=None,
        spec=None,
        engines=(None, None),
    ):
        old, new = ({"engine": engine} if engine else {} for engine in engines)
        record = ComparisonRecord(
            id="c",
            created_at="2026-01-01",
            base=SideRecord(label="a", kind="revision", environment=ENVIRONMENT, extra=old),
            head=SideRecord(label="b", kind="revision", environment=environment, extra=new),
            plan={"margin": 0.03, **(plan or {})},
            declared=(CASE,),
            cases=(ComparedCase(id=CASE, base=base, head=head, extra=case_extra or {}, spec=spec or {}),),
            pairs=(*pairs, *confirming),
            extra=extra or {},
        )
        stages = {}
        for look, count in enumerate(PLAN.looks):
            if len(pairs) >= count:
                stages[1] = decide_cases(record, PLAN, look=look, earlier=stages.get(1))
        for look, count in enumerate(CONFIRM.looks):
            if len(confirming) >= count:
                stages[2] = decide_cases(
                    record, CONFIRM, look=look, stage=2, earlier=stages.get(2), first=stages.get(1)
                )
        return judge_comparison(record, stages)

    return judged


def outcome(comparison, gate):
    return next(verdict for verdict in comparison.cases[0].verdicts if verdict.gate == gate)


def test_a_slowdown_that_fresh_pairs_find_again_fails(compare):
    """With estimate, interval and pairs of both stages in the verdict."""
    changed = dataclasses.replace(EVIDENCE, programs={"decode_step": "other"})
    seen = compare(make_pairs(1.1, 20), confirming=make_pairs(1.1, 12, stage=2, seed=2), head=changed)
    verdict = outcome(seen, "speed")
    assert verdict.outcome is Outcome.FAIL
    assert "confirmed by 12 fresh pairs" in verdict.summary
    assert verdict.data["stage_1"]["estimate"] == pytest.approx(0.1, abs=0.02)
    assert verdict.data["stage_2"]["pairs"] == 12
    assert verdict.data["cpu"] == pytest.approx(0.1, abs=0.02)
    assert exit_code(seen) == 1


def trace_of(copy_s):
    row = {"name": "copy", "category": "copy", "source": "model.py:20", "count": 1, "time_s": copy_s, "wall_s": copy_s}
    step_s = 0.001 + copy_s
    return {
        "version": 2,
        "steps": 1,
        "step_s": [step_s],
        "typical_steps": 1,
        "typical_s": step_s,
        "tokens_per_step": 1,
        "operations": [row],
        "categories": {},
        "host": {"gap_s": 0.001, "doing": []},
    }


def test_a_failure_names_the_operation_that_takes_longer_in_the_traces(compare):
    """And no other verdict does: nothing is slower there."""
    traces = {"trace_summaries": {"base": trace_of(0.002), "head": trace_of(0.005)}}
    changed = dataclasses.replace(EVIDENCE, programs={"decode_step": "other"})
    confirming = make_pairs(1.1, 12, stage=2, seed=2)
    failed = outcome(compare(make_pairs(1.1, 20), confirming=confirming, head=changed, case_extra=traces), "speed")
    assert failed.detail[0].startswith("copy +3.00 ms a token (2.00 ms -> 5.00 ms)")
    assert "model.py:20" in failed.detail[0]
    passed = outcome(compare(make_pairs(1.0, 20), case_extra=traces), "speed")
    assert not any("copy" in line for line in passed.detail)


def test_a_slowdown_that_fresh_pairs_do_not_find_is_inconclusive(compare):
    """Something was slow for a while; the code was not."""
    verdict = outcome(compare(make_pairs(1.1, 20), confirming=make_pairs(1.0, 6, stage=2)), "speed")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "do not confirm" in verdict.summary


def test_before_it_is_confirmed_nothing_fails(compare):
    """An interrupted comparison is not red by its first stage alone."""
    assert outcome(compare(make_pairs(1.1, 20)), "speed").outcome is Outcome.INCONCLUSIVE


def test_a_verdict_carries_its_samples_their_order_and_its_environment(compare):
    """By stage; samples in relative differences, the environment as a key that equal ones share."""
    data = outcome(
        compare(make_pairs(1.1, 20, noise=0), confirming=make_pairs(1.1, 12, stage=2, noise=0)), "speed"
    ).data
    assert data["samples"] == {"stage_1": [0.1] * 20, "stage_2": [0.1] * 12}
    assert data["spawned_first"] == {"stage_1": ["base"] * 20, "stage_2": ["base"] * 12}
    assert data["environment"] == environment_key(ENVIRONMENT) == environment_key({**ENVIRONMENT, "volatile": {}})


def test_cpu_time_is_told_by_the_median_of_the_pairs_also_of_an_even_number(compare):
    """And not by the upper one of the two in the middle."""
    ratios = (1.0, 1.0, 1.0, 1.04, 1.04, 1.04)
    pairs = [dataclasses.replace(make_pairs(one, 1, noise=0)[0], number=n) for n, one in enumerate(ratios, start=1)]
    assert outcome(compare(pairs), "speed").data["cpu"] == pytest.approx(0.02, abs=1e-3)


def test_a_token_takes_in_head_what_the_pairs_say_longer_than_in_base():
    """As the fresh pairs say where there are some; of trials with several requests, for one."""
    case = ComparedCase(id=CASE, repeats=4, spec=TEN_TOKENS)
    pairs = make_pairs(1.5, 3, noise=0)
    assert token_times(pairs, case) == {"base": pytest.approx(0.025), "head": pytest.approx(0.0375)}
    pairs += make_pairs(1.2, 2, stage=2, noise=0)
    assert token_times(pairs, case)["head"] == pytest.approx(0.03)
    assert token_times((), case) == token_times(pairs, dataclasses.replace(case, spec={})) == {}


@pytest.mark.parametrize(
    ("of", "told"),
    [
        ("requests", "the traces leave +10.0 ms a token of the +10.0 ms that was timed unexplained"),
        ("steps", "+10.0 ms a token of the +10.0 ms that was timed lies outside the steady steps"),
    ],
)
def test_a_failure_tells_what_the_traces_do_not_show_of_it(compare, of, told):
    """A trial of one request of ten tokens takes a second, and the slowdown is not where the traces look."""
    traces = {"trace_summaries": {side: {**trace_of(0.002), "of": of} for side in ("base", "head")}}
    changed = dataclasses.replace(EVIDENCE, programs={"decode_step": "other"})
    confirming = make_pairs(1.1, 12, stage=2, noise=0)
    failed = outcome(
        compare(make_pairs(1.1, 20, noise=0), confirming=confirming, head=changed, case_extra=traces, spec=TEN_TOKENS),
        "speed",
    )
    assert failed.detail[0].startswith(told)


def test_a_trace_that_was_lost_is_told_where_it_would_explain_a_failure(compare):
    """Whoever looks for it learns why it is not there."""
    remarks = {"trace_remarks": {"head": ["the profiler has not written its profile after 60.0 s."]}}
    changed = dataclasses.replace(EVIDENCE, programs={"decode_step": "other"})
    confirming = make_pairs(1.1, 12, stage=2, seed=2)
    failed = outcome(compare(make_pairs(1.1, 20), confirming=confirming, head=changed, case_extra=remarks), "speed")
    assert failed.detail[0] == "trace of head: the profiler has not written its profile after 60.0 s."


def test_the_same_programs_blame_the_host(compare):
    """The device does the same work: a pause in Python is what is left."""
    seen = compare(make_pairs(1.1, 20), confirming=make_pairs(1.1, 12, stage=2, seed=2))
    assert "the time is lost on the host" in outcome(seen, "speed").summary


def test_the_same_code_never_fails(compare):
    """Whatever the pairs say, it is the machine."""
    seen = compare(make_pairs(1.1, 20), confirming=make_pairs(1.1, 12, stage=2, seed=2), extra={"same_code": True})
    assert outcome(seen, "speed").outcome is Outcome.INCONCLUSIVE
    assert exit_code(seen) == 0


def test_unchanged_time_passes(compare):
    """When the interval excludes the margin."""
    seen = compare(make_pairs(1.0, 6))
    assert outcome(seen, "speed").outcome is Outcome.PASS
    assert exit_code(seen) == 0


def test_noise_is_inconclusive_and_says_what_would_settle_it(compare):
    """Exit code 0, or 3 for those who ask."""
    seen = compare(make_pairs(1.0, 20, noise=0.3))
    verdict = outcome(seen, "speed")
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "would be found" in verdict.summary
    assert "quieter machine" in verdict.advice or "pairs" in verdict.advice
    assert (exit_code(seen), exit_code(seen, "fail")) == (0, 3)


def test_a_token_that_changed_fails_first(compare):
    """By its place, and whatever the clock says."""
    seen = compare(make_pairs(0.5, 6), head=dataclasses.replace(EVIDENCE, tokens=((1, 9, 3),)))
    verdict = seen.cases[0].verdicts[0]
    assert (verdict.gate, verdict.outcome) == ("tokens", Outcome.FAIL)
    assert verdict.summary == "row 0, new token 1: 2 in base, 9 in head"
    assert exit_code(seen) == 1


def test_more_compiles_and_more_bytes_fail_and_fewer_improve(compare):
    """Nothing of this depends on the machine's mood."""
    metrics = {"temp_bytes": metric("temp_bytes", 5000.0), "weight_bytes": metric("weight_bytes", 2000.0)}
    head = dataclasses.replace(EVIDENCE, metrics=metrics, extra={"compiles": 7})
    seen = compare(make_pairs(1.0, 6), head=head)
    assert outcome(seen, "compiles").outcome is Outcome.FAIL
    assert outcome(seen, "sizes:temp_bytes").outcome is Outcome.FAIL
    assert outcome(seen, "sizes:weight_bytes").outcome is Outcome.IMPROVED


def test_a_case_that_head_broke_fails(compare):
    """It worked before."""
    seen = compare((), head=SideEvidence(error="no such preset"))
    assert outcome(seen, "inventory").outcome is Outcome.FAIL
    assert exit_code(seen) == 1


def test_a_case_that_never_worked_is_not_measured(compare):
    """Exit 5: never green, and not head's fault."""
    broken = SideEvidence(error="no such preset")
    assert exit_code(compare((), base=broken, head=broken)) == 5


def test_a_declared_case_that_is_missing_is_never_green(compare):
    """It is named."""
    seen = compare(make_pairs(1.0, 6), extra={"missing": ["old/case"]})
    assert "old/case" in seen.verdicts[0].summary
    assert exit_code(seen) == 5


def test_another_machine_is_not_comparable(compare):
    """The field is named; what changes from minute to minute does not count."""
    same = {**ENVIRONMENT, "volatile": {"load": [3.0]}}
    assert exit_code(compare(make_pairs(1.0, 6), environment=same)) == 0
    other = {**ENVIRONMENT, "jax": "0.12.0"}
    seen = compare(make_pairs(1.0, 6), environment=other)
    assert seen.verdicts[0].summary == "not comparable: jax is '0.10.2' in base and '0.12.0' in head"
    assert exit_code(seen) == 4
    assert exit_code(compare(make_pairs(1.0, 6), environment=other, plan={"varies": ["jax"]})) == 0


def test_runs_that_were_measured_apart_are_judged_without_a_clock(make_case, make_run):
    """Compiles and tokens count, times do not."""
    base, head = make_run(make_case()), make_run(make_case(speed=10.0))
    seen = compare_saved(base, head)
    assert outcome(seen, "speed").outcome is Outcome.SKIPPED
    assert "measured apart" in outcome(seen, "speed").summary
    assert exit_code(seen) == 0
    gone = make_run(make_case("naive"))
    assert exit_code(compare_saved(base, gone)) == 5
    broken = make_run(make_case(status=Status.FAILED, error="out of memory"))
    assert exit_code(compare_saved(base, broken)) == 1


def test_what_a_side_did_not_tell_passes_nothing(compare):
    """No tokens on both sides are not the same tokens."""
    silent = SideEvidence()
    seen = compare(make_pairs(1.0, 6), base=silent, head=silent)
    assert {outcome(seen, gate).outcome for gate in ("tokens", "compiles", "programs")} == {Outcome.SKIPPED}
    half = compare(make_pairs(1.0, 6), head=dataclasses.replace(EVIDENCE, metrics={}, extra={}))
    assert outcome(half, "compiles").outcome is Outcome.SKIPPED
    assert "was known of base and is not of head" in outcome(half, "sizes:temp_bytes").summary


def test_times_of_different_machines_are_not_judged(compare):
    """Not comparable is exit 4, whatever the pairs say."""
    pairs, confirming = make_pairs(1.5, 20), make_pairs(1.5, 12, stage=2)
    seen = compare(pairs, confirming=confirming, environment={**ENVIRONMENT, "cpu_model": "b"})
    assert outcome(seen, "speed").outcome is Outcome.SKIPPED
    assert exit_code(seen) == 4


def test_the_confirmation_goes_by_the_margin_of_the_first_stage(compare):
    """A margin of 1% is not confirmed against 3%."""
    pairs, confirming = make_pairs(1.02, 20, noise=0.002), make_pairs(1.02, 20, stage=2, noise=0.002, seed=2)
    seen = compare(pairs, confirming=confirming, plan={"margins": {CASE: 0.01}})
    assert outcome(seen, "speed").outcome is Outcome.FAIL


def test_saved_approximate_engines_are_not_held_to_each_others_tokens(make_case, make_run):
    """As in a live comparison; whichever side is approximate."""
    told = {"approximate": {"settings": ["weights=int8"], "max_logit_error": 0.1}}
    exact, other = make_case(), TokenEvidence(prompt=((1,),), generated=((9, 9, 9),))
    rounded = make_case(evidence={"tokens": other}, spec={**exact.spec, **told})
    for base, head in ((exact, rounded), (rounded, exact)):
        verdict = outcome(compare_saved(make_run(base), make_run(head)), "tokens")
        assert (verdict.outcome, verdict.summary) == (Outcome.SKIPPED, "tokens may differ: weights=int8")
    plain = make_case(evidence={"tokens": other})
    assert outcome(compare_saved(make_run(exact), make_run(plain)), "tokens").outcome is Outcome.FAIL


def test_an_error_by_rounding_is_no_size(make_case, make_run):
    """Gate tokens of each run holds it to a tolerance; another value within it is nothing."""
    old, new = ({"max_logit_error": metric("max_logit_error", value)} for value in (3.0e-7, 3.2e-7))
    seen = compare_saved(make_run(make_case(metrics=old)), make_run(make_case(metrics=new)))
    assert exit_code(seen) == 0
    assert not [one for one in seen.cases[0].verdicts if "max_logit_error" in one.gate]


@pytest.mark.parametrize("evidence", [{}, {"tokens": None}])
def test_fewer_tokens_of_uncached_decoding_fail_however_few(make_case, make_run, evidence):
    """Two percent of wrong tokens are no size within 3%; more of them right fail nothing."""
    runs = [
        make_run(make_case(metrics={"tokens_equal": metric("tokens_equal", value)}, evidence=evidence))
        for value in (1.0, 0.98)
    ]
    verdict = outcome(compare_saved(*runs), "tokens")
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == "tokens_equal 1 -> 0.98: fewer tokens are those of uncached decoding"
    assert exit_code(compare_saved(*reversed(runs))) == 0


def test_an_engine_that_compiles_more_by_choice_fails_nothing(compare):
    """``--engines A B`` compares what differs on purpose; two revisions of one engine do not."""
    head = dataclasses.replace(EVIDENCE, extra={"compiles": 4})
    assert outcome(compare(make_pairs(1.0, 6), head=head), "compiles").outcome is Outcome.FAIL
    seen = compare(make_pairs(1.0, 6), head=head, engines=("cached", "cached+loop=host"))
    verdict = outcome(seen, "compiles")
    assert (verdict.outcome, exit_code(seen)) == (Outcome.PASS, 0)
    assert verdict.summary.endswith("3 in base, 4 in head: by choice, the engines differ")


def test_a_verdict_survives_the_disk(make_case, make_run):
    """Runs measured apart are no less comparable when they are read back."""
    seen = compare_saved(make_run(make_case()), make_run(make_case()))
    assert exit_code(comparison_loads(dumps(seen))) == exit_code(seen) == 0


def test_three_broken_pairs_are_never_green(compare):
    """What is left is not what was planned."""
    broken = tuple(PairRecord(number=number, first="base", failed="killed") for number in (7, 8, 9))
    seen = compare((*make_pairs(1.0, 6), *broken))
    assert "3 pairs broke" in seen.verdicts[0].summary
    assert exit_code(seen) == 5
