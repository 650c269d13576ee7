"""Runs the migrations on the connection that the store hands over, inside its transaction.

The store holds a lock meanwhile, so that two processes opening a fresh store both succeed, and
commits everything or nothing.
"""

from __future__ import annotations

from alembic import context

from stresstest.store.tables import VERSION_TABLE, metadata

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("Migrations are run by opening a store: `stresstest runs list --store URL`.")

context.configure(
    connection=connection,
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,
    compare_type=True,
)
with context.begin_transaction():
    context.run_migrations()
