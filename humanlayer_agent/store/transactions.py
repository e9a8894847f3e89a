"""The part of a database that the store's statements need, whichever it is: SQLite, or PostgreSQL.

The statements are written in what both understand, with `?` for what is bound. What one of them says otherwise is
translated by its own connection, and nowhere else.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from humanlayer_agent.store.log_position import LogPosition


class Row(Protocol):
    """One row: its columns by name, or by number."""

    def __getitem__(self, key: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> Iterable[str]: ...


class Cursor(Protocol):
    """What a statement has found, or changed."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A transaction that goes on."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor: ...


class Transactions(Protocol):
    """A database, for all threads of one process, in whole transactions.

    Everything that can go wrong with it becomes a `StoreError`, and what was begun is rolled back.
    """

    @property
    def kind(self) -> Literal["sqlite", "postgresql"]:
        """What it is."""
        ...

    def version_and_size(self) -> tuple[int, int]:
        """Return the version of its schema, and the bytes that it takes on the disk."""
        ...

    @property
    def place(self) -> str:
        """What people call it: a path, or an address without its password."""
        ...

    @property
    def position(self) -> "LogPosition":
        """How far this process has seen the log."""
        ...

    @property
    def is_open(self) -> bool:
        """Tell whether this process has a connection."""
        ...

    def read(self) -> AbstractContextManager[Connection]:
        """A connection for statements that change nothing: it sees one moment of the store, whatever others write."""
        ...

    def write(self) -> AbstractContextManager[Connection]:
        """One transaction: durable when this returns, undone when anything is raised inside. One goes on at a time."""
        ...

    def settled(self) -> int:
        """Return the newest event (-1: there is none) before which no other can come any more, however many write.

        Raises:
            StoreError: somebody does not end what they write.
        """
        ...

    def purge(self) -> AbstractContextManager[Connection]:
        """The same, for one that deletes: what it deletes is gone from where it was, once `rewrite` was called."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Keep the other threads of this process from the connection meanwhile."""
        ...

    def rewrite(self) -> bool:
        """Write everything anew without what was deleted; False where somebody is in the way."""
        ...

    def close(self) -> None:
        """Close the connection; what was committed stays. Closing twice is fine; it opens again when it is used."""
        ...

    def again(self) -> "Transactions":
        """Another connection to the same, only to read."""
        ...
