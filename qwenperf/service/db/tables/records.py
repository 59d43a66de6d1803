"""Projects, and what they have measured: runs and comparisons as they came, and points by series."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    true,
)
from sqlalchemy import text as sql_text

from qwenperf.service.db.tables.columns import ID, metadata, number, ref, text, time

_NEW_POINTS = sql_text("points <> judged")

projects = Table(
    "projects", metadata,
    number(),
    Column("name", String(64), nullable=False, unique=True),
    text("title"),
    Column("public", Boolean, nullable=False),
    Column("quota_bytes", BigInteger, nullable=False),
    Column("used_bytes", BigInteger, nullable=False, server_default="0"),
    Column("retention_days", Integer, nullable=True),
    text("owner"),
    text("repository"),
    # [tool.qwenperf.budgets] as JSON; empty where runs are judged by the budgets they bring.
    text("budgets"),
    # What is judged over time is this branch; others are compared with it.
    text("default_branch", default="main"),
    time("created_at"),
)  # fmt: skip

records = Table(
    "records", metadata,
    number(),
    Column("body", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
    # What its rows beside it count for, such as points: given back as it was taken, when it goes.
    Column("rows_bytes", BigInteger, nullable=False, server_default="0"),
)  # fmt: skip

runs = Table(
    "runs", metadata,
    number(),
    ref("project_id", "projects"),
    Column("name", String(200), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("record_id", ID, ForeignKey("records.id"), nullable=False, unique=True),
    text("suite"),
    time("at"),
    time("measured_at"),
    time("committed_at", nullable=True),
    text("commit"),
    text("branch"),
    text("environment"),
    Column("cases", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    text("outcome"),
    Column("interrupted", Boolean, nullable=False),
    time("received_at"),
    text("pushed_by"),
    # The commit at which its branch left the default one, and when that was made, as whoever pushed it says.
    text("fork_point"),
    time("forked_at", nullable=True),
    # Whether it was looked at since it arrived: beside its fork point, or for gates that fail.
    Column("judged", Boolean, nullable=False, server_default=true()),
    UniqueConstraint("project_id", "name", name="runs_name"),
    UniqueConstraint("project_id", "sha256", name="runs_content"),
    Index("runs_order", "project_id", "at"),
    Index("runs_unjudged", "judged", "id"),
    Index("runs_commit", "project_id", "commit", "at"),
)  # fmt: skip

cases = Table(
    "cases", metadata,
    number(),
    ref("run_id", "runs"),
    text("name"),
    text("status"),
    Column("error", Text, nullable=True),
    Column("trace", Text, nullable=True),
    Column("wall_s", Float(53), nullable=True),
    UniqueConstraint("run_id", "name", name="cases_name"),
)  # fmt: skip

series = Table(
    "series", metadata,
    number(),
    ref("project_id", "projects"),
    text("case", default=None),
    text("metric", default=None),
    text("unit"),
    text("direction"),
    text("kind"),
    # Of the newest point, so that no overview reads points.
    Column("points", Integer, nullable=False, server_default="0"),
    time("last_at", nullable=True),
    Column("last_value", Float(53), nullable=True),
    Column("last_run_id", ID, nullable=True),
    # How many points there were when changes were last looked for.
    Column("judged", Integer, nullable=False, server_default="0"),
    UniqueConstraint("project_id", "case", "metric", name="series_name"),
    # Asked several times a second, and empty most of the time. Not on PostgreSQL: a row that an index asks for this of
    # is written anew in every index with each point, which took a fifth longer for a run than looking takes.
    Index("series_unjudged", "id", sqlite_where=_NEW_POINTS).ddl_if(dialect="sqlite"),
)  # fmt: skip

points = Table(
    "points", metadata,
    ref("series_id", "series"),
    time("at"),
    # No foreign key: one would ask for a second index on the largest table. Whoever deletes runs deletes points first.
    Column("run_id", ID, nullable=False),
    Column("value", Float(53), nullable=False),
    Column("low", Float(53), nullable=True),
    Column("high", Float(53), nullable=True),
    Column("samples", Integer, nullable=False),
    PrimaryKeyConstraint("series_id", "at", "run_id", name="points_key"),
    # The key is the order in which windows are read.
    sqlite_with_rowid=False,
)  # fmt: skip

comparisons = Table(
    "comparisons", metadata,
    number(),
    ref("project_id", "projects"),
    Column("name", String(200), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("record_id", ID, ForeignKey("records.id"), nullable=False, unique=True),
    text("base_label"),
    text("head_label"),
    text("base_commit"),
    text("head_commit"),
    text("environment"),
    text("outcome"),
    Column("cases", Integer, nullable=False),
    time("created_at"),
    time("received_at"),
    text("pushed_by"),
    UniqueConstraint("project_id", "name", name="comparisons_name"),
    UniqueConstraint("project_id", "sha256", name="comparisons_content"),
    Index("comparisons_order", "project_id", "created_at"),
)  # fmt: skip
