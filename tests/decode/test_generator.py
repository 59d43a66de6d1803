"""Generation from ragged batches: every row gets what it gets alone, and whatever is asked for is data."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.generator import build_generator
from qwenperf.decode.requests import check
from qwenperf.decode.sampling import GREEDY, Sampling
from qwenperf.errors import CapacityError, ConfigError, TokenError, UnknownNameError, UsageError
from qwenperf.measure.compiles import CompileLog
from qwenperf.models.config import ModelConfig
from qwenperf.models.decoder import logits
from qwenperf.models.registry import Model, load_model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.models import PRESETS

CAPACITY = 16
PROMPTS = [[5, 6, 7, 8, 9, 10], [3], [40, 11, 12]]
SAMPLING = Sampling(temperature=0.8, top_k=30, top_p=0.95, min_p=0.01)
GPT2 = PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64, "n_positions": CAPACITY}


@cache
def model(name):
    if name != "gpt2":
        return load_model(name)
    config = ModelConfig.from_hf(GPT2)
    return Model(name="gpt2", config=config, params=seeded_params(config, seed=2), dtype="f32")


@cache
def generator(name="tiny", engine="cached+bucket=8", capacity=CAPACITY):
    """Return the one generator of these settings: prompts of up to 8 tokens share their programs."""
    return build_generator(model(name), engine, capacity=capacity)


@cache
def truth(name):
    return jax.jit(partial(logits, model(name).params, model(name).config))


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(3), 3)


@pytest.fixture(scope="module")
def greedy():
    """What the batch gives greedily; other tests compare with it."""
    return generator().generate(PROMPTS, 6).rows()


@pytest.mark.parametrize(("name", "engine"), [("tiny", "cached+bucket=8"), ("gpt2", "cached-host+bucket=8")])
def test_each_row_of_a_ragged_batch_gets_its_greedy_tokens(name, engine):
    """Every token is the choice of an uncached pass over that row alone; rotary, learned positions, both loops."""
    rows = generator(name, engine).generate(PROMPTS, 6).rows()
    for prompt, new in zip(PROMPTS, rows, strict=True):
        whole = np.zeros((1, CAPACITY), np.int32)
        whole[0, : len(prompt) + 6] = prompt + new
        chosen = np.asarray(truth(name)(whole)).argmax(-1)[0]
        assert new == chosen[len(prompt) - 1 : len(prompt) + 5].tolist()
    assert len({token for new in rows for token in new}) > 4


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLING])
def test_each_row_gets_the_tokens_that_it_gets_alone(sampling, keys):
    """The same key gives the same tokens at any place in a batch of any size, on the host and on the device."""
    together = generator().generate(PROMPTS, 6, sampling=sampling, keys=keys).rows()
    assert together == generator("tiny", "cached-host").generate(PROMPTS, 6, sampling=sampling, keys=keys).rows()
    for index, prompt in enumerate(PROMPTS):
        alone = generator().generate([prompt], 6, sampling=sampling, keys=keys[index : index + 1])
        assert alone.rows() == [together[index]]
    turned = generator().generate(PROMPTS[::-1], 6, sampling=sampling, keys=keys[::-1]).rows()
    assert turned[::-1] == together


@pytest.mark.slow
def test_settings_of_the_forward_pass_hold_for_ragged_rows_too():
    """A row gets the tokens that an engine of the same settings gives it, padding and quantised cache and all."""
    settings = "cached+layers=scanned+mask=table+window=3+cache_dtype=int8"
    rows = generator("tiny", settings).generate(PROMPTS, 6).rows()
    alone = build_engine(model("tiny"), settings, capacity=CAPACITY).generate([PROMPTS[2]], 6)
    assert rows[2] == alone[0].tolist()


def test_other_keys_give_other_tokens(keys):
    """The draw is one."""
    first, second = (generator().generate(PROMPTS, 6, sampling=Sampling(), keys=k).rows() for k in (keys, keys[::-1]))
    assert first != second


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_at_either_end_changes_no_token(side, greedy):
    """What stands in the padding, even what is no token, is never read."""
    tokens, mask = np.full((3, 7), -100), np.zeros((3, 7), np.int32)
    for index, prompt in enumerate(PROMPTS):
        place = slice(7 - len(prompt), 7) if side == "left" else slice(len(prompt))
        tokens[index, place], mask[index, place] = prompt, 1
    assert generator().generate(tokens, 6, attention_mask=mask).rows() == greedy


@pytest.mark.parametrize("engine", ["cached+bucket=8", "cached-host"])
def test_a_stop_token_ends_its_row_and_no_other(engine, greedy):
    """The stop token counts, padding follows, and the other rows go on to the end."""
    stop = [[greedy[0][2]], [], [greedy[2][1]]]
    out = generator("tiny", engine).generate(PROMPTS, 6, stop=stop, pad=9)
    ends = [greedy[0].index(stop[0][0]) + 1, 6, greedy[2].index(stop[2][0]) + 1]
    assert out.rows() == [row[:end] for row, end in zip(greedy, ends, strict=True)]
    assert out.counts.tolist() == ends
    assert out.stopped.tolist() == [True, False, True]
    assert (out.tokens[0, ends[0] :] == 9).all()


@pytest.mark.parametrize("engine", ["cached+bucket=8", "cached-host"])
def test_the_loop_ends_when_every_row_has_ended(engine, greedy):
    """The cache then holds the prompts and the two tokens that were fed, and no more."""
    chosen = generator("tiny", engine)
    out = chosen.generate(PROMPTS, 6, stop=[[row[2]] for row in greedy], pad=1)
    longest = max(out.counts)
    width = 8 if "bucket" in engine else 6
    assert longest <= 3
    assert int(chosen.spare[3].cache.length) == width + longest - 1
    assert out.tokens.shape == (3, 6)


def test_a_stream_gives_the_same_tokens_and_they_stay_readable(greedy):
    """What was yielded is the caller's: later steps do not take it back."""
    steps = list(generator().stream(PROMPTS, 6, stop=[greedy[0][-1]]))
    tokens = np.stack([np.asarray(step.tokens) for step in steps], axis=1)
    assert tokens[1].tolist() == greedy[1]
    assert np.asarray(steps[-1].ended)[0]
    assert not np.asarray(steps[0].ended).any()


