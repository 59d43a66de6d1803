"""The tables, as SQLAlchemy Core knows them. ``migrations/versions`` makes them; a test holds both to each other.

Times are microseconds since the epoch, UTC. Names that people type (of projects, runs, comparisons) are unique within
their project; numbers (``id``) never leave the service.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    true,
)

metadata = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only where the key is an INTEGER."""


def _id() -> Column[int]:
    return Column("id", _ID, primary_key=True, autoincrement=True)


def _ref(name: str, table: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, _ID, ForeignKey(f"{table}.id", ondelete="CASCADE"), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _text(name: str, *, default: str | None = "") -> Column[str]:
    return Column(name, Text, nullable=False, server_default=default)


projects = Table(
    "projects", metadata,
    _id(),
    Column("name", String(64), nullable=False, unique=True),
    _text("title"),
    Column("public", Boolean, nullable=False),
    Column("quota_bytes", BigInteger, nullable=False),
    Column("used_bytes", BigInteger, nullable=False, server_default="0"),
    Column("retention_days", Integer, nullable=True),
    _text("owner"),
    _text("repository"),
    # [tool.qwenperf.budgets] as JSON; empty where runs are judged by the budgets they bring.
    _text("budgets"),
    # What is judged over time is this branch; others are compared with it.
    _text("default_branch", default="main"),
    _time("created_at"),
)  # fmt: skip

records = Table(
    "records", metadata,
    _id(),
    Column("body", LargeBinary, nullable=False),
    Column("size", BigInteger, nullable=False),
)  # fmt: skip

runs = Table(
    "runs", metadata,
    _id(),
    _ref("project_id", "projects"),
    Column("name", String(200), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("record_id", _ID, ForeignKey("records.id"), nullable=False, unique=True),
    _text("suite"),
    _time("at"),
    _time("measured_at"),
    _time("committed_at", nullable=True),
    _text("commit"),
    _text("branch"),
    _text("environment"),
    Column("cases", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    _text("outcome"),
    Column("interrupted", Boolean, nullable=False),
    _time("received_at"),
    _text("pushed_by"),
    # The commit at which its branch left the default one, and when that was made, as whoever pushed it says.
    _text("fork_point"),
    _time("forked_at", nullable=True),
    # Whether it was looked at since it arrived: beside its fork point, or for gates that fail.
    Column("judged", Boolean, nullable=False, server_default=true()),
    UniqueConstraint("project_id", "name", name="runs_name"),
    UniqueConstraint("project_id", "sha256", name="runs_content"),
    Index("runs_order", "project_id", "at"),
    Index("runs_unjudged", "judged", "id"),
)  # fmt: skip

cases = Table(
    "cases", metadata,
    _id(),
    _ref("run_id", "runs"),
    _text("name"),
    _text("status"),
    Column("error", Text, nullable=True),
    Column("trace", Text, nullable=True),
    Column("wall_s", Float(53), nullable=True),
    UniqueConstraint("run_id", "name", name="cases_name"),
)  # fmt: skip

series = Table(
    "series", metadata,
    _id(),
    _ref("project_id", "projects"),
    _text("case", default=None),
    _text("metric", default=None),
    _text("unit"),
    _text("direction"),
    _text("kind"),
    # Of the newest point, so that no overview reads points.
    Column("points", Integer, nullable=False, server_default="0"),
    _time("last_at", nullable=True),
    Column("last_value", Float(53), nullable=True),
    Column("last_run_id", _ID, nullable=True),
    # How many points there were when changes were last looked for.
    Column("judged", Integer, nullable=False, server_default="0"),
    UniqueConstraint("project_id", "case", "metric", name="series_name"),
)  # fmt: skip

points = Table(
    "points", metadata,
    _ref("series_id", "series"),
    _time("at"),
    # No foreign key: one would ask for a second index on the largest table. Whoever deletes runs deletes points first.
    Column("run_id", _ID, nullable=False),
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
    _id(),
    _ref("project_id", "projects"),
    Column("name", String(200), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("record_id", _ID, ForeignKey("records.id"), nullable=False, unique=True),
    _text("base_label"),
    _text("head_label"),
    _text("base_commit"),
    _text("head_commit"),
    _text("environment"),
    _text("outcome"),
    Column("cases", Integer, nullable=False),
    _time("created_at"),
    _time("received_at"),
    _text("pushed_by"),
    UniqueConstraint("project_id", "name", name="comparisons_name"),
    UniqueConstraint("project_id", "sha256", name="comparisons_content"),
    Index("comparisons_order", "project_id", "created_at"),
)  # fmt: skip

verdicts = Table(
    "verdicts", metadata,
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
    Index("verdicts_run", "run_id"),
    Index("verdicts_comparison", "comparison_id"),
)  # fmt: skip

alerts = Table(
    "alerts", metadata,
    _id(),
    _ref("project_id", "projects"),
    _ref("series_id", "series", nullable=True),
    _ref("run_id", "runs", nullable=True),
    _text("kind"),
    _text("state"),
    _text("family"),
    _text("owner"),
    _time("at"),
    Column("before", Float(53), nullable=True),
    Column("after", Float(53), nullable=True),
    Column("ratio", Float(53), nullable=True),
    _text("summary"),
    # Of a gate that fails, which is of a case and an environment and of no series.
    _text("gate"),
    _text("case_name"),
    _text("environment"),
    # The state that the project's webhook was told last.
    _text("told"),
    _time("created_at"),
    _time("updated_at"),
    UniqueConstraint("series_id", "kind", "run_id", name="alerts_once"),
    Index("alerts_run", "run_id"),
    Index("alerts_order", "project_id", "state", "at"),
)  # fmt: skip

accepted = Table(
    "accepted", metadata,
    _id(),
    _ref("project_id", "projects"),
    _ref("series_id", "series"),
    _ref("run_id", "runs"),
    _text("reason"),
    _text("accepted_by"),
    _time("created_at"),
    UniqueConstraint("series_id", "run_id", name="accepted_once"),
    Index("accepted_run", "run_id"),
)  # fmt: skip

files = Table(
    "files", metadata,
    _id(),
    _ref("project_id", "projects"),
    Column("sha256", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    # Where the content lies; no two rows share one, so that removing what nobody names can never hit a new one.
    _text("name"),
    _time("created_at"),
    UniqueConstraint("project_id", "sha256", name="files_content"),
)  # fmt: skip

files_going = Table(
    "files_going", metadata,
    # Content that nothing names any more and that may still lie in the file store: written as its row goes.
    _ref("project_id", "projects"),
    _text("name", default=None),
    PrimaryKeyConstraint("project_id", "name", name="files_going_key"),
)  # fmt: skip

run_files = Table(
    "run_files", metadata,
    _ref("run_id", "runs"),
    Column("path", Text, nullable=False),
    _ref("file_id", "files"),
    PrimaryKeyConstraint("run_id", "path", name="run_files_key"),
    Index("run_files_file", "file_id"),
)  # fmt: skip

comparison_files = Table(
    "comparison_files", metadata,
    _ref("comparison_id", "comparisons"),
    Column("path", Text, nullable=False),
    _ref("file_id", "files"),
    PrimaryKeyConstraint("comparison_id", "path", name="comparison_files_key"),
    Index("comparison_files_file", "file_id"),
)  # fmt: skip

uploads = Table(
    "uploads", metadata,
    Column("id", String(64), primary_key=True),
    _ref("project_id", "projects"),
    # Of one of the two.
    _ref("run_id", "runs", nullable=True),
    _ref("comparison_id", "comparisons", nullable=True),
    Column("path", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    _time("created_at"),
    _time("updated_at"),
    _text("pushed_by"),
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

tokens = Table(
    "tokens", metadata,
    _id(),
    _ref("project_id", "projects", nullable=True),
    _text("name"),
    # A person's or a machine's own (token), or made for one CI job (oidc).
    _text("kind", default="token"),
    # Finds the row; the hash is of the secret behind it.
    Column("prefix", String(32), nullable=False, unique=True),
    Column("hash", String(64), nullable=False),
    _text("scopes"),
    # What the issuer vouched for, JSON, where a CI job holds the token.
    _text("claims"),
    _time("created_at"),
    _text("created_by"),
    _time("expires_at", nullable=True),
    _time("revoked_at", nullable=True),
    _time("last_used_at", nullable=True),
    Index("tokens_project", "project_id"),
)  # fmt: skip

sessions = Table(
    "sessions", metadata,
    _id(),
    Column("hash", String(64), nullable=False, unique=True),
    _ref("token_id", "tokens"),
    _time("created_at"),
    _time("expires_at"),
)  # fmt: skip

used_identities = Table(
    "used_identities", metadata,
    # Of issuer and id: an identity token of a job is good for one exchange.
    Column("hash", String(64), primary_key=True),
    _time("expires_at"),
)  # fmt: skip

audit = Table(
    "audit", metadata,
    _id(),
    _time("at"),
    # Kept when its project goes.
    Column("project_id", _ID, nullable=True),
    _text("actor"),
    _text("kind"),
    _text("action"),
    _text("subject"),
    _text("detail"),
    _text("address"),
    Index("audit_order", "at"),
    Index("audit_project", "project_id", "at"),
)  # fmt: skip

oidc_policies = Table(
    "oidc_policies", metadata,
    _id(),
    _ref("project_id", "projects"),
    Column("repository_id", String(32), nullable=False),
    # For people: a repository's name can be given to another, its id cannot.
    _text("repository"),
    # Patterns, one a line; none is any.
    _text("refs"),
    _text("events"),
    _text("workflows"),
    _time("created_at"),
    _text("created_by"),
    Index("oidc_policies_project", "project_id"),
)  # fmt: skip

webhooks = Table(
    "webhooks", metadata,
    Column("project_id", _ID, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    _text("url", default=None),
    # Signs messages, so it is kept as it is; no answer and no log has it.
    _text("secret", default=None),
    _time("created_at"),
    _text("created_by"),
)  # fmt: skip

deliveries = Table(
    "deliveries", metadata,
    _id(),
    _ref("project_id", "projects"),
    # By which the receiver knows a message that it has already.
    Column("name", String(36), nullable=False, unique=True),
    _text("event"),
    _text("body"),
    _text("state"),
    Column("tries", Integer, nullable=False, server_default="0"),
    _text("problem"),
    _time("next_at"),
    _time("created_at"),
    _time("updated_at"),
    Index("deliveries_due", "state", "next_at"),
    Index("deliveries_project", "project_id", "id"),
)  # fmt: skip

github_links = Table(
    "github_links", metadata,
    Column("project_id", _ID, ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    # A repository's name can be given to another, its id cannot.
    Column("repository_id", String(32), nullable=False),
    _text("repository", default=None),
    # What is pushed with a token, and by no job of the repository, is told of, too.
    Column("tokens", Boolean, nullable=False),
    _time("created_at"),
    _text("created_by"),
)  # fmt: skip

github_posts = Table(
    "github_posts", metadata,
    _id(),
    _ref("project_id", "projects"),
    _ref("run_id", "runs", nullable=True),
    _ref("comparison_id", "comparisons", nullable=True),
    Column("repository_id", String(32), nullable=False),
    # The commit that is told of; empty until GitHub says which it is.
    _text("sha"),
    Column("pull", Integer, nullable=True),
    # What a job of a pull request measured, and the head that this was made of, as the job says.
    _text("merge"),
    _text("head"),
    _text("branch"),
    _text("state"),
    _text("problem"),
    Column("tries", Integer, nullable=False, server_default="0"),
    _text("check_url"),
    _text("comment_url"),
    _time("next_at"),
    # Until then it is one worker's, and no other post of its project is anybody's.
    Column("leased_until", BigInteger, nullable=False, server_default="0"),
    _time("created_at"),
    _time("updated_at"),
    Index("github_posts_due", "state", "next_at"),
    Index("github_posts_commit", "project_id", "sha"),
    Index("github_posts_run", "run_id"),
    Index("github_posts_comparison", "comparison_id"),
)  # fmt: skip
