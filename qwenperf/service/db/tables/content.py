"""Files of runs and comparisons, and uploads that become some."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from qwenperf.service.db.tables.columns import metadata, number, ref, text, time

files = Table(
    "files", metadata,
    number(),
    ref("project_id", "projects"),
    Column("sha256", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    # Where the content lies; no two rows share one, so that removing what nobody names can never hit a new one.
    text("name"),
    time("created_at"),
    UniqueConstraint("project_id", "sha256", name="files_content"),
)  # fmt: skip

files_going = Table(
    "files_going", metadata,
    # Content that nothing names any more and that may still lie in the file store: written as its row goes.
    ref("project_id", "projects"),
    text("name", default=None),
    PrimaryKeyConstraint("project_id", "name", name="files_going_key"),
)  # fmt: skip

file_holds = Table(
    "file_holds", metadata,
    # While one lasts no content leaves the file store: somebody copies what a moment had.
    number(),
    time("ends_at"),
)  # fmt: skip

run_files = Table(
    "run_files", metadata,
    ref("run_id", "runs"),
    Column("path", Text, nullable=False),
    ref("file_id", "files"),
    PrimaryKeyConstraint("run_id", "path", name="run_files_key"),
    Index("run_files_file", "file_id"),
)  # fmt: skip

comparison_files = Table(
    "comparison_files", metadata,
    ref("comparison_id", "comparisons"),
    Column("path", Text, nullable=False),
    ref("file_id", "files"),
    PrimaryKeyConstraint("comparison_id", "path", name="comparison_files_key"),
    Index("comparison_files_file", "file_id"),
)  # fmt: skip

uploads = Table(
    "uploads", metadata,
    Column("id", String(64), primary_key=True),
    ref("project_id", "projects"),
    # Of one of the two.
    ref("run_id", "runs", nullable=True),
    ref("comparison_id", "comparisons", nullable=True),
    Column("path", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    time("created_at"),
    time("updated_at"),
    text("pushed_by"),
    UniqueConstraint("run_id", "path", "sha256", name="uploads_once"),
    UniqueConstraint("comparison_id", "path", "sha256", name="uploads_once_compared"),
    CheckConstraint("(run_id IS NULL) <> (comparison_id IS NULL)", name="uploads_of_one"),
)  # fmt: skip

upload_parts = Table(
    "upload_parts", metadata,
    Column("upload_id", String(64), ForeignKey("uploads.id", ondelete="CASCADE"), nullable=False),
    Column("offset", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("upload_id", "offset", name="upload_parts_key"),
)  # fmt: skip
