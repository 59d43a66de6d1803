"""The application: parts joined, routes from the table, every error an answer."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from qwenperf.errors import QwenperfError
from qwenperf.service.arriving import Arriving
from qwenperf.service.conditional import unless_known
from qwenperf.service.context import Service, service_of
from qwenperf.service.counting import CountRequests, named
from qwenperf.service.db.database import Database
from qwenperf.service.db.marks import is_backup
from qwenperf.service.db.upgrade import check_version, upgrade
from qwenperf.service.files import Files
from qwenperf.service.jobs import Jobs
from qwenperf.service.large import AT_ONCE
from qwenperf.service.looking import OnlyLooking
from qwenperf.service.problems import Problem, of_error
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.viewers import folders

_LOG = logging.getLogger("qwenperf.service")
_FOR_PROGRAMS = ("/api/", "/metrics", "/healthz", "/readyz")


def make_service(settings: ServiceSettings) -> Service:
    """Open database and files; a SQLite file is made, and migrated, on the way.

    Raises:
      UsageError: a PostgreSQL database of another version.
      ServiceUnavailableError: the database or the files cannot be reached.
    """
    url = settings.database_url
    if url.startswith("sqlite"):
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        upgrade(url)
    backup = is_backup(url)
    files = Files(settings.files_url, settings.files_options)
    database = Database(url, pool_size=settings.pool_size)
    try:
        with database.read() as connection:
            check_version(connection)
    except BaseException:
        database.close()
        raise
    return Service(settings=settings, database=database, files=files, is_backup=backup)


def create_app(settings: ServiceSettings, service: Service | None = None) -> Starlette:
    """Return the application; errors as ``make_service``."""
    from qwenperf.service.auth import middleware

    made = service or make_service(settings)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        # A thread that waits for no connection is no use: as many threads as connections, and a few for bodies.
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.pool_size + 8
        app.state.large = anyio.CapacityLimiter(AT_ONCE)
        # Of a process that was killed while it had viewers.
        await run_in_threadpool(folders.sweep)
        jobs = Jobs(made)
        jobs.start()
        yield
        await run_in_threadpool(jobs.stop)
        await run_in_threadpool(made.viewers.close)
        await run_in_threadpool(made.database.close)

    handlers: Mapping[Any, Any] = {
        Problem: _on_problem,
        QwenperfError: _on_error,
        HTTPException: _on_http,
        Exception: _on_bug,
    }
    before = [Middleware(CountRequests, counters=made.counters), *middleware(made), Middleware(Arriving)]
    if made.is_backup:
        before.append(Middleware(OnlyLooking, refuse=_on_problem))
    app = Starlette(routes=named(_routes()), middleware=before, exception_handlers=handlers, lifespan=lifespan)
    app.state.service = made
    # To redirect to an address with or without its last slash it would believe what the request says is its host.
    app.router.redirect_slashes = False
    return app


def _routes() -> list[BaseRoute]:
    from qwenperf.service.api import openapi
    from qwenperf.service.api.operations import PREFIX, Handler
    from qwenperf.service.api.table import OPERATIONS
    from qwenperf.service.auth import routes as auth_routes
    from qwenperf.service.web import routes as web_routes

    by_path: dict[str, dict[str, Handler]] = {f"{PREFIX}/openapi.json": {"GET": openapi.show}}
    for one in OPERATIONS:
        by_path.setdefault(one.path, {})[one.method] = one.handler
    # A fixed path comes before one with a parameter in its place.
    paths = sorted(by_path, key=lambda path: path.count("{"))
    made: list[BaseRoute] = [
        Route(path.replace("/files/{path}", "/files/{path:path}"), _chosen(by_path[path]), methods=list(by_path[path]))
        for path in paths
    ]
    return [*made, *auth_routes(), *web_routes()]


def _chosen(handlers: Mapping[str, Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return one handler for the methods of a path, so that a method which none of them is hears of all of them."""
    from qwenperf.service.auth import identify

    def answer(handler: Callable[[Request], Response], request: Request) -> Response:
        # First, and remembered: whoever holds one connection must not wait for a second.
        if request.url.path.startswith("/api/"):
            identify(request)
        return handler(request)

    async def handle(request: Request) -> Response:
        handler = handlers["GET" if request.method == "HEAD" else request.method]
        if iscoroutinefunction(handler):
            response: Response = await handler(request)
        else:
            response = await run_in_threadpool(answer, handler, request)
        return unless_known(request, response) if request.url.path.startswith("/api/") else response

    return handle


def _on_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    if problem.status == 503:
        problem.headers.setdefault("Retry-After", "2")
    if request.url.path.startswith(_FOR_PROGRAMS) or "text/html" not in request.headers.get("accept", ""):
        told = {"error": problem.error, "advice": problem.advice}
        return JSONResponse(told, status_code=problem.status, headers=problem.headers)
    from qwenperf.service.web import problem_page

    return problem_page(request, problem)


def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, QwenperfError)
    return _on_problem(request, of_error(error))


def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is nothing here.", 405: f"{request.method} is not known here."}
    advice = "Look at /api/v1/openapi.json." if error.status_code in words else ""
    told = words.get(error.status_code, error.detail)
    return _on_problem(request, Problem(error.status_code, told, advice, error.headers))


def _on_bug(request: Request, error: Exception) -> Response:
    from qwenperf.service.auth.headers import set_missing
    from qwenperf.service.auth.sessions import secure

    _LOG.error("bug in %s %s", request.method, request.url.path, exc_info=error)
    told = Problem(500, "internal error.", "It is in the log of the service; please report it.")
    response = _on_problem(request, told)
    # This answer passes by all that stands before the application.
    set_missing(response.headers, encrypted=secure(service_of(request).settings))
    return response
