"""Opens the store that a location names: a file, or a database of a PostgreSQL server."""

from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks
from humanlayer_agent.locations import is_address, store_location
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore, refuse_deleted

if TYPE_CHECKING:
    from types import ModuleType

    from humanlayer_agent.store.postgres.migration import Moved
    from humanlayer_agent.store.postgres.postgres_store import Made


def open_store(
    location: Path | str | None = None, *, create: bool = True, busy_ms: int = 5_000, anchored: bool = True
) -> SQLStore:
    """The store at `location`: a path, `sqlite:///absolute/path` or `postgresql://host/database`.

    Args:
        location: None is the user's own (`locations.store_location`).
        create: False opens a store that is there, to read it. True makes a file that is not there; a database gets its
            tables from `hla store init` alone.
        busy_ms: how long to wait for another process's write.
        anchored: False opens it also where events are missing that its anchor names, or where another store was.

    Raises:
        ConfigError: the URL is of a kind there is no store for, or psycopg is not installed.
        StoreError: it can't be used.
        LogLost: its log was set back, or the store that was there is gone.
    """
    named = _named(location)
    if not is_address(named):
        return SQLiteStore(file_of(named), create=create, busy_ms=busy_ms, anchored=anchored)
    opened: SQLStore = _of_servers().PostgresStore(named, create=create, busy_ms=busy_ms, anchored=anchored)
    return opened


def make_store(location: str | None) -> "Made":
    """Make the store of a server, or bring it to this version, with its roles. A file makes itself.

    Raises:
        ConfigError: the location is no server's, psycopg is not installed, or the role may not make others.
        StoreError: it can't be reached or made.
    """
    if not is_address(named := _named(location)):
        raise ConfigError(f"{file_of(named)} is a file: it is made when it is first used. Name a postgresql:// store")
    made: Made = _of_servers().make_store(named)
    return made


def move_store(source: SQLStore, target: str) -> "Moved":
    """Move a whole store to another kind of place: see `store.postgres.migration`.

    Raises:
        ConfigError: something is at the target already, the source is in use, or psycopg is not installed.
        StoreError: one of both can't be used, or does not verify.
    """
    _of_servers()
    from humanlayer_agent.store.postgres.migration import move

    return move(source, target)


def file_of(location: Path | str | None) -> Path:
    """Return the file that a location names.

    Raises:
        ConfigError: it names none.
    """
    named = _named(location)
    scheme, separator, rest = named.partition("://")
    if not separator:
        return Path(named)
    if scheme != "sqlite" or not rest.startswith("/"):
        said = (
            f"a store of the kind {scheme}://" if scheme != "sqlite" else f"store {named!r}"
        )  # it may hold a password
        raise ConfigError(f"{said}: expected a path, sqlite:///absolute/path or postgresql://host/database")
    return Path("/" + rest.lstrip("/"))


def is_there(location: str | None) -> bool:
    """Tell whether there is a file at a location. Of a server that shows when it is opened."""
    named = _named(location)
    return is_address(named) or file_of(named).is_file()


def name_of(location: str | None) -> str:
    """Return what to call the store at a location: its path, or its address without who asks and their password."""
    if not is_address(named := _named(location)):
        return str(file_of(named))
    place: str = _of_servers().Address(named).place
    return place


def refuse_lost(location: str | None) -> None:
    """Raise LogLost where a store was at `location`, and nothing is there now. Of a server that shows when it is
    opened.
    """
    if not is_address(named := _named(location)):
        refuse_deleted(file_of(named))


def _of_servers() -> "ModuleType":
    try:
        from humanlayer_agent.store.postgres import postgres_store
    except ImportError as error:
        raise ConfigError(lacks("A store on a PostgreSQL server", "postgres", error)) from error
    return postgres_store


def _named(location: Path | str | None) -> str:
    return store_location() if location is None or not str(location) else str(location)
