"""Run by alembic: the steps in versions/, on the connection that `store.migrate` hands over."""

from alembic import context

from mgpu.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
with context.begin_transaction():
    context.run_migrations()
