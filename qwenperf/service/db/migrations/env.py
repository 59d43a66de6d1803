"""Alembic's way in. The connection is handed over: URLs and secrets never lie in a file."""

from __future__ import annotations

from alembic import context

from qwenperf.service.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite changes a table by copying it.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
