"""A slowdown planted in one place of a real engine: the diff of two real traces names it first."""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from qwenperf.decode import step as steps
from qwenperf.decode.build import build_engine
from qwenperf.lab.forms import Forms
from qwenperf.lab.options import Options
from qwenperf.lab.trace import trace_requests, trace_steps
from qwenperf.models.registry import load_model
from qwenperf.traces.diff import HOST_GAP, Kind, diff, top_lines
from qwenperf.traces.tokens import per_token
from qwenperf.workloads.case import Workload

CAPACITY = 1024
WORK = Workload(prompt_length=4, new_tokens=8, batch=16)
HERE = Path(__file__).name
REPEATS = 2
RUNS = 3
"""Traces of each engine, of which the fastest counts: other work on the machine only ever slows one down."""


def on_cache(change):
    """Return the decode step with ``change`` made to every array of the cache before it."""

    def step(params, tokens, state, tables, *, config):
        layers = jax.tree.map(lambda x: change(x, state.length >= 0), state.layers)
        return steps.decode_step(params, tokens, state._replace(layers=layers), tables, config=config)

    return step


def kept(work, x, always):
    """Return ``work(x)`` as an array of its own: a compiler fuses nothing across a branch."""
    out = jax.eval_shape(work, x)
    return jax.lax.cond(always, work, lambda _: jnp.zeros(out.shape, out.dtype), x)


def transposed(x, always):
    """Lay the cache out anew, and back: the same values, twice written."""
    for _ in range(REPEATS):
        x = kept(lambda x: jnp.swapaxes(x, -1, -2), kept(lambda x: jnp.swapaxes(x, -1, -2), x, always), always)
    return x


def upcast(x, always):
    """Go on with a float32 copy of the cache rounded to bfloat16."""
    for _ in range(REPEATS):
        x = kept(lambda x: x.astype(jnp.float32), kept(lambda x: x.astype(jnp.bfloat16), x, always), always)
    return x


class Pausing:
    """An engine whose loop does something else between two tokens."""

    name = "pausing"

    def __init__(self, engine):
        self.engine = engine

    def generate(self, tokens_BT, new_tokens):
        """Pass it on."""
        return self.engine.generate(tokens_BT, new_tokens)

    def stream(self, tokens_BT, new_tokens):
        """Pause before each token."""
        for token in self.engine.stream(tokens_BT, new_tokens):
            time.sleep(0.05)
            yield token


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def summary_of(tmp_path_factory):
    """Trace an engine and return what its trace shows."""
    folder = tmp_path_factory.mktemp("run")
    prompt = np.random.default_rng(1).integers(0, 200, (WORK.batch, WORK.prompt_length), np.int32)

    def trace(engine, session):
        forms = Forms(engine=engine, workload=WORK, prompt_BT=prompt)
        list(forms.stream())
        summaries = []
        for index in range(RUNS):
            options = Options(trace_folder=str(folder), session=f"{session}-{index}", trace_steps=5)
            capture = trace_steps(forms, options)
            assert capture.summary is not None, capture.findings
            summaries.append(capture.summary)
        return min(summaries, key=lambda summary: per_token(summary).step_s)

    return trace


@pytest.fixture(scope="module")
def engine_of():
    """Build the tiny engine, with another decode step or its own."""
    model = load_model("tiny")
    return lambda step=None: build_engine(model, "cached-host", step=step, name="mine", capacity=CAPACITY)


@pytest.fixture(scope="module")
def plain(engine_of):
    """The engine as it is."""
    return engine_of()


@pytest.fixture(scope="module")
def base(plain, summary_of):
    """Its trace."""
    return summary_of(plain, "base")


@pytest.mark.parametrize(("change", "category"), [(transposed, "copy"), (upcast, "convert")])
def test_a_needless_pass_over_the_cache_comes_first(change, category, engine_of, summary_of, base):
    head = summary_of(engine_of(on_cache(change)), change.__name__)
    found = diff(base, head)
    first = found.changes[0]
    assert HERE in first.detail, [one.line() for one in found.changes[:5]]
    assert (first.kind, first.category) == (Kind.NEW, category), first
    assert HERE in top_lines(base, head)[0]


def test_a_pause_in_python_comes_first_as_host_gap(plain, summary_of, base):
    found = diff(base, summary_of(Pausing(plain), "pause"))
    assert found.changes[0].name == HOST_GAP, [one.line() for one in found.changes[:5]]
    assert "the host is in Python" in found.changes[0].line()


class Dawdling:
    """An engine that is as fast as another one, and slow before its first token: outside of all decode steps."""

    name = "dawdling"

    def __init__(self, engine):
        self.engine = engine

    def generate(self, tokens_BT, new_tokens):
        """Do something else, then pass it on."""
        time.sleep(0.1)
        return self.engine.generate(tokens_BT, new_tokens)

    def stream(self, tokens_BT, new_tokens):
        """Pass it on."""
        yield from self.engine.stream(tokens_BT, new_tokens)


def test_a_slowdown_outside_of_all_steps_is_named_by_traces_of_requests(plain, tmp_path):
    """Traces of steps do not see it. Those of requests explain what was timed."""
    prompt = np.random.default_rng(1).integers(0, 200, (WORK.batch, WORK.prompt_length), np.int32)
    summaries, timed = {}, {}
    for side, engine in (("base", plain), ("head", Dawdling(plain))):
        forms = Forms(engine=engine, workload=WORK, prompt_BT=prompt)
        forms.request()
        taken, traced = [], []
        for index in range(RUNS):
            begun = time.perf_counter()
            forms.request()
            taken.append(time.perf_counter() - begun)
            capture = trace_requests(forms, Options(trace_folder=str(tmp_path), session=f"{side}-{index}"))
            assert capture.summary is not None, capture.findings
            traced.append({**capture.summary, "of": "requests"})
        timed[side] = min(taken) / WORK.new_tokens
        summaries[side] = min(traced, key=lambda summary: per_token(summary).step_s)
    found = diff(
        summaries["base"], summaries["head"], timed_base_s=timed["base"], timed_head_s=timed["head"], timed="requests"
    )
    assert found.changes[0].name == HOST_GAP, [one.line() for one in found.changes[:5]]
    assert found.changes[0].difference_s == pytest.approx(0.1 / WORK.new_tokens, rel=0.5)
    assert abs(found.unexplained_s) < 0.25 * (timed["head"] - timed["base"]), (found.difference_s, timed)


def test_an_engine_against_itself_has_no_operation_that_is_new_gone_or_changed(plain, summary_of, base):
    found = diff(base, summary_of(plain, "again"))
    assert {one.kind for one in found.changes} == {Kind.SAME}
    assert sum(one.difference_s for one in found.changes) == pytest.approx(found.difference_s)
