from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.gate.budget import parse
from qwenperf.gate.evaluate import STEP_GATES, judge_case
from qwenperf.lab.measure_step import measure_step
from qwenperf.schema.codec import dumps, loads
from qwenperf.schema.records import Outcome, RunRecord

SIZE = 64
"""A state of 16 KiB: more than what may be held twice."""


def state():
    return {"w": jnp.ones((SIZE, SIZE)), "momentum": jnp.zeros((SIZE, SIZE))}


def update(state, batch, scale=1):
    change = 0.9 * state["momentum"] + scale * jnp.mean(batch)
    return {"w": state["w"] - 0.1 * change, "momentum": change}, jnp.sum(change)


def train_step(state, batch):
    return update(state, batch)


BATCH = jnp.ones((4,))
good_step = jax.jit(train_step, donate_argnames="state")


def verdicts(case, budgets=None):
    return {one.gate: one for one in judge_case(case, parse({"*": budgets} if budgets else {}), {})}


@pytest.fixture(scope="module")
def good():
    return measure_step(good_step, state(), BATCH, trials=3, tokens_per_call=7)


def test_a_sound_step_passes_its_gates_and_no_gate_of_engines_is_asked(good):
    """Shapes are stable, the state is updated in place; tokens and caches are nobody's business."""
    found = verdicts(good)
    assert tuple(found) == STEP_GATES
    assert {one.outcome for one in found.values()} == {Outcome.PASS}
    assert found["carry-alias"].summary == "the carried state of 32.8 kB is updated in place"
    assert good.metrics["compiles_cold"].value >= 1
    assert good.metrics["compiles_steady"].value == 0


def test_a_record_says_how_fast_calls_are_and_what_they_hold(good):
    """Tokens are counted as the caller says; bytes are the compiler's."""
    assert len(good.metrics["call_s"].samples) == 3
    rate = good.metrics["call_tokens_per_s"].value / good.metrics["calls_per_s"].value
    assert rate == pytest.approx(7)
    assert good.metrics["alias_bytes"].value >= 2 * 4 * SIZE**2
    assert good.metrics["peak_bytes"].value >= 2 * 4 * SIZE**2


def test_a_saved_record_is_judged_alike(good):
    """Gates read the record alone."""
    run = RunRecord(id="x", created_at="2026-01-01T00:00:00+00:00", suite="pytest", environment={}, cases=(good,))
    (again,) = loads(dumps(run)).cases
    assert verdicts(again) == verdicts(good)


def test_budgets_hold_memory_and_throughput(good):
    """A limit on bytes or calls is judged like any other metric's; one for engines cannot be, and is not left out."""
    found = verdicts(
        good, {"peak_bytes": {"max": 1000}, "calls_per_s": {"min": 1e-6}, "decode_tokens_per_s": {"min": 1}}
    )
    assert found["budget:peak_bytes"].outcome is Outcome.FAIL
    assert found["budget:calls_per_s"].outcome is Outcome.PASS
    assert found["throughput"].outcome is Outcome.SKIPPED
    assert found["throughput"].data["budget"] == "not judged"


def test_a_static_counter_fails_shapes_with_its_name():
    """A Python number that is static is one program a value."""

    def numbered(state, batch, number):
        return update(state, batch, number)

    step = jax.jit(numbered, static_argnames="number", donate_argnames="state")
    case = measure_step(step, state(), calls=[(BATCH, number) for number in range(5)], trials=0)
    found = verdicts(case)["shapes"]
    assert found.outcome is Outcome.FAIL
    assert "numbered compiled 3 times after warm-up: argument `number` changed static" in found.summary
    assert verdicts(case)["carry-alias"].outcome is Outcome.PASS


def test_a_state_that_is_not_donated_fails_with_its_name():
    """Old and new state are held at once."""
    found = verdicts(measure_step(jax.jit(train_step), state(), BATCH, trials=0))["carry-alias"]
    assert found.outcome is Outcome.FAIL
    assert "train_step carries `state['momentum'] f32[64,64]` from call to call" in found.summary
    assert "32.8 kB are held twice" in found.summary
    assert any("state['w']" in line for line in found.detail)


def test_a_donation_that_is_lost_fails_with_its_name():
    """What is donated and comes back as nothing is copied, or thrown away."""

    def forgetful(state, batch, spare):
        return update(state, batch * spare[0])

    step = jax.jit(forgetful, donate_argnames=("state", "spare"))
    spares = [(BATCH, jnp.ones((SIZE + 1,))) for _ in range(4)]
    found = verdicts(measure_step(step, state(), calls=spares, trials=0))["carry-alias"]
    assert found.outcome is Outcome.FAIL
    assert found.summary == "forgetful: `spare f32[65]` was donated and did not alias"


def test_several_arguments_and_the_whole_result_can_be_carried():
    """By number, by name and place, or where the result is the state."""

    @partial(jax.jit, donate_argnums=(0, 1))
    def two(w, momentum, batch):
        new, loss = update({"w": w, "momentum": momentum}, batch)
        return new["w"], new["momentum"], loss

    @partial(jax.jit, donate_argnames="cache")
    def last(token, cache):
        return token + 1, cache.at[0, 0].add(token[0])

    @partial(jax.jit, donate_argnames="x")
    def whole(x):
        return x * 0.5

    cases = [
        measure_step(two, *state().values(), BATCH, carry=2, trials=0),
        measure_step(last, BATCH, jnp.zeros((SIZE, SIZE)), carry={"cache": 1}, trials=0),
        measure_step(whole, jnp.ones((SIZE, SIZE)), trials=0),
    ]
    assert [case.spec["carry"] for case in cases] == [["w", "momentum"], ["cache"], ["x"]]
    for case in cases:
        assert {one.outcome for one in verdicts(case).values()} == {Outcome.PASS}


