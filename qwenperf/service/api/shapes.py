"""Rows as JSON: the same words as in records, times in ISO 8601, no numbers of rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Row
from starlette.responses import JSONResponse

from qwenperf.service.times import iso

Json = dict[str, Any]


def answer(data: Json, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return a JSON answer."""
    return JSONResponse(data, status_code=status, headers=headers)


def page(
    name: str, rows: Sequence[Row[Any]], shape: Callable[[Row[Any]], Json], limit: int, time: str = "at"
) -> JSONResponse:
    """Return a list that may go on: ``next`` is its cursor, or null. ``rows`` are one more than ``limit``."""
    shown = rows[:limit]
    more = len(rows) > limit
    following = f"{getattr(shown[-1], time)}-{shown[-1].id}" if more else None
    return answer({name: [shape(row) for row in shown], "next": following})


def project(row: Row[Any]) -> Json:
    """Return a project."""
    return {
        "project": row.name,
        "title": row.title,
        "public": row.public,
        "quota_bytes": row.quota_bytes,
        "used_bytes": row.used_bytes,
        "retention_days": row.retention_days,
        "owner": row.owner,
        "repository": row.repository,
        "default_branch": row.default_branch,
        "created_at": iso(row.created_at),
    }


def project_in_full(row: Row[Any]) -> Json:
    """Return a project with the budgets that judge its runs: whoever sees their verdicts may see these."""
    return project(row) | {"budgets": json.loads(row.budgets) if row.budgets else {}}


def run(row: Row[Any]) -> Json:
    """Return a run without its cases."""
    return {
        "run": row.name,
        "sha256": row.sha256,
        "suite": row.suite,
        "at": iso(row.at),
        "measured_at": iso(row.measured_at),
        "committed_at": None if row.committed_at is None else iso(row.committed_at),
        "commit": row.commit,
        "branch": row.branch,
        "fork_point": row.fork_point,
        "environment": row.environment,
        "cases": row.cases,
        "failed": row.failed,
        "outcome": row.outcome,
        "interrupted": row.interrupted,
        "received_at": iso(row.received_at),
        "pushed_by": row.pushed_by,
    }


def case(row: Row[Any]) -> Json:
    """Return a case of a run."""
    return {"case": row.name, "status": row.status, "error": row.error, "trace": row.trace, "wall_s": row.wall_s}


def metric(row: Row[Any]) -> Json:
    """Return what was measured of a case."""
    return {
        "case": row.case,
        "metric": row.metric,
        "unit": row.unit,
        "direction": row.direction,
        "kind": row.kind,
        "value": row.value,
        "interval": _interval(row),
        "samples": row.samples,
    }


def _interval(row: Row[Any]) -> list[float] | None:
    return None if row.low is None else [row.low, row.high]


def verdict(row: Row[Any]) -> Json:
    """Return what a gate says."""
    return {
        "case": row.case,
        "gate": row.gate,
        "outcome": row.outcome,
        "summary": row.summary,
        "detail": row.detail.splitlines(),
        "advice": row.advice,
    }


def comparison(row: Row[Any]) -> Json:
    """Return a comparison without its cases."""
    return {
        "comparison": row.name,
        "sha256": row.sha256,
        "base": {"label": row.base_label, "commit": row.base_commit},
        "head": {"label": row.head_label, "commit": row.head_commit},
        "environment": row.environment,
        "outcome": row.outcome,
        "cases": row.cases,
        "created_at": iso(row.created_at),
        "received_at": iso(row.received_at),
        "pushed_by": row.pushed_by,
    }


def series(row: Row[Any]) -> Json:
    """Return a series without its points."""
    return {
        "case": row.case,
        "metric": row.metric,
        "unit": row.unit,
        "direction": row.direction,
        "kind": row.kind,
        "total": row.points,
        "last_at": None if row.last_at is None else iso(row.last_at),
        "last_value": row.last_value,
    }


def point(row: Row[Any]) -> Json:
    """Return one value of a series and where it came from."""
    return {
        "at": iso(row.at),
        "value": row.value,
        "interval": _interval(row),
        "samples": row.samples,
        "run": row.run,
        "commit": row.commit,
        "branch": row.branch,
        "environment": row.environment,
        "measured_at": iso(row.measured_at),
        "committed_at": None if row.committed_at is None else iso(row.committed_at),
        "accepted": row.accepted,
    }


def bucket(row: Row[Any]) -> Json:
    """Return what several points of one environment come to."""
    return {
        "at": iso(row.at),
        "until": iso(row.until),
        "environment": row.environment,
        "count": row.points,
        "min": row.min,
        "max": row.max,
        "mean": row.mean,
        "interval": _interval(row),
    }


def file(row: Row[Any]) -> Json:
    """Return a file of a run or comparison."""
    return {"path": row.path, "size": row.size, "sha256": row.sha256}


def alert(row: Row[Any]) -> Json:
    """Return an alert."""
    return {
        "case": row.case,
        "metric": row.metric,
        "kind": row.kind,
        "gate": row.gate,
        "environment": row.environment,
        "state": row.state,
        "family": row.family,
        "owner": row.owner,
        "run": row.run,
        "at": iso(row.at),
        "before": row.before,
        "after": row.after,
        "ratio": row.ratio,
        "summary": row.summary,
        "created_at": iso(row.created_at),
    }


def acceptance(row: Row[Any]) -> Json:
    """Return an accepted change."""
    return {
        "case": row.case,
        "metric": row.metric,
        "run": row.run,
        "reason": row.reason,
        "accepted_by": row.accepted_by,
        "created_at": iso(row.created_at),
    }
