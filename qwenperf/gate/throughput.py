"""Gate "throughput": decode tokens/s against a number, a multiple of another rung, or a share of the roofline.

Nothing declared, nothing judged, but for one thing: a reading that the roofline does not allow is no speed, it is
work that was not waited for, or not done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qwenperf import units
from qwenperf.gate.budget_set import CaseBudget, Times
from qwenperf.gate.ceiling import ceiling, product_rate
from qwenperf.gate.limits import Check, Limit, Reading, check, compare, reading
from qwenperf.gate.verdict import ELSEWHERE, NOT_JUDGED, failed, skipped, with_skip, worst
from qwenperf.schema.metrics import Direction, lookup
from qwenperf.schema.records import CaseRecord, Outcome, Status, Verdict
from qwenperf.traces.diff import longest_lines

GATE = "throughput"
METRIC = "decode_tokens_per_s"

_WAIT = "Block on every output before the clock stops (jax.block_until_ready), and check that all tokens were made."


def judge(case: CaseRecord, budget: CaseBudget, peers: Mapping[str, CaseRecord]) -> Verdict:
    """Judge every throughput limit declared for the case; ``peers`` are the cases of the same run by id."""
    impossible = implausible(case)
    if impossible:
        return failed(GATE, f"implausible: {impossible}", advice=_WAIT)
    checks = [*_absolute(case, budget), *_multiple(case, budget, peers), *_share(case, budget)]
    outside = [f"{METRIC} budget skipped: {budget.outside[METRIC]}"] if METRIC in budget.outside else []
    if not checks and not outside:
        advice = "`qwenperf budgets propose RUN` writes budgets."
        return skipped(GATE, f"no throughput budget declared{_speed(case)}", advice=advice)
    if not checks:
        return with_skip(skipped(GATE, outside[0]), ELSEWHERE)
    return _with_reasons(_verdict(checks, outside), case)


def _with_reasons(verdict: Verdict, case: CaseRecord) -> Verdict:
    """Say of a failure where the time goes, as far as the case's trace shows it."""
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    lines = longest_lines(case.evidence.trace_summary)
    return replace(verdict, detail=(*verdict.detail, *(f"in the trace: {line}" for line in lines)))


def _verdict(checks: list[Check], outside: list[str]) -> Verdict:
    outcome = _together(checks)
    first = next(one for one in checks if one.outcome is outcome)
    rest = [one.text for one in checks if one is not first]
    advice = _ADVICE.get(outcome, "")
    verdict = Verdict(gate=GATE, outcome=outcome, summary=first.text, detail=(*rest, *outside), advice=advice)
    if first.smallest_effect is not None:
        verdict = replace(verdict, data={"smallest_effect": first.smallest_effect})
    reasons = {one.skip for one in checks if one.skip}
    return with_skip(verdict, NOT_JUDGED if NOT_JUDGED in reasons else ELSEWHERE) if reasons else verdict


_ADVICE = {
    Outcome.FAIL: "Compare the traces and the compiled programs of both before lowering the budget.",
    Outcome.INCONCLUSIVE: "Measure more trials, or on a quieter machine.",
}


def implausible(case: CaseRecord) -> str:
    """Say why the case is faster than its machine can be; empty when it is not."""
    for void in case.evidence.voids:
        if "roofline allows" in void:
            return void
    roofline = case.evidence.roofline
    if roofline is None:
        return ""
    most, workload = ceiling(roofline), case.spec.get("workload")
    dtype = str(workload.get("dtype", "")) if isinstance(workload, Mapping) else ""
    flops, moved, size = (case.metrics.get(name) for name in ("mfu", "mbu", "bytes_per_step"))
    if flops and flops.value * product_rate(roofline, dtype) > most.flops_per_s:
        return f"{units.significant(flops.value)} times the arithmetic that the roofline allows"
    beyond = size is not None and size.value >= most.beyond_caches_bytes
    if moved and beyond and moved.value * roofline.bytes_per_s > most.bytes_per_s:
        return f"{units.significant(moved.value)} times the bytes/s that the roofline allows"
    return ""


def _together(checks: list[Check]) -> Outcome:
    """Return fail or inconclusive if any is; missing evidence for one limit keeps the others from passing."""
    outcomes = {one.outcome for one in checks}
    if Outcome.SKIPPED in outcomes and not outcomes & {Outcome.FAIL, Outcome.INCONCLUSIVE}:
        return Outcome.SKIPPED
    return worst(outcomes) or Outcome.SKIPPED


