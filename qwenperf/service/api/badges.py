"""Badges: how a project or a metric stands, as a small picture for a README."""

from __future__ import annotations

from html import escape
from typing import Any

from sqlalchemy import Row
from starlette.requests import Request
from starlette.responses import Response

from qwenperf.service.api.asked import project_for, text_of
from qwenperf.service.api.series import series_for
from qwenperf.service.context import service_of
from qwenperf.service.db import runs
from qwenperf.units import quantity

_COLOURS = {"pass": "#2e7d32", "improved": "#2e7d32", "fail": "#c62828", "inconclusive": "#8a6100"}
_GREY = "#555"
_CHARACTER, _MARGIN = 6.6, 12
HEADERS = {
    # Of a public project: it is shown on other sites, and is as old as a cache makes it.
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "max-age=60",
}


def show(request: Request) -> Response:
    """Return the outcome of the latest run, or the newest value of a series, as SVG."""
    branch, case, metric = (text_of(request, name) for name in ("branch", "case", "metric"))
    with service_of(request).database.read() as connection:
        _, project = project_for(request, connection, "read")
        if case is not None and metric is not None:
            row = series_for(connection, project, case, metric)
            left, right, colour = metric, quantity(row.last_value, row.unit), _GREY
        else:
            latest = runs.recent(connection, project.id, limit=1, branch=branch)
            left = project.name
            right, colour = _stands(latest[0]) if latest else ("no runs", _GREY)
    headers = HEADERS if project.public else {}
    return Response(badge(left, right, colour), media_type="image/svg+xml", headers=headers)


def _stands(run: Row[Any]) -> tuple[str, str]:
    """Say how a run ended, and in which colour: what was not measured is never green."""
    if run.failed:
        return f"{run.failed} not measured", _COLOURS["fail"]
    if run.interrupted:
        return "interrupted", _COLOURS["inconclusive"]
    return run.outcome or "not judged", _COLOURS.get(run.outcome, _GREY)


def badge(left: str, right: str, colour: str) -> str:
    """Return a badge as SVG: ``left`` on grey, ``right`` on ``colour``."""
    first, second = (round(len(text) * _CHARACTER + _MARGIN) for text in (left, right))
    said = escape(f"{left}: {right}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{first + second}" height="20" role="img" aria-label="{said}">'
        f"<title>{said}</title>"
        f'<rect width="{first}" height="20" fill="#444"/>'
        f'<rect x="{first}" width="{second}" height="20" fill="{colour}"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{first / 2}" y="14">{escape(left)}</text>'
        f'<text x="{first + second / 2}" y="14">{escape(right)}</text></g></svg>'
    )
