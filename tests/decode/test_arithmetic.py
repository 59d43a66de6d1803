"""What facts tell by formula is what compiled programs do: quadratic without a cache, linear with one."""

from functools import partial

import jax
import numpy as np
import pytest

from qwenperf.decode.build import build_engine
from qwenperf.decode.uncached import prefill_sequence
from qwenperf.models.registry import load_model

PROMPT, NEW = 16, 48
LENGTHS = (16, 40, 64)


@pytest.fixture(scope="module")
def model():
    """The small one: its programs compile in a second."""
    return load_model("tiny", "f32")


@pytest.fixture(scope="module")
def counted(model):
    """Return counted FLOPs of one forward pass of each length, and of the programs of a cached request."""
    plain = jax.jit(partial(prefill_sequence, config=model.config))
    passes = [
        plain.lower(model.params, jax.ShapeDtypeStruct((1, length), np.int32), None, None).compile()
        for length in LENGTHS
    ]
    cached = build_engine(model, "cached-host", capacity=PROMPT + NEW).programs(1, PROMPT, NEW)
    programs = {name: one.compiled.cost_analysis()["flops"] for name, one in cached.items()}
    return [one.cost_analysis()["flops"] for one in passes], programs


def facts(model, engine):
    return build_engine(model, engine, capacity=PROMPT + NEW).facts(1, PROMPT, NEW)


def test_a_request_without_a_cache_costs_what_facts_say(model, counted):
    """Three counted lengths give the parabola on which all lengths lie."""
    parabola = np.polyfit(LENGTHS, counted[0], 2)
    request = np.polyval(parabola, np.arange(PROMPT, PROMPT + NEW)).sum()
    assert request == pytest.approx(facts(model, "naive").flops_per_request, rel=0.1)


def test_a_cached_request_costs_what_facts_say(model, counted):
    """One prefill, and the same step for every token after the first."""
    request = counted[1]["prefill"] + (NEW - 1) * counted[1]["decode_step"]
    assert request == pytest.approx(facts(model, "cached").flops_per_request, rel=0.1)


def test_a_longer_request_costs_more_than_in_proportion_without_a_cache_only(model):
    """Twice the new tokens: about four times without, about twice with."""

    def growth(engine):
        made = build_engine(model, engine, capacity=1000)
        return made.facts(1, 1, 800).flops_per_request / made.facts(1, 1, 400).flops_per_request

    assert growth("naive") > 3.9
    assert growth("cached") == pytest.approx(2, rel=0.01)
