"""Two saved runs as a comparison: what does not depend on the clock, and nothing else.

Runs that were measured at different times differ by what the machine did meanwhile: their times are shown by other
commands and never judged against each other here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qwenperf.gate.comparison import judge_comparison
from qwenperf.schema.comparison import ComparedCase, ComparisonRecord, SideEvidence, SideRecord
from qwenperf.schema.metrics import Kind
from qwenperf.schema.records import CaseRecord, RunRecord, Status


def compare_saved(base: RunRecord, head: RunRecord) -> ComparisonRecord:
    """Return the judged comparison of two runs; their speeds are skipped with the reason."""
    old, new = ({case.id: case for case in run.cases} for run in (base, head))
    shared = [name for name in new if name in old]
    record = ComparisonRecord(
        id=f"{base.id}..{head.id}",
        created_at=head.created_at,
        base=_side(base),
        head=_side(head),
        declared=tuple(dict.fromkeys((*base.declared, *head.declared))),
        cases=tuple(
            ComparedCase(
                id=name,
                spec=new[name].spec,
                base=_evidence(old[name]),
                head=_evidence(new[name]),
                extra=_approximate(old[name], new[name]),
            )
            for name in shared
        ),
        extra={
            "missing": [name for name in base.declared if name not in new],
            "new": [name for name in new if name not in old],
            "apart": True,
        },
    )
    return judge_comparison(record, {})


def _side(run: RunRecord) -> SideRecord:
    return SideRecord(label=run.id, kind="run", commit=run.commit, environment=run.environment)


def _approximate(base: CaseRecord, head: CaseRecord) -> dict[str, Any]:
    """Return the approximate settings of either side's engine, as a live comparison has them: tokens may differ."""
    told = [case.spec.get("approximate") for case in (base, head)]
    found = {str(what) for one in told if isinstance(one, Mapping) for what in one.get("settings") or ()}
    return {"approximate": sorted(found)} if found else {}


def _evidence(case: CaseRecord) -> SideEvidence:
    if case.status is not Status.MEASURED:
        return SideEvidence(error=case.error or case.status.value.replace("_", " "))
    programs = {one.name: one.fingerprint for one in case.evidence.programs if one.fingerprint}
    compiles = case.metrics.get("compiles_cold")
    return SideEvidence(
        tokens=case.evidence.tokens.generated if case.evidence.tokens else (),
        programs=programs,
        metrics={name: one for name, one in case.metrics.items() if one.kind is Kind.DETERMINISTIC},
        extra={} if compiles is None else {"compiles": int(compiles.value)},
    )
