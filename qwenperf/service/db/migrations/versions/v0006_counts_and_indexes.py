"""Room that rows take, holds on files, indexes of what is asked all the time; series know of their points again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_NEW_POINTS = "points <> judged"
_INDEXES = (
    ("runs_commit", "runs", ["project_id", "commit", "at"]),
    ("accepted_project", "accepted", ["project_id"]),
    ("sessions_token", "sessions", ["token_id"]),
)
_NEWEST = "SELECT {column} FROM points WHERE series_id = series.id ORDER BY at DESC, run_id DESC LIMIT 1"
_COUNT = "(SELECT COUNT(*) FROM points WHERE series_id = series.id)"


def upgrade() -> None:
    """Add column, table and indexes. Of what is there already no rows are counted: it gives back none when it goes."""
    op.add_column("records", sa.Column("rows_bytes", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "file_holds",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
    )
    _count_points()
    for name, table, columns in _INDEXES:
        op.create_index(name, table, columns)
    if op.get_bind().dialect.name == "sqlite":
        op.create_index("series_unjudged", "series", ["id"], sqlite_where=sa.text(_NEW_POINTS))


def _count_points() -> None:
    """Count the points of series anew where retention left a wrong number, or a series without any."""
    op.execute("DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM points WHERE series_id = series.id)")
    newest = {f"last_{name}": _NEWEST.format(column=name) for name in ("value", "at", "run_id")}
    values = ", ".join(f"{name} = ({asked})" for name, asked in newest.items())
    op.execute(f"UPDATE series SET points = {_COUNT}, judged = -1, {values} WHERE points <> {_COUNT}")  # noqa: S608
