"""Signing in with a token, and out: a person's browser gets a session, never the token back."""

from __future__ import annotations

from sqlalchemy import Connection
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.auth import storage
from qwenperf.service.auth.credentials import checked_token, identify
from qwenperf.service.auth.sessions import drop, keep, new_secret, session_secret
from qwenperf.service.context import service_of
from qwenperf.service.problems import Problem
from qwenperf.service.times import SECOND_US
from qwenperf.service.web.links import inside
from qwenperf.service.web.pages import back, field, page


def show(request: Request) -> Response:
    """Show the form."""
    identify(request)
    onward = inside(request.query_params.get("next", "/"))
    return page(request, "login.html", onward=onward, error="", here="login", cache="no-store")


def sign_in(request: Request, sent: FormData) -> Response:
    """Begin a session for whoever holds a good token."""
    service, onward = service_of(request), inside(field(sent, "next"))
    try:
        row = checked_token(request, service, field(sent, "token"))
    except Problem as problem:
        if problem.status != 401:
            raise
        error = f"{problem.error} {problem.advice}"
        return page(request, "login.html", status=401, onward=onward, error=error, here="login", cache="no-store")
    secret, at = new_secret(), service.clock()
    ends = at + service.settings.session_s * SECOND_US
    ends = min(ends, row.expires_at) if row.expires_at is not None else ends
    old = session_secret(request, service.settings)

    def begin(connection: Connection) -> None:
        if old:
            storage.end_session(connection, old)
        storage.begin_session(connection, secret=secret, token_id=row.id, at=at, expires_at=ends)

    service.database.write(begin)
    response = back(onward)
    keep(response, service.settings, secret, session=True)
    return response


def sign_out(request: Request, _sent: FormData) -> Response:
    """End the session, on the server too."""
    service = service_of(request)
    secret = session_secret(request, service.settings)
    if secret:
        service.database.write(lambda connection: storage.end_session(connection, secret))
    response = back("/")
    drop(response, service.settings)
    return response
