"""Points join their series: made when a metric is first seen, in the unit of its first record ever after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, case, func, insert, or_, select, update

from qwenperf.errors import RecordError
from qwenperf.schema.hints import show
from qwenperf.service.db.prepared import Prepared
from qwenperf.service.db.tables import points, series
from qwenperf.store.rows import PointRow

_Key = tuple[str, str]

_is_newest = or_(series.c.last_at.is_(None), series.c.last_at <= bindparam("at"))
_ARRIVE = Prepared(
    update(series)
    .where(series.c.id == bindparam("number"))
    .values(
        points=series.c.points + 1,
        last_value=case((_is_newest, bindparam("newest")), else_=series.c.last_value),
        last_run_id=case((_is_newest, bindparam("run")), else_=series.c.last_run_id),
        last_at=case((_is_newest, bindparam("at")), else_=series.c.last_at),
    ),
    ("number", "at", "run", "newest"),
)
_INSERT = Prepared(insert(points), ("series_id", "at", "run_id", "value", "low", "high", "samples"))
_KNOWN = select(series.c.id, series.c.case, series.c.metric, series.c.unit, series.c.direction, series.c.kind).where(
    series.c.project_id == bindparam("project")
)
_OF_CASE = Prepared(_KNOWN.where(series.c.case == bindparam("called")), ("project", "called"))
_OF_CASES = _KNOWN.where(series.c.case.in_(bindparam("names", expanding=True)))


def keep_points(connection: Connection, project_id: int, run_id: int, at: int, found: Sequence[PointRow]) -> None:
    """Add the points of one run.

    Raises:
      RecordError: a metric came in another unit, direction or kind before.
    """
    if not found:
        return
    numbers = _series(connection, project_id, found)
    rows: list[dict[str, Any]] = [
        {
            "series_id": numbers[point.case, point.metric],
            "at": at,
            "run_id": run_id,
            "value": point.value,
            "low": point.low,
            "high": point.high,
            "samples": point.samples,
        }
        for point in found
    ]
    _INSERT.run(connection, rows)
    arrived = [{"number": row["series_id"], "at": at, "run": run_id, "newest": row["value"]} for row in rows]
    # In one order everywhere, so that two writers wait for each other and never both.
    _ARRIVE.run(connection, sorted(arrived, key=lambda row: row["number"]))


def _series(connection: Connection, project_id: int, found: Sequence[PointRow]) -> dict[_Key, int]:
    """Return the number of each point's series; of a new one too."""
    names = list(dict.fromkeys(point.case for point in found))
    # By place: names of columns are looked up anew in each row.
    rows: Sequence[Any] = _of_cases(connection, project_id, names)
    known: dict[_Key, tuple[int, tuple[str, str, str]]] = {
        (one[1], one[2]): (one[0], (one[3], one[4], one[5])) for one in rows
    }
    for point in found:
        before = known.get((point.case, point.metric))
        if before is not None and before[1] != (point.unit, point.direction, point.kind):
            raise _changed(point, before[1])
    new = [
        {
            "project_id": project_id,
            "case": point.case,
            "metric": point.metric,
            "unit": point.unit,
            "direction": point.direction,
            "kind": point.kind,
        }
        for point in found
        if (point.case, point.metric) not in known
    ]
    numbers = {key: number for key, (number, _) in known.items()}
    if new:
        made = connection.execute(insert(series).returning(series.c.id, series.c.case, series.c.metric), new)
        numbers |= {(row.case, row.metric): int(row.id) for row in made}
    return numbers


def _of_cases(connection: Connection, project_id: int, names: Sequence[str]) -> Sequence[Sequence[Any]]:
    if len(names) == 1:
        return _OF_CASE.ask(connection, project=project_id, called=names[0]).rows
    rows: list[Any] = []
    for start in range(0, len(names), 500):
        some = names[start : start + 500]
        rows += connection.execute(_OF_CASES, {"project": project_id, "names": some}).all()
    return rows


def _changed(point: PointRow, before: tuple[str, str, str]) -> RecordError:
    now = (point.unit, point.direction, point.kind)
    name, is_, was = next(
        found for found in zip(("unit", "direction", "kind"), now, before, strict=True) if found[1] != found[2]
    )
    return RecordError(
        f"the {name} of {point.metric} of {point.case} is {show(is_)}, and was {show(was)} before.",
        advice="Send it as it was, or under another name: a series has one unit, direction and kind.",
    )


def of_run(connection: Connection, run: Row[Any], cases: Sequence[str]) -> Sequence[Row[Any]]:
    """Return case, metric, unit, direction, kind, value, low, high and samples of everything measured in ``run``."""
    rows: list[Row[Any]] = []
    for start in range(0, len(cases), 500):
        query = (
            select(
                series.c.id.label("series_id"), series.c.case, series.c.metric, series.c.unit, series.c.direction,
                series.c.kind, points.c.value, points.c.low, points.c.high, points.c.samples,
            )
            .join(points, points.c.series_id == series.c.id)
            .where(series.c.project_id == run.project_id, series.c.case.in_(cases[start : start + 500]))
            .where(points.c.at == run.at, points.c.run_id == run.id)
            .order_by(series.c.case, series.c.metric)
        )  # fmt: skip
        rows += connection.execute(query)
    return rows


def recount(connection: Connection, series_ids: Sequence[int]) -> None:
    """Write anew what series know of their points, after some have gone."""
    newest = (
        select(points.c.value, points.c.at, points.c.run_id)
        .where(points.c.series_id == series.c.id)
        .order_by(points.c.at.desc(), points.c.run_id.desc())
        .limit(1)
    )
    counted = select(func.count()).where(points.c.series_id == series.c.id)
    connection.execute(
        update(series)
        .where(series.c.id.in_(series_ids))
        .values(
            points=counted.scalar_subquery(),
            last_value=newest.with_only_columns(points.c.value).scalar_subquery(),
            last_at=newest.with_only_columns(points.c.at).scalar_subquery(),
            last_run_id=newest.with_only_columns(points.c.run_id).scalar_subquery(),
        )
    )
