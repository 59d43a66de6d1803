"""Who may do what, and who has changed what."""

from __future__ import annotations

from sqlalchemy import Column, Index, String, Table

from qwenperf.service.db.tables.columns import ID, metadata, number, ref, text, time

tokens = Table(
    "tokens", metadata,
    number(),
    ref("project_id", "projects", nullable=True),
    text("name"),
    # A person's or a machine's own (token), or made for one CI job (oidc).
    text("kind", default="token"),
    # Finds the row; the hash is of the secret behind it.
    Column("prefix", String(32), nullable=False, unique=True),
    Column("hash", String(64), nullable=False),
    text("scopes"),
    # What the issuer vouched for, JSON, where a CI job holds the token.
    text("claims"),
    time("created_at"),
    text("created_by"),
    time("expires_at", nullable=True),
    time("revoked_at", nullable=True),
    time("last_used_at", nullable=True),
    Index("tokens_project", "project_id"),
)  # fmt: skip

sessions = Table(
    "sessions", metadata,
    number(),
    Column("hash", String(64), nullable=False, unique=True),
    ref("token_id", "tokens"),
    time("created_at"),
    time("expires_at"),
    Index("sessions_token", "token_id"),
)  # fmt: skip

used_identities = Table(
    "used_identities", metadata,
    # Of issuer and id: an identity token of a job is good for one exchange.
    Column("hash", String(64), primary_key=True),
    time("expires_at"),
)  # fmt: skip

audit = Table(
    "audit", metadata,
    number(),
    time("at"),
    # Kept when its project goes.
    Column("project_id", ID, nullable=True),
    text("actor"),
    text("kind"),
    text("action"),
    text("subject"),
    text("detail"),
    text("address"),
    Index("audit_order", "at"),
    Index("audit_project", "project_id", "at"),
)  # fmt: skip

oidc_policies = Table(
    "oidc_policies", metadata,
    number(),
    ref("project_id", "projects"),
    Column("repository_id", String(32), nullable=False),
    # For people: a repository's name can be given to another, its id cannot.
    text("repository"),
    # Patterns, one a line; none is any.
    text("refs"),
    text("events"),
    text("workflows"),
    time("created_at"),
    text("created_by"),
    Index("oidc_policies_project", "project_id"),
)  # fmt: skip
