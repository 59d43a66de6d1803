"""How the service itself is: alive, ready, and in numbers for Prometheus."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, func, select
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from qwenperf.service.api import shapes
from qwenperf.service.auth import identify
from qwenperf.service.context import Service, service_of
from qwenperf.service.db.tables import alerts, files, projects, runs, series, uploads
from qwenperf.service.db.upgrade import check_serving

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SIZES = (
    ("projects", projects), ("runs", runs), ("series", series), ("files", files), ("uploads_under_way", uploads),
)  # fmt: skip


async def alive(request: Request) -> Response:  # noqa: ARG001  (a handler's signature)
    """Say that the process answers."""
    return shapes.answer({"status": "alive"})


def ready(request: Request) -> Response:
    """Say that database and files answer, and that the tables are ones that this version works with."""
    service = service_of(request)

    def look() -> None:
        with service.database.read() as connection:
            check_serving(connection)
        service.files.check()

    service.readiness.ask(look)
    return shapes.answer({"status": "ready"})


def metrics(request: Request) -> Response:
    """Return numbers of the service in Prometheus' text format; those of each project to who may see all of them."""
    service = service_of(request)
    identity = identify(request)
    sees_all = identity.project_id is None and identity.known
    with service.database.read() as connection:
        lines = [*_sizes(connection), *_counted(service), *_process(service)]
        if sees_all:
            lines += [*_used(connection), *_alerts(connection)]
    return PlainTextResponse("\n".join(lines) + "\n", headers={"Content-Type": _TYPE})


def _sizes(connection: Connection) -> Iterator[str]:
    for name, table in _SIZES:
        yield f"# TYPE qwenperf_{name} gauge"
        yield f"qwenperf_{name} {connection.execute(select(func.count()).select_from(table)).scalar_one()}"
    yield "# TYPE qwenperf_points gauge"
    yield f"qwenperf_points {connection.execute(select(func.coalesce(func.sum(series.c.points), 0))).scalar_one()}"


def _used(connection: Connection) -> Iterator[str]:
    yield "# TYPE qwenperf_used_bytes gauge"
    for row in connection.execute(select(projects.c.name, projects.c.used_bytes).order_by(projects.c.name)):
        yield _sample("used_bytes", {"project": row.name}, row.used_bytes)


def _alerts(connection: Connection) -> Iterator[str]:
    yield "# TYPE qwenperf_alerts gauge"
    found = select(projects.c.name, alerts.c.state, func.count().label("number"))
    found = found.join(alerts, alerts.c.project_id == projects.c.id).group_by(projects.c.name, alerts.c.state)
    for row in connection.execute(found.order_by(projects.c.name, alerts.c.state)):
        yield _sample("alerts", {"project": row.name, "state": row.state}, row.number)


def _whose(service: Service) -> dict[str, str]:
    """Return the label of what a process counts for itself: any of several answers, and their sums differ."""
    return {"worker": str(os.getpid())} if service.settings.workers > 1 else {}


def _counted(service: Service) -> Iterator[str]:
    last, whose = "", _whose(service)
    for name, labels, value in service.counters.samples():
        if name != last:
            yield f"# TYPE qwenperf_{name}_total counter"
        last = name
        yield _sample(f"{name}_total", {**labels, **whose}, value)


def _process(service: Service) -> Iterator[str]:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    yield "# TYPE qwenperf_peak_resident_bytes gauge"
    yield _sample("peak_resident_bytes", _whose(service), peak)


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"qwenperf_{name}{f'{{{written}}}' if written else ''} {round(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
