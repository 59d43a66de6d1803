"""What was found in runs and comparisons, and what somebody said about it."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Table, UniqueConstraint

from qwenperf.service.db.tables.columns import metadata, number, ref, text, time

verdicts = Table(
    "verdicts", metadata,
    number(),
    ref("project_id", "projects"),
    ref("run_id", "runs", nullable=True),
    ref("comparison_id", "comparisons", nullable=True),
    text("case"),
    text("gate"),
    text("outcome"),
    text("summary"),
    text("detail"),
    text("advice"),
    Index("verdicts_run", "run_id"),
    Index("verdicts_comparison", "comparison_id"),
)  # fmt: skip

alerts = Table(
    "alerts", metadata,
    number(),
    ref("project_id", "projects"),
    ref("series_id", "series", nullable=True),
    ref("run_id", "runs", nullable=True),
    text("kind"),
    text("state"),
    text("family"),
    text("owner"),
    time("at"),
    Column("before", Float(53), nullable=True),
    Column("after", Float(53), nullable=True),
    Column("ratio", Float(53), nullable=True),
    text("summary"),
    # Of a gate that fails, which is of a case and an environment and of no series.
    text("gate"),
    text("case_name"),
    text("environment"),
    # The state that the project's webhook was told last.
    text("told"),
    time("created_at"),
    time("updated_at"),
    UniqueConstraint("series_id", "kind", "run_id", name="alerts_once"),
    Index("alerts_run", "run_id"),
    Index("alerts_order", "project_id", "state", "at"),
)  # fmt: skip

accepted = Table(
    "accepted", metadata,
    number(),
    ref("project_id", "projects"),
    ref("series_id", "series"),
    ref("run_id", "runs"),
    text("reason"),
    text("accepted_by"),
    time("created_at"),
    UniqueConstraint("series_id", "run_id", name="accepted_once"),
    Index("accepted_run", "run_id"),
    Index("accepted_project", "project_id"),
)  # fmt: skip
