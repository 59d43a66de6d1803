"""Fills a project with many runs, straight into the database: what is measured later is not the filling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert

from benchmarks.service.records import FIRST, MINUTES, reading, run
from qwenperf.schema.codec import from_json
from qwenperf.service.arrivals import arrived_run, pack
from qwenperf.service.db import points, projects, runs, series
from qwenperf.service.db.database import Database
from qwenperf.service.db.tables import cases, records, verdicts
from qwenperf.service.db.tables import points as points_table
from qwenperf.service.db.tables import runs as runs_table
from qwenperf.service.settings import ServiceSettings

_AT_ONCE = 250
_FIRST_US = int(FIRST.timestamp()) * 1_000_000


def fill(folder: Path, database: str, project: str, *, runs: int, metrics: int = 50) -> None:
    """Add ``runs`` runs of two cases with ``metrics`` metrics each, as if they had been sent one by one."""
    opened = Database(ServiceSettings(data=folder, database=database).database_url, pool_size=2)
    try:
        for first in range(0, runs, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, runs))
            opened.write(lambda connection, numbers=numbers: _some(connection, project, numbers, metrics), wait_s=None)
        opened.write(lambda connection: _recount(connection, project), wait_s=None)
    finally:
        opened.close()


def _some(connection: Connection, project: str, numbers: range, metrics: int) -> None:
    found = projects.by_name(connection, project)
    assert found is not None
    document = run(numbers[0], cases=2, metrics=metrics)
    first = arrived_run(from_json(document), pack(document))
    # The first of each part goes the usual way, which makes the series.
    runs.keep(connection, found.id, first, at=_FIRST_US, by="fill")
    known = {(row.case, row.metric): row.id for row in series.catalogue(connection, found.id)}
    rest = list(numbers)[1:]
    body = {"body": first.content.body, "size": first.content.size}
    held = connection.execute(insert(records).returning(records.c.id), [body] * len(rest)).scalars().all()
    rows = [_run(first.run, found.id, number, record) for number, record in zip(rest, held, strict=True)]
    ids = connection.execute(insert(runs_table).returning(runs_table.c.id, sort_by_parameter_order=True), rows)
    made = list(zip(rest, ids.scalars().all(), strict=True))
    connection.execute(insert(cases), [case | {"run_id": id_} for _, id_ in made for case in first.cases])
    said = [value | {"run_id": id_, "project_id": found.id} for _, id_ in made for value in first.verdicts]
    connection.execute(insert(verdicts), said)
    connection.execute(
        insert(points_table),
        [
            {
                "series_id": known[point.case, point.metric],
                "at": _at(number),
                "run_id": id_,
                "value": value,
                "low": 0.99 * value,
                "high": 1.01 * value,
                "samples": 3,
            }
            for number, id_ in made
            for index, point in enumerate(first.points)
            for value in [reading(number, index % metrics)]
        ],
    )


def _run(like: dict[str, Any], project_id: int, number: int, record: int) -> dict[str, Any]:
    return like | {
        "project_id": project_id,
        "name": f"run-0-{number:07d}",
        "sha256": f"{number:064x}",
        "record_id": record,
        "at": _at(number),
        "measured_at": _at(number),
        "committed_at": _at(number),
        "commit": f"{number:040x}",
        "received_at": _FIRST_US,
        "pushed_by": "fill",
    }


def _at(number: int) -> int:
    return _FIRST_US + number * MINUTES * 60_000_000


def _recount(connection: Connection, project: str) -> None:
    found = projects.by_name(connection, project)
    assert found is not None
    points.recount(connection, [row.id for row in series.catalogue(connection, found.id)])
