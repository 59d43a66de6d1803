"""The first tables: projects, runs and their points, comparisons, judgements, files, and who may do what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _id() -> sa.Column[int]:
    return sa.Column("id", _ID, primary_key=True, autoincrement=True)


def _ref(name: str, table: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _ID, sa.ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _text(name: str, *, default: str | None = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def upgrade() -> None:
    """Make every table and index."""
    _runs()
    _judgements()
    _files()
    _access()
    for name, table, columns in INDEXES:
        op.create_index(name, table, columns)


def _runs() -> None:
    op.create_table(
        "projects",
        _id(),
        sa.Column("name", sa.String(64), nullable=False, unique=True),
        _text("title"),
        sa.Column("public", sa.Boolean, nullable=False),
        sa.Column("quota_bytes", sa.BigInteger, nullable=False),
        sa.Column("used_bytes", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("retention_days", sa.Integer, nullable=True),
        _text("owner"),
        _text("repository"),
        _text("budgets"),
        _time("created_at"),
    )
    op.create_table(
        "records",
        _id(),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "runs",
        _id(),
        _ref("project_id", "projects"),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("record_id", _ID, sa.ForeignKey("records.id"), nullable=False, unique=True),
        _text("suite"),
        _time("at"),
        _time("measured_at"),
        _time("committed_at", nullable=True),
        _text("commit"),
        _text("branch"),
        _text("environment"),
        sa.Column("cases", sa.Integer, nullable=False),
        sa.Column("failed", sa.Integer, nullable=False),
        _text("outcome"),
        sa.Column("interrupted", sa.Boolean, nullable=False),
        _time("received_at"),
        _text("pushed_by"),
        sa.UniqueConstraint("project_id", "name", name="runs_name"),
        sa.UniqueConstraint("project_id", "sha256", name="runs_content"),
    )
    op.create_table(
        "cases",
        _id(),
        _ref("run_id", "runs"),
        _text("name"),
        _text("status"),
        sa.Column("error", sa.Text, nullable=True),
        sa.Column("trace", sa.Text, nullable=True),
        sa.Column("wall_s", sa.Float(53), nullable=True),
        sa.UniqueConstraint("run_id", "name", name="cases_name"),
    )
    op.create_table(
        "series",
        _id(),
        _ref("project_id", "projects"),
        _text("case", default=None),
        _text("metric", default=None),
        _text("unit"),
        _text("direction"),
        _text("kind"),
        sa.Column("points", sa.Integer, nullable=False, server_default="0"),
        _time("last_at", nullable=True),
        sa.Column("last_value", sa.Float(53), nullable=True),
        sa.Column("last_run_id", _ID, nullable=True),
        sa.Column("judged", sa.Integer, nullable=False, server_default="0"),
        sa.UniqueConstraint("project_id", "case", "metric", name="series_name"),
    )
    op.create_table(
        "points",
        _ref("series_id", "series"),
        _time("at"),
        sa.Column("run_id", _ID, nullable=False),
        sa.Column("value", sa.Float(53), nullable=False),
        sa.Column("low", sa.Float(53), nullable=True),
        sa.Column("high", sa.Float(53), nullable=True),
        sa.Column("samples", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("series_id", "at", "run_id", name="points_key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "comparisons",
        _id(),
        _ref("project_id", "projects"),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("record_id", _ID, sa.ForeignKey("records.id"), nullable=False, unique=True),
        _text("base_label"),
        _text("head_label"),
        _text("base_commit"),
        _text("head_commit"),
        _text("environment"),
        _text("outcome"),
        sa.Column("cases", sa.Integer, nullable=False),
        _time("created_at"),
        _time("received_at"),
        _text("pushed_by"),
        sa.UniqueConstraint("project_id", "name", name="comparisons_name"),
        sa.UniqueConstraint("project_id", "sha256", name="comparisons_content"),
    )


def _judgements() -> None:
    op.create_table(
        "verdicts",
        _id(),
        _ref("project_id", "projects"),
        _ref("run_id", "runs", nullable=True),
        _ref("comparison_id", "comparisons", nullable=True),
        _text("case"),
        _text("gate"),
        _text("outcome"),
        _text("summary"),
        _text("detail"),
        _text("advice"),
    )
    op.create_table(
        "alerts",
        _id(),
        _ref("project_id", "projects"),
        _ref("series_id", "series", nullable=True),
        _ref("run_id", "runs", nullable=True),
        _text("kind"),
        _text("state"),
        _text("family"),
        _text("owner"),
        _time("at"),
        sa.Column("before", sa.Float(53), nullable=True),
        sa.Column("after", sa.Float(53), nullable=True),
        sa.Column("ratio", sa.Float(53), nullable=True),
        _text("summary"),
        _time("created_at"),
        _time("updated_at"),
        sa.UniqueConstraint("series_id", "kind", "run_id", name="alerts_once"),
    )
    op.create_table(
        "accepted",
        _id(),
        _ref("project_id", "projects"),
        _ref("series_id", "series"),
        _ref("run_id", "runs"),
        _text("reason"),
        _text("accepted_by"),
        _time("created_at"),
        sa.UniqueConstraint("series_id", "run_id", name="accepted_once"),
    )


def _files() -> None:
    op.create_table(
        "files",
        _id(),
        _ref("project_id", "projects"),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        _text("name"),
        _time("created_at"),
        sa.UniqueConstraint("project_id", "sha256", name="files_content"),
    )
    op.create_table(
        "run_files",
        _ref("run_id", "runs"),
        sa.Column("path", sa.Text, nullable=False),
        _ref("file_id", "files"),
        sa.PrimaryKeyConstraint("run_id", "path", name="run_files_key"),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(64), primary_key=True),
        _ref("project_id", "projects"),
        _ref("run_id", "runs"),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("received", sa.BigInteger, nullable=False),
        _time("created_at"),
        _time("updated_at"),
        _text("pushed_by"),
        sa.UniqueConstraint("run_id", "path", "sha256", name="uploads_once"),
    )
    op.create_table(
        "upload_parts",
        sa.Column("upload_id", sa.String(64), sa.ForeignKey("uploads.id", ondelete="CASCADE"), nullable=False),
        sa.Column("offset", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("upload_id", "offset", name="upload_parts_key"),
    )


def _access() -> None:
    op.create_table(
        "tokens",
        _id(),
        _ref("project_id", "projects", nullable=True),
        _text("name"),
        _text("kind", default="token"),
        sa.Column("prefix", sa.String(32), nullable=False, unique=True),
        sa.Column("hash", sa.String(64), nullable=False),
        _text("scopes"),
        _text("claims"),
        _time("created_at"),
        _text("created_by"),
        _time("expires_at", nullable=True),
        _time("revoked_at", nullable=True),
        _time("last_used_at", nullable=True),
    )
    op.create_table(
        "sessions",
        _id(),
        sa.Column("hash", sa.String(64), nullable=False, unique=True),
        _ref("token_id", "tokens"),
        _time("created_at"),
        _time("expires_at"),
    )
    op.create_table(
        "used_identities",
        sa.Column("hash", sa.String(64), primary_key=True),
        _time("expires_at"),
    )
    op.create_table(
        "audit",
        _id(),
        _time("at"),
        sa.Column("project_id", _ID, nullable=True),
        _text("actor"),
        _text("kind"),
        _text("action"),
        _text("subject"),
        _text("detail"),
        _text("address"),
    )
    op.create_table(
        "oidc_policies",
        _id(),
        _ref("project_id", "projects"),
        sa.Column("repository_id", sa.String(32), nullable=False),
        _text("repository"),
        _text("refs"),
        _text("events"),
        _text("workflows"),
        _time("created_at"),
        _text("created_by"),
    )


INDEXES = (
    ("runs_order", "runs", ["project_id", "at"]),
    ("comparisons_order", "comparisons", ["project_id", "created_at"]),
    ("verdicts_run", "verdicts", ["run_id"]),
    ("verdicts_comparison", "verdicts", ["comparison_id"]),
    ("alerts_run", "alerts", ["run_id"]),
    ("alerts_order", "alerts", ["project_id", "state", "at"]),
    ("accepted_run", "accepted", ["run_id"]),
    ("run_files_file", "run_files", ["file_id"]),
    ("tokens_project", "tokens", ["project_id"]),
    ("audit_order", "audit", ["at"]),
    ("audit_project", "audit", ["project_id", "at"]),
    ("oidc_policies_project", "oidc_policies", ["project_id"]),
)
