"""What all tables are made of: where they are known, and the kinds of columns that they share."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, MetaData, Text

metadata = MetaData()

ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only where the key is an INTEGER."""


def number() -> Column[int]:
    """Return the key of a table whose rows are numbered."""
    return Column("id", ID, primary_key=True, autoincrement=True)


def ref(name: str, table: str, *, nullable: bool = False) -> Column[int]:
    """Return a column with the number of a row of another table; it goes with that row."""
    return Column(name, ID, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=nullable)


def time(name: str, *, nullable: bool = False) -> Column[int]:
    """Return a column of microseconds since the epoch, UTC."""
    return Column(name, BigInteger, nullable=nullable)


def text(name: str, *, default: str | None = "") -> Column[str]:
    """Return a column of text, which is never NULL."""
    return Column(name, Text, nullable=False, server_default=default)
