import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.adapters import as_engine
from qwenperf.errors import EnvironmentUnfitError, UsageError
from qwenperf.gate import shapes
from qwenperf.gate.budget_set import CaseBudget
from qwenperf.lab.calls import repeat_calls, repeat_requests, steady_block
from qwenperf.lab.growth import find_growth
from qwenperf.schema.records import Outcome

PROMPT = np.array([[3, 1, 2]], np.int32)


def logits_of(tokens):
    return jax.nn.one_hot((tokens[:, -1] + 1) % 5, 5)


@jax.jit
def prefill(tokens):
    return logits_of(tokens), tokens


@jax.jit
def growing_step(token, seen):
    seen = jnp.concatenate([seen, token[:, None]], axis=1)
    return logits_of(seen), seen


@jax.jit
def fixed_step(token, seen):
    return logits_of(token[:, None]), seen


def test_equal_calls_compile_once():
    """The first call compiles, the second does not, and the last result comes back."""
    watched = repeat_calls(jax.jit(lambda x: x + 1), [(jnp.ones(3),)] * 2, name="f")
    assert watched.log.count("cold") == 1
    assert watched.record().metrics["compiles_steady"].value == 0
    assert watched.result.tolist() == [2, 2, 2]


def test_a_call_of_another_shape_names_the_argument():
    """A steady compile says which argument changed, from what to what, and on whose line."""

    @jax.jit
    def double(mine):
        return 2 * mine

    record = repeat_calls(double, [(jnp.ones(3),), (jnp.ones(4),)], name="double").record()
    event = next(event for event in record.evidence.compiles if event.phase == "steady")
    cause = next(cause for cause in event.causes if cause.what == "shape")
    assert event.function == "double"
    assert ("mine" in cause.argument, cause.before, cause.after) == (True, "f32[3]", "f32[4]")
    assert record.metrics["compiles_steady"].value == 1


def test_one_call_is_none_too_many():
    """A single call cannot show a recompile."""
    with pytest.raises(UsageError, match="at least two"):
        repeat_calls(print, [()], name="print")


def _streamed(tokens):
    yield prefill(tokens)


async def _awaited(tokens):
    return prefill(tokens)


async def _streamed_later(tokens):
    yield prefill(tokens)


@pytest.mark.parametrize(
    ("function", "seen", "advice"),
    [
        (_streamed, "generator", "list"),
        (lambda tokens: (tokens, map(prefill, [tokens])), "map", "list"),
        (_awaited, "coroutine", "asyncio.run"),
        (_streamed_later, "async_generator", "asyncio.run"),
    ],
)
def test_what_has_not_run_yet_is_no_answer(function, seen, advice):
    """A generator or a coroutine has compiled nothing when the call is over, and would pass whatever it does."""
    with pytest.raises(UsageError, match=rf"f returned a {seen}: what it is to do has not run\..* {advice}\("):
        repeat_calls(function, [(PROMPT,)] * 2, name="f")


def test_a_donated_argument_is_explained():
    """Calling again with an array that the first call gave up says what to hand over instead."""
    give_up = jax.jit(lambda x: x + 1, donate_argnums=0)
    with pytest.raises(UsageError, match=r"f gave up arguments\[0\].*calls="):
        repeat_calls(give_up, [(jnp.ones(3),)] * 2, name="f")


def test_a_growing_state_compiles_after_the_warm_steps():
    """A state that grows compiles in every step, and the step, its argument, both shapes and the line are named."""
    record = repeat_requests(as_engine((prefill, growing_step)), PROMPT, 6).record()
    events = [event for event in record.evidence.compiles if event.phase == "steady"]
    assert {event.function for event in events} == {"growing_step"}
    assert len(events) == 3
    (cause,) = events[-1].causes
    assert (cause.argument, cause.what, cause.after) == ("seen", "shape", "i32[1,7]")
    assert cause.before in {"i32[1,3]", "i32[1,6]"}
    assert "test_calls.py:" in events[-1].location


def test_a_fixed_state_compiles_nothing_after_the_warm_steps():
    """A stable pair generates its tokens without a steady compile."""
    watched = repeat_requests(as_engine((prefill, fixed_step)), PROMPT, 6)
    assert watched.log.count("steady") == 0
    assert watched.result.tolist() == [[3, 4, 0, 1, 2, 3]]


