"""Alembic's entry: migrates over the connection it is handed (see aggregator.store.migrate)."""

from alembic import context

from privquant.aggregator.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
with context.begin_transaction():
    context.run_migrations()
