"""A running service that tests of access ask: two private projects, a public one, and who signs identities of jobs."""

import importlib.util
from pathlib import Path

import pytest

from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


issuers, running = beside("issuer"), beside("running")


@pytest.fixture(scope="module", params=running.DATABASES)
def service(request, tmp_path_factory):
    """A service with two private projects and a public one, and an issuer of identities."""
    with issuers.running() as issuer, running.database(request) as database:
        settings = ServiceSettings(
            data=tmp_path_factory.mktemp("service"),
            database=database,
            oidc_issuer=issuer.url,
            oidc_audience=issuers.AUDIENCE,
            sweep_s=0,
        )
        with running.serving(settings, running.Clock(), issuer) as found:
            for name, public in (("first", False), ("second", False), ("open", True)):
                made = found.ask("POST", "/api/v1/projects", found.admin, json={"project": name, "public": public})
                assert made.status_code == 201, made.text
            yield found


@pytest.fixture
def now(service):
    """The service's own time, whatever a test before set."""
    service.clock.ahead_s = 0
    yield service.clock
    service.clock.ahead_s = 0
