from dataclasses import replace

import jax
import pytest

from qwenperf.decode.facts import Work

MATRICES = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128)
HEAD = 256 * 64


def test_a_forward_pass_counts_matrices_attention_and_one_head(model):
    """2 * batch * parameters, 4 * batch * layers * heads * head_dim * queries * keys, logits of the last position."""
    work = Work(config=model.config, batch=3).forward(queries=5, keys=7)
    assert work == 2 * 3 * (5 * MATRICES + HEAD) + 4 * 3 * 2 * 4 * 16 * 5 * 7


def test_facts_of_the_static_cache(engine, model):
    """The cache by formula is the cache as allocated; a step reads all weights of a tied model, and the cache."""
    facts = engine("cached").facts(3, 7, 5)
    weights = sum(leaf.nbytes for leaf in jax.tree.leaves(model.params))
    assert facts.kv_cache_bytes == facts.kv_cache_allocated_bytes == 2 * 2 * 3 * 2 * 16 * 16 * 4
    assert facts.weight_bytes == weights
    assert facts.bytes_per_step == weights + facts.kv_cache_bytes
    assert facts.flops_per_step == 2 * 3 * (MATRICES + HEAD) + 4 * 3 * 2 * 4 * 16 * 9.5
    assert facts.vocab_size == 256
    assert facts.settings["capacity"] == 16


def test_the_arithmetic_of_a_step_is_the_average_of_the_requests_steps(engine, model):
    """The steps after a prompt of 7 see 8, 9, 10 and 11 keys."""
    work = Work(config=model.config, batch=1)
    seen = [work.forward(queries=1, keys=keys) for keys in (8, 9, 10, 11)]
    assert engine("cached").facts(1, 7, 5).flops_per_step == sum(seen) / 4


def test_the_growing_cache_is_as_long_as_the_request(engine):
    """The last new token is never written: 7 + 5 - 1 positions."""
    facts = engine("cached-concat").facts(3, 7, 5)
    assert facts.kv_cache_bytes == facts.kv_cache_allocated_bytes == 2 * 2 * 3 * 2 * 11 * 16 * 4


def test_without_a_cache_there_are_no_cache_bytes(engine):
    """Zero, which is known, not None, which is unknown."""
    facts = engine("naive").facts(3, 7, 5)
    assert facts.kv_cache_bytes == facts.kv_cache_allocated_bytes == 0


@pytest.mark.parametrize(
    ("rung", "passes"),
    [
        ("naive", [(7, 7), (8, 8), (9, 9)]),
        ("padded", [(16, 16)] * 3),
        ("cached-concat", [(7, 7), (1, 8), (1, 9)]),
        ("cached-host", [(7, 7), (1, 16), (1, 16)]),
        ("cached", [(7, 7), (1, 16), (1, 16)]),
    ],
)
def test_a_requests_work_is_that_of_its_passes(rung, passes, engine, model):
    """As each engine does it: whole sequences, padding and masked keys included."""
    work = Work(config=model.config, batch=1)
    expected = sum(work.forward(queries=queries, keys=keys) for queries, keys in passes)
    assert engine(rung).facts(1, 7, 3).flops_per_request == expected


@pytest.mark.parametrize(
    ("rung", "dispatches"), [("eager", None), ("naive", 5), ("padded", 6), ("cached-host", 6), ("cached", 3)]
)
def test_dispatches_of_a_request(rung, dispatches, engine):
    """One program a token from the host, two a request from the device, one that empties what is kept; or unknown."""
    assert engine(rung).facts(1, 7, 5).dispatches_per_request == dispatches


@pytest.mark.parametrize("rung", ["naive", "padded", "cached-concat", "cached-host", "cached"])
def test_dispatches_are_those_that_a_request_makes(rung, engine, prompt):
    """What the engine tells is what it does, once a request has left its state for the next."""
    asked = engine(rung)
    asked.generate(prompt(1, 7), 5)
    calls = []

    def counting(name):
        call = getattr(asked.calls, name)
        return call and (lambda *args: calls.append(name) or call(*args))

    names = ("new_state", "prefill", "decode_step", "generate", "clear")
    counted = replace(asked, calls=replace(asked.calls, **{name: counting(name) for name in names}))
    counted.generate(prompt(1, 7), 5)
    started = [name for name in calls if name != "new_state" or asked.settings.shape == "padded"]
    assert len(started) == asked.facts(1, 7, 5).dispatches_per_request


@pytest.mark.parametrize(
    ("settings", "read"),
    [
        ("bucket=4", [(8, 8)]),
        ("prefill_chunk=4", [(4, 16), (4, 16)]),
        ("prefill_chunk=4+bucket=1", [(4, 16), (3, 16)]),
    ],
)
def test_a_prompt_in_pieces_costs_its_padding_and_a_dispatch_a_piece(settings, read, engine, model):
    """A padded prompt sees itself, chunks see the whole cache, then come two steps in one program, and the emptying."""
    work = Work(config=model.config, batch=1)
    expected = sum(work.forward(queries=queries, keys=keys) for queries, keys in [*read, (1, 16), (1, 16)])
    facts = engine(f"cached+{settings}").facts(1, 7, 3)
    assert facts.flops_per_request == expected
    assert facts.dispatches_per_request == len(read) + 2
