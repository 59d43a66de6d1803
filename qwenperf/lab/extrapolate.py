"""A request that would take hours, from a few tokens at its start and a few at its end. Pure: records in, record out.

Between the ends the time of a token is taken to grow as its counted arithmetic does, from what was measured at the
start to what was measured at the end. With w = (F - F_start) / (F_end - F_start), the F mean FLOPs of a token,

    time of N tokens = N * ((1 - w) * seconds a token at the start + w * seconds a token at the end)

which is exact where a token costs a fixed time and a time a FLOP. Where shapes grow, each length compiles once, for as
long as at the end, where nothing but that is cold any more; what else the first request of the process cost is counted
once. An engine of one shape has compiled all at the start.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from qwenperf import units
from qwenperf.decode.engine import EngineFacts
from qwenperf.errors import ConfigError, UnknownNameError
from qwenperf.lab import metrics as formulas
from qwenperf.lab.divergence import worse
from qwenperf.schema.records import CaseRecord, Divergence, Evidence, Finding, Metric, Severity, metric
from qwenperf.workloads.case import Case, Workload
from qwenperf.workloads.engine import parse_engine

EXTRAPOLATED = "extrapolated"
"""The finding's code, and the key under which a metric that was not measured whole says so."""

_NO_DECODE_TIME = "no-decode-time"

_AS_AT_THE_START = ("ttft_s", "prefill_tokens_per_s", "argument_bytes", "output_bytes", "temp_bytes", "alias_bytes")


def ends(case: Case) -> tuple[Workload, Workload]:
    """Return the first and the last ``measured_tokens`` of the case's request, as requests of their own."""
    work, measured = case.workload, case.measured_tokens
    start = replace(work, new_tokens=measured)
    return start, replace(start, prompt_length=work.prompt_length + work.new_tokens - measured)


def extrapolate(case: Case, facts: EngineFacts, start: CaseRecord, end: CaseRecord) -> CaseRecord:
    """Return the record of the whole request; ``facts`` are the engine's for it.

    A time that one of the ends does not have (its window was void) is left out.
    """
    both = _Ends(case=case, facts=facts, start=start, end=end)
    times = both.times()
    found = {**dict(formulas.fact_metrics(case.workload, facts)), **both.as_they_are(), **times}
    timeless = "request_s" in times and "ttft_s" in found and "tpot_s" not in times
    seen = [one for one in (*start.findings, *end.findings) if one.code != _NO_DECODE_TIME]
    return replace(
        start,
        id=case.id,
        spec=case.to_json(),
        metrics=found,
        evidence=_evidence(start.evidence, end.evidence),
        findings=(*_plain(seen), *([both.no_decode_time()] if timeless else []), both.finding()),
    )


