"""The pages' addresses, our own files, and how a problem looks in a browser."""

from __future__ import annotations

from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from qwenperf.errors import QwenperfError
from qwenperf.service.auth.credentials import identify
from qwenperf.service.problems import Problem
from qwenperf.service.web import admin, alerts, archive, compare, lists, login, overview, records, series
from qwenperf.service.web.pages import form, page
from qwenperf.service.web.templating import REPORT_STYLE, STATIC

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
        Route(f"{project}/runs/{{run}}", records.show_run),
        Route(f"{project}/runs/{{run}}/files.tar", archive.send),
        Route(f"{project}/compare", compare.show),
        Route(f"{project}/comparisons", lists.list_comparisons),
        Route(f"{project}/comparisons/{{comparison}}", records.show_comparison),
        Route(f"{project}/alerts", alerts.show),
        Route(f"{project}/accept", form(alerts.accept), methods=["POST"]),
        Route(f"{project}/dismiss", form(alerts.dismiss), methods=["POST"]),
        Route(f"{project}/admin", admin.show),
        Route(f"{project}/admin/tokens", form(admin.create_token), methods=["POST"]),
        Route(f"{project}/admin/revoke", form(admin.revoke_token), methods=["POST"]),
        Route(f"{project}/admin/jobs", form(admin.allow_jobs), methods=["POST"]),
        Route(f"{project}/admin/jobs/remove", form(admin.remove_jobs), methods=["POST"]),
        Route(f"{project}/admin/settings", form(admin.change_settings), methods=["POST"]),
    ]


async def _report_style(_request: Request) -> Response:
    return FileResponse(REPORT_STYLE, media_type="text/css", headers=_A_DAY)


def problem_page(request: Request, problem: Problem) -> Response:
    """Return a problem as a page; who is not known and only looks is asked to sign in, and then goes on."""
    if problem.status == HTTPStatus.UNAUTHORIZED and request.method == "GET" and "authorization" not in request.headers:
        onward = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/login?{urlencode({'next': onward})}", 303)
    # Who is signed in stays so on this page, as far as the database says.
    with suppress(Problem, QwenperfError):
        identify(request)
    title = HTTPStatus(problem.status).phrase.capitalize()
    response = page(
        request, "problem.html", status=problem.status, title=title, error=problem.error, advice=problem.advice
    )
    response.headers.update(problem.headers)
    return response
