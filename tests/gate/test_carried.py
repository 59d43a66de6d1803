from dataclasses import replace

from qwenperf.gate import carried
from qwenperf.schema.records import CaseRecord, Evidence, Outcome, ProgramFacts

STEP = ProgramFacts(name="train_step", alias_bytes=100_000, extra={"undonated": [], "carried_bytes": 100_000})


def judge(**changes):
    program = replace(STEP, **changes)
    return carried.judge(CaseRecord(id="x", spec={"step": "train_step"}, evidence=Evidence(program=program)))


def undonated(*names):
    return judge(extra={"undonated": list(names), "carried_bytes": 100_000})


def test_a_state_that_is_updated_in_place_passes():
    """All of it is donated, and all that is donated aliases."""
    verdict = judge()
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary == "the carried state of 100 kB is updated in place"


def test_every_lost_donation_is_named():
    """However small: it was asked for."""
    verdict = judge(unaliased_donations=("key u32[2]", "state.w f32[8,8]"))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == "train_step: `key u32[2]` was donated and did not alias, and 1 more"
    assert verdict.detail[1] == "not aliased: `state.w f32[8,8]`"


def test_what_is_carried_and_not_donated_is_named_the_largest_first():
    """It is held twice."""
    verdict = undonated("state['count'] s32[]", "state['w'] f32[64,64]")
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == (
        "train_step carries `state['w'] f32[64,64]` from call to call and does not donate it, and 1 more: "
        "16.4 kB are held twice"
    )


def test_a_counter_may_be_held_twice():
    """Less than a page costs nothing, and is told."""
    verdict = undonated("step s32[]", "key u32[2]")
    assert verdict.outcome is Outcome.PASS
    assert len(verdict.detail) == 2


def test_an_array_of_unknown_size_is_not_small():
    """A dtype without a number of bits in its name, for one."""
    assert undonated("state token[]").outcome is Outcome.FAIL


def test_without_a_program_nothing_passes():
    """With what to do."""
    verdict = carried.judge(CaseRecord(id="x", spec={"step": "f"}))
    assert verdict.outcome is Outcome.SKIPPED
    assert "jitted function itself" in verdict.advice
