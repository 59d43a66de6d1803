"""A real service for tests: real databases (SQLite, and PostgreSQL where its programs are), real HTTP."""

import importlib.util
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn

from qwenperf.service.app import create_app, make_service
from qwenperf.service.context import Service
from qwenperf.service.db.upgrade import upgrade
from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside this one: tests are no package."""
    spec = importlib.util.spec_from_file_location(f"service_{name}", Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


KINDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
"""The suite runs on both; what is true of PostgreSQL only when its server has started is told by the slow proofs."""

postgresql = beside("cluster")
Cluster = postgresql.Cluster


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true"}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A running PostgreSQL server with a migrated database ``template_qwenperf``."""
    if postgresql.program("initdb") is None or postgresql.program("postgres") is None:
        message = "PostgreSQL's programs (initdb, postgres) are not installed: the service is tested on SQLite only"
        pytest.fail(message) if in_ci() else pytest.skip(message)
    # Reached by the user who runs the server, and short enough for a socket.
    folder = Path(tempfile.mkdtemp(prefix="qwenperf-pg-", dir="/tmp"))
    made = Cluster(folder=folder)
    try:
        made.prepare()
        made.start()
        made.run("CREATE DATABASE template_qwenperf")
        upgrade(made.url("template_qwenperf"))
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory) -> Path:
    """A SQLite file with tables and nothing in them, to be copied: migrating takes longer than most tests."""
    file = tmp_path_factory.mktemp("migrated") / "service.sqlite"
    upgrade(f"sqlite:///{file}")
    return file


@pytest.fixture(params=KINDS)
def database_url(request, tmp_path) -> Iterator[str]:
    """A new database with tables: the suite runs on both kinds."""
    if request.param == "sqlite":
        file = tmp_path / "service.sqlite"
        shutil.copyfile(request.getfixturevalue("migrated"), file)
        yield f"sqlite:///{file}"
        return
    yield from new_database(request.getfixturevalue("cluster"))


def new_database(cluster: Cluster) -> Iterator[str]:
    name = f"test_{os.urandom(6).hex()}"
    cluster.run(f"CREATE DATABASE {name} TEMPLATE template_qwenperf")
    yield cluster.url(name)
    cluster.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture
def settings(database_url, tmp_path) -> ServiceSettings:
    """Settings of a service that tidies up only when told to."""
    return ServiceSettings(
        data=tmp_path / "data", database=database_url, files=(tmp_path / "files").as_uri(), sweep_s=0,
        pool_size=6, rate_per_s=1e6, rate_burst=10**6, anonymous_per_s=1e6, anonymous_burst=10**6,
    )  # fmt: skip


@pytest.fixture
def service(settings) -> Iterator[Service]:
    """A service without HTTP."""
    made = make_service(settings)
    yield made
    made.database.close()


@dataclass(kw_only=True)
class Running:
    """A service that answers HTTP. ``admin``: a token for everything."""

    url: str
    admin: str
    service: Service

    def client(self, token: str | None = None) -> httpx.Client:
        """Return a client with a token; an empty one is nobody."""
        token = self.admin if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # No address here is encrypted, and reading the certificates of the world takes longer than a test.
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, verify=False)


def running(settings: ServiceSettings) -> Iterator[Running]:
    """Serve in a thread, on a free port, and stop in the end."""
    from qwenperf.service.auth import first_token

    service = make_service(settings)
    token = first_token(service)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(settings, service), log_config=None, access_log=False, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.005)
    yield Running(url=f"http://127.0.0.1:{listening.getsockname()[1]}", admin=token, service=service)
    server.should_exit = True
    thread.join(30)
    service.database.close()


@pytest.fixture
def server(settings) -> Iterator[Running]:
    """A service that answers real HTTP."""
    yield from running(settings)


@pytest.fixture
def client(server) -> Iterator[httpx.Client]:
    """A client with the admin's token, and a project ``demo``."""
    with server.client() as made:
        made.post("/api/v1/projects", json={"project": "demo"}).raise_for_status()
        yield made


@pytest.fixture(scope="session", params=KINDS)
def shared(request, tmp_path_factory) -> Iterator[Running]:
    """A service that many tests talk to, each in a project of its own."""
    folder = tmp_path_factory.mktemp(f"service-{request.param}")
    if request.param == "sqlite":
        urls = iter([f"sqlite:///{folder / 'service.sqlite'}"])
    else:
        urls = new_database(request.getfixturevalue("cluster"))
    settings = ServiceSettings(
        data=folder / "data", database=next(urls), files=(folder / "files").as_uri(), sweep_s=0, pool_size=6,
        record_limit=2_000_000, file_limit=50_000_000, oidc_audience="tests",
        rate_per_s=1e6, rate_burst=10**6, anonymous_per_s=1e6, anonymous_burst=10**6,
    )  # fmt: skip
    yield from running(settings)
    for _ in urls:
        pass


@dataclass(kw_only=True)
class Project:
    """A project of the shared service, and a client with a token for everything."""

    name: str
    http: httpx.Client
    server: Running

    @property
    def path(self) -> str:
        """Its path in the interface."""
        return f"/api/v1/projects/{self.name}"

    @property
    def row(self):
        """Its row in the database."""
        from qwenperf.service.db import projects

        with self.server.service.database.read() as connection:
            return projects.by_name(connection, self.name)

    def get(self, path, status=200, **query):
        """Return what a GET answers."""
        return self.ask("GET", path, status, params=query).json()

    def post(self, path, data, status=201):
        """Return what a POST answers."""
        return self.ask("POST", path, status, json=data).json()

    def ask(self, method, path, status, **more):
        """Return an answer that has this status."""
        answer = self.http.request(method, self.path + path, **more)
        assert answer.status_code == status, answer.text
        return answer


@pytest.fixture
def project(shared) -> Iterator[Project]:
    """A new project of the shared service."""
    with shared.client() as http:
        name = f"p{os.urandom(6).hex()}"
        http.post("/api/v1/projects", json={"project": name}).raise_for_status()
        yield Project(name=name, http=http, server=shared)


@pytest.fixture(scope="session")
def documents():
    """The module that makes records for tests."""
    return beside("documents")
