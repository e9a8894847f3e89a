"""What somebody does to a store's file who knows it well: the triggers are out of the way meanwhile, and back afterwards.

With the schema changed nothing is decided at all. Put back as it was, it gives nothing away: what the rows say is all
that is left to be seen through.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from humanlayer_agent.store.postgres.server import translated

_FUNCTIONS = """
CREATE OR REPLACE FUNCTION public.json_set(document text, path text, value text) RETURNS text LANGUAGE sql AS
$$ SELECT json_object_agg(key, CASE WHEN key = substr(path, 3) THEN to_json(value) ELSE found END)::text
FROM json_each(document::json) AS each (key, found) $$;
CREATE OR REPLACE FUNCTION public.json_set(document text, path text, value bigint) RETURNS text LANGUAGE sql AS
$$ SELECT json_object_agg(key, CASE WHEN key = substr(path, 3) THEN to_json(value) ELSE found END)::text
FROM json_each(document::json) AS each (key, found) $$;
"""
"""Functions of SQLite's that attacks are written with."""


class _OnServer:
    """A connection to a server that takes what one to a file does."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Any = ()) -> Any:
        if statement == "PRAGMA ignore_check_constraints=ON":
            checks = "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c' AND conrelid > 0"
            for table, name in self._connection.execute(checks).fetchall():
                self._connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")  # type: ignore[call-overload]
        statement = re.sub(r"hex\(zeroblob\((\d+)\)\)", r"repeat('00', \1)", statement)
        if statement.startswith("PRAGMA"):
            statement = "SELECT 1"
        if isinstance(values, dict):
            text = re.sub(r"(?<![:\w]):([a-z]\w*)", r"%(\1)s", translated(statement).replace("%", "%%"))
            return self._connection.execute(text, values)  # type: ignore[call-overload]
        return self._connection.execute(translated(statement), [*values] or None)  # type: ignore[call-overload]


@contextmanager
def _on_server(address: str) -> Iterator[Any]:
    with psycopg.connect(address) as connection:
        connection.execute("SET search_path = humanlayer, public; SET session_replication_role = replica")
        connection.execute(_FUNCTIONS)
        yield _OnServer(connection)


@contextmanager
def forging(path: Path | str) -> Iterator[Any]:
    """A plain connection to the store, which refuses nothing; it is committed and closed at the end.

    The triggers of a table that is gone then are gone with it.

    Args:
        path: its file, or its address.
    """
    if isinstance(path, str) and "://" in path:
        with _on_server(path) as connection:
            yield connection
        return
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")  # some 50 triggers go and come: no disk is waited for
        query = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'"
        triggers = connection.execute(query).fetchall()
        connection.execute("BEGIN")
        for name, _, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.commit()
        yield connection
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not connection.in_transaction:
            connection.execute("BEGIN")
        for _, table, statement in triggers:
            if table in tables:
                connection.execute(statement)
        connection.commit()
