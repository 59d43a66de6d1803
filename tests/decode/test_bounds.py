import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.errors import CapacityError, ConfigError, TokenError, UnknownNameError

RUNGS = ("naive", "cached-concat", "cached")


@pytest.mark.parametrize("rung", RUNGS)
def test_a_request_that_does_not_fit_is_refused_before_anything_runs(rung, engine, prompt):
    """The message counts prompt, new tokens and capacity; no program is compiled for it."""
    fresh = engine(rung)
    with pytest.raises(CapacityError, match=r"prompt of 11 and 6 new tokens need 17 positions; the capacity is 16"):
        fresh.generate(prompt(2, 11), 6)
    with pytest.raises(CapacityError, match="17 positions"):
        fresh.stream(prompt(2, 11), 6)
    with pytest.raises(CapacityError, match="a prompt of 17"):
        fresh.prefill(prompt(2, 17))


@pytest.mark.parametrize("rung", ["padded", "cached"])
def test_a_step_past_the_last_position_is_refused(rung, engine, prompt):
    """dynamic_update_slice would overwrite the last position instead."""
    _, state = engine(rung).prefill(prompt(1, 7))
    for _ in range(9):
        _, state = engine(rung).decode_step(np.zeros(1, np.int32), state)
    with pytest.raises(CapacityError, match=r"16 positions are filled .* the capacity is 16"):
        engine(rung).decode_step(np.zeros(1, np.int32), state)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (np.zeros((1, 0), np.int32), "empty"),
        ([[]], "empty"),
        ([[3, 256]], r"token 256 at \[0, 1\] is outside the vocabulary of 256"),
        ([[3], [-1]], r"token -1 at \[1, 0\]"),
        ([3, 4], r"shape \(2,\); expected \[batch, length\]"),
        ([[3.0, 4.0]], "dtype float64"),
        ([[True, False]], "dtype bool"),
        ([[3, 4], [5]], "rows of different lengths"),
    ],
)
def test_a_prompt_that_no_engine_can_read_is_refused(tokens, message, engine):
    """Empty, outside the vocabulary, or of another rank or dtype."""
    with pytest.raises(TokenError, match=message):
        engine("cached").generate(tokens, 2)


@pytest.mark.parametrize("new_tokens", [0, -1, 2.0, True])
def test_new_tokens_are_a_whole_number_of_at_least_one(new_tokens, engine, prompt):
    """What was given is said."""
    with pytest.raises(TokenError, match=f"new_tokens is {new_tokens!r}"):
        engine("cached").generate(prompt(1, 1), new_tokens)


@pytest.mark.parametrize("ask", ["plan", "compile", "programs", "facts"])
@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 7, 5), ConfigError, "batch is 0"),
        ((-1, 7, 5), ConfigError, "batch is -1"),
        ((True, 7, 5), ConfigError, "batch is True"),
        ((2**31, 7, 5), ConfigError, "batch is 2147483648"),
        ((1, 0, 5), ConfigError, "prompt_length is 0"),
        ((1, 7.0, 5), ConfigError, r"prompt_length is 7\.0"),
        ((1, "7", 5), ConfigError, "prompt_length is '7'"),
        ((1, 7, 0), TokenError, "new_tokens is 0"),
        ((1, 7, 10), CapacityError, "17 positions"),
    ],
)
def test_sizes_of_a_workload_are_checked_before_anything_is_compiled(ask, sizes, error, message, engine):
    """A batch of none would compile to programs of nothing, and facts would be told of nobody."""
    with pytest.raises(error, match=message):
        getattr(engine("cached"), ask)(*sizes)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (np.zeros(2, np.int32), "2 tokens for a state of 1 rows"),
        (np.asarray([256]), "token 256"),
        (np.zeros((1, 1), np.int32), r"expected \[batch\]"),
    ],
)
def test_a_step_checks_its_tokens(tokens, message, engine, prompt):
    """Before the state is given up: it can still be used."""
    _, state = engine("cached").prefill(prompt(1, 7))
    with pytest.raises(TokenError, match=message):
        engine("cached").decode_step(tokens, state)
    engine("cached").decode_step(np.zeros(1, np.int32), state)


@pytest.mark.parametrize("capacity", [0, -4, 2.5, True])
def test_a_capacity_is_a_whole_number_of_at_least_one(capacity, model):
    """What was given is said."""
    with pytest.raises(ConfigError, match="capacity is"):
        build_engine(model, "cached", capacity=capacity)


def test_a_capacity_is_any_whole_number(model):
    """Sizes that come out of arrays are NumPy's."""
    assert build_engine(model, "cached", capacity=np.int64(32)).capacity == 32


def test_a_capacity_beyond_the_models_positions_is_refused(model):
    """Rotary positions that the model never saw give tokens without meaning."""
    with pytest.raises(ConfigError, match="capacity 1025 is more than the model's max_position_embeddings 1024"):
        build_engine(model, "cached", capacity=1025)


def test_an_unknown_rung_offers_the_nearest(model):
    """A typing error in a rung's name."""
    with pytest.raises(UnknownNameError, match="Did you mean 'cached'"):
        build_engine(model, "cache")
