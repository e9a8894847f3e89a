"""Moves a whole store: from a file to a server, or back. Its log stays the same one, event by event.

The triggers of what is written, which would refuse rows that are old, are out of the way within one transaction, and
back at its end. The log of the store that was left ends by saying so, and nothing begins there any more.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from humanlayer_agent.audit import events
from humanlayer_agent.audit.anchor import Loss, anchor_of
from humanlayer_agent.audit.verify import Verification
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.locations import is_address
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.access import file_of, open_store
from humanlayer_agent.store.connection import Database
from humanlayer_agent.store.log_position import LogLost
from humanlayer_agent.store.postgres import structure
from humanlayer_agent.store.postgres.postgres_store import make_tables
from humanlayer_agent.store.postgres.server import Address, Server, connected
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.store.transactions import Connection

_GONE = frozenset({"lease", "silence", "purging"})
"""Tables that say what goes on at a moment: nothing does while a store is moved."""
_TABLES = tuple(table for table in structure.TABLES if table not in _GONE)
_ORDER = {"audit_event": "seq"} | dict.fromkeys(("request", "vote", "presentation", "given_grant"), "rowid")
"""The column that says in which order rows came, where that matters."""
_COMPUTED = {"audit_event": frozenset({"prev", "type", "run", "request", "chain", "link"})}
"""Columns that a file computes by itself."""
_PART = 500
_AT_ONCE = 50  # rows in one statement


@dataclass(frozen=True, slots=True)
class Moved:
    """A store that was moved: where it was and is, how many rows there are of each table, and its log, verified."""

    source: str
    target: str
    rows: dict[str, int]
    verified: Verification


def move(source: SQLStore, target: str) -> Moved:
    """Move everything to a new file, or to an empty database of a server, as the role that is to own it.

    Args:
        source: opened to write: its log says where it went, and whoever would go on with it is told.
        target: the location.

    Raises:
        ConfigError: something is at the target already, or agents or hubs still use the source.
        StoreError: the source is not as its log says, one of both can't be used, or what was moved does not verify.
            Then the source is as it was, and nothing is left at the target.
    """
    figures = source.figures()
    if figures.runs or figures.leases:
        served = ", ".join(figures.leases) or "none"
        raise ConfigError(
            f"the store {source.location} is in use ({figures.runs} runs go on, channels that are served: {served}): "
            "end agents and hubs first"
        )
    before = source.verify()
    if not before.intact:
        raise StoreError(f"nothing is moved from a store that is not as its log says: {before.problem}")
    place = Address(target).place if is_address(target) else str(file_of(target))
    if (anchor := anchor_of(place)) is not None and anchor.head.store != before.store:
        raise LogLost(Loss(anchor, None))  # a store that was there is gone: that has to be accepted first
    with source.transaction() as ledger:  # nobody writes there meanwhile
        ledger.append(events.STORE_LEFT, target=place, by=os_user())
        redactor = ledger.redactor()

        def arrive(writing: Connection) -> None:
            Ledger(writing, ledger.now, redactor).append(events.STORE_MOVED, source=source.location)

        written = _to_server(Address(target), arrive) if is_address(target) else _to_file(file_of(target), arrive)
        with written as (writing, computed):
            rows = {table: _copy(table, ledger, writing, computed) for table in _TABLES}
        try:
            with closing(open_store(target, create=False)) as moved:
                found = moved.verify()
            if not found.intact or found.count != rows["audit_event"] + 1 or found.count < before.count:
                raise StoreError(f"what was moved is not as its log says: {found.problem}")
        except BaseException:
            _drop(target)
            raise
    return Moved(source.location, place, rows, found)


def _copy(table: str, ledger: Ledger, writing: Connection, computed: bool) -> int:
    count, found = 0, _rows(table, ledger)
    left_out = {"rowid", "came", *(_COMPUTED.get(table, ()) if computed else ())}
    while rows := list(islice(found, _AT_ONCE)):
        names = [name for name in dict(rows[0]) if name not in left_out]
        places = ", ".join([f"({', '.join('?' * len(names))})"] * len(rows))
        values = [bool(row[name]) if name == "kept" else row[name] for row in rows for name in names]
        writing.execute(f"INSERT INTO {table} ({', '.join(map(_quoted, names))}) VALUES {places}", values)
        count += len(rows)
    return count


def _rows(table: str, ledger: Ledger) -> Iterator[Any]:
    """All rows, in the order in which they came, a part at a time where there may be many."""
    if (order := _ORDER.get(table)) is None:
        yield from ledger.rows(f"SELECT * FROM {table}")
        return
    after = -(2**62)
    query = f"SELECT {order} AS came, {table}.* FROM {table} WHERE {order} > ? ORDER BY {order} LIMIT {_PART}"
    while part := ledger.rows(query, after):
        yield from part
        after = part[-1]["came"]


def _quoted(name: str) -> str:
    return f'"{name}"'


@contextmanager
def _to_file(path: Path, arrive: Callable[[Connection], None]) -> Iterator[tuple[Connection, bool]]:
    """A transaction that writes a new file; where anything is raised inside, it is gone again."""
    if path.exists():
        raise ConfigError(f"there is something at {path} already: name a file that is not there")
    try:
        with closing(Database(path)) as database, database.write() as connection:
            query = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid"
            triggers = connection.execute(query).fetchall()
            for trigger in triggers:
                connection.execute(f"DROP TRIGGER {trigger['name']}")
            yield connection, True
            for trigger in triggers:
                connection.execute(trigger["sql"])
            arrive(connection)
    except BaseException:
        _drop(str(path))
        raise


@contextmanager
def _to_server(address: Address, arrive: Callable[[Connection], None]) -> Iterator[tuple[Connection, bool]]:
    """A transaction that fills an empty database; where anything is raised inside, it is empty again."""
    made = make_tables(address)
    if made.before:
        raise ConfigError(f"there is a store in {address.place} already: name a database that is empty")
    try:
        with closing(Server(address)) as server, server.write() as session:
            for table in _TABLES:
                session.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            yield session, False
            for table in _TABLES:
                session.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            session.execute("SELECT setval('audit_event_place', (SELECT max(seq) FROM audit_event))")
            arrive(session)
    except BaseException:
        _drop(address)
        raise


def _drop(target: str | Address) -> None:
    """Remove what was begun at a target that was empty."""
    if isinstance(target, str) and not is_address(target):
        for each in ("", "-wal", "-shm"):
            Path(f"{file_of(target)}{each}").unlink(missing_ok=True)
        return
    with suppress(StoreError), connected(target if isinstance(target, Address) else Address(target)) as session:
        session.execute("DROP SCHEMA humanlayer CASCADE")
