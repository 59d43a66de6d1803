"""Starts the web server: one process on SQLite, as many as one likes on PostgreSQL."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from inspect import signature
from typing import Any

import uvicorn
from starlette.applications import Starlette

from qwenperf.errors import ConfigError, OutputError
from qwenperf.service.app import create_app, make_service
from qwenperf.service.settings import ServiceSettings, from_text, to_text

VARIABLE = "QWENPERF_SERVICE"
"""Hands the settings to worker processes."""

_TURN_S = 0.001
"""For so long a thread keeps the interpreter while another wants it: judging computes beside the answers, and each
answer asks for several turns."""

_THREADS = "OPENBLAS_NUM_THREADS"
"""How many threads NumPy's products take: judging's are small, and with several those wait for each other."""

_KEPT_S = 75
"""So long a connection without a request is kept: longer than clients and proxies keep theirs, who else send one into
a connection that has just ended."""

_BACKLOG = 2048
_OPTIONS: dict[str, Any] = {
    "server_header": False,
    "access_log": False,
    "log_level": "info",
    # Who asks is read from a header of the proxy only where the settings say so; uvicorn would guess.
    "proxy_headers": False,
    "timeout_graceful_shutdown": 30,
    "timeout_keep_alive": _KEPT_S,
}


def serve(settings: ServiceSettings, ready: Callable[[str, str | None], None]) -> None:
    """Serve until told to stop. ``ready`` hears the address, and the first admin token where one was made.

    Raises:
      ConfigError: several workers on SQLite.
      OutputError: the address is taken.
      UsageError: a PostgreSQL database of another version.
    """
    os.environ.setdefault(_THREADS, "1")  # read when NumPy is first imported, here and by workers
    is_sqlite = settings.database_url.startswith("sqlite")
    if settings.workers > 1 and is_sqlite:
        raise ConfigError("SQLite has one writer, and so one worker.", advice="Give --database postgresql://...")
    with _listen(settings) as listening:
        _serve(settings, listening, ready)


def _serve(settings: ServiceSettings, listening: socket.socket, ready: Callable[[str, str | None], None]) -> None:
    from qwenperf.service.auth import first_token, redaction

    sys.setswitchinterval(_TURN_S)
    address = _address(settings, listening)
    service = make_service(settings)
    token = first_token(service)
    if settings.workers > 1:
        service.database.close()
        os.environ[VARIABLE] = to_text(settings)
        ready(address, token)
        config = uvicorn.Config(f"{__name__}:from_environment", factory=True, workers=settings.workers, **_OPTIONS)
        _supervise(config, listening)
        return
    config = uvicorn.Config(create_app(settings, service), **_OPTIONS)
    redaction.install()
    ready(address, token)
    uvicorn.Server(config).run(sockets=[listening])


def _supervise(config: uvicorn.Config, listening: socket.socket) -> None:
    """Run worker processes until told to stop; one that ends is replaced."""
    from uvicorn.supervisors import Multiprocess

    options: dict[str, Any] = {"config": config, "sockets": [listening]}
    if "target" in signature(Multiprocess).parameters:  # as older versions of uvicorn want it
        options["target"] = uvicorn.Server(config).run
    Multiprocess(**options).run()


def from_environment() -> Starlette:
    """Make the application of a worker process."""
    from qwenperf.service.auth import redaction

    redaction.install()
    sys.setswitchinterval(_TURN_S)
    return create_app(from_text(os.environ[VARIABLE]))


def _listen(settings: ServiceSettings) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
        listening.set_inheritable(True)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise OutputError(
            f"cannot listen on {settings.host} port {settings.port}: {reason}.", advice="Give another --port."
        ) from error
    return listening


def _address(settings: ServiceSettings, listening: socket.socket) -> str:
    if settings.public_url:
        return settings.public_url.rstrip("/")
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
