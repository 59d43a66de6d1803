import dataclasses

import pytest

from qwenperf.gate import rotary
from qwenperf.schema.records import Outcome, ProgramFacts

STEP = ProgramFacts(name="decode_step", operations={"dot": 8, "cosine": 2})


def test_a_step_without_trigonometry_passes(make_case):
    """The message says how much was looked at."""
    verdict = rotary.judge(make_case())
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary == "no sine or cosine among the 28 operations of decode_step"


def test_tables_rebuilt_in_the_step_name_the_line(make_case):
    """The operation leads to its source."""
    found = ("cosine from rotary.py:88", "sine from rotary.py:89")
    verdict = rotary.judge(make_case(evidence={"program": dataclasses.replace(STEP, trigonometric=found)}))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == (
        "decode_step computes rotary angles anew in each step: cosine from rotary.py:88 and 1 other place"
    )
    assert verdict.detail == found
    assert "once" in verdict.advice


def test_a_loop_on_the_device_is_read_beside_the_step(make_case):
    """A request runs the loop: what its body computes counts, however clean the single step is."""
    clean = make_case().evidence.program
    loop = ProgramFacts(name="generate", operations={"while": 1}, trigonometric=("sine from loop.py:9",))
    verdict = rotary.judge(make_case(evidence={"programs": (clean, loop)}))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.summary == "generate computes rotary angles anew in each step: sine from loop.py:9"
    fine = dataclasses.replace(loop, trigonometric=())
    assert rotary.judge(make_case(evidence={"programs": (clean, fine)})).summary.endswith("decode_step and generate")


@pytest.mark.parametrize("program", [None, ProgramFacts(name="decode_step")])
def test_a_program_that_was_not_read_is_never_a_pass(make_case, program):
    """No operations seen is not the same as none there."""
    verdict = rotary.judge(make_case(evidence={"program": program}))
    assert verdict.outcome is Outcome.SKIPPED
    assert "programs" in verdict.advice
