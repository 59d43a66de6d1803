"""The first token of a service: one, however many processes start on a new database at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from qwenperf.service.app import make_service
from qwenperf.service.auth import first_token, new_admin_token

SEVERAL = 4


@pytest.mark.slow
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_of_several_processes_that_start_at_once_one_makes_it(settings):
    """Each prints what it made, and a token of which nobody reads would open everything for ever."""
    services = [make_service(settings) for _ in range(SEVERAL)]
    together = threading.Barrier(SEVERAL)

    def start(service):
        together.wait()
        return first_token(service)

    try:
        with ThreadPoolExecutor(SEVERAL) as pool:
            made = list(pool.map(start, services))
    finally:
        for service in services:
            service.database.close()
    assert sum(token is not None for token in made) == 1


def test_where_there_is_a_token_none_is_made(service):
    """Also one that an operator made before the service was ever started."""
    assert new_admin_token(service, "mine").startswith("qpf_")
    assert first_token(service) is None
