"""The metric registry: every quantity that a case can report, with unit, direction, kind and formula.

Docs, tables, JSON, budgets and ASV read names, units and directions from here, so a quantity is
defined once. *Deterministic* metrics are the same on every repetition of a program; *timed* ones are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from qwenperf.errors import UnknownNameError


class Direction(StrEnum):
    """Which way a metric improves; ``NONE`` for facts that are neither good nor bad."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "none"


class Kind(StrEnum):
    """Whether a metric repeats exactly (deterministic) or carries noise (timed)."""

    DETERMINISTIC = "deterministic"
    TIMED = "timed"


@dataclass(frozen=True, kw_only=True)
class MetricDefinition:
    """One entry of the registry. ``formula`` is written in the names of the glossary."""

    name: str
    unit: str
    direction: Direction
    kind: Kind
    formula: str
    description: str


def _timed(name: str, unit: str, direction: Direction, formula: str, description: str) -> MetricDefinition:
    return MetricDefinition(
        name=name, unit=unit, direction=direction, kind=Kind.TIMED, formula=formula, description=description
    )


def _fixed(name: str, unit: str, direction: Direction, formula: str, description: str) -> MetricDefinition:
    return MetricDefinition(
        name=name, unit=unit, direction=direction, kind=Kind.DETERMINISTIC, formula=formula, description=description
    )


_LOW, _HIGH, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

