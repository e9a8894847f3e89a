"""What tests do with a store, whichever it is."""

from pathlib import Path
from typing import Any

from humanlayer_agent.store.postgres.postgres_store import PostgresStore
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore


def opened(path: Path | str, **how: Any) -> SQLStore:
    """The store in a file, or at an address."""
    return PostgresStore(path, **how) if isinstance(path, str) and "://" in path else SQLiteStore(path, **how)


def another(store: SQLStore, **how: Any) -> SQLStore:
    """The same store, opened once more, as another process has it."""
    if isinstance(store, PostgresStore):
        return opened(store.url, **how)
    assert isinstance(store, SQLiteStore)
    return opened(store.path, **how)
