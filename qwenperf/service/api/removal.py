"""Removes what was sent, where an admin says so."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service import removing
from qwenperf.service.api.asked import part, project_for
from qwenperf.service.context import service_of


def remove_run(request: Request) -> Response:
    """Remove a run; the same request again is answered alike."""
    service = service_of(request)
    with service.database.read() as connection:
        identity, project = project_for(request, connection, "admin")
    removing.remove_run(service, identity, project, part(request, "run"))
    return Response(status_code=204)
