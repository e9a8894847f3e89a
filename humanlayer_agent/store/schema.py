"""The schema of a store: the scripts that make it, and whether it is still what they made.

A trigger, an index or a view that somebody has put there acts within our own statements: one trigger is enough to
delete a stop while it is written. So the schema is part of what has to be proved before anything is decided.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from humanlayer_agent.errors import StoreError, StoreTampered

APPLICATION_ID = 0x484C4131
"""Marks the file as ours in its header ("HLA1")."""

_DIGESTS = {15: "041d1f6dd1b38cbc47f8fb3c036f3b461d8e65ae2c4b1ebe61af516033c2aaba"}
"""Of the newest schema: running the scripts to find out what it is takes longer than most commands have."""

_STATISTICS = {
    ("table", "sqlite_stat1", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
    ("table", "sqlite_stat4", "sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
}
"""What ANALYZE makes: it changes how quickly something is found, and not what."""

_Object = tuple[str, str, str, str | None]
"""Type, name, table and statement of what stands in a schema."""


def check(connection: sqlite3.Connection, path: Path) -> int:
    """Make sure that nothing but our own scripts has made the schema; returns its version.

    It has to be called in a transaction, before anything else is prepared in it: then what SQLite makes of the schema
    is what was checked.

    Raises:
        StoreError: a newer version has written it, or it is of another program.
        StoreTampered: something is not as we made it. It says what.
    """
    version = version_of(connection, path)
    found = _objects(connection)
    if _digest(found) != _DIGESTS.get(version) and (difference := _difference(found, _made(version))):
        raise StoreTampered(
            f"the schema of the store {path} was changed: {difference}. Nothing is decided by it. Keep a copy of the "
            "file, find out who could write it, and undo that, or restore the store from a backup"
        )
    return version


def version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the schema, as the file says; 0 for an empty file.

    Raises:
        StoreError: a newer version has written it, or it is of another program.
    """
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark != APPLICATION_ID and (mark or version or tables):
        raise StoreError(f"{path} is a database of another program, not a humanlayer-agent store")
    if version > newest():
        raise StoreError(
            f"the store {path} was written by a newer humanlayer-agent (schema {version}, this one knows {newest()}): "
            "upgrade humanlayer-agent, or name another store"
        )
    return int(version)


def newest() -> int:
    """The version of the schema that this version of ours writes."""
    return len(migrations())


def upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Lead a schema of `version` to the newest, in the transaction that is open."""
    _run(connection, migrations()[version:])
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={newest()}")


@cache
def migrations() -> list[str]:
    """The scripts that lead from an empty file to the newest schema, in order."""
    scripts = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [script.read_text(encoding="utf-8") for script in scripts]


def _run(connection: sqlite3.Connection, scripts: Sequence[str]) -> None:
    for script in scripts:
        for statement in _statements(script):
            connection.execute(statement)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. (`executescript` would commit before it starts.)"""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _objects(connection: sqlite3.Connection) -> list[_Object]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    return [found for row in rows if (found := tuple(row)) not in _STATISTICS]


def _digest(objects: Sequence[_Object]) -> str:
    return hashlib.sha256(json.dumps(objects).encode()).hexdigest()


@cache
def _made(version: int) -> frozenset[_Object]:
    """What our scripts make of an empty file, up to a version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        _run(empty, migrations()[:version])
        return frozenset(_objects(empty))


def _difference(found: Sequence[_Object], made: frozenset[_Object]) -> str:
    """What is not as we made it, in a few words; "" where all is."""
    names = {(kind, name) for kind, name, *_ in made}
    for each in found:
        kind, name, *_ = each
        if each not in made:
            return f"{kind} {name} is not {'as we made it' if (kind, name) in names else 'ours'}"
    missing = sorted(each[:2] for each in made - frozenset(found))
    if missing:
        return f"{missing[0][0]} {missing[0][1]} is missing"
    return "something stands in it twice" if len(found) != len(made) else ""