def test_nothing_that_a_request_asks_for_compiles_anything(keys):
    """Temperature, filters, keys, stop and padding tokens, lengths and the number of tokens are data."""
    chosen = generator()
    list(chosen.stream(PROMPTS, 3))
    chosen.generate(PROMPTS, 3)
    with CompileLog() as log:
        chosen.generate(PROMPTS, 4, sampling=SAMPLING, keys=keys, stop=[1, 2], pad=3)
        chosen.generate([[1, 2], [3], [4, 5, 6, 7, 8, 9, 10]], 8, sampling=[GREEDY, SAMPLING, Sampling()], keys=keys)
        list(chosen.stream(PROMPTS, 5, sampling=Sampling(temperature=3.0), keys=keys, stop=[[1], [], [2, 3]]))
    assert log.count() == 0


BAD = {
    "a token beyond the vocabulary": (TokenError, "prompt 1: token 256 at", {"prompts": [[1], [256], [2]]}),
    "a negative token": (TokenError, "prompt 0: token -1 at", {"prompts": [[-1], [2], [3]]}),
    "an empty prompt": (TokenError, "prompt 1 is empty", {"prompts": [[1], [], [3]]}),
    "no prompts": (TokenError, "no prompts", {"prompts": []}),
    "text": (TokenError, "prompts are 'hello'", {"prompts": "hello"}),
    "numbers that are no tokens": (TokenError, "dtype float64", {"prompts": [[1.5], [2], [3]]}),
    "one flat list": (TokenError, "prompt 0 is 1", {"prompts": [1, 2, 3]}),
    "a prompt beyond the cache": (CapacityError, "need 21 positions", {"prompts": [[1] * 15, [2], [3]]}),
    "no new tokens": (TokenError, "new_tokens is 0", {"new_tokens": 0}),
    "padding amid tokens": (
        TokenError,
        "prompt 0 has padding between",
        {"prompts": np.ones((3, 3), int), "attention_mask": np.array([[1, 0, 1], [1, 1, 1], [1, 1, 1]])},
    ),
    "a mask that masks all": (
        TokenError,
        "prompt 2 is empty",
        {"prompts": np.ones((3, 2), int), "attention_mask": np.array([[1, 1], [1, 1], [0, 0]])},
    ),
    "a mask of text": (
        TokenError,
        "the attention mask of prompt 0 has",
        {"prompts": np.ones((3, 2), int), "attention_mask": np.array([["1", "0"]] * 3)},
    ),
    "a mask that is added to scores": (
        TokenError,
        "the attention mask of prompt 0 has",
        {"prompts": np.ones((3, 2), int), "attention_mask": np.array([[0, -np.inf]] * 3)},
    ),
    "a mask of another shape": (TokenError, "the attention mask is", {"attention_mask": np.ones((3, 2))}),
    "a stop token beyond the vocabulary": (TokenError, "stop token 256 is outside", {"stop": [3, 256]}),
    "a stop that is one number": (TokenError, "stop is 3", {"stop": 3}),
    "a stop that is text": (TokenError, "stop token 'x' is no", {"stop": ["x"]}),
    "a stop that is one number in an array": (TokenError, "stop is 3", {"stop": jnp.int32(3)}),
    "stops that are no whole numbers": (TokenError, "array of float32", {"stop": jnp.array([1.0])}),
    "stops that are keys": (TokenError, r"array of key<fry>", {"stop": jax.random.split(jax.random.key(0), 3)}),
    "an unknown option": (UsageError, "unknown request option 'stops'. Did you mean 'stop'", {"stops": [1]}),
    "an option of an inner function": (UsageError, "unknown request option 'limits'", {"limits": 3}),
    "stops of too few rows": (TokenError, "2 lists of stop tokens for 3", {"stop": [[1], [2]]}),
    "a padding token beyond the vocabulary": (TokenError, "pad token 256", {"pad": 256}),
    "sampling without keys": (ConfigError, "sampling needs keys", {"sampling": Sampling()}),
    "sampling that is none": (ConfigError, "sampling is 0.7", {"sampling": 0.7}),
    "samplings of too few rows": (ConfigError, "2 samplings for 3", {"sampling": [GREEDY, GREEDY]}),
    "a seed for keys": (ConfigError, "keys are 7, which are no typed", {"keys": 7}),
    "old keys": (ConfigError, r"keys are uint32\[3, 2\]", {"keys": jnp.zeros((3, 2), jnp.uint32)}),
    "one key for three rows": (ConfigError, r"keys have shape \(\)", {"keys": jax.random.key(0)}),
    "keys of another kind": (ConfigError, "of kind rbg", {"keys": jax.random.split(jax.random.key(0, impl="rbg"), 3)}),
}


