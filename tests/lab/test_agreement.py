import numpy as np
import pytest

from qwenperf.adapters import CallableEngine, StepsEngine
from qwenperf.errors import MeasurementError, UsageError
from qwenperf.gate import tokens
from qwenperf.lab.agreement import compare_with_engine, compare_with_uncached, find_truth
from qwenperf.schema.records import Outcome
from qwenperf.workloads.case import Workload

PROMPT = np.array([[3, 1], [0, 4]], np.int32)
WORK = Workload(batch=2, prompt_length=2, new_tokens=4)


def uncached(tokens_BT):
    return np.eye(5, dtype=np.float32)[(np.asarray(tokens_BT) + 1) % 5]


def generate(tokens_BT, new_tokens):
    return (np.asarray(tokens_BT)[:, -1:] + 1 + np.arange(new_tokens)) % 5


def slipping(tokens_BT, new_tokens):
    rows = generate(tokens_BT, new_tokens)
    rows[1, 2] += 1
    return rows % 5


def engine_of(call, **more):
    return CallableEngine(name=call.__name__, call=call, **more)


def test_equal_tokens_are_a_record_that_the_gate_passes():
    """Without steps there are no logits to compare, and the tokens alone decide."""
    case = compare_with_uncached(engine_of(generate, uncached_logits=uncached), WORK, PROMPT)
    assert case.metrics["tokens_equal"].value == 1
    assert tokens.judge(case).outcome is Outcome.PASS


@pytest.mark.parametrize("trusted", [engine_of(generate), engine_of(generate, uncached_logits=uncached)])
def test_the_first_difference_is_found_with_and_without_logits(trusted):
    """Row, position and both tokens; margins only where the trusted engine has logits."""
    case = compare_with_engine(engine_of(slipping), trusted, WORK, PROMPT)
    seen = case.evidence.divergence
    assert (seen.row, seen.position, seen.expected_token, seen.actual_token) == (1, 2, 2, 3)
    assert (seen.reference_margin is None) == (trusted.uncached_logits is None)
    assert case.metrics["tokens_equal"].value == 0.5
    verdict = tokens.judge(case)
    assert verdict.outcome is Outcome.FAIL
    assert ("gives no logits" in verdict.summary) == (trusted.uncached_logits is None)


def test_an_engine_with_steps_is_its_own_truth():
    """Prefill on every prefix stands in for uncached logits; the engine's own come first."""
    steps = StepsEngine(name="steps", first=lambda tokens: (uncached(tokens), None), step=generate)
    truth = find_truth(steps, 2)
    np.testing.assert_array_equal(np.asarray(truth(PROMPT))[:, 1:], uncached(PROMPT)[:, 1:])
    assert find_truth(engine_of(generate, uncached_logits=uncached), 2) is uncached


def test_nothing_to_compare_with_is_an_error():
    """Green without a comparison would be a lie."""
    with pytest.raises(UsageError, match="generate has no uncached logits"):
        compare_with_uncached(engine_of(generate), WORK, PROMPT)


def test_what_is_no_answer_is_named():
    """Fractions are no tokens."""
    fractions = CallableEngine(name="fractions", call=lambda prompt, n: np.full((len(prompt), n), 0.5))
    with pytest.raises(MeasurementError, match=r"fractions\(\) returned float.*\[2, 4\]"):
        compare_with_engine(fractions, engine_of(generate), WORK, PROMPT)
