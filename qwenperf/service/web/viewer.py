"""XProf on traces of a run or comparison: started when somebody asks on its page, and reached through the service.

XProf's pages run scripts of their own on names that others sent. So they stand in a sandbox without an origin: no
cookie goes along, nothing of the service's own pages can be read or sent from there, and what lets their requests in is
a ticket in the address, given to who may see the record and good as long as they may and the viewer runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Connection, Row
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as ASGIScope

from qwenperf.service.auth import still_good, storage
from qwenperf.service.auth.identity import Identity
from qwenperf.service.auth.sessions import session_secret
from qwenperf.service.auth.tokens import Scope, digest
from qwenperf.service.context import Service, service_of
from qwenperf.service.db import files, projects
from qwenperf.service.problems import Problem
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.viewers.process import PREFIX, Holder, Viewer
from qwenperf.service.viewers.viewers import installed, key_of
from qwenperf.service.web import asked, links
from qwenperf.service.web.named import find, kind_of
from qwenperf.service.web.pages import back, opened
from qwenperf.units import byte_count

TRACES, TRACE = "plugins/profile/", ".xplane.pb"
MOST_BYTES = 2_000_000_000
"""Of the traces of one record, which are copied for the viewer."""

# XProf draws its charts and tables with Google's library, which only comes from there. Nothing goes there: what a page
# may ask is the service, and without its network the trace viewer works all the same.
_CHARTS = "https://www.gstatic.com"
CONTENT_SECURITY_POLICY = (
    "sandbox allow-scripts allow-popups allow-downloads; default-src 'none'; "
    f"script-src 'self' 'unsafe-inline' 'unsafe-eval' {_CHARTS}; style-src 'self' 'unsafe-inline' {_CHARTS}; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data:; frame-src 'self' blob: data:; "
    "worker-src blob:; base-uri 'self'; form-action 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    # To the sandbox the service is another origin; who knows the ticket may read what it stands for.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cross-Origin-Opener-Policy": "unsafe-none",
    # The address has the ticket.
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}
# A page of XProf's shows another one in a frame. In the sandbox it is of no origin that could be named.
_FRAMED = {"X-Frame-Options": "ALLOWALL"}
_NOT_FRAMED = {"Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; frame-ancestors 'none'"}
_INNER = "trace_viewer_index.html"
_KEPT = {"Cache-Control": "private, max-age=3600"}
_OF_ITS_OWN = re.compile(r"[a-z_0-9]+\.(?:js|css|html|wasm|woff2)")
_QUESTIONS = frozenset({"runs", "run_tools", "hosts", "data", "data_csv", "version", "module_list", "config"})
_PAGE = re.compile(r"[a-z_0-9@^]{0,60}")
_OTHER_FOLDERS = frozenset({"session_path", "run_path"})
_PASSED_ON = ("content-type", "content-encoding", "content-disposition")
_ANSWER_S = 300.0
_AGAIN = "Open it again from the page where you did."
_SHIM = Path(__file__).parents[1] / "viewers" / "sandbox.js"


def why_not(settings: ServiceSettings) -> str:
    """Say why this service opens no traces; empty where it does."""
    if settings.viewers < 1:
        return "This service starts no viewers."
    if settings.workers > 1:
        return "This service has several processes, which share no viewer, and so starts none."
    return "" if installed() else "This service has no XProf beside it."


def is_traced(lying: Sequence[Row[Any]]) -> bool:
    """Say whether a trace is among files."""
    return any(one.path.startswith(TRACES) and one.path.endswith(TRACE) for one in lying)


def start(request: Request, _sent: FormData) -> Response:
    """Start XProf on a run or comparison, or find the one that runs, and go there."""
    identity, project = opened(request)
    kind, service = kind_of(request), service_of(request)
    reason = why_not(service.settings)
    if reason:
        raise Problem(404, reason, f"The page of the {kind} says how to open it on your own machine.")
    with service.database.read() as connection:
        shown = find(request, connection, project.id)
        lying = files.of(connection, shown.owner) if shown is not None else ()
    if shown is None or not is_traced(lying):
        told = f"There is no such {kind} with a trace in this project."
        raise Problem(404, told, f"The list of {kind}s has all of them.")
    size = sum(one.size for one in lying)
    if size > MOST_BYTES:
        told = f"The traces have {byte_count(size)}; {byte_count(MOST_BYTES)} are opened here."
        raise Problem(422, told, f"Open them on your own machine: the page of the {kind} says how.")
    viewer = service.viewers.open(key_of(kind, shown.row), partial(_fill, service, lying), service.settings.viewers)
    ticket = viewer.admit(identity, _session(request, identity))
    return back(f"{links.record(kind, project.name, shown.name)}/xprof/{ticket}{PREFIX}/")


def _fill(service: Service, lying: Sequence[Row[Any]], folder: Path) -> None:
    """Copy traces into a folder. Their paths were checked when they came: none leads out of it."""
    for one in lying:
        if one.path.startswith(TRACES):
            place = folder / one.path
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                try:
                    for block in service.files.read(one.project_id, one.name):
                        file.write(block)
                except FileNotFoundError as error:
                    raise Problem(503, "The file store has lost a trace.", "Restore it from a backup.") from error


async def show(request: Request) -> Response:
    """Pass a question of XProf's pages on to the viewer, and its answer back; nothing else passes."""
    viewer = await run_in_threadpool(_admitted, request)
    path = str(request.path_params["path"])
    _check(path, request.query_params.multi_items(), viewer)
    try:
        return await _asked(request, viewer, path)
    except httpx.InvalidURL as error:
        raise Problem(422, "The question is too long.") from error
    except httpx.HTTPError as error:
        raise Problem(502, "The viewer does not answer.", _AGAIN) from error