@partial(jax.jit, donate_argnums=(0, 1))
def any_number(*arrays):
    return arrays[0] + arrays[2].sum(), arrays[1] * 2


@partial(jax.jit, donate_argnums=(1, 2))
def bound(scale, *arrays):
    return arrays[0] + scale * arrays[2].sum(), arrays[1] * 2


@partial(jax.jit, donate_argnums=(0, 1), static_argnames="power")
def with_keywords(left, right, batch, *, scale, power=1):
    return left + scale * batch.sum() ** power, right * 2


@pytest.mark.parametrize(
    "step",
    [any_number, partial(bound, 2.0), partial(with_keywords, scale=2.0, power=2), partial(with_keywords, scale=1)],
)
def test_a_step_is_read_however_it_takes_its_arguments(step):
    """Arguments without a name of their own, and keywords that a partial has, hide no donation."""
    large = [jnp.ones((SIZE, SIZE)), jnp.zeros((SIZE, SIZE))]
    case = measure_step(step, *large, BATCH, carry=2)
    assert verdicts(case)["carry-alias"].outcome is Outcome.PASS
    assert case.evidence.program is not None
    assert case.evidence.program.extra["undonated"] == []


def test_a_partial_with_keywords_fails_for_what_it_does_not_donate():
    """The program behind it is the one that is judged."""
    step = partial(jax.jit(lambda state, batch, *, scale: update(state, batch, scale)), scale=2)
    verdict = verdicts(measure_step(step, state(), BATCH))["carry-alias"]
    assert verdict.outcome is Outcome.FAIL
    assert "state['momentum'] f32[64,64]" in verdict.summary


def test_a_function_that_is_not_jitted_has_no_program_to_judge():
    """Its compiles are counted all the same; nothing passes for what was not seen."""

    def wrapped(state, batch):
        return good_step(state, batch)

    found = verdicts(measure_step(wrapped, state(), BATCH, trials=0))
    assert found["shapes"].outcome is Outcome.PASS
    assert found["carry-alias"].outcome is Outcome.SKIPPED


def test_a_state_that_grows_fails_shapes():
    """One program a length, in each call."""
    step = jax.jit(lambda x: jnp.concatenate([x, x[:1]]))
    found = verdicts(measure_step(step, jnp.ones((2, 4)), trials=0))["shapes"]
    assert found.outcome is Outcome.FAIL
    assert "changed shape" in found.summary


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((), {}, "carries state; 0 argument"),
        ((1.0, BATCH), {"calls": 2}, r"2 call\(s\) of train_step"),
        ((1.0, BATCH), {"carry": 0}, "carry=0 names nothing"),
        ((1.0, BATCH), {"carry": {"stat": 0}}, "no argument 'stat' to carry. Did you mean 'state'"),
    ],
)
def test_a_question_that_means_nothing_is_refused(arguments, options, message):
    """What was given is named, before anything runs."""
    with pytest.raises(UsageError, match=message):
        measure_step(jax.jit(train_step), *arguments, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"tokens_per_call": 0},
        {"tokens_per_call": -5},
        {"tokens_per_call": float("nan")},
        {"tokens_per_call": "8"},
        {"tokens_per_call": True},
        {"calls": 4.0},
        {"calls": "4"},
        {"calls": -1},
        {"trials": -1},
        {"trials": 2.5},
    ],
    ids=str,
)
def test_a_number_that_is_none_is_refused(options):
    """It would become a rate, or a measurement of nothing."""
    ((name, value),) = options.items()
    with pytest.raises(UsageError, match=f"{name}={value!r} is not a whole number of at least [01]"):
        measure_step(good_step, state(), BATCH, **options)


def test_numpy_s_whole_numbers_will_do():
    """They are what a computed number is; the record has Python's."""
    numbers = {"calls": np.int64(4), "trials": np.int32(1), "tokens_per_call": np.int64(2)}
    case = measure_step(good_step, state(), BATCH, **numbers)
    assert type(case.spec["calls"]) is type(case.spec["tokens_per_call"]) is int
    assert len(case.metrics["call_s"].samples) == 1


def test_a_function_of_numpy_is_refused():
    """Nothing of it is compiled: no recompile could be seen, and a pass would mean nothing."""
    with pytest.raises(UsageError, match=r"halved returned no array of JAX: nothing of it is compiled\. .*jax\.jit"):
        measure_step(lambda x: x / 2, np.ones(4), trials=0, name="halved")


def test_a_result_without_the_state_and_a_state_that_was_used_up_are_refused():
    """With the name of the argument."""
    with pytest.raises(UsageError, match="returned a dict; the next state, batch cannot be found"):
        measure_step(jax.jit(lambda state, batch: update(state, batch)[0]), state(), BATCH, carry=2, trials=0, name="f")
    used = state()
    measure_step(good_step, used, BATCH, trials=0)
    with pytest.raises(UsageError, match=r"gave up .* make a new one"):
        measure_step(good_step, used, BATCH, trials=0)


def test_under_debugging_nothing_is_said_of_donation():
    """JAX donates nothing then, however the step was written."""
    with jax.debug_nans(True), pytest.raises(EnvironmentUnfitError, match="JAX_DEBUG_NANS set"):
        measure_step(good_step, state(), BATCH)
