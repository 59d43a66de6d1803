"""What every handler needs: settings, database, files and the clock, carried by the application."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from qwenperf.service.counters import Counters
from qwenperf.service.db.database import Database
from qwenperf.service.files import Files
from qwenperf.service.readiness import Readiness
from qwenperf.service.settings import ServiceSettings
from qwenperf.service.viewers.viewers import Viewers


def now_us() -> int:
    """Return microseconds since the epoch, in UTC: how the database keeps time."""
    return time.time_ns() // 1000


@dataclass(frozen=True, kw_only=True)
class Service:
    """The parts of a running service. One on a backup is looked at: no job runs, and nothing changes it."""

    settings: ServiceSettings
    database: Database
    files: Files
    is_backup: bool = False
    clock: Callable[[], int] = now_us
    counters: Counters = field(default_factory=Counters)
    viewers: Viewers = field(default_factory=Viewers)
    readiness: Readiness = field(default_factory=Readiness)


def service_of(request: HTTPConnection) -> Service:
    """Return the service that answers ``request``."""
    service: Service = request.app.state.service
    return service
