"""Prompts in chunks and in padded lengths: the tokens of the plain engine, from few programs."""

import re
from functools import cache

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.reading import Piece, pieces
from qwenperf.errors import ConfigError
from qwenperf.models.config import ModelConfig
from qwenperf.models.registry import Model
from qwenperf.models.seeded import seeded_params
from qwenperf.workloads.engine import EngineSettings, parse_engine
from qwenperf.workloads.models import PRESETS

SETTINGS = ("prefill_chunk=4", "prefill_chunk=64", "bucket=4", "prefill_chunk=4+bucket=2")


@pytest.fixture(scope="module")
def build(model):
    """Return the engine of some settings; the same one each time."""
    return cache(lambda settings, rung="cached": build_engine(model, f"{rung}+{settings}", capacity=16))


@pytest.fixture
def compiled():
    """Names of the programs compiled since the fixture was asked for."""
    names = []

    def listen(event, _seconds, **details):
        if event.endswith("backend_compile_duration"):
            names.append(re.sub(r"^jit\((.*)\)$", r"\1", details.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize(("batch", "length"), [(1, 7), (3, 1), (3, 4), (3, 15)])
def test_tokens_are_those_of_the_plain_engine(settings, batch, length, build, engine, prompt):
    """Shorter than a piece, just as long, uneven, and up to the capacity, where the last piece has no room to spare."""
    tokens, count = prompt(batch, length), 16 - length
    np.testing.assert_array_equal(build(settings).generate(tokens, count), engine("cached").generate(tokens, count))


@pytest.mark.parametrize("settings", ["prefill_chunk=4", "bucket=4", "prefill_chunk=4+bucket=2"])
def test_logits_and_cache_are_those_of_the_real_tokens(settings, build, engine, prompt, truth):
    """The cache is as long as the prompt, not as its padding; a step goes on from there with the right position."""
    tokens = prompt(3, 8)
    logits, state = build(settings).prefill(tokens[:, :7])
    assert state.length == int(state.device.length) == 7
    expected = truth(tokens)
    np.testing.assert_allclose(logits, expected[:, 6], rtol=0, atol=1e-4)
    logits, state = build(settings).decode_step(tokens[:, 7], state)
    np.testing.assert_allclose(logits, expected[:, 7], rtol=0, atol=1e-4)
    _, plain = engine("cached").prefill(tokens[:, :7])
    for padded, whole in zip(jax.tree.leaves(state.device.layers), jax.tree.leaves(plain.device.layers), strict=True):
        np.testing.assert_allclose(padded[:, :7], whole[:, :7], rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", ["prefill_chunk=4", "bucket=4"])
def test_what_pads_and_what_the_cache_held_before_change_no_bit(settings, build, prompt):
    """Neither the token that pads nor a longer request before leaves a trace in logits."""
    first = np.asarray(build(settings).prefill(prompt(1, 6))[0])
    build(settings).generate(prompt(1, 12, seed=5), 4)
    np.testing.assert_array_equal(build(settings).prefill(prompt(1, 6))[0], first)
    cut = Piece.cut

    def otherwise(piece, tokens):
        return np.where(np.arange(piece.width) < piece.count, cut(piece, tokens), 77)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Piece, "cut", otherwise)
        np.testing.assert_array_equal(build(settings).prefill(prompt(1, 6))[0], first)


def test_ten_lengths_compile_one_prefill_a_bucket(model, compiled, prompt):
    """Lengths 1 to 10 in buckets of 4: ceil(10 / 4) prefill programs, and one each of all else."""
    engine = build_engine(model, "cached+bucket=4", capacity=12)
    for length in range(1, 11):
        engine.generate(prompt(1, length), 2)
    assert compiled.count("prefill") == 3
    assert len(compiled) == 6


@pytest.mark.parametrize(("settings", "programs"), [("prefill_chunk=4", 1), ("prefill_chunk=4+bucket=2", 2)])
def test_all_lengths_of_prompts_in_chunks_share_programs(settings, programs, model, compiled, prompt):
    """One program for chunks, the uneven last one included; with buckets, one for each width of the last chunk."""
    engine = build_engine(model, f"cached+{settings}", capacity=12)
    for length in range(1, 12):
        engine.generate(prompt(1, length), 1)
    assert compiled.count("prefill") == programs


def test_what_is_compiled_ahead_is_all_that_a_prompt_needs(model, compiled, prompt):
    """A prompt whose last chunk has a width of its own needs both programs."""
    engine = build_engine(model, "cached+prefill_chunk=4+bucket=2", capacity=12)
    engine.compile(1, 6, 4)
    before = list(compiled)
    assert before.count("prefill") == 2
    engine.generate(prompt(1, 6), 4)
    assert compiled == before
    assert set(engine.programs(1, 6, 4)) == {"prefill", "decode_step", "generate"}


def test_learned_positions_end_where_their_table_ends(prompt):
    """GPT-2: the last chunk of a full prompt needs no position that there is not."""
    shape = PRESETS["gpt2"] | {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64, "n_positions": 10}
    config = ModelConfig.from_hf(shape)
    model = Model(name="gpt2", config=config, params=seeded_params(config, seed=2), dtype="f32")
    tokens = prompt(3, 9) % 64
    plain = build_engine(model, "cached-host").prefill(tokens)[0]
    for settings in ("prefill_chunk=4", "bucket=4"):
        logits, _ = build_engine(model, f"cached-host+{settings}").prefill(tokens)
        np.testing.assert_allclose(logits, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("length", "settings", "expected"),
    [
        (7, {}, [(0, 7, 7)]),
        (7, {"bucket": 4}, [(0, 7, 8)]),
        (8, {"bucket": 4}, [(0, 8, 8)]),
        (9, {"bucket": 4}, [(0, 9, 10)]),
        (7, {"prefill_chunk": 4}, [(0, 4, 4), (4, 3, 4)]),
        (8, {"prefill_chunk": 4}, [(0, 4, 4), (4, 4, 4)]),
        (9, {"prefill_chunk": 4}, [(0, 4, 4), (4, 4, 4), (6, 3, 4)]),
        (5, {"prefill_chunk": 4, "bucket": 2}, [(0, 4, 4), (4, 1, 2)]),
        (3, {"prefill_chunk": 64}, [(0, 3, 10)]),
    ],
)
def test_pieces_of_a_prompt(length, settings, expected):
    """Start, real tokens and width; with a capacity of 10 no piece reaches past it."""
    found = pieces(length, EngineSettings(**settings), 10)
    assert [(piece.start, piece.count, piece.width) for piece in found] == expected
    assert all(piece.start + piece.width <= 10 for piece in found)
    assert [int(number) for number in found[-1].span] == list(expected[-1][:2])


@pytest.mark.parametrize("bucket", [4, 6])
def test_a_bucket_that_no_chunk_is_ever_padded_to_is_refused(bucket):
    """It would be a setting without effect."""
    with pytest.raises(ConfigError, match=f"bucket={bucket} needs a prefill_chunk larger than it, not 4"):
        parse_engine(f"cached+prefill_chunk=4+bucket={bucket}")


@pytest.mark.parametrize("setting", ["bucket=4", "prefill_chunk=4"])
def test_a_prefill_of_ones_own_is_not_told_of_padding(setting, model):
    """It takes no span, so that padding would be taken for tokens."""
    with pytest.raises(ConfigError, match=rf"{setting} .*prefill"):
        build_engine(model, f"cached+{setting}", capacity=16, prefill=lambda *_, **__: None)
