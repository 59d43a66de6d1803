"""Timed gates on our own engines: run one after another on a quiet machine (``make perf``).

The JSON of pytest-benchmark has every metric of ours in ``extra_info``.
"""

import pytest

from qwenperf.schema.records import Outcome

NEW_TOKENS = 20

pytestmark = [
    pytest.mark.qwenperf(trials=5),
    # Noise is no failure here; CI that wants it to be one says --qwenperf-inconclusive=fail.
    pytest.mark.filterwarnings("default::qwenperf.pytest_plugin.InconclusiveWarning"),
]


def outcomes(case):
    return {verdict.gate: verdict.outcome for verdict in case.verdicts}


class TestRotaryCaching:
    """Sines and cosines are computed once, when a model is loaded."""

    def test_no_step_computes_a_sine(self, qwenperf, benchmark, engine, prompt):
        """The compiled step reads its tables; what a step then takes is in the JSON."""
        cached = engine("cached-host")
        case = qwenperf.passes(cached, prompt, NEW_TOKENS)
        assert outcomes(case)["rotary"] is Outcome.PASS
        qwenperf.extra_info(benchmark, case)
        benchmark(lambda: list(cached.stream(prompt, NEW_TOKENS)))


class TestKVCaching:
    """The cache is allocated once, updated in place, and pays."""

    def test_the_cache_stays_where_it_lies(self, qwenperf, benchmark, engine, prompt):
        """Nothing of the cache's shape is copied, and its size is what the formula says."""
        case = qwenperf.passes(engine("cached"), prompt, NEW_TOKENS)
        assert outcomes(case)["cache-alias"] is Outcome.PASS
        assert case.metrics["kv_cache_bytes"].value == case.metrics["kv_cache_allocated_bytes"].value
        qwenperf.extra_info(benchmark, case)
        benchmark(engine("cached").generate, prompt, NEW_TOKENS)

    def test_decoding_with_a_cache_is_faster_than_without(self, qwenperf, benchmark, engine, prompt):
        """Against the same programs without a cache, both compiled and warm."""
        case = qwenperf.at_least(1.2, "times", engine("cached"), prompt, NEW_TOKENS, than=engine("padded"))
        qwenperf.extra_info(benchmark, case)
        benchmark(engine("cached").generate, prompt, NEW_TOKENS)


class TestJitCompilation:
    """Everything is compiled by the first request."""

    @pytest.mark.parametrize("rung", ["cached-host", "cached"])
    def test_no_request_after_the_first_compiles(self, qwenperf, benchmark, engine, prompt, rung):
        """Prefill, step and loop are found compiled, by requests and by streams."""
        chosen = engine(rung)
        chosen.generate(prompt, NEW_TOKENS)
        list(chosen.stream(prompt, NEW_TOKENS))
        with qwenperf.no_recompiles() as block:
            list(chosen.stream(prompt, NEW_TOKENS))
            benchmark(chosen.generate, prompt, NEW_TOKENS)
        qwenperf.extra_info(benchmark, block.record())

    def test_no_step_recompiles(self, qwenperf, engine, prompt):
        """Step by step, no argument changes its shape."""
        qwenperf.no_recompiles(engine("cached-host"), prompt, NEW_TOKENS)


class TestCorrectness:
    """Speed is worth nothing where a token changed."""

    @pytest.mark.parametrize("rung", ["cached-host", "cached"])
    def test_cached_tokens_are_those_of_uncached_decoding(self, qwenperf, benchmark, engine, prompt, rung):
        """Token for token, and logit for logit at every step."""
        case = qwenperf.tokens_match(engine(rung), prompt, NEW_TOKENS)
        assert case.metrics["tokens_equal"].value == 1
        qwenperf.extra_info(benchmark, case)
        benchmark(engine(rung).generate, prompt, NEW_TOKENS)

    def test_every_rung_gives_the_same_tokens(self, qwenperf, engine, prompt):
        """The padded engine keeps no cache; the cached one agrees with it."""
        qwenperf.tokens_match(engine("cached"), prompt, NEW_TOKENS, against=engine("padded"))
