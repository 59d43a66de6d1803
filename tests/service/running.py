"""A real service on a free port, for tests of this folder and of the browser."""

import os
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
import uvicorn

from qwenperf.service.app import create_app, make_service
from qwenperf.service.auth import first_token

SECOND = 1_000_000
DATABASES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.slow))
"""What the pages and access are tested on; the database's own tests are on both at once."""


class Clock:
    """The service's clock, which a test may set forward."""

    def __init__(self):
        self.ahead_s = 0

    def __call__(self):
        """Tell the time in microseconds."""
        return time.time_ns() // 1000 + self.ahead_s * SECOND


class Running:
    """A running service, and how to ask it."""

    def __init__(self, url, admin, clock, issuer):
        self.url, self.admin, self.clock, self.issuer = url, admin, clock, issuer
        self.service = None
        self.client = httpx.Client(base_url=url, timeout=20, verify=False)

    def ask(self, method, path, token=None, **more):
        """Send a request, with a token or without, and return the answer."""
        headers = {"Accept": "application/json"} | more.pop("headers", {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self.client.cookies.clear()
        return self.client.request(method, path, headers=headers, **more)

    def token(self, scope, project=None, **more):
        """Return a new token of a project, or of the service."""
        path = f"/api/v1/projects/{project}/tokens" if project else "/api/v1/tokens"
        answer = self.ask("POST", path, self.admin, json={"name": f"{scope} token", "scope": scope} | more)
        assert answer.status_code == 201, answer.text
        return answer.json()["token"]


@contextmanager
def serving(settings, clock=None, issuer=None):
    """Serve with these settings until the block ends."""
    clock = clock or Clock()
    service = replace(make_service(settings), clock=clock)
    admin = first_token(service)
    server = uvicorn.Server(
        uvicorn.Config(create_app(settings, service), port=0, log_config=None, proxy_headers=False, access_log=False)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        found = Running(f"http://127.0.0.1:{port}", admin, clock, issuer)
        found.service = service
        with found.client:
            yield found
    finally:
        server.should_exit = True
        thread.join(20)


@contextmanager
def database(request):
    """Give the URL of a new database of the kind that a fixture is asked for; empty is SQLite in the data folder."""
    if request.param == "sqlite":
        yield ""
        return
    cluster, name = request.getfixturevalue("cluster"), f"test_{os.urandom(6).hex()}"
    cluster.run(f"CREATE DATABASE {name} TEMPLATE template_qwenperf")
    yield cluster.url(name)
    cluster.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