def _admitted(request: Request) -> Viewer:
    """Return the viewer that the address has a ticket of.

    Raises:
      Problem: 404 for whatever is wrong with it: a stranger learns nothing.
    """
    service = service_of(request)
    with service.database.read() as connection:
        project = projects.by_name(connection, asked.name(request, "project"))
        shown = find(request, connection, project.id) if project is not None else None
        viewer = service.viewers.find(key_of(shown.kind, shown.row)) if shown is not None else None
        holder = viewer.holder(str(request.path_params["ticket"])) if viewer is not None else None
        if project is not None and viewer is not None and holder is not None:
            may = holder.identity.may(Scope.READ, project.id, public=project.public)
            if may and _lives(connection, holder, service.clock()):
                return viewer
    raise Problem(404, "This viewer has ended.", _AGAIN)


def _session(request: Request, identity: Identity) -> str:
    """Return the hash of the session's cookie, where somebody who signed in asks."""
    is_session = identity.kind == "session"
    return digest(session_secret(request, service_of(request).settings)) if is_session else ""


def _lives(connection: Connection, holder: Holder, at: int) -> bool:
    """Say whether what a ticket was asked with is good yet: the token, and the session unless that was no part."""
    if holder.session and not storage.session_lives(connection, holder.session, at):
        return False
    return still_good(connection, holder.identity, at)


def _check(path: str, query: Sequence[tuple[str, str]], viewer: Viewer) -> None:
    """Let through what shows the traces of this record, and nothing that takes new ones or reads other folders.

    Raises:
      Problem: 404 or 422.
    """
    if not (path in _QUESTIONS or _OF_ITS_OWN.fullmatch(path) or _PAGE.fullmatch(path)):
        raise Problem(404, "The viewer has nothing there.")
    if path in {"capture_profile", "generate_cache", "local"}:
        raise Problem(404, "The viewer takes no traces and keeps none.")
    for name, value in query:
        steps = re.split(r"[/\\,]", value)
        if name in _OTHER_FOLDERS or ".." in steps or "\0" in value:
            raise Problem(422, f"The viewer shows what it was opened on: {name!r} leads elsewhere.")
        if name in {"run", "base_session_id", "session_id"} and value and value not in viewer.sessions:
            raise Problem(422, f"There is no trace of the name that {name!r} gives.")
        if name in {"host", "hosts", "tag", "module_name"} and value.startswith(("/", "\\", "~")):
            raise Problem(422, f"{name!r} is no name.")


async def _asked(request: Request, viewer: Viewer, path: str) -> Response:
    # Nothing of what the browser sent goes on: no cookie, no token, no address of whoever asks.
    url = httpx.URL(f"http://xprof{PREFIX}/{path}", params=request.query_params.multi_items())
    transport = httpx.AsyncHTTPTransport(uds=str(viewer.socket), verify=False, trust_env=False)
    async with AsyncExitStack() as held:
        held.enter_context(viewer.asked())
        client = await held.enter_async_context(httpx.AsyncClient(transport=transport, timeout=_ANSWER_S))
        answer = await client.send(client.build_request(request.method, url), stream=True)
        held.push_async_callback(answer.aclose)
        if answer.headers.get("content-type", "").startswith("text/html"):
            await answer.aread()
            headers = HEADERS | (_FRAMED if path == _INNER else _NOT_FRAMED)
            return Response(_in_sandbox(answer.content), answer.status_code, headers, "text/html; charset=utf-8")
        kept = _KEPT if _OF_ITS_OWN.fullmatch(path) and answer.status_code == 200 else {}
        headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers} | HEADERS | kept
        return _Passing(answer, headers, held.pop_all())
    raise AssertionError  # pragma: no cover  (the block returns or raises)


class _Passing(StreamingResponse):
    """An answer of a viewer as it comes; however its sending ends, what it needs is let go."""

    def __init__(self, answer: httpx.Response, headers: Mapping[str, str], held: AsyncExitStack) -> None:
        super().__init__(answer.aiter_raw(), answer.status_code, headers)
        self._held = held

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with self._held:
            await super().__call__(scope, receive, send)


def _in_sandbox(page: bytes) -> bytes:
    """Return a page of XProf's that runs without an origin: what it would keep in the browser it keeps for itself."""
    head, found, rest = page.partition(b"<head>")
    return head + found + b"<script>" + _shim() + b"</script>" + rest if found else page


@cache
def _shim() -> bytes:
    return _SHIM.read_bytes()