_DEFINITIONS = (
    _timed("ttft_s", "s", _LOW, "t(first token on host) - t(request)",
           "Time to first token, steady state: prefill, choice of the first token, and its arrival on the host."),
    _timed("tpot_s", "s", _LOW, "median of (request_s - ttft_s) / (new_tokens - 1) over pairs of neighbours",
           "Time per output token after the first: each whole request less the first token timed next to it; "
           "a batch counts as one step."),
    _timed("itl_p50_s", "s", _LOW, "median over steps of t(token i on host) - t(token i-1 on host)",
           "Inter-token latency as a streaming caller sees it: one decode step per call, blocked on each."),
    _timed("itl_p99_s", "s", _LOW, "99th percentile over steps of t(token i on host) - t(token i-1 on host)",
           "The slow tail of the inter-token latency, over all streamed steps of all trials."),
    _timed("decode_tokens_per_s", "tokens/s", _HIGH, "batch / tpot_s",
           "Decode throughput in steady state, over the whole batch, without prefill."),
    _timed("prefill_tokens_per_s", "tokens/s", _HIGH, "batch * prompt_length / ttft_s",
           "Prompt tokens read per second, over the whole batch."),
    _timed("request_s", "s", _LOW, "t(last token on host) - t(request)",
           "One whole request in steady state: prefill and all new tokens."),
    _timed("request_tokens_per_s", "tokens/s", _HIGH, "batch * new_tokens / request_s",
           "New tokens per second of a whole steady request, prefill included."),
    _timed("cold_request_s", "s", _LOW, "t(last token) - t(request) of the first request of a fresh process",
           "The first request, every compile counted, persistent compilation cache off."),
    _timed("cold_tokens_per_s", "tokens/s", _HIGH, "batch * new_tokens / cold_request_s",
           "New tokens per second of the first request, every compile counted."),
    _timed("compile_s", "s", _LOW,
           "sum of backend compile durations in phases cold, warmup and steady, cache hits excluded",
           "Seconds spent compiling for requests and streams, with the persistent compilation cache off. Building the "
           "model and checking tokens are left out; programs that only a stream needs are in it."),
    _timed("scaling_per_100_tokens", "ratio", _LOW, "100 * slope(step time over position) / median(step time)",
           "Relative growth of the time of one decode step per 100 positions; 0 is flat."),
    _timed("mbu", "ratio", _HIGH, "bytes_per_step / tpot_s / (devices * roofline bytes/s)",
           "Model bandwidth utilisation: weights and cache read per step against the memory roofline measured here."),
    _timed("mfu", "ratio", _HIGH, "flops_per_step / tpot_s / (devices * roofline flop/s)",
           "Model FLOP utilisation of decoding against the matrix-product roofline measured here."),
    _timed("call_s", "s", _LOW, "t(all outputs ready) - t(call)",
           "One steady call of a step that hands its state on, such as a training step."),
    _timed("calls_per_s", "calls/s", _HIGH, "1 / call_s",
           "Steady calls of such a step per second, one after the other."),
    _timed("call_tokens_per_s", "tokens/s", _HIGH, "tokens_per_call / call_s",
           "Tokens that such a step processes per second, by the number that the caller gives for one call."),
    _timed("peak_rss_bytes", "bytes", _LOW, "maximum resident set of the process when its first request ends",
           "Peak resident memory of the whole process: runtime, weights, compiler and all."),
    _fixed("compiles_cold", "count", _LOW, "backend compiles in phase cold",
           "Programs compiled by the first request of the process."),
    _fixed("compiles_warmup", "count", _LOW, "backend compiles in phase warmup",
           "Programs compiled while warming up after the first request."),
    _fixed("compiles_steady", "count", _LOW, "backend compiles in phase steady",
           "Programs compiled after warm-up; anything but 0 means unstable shapes, and voids the window."),
    _fixed("cache_hits", "count", _NONE, "persistent compilation cache hits in phases cold, warmup and steady",
           "Programs taken from the persistent compilation cache, counted apart from compiles."),
    _fixed("dispatches_per_token", "count", _LOW,
           "programs that one request starts by the engine's own account / new_tokens",
           "How often the host starts a program for one new token: 1 when the loop is on the host, "
           "2/new_tokens when it is on the device; and 1/new_tokens more where a request ends by emptying a cache "
           "that is used again. Told by the engine, not counted while it runs."),
    _fixed("argument_bytes", "bytes", _LOW, "memory_analysis().argument_size_in_bytes of the decode step",
           "Bytes that the compiled decode step takes as arguments."),
    _fixed("output_bytes", "bytes", _LOW, "memory_analysis().output_size_in_bytes of the decode step",
           "Bytes that the compiled decode step returns."),
    _fixed("temp_bytes", "bytes", _LOW, "memory_analysis().temp_size_in_bytes of the decode step",
           "Scratch bytes of the compiled decode step."),
    _fixed("alias_bytes", "bytes", _HIGH, "memory_analysis().alias_size_in_bytes of the decode step",
           "Argument bytes that the compiled decode step updates in place (donated and really aliased)."),
    _fixed("peak_bytes", "bytes", _LOW, "argument_bytes + output_bytes + temp_bytes - alias_bytes",
           "Memory that the compiled decode step needs at once."),
    _fixed("kv_cache_bytes", "bytes", _LOW,
           "2 * layers * batch * kv_heads * capacity * head_dim * itemsize (int8: head_dim + 4)",
           "Size of the KV cache by formula."),
    _fixed("kv_cache_allocated_bytes", "bytes", _LOW, "sum of nbytes over the cache's arrays",
           "Size of the KV cache as allocated."),
    _fixed("weight_bytes", "bytes", _LOW, "sum of nbytes over the model's parameters",
           "Size of the weights."),
    _fixed("bytes_per_step", "bytes", _LOW,
           "weight bytes read + kv_cache_bytes (embedding table: only rows used; key blocks: only those read)",
           "Bytes that one decode step has to read at least."),
    _fixed("flops_per_step", "flop", _LOW,
           "2 * batch * (matrix parameters) + 4 * batch * layers * heads * head_dim * (prompt_length + new_tokens / 2)",
           "Arithmetic of one decode step with cache, by formula; the average step sees so many keys."),
    _fixed("flops_per_request", "flop", _LOW,
           "sum over prefill and all steps of 2 * batch * (queries * matrix parameters of the layers + head) "
           "+ 4 * batch * layers * heads * head_dim * queries * keys",
           "Arithmetic of one whole request as this engine does it, by formula: without a cache every step has all "
           "positions for queries, which is quadratic in the length. Masked keys and padding count."),
    _fixed("tokens_equal", "ratio", _HIGH, "generated tokens before the first divergence / generated tokens, worst row",
           "Share of the generated tokens that agree with uncached greedy decoding; 1 is equal."),
    _fixed("max_logit_error", "ratio", _LOW, "max |cached - uncached| / max |uncached|, the worst row and step",
           "Largest difference of logits with and without cache, fed the same tokens."),
)  # fmt: skip

ROUNDING = frozenset({"max_logit_error"})
"""Metrics that repeat exactly and that any other order of sums changes. Gate ``tokens`` holds them to a tolerance; one
value is no better than another within it, so that a change alone is no regression."""

REGISTRY: dict[str, MetricDefinition] = {definition.name: definition for definition in _DEFINITIONS}


def lookup(name: str) -> MetricDefinition:
    """Return the definition of ``name``.

    Raises:
      UnknownNameError: no such metric; offers the nearest name.
    """
    try:
        return REGISTRY[name]
    except KeyError:
        raise UnknownNameError("metric", name, REGISTRY) from None
