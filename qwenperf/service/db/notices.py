"""Webhooks of projects, which alerts they have not heard of, and the messages that go to them: kept until delivered."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, not_, select, update

from qwenperf.service.db.alerts import ACCEPTED, DISMISSED, RESOLVED, named
from qwenperf.service.db.tables import alerts, deliveries, projects, webhooks
from qwenperf.service.times import SECOND_US

WAITING, SENT, FAILED = "waiting", "sent", "failed"
STATES = (WAITING, SENT, FAILED)
_LEASE_US = 120 * SECOND_US
"""For so long a message is its sender's alone; after that the sender has died."""

_OF_ONE_PROJECT = 2
"""Messages of a project that are sent at a time."""

_OVER = (RESOLVED, DISMISSED, ACCEPTED)


def webhook(connection: Connection, project_id: int) -> Row[Any] | None:
    """Return a project's webhook; ``None`` where it has none."""
    return connection.execute(select(webhooks).where(webhooks.c.project_id == project_id)).first()


def set_webhook(connection: Connection, project_id: int, *, url: str, secret: str, by: str, at: int) -> None:
    """Set a project's webhook. A new one hears of what happens from now on, and not of what was before."""
    values = {"url": url, "secret": secret, "created_at": at, "created_by": by}
    mine = webhooks.c.project_id == project_id
    if connection.execute(update(webhooks).where(mine).values(**values)).rowcount:
        return
    connection.execute(insert(webhooks).values(project_id=project_id, **values))
    connection.execute(update(alerts).where(alerts.c.project_id == project_id).values(told=alerts.c.state))


def remove_webhook(connection: Connection, project_id: int, at: int) -> bool:
    """Remove a project's webhook, give up what waits for it, and say whether there was one."""
    mine = (deliveries.c.project_id == project_id) & (deliveries.c.state == WAITING)
    gone = {"state": FAILED, "problem": "the webhook was removed", "updated_at": at}
    connection.execute(update(deliveries).where(mine).values(**gone))
    return connection.execute(delete(webhooks).where(webhooks.c.project_id == project_id)).rowcount > 0


def untold(connection: Connection, limit: int, *, locked: bool) -> Sequence[Row[Any]]:
    """Return alerts whose state a webhook has not heard of, with their project; what came and went is left out.

    ``locked``: of several workers that write at once, one gets an alert.
    """
    never = (alerts.c.told == "") & alerts.c.state.in_(_OVER)
    query = (
        named(projects.c.name.label("project"))
        .join(projects, projects.c.id == alerts.c.project_id)
        .join(webhooks, webhooks.c.project_id == alerts.c.project_id)
        .where(alerts.c.state != alerts.c.told, not_(never))
        .order_by(alerts.c.project_id, alerts.c.family, alerts.c.id)
        .limit(limit)
    )
    return connection.execute(query.with_for_update(of=alerts, skip_locked=True) if locked else query).all()


def is_told(connection: Connection, found: Sequence[Row[Any]]) -> None:
    """Remember that a message has the states of these alerts."""
    numbers = [row.id for row in found]
    connection.execute(update(alerts).where(alerts.c.id.in_(numbers)).values(told=alerts.c.state))


def add(connection: Connection, project_id: int, event: str, body: str, at: int) -> str:
    """Keep a message for a project's webhook and return its id."""
    name = str(uuid.uuid4())
    values = {"name": name, "event": event, "body": body, "state": WAITING}
    times = {"next_at": at, "created_at": at, "updated_at": at}
    connection.execute(insert(deliveries).values(project_id=project_id, **values, **times))
    return name


def claim(connection: Connection, now: int, limit: int) -> Sequence[Row[Any]]:
    """Return messages that are due, with address and secret, and keep others from sending them for a while.

    Few of one project at a time: one whose receiver never answers keeps no other waiting.
    """
    turn = func.row_number().over(
        partition_by=deliveries.c.project_id, order_by=(deliveries.c.next_at, deliveries.c.id)
    )
    due = select(deliveries.c.id, turn.label("turn"))
    ranked = due.where(deliveries.c.state == WAITING, deliveries.c.next_at <= now).subquery()
    fair = select(ranked.c.id).where(ranked.c.turn <= _OF_ONE_PROJECT)
    query = (
        select(deliveries, webhooks.c.url, webhooks.c.secret, projects.c.name.label("project"))
        .join(webhooks, webhooks.c.project_id == deliveries.c.project_id)
        .join(projects, projects.c.id == deliveries.c.project_id)
        .where(deliveries.c.id.in_(fair), deliveries.c.state == WAITING, deliveries.c.next_at <= now)
        .order_by(deliveries.c.next_at, deliveries.c.id)
        .limit(limit)
    )
    rows = connection.execute(query.with_for_update(of=deliveries, skip_locked=True)).all()
    mine = deliveries.c.id.in_([row.id for row in rows])
    connection.execute(update(deliveries).where(mine).values(next_at=now + _LEASE_US, tries=deliveries.c.tries + 1))
    return rows


def is_due(connection: Connection, now: int) -> bool:
    """Say whether a message is to be sent."""
    query = select(deliveries.c.id).where(deliveries.c.state == WAITING, deliveries.c.next_at <= now).limit(1)
    return connection.execute(query).first() is not None


def settle(connection: Connection, delivery: int, *, state: str, problem: str, next_at: int, at: int) -> None:
    """Write down what became of a try; what was given up meanwhile stays so."""
    values = {"state": state, "problem": problem, "next_at": next_at, "updated_at": at}
    mine = (deliveries.c.id == delivery) & (deliveries.c.state == WAITING)
    connection.execute(update(deliveries).where(mine).values(**values))


def recent(connection: Connection, project_id: int, limit: int) -> Sequence[Row[Any]]:
    """Return the messages of a project, the latest first."""
    query = select(deliveries).where(deliveries.c.project_id == project_id)
    return connection.execute(query.order_by(deliveries.c.id.desc()).limit(limit)).all()


def forget(connection: Connection, before: int) -> int:
    """Forget messages from before a time that wait no more, and return how many."""
    old = (deliveries.c.state != WAITING) & (deliveries.c.created_at < before)
    return connection.execute(delete(deliveries).where(old)).rowcount