def _absolute(case: CaseRecord, budget: CaseBudget) -> list[Check]:
    limit = budget.limits.get(METRIC)
    if limit is None:
        return []
    seen = case.metrics.get(METRIC)
    direct = _absent(case, METRIC) if seen is None else check(limit, seen)
    if direct.outcome in {Outcome.SKIPPED, Outcome.INCONCLUSIVE} and limit.max is None:
        return [_from_whole_requests(case, limit) or direct]
    return [direct]


def _from_whole_requests(case: CaseRecord, limit: Limit) -> Check | None:
    """Return a pass where whole requests, first token and all, already keep the floor of decoding alone.

    A time per token is a small difference of two readings, and noise can swallow it; batch * (N - 1) tokens within the
    whole request is a rate that decoding alone cannot be below.
    """
    whole, workload = case.metrics.get("request_tokens_per_s"), case.spec.get("workload")
    tokens = workload.get("new_tokens") if isinstance(workload, Mapping) else None
    if whole is None or limit.min is None or not isinstance(tokens, int) or tokens < 2:
        return None
    rate = reading(whole)
    share = (tokens - 1) / tokens
    bound = Reading(value=rate.value * share, low=rate.low * share, high=rate.high * share, doubt=rate.doubt)
    found = compare(f"{METRIC}, by whole requests at least", bound, lookup(METRIC).unit, least=limit.min)
    return found if found.outcome is Outcome.PASS else None


def _multiple(case: CaseRecord, budget: CaseBudget, peers: Mapping[str, CaseRecord]) -> list[Check]:
    times = budget.min_times
    if times is None:
        return []
    seen = case.metrics.get(times.metric)
    if seen is None:
        return [_absent(case, times.metric)]
    peer = find_rung(case, times.rung, peers)
    base = peer.metrics.get(times.metric) if peer else None
    if base is None or reading(base).low <= 0 or reading(seen).low <= 0:
        return [_no_peer(times, peer)]
    ratio = reading(seen).over(reading(base))
    if lookup(times.metric).direction is Direction.LOWER:
        ratio = reading(base).over(reading(seen))
    return [compare(f"{times.metric} over {times.rung}", ratio, "ratio", least=times.factor)]


def find_rung(case: CaseRecord, rung: str, peers: Mapping[str, CaseRecord]) -> CaseRecord | None:
    """Return the case of engine ``rung`` with the same model and workload."""
    wanted = {**_subject(case), "engine": rung}
    return next((peer for peer in peers.values() if _subject(peer) == wanted), None)


def _subject(case: CaseRecord) -> dict[str, object]:
    return {key: case.spec.get(key) for key in ("model", "workload", "engine")}


def _share(case: CaseRecord, budget: CaseBudget) -> list[Check]:
    """Check the share of the roofline: of whichever of bytes and arithmetic limits the step more."""
    if budget.min_roofline_share is None:
        return []
    known = [case.metrics[name] for name in ("mbu", "mfu") if name in case.metrics]
    if not known:
        return [_unjudged("share of the roofline not known: the case has neither mbu nor mfu")]
    share: Reading = max((reading(metric) for metric in known), key=lambda one: one.value)
    return [compare("share of the roofline", share, "ratio", least=budget.min_roofline_share)]


def _absent(case: CaseRecord, metric: str) -> Check:
    told = [finding.message.rstrip(".") for finding in case.findings if finding.code == "no-decode-time"]
    reasons = [*case.evidence.voids, *told]
    return _unjudged(f"{metric} was not measured{f': {reasons[0]}' if reasons else ''}")


def _unjudged(text: str) -> Check:
    return Check(outcome=Outcome.SKIPPED, text=text, skip=NOT_JUDGED)


def _no_peer(times: Times, peer: CaseRecord | None) -> Check:
    if peer is None:
        why = f"the run was not asked for {times.rung!r} of this model and workload; add it"
    elif peer.status is not Status.MEASURED:
        why = f"{peer.id} {peer.status.value.replace('_', ' ')}"
    else:
        why = f"{peer.id} has no {times.metric}"
    skip = ELSEWHERE if peer is None else NOT_JUDGED
    return Check(outcome=Outcome.SKIPPED, text=f"not compared with {times.rung}: {why}", skip=skip)


def _speed(case: CaseRecord) -> str:
    seen = case.metrics.get(METRIC)
    return f" (measured {units.quantity(seen.value, seen.unit)})" if seen else ""
