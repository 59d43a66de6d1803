"""Links of projects to repositories on GitHub, and what GitHub is to be told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _ref(name: str, table: str, *, nullable: bool = False, is_key: bool = False) -> sa.Column[int]:
    of = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return sa.Column(name, _ID, of, nullable=nullable, primary_key=is_key, autoincrement=False)


def _text(name: str, default: str | None = "") -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _time(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "github_links",
        _ref("project_id", "projects", is_key=True),
        sa.Column("repository_id", sa.String(32), nullable=False),
        _text("repository", None),
        sa.Column("tokens", sa.Boolean, nullable=False),
        _time("created_at"),
        _text("created_by"),
    )
    op.create_table(
        "github_posts",
        sa.Column("id", _ID, primary_key=True, autoincrement=True),
        _ref("project_id", "projects"),
        _ref("run_id", "runs", nullable=True),
        _ref("comparison_id", "comparisons", nullable=True),
        sa.Column("repository_id", sa.String(32), nullable=False),
        _text("sha"),
        sa.Column("pull", sa.Integer, nullable=True),
        _text("merge"),
        _text("head"),
        _text("branch"),
        _text("state"),
        _text("problem"),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        _text("check_url"),
        _text("comment_url"),
        _time("next_at"),
        sa.Column("leased_until", sa.BigInteger, nullable=False, server_default="0"),
        _time("created_at"),
        _time("updated_at"),
    )
    op.create_index("github_posts_due", "github_posts", ["state", "next_at"])
    op.create_index("github_posts_commit", "github_posts", ["project_id", "sha"])
    op.create_index("github_posts_run", "github_posts", ["run_id"])
    op.create_index("github_posts_comparison", "github_posts", ["comparison_id"])
