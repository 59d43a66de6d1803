"""One case of a run as a section of a page: verdicts, metrics, trace, steps, compiles, tokens, remarks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from qwenperf import units
from qwenperf.report.html_blocks import attempt
from qwenperf.report.html_facts import Fact, facts, shortened
from qwenperf.report.html_signs import Sign, of_case, of_finding, of_verdict
from qwenperf.report.html_stream import StreamView, stream_view
from qwenperf.report.html_trace import TraceView, trace_view
from qwenperf.report.measures import is_plain, reading, shown
from qwenperf.report.speedup import value
from qwenperf.report.terminal import said
from qwenperf.schema.metrics import REGISTRY
from qwenperf.schema.records import CaseRecord, CompileEvent, Finding, Metric, Verdict

_MOST_COMPILES = 30
_STREAMED, _WHOLE = "itl_p50_s", "tpot_s"

Href = Callable[[str], str]
"""Makes a link of a path inside the record's folder; empty where nothing is there."""


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    """What one gate says."""

    sign: Sign
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class FindingRow:
    """One remark."""

    sign: Sign
    finding: Finding


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric: value, the interval that holds it, how it was read, and whether this version defines it."""

    name: str
    value: str
    interval: str
    readings: str
    kind: str
    defined: bool


@dataclass(frozen=True, kw_only=True)
class CompileRow:
    """One compiled program: when, how long, and why."""

    function: str
    phase: str
    time: str
    why: str
    place: str


@dataclass(frozen=True, kw_only=True)
class CaseView:
    """All that a page shows of one case; ``None`` and ``""`` where there is nothing."""

    anchor: str
    id: str
    sign: Sign
    brief: str
    error: str
    verdicts: tuple[VerdictRow, ...]
    metrics: tuple[MetricRow, ...]
    trace: TraceView | None
    trace_note: str
    trace_href: str
    stream: StreamView | None
    compiles: tuple[CompileRow, ...]
    compiles_left_out: int
    tokens: tuple[str, ...]
    findings: tuple[FindingRow, ...]
    spec: tuple[Fact, ...]


def case_view(case: CaseRecord, anchor: str, href: Href) -> CaseView:
    """Return what a page shows of ``case``; what the record does not hold, or holds oddly, is left out or told."""
    trace, note = attempt("the trace", lambda: _trace(case), lambda note: (None, note.text))
    compiles = case.evidence.compiles
    return CaseView(
        anchor=anchor,
        id=case.id,
        sign=of_case(case),
        brief=_brief(case),
        error=case.error or "",
        verdicts=verdict_rows(case.verdicts),
        metrics=tuple(metric_row(name, one) for name, one in case.metrics.items()),
        trace=trace,
        trace_note=note,
        trace_href=href(str(PurePosixPath(case.trace).parent)) if case.trace else "",
        stream=attempt("the steps", lambda: stream_view(case.evidence.stream), lambda _: None),
        compiles=tuple(_compile(event) for event in compiles[:_MOST_COMPILES]),
        compiles_left_out=max(0, len(compiles) - _MOST_COMPILES),
        tokens=tuple(filter(None, (*_divergence(case), said(case)))),
        findings=finding_rows(case.findings),
        spec=facts(case.spec),
    )


def verdict_rows(verdicts: tuple[Verdict, ...]) -> tuple[VerdictRow, ...]:
    """Return verdicts with their signs, in the order of the gates."""
    return tuple(VerdictRow(sign=of_verdict(one), verdict=one) for one in verdicts)


def finding_rows(findings: tuple[Finding, ...]) -> tuple[FindingRow, ...]:
    """Return findings with their signs."""
    return tuple(FindingRow(sign=of_finding(one), finding=one) for one in findings)


def metric_row(name: str, seen: Metric) -> MetricRow:
    """Return one metric as texts."""
    interval = ""
    if seen.interval is not None:
        coverage = "" if seen.coverage is None else f" ({seen.coverage:.0%})"
        interval = f"{' to '.join(units.quantity(one, seen.unit) for one in seen.interval)}{coverage}"
    return MetricRow(
        name=name,
        value=units.quantity(seen.value, seen.unit),
        interval=interval,
        readings=str(len(seen.samples)) if seen.samples else "",
        kind=seen.kind.value,
        defined=name in REGISTRY,
    )


def _brief(case: CaseRecord) -> str:
    """Return the one number of a case that people look for."""
    speed, call = value(case, "decode_tokens_per_s"), value(case, "call_s")
    if speed is not None:
        return f"{units.significant(speed)} tokens/s"
    if call is not None:
        return f"{units.seconds(call)} a call"
    first = next(iter(shown([case])), None) if is_plain(case) else None
    return "" if first is None else f"{first} {reading(case.metrics[first])}"


def _trace(case: CaseRecord) -> tuple[TraceView | None, str]:
    summary: Mapping[str, Any] | None = case.evidence.trace_summary
    if summary is None:
        return None, "This case has no trace." if case.metrics and not is_plain(case) else ""
    timed = value(case, _STREAMED if summary.get("tokens_per_step", 1) == 1 else _WHOLE)
    return trace_view(summary, roofline=case.evidence.roofline, timed_s=timed), ""


def _compile(event: CompileEvent) -> CompileRow:
    causes = (" ".join(filter(None, (one.argument, one.what, one.before, "->", one.after))) for one in event.causes)
    how = "refused" if event.refused else "from the cache" if event.cache_hit else ""
    return CompileRow(
        function=event.function,
        phase=event.phase,
        time=units.seconds(event.seconds),
        why=shortened("; ".join(filter(None, (how, *causes)))),
        place=event.location,
    )


def _divergence(case: CaseRecord) -> Iterator[str]:
    """Yield how the tokens compare with uncached decoding, and the largest error of a logit."""
    seen = case.evidence.divergence
    if seen is None:
        return
    if seen.equal:
        yield f"All tokens equal {seen.reference} decoding."
    elif seen.position is not None:
        tie = "; within rounding" if seen.near_tie else ""
        yield (
            f"First difference from {seen.reference} decoding: row {seen.row}, new token {seen.position}:"
            f" {seen.actual_token} instead of {seen.expected_token}{tie}."
        )
    if seen.max_logit_error is not None:
        bound = "" if seen.logit_tolerance is None else f"; {seen.logit_tolerance:.2g} is allowed"
        yield f"Largest error of a logit, as a share of the largest logit: {seen.max_logit_error:.2g}{bound}."
