"""Whom projects tell of what was found: webhooks and GitHub."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table

from qwenperf.service.db.tables.columns import ID, metadata, number, ref, text, time

webhooks = Table(
    "webhooks", metadata,
    Column("project_id", ID, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    text("url", default=None),
    # Signs messages, so it is kept as it is; no answer and no log has it.
    text("secret", default=None),
    time("created_at"),
    text("created_by"),
)  # fmt: skip

deliveries = Table(
    "deliveries", metadata,
    number(),
    ref("project_id", "projects"),
    # By which the receiver knows a message that it has already.
    Column("name", String(36), nullable=False, unique=True),
    text("event"),
    text("body"),
    text("state"),
    Column("tries", Integer, nullable=False, server_default="0"),
    text("problem"),
    time("next_at"),
    time("created_at"),
    time("updated_at"),
    Index("deliveries_due", "state", "next_at"),
    Index("deliveries_project", "project_id", "id"),
)  # fmt: skip

github_links = Table(
    "github_links", metadata,
    Column("project_id", ID, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    # A repository's name can be given to another, its id cannot.
    Column("repository_id", String(32), nullable=False),
    text("repository", default=None),
    # What is pushed with a token, and by no job of the repository, is told of, too.
    Column("tokens", Boolean, nullable=False),
    time("created_at"),
    text("created_by"),
)  # fmt: skip

github_posts = Table(
    "github_posts", metadata,
    number(),
    ref("project_id", "projects"),
    ref("run_id", "runs", nullable=True),
    ref("comparison_id", "comparisons", nullable=True),
    Column("repository_id", String(32), nullable=False),
    # The commit that is told of; empty until GitHub says which it is.
    text("sha"),
    Column("pull", Integer, nullable=True),
    # What a job of a pull request measured, and the head that this was made of, as the job says.
    text("merge"),
    text("head"),
    text("branch"),
    text("state"),
    text("problem"),
    Column("tries", Integer, nullable=False, server_default="0"),
    text("check_url"),
    text("comment_url"),
    time("next_at"),
    # Until then it is one worker's, and no other post of its project is anybody's.
    Column("leased_until", BigInteger, nullable=False, server_default="0"),
    time("created_at"),
    time("updated_at"),
    Index("github_posts_due", "state", "next_at"),
    Index("github_posts_commit", "project_id", "sha"),
    Index("github_posts_run", "run_id"),
    Index("github_posts_comparison", "comparison_id"),
)  # fmt: skip
