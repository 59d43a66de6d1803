"""Tells projects' webhooks what became of their alerts: a message is kept with the change it tells of, then delivered.

Alerts of one family whose states changed go in one message. What is not taken is tried again, later and later, for
about half a day.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row

from qwenperf.service.api import shapes
from qwenperf.service.context import Service
from qwenperf.service.db import notices
from qwenperf.service.notify_sending import Answer, Message, send_all
from qwenperf.service.times import SECOND_US, iso

_LOG = logging.getLogger("qwenperf.service")
EVENT, PING = "alerts", "ping"
_AT_ONCE, _MOST_ALERTS, _SEVERAL = 200, 50, 10
MOST_TRIES = 16
_FIRST_S, _LONGEST_S = 10.0, 3600.0


def notify(service: Service) -> int:
    """Make messages of alerts that changed, send what is due, and return how many tries that took.

    Raises:
      ServiceUnavailableError: the database cannot be reached; what waits is sent later.
    """
    announce(service)
    return deliver(service)


def announce(service: Service) -> int:
    """Make messages of alerts whose state their project's webhook has not heard of, and return how many."""
    with service.database.read() as connection:
        if not notices.untold(connection, 1, locked=False):
            return 0
    return service.database.write(partial(_announce, service=service, at=service.clock()))


def _announce(connection: Connection, *, service: Service, at: int) -> int:
    count = 0
    for found in _families(notices.untold(connection, _AT_ONCE, locked=True)):
        body = json.dumps(_payload(found, service.settings.public_url), allow_nan=False)
        notices.add(connection, found[0].project_id, EVENT, body, at)
        notices.is_told(connection, found)
        count += 1
    return count


def _families(rows: Sequence[Row[Any]]) -> Iterator[list[Row[Any]]]:
    """Yield alerts of one project and family together; what has no family stands alone."""
    for _, group in groupby(rows, key=lambda row: (row.project_id, row.family or row.id)):
        found = list(group)
        for start in range(0, len(found), _MOST_ALERTS):
            yield found[start : start + _MOST_ALERTS]


def _payload(found: Sequence[Row[Any]], address: str) -> dict[str, Any]:
    page = f"{address.rstrip('/')}/p/{found[0].project}/alerts"
    told = [shapes.alert(row) | {"was": row.told} for row in found]
    return {"project": found[0].project, "family": found[0].family, "page": page, "alerts": told}


def ping(project: str, address: str, at: int) -> str:
    """Return the body of the first message to a new webhook."""
    return json.dumps({"project": project, "page": f"{address.rstrip('/')}/p/{project}", "at": iso(at)})


def deliver(service: Service) -> int:
    """Send messages that are due, a few at once, and return how many."""
    now = service.clock()
    with service.database.read() as connection:
        if not notices.is_due(connection, now):
            return 0
    rows = service.database.write(lambda connection: notices.claim(connection, now, _SEVERAL))
    messages = [
        Message(
            url=row.url, secret=row.secret, event=row.event, name=row.name, body=row.body.encode(),
            sent_at=now // SECOND_US,
        )
        for row in rows
    ]  # fmt: skip
    answers = send_all(messages, private_too=service.settings.private_webhooks)
    service.database.write(partial(_settle, rows=rows, answers=answers, at=service.clock()))
    for row, answer in zip(rows, answers, strict=True):
        _tell(service, row, answer)
    return len(rows)


def _settle(connection: Connection, *, rows: Sequence[Row[Any]], answers: Sequence[Answer], at: int) -> None:
    for row, answer in zip(rows, answers, strict=True):
        next_at = at + round(pause_s(row.tries + 1) * SECOND_US)
        notices.settle(connection, row.id, state=_state(row, answer), problem=answer.problem, next_at=next_at, at=at)


def _state(row: Row[Any], answer: Answer) -> str:
    if not answer.problem:
        return notices.SENT
    return notices.FAILED if answer.final or row.tries + 1 >= MOST_TRIES else notices.WAITING


def pause_s(tries: int) -> float:
    """Return the seconds until the next try after so many: growing, at random, so that receivers are not stormed."""
    return random.uniform(0.5, 1) * min(_LONGEST_S, _FIRST_S * 2.0 ** (tries - 1))  # noqa: S311  (spreads, guards nothing)


def _tell(service: Service, row: Row[Any], answer: Answer) -> None:
    """Count a try, and say in the log what was given up; never the address, whose path may be a secret."""
    state = _state(row, answer)
    service.counters.add("webhook_tries", state=state)
    if state == notices.FAILED:
        told = "webhook of project %s: message %s is given up after %d tries: %s"
        _LOG.warning(told, row.project, row.name, row.tries + 1, answer.problem)
