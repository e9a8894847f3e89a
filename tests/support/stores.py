"""What tests do with a store, whichever it is."""

from typing import Any

from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore


def another(store: SQLStore, **how: Any) -> SQLStore:
    """The same store, opened once more, as another process has it."""
    if isinstance(store, PostgresStore):
        return PostgresStore(store.url, **how)
    assert isinstance(store, SQLiteStore)
    return SQLiteStore(store.path, **how)
