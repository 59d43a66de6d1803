"""From readings to metrics of the registry: the formulas, in one place. Pure; a metric that cannot be had is absent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qwenperf.decode.engine import EngineFacts
from qwenperf.gate.ceiling import ceiling, product_rate
from qwenperf.schema.records import Metric, ProgramFacts, Roofline, StreamEvidence, metric
from qwenperf.stats.growth import growth
from qwenperf.stats.summary import percentile, summarize
from qwenperf.workloads.case import Workload

Named = Iterator[tuple[str, Metric]]

_TICK_S = 1e-9
"""The clock's own resolution: no time is read as shorter."""


@dataclass(frozen=True, kw_only=True)
class Floors:
    """The shortest times in seconds that a step and a request can take at all, ``None`` where nothing is known."""

    step_s: float | None = None
    request_s: float | None = None


def timed(name: str, samples: Sequence[float]) -> Metric:
    """Return the median of ``samples`` with its interval of order statistics, and the coverage that it really has."""
    summary = summarize(samples)
    interval = (summary.low, summary.high)
    return metric(name, summary.median, samples=tuple(samples), interval=interval, coverage=summary.coverage)


def rate(name: str, amount: float, samples_s: Sequence[float]) -> Metric:
    """Return ``amount`` per second of ``samples_s``: the summary of the times turned round, so that both agree."""
    times = timed("request_s", [max(seconds, _TICK_S) for seconds in samples_s])
    low_s, high_s = times.interval or (times.value, times.value)
    return metric(
        name,
        amount / times.value,
        samples=tuple(amount / seconds for seconds in times.samples),
        interval=(amount / high_s, amount / low_s),
        coverage=times.coverage,
    )


def cold_metrics(workload: Workload, seconds: float) -> Named:
    """Yield what one cold request says."""
    yield "cold_request_s", metric("cold_request_s", seconds)
    tokens = workload.batch * workload.new_tokens
    yield "cold_tokens_per_s", metric("cold_tokens_per_s", tokens / seconds)


def request_metrics(workload: Workload, request_s: Sequence[float]) -> Named:
    """Yield what whole steady requests say."""
    yield "request_s", timed("request_s", request_s)
    yield "request_tokens_per_s", rate("request_tokens_per_s", workload.batch * workload.new_tokens, request_s)


def first_token_metrics(workload: Workload, ttft_s: Sequence[float]) -> Named:
    """Yield what times to the first token say."""
    yield "ttft_s", timed("ttft_s", ttft_s)
    yield "prefill_tokens_per_s", rate("prefill_tokens_per_s", workload.batch * workload.prompt_length, ttft_s)


def decode_metrics(
    workload: Workload,
    request_s: Sequence[float],
    ttft_s: Sequence[float],
    facts: EngineFacts,
    roofline: Roofline | None,
) -> Named:
    """Yield what is left of each request after the first token that was timed beside it.

    Every pair counts, also one in which noise left no time: its rate is bounded by the clock's tick alone. Where that
    is the median, there is nothing to say.
    """
    steps, devices = workload.new_tokens - 1, facts.devices or 1
    tpot_s = [(whole_s - first_s) / steps for whole_s, first_s in zip(request_s, ttft_s, strict=True)]
    if float(np.median(tpot_s)) <= 0:
        return
    yield "tpot_s", timed("tpot_s", tpot_s)
    yield "decode_tokens_per_s", rate("decode_tokens_per_s", workload.batch, tpot_s)
    if roofline and facts.bytes_per_step:
        yield "mbu", rate("mbu", facts.bytes_per_step / devices / roofline.bytes_per_s, tpot_s)
    if roofline and facts.flops_per_step:
        yield "mfu", rate("mfu", facts.flops_per_step / devices / product_rate(roofline, workload.dtype), tpot_s)


def stream_metrics(stream: StreamEvidence) -> Named:
    """Yield latencies between tokens, and how they grow with the position."""
    steps = np.asarray(stream.step_s)
    yield "itl_p50_s", metric("itl_p50_s", percentile(steps, 50), samples=tuple(np.median(steps, axis=1).tolist()))
    yield "itl_p99_s", metric("itl_p99_s", percentile(steps, 99))
    seen = growth(stream.positions, stream.step_s)
    if seen is not None:
        interval = (seen.low, seen.high)
        scaling = metric("scaling_per_100_tokens", seen.per_100, interval=interval, coverage=seen.coverage)
        yield "scaling_per_100_tokens", scaling


def fact_metrics(workload: Workload, facts: EngineFacts) -> Named:
    """Yield sizes and work by formula."""
    sizes = ("weight_bytes", "kv_cache_bytes", "kv_cache_allocated_bytes", "bytes_per_step")
    names = (*sizes, "flops_per_step", "flops_per_request")
    yield from _known({name: getattr(facts, name) for name in names})
    if facts.dispatches_per_request is not None:
        per_token = facts.dispatches_per_request / workload.new_tokens
        yield "dispatches_per_token", metric("dispatches_per_token", per_token)


def program_metrics(program: ProgramFacts) -> Named:
    """Yield the compiler's numbers of the decode step."""
    sizes = {name: getattr(program, name) for name in ("argument_bytes", "output_bytes", "temp_bytes", "alias_bytes")}
    yield from _known(sizes)
    if None not in sizes.values():
        peak = sizes["argument_bytes"] + sizes["output_bytes"] + sizes["temp_bytes"] - sizes["alias_bytes"]
        yield "peak_bytes", metric("peak_bytes", peak)


def _known(values: dict[str, float | None]) -> Named:
    yield from ((name, metric(name, value)) for name, value in values.items() if value is not None)


def floors(workload: Workload, facts: EngineFacts, roofline: Roofline | None) -> Floors:
    """Return times that no correct run of this workload can beat, each device with a part of the work.

    The roofline is that of one device, and itself a measurement, so it gets slack: see ``gate.ceiling``.
    """
    if roofline is None:
        return Floors()
    most, devices = ceiling(roofline), facts.devices or 1
    step_s = (facts.flops_per_step or 0.0) / devices / most.flops_per_s
    request_s = (facts.flops_per_request or 0.0) / devices / most.flops_per_s
    part_bytes = (facts.bytes_per_step or 0) / devices
    if part_bytes and part_bytes >= most.beyond_caches_bytes:
        read_s = part_bytes / most.bytes_per_s
        step_s, request_s = max(step_s, read_s), max(request_s, read_s * workload.new_tokens)
    return Floors(step_s=step_s or None, request_s=request_s or None)
