"""The tables, as SQLAlchemy Core knows them. ``migrations/versions`` makes them; a test holds both to each other.

Times are microseconds since the epoch, UTC. Names that people type (of projects, runs, comparisons) are unique within
their project; numbers (``id``) never leave the service. All are read here, so that ``metadata`` knows every one.
"""

from __future__ import annotations

from qwenperf.service.db.tables.access import audit, oidc_policies, sessions, tokens, used_identities
from qwenperf.service.db.tables.columns import metadata
from qwenperf.service.db.tables.content import (
    comparison_files,
    file_holds,
    files,
    files_going,
    run_files,
    upload_parts,
    uploads,
)
from qwenperf.service.db.tables.judgements import accepted, alerts, verdicts
from qwenperf.service.db.tables.outward import deliveries, github_links, github_posts, webhooks
from qwenperf.service.db.tables.records import cases, comparisons, points, projects, records, runs, series

__all__ = [
    "accepted",
    "alerts",
    "audit",
    "cases",
    "comparison_files",
    "comparisons",
    "deliveries",
    "file_holds",
    "files",
    "files_going",
    "github_links",
    "github_posts",
    "metadata",
    "oidc_policies",
    "points",
    "projects",
    "records",
    "run_files",
    "runs",
    "series",
    "sessions",
    "tokens",
    "upload_parts",
    "uploads",
    "used_identities",
    "verdicts",
    "webhooks",
]
