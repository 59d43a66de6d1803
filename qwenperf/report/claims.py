"""Claimed speed-ups beside measured ones: steady and cold, and the ratio of the arithmetic. Pure: records in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from qwenperf import units
from qwenperf.report.extrapolated import MARK, is_extrapolated
from qwenperf.report.speedup import value
from qwenperf.schema.records import CaseRecord, RunRecord
from qwenperf.workloads.case import Case
from qwenperf.workloads.claims import CLAIMS, FLAT_CLAIMS, SIZE_CLAIMS, Claim, FlatClaim, SizeClaim

_GROWTH = "scaling_per_100_tokens"

_COLUMNS = {"steady": "request_s", "cold": "cold_request_s", "arithmetic": "flops_per_request"}

SUITE = "seeds"

_LEGEND = (
    "claimed: in notes on code like this; est. is estimated there, counted is on paper, cold and steady are timed.\n"
    "steady, cold: whole requests, measured here. arithmetic: counted FLOPs of both."
)


def claims_report(run: RunRecord) -> Iterator[RenderableType]:
    """Yield the claims that the run's cases measure; nothing in a run of another suite."""
    cases = {case.id: case for case in run.cases if run.suite == SUITE}
    known = [claim for claim in CLAIMS if claim.slow in cases and claim.fast in cases]
    others = [line for claim in FLAT_CLAIMS if claim.case in cases for line in _flat(claim, cases[claim.case])]
    others += [line for claim in SIZE_CLAIMS if claim.case in cases for line in _size(claim, cases[claim.case])]
    if known:
        yield Text("speed-ups: claimed, and measured here", style="bold")
        yield _table(known, cases)
        yield Text(_LEGEND, style="dim")
    yield from (Text(line) for line in others)
    if known or others:
        yield Text()


def _table(claims: list[Claim], cases: Mapping[str, CaseRecord]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for name in ("claimed", *_COLUMNS):
        table.add_column(name, justify="right", no_wrap=True)
    for claim in claims:
        slow, fast = cases[claim.slow], cases[claim.fast]
        ratios = (_ratio(claim, slow, fast, metric) for metric in _COLUMNS.values())
        table.add_row(label(claim), claimed(claim), *ratios)
    return table


def label(claim: Claim) -> str:
    """Return the claim's row: what it is about, and which engine is compared with which."""
    return f"{claim.name}, over {claim.slow.split('/')[-2]}"


def claimed(claim: Claim) -> str:
    """Return the claimed ratio and where it is from: ``8-10x est.``."""
    ends = dict.fromkeys((f"{claim.low:g}", f"{claim.high:g}"))
    return f"{'-'.join(ends)}x {claim.source.value}"


def _ratio(claim: Claim, slow: CaseRecord, fast: CaseRecord, metric: str) -> str:
    before, after = value(slow, metric), value(fast, metric)
    if before is None or not after:
        return "-"
    mark = MARK if is_extrapolated(slow, metric) or is_extrapolated(fast, metric) else ""
    return f"{mark}{units.significant(claim.requests * before / after)}x"


def _flat(claim: FlatClaim, case: CaseRecord) -> Iterator[str]:
    found = case.metrics.get(_GROWTH)
    if found is None or found.interval is None:
        return
    growth, low, high = (f"{100 * one:+.2f}%" for one in (found.value, *found.interval))
    yield f"{claim.name}: 0% slower per 100 tokens claimed, {growth} here ({low} to {high})"


def _size(claim: SizeClaim, case: CaseRecord) -> Iterator[str]:
    found = value(case, claim.metric)
    if found is None:
        return
    where = ""
    if claim.positions:
        work = Case.from_json(dict(case.spec)).workload
        found *= claim.positions / (work.prompt_length + work.new_tokens)
        where = f" for {claim.positions:,} positions"
    told = f"{units.byte_count(claim.claimed_bytes)} claimed, {units.byte_count(found)} here{where}"
    yield f"{claim.name}: {told}"
