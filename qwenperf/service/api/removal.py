"""Removes what was sent, where an admin says so."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import removing
from qwenperf.service.api.asked import part, project_for
from qwenperf.service.context import service_of
from qwenperf.service.db.files import Kind


def remove_run(request: Request) -> Response:
    """Remove a run; the same request again is answered alike."""
    return _remove(request, "run")


def remove_comparison(request: Request) -> Response:
    """Remove a comparison; the same request again is answered alike."""
    return _remove(request, "comparison")


def _remove(request: Request, kind: Kind) -> Response:
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
    removing.remove(service, identity, project, kind, part(request, kind))
    return Response(status_code=204)
