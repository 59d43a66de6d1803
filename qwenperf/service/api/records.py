"""Runs and comparisons: sent once, read as summaries or as the record that was sent."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from qwenperf.errors import UsageError
from qwenperf.formats.foreign import Told
from qwenperf.schema.hints import show as shown
from qwenperf.service.api import shapes
from qwenperf.service.api.asked import body_of, cursor_of, part, project_for, project_of, text_of, time_of, whole_of
from qwenperf.service.arrivals import ArrivedRun, unpack_text
from qwenperf.service.auth.identity import Identity
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import comparisons, files, github, points, runs, sizes
from qwenperf.service.github.wanted import Sent, is_sha
from qwenperf.service.large import LARGE, in_turn, pieces
from qwenperf.service.problems import NotFoundError
from qwenperf.service.reading import Arrived, forked, placed, read_sent, timely
from qwenperf.service.times import iso, not_ahead


async def send(request: Request) -> Response:
    """Take a run or a comparison in; the same content again is answered with what is there."""
    service = service_of(request)
    # Who asks, and may, is settled before a byte of the body is read.
    identity, project = await run_in_threadpool(project_of, request, "push")
    data = await body_of(request, service.settings.record_limit)
    work = partial(_take, request, service, identity, project, data)
    return await in_turn(request, len(data), work)


def _take(request: Request, service: Service, identity: Identity, project: Row[Any], data: bytes) -> Response:
    at = service.clock()
    said = {name: text_of(request, name) or "" for name in ("modified_at", "measured_at", "commit", "suite")}
    told = Told(
        modified_at=said["modified_at"] or iso(at), at=said["measured_at"], commit=said["commit"], suite=said["suite"]
    )
    fork_point, at_fork = text_of(request, "fork_point") or "", time_of(request, "forked_at")
    if at_fork is not None:
        not_ahead(at_fork, at, "the parameter forked_at")
    arrived = read_sent(data, text_of(request, "format") or "", told, project.budgets)
    arrived = [forked(timely(one, at), fork_point, at_fork) for one in arrived]

    pull, head = whole_of(request, "pull_request", 0, 1, 10**9) or None, _head(request)
    arrived = [placed(one, pull, identity.job, project.default_branch) for one in arrived]

    def work(connection: Connection) -> list[bool]:
        return [_keep(connection, project, one, at, _sent(one, identity, pull, head), identity.name) for one in arrived]

    news = service.database.write(work)
    found = [_told(project, one, is_new) for one, is_new in zip(arrived, news, strict=True)]
    for one in found:
        service.counters.add("records_received", kind=one["kind"], new=str(one["created"]).lower())
    return shapes.answer({"records": found}, 201 if any(news) else 200, {"Location": found[0]["url"]})


def _keep(connection: Connection, project: Row[Any], arrived: Arrived, at: int, sent: Sent, by: str) -> bool:  # noqa: PLR0917
    if isinstance(arrived, ArrivedRun):
        number, is_new = runs.keep(connection, project.id, arrived, at=at, by=by)
        of = {"run_id": number}
    else:
        number, is_new = comparisons.keep(connection, project.id, arrived, at=at, by=by)
        of = {"comparison_id": number}
    if is_new:
        github.note(connection, project.id, sent, at=at, **of)
    return is_new


def _sent(arrived: Arrived, identity: Identity, pull: int | None, head: str) -> Sent:
    """Return what is known of a record by which GitHub may be told of it."""
    if isinstance(arrived, ArrivedRun):
        commit, branch = arrived.run["commit"], arrived.run["branch"]
    else:
        commit, branch = arrived.comparison["head_commit"], ""
    return Sent(commit=commit, branch=branch, pull=pull, head=head, kind=identity.kind, job=identity.job)


def _head(request: Request) -> str:
    head = text_of(request, "head_sha") or ""
    if head and not is_sha(head):
        raise UsageError(f"the parameter head_sha is {shown(head)}.", advice="Give a commit with all its digits.")
    return head


def _told(project: Row[Any], arrived: Arrived, is_new: bool) -> dict[str, Any]:  # noqa: FBT001  (part of what is told)
    kind = "run" if isinstance(arrived, ArrivedRun) else "comparison"
    return {
        "kind": kind,
        "id": arrived.name,
        "sha256": arrived.content.sha256,
        "created": is_new,
        "url": f"/api/v1/projects/{project.name}/{kind}s/{quote(arrived.name)}",
        "page": f"/p/{project.name}/{kind}s/{quote(arrived.name)}",
    }


def list_runs(request: Request) -> Response:
    """List the runs of a project, the latest first."""
    limit = whole_of(request, "limit", 50, 1, 1000)
    branch, environment, commit, suite = (
        text_of(request, name) for name in ("branch", "environment", "commit", "suite")
    )
    behind = cursor_of(request)
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        rows = runs.recent(
            connection, project.id, limit=limit + 1, behind=behind, branch=branch, environment=environment,
            commit=commit, suite=suite,
        )  # fmt: skip
    return shapes.page("runs", rows, shapes.run, limit)


def run_for(request: Request, connection: Connection, scope: str) -> tuple[Row[Any], Row[Any], Identity]:
    """Return project and run of the path, and who asks.

    Raises:
      Problem: 401, 403 or 404.
      NotFoundError: there is no such run.
    """
    identity, project = project_for(request, connection, scope)
    name = part(request, "run")
    row = runs.by_name(connection, project.id, name)
    if row is None:
        raise NotFoundError(f"project {project.name!r} has no run {name!r}.")
    return project, row, identity


def show_run(request: Request) -> Response:
    """Show a run: its cases, metrics, verdicts and files."""
    with service_of(request).database.read() as connection:
        _, row, _ = run_for(request, connection, "read")
        found = runs.cases_of(connection, row.id)
        measured = points.of_run(connection, row, [case.name for case in found])
        verdicts = runs.verdicts_of(connection, run_id=row.id)
        lying = files.of_run(connection, row.id)
    return shapes.answer(
        shapes.run(row)
        | {
            "case_list": [shapes.case(case) for case in found],
            "metrics": [shapes.metric(metric) for metric in measured],
            "verdicts": [shapes.verdict(verdict) for verdict in verdicts],
            "files": [shapes.file(file) for file in lying],
        }
    )


def run_record(request: Request) -> Response:
    """Return the record of a run, as it was sent."""
    with service_of(request).database.read() as connection:
        _, row, _ = run_for(request, connection, "read")
        return _record(connection, row)


def run_verdicts(request: Request) -> Response:
    """Return what the gates said of a run."""
    with service_of(request).database.read() as connection:
        _, row, _ = run_for(request, connection, "read")
        found = runs.verdicts_of(connection, run_id=row.id)
    return shapes.answer({"outcome": row.outcome, "verdicts": [shapes.verdict(verdict) for verdict in found]})


def list_comparisons(request: Request) -> Response:
    """List the comparisons of a project, the latest first."""
    limit, behind = whole_of(request, "limit", 50, 1, 1000), cursor_of(request)
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        rows = comparisons.recent(connection, project.id, limit=limit + 1, behind=behind)
    return shapes.page("comparisons", rows, shapes.comparison, limit, "created_at")


def comparison_for(request: Request, connection: Connection, scope: str) -> tuple[Row[Any], Row[Any], Identity]:
    """Return project and comparison of the path, and who asks; errors as ``run_for``."""
    identity, project = project_for(request, connection, scope)
    name = part(request, "comparison")
    row = comparisons.by_name(connection, project.id, name)
    if row is None:
        raise NotFoundError(f"project {project.name!r} has no comparison {name!r}.")
    return project, row, identity


def show_comparison(request: Request) -> Response:
    """Show a comparison: its verdicts and files."""
    with service_of(request).database.read() as connection:
        _, row, _ = comparison_for(request, connection, "read")
        found = runs.verdicts_of(connection, comparison_id=row.id)
        lying = files.of_comparison(connection, row.id)
    told = {"verdicts": [shapes.verdict(verdict) for verdict in found], "files": [shapes.file(file) for file in lying]}
    return shapes.answer(shapes.comparison(row) | told)


def comparison_record(request: Request) -> Response:
    """Return the record of a comparison, as it was sent."""
    with service_of(request).database.read() as connection:
        _, row, _ = comparison_for(request, connection, "read")
        return _record(connection, row)


def _record(connection: Connection, row: Row[Any]) -> Response:
    kept = sizes.packed(connection, row.record_id)
    headers = {"ETag": f'"{row.sha256}"'}
    if kept.size <= LARGE:
        return Response(unpack_text(kept.body), headers=headers, media_type="application/json")
    headers["Content-Length"] = str(kept.size)
    return StreamingResponse(pieces(kept.body), headers=headers, media_type="application/json")
