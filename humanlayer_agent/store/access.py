"""Opens the store that a location names: a file, or a database of a PostgreSQL server."""

from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import store_location
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore, refuse_deleted

if TYPE_CHECKING:
    pass

_SERVER = ("postgresql", "postgres")


def open_store(
    location: Path | str | None = None, *, create: bool = True, busy_ms: int = 5_000, anchored: bool = True
) -> SQLStore:
    """The store at `location`: a path, `sqlite:///absolute/path` or `postgresql://host/database`.

    Args:
        location: None is the user's own (`locations.store_location`).
        create: False opens a store that is there, to read it. True makes a file that is not there; a database is only
            made by `hla store init`.
        busy_ms: how long to wait for another process's write.
        anchored: False opens it also where events are missing that its anchor names, or where another store was.

    Raises:
        ConfigError: the URL is of a kind there is no store for.
        StoreError: it can't be used.
        LogLost: its log was set back, or the store that was there is gone.
    """
    return SQLiteStore(file_of(location), create=create, busy_ms=busy_ms, anchored=anchored)


def file_of(location: Path | str | None) -> Path:
    """Return the file that a location names.

    Raises:
        ConfigError: the URL is of a kind there is no store for.
    """
    named = store_location() if location is None else str(location)
    scheme, separator, rest = named.partition("://")
    if not separator:
        return Path(named)
    if scheme != "sqlite" or not rest.startswith("/"):
        raise ConfigError(f"store {named!r}: expected a path or sqlite:///absolute/path")
    return Path("/" + rest.lstrip("/"))


def is_there(location: str | None) -> bool:
    """Tell whether there is a file at a location."""
    return file_of(location).is_file()


def name_of(location: str | None) -> str:
    """Return what to call the store at a location: its path."""
    return str(file_of(location))


def refuse_lost(location: str | None) -> None:
    """Raise LogLost where a store was at `location`, and nothing is there now."""
    refuse_deleted(file_of(location))