@pytest.mark.parametrize(
    ("stop", "same"),
    [
        (jnp.array([1, 2]), [1, 2]),
        (np.array([[1, 2], [3, 4], [5, 6]]), [[1, 2], [3, 4], [5, 6]]),
        ([jnp.array([1]), np.array([2, 3]), []], [[1], [2, 3], []]),
        ([jnp.int32(1), np.int64(2)], [1, 2]),
        (np.array([]), []),
    ],
)
def test_stop_tokens_may_be_arrays(stop, same):
    """They mean what lists of the same numbers mean."""
    limits = generator().limits
    given, told = (check(PROMPTS, 6, limits, stop=one).data.stops for one in (stop, same))
    np.testing.assert_array_equal(given, told)


@pytest.mark.parametrize("call", ["generate", "stream"])
@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_refused_and_leave_nothing_behind(name, call, greedy):
    """At once, in words, before anything runs; the next good request gets its tokens."""
    kind, words, wishes = BAD[name]
    chosen = generator()
    before = dict(chosen.spare)
    with pytest.raises(kind, match=words):
        getattr(chosen, call)(**{"prompts": PROMPTS, "new_tokens": 6} | wishes)
    assert chosen.spare.keys() == before.keys()
    assert all(chosen.spare[batch] is state for batch, state in before.items())
    if call == "generate" and name in list(BAD)[::6]:
        assert chosen.generate(PROMPTS, 6).rows() == greedy


def test_a_stream_given_up_midway_leaves_nothing_behind(greedy):
    """The next request starts from a clean state."""
    stream = generator().stream(PROMPTS, 6)
    next(stream)
    next(stream)
    stream.close()
    assert generator().generate(PROMPTS, 6).rows() == greedy


@pytest.mark.parametrize(
    ("engine", "words"), [("naive", "cache='none'"), ("cached+prefill_chunk=8", "prefill_chunk=8")]
)
def test_settings_that_a_generator_cannot_honour_are_refused(engine, words):
    """Better than ignored."""
    with pytest.raises(ConfigError, match=words):
        build_generator(model("tiny"), engine, capacity=CAPACITY)


def test_an_unknown_engine_is_refused_with_the_nearest():
    """As engines do."""
    with pytest.raises(UnknownNameError, match="Did you mean 'cached'"):
        build_generator(model("tiny"), "cachd")
