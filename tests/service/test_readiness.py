"""Probes: ready or not is true, costs little however often it is asked, and holds while a new version comes."""

import importlib.util
import threading
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, text

from qwenperf.service.db import upgrade as upgrading
from qwenperf.service.db.engines import sqlite_engine
from qwenperf.service.problems import ServiceUnavailableError
from qwenperf.service.readiness import AWAY_S, READY_S, Readiness
from qwenperf.service.settings import ServiceSettings


def beside(name):
    """Load a module that lies beside the tests."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Store:
    """A file store that is there or not, and counts how often somebody looked."""

    def __init__(self):
        self.looks, self.is_away = 0, False

    def __call__(self):
        """Look."""
        self.looks += 1
        if self.is_away:
            raise ServiceUnavailableError("no file store.")


def test_one_look_answers_all_probes_of_some_seconds():
    """And a service that is away is asked again sooner than one that is there."""
    now, store = [0.0], Store()
    ready = Readiness(lambda: now[0])
    for _ in range(100):
        ready.ask(store)
    assert store.looks == 1
    store.is_away = True
    now[0] += READY_S
    for _ in range(100):
        with pytest.raises(ServiceUnavailableError):
            ready.ask(store)
    assert store.looks == 2
    store.is_away = False
    now[0] += AWAY_S
    ready.ask(store)


def test_a_look_that_takes_long_keeps_no_other_probe_waiting():
    """A database that hangs would otherwise take every thread, one a probe."""
    now, store, go = [0.0], Store(), threading.Event()
    ready = Readiness(lambda: now[0])
    ready.ask(store)
    now[0] += READY_S
    hanging = threading.Thread(target=ready.ask, args=(lambda: go.wait(10),))
    hanging.start()
    while not ready._looking.locked():
        assert hanging.is_alive()
    ready.ask(store)
    assert (store.looks, hanging.is_alive()) == (1, True)
    go.set()
    hanging.join()


def test_probes_have_a_limit_of_their_own(tmp_path):
    """Who asks for readiness all the time is turned away; pages read at the same address do not end it."""
    settings = ServiceSettings(data=tmp_path, anonymous_per_s=0.01, anonymous_burst=3, sweep_s=0, judge=False)
    with beside("running").serving(settings) as found:
        assert [found.ask("GET", "/api/v1/projects").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert [found.ask("GET", "/readyz").status_code for _ in range(4)] == [200, 200, 200, 429]
        assert {found.ask("GET", "/healthz").status_code for _ in range(5)} == {200}
        assert found.ask("GET", "/healthzz").status_code == 429


def test_a_process_that_serves_stays_ready_when_a_later_version_upgrades_the_database(client, server):
    """Or all the old ones would be taken away before the first new one is there."""
    assert client.get("/readyz").status_code == 200
    for seen, status in (("9999", 200), ("0001", 422)):
        change = text("UPDATE alembic_version SET version_num = :seen")
        server.service.database.write(
            lambda connection, seen=seen, change=change: connection.execute(change, {"seen": seen})
        )
        server.service.readiness.forget()
        assert client.get("/readyz").status_code == status


def test_every_version_s_tables_are_those_of_the_one_before_and_more(tmp_path):
    """So a process of that one goes on reading and writing: nothing that it knows is gone, nothing new is wanted."""
    engine = sqlite_engine(f"sqlite:///{tmp_path / 'any.sqlite'}", pool_size=1, writes=True)
    config = upgrading._config()
    before = {}
    for version in sorted(upgrading._known()):
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, version)
            seen = inspect(connection)
            tables = {name: {one["name"]: one for one in seen.get_columns(name)} for name in seen.get_table_names()}
        for table, columns in before.items():
            assert columns.keys() <= tables[table].keys(), (version, table)
            for name, column in tables[table].items():
                known = columns.get(name)
                if known is None:
                    assert column["nullable"] or column["default"] is not None, (version, table, name)
                else:
                    assert column["nullable"] or not known["nullable"], (version, table, name)
        before = tables
    engine.dispose()
