"""The table of operations: everything that version 1 of the interface can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from qwenperf.formats.convert import READABLE
from qwenperf.service.api import (
    badges,
    changes,
    export,
    health,
    projects,
    records,
    removal,
    series,
)
from qwenperf.service.api.asked import project_of
from qwenperf.service.api.operations import (
    CURSOR,
    LIMIT,
    PREFIX,
    Handler,
    Operation,
    Parameter,
    flag,
    many,
    maybe,
    named,
    text,
    thing,
    whole,
)
from qwenperf.service.api.table_files import FILES
from qwenperf.service.api.table_outward import OUTWARD
from qwenperf.service.db.alerts import STATES
from qwenperf.service.large import sparing

_PROJECTS = f"{PREFIX}/projects"
_PROJECT = f"{_PROJECTS}/{{project}}"
_RUN = f"{_PROJECT}/runs/{{run}}"
_COMPARISON = f"{_PROJECT}/comparisons/{{comparison}}"
_TIME = text(format="date-time")
_SHA = "^[0-9a-f]{40}([0-9a-f]{24})?$"


def _sparing(show: Callable[[Request], Response]) -> Handler:
    return sparing(show, lambda request: project_of(request, "read")[1])


def _listed(name: str, schema: str) -> dict[str, Any]:
    return thing(**{name: many(named(schema)), "next": maybe(text())})


def _told(name: str, about: str, schema: dict[str, Any] | None = None, *, required: bool = False) -> Parameter:
    return Parameter(name=name, schema=schema or text(), about=about, required=required)


_OPTIONAL: dict[str, Any] = {
    "title": text(maxLength=200), "public": flag("Everybody may read."), "quota_bytes": whole(minimum=0),
    "retention_days": maybe(whole(minimum=1)), "owner": text(maxLength=200), "repository": text(maxLength=200),
    "default_branch": text("Runs on it are judged over time; others are compared with it.", minLength=1, maxLength=200),
    "budgets": {"type": "object", "description": "The table [tool.qwenperf.budgets]; runs are judged by it."},
}  # fmt: skip
_NEW_PROJECT = thing(_OPTIONAL, project=text(pattern="^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"))
_CHANGE = thing(
    case=text(), metric=text(), run=text("Where the change begins."),
    reason=text(minLength=1, maxLength=changes.REASON_LIMIT),
)  # fmt: skip
_SERIES_OF = (
    _told("case", "Of this case.", required=True),
    _told("metric", "This metric.", required=True),
)
_SENT = (
    _told("format", "The tool whose file is sent (default: a record of ours).", text(enum=list(READABLE))),
    _told("modified_at", "When another tool's file was written, if it has no time of its own.", _TIME),
    _told("measured_at", "When another tool measured.", _TIME),
    _told("commit", "What another tool measured."),
    _told("suite", "Name of another tool's suite."),
    _told("fork_point", "Commit at which the run's branch left the default one.", text(pattern="^[0-9a-f]{7,64}$")),
    _told("forked_at", "When that commit was made.", _TIME),
    _told("pull_request", "Pull request that GitHub is told at, where the project is linked.", whole(minimum=1)),
    _told("head_sha", "Its newest commit when it was measured, where the record's is a merge.", text(pattern=_SHA)),
)
OPERATIONS = (
    Operation(
        id="listProjects", method="GET", path=_PROJECTS, handler=projects.listed, about="Projects that you may see.",
        answers={200: thing(projects=many(named("Project")))},
    ),
    Operation(
        id="createProject", method="POST", path=_PROJECTS, handler=projects.create, about="Make a project.",
        scope="admin", body=_NEW_PROJECT, answers={201: named("ProjectInFull")}, problems=(409, 413, 415, 422),
    ),
    Operation(
        id="getProject", method="GET", path=_PROJECT, handler=projects.show, scope="read",
        about="One project, with its budgets.", answers={200: named("ProjectInFull")},
    ),
    Operation(
        id="changeProject", method="PATCH", path=_PROJECT, handler=projects.change, scope="admin",
        about="Change title, visibility, quota, retention, owner, repository, default branch or budgets.",
        body=thing(_OPTIONAL), answers={200: named("ProjectInFull")}, problems=(413, 415, 422),
    ),
    Operation(
        id="sendRun", method="POST", path=f"{_PROJECT}/runs", handler=records.send, scope="push", parameters=_SENT,
        about="Send a run.json, a comparison.json or another tool's file. The same content again changes nothing.",
        body={"type": "object"}, answers={200: named("Received"), 201: named("Received")},
        problems=(409, 413, 415, 422),
    ),
    Operation(
        id="listRuns", method="GET", path=f"{_PROJECT}/runs", handler=records.list_runs, scope="read",
        about="Runs, the latest first.",
        parameters=(
            LIMIT, CURSOR, _told("branch", "On this branch."), _told("environment", "In this environment."),
            _told("commit", "Of this commit."), _told("suite", "Of this suite."),
        ),
        answers={200: _listed("runs", "Run")}, problems=(422,),
    ),
    Operation(
        id="getRun", method="GET", path=_RUN, handler=_sparing(records.show_run), scope="read",
        about="A run with cases, metrics, verdicts and files.", answers={200: named("RunInFull")},
    ),
    Operation(
        id="removeRun", method="DELETE", path=_RUN, handler=removal.remove_run, scope="admin",
        about="Remove a run with its points, verdicts and files. Once more changes nothing.", answers={204: None},
    ),
    Operation(
        id="getRunRecord", method="GET", path=f"{_RUN}/record", handler=records.run_record, scope="read",
        about="The run.json that was sent.", answers={200: {"type": "object"}},
    ),
    Operation(
        id="getRunVerdicts", method="GET", path=f"{_RUN}/verdicts", handler=records.run_verdicts, scope="read",
        about="What the gates said.",
        answers={200: thing(outcome=text(), verdicts=many(named("Verdict")))},
    ),
    Operation(
        id="listComparisons", method="GET", path=f"{_PROJECT}/comparisons", handler=records.list_comparisons,
        scope="read", about="Comparisons, the latest first.", parameters=(LIMIT, CURSOR),
        answers={200: _listed("comparisons", "Comparison")}, problems=(422,),
    ),
    Operation(
        id="sendComparison", method="POST", path=f"{_PROJECT}/comparisons", handler=records.send, scope="push",
        about="The same as sending a run.", parameters=_SENT, body={"type": "object"},
        answers={200: named("Received"), 201: named("Received")}, problems=(409, 413, 415, 422),
    ),
    Operation(
        id="getComparison", method="GET", path=_COMPARISON, handler=records.show_comparison, scope="read",
        about="A comparison with verdicts and files.", answers={200: named("ComparisonInFull")},
    ),
    Operation(
        id="getComparisonRecord", method="GET", path=f"{_COMPARISON}/record", handler=records.comparison_record,
        scope="read", about="The comparison.json that was sent.", answers={200: {"type": "object"}},
    ),
    Operation(
        id="removeComparison", method="DELETE", path=_COMPARISON, handler=removal.remove_comparison, scope="admin",
        about="Remove a comparison with its verdicts and files. Once more changes nothing.", answers={204: None},
    ),
    *FILES,
    Operation(
        id="listSeries", method="GET", path=f"{_PROJECT}/series", handler=series.listed, scope="read",
        about="Series by case and metric, each with its newest value.",
        parameters=(
            _told("case", "Of this case."), _told("metric", "This metric."),
            _told("after_case", "Go on behind the series of this case ..."),
            _told("after_metric", "... and this metric."),
            _told("limit", "So many at most.", whole(minimum=1, maximum=10_000, default=1000)),
        ),
        answers={200: thing(series=many(named("Series")), more=flag())}, problems=(422,),
    ),
    Operation(
        id="getWindow", method="GET", path=f"{_PROJECT}/series/window", handler=series.window, scope="read",
        about="A window of a series: its points, or where there are more than `limit`, buckets with minimum, mean "
        "and maximum, each of one environment.",
        parameters=(
            *_SERIES_OF, _told("start", "From this time on.", _TIME), _told("end", "Up to this time.", _TIME),
            _told("environment", "In this environment."), _told("branch", "On this branch."),
            _told("limit", "So many points, or spans of buckets, at most.",
                  whole(minimum=1, maximum=10_000, default=1000)),
        ),
        answers={200: named("Window")}, problems=(422,),
    ),
    Operation(
        id="compareRuns", method="GET", path=f"{_PROJECT}/compare", handler=_sparing(series.compare), scope="read",
        about="Two runs side by side. It judges nothing: `qwenperf compare` measures both together.",
        parameters=(_told("base", "This run ...", required=True), _told("head", "... and that.", required=True)),
        answers={200: named("SideBySide")}, problems=(422,),
    ),
    Operation(
        id="listEnvironments", method="GET", path=f"{_PROJECT}/environments", handler=changes.list_environments,
        scope="read", about="Environments that runs came from.",
        answers={200: thing(environments=many(thing(environment=text(), runs=whole(), last_at=_TIME)))},
    ),
    Operation(
        id="listAlerts", method="GET", path=f"{_PROJECT}/alerts", handler=changes.list_alerts, scope="read",
        about="Alerts, the latest first.", parameters=(LIMIT, _told("state", "In this state.", text(enum=[*STATES]))),
        answers={200: thing(alerts=many(named("Alert")))}, problems=(422,),
    ),
    Operation(
        id="listAccepted", method="GET", path=f"{_PROJECT}/accepted", handler=changes.list_accepted, scope="read",
        about="Accepted changes, the latest first.", parameters=(LIMIT,),
        answers={200: thing(accepted=many(named("Accepted")))}, problems=(422,),
    ),
    Operation(
        id="acceptChange", method="POST", path=f"{_PROJECT}/accepted", handler=changes.accept, scope="admin",
        about="Accept a change: what a series does from a run on is what is expected of it.", body=_CHANGE,
        answers={201: named("Accepted")}, problems=(413, 415, 422),
    ),
    *OUTWARD,
    Operation(
        id="getBadge", method="GET", path=f"{_PROJECT}/badge.svg", handler=badges.show, scope="read",
        about="The outcome of the latest run, or the newest value of a series, as a picture.",
        parameters=(
            _told("branch", "On this branch."), _told("case", "Of this case ..."), _told("metric", "... this metric."),
        ),
        answers={200: "image/svg+xml"}, problems=(422,),
    ),
    Operation(
        id="export", method="GET", path=f"{_PROJECT}/export", handler=export.export, scope="read",
        about="Everything as JSON lines, the audit log for admins only; the last line has type `end`.",
        answers={200: "application/x-ndjson"},
    ),
    Operation(
        id="alive", method="GET", path="/healthz", handler=health.alive, about="The process answers.",
        answers={200: named("Status")},
    ),
    Operation(
        id="ready", method="GET", path="/readyz", handler=health.ready, about="Database and files answer.",
        answers={200: named("Status")}, problems=(422, 503),
    ),
    Operation(
        id="metrics", method="GET", path="/metrics", handler=health.metrics, about="For Prometheus.",
        answers={200: "text/plain"},
    ),
)  # fmt: skip
