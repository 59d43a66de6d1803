"""The pages' addresses, our own files, and how a problem looks in a browser."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from qwenperf.errors import QwenperfError
from qwenperf.service.auth.credentials import identify
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.tokens import Scope
from qwenperf.service.context import service_of
from qwenperf.service.db import projects
from qwenperf.service.large import sparing
from qwenperf.service.problems import Problem
from qwenperf.service.viewers.process import PREFIX
from qwenperf.service.web import (
    admin,
    alerts,
    archive,
    budgets,
    compare,
    lists,
    login,
    outward,
    overview,
    records,
    series,
    viewer,
)
from qwenperf.service.web.pages import form, opened, page
from qwenperf.service.web.templating import REPORT_STYLE, STATIC

_PROJECT = re.compile(r"/p/(?P<name>[^/]+)(?:/(?P<page>[^/]*))?")
_LISTS = {"runs", "comparisons", "series", "alerts"}
_A_DAY = {"Cache-Control": "public, max-age=86400"}


def routes() -> list[BaseRoute]:
    """Return the routes of the pages."""
    project = "/p/{project}"
    return [
        Route("/static/report.css", _report_style),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/", overview.index),
        Route("/login", login.show),
        Route("/login", form(login.sign_in), methods=["POST"]),
        Route("/logout", form(login.sign_out), methods=["POST"]),
        Route("/projects", form(admin.create_project), methods=["POST"]),
        Route("/admin", admin.show),
        Route("/admin/tokens", form(admin.create_token), methods=["POST"]),
        Route("/admin/revoke", form(admin.revoke_token), methods=["POST"]),
        Route(project, overview.overview),
        Route(f"{project}/first-token", form(overview.first_token), methods=["POST"]),
        Route(f"{project}/series", series.show),
        Route(f"{project}/series.json", series.data),
        Route(f"{project}/matrix", lists.matrix),
        Route(f"{project}/runs", lists.list_runs),
        Route(f"{project}/runs/{{run}}", _sparing(records.show_run)),
        Route(f"{project}/runs/{{run}}/files.tar", archive.send),
        Route(f"{project}/runs/{{run}}/delete", form(records.remove), methods=["POST"]),
        Route(f"{project}/runs/{{run}}/xprof", form(viewer.start), methods=["POST"]),
        Route(f"{project}/runs/{{run}}/xprof/{{ticket}}{PREFIX}/{{path:path}}", viewer.show),
        Route(f"{project}/compare", _sparing(compare.show)),
        Route(f"{project}/comparisons", lists.list_comparisons),
        Route(f"{project}/comparisons/{{comparison}}", _sparing(records.show_comparison)),
        Route(f"{project}/comparisons/{{comparison}}/files.tar", archive.send),
        Route(f"{project}/comparisons/{{comparison}}/delete", form(records.remove), methods=["POST"]),
        Route(f"{project}/comparisons/{{comparison}}/xprof", form(viewer.start), methods=["POST"]),
        Route(f"{project}/comparisons/{{comparison}}/xprof/{{ticket}}{PREFIX}/{{path:path}}", viewer.show),
        Route(f"{project}/alerts", alerts.show),
        Route(f"{project}/accept", form(alerts.accept), methods=["POST"]),
        Route(f"{project}/dismiss", form(alerts.dismiss), methods=["POST"]),
        Route(f"{project}/admin", admin.show),
        Route(f"{project}/admin/tokens", form(admin.create_token), methods=["POST"]),
        Route(f"{project}/admin/revoke", form(admin.revoke_token), methods=["POST"]),
        Route(f"{project}/admin/jobs", form(admin.allow_jobs), methods=["POST"]),
        Route(f"{project}/admin/jobs/remove", form(admin.remove_jobs), methods=["POST"]),
        Route(f"{project}/admin/settings", form(admin.change_settings), methods=["POST"]),
        Route(f"{project}/admin/budgets", form(budgets.set_budget), methods=["POST"]),
        Route(f"{project}/admin/budgets/remove", form(budgets.remove_budget), methods=["POST"]),
        Route(f"{project}/admin/webhook", form(outward.set_webhook), methods=["POST"]),
        Route(f"{project}/admin/webhook/remove", form(outward.remove_webhook), methods=["POST"]),
        Route(f"{project}/admin/github", form(outward.link_github), methods=["POST"]),
        Route(f"{project}/admin/github/remove", form(outward.unlink_github), methods=["POST"]),
    ]


def _sparing(show: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
    return sparing(show, lambda request: opened(request)[1])


async def _report_style(_request: Request) -> Response:
    return FileResponse(REPORT_STYLE, media_type="text/css", headers=_A_DAY)


def problem_page(request: Request, problem: Problem) -> Response:
    """Return a problem as a page; who is not known and only looks is asked to sign in, and then goes on."""
    if problem.status == HTTPStatus.UNAUTHORIZED and request.method == "GET" and "authorization" not in request.headers:
        onward = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?{urlencode({'next': onward})}", 303)
    # Who is signed in stays so on this page, as far as the database says.
    project = None
    with suppress(Problem, QwenperfError):
        project = _project(request, identify(request))
    title = HTTPStatus(problem.status).phrase.capitalize()
    response = page(
        request,
        "problem.html",
        status=problem.status,
        title=title,
        error=problem.error,
        advice=problem.advice,
        project=project,
        list=_listing(request) if project is not None else "",
    )
    response.headers.update(problem.headers)
    return response


def _project(request: Request, identity: Identity) -> Row[Any] | None:
    """Return the project of the address, for whoever may see it; to others there is none."""
    found = _PROJECT.match(request.scope["path"])
    if found is None:
        return None
    with service_of(request).database.read() as connection:
        row = projects.by_name(connection, found["name"])
    return row if row is not None and identity.may(Scope.READ, row.id, public=row.public) else None


def _listing(request: Request) -> str:
    """Return the list that has what the address looks for; empty where that is no list's."""
    found = _PROJECT.match(request.scope["path"])
    return found["page"] if found is not None and found["page"] in _LISTS else ""