def test_a_growing_state_is_found_though_every_length_is_compiled():
    """The verdict does not depend on what ran before: the states after the steps differ, whatever is warm."""
    engine = as_engine((prefill, growing_step))
    engine.generate(PROMPT, 8)
    record = repeat_requests(engine, PROMPT, 6).record()
    assert record.metrics["compiles_steady"].value == 0
    verdict = shapes.judge(record, CaseBudget())
    assert verdict.outcome is Outcome.FAIL
    assert "changes its shape in each step: state i32[1,7] -> i32[1,8]" in verdict.summary
    assert find_growth(engine, PROMPT, 6)[0].data["after"] == "i32[1,6]"


@pytest.mark.parametrize("prompt", [[3, 1, 2], [[3, 1, 2]], (3, 1, 2), PROMPT])
def test_a_bare_function_that_grows_fails_whatever_its_prompt_is_made_of(prompt):
    """A list of tokens is a prompt as an array is: the request compiles once a token, and the first call told so."""

    @jax.jit
    def anew(tokens):
        return logits_of(tokens)

    def concatenating(tokens, new_tokens):
        tokens = jnp.asarray(np.atleast_2d(np.asarray(tokens)))
        for _ in range(new_tokens):
            tokens = jnp.concatenate([tokens, anew(tokens).argmax(-1)[:, None]], axis=1)
        return tokens

    record = repeat_calls(concatenating, [(prompt, 6)] * 2, name="concatenating").record()
    assert shapes.judge(record, CaseBudget()).outcome is Outcome.FAIL


@pytest.mark.parametrize("arguments", [([1.5, 2.5], 3), ([], 3), ([[]], 3), ("text", 3), ([1, 2], True), ({"a": 1}, 2)])
def test_other_arguments_are_no_request(arguments):
    """Two arguments of another kind are not taken for tokens and a number of them."""
    assert repeat_calls(lambda *_: jnp.ones(1), [arguments] * 2, name="f").workload is None


def test_a_state_that_stays_does_not_grow():
    """Neither a constant shape, nor fewer than two comparisons, is growth."""
    assert find_growth(as_engine((prefill, fixed_step)), PROMPT, 6) == ()
    assert find_growth(as_engine((prefill, growing_step)), PROMPT, 3) == ()


class Loop:
    """Steps that are stable, and a request that does not run them: what it compiles is new with each call."""

    prefill, decode_step = staticmethod(prefill), staticmethod(fixed_step)

    def generate(self, tokens, new_tokens):
        """Count on from the last token."""
        return jax.jit(lambda last: (last + 1 + jnp.arange(new_tokens)[None]) % 5)(tokens[:, -1:])


def test_an_engine_with_steps_is_asked_for_requests_too():
    """A loop that compiles anew for each request fails, though no step does."""
    watched = repeat_requests(as_engine(Loop()), PROMPT, 5)
    assert watched.log.count("steady") == 1
    assert watched.result.tolist() == [[3, 4, 0, 1, 2]]


def test_the_second_prefill_is_steady():
    """A prefill that compiles anew for each prompt is seen at the second."""

    def anew(tokens):
        return jax.jit(lambda tokens: (logits_of(tokens), tokens))(tokens)

    assert repeat_requests(as_engine((anew, fixed_step)), PROMPT, 5).log.count("steady") > 0


def test_a_refused_call_is_evidence():
    """An ahead-of-time executable that refuses a call ends the series, and the refusal is in the record."""
    compiled = jax.jit(lambda c: c + 1).lower(jnp.ones(3)).compile()
    record = repeat_calls(compiled, [(jnp.ones(3),), (jnp.ones(4),)], name="step").record()
    (event,) = [event for event in record.evidence.compiles if event.refused]
    assert (event.function, event.phase) == ("step", "steady")
    assert event.causes[0].after == "f32[4]"


def test_a_block_is_steady_from_its_start():
    """Whatever compiles within a watched block counts."""
    double = jax.jit(lambda x: 2 * x)
    double(np.ones(3))
    with steady_block("block") as quiet:
        double(np.ones(3))
    with steady_block("block") as loud:
        double(np.ones(5))
    assert (quiet.log.count("steady"), loud.log.count("steady")) == (0, 1)


@pytest.mark.parametrize("flag", [jax.disable_jit, jax.debug_nans])
def test_under_debugging_no_question_is_answered(flag):
    """Where nothing is compiled nothing is ever compiled again: that is no pass."""
    pair = as_engine((prefill, fixed_step))
    with flag(True):
        with pytest.raises(EnvironmentUnfitError, match=flag.__name__.upper()):
            repeat_calls(prefill, [(PROMPT,)] * 2, name="prefill")
        with pytest.raises(EnvironmentUnfitError, match="Unset it to measure"):
            repeat_requests(pair, PROMPT, 4)
        with pytest.raises(EnvironmentUnfitError, match="Unset it to measure"), steady_block("the block"):
            pytest.fail("the block was entered")
