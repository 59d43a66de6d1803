"""Holds on the files of the service: while one lasts, no content leaves the file store."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from qwenperf.service.db.tables import file_holds


def hold(connection: Connection, at: int, ends_at: int) -> int:
    """Let no content leave the file store before ``ends_at``, and return the number of this hold."""
    connection.execute(delete(file_holds).where(file_holds.c.ends_at <= at))
    number: int = connection.execute(insert(file_holds).values(ends_at=ends_at).returning(file_holds.c.id)).scalar_one()
    return number


def hold_until(connection: Connection, number: int, ends_at: int) -> None:
    """Put the end of a hold off."""
    connection.execute(update(file_holds).where(file_holds.c.id == number).values(ends_at=ends_at))


def let_go(connection: Connection, number: int) -> None:
    """End a hold."""
    connection.execute(delete(file_holds).where(file_holds.c.id == number))


def are_held(connection: Connection, at: int) -> bool:
    """Say whether content has to stay in the file store.

    Where nobody holds in the moment of ``connection``, whoever does later reads names of content that were there then.
    """
    return connection.execute(select(file_holds.c.id).where(file_holds.c.ends_at > at)).first() is not None