def _plain(findings: list[Finding]) -> list[Finding]:
    """Return findings once each."""
    return list({(finding.code, finding.message): finding for finding in findings}.values())


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """Both ends of one request."""

    case: Case
    facts: EngineFacts
    start: CaseRecord
    end: CaseRecord

    @property
    def share(self) -> float:
        """How far between start and end the mean token lies, by its FLOPs; half-way where nobody counts them."""
        known = [record.metrics.get("flops_per_request") for record in (self.start, self.end)]
        if None in known or self.facts.flops_per_request is None:
            return 0.5
        first, last = (one.value / self.case.measured_tokens for one in known if one is not None)
        mean = self.facts.flops_per_request / self.case.workload.new_tokens
        return (mean - first) / (last - first) if last > first else 0.5

    def times(self) -> dict[str, Metric]:
        """Return the times of the whole request and what follows from them, each marked."""
        work, requests = self.case.workload, [record.metrics.get("request_s") for record in (self.start, self.end)]
        if None in requests:
            return {}
        first, last = (one for one in requests if one is not None)
        found = {"request_s": self._mean(first, last)}
        found["request_tokens_per_s"] = _rate("request_tokens_per_s", work.batch * work.new_tokens, found["request_s"])
        first_token = self.start.metrics.get("ttft_s")
        if first_token is not None:
            found |= _decode(work, found["request_s"], first_token)
        cold_s = self._cold_s(found["request_s"].value, first.value, last.value)
        found |= dict(formulas.cold_metrics(work, cold_s))
        for name in ("compile_s", "compiles_cold"):
            first_part, lengths = self.start.metrics[name].value, work.new_tokens - self.case.measured_tokens
            each = self.end.metrics[name].value / self.case.measured_tokens if self._compiles_each_length else 0.0
            found[name] = metric(name, first_part + each * lengths)
        return {name: replace(one, extra={EXTRAPOLATED: self._how()}) for name, one in found.items()}

    def as_they_are(self) -> dict[str, Metric]:
        """Return what was measured and stands for the whole request."""
        start, end = self.start.metrics, self.end.metrics
        kept = {name: start[name] for name in _AS_AT_THE_START if name in start}
        for name, choose in (("peak_rss_bytes", max), ("tokens_equal", min), ("max_logit_error", max)):
            known = [one[name] for one in (start, end) if name in one]
            kept |= {name: choose(known, key=lambda one: one.value)} if known else {}
        for name in ("compiles_warmup", "compiles_steady", "cache_hits"):
            kept[name] = metric(name, start[name].value + end[name].value)
        return kept

    def finding(self) -> Finding:
        """Say what was measured, and how the rest was had."""
        work, measured = self.case.workload, self.case.measured_tokens
        times = [record.metrics.get("request_s") for record in (self.start, self.end)]
        each = [units.seconds(one.value / measured) for one in times if one is not None]
        seen = f" ({each[0]} a token there, {each[1]} here)" if len(each) == 2 else ""
        return Finding(
            code=EXTRAPOLATED,
            severity=Severity.NOTE,
            message=f"{self.case.id}: measured on the first {measured} and the last {measured} of {work.new_tokens} "
            f"new tokens{seen}; times of the whole are extrapolated by the FLOPs of each length.",
            data=self._how(),
        )

    def no_decode_time(self) -> Finding:
        """Say why there is no time per token: an end's own lack of it says nothing of the whole."""
        return Finding(
            code=_NO_DECODE_TIME,
            severity=Severity.WARNING,
            message="within its range the whole request took no longer than its first token: no time per token.",
            advice="Measure more tokens at both ends, or use a quieter machine.",
            data=self._how(),
        )

    def _how(self) -> dict[str, Any]:
        return {"measured_tokens": self.case.measured_tokens, "by": "flops_per_request", "share_of_end": self.share}

    def _mean(self, first: Metric, last: Metric) -> Metric:
        """Return the whole request's time, with a range as wide as both ends' ranges."""
        times = self.case.workload.new_tokens / self.case.measured_tokens

        def between(at_start: float, at_end: float) -> float:
            return times * ((1 - self.share) * at_start + self.share * at_end)

        (low, high), (last_low, last_high) = _range(first), _range(last)
        return metric(
            "request_s",
            between(first.value, last.value),
            interval=(between(low, last_low), between(high, last_high)),
            coverage=min(first.coverage or 0.0, last.coverage or 0.0),
        )

    @property
    def _compiles_each_length(self) -> bool:
        """Whether shapes grow; of somebody's own engine that is taken for granted, or nobody would extrapolate it."""
        with suppress(ConfigError, UnknownNameError):
            return parse_engine(self.case.engine).shape == "growing"
        return True

    def _cold_s(self, request_s: float, first_s: float, last_s: float) -> float:
        measured = self.case.measured_tokens
        at_the_end_s = max(0.0, self.end.metrics["cold_request_s"].value - last_s)
        compile_s = at_the_end_s / measured if self._compiles_each_length else 0.0
        once_s = max(0.0, self.start.metrics["cold_request_s"].value - first_s - measured * compile_s)
        return request_s + self.case.workload.new_tokens * compile_s + once_s


def _range(one: Metric) -> tuple[float, float]:
    return one.interval or (one.value, one.value)


def _rate(name: str, amount: float, time: Metric) -> Metric:
    low_s, high_s = _range(time)
    return metric(name, amount / time.value, interval=(amount / high_s, amount / low_s), coverage=time.coverage)


def _decode(work: Workload, request: Metric, first: Metric) -> dict[str, Metric]:
    """Return what is left after the first token; nothing where that may be no time at all: a rate has no bound then."""
    (low, high), (first_low, first_high), steps = _range(request), _range(first), work.new_tokens - 1
    if low <= first_high or request.value <= first.value:
        return {}
    interval = ((low - first_high) / steps, (high - first_low) / steps)
    tpot = metric("tpot_s", (request.value - first.value) / steps, interval=interval, coverage=request.coverage)
    return {"tpot_s": tpot, "decode_tokens_per_s": _rate("decode_tokens_per_s", work.batch, tpot)}


def _evidence(start: Evidence, end: Evidence) -> Evidence:
    return replace(
        start,
        divergence=_worst(start.divergence, end.divergence),
        compiles=start.compiles + end.compiles,
        stream=None,
        voids=start.voids + end.voids,
    )


def _worst(start: Divergence | None, end: Divergence | None) -> Divergence | None:
    """Return what says more against the engine, with what the other end adds."""
    return start or end if start is None or end is None else worse(start, end)
