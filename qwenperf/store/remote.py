"""A store behind HTTP: the benchmark service, as runs and series. The same questions as of a folder, and sending."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from qwenperf.errors import StoreError, UnknownNameError
from qwenperf.schema.codec import from_json
from qwenperf.schema.metrics import Direction, Kind
from qwenperf.schema.records import RunRecord
from qwenperf.schema.series import Point, Series
from qwenperf.store.base import Added, Source, StoredRun, Window
from qwenperf.store.http import RefusedError, Service
from qwenperf.store.parcels import Parcel
from qwenperf.store.rows import moment
from qwenperf.store.sending import ChangedError, send_file

_MOST = 10_000
_ALL = Window()
_WHOLE_HASH = re.compile("[0-9a-f]{16}")
"""Of an environment: what a service compares with; a beginning of one is looked for here."""
_PLACES = {"run": "runs", "comparison": "comparisons"}


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What became of a parcel: the records that the service now has, and the files that went with them."""

    records: Sequence[Mapping[str, Any]]
    files: int = 0
    file_bytes: int = 0

    @property
    def created(self) -> bool:
        """Whether something of it was new."""
        return any(record["created"] for record in self.records)


class RemoteStore:
    """One project of a service."""

    def __init__(self, service: Service, project: str) -> None:
        self._service = service
        self._project = project
        self._base = f"/api/v1/projects/{quote(project, safe='')}"

    @property
    def url(self) -> str:
        """Address of the service and the project in it."""
        return f"{self._service.shown}/p/{self._project}"

    def send(self, parcel: Parcel) -> Sent:
        """Send a record, then its files; what is there already is not sent again.

        Raises:
          UnreachableError: no answer until patience ended; sending again goes on where this ended.
          RefusedError: the service will not have it; says why.
          ChangedError: a file is not what it was; record and other files are there.
        """
        headers = {"Content-Type": "application/json"}
        place = f"{self._base}/runs"
        answer = self._service.ask("POST", place, query=dict(parcel.query), content=parcel.data, headers=headers)
        records = answer.json()["records"]
        sizes, changed = [], []
        for path, file in parcel.files.items():
            try:
                sizes.append(send_file(self._service, self._base, _place(records[0]), path, file))
            except ChangedError as error:
                changed.append(error)
        if changed:
            raise changed[0]
        return Sent(records=records, files=len(sizes), file_bytes=sum(sizes))

    def add(self, source: Source) -> Added:
        """Add a run, whole or not at all; errors as ``send``."""
        parcel = Parcel(name=source.record.id, data=source.data, files=source.files)
        return Added.ADDED if self.send(parcel).created else Added.ALREADY

    def runs(self, window: Window = _ALL) -> Sequence[StoredRun]:
        """Return the runs in a window, in the order of the history."""
        found: list[StoredRun] = []
        cursor: str | None = None
        while window.last is None or len(found) < window.last:
            page = self._get("/runs", limit=1000, cursor=cursor, branch=window.branch, environment=_whole_hash(window))
            rows = [_stored(row) for row in page["runs"]]
            here = [row for row in rows if row.environment.startswith(window.environment or "")]
            found += [row for row in here if window.since is None or row.at >= window.since.timestamp()]
            cursor = page["next"]
            if cursor is None or (window.since is not None and rows and rows[-1].at < window.since.timestamp()):
                break
        return found[: window.last][::-1]

    def get(self, run: str) -> RunRecord:
        """Return a run.

        Raises:
          UnknownNameError: no such run; offers the nearest.
        """
        try:
            record = self._get(f"/runs/{quote(run, safe='')}/record")
        except RefusedError as error:
            if error.status != 404:
                raise
            raise UnknownNameError("run", run, [row.run for row in self.runs(Window(last=1000))]) from None
        return from_json(record, f"{self.url} {run}")

    def cases(self) -> Mapping[str, Sequence[str]]:
        """Return the metrics of each case."""
        found: dict[str, list[str]] = {}
        for row in self._catalogue():
            found.setdefault(row["case"], []).append(row["metric"])
        return found

    def _catalogue(self) -> Iterator[Mapping[str, Any]]:
        case = metric = None
        while True:
            page = self._get("/series", limit=_MOST, after_case=case, after_metric=metric)
            yield from page["series"]
            if not page["more"]:
                return
            case, metric = page["series"][-1]["case"], page["series"][-1]["metric"]

    def series(self, case: str, metric: str, window: Window = _ALL) -> Series:
        """Return one metric of one case over time.

        Raises:
          UnknownNameError: no such case, or no such metric of it.
          StoreError: the window has more points than one answer holds.
        """
        since = None if window.since is None else window.since.isoformat()
        asked = {"branch": window.branch, "environment": _whole_hash(window), "start": since}
        try:
            found = self._get("/series/window", case=case, metric=metric, limit=_MOST, **asked)
        except RefusedError as error:
            if error.status != 404:
                raise
            known = self.cases()
            kind, name, names = ("metric", metric, known[case]) if case in known else ("case", case, list(known))
            raise UnknownNameError(kind, name, names) from None
        if found["buckets"]:
            raise StoreError(f"the window has {found['total']} points.", advice="Ask for less, with --since.")
        points = [_point(row) for row in found["points"] if row["environment"].startswith(window.environment or "")]
        return Series(
            case=case,
            metric=metric,
            unit=found["unit"],
            direction=Direction(found["direction"]),
            kind=Kind(found["kind"]),
            points=tuple(points if window.last is None else points[-window.last :]),
        )

    def _get(self, path: str, **query: str | int | None) -> Any:
        return self._service.ask("GET", f"{self._base}{path}", query=query).json()


def _whole_hash(window: Window) -> str | None:
    """Return the environment that a service is asked for; ``None`` where it is to tell of all."""
    return window.environment if window.environment and _WHOLE_HASH.fullmatch(window.environment) else None


def _place(record: Mapping[str, Any]) -> str:
    """Return where a service has a record that it took in, within the project."""
    return f"{_PLACES[record['kind']]}/{quote(record['id'], safe='')}"


def _stored(row: Mapping[str, Any]) -> StoredRun:
    return StoredRun(
        run=row["run"],
        folder=row["run"],
        at=moment(row["at"]),
        measured_at=row["measured_at"],
        suite=row["suite"],
        commit=row["commit"],
        committed_at=row["committed_at"] or "",
        branch=row["branch"],
        environment=row["environment"],
        cases=row["cases"],
        interrupted=row["interrupted"],
    )


def _point(row: Mapping[str, Any]) -> Point:
    return Point(
        value=row["value"],
        run=row["run"],
        measured_at=row["measured_at"],
        commit=row["commit"],
        committed_at=row["committed_at"] or "",
        branch=row["branch"],
        environment=row["environment"],
        interval=None if row["interval"] is None else (row["interval"][0], row["interval"][1]),
        samples=row["samples"],
        accepted=row["accepted"],
        extra={"at": moment(row["at"])},
    )
