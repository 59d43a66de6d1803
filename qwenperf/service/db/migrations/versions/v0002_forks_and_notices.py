"""Fork points of runs, alerts of gates that fail, and webhooks that hear of alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, default: str | None = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _time(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _project(*, is_key: bool = False) -> sa.Column[int]:
    of = sa.ForeignKey("projects.id", ondelete="CASCADE")
    return sa.Column("project_id", _ID, of, nullable=False, primary_key=is_key, autoincrement=False)


def upgrade() -> None:
    """Add columns and tables. Runs that are there count as looked at."""
    op.add_column("projects", _text("default_branch", "main"))
    # Who has no run of main has another: the one that most runs are of.
    op.execute(
        """
        UPDATE projects SET default_branch = COALESCE(
            (SELECT branch FROM runs WHERE runs.project_id = projects.id AND branch NOT IN ('', 'HEAD')
             GROUP BY branch ORDER BY COUNT(*) DESC, branch LIMIT 1), 'main')
        WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.project_id = projects.id AND branch = 'main')
        """
    )
    op.add_column("runs", _text("fork_point"))
    op.add_column("runs", _time("forked_at", nullable=True))
    op.add_column("runs", sa.Column("judged", sa.Boolean, nullable=False, server_default=sa.true()))
    op.create_index("runs_unjudged", "runs", ["judged", "id"])
    for name in ("gate", "case_name", "environment", "told"):
        op.add_column("alerts", _text(name))
    op.create_table(
        "webhooks",
        _project(is_key=True),
        _text("url", None),
        _text("secret", None),
        _time("created_at"),
        _text("created_by"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        _project(),
        sa.Column("name", sa.String(36), nullable=False, unique=True),
        _text("event"),
        _text("body"),
        _text("state"),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        _text("problem"),
        _time("next_at"),
        _time("created_at"),
        _time("updated_at"),
    )
    op.create_index("deliveries_due", "deliveries", ["state", "next_at"])
    op.create_index("deliveries_project", "deliveries", ["project_id", "id"])
