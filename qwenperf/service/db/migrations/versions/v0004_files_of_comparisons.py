"""Files of comparisons. Uploads under way, which may now be of either kind of record, go on where they were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_UPLOADS = "id, project_id, run_id, path, sha256, size, received, created_at, updated_at, pushed_by"
_PARTS = 'upload_id, "offset", size, name'


def _ref(name: str, table: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _ID, sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=nullable)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def upgrade() -> None:
    """Make the table of their files, and that of uploads anew: SQLite changes no column."""
    op.create_table(
        "comparison_files",
        _ref("comparison_id", "comparisons"),
        _text("path"),
        _ref("file_id", "files"),
        sa.PrimaryKeyConstraint("comparison_id", "path", name="comparison_files_key"),
    )
    op.create_index("comparison_files_file", "comparison_files", ["file_id"])
    kept = {"uploads": _UPLOADS, "upload_parts": _PARTS}
    for table, columns in kept.items():
        op.execute(f"CREATE TEMPORARY TABLE kept_{table} AS SELECT {columns} FROM {table}")  # noqa: S608  (ours)
    for table in reversed(kept):
        op.drop_table(table)
    _uploads()
    for table, columns in kept.items():
        op.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM kept_{table}")  # noqa: S608  (ours)
        op.execute(f"DROP TABLE kept_{table}")


def _uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(64), primary_key=True),
        _ref("project_id", "projects"),
        _ref("run_id", "runs", nullable=True),
        _ref("comparison_id", "comparisons", nullable=True),
        _text("path"),
        sa.Column("sha256", sa.String(64), nullable=False),
        _number("size"),
        _number("received"),
        _number("created_at"),
        _number("updated_at"),
        sa.Column("pushed_by", sa.Text, nullable=False, server_default=""),
        sa.UniqueConstraint("run_id", "path", "sha256", name="uploads_once"),
        sa.UniqueConstraint("comparison_id", "path", "sha256", name="uploads_once_compared"),
        sa.CheckConstraint("(run_id IS NULL) <> (comparison_id IS NULL)", name="uploads_of_one"),
    )
    op.create_table(
        "upload_parts",
        sa.Column("upload_id", sa.String(64), sa.ForeignKey("uploads.id", ondelete="CASCADE"), nullable=False),
        _number("offset"),
        _number("size"),
        _text("name"),
        sa.PrimaryKeyConstraint("upload_id", "offset", name="upload_parts_key"),
    )
