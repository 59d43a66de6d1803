"""JSON Schemas of what the interface sends, by name: ``shapes`` makes them, ``openapi`` publishes them."""

from __future__ import annotations

from typing import Any

from qwenperf.schema.judged import Outcome
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.service.api.operations import flag, many, maybe, named, real, text, thing, whole
from qwenperf.service.db.alerts import STATES
from qwenperf.service.db.github import STATES as POST_STATES
from qwenperf.service.db.notices import STATES as DELIVERY_STATES

_TIME = text("ISO 8601, UTC.", format="date-time")
_INTERVAL = maybe({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2})
_METRIC = {
    "case": text(),
    "metric": text(),
    "unit": text(),
    "direction": text(enum=[str(one) for one in Direction]),
    "kind": text(enum=[str(one) for one in Kind]),
}
_OUTCOME = text(enum=[*(str(one) for one in Outcome), ""])
_SIDE = thing(label=text(), commit=text())
_RUN: dict[str, Any] = {
    "run": text(), "sha256": text(), "suite": text(), "at": _TIME, "measured_at": _TIME, "committed_at": maybe(_TIME),
    "commit": text(), "branch": text(), "fork_point": text("Where it left the default branch; empty on that."),
    "environment": text("Equal means comparable."), "cases": whole(),
    "failed": whole("Cases that were not measured."), "outcome": _OUTCOME, "interrupted": flag(), "received_at": _TIME,
    "pushed_by": text(),
}  # fmt: skip
_COMPARISON: dict[str, Any] = {
    "comparison": text(), "sha256": text(), "base": _SIDE, "head": _SIDE, "environment": text(), "outcome": _OUTCOME,
    "cases": whole(), "created_at": _TIME, "received_at": _TIME, "pushed_by": text(),
}  # fmt: skip

_PROJECT: dict[str, Any] = {
    "project": text(), "title": text(), "public": flag(), "quota_bytes": whole(), "used_bytes": whole(),
    "retention_days": maybe(whole()), "owner": text(), "repository": text(), "default_branch": text(),
    "created_at": _TIME,
}  # fmt: skip
_BUDGETS = {"type": "object", "description": "The table [tool.qwenperf.budgets], by which runs are judged."}

SCHEMAS: dict[str, dict[str, Any]] = {
    "Problem": thing(error=text("What was wrong."), advice=text("What to do.")),
    "Status": thing(status=text()),
    "Project": thing(**_PROJECT),
    "ProjectInFull": thing(**_PROJECT, budgets=_BUDGETS),
    "Received": thing(
        records=many(thing(
            kind=text(enum=["run", "comparison"]), id=text(), sha256=text("Of the canonical JSON."),
            created=flag("False where it was there already."), url=text(), page=text(),
        )),
    ),
    "Run": thing(**_RUN),
    "Case": thing(case=text(), status=text(), error=maybe(text()), trace=maybe(text()), wall_s=maybe(real())),
    "Measured": thing(**_METRIC, value=real(), interval=_INTERVAL, samples=whole()),
    "Verdict": thing(
        case=text(), gate=text(), outcome=_OUTCOME, summary=text(), detail=many(text()), advice=text()
    ),
    "File": thing(path=text(), size=whole(), sha256=text()),
    "RunInFull": thing(
        **_RUN, case_list=many(named("Case")), metrics=many(named("Measured")), verdicts=many(named("Verdict")),
        files=many(named("File")),
    ),
    "Comparison": thing(**_COMPARISON),
    "ComparisonInFull": thing(**_COMPARISON, verdicts=many(named("Verdict")), files=many(named("File"))),
    "Series": thing(**_METRIC, total=whole(), last_at=maybe(_TIME), last_value=maybe(real())),
    "Point": thing(
        at=_TIME, value=real(), interval=_INTERVAL, samples=whole(), run=text(), commit=text(), branch=text(),
        environment=text(), measured_at=_TIME, committed_at=maybe(_TIME), accepted=maybe(text()),
    ),
    "Bucket": thing(
        at=_TIME, until=_TIME, environment=text(), count=whole(), min=real(), max=real(), mean=real(),
        interval=_INTERVAL,
    ),
    "Window": thing(
        **_METRIC, total=whole("Points in the window."), start=maybe(_TIME), end=maybe(_TIME),
        points=many(named("Point")), buckets=many(named("Bucket")),
    ),
    "SideBySide": thing(
        base=named("Run"), head=named("Run"), comparable=flag(), why=text(),
        metrics=many(thing(
            **_METRIC, base=maybe(real()), head=maybe(real()), ratio=maybe(real()),
            change=text(enum=["new", "gone", "same", "different", "better", "worse"]),
        )),
    ),
    "Upload": thing(
        {"path": text()}, upload=maybe(text()), offset=whole(), size=whole(), complete=flag()
    ),
    "Alert": thing(
        case=maybe(text()), metric=maybe(text()), kind=text(), gate=text("That fails, or nothing."),
        environment=text("In which a gate fails; nothing for others."),
        state=text(enum=list(STATES)), family=text(), owner=text(), run=maybe(text()), at=_TIME,
        before=maybe(real()), after=maybe(real()), ratio=maybe(real()), summary=text(), created_at=_TIME,
    ),
    "Webhook": thing(
        {"secret": maybe(text("Signs messages. Shown this once, where the service made it."))},
        address=text("Without path and query."), created_at=_TIME, created_by=text(),
    ),
    "Delivery": thing(
        delivery=text("The same for each try."), event=text(), state=text(enum=list(DELIVERY_STATES)), tries=whole(),
        problem=text("Of the last try."), next_at=maybe(_TIME), created_at=_TIME, updated_at=_TIME,
    ),
    "GitHubLink": thing(
        repository=text(), repository_id=text(), tokens=flag(), check=text("Name of the check."),
        credentials=flag("Whether the service can ask GitHub."), created_at=_TIME, created_by=text(),
    ),
    "GitHubPost": thing(
        run=maybe(text()), comparison=maybe(text()), commit=text(), pull_request=maybe(whole()),
        state=text(enum=list(POST_STATES)), tries=whole(), problem=text("Of the last try."), check=text("Address."),
        comment=text("Address."), next_at=maybe(_TIME), created_at=_TIME, updated_at=_TIME,
    ),
    "Accepted": thing(
        case=text(), metric=text(), run=text(), reason=text(), accepted_by=text(), created_at=_TIME
    ),
}  # fmt: skip
