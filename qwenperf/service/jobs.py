"""What goes on beside the answers: retention, uploads that nobody goes on with, sessions that are over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.errors import QwenperfError
from qwenperf.service.bugs import Told
from qwenperf.service.context import Service
from qwenperf.service.db import files, holds, notices, projects, retention, uploads
from qwenperf.service.times import DAY_US, SECOND_US

_LOG = logging.getLogger("qwenperf.service")


_JUDGE_S, _NOTIFY_S, _GITHUB_S = 0.25, 5.0, 2.0
_REST = 4.0
"""How much longer than its work a thread rests. The judge does not: its work is done by a process, which steps back."""

_UNTIDY = "bug in tidying up project %d; the others go on"
_NOTICES_US = 30 * DAY_US
"""For so long the log of deliveries says what became of a message."""


class Jobs:
    """Threads that tidy up and judge. Several workers may do both at once: each step is one write."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ends: list[Callable[[], None]] = []

    def start(self) -> None:
        """Begin with what the settings ask for; a backup is left as it is."""
        if self._service.is_backup:
            return
        settings = self._service.settings
        if settings.sweep_s > 0:
            self._begin("sweep", lambda: sweep(self._service, self._stop), settings.sweep_s)
        if settings.sweep_s > 0 and settings.judge:
            from qwenperf.service.judging import SeriesJudge
            from qwenperf.service.judging_apart import JudgeProcess
            from qwenperf.service.judging_runs import judge_arrived

            apart = JudgeProcess(self._service.database.url)
            self._ends.append(apart.close)
            judge = SeriesJudge(self._service, apart.look)
            self._begin("judge", lambda: judge.all(self._stop), _JUDGE_S, rest=0.0)
            self._begin("judge-runs", lambda: judge_arrived(self._service), _JUDGE_S)
        if settings.sweep_s > 0:
            from qwenperf.service.notify import notify

            self._begin("notify", lambda: notify(self._service), _NOTIFY_S)

        self._begin_github()

    def _begin_github(self) -> None:
        """Tell GitHub of what arrives, where the settings say as whom."""
        from qwenperf.service.github.access import Access, has_credentials

        settings = self._service.settings
        if settings.sweep_s > 0 and has_credentials(settings):
            from qwenperf.service.github.posting import post_due

            access = Access(settings=settings)
            self._begin("github", lambda: post_due(self._service, access), _GITHUB_S)

    def stop(self) -> None:
        """End after the steps that are under way."""
        self._stop.set()
        for end in self._ends:
            end()
        for thread in self._threads:
            thread.join(timeout=30)

    def _begin(self, name: str, work: Callable[[], object], every_s: float, rest: float = _REST) -> None:
        thread = threading.Thread(target=self._repeat, args=(work, every_s, rest), name=f"qwenperf-{name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _repeat(self, work: Callable[[], object], every_s: float, rest: float) -> None:
        pause = every_s
        while not self._stop.wait(pause):
            begun = time.monotonic()
            try:
                work()
            except QwenperfError as error:
                if not self._stop.is_set():
                    _LOG.warning("beside the answers: %s", error)
            except Exception:  # noqa: BLE001  (the thread goes on: the next round may succeed)
                _LOG.exception("bug beside the answers")
            # Whoever asks and sends does not wait for it.
            pause = max(every_s, rest * (time.monotonic() - begun))


def sweep(service: Service, stop: threading.Event | None = None) -> None:
    """Tidy up once; a backup is left as it is.

    Raises:
      ServiceUnavailableError: the database or the files cannot be reached; the next round goes on.
    """
    from qwenperf.service.auth import sweep as sweep_access

    if service.is_backup:
        return
    now = service.clock()
    service.database.write(lambda connection: sweep_access(connection, now))
    _drop_uploads(service, now - service.settings.upload_expires_s * SECOND_US)
    _drop_orphans(service)
    service.database.write(lambda connection: notices.forget(connection, now - _NOTICES_US))
    if service.settings.judge:
        from qwenperf.service.judging import find_stopped

        find_stopped(service)
    with service.database.read() as connection:
        found = [row for row in projects.listed(connection) if row.retention_days is not None]
    for project in found:
        before = now - project.retention_days * DAY_US
        with Told(_UNTIDY, project.id):
            expire(service, project.id, before, stop)
    # Of runs that somebody removed, or of an earlier round that ended too soon.
    with service.database.read() as connection:
        left = files.with_unnamed(connection)
    for project_id in left:
        with Told(_UNTIDY, project_id):
            _drop_files(service, project_id)


def expire(service: Service, project_id: int, before: int, stop: threading.Event | None = None) -> int:
    """Remove what a project has from before a time, a few records a step, so that others get a turn; say how many."""
    count = 0
    while stop is None or not stop.is_set():
        gone = service.database.write(lambda connection: retention.expire(connection, project_id, before))
        gone += service.database.write(lambda connection: retention.expire_comparisons(connection, project_id, before))
        count += gone
        if not gone:
            break
    if count:
        _drop_files(service, project_id)
        service.counters.add("records_expired", count)
    return count


def _drop_uploads(service: Service, before: int) -> None:
    with service.database.read() as connection:
        rows = uploads.stale(connection, before)
    for row in rows:

        def work(connection: Connection, row: Row[Any] = row) -> bool:
            return uploads.give_up(connection, row, before=before)

        if service.database.write(work):
            service.files.drop_upload(row.project_id, row.id, row.sha256)


def _drop_orphans(service: Service) -> None:
    """Remove parts of uploads that are none any more: their run went, or a part came after their end."""
    # In this order: what is there now had a row before it had parts.
    there = service.files.uploads()
    with service.database.read() as connection:
        gone = set(there) - uploads.under_way(connection)
    for upload in gone:
        service.files.drop_parts(upload)


def _drop_files(service: Service, project_id: int) -> None:
    """Remove content that no record names: first from the database, so that a file there is always whole.

    There its name is kept until it is gone: whoever ends in between leaves the rest to the next round, as does whoever
    finds that somebody copies files.
    """
    database = service.database
    while True:
        database.write(lambda connection: files.drop_unnamed(connection, project_id))
        with database.read() as connection:
            # In one moment: what is going now is named by no copy that is begun later.
            names = () if holds.are_held(connection, service.clock()) else files.going(connection, project_id)
        if not names:
            return
        for name in names:
            service.files.drop(project_id, name)
        database.write(partial(files.are_gone, project_id=project_id, names=names))
