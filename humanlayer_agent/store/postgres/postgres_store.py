"""The store on a PostgreSQL server: for agents on many machines."""

from collections.abc import Callable
from dataclasses import dataclass

from humanlayer_agent.store.postgres import roles, structure
from humanlayer_agent.store.postgres.server import Address, Server, connected
from humanlayer_agent.store.sqlite import SQLStore


class PostgresStore(SQLStore):
    """A `Store` in a database, for all threads of one process, beside any number of others on any machine.

    Its time is the database's, never a host's.

    Args:
        url: `postgresql://user@host:port/database`.
        clock: the time in ms; for tests. None is the database's.
        create: False opens it to read.
        busy_ms: how long to wait for another process's write.
        anchored: False opens it also where events are missing that its anchor names, or where another store was.

    Raises:
        ConfigError: it is no address.
        StoreError: it can't be reached, or holds no store.
        LogLost: its log was set back, or the store that was there is gone.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], int] | None = None,
        create: bool = True,
        busy_ms: int = 5_000,
        anchored: bool = True,
    ) -> None:
        self.url = url
        self._server = Server(Address(url), writes=create, wait_ms=busy_ms)
        super().__init__(self._server, clock or self._server.now, writes=create, anchored=anchored)

    def to_write(self) -> "PostgresStore":
        return PostgresStore(self.url)


@dataclass(frozen=True, slots=True)
class Made:
    """The store that was made: which version there was before (0: none), which there is now, and its roles."""

    place: str
    before: int
    now: int
    roles: tuple[str, ...]


def make_store(url: str) -> Made:
    """Make the store in an empty database, or bring an older one to the newest version, with the rights of its roles.

    The role of the address owns everything then. Agents should use another one.

    Raises:
        ConfigError: it is no address, or the role may not make others.
        StoreError: it can't be reached or made.
    """
    address = Address(url)
    with connected(address) as session:
        session.execute("BEGIN")
        session.execute("SELECT pg_advisory_xact_lock(1212956977, 0)")
        before = structure.version_of(session)
        for script in structure.scripts()[before:]:
            session.run(script)
        session.execute("SET LOCAL search_path = humanlayer, pg_catalog, pg_temp")
        structure.check(session, address.place)
        roles.grant(session)
        session.execute("COMMIT")
    PostgresStore(url).close()  # which opens its log
    return Made(address.place, before, structure.newest(), tuple(roles.NAMES.values()))
