"""Logs made by a real store."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.audit import events
from humanlayer_agent.store.sqlite import SQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite3"


@pytest.fixture
def store(path: Path) -> SQLiteStore:
    return SQLiteStore(path)


@pytest.fixture
def export(store: SQLiteStore) -> Callable[[int], bytes]:
    """The bytes of an export of so many events, the last of them a head."""

    def make(count: int) -> bytes:
        for number in range(count - 2):
            store.record(events.POLICY_LOADED, run=f"run-{number}", policy="é", number=number)
        store.write_head()
        return b"".join(entry.line for entry in store.events())

    return make
