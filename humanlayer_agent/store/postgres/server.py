"""One database of a PostgreSQL server: reached safely, written in whole transactions, never shared across a fork.

Everything that can go wrong becomes a `StoreError`, and what was begun is rolled back. Every call has a deadline, here
and on the server: a network that swallows what is sent keeps nobody waiting for ever.
"""

import os
import re
import select
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from typing import Any, Literal

import psycopg
from psycopg import conninfo
from psycopg.types.string import StrDumper
from psycopg.waiting import Ready

from humanlayer_agent.errors import ConfigError, StoreError, StoreUnreachable
from humanlayer_agent.store.log_position import LogPosition
from humanlayer_agent.store.postgres import structure

DEADLINE_S = 15.0
"""Seconds after which a call that has brought nothing is given up, and its connection with it."""

CONNECT_S = 5
"""Seconds for making a connection, with each host of the address."""

PATH = "pg_catalog, humanlayer, pg_temp"
"""Where names are looked up: what somebody puts beside our tables stands in the way of no catalog."""

REREAD_S = 5.0
"""Seconds after which a request is read again, whatever was heard of it."""

_MANY = 10_000
_SERVES_SINCE = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000)::bigint"
_READS = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT humanlayer.now_ms()"
_WRITES = "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT humanlayer.begin_write()"
_STREAM = "NOT INDEXED"
"""Stands in statements that read a whole log: such a one is fetched in parts."""
_PART = 2_000
_WAITS = {Ready.R: select.POLLIN, Ready.W: select.POLLOUT}
_OURS = {"options", "application_name", "connect_timeout", "client_encoding", "tcp_user_timeout"}
"""Parameters of a connection that are ours to set."""


class Row:
    """One row, by the names of its columns or by number."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: dict[str, int], values: Sequence[Any]) -> None:
        self._names = names
        self._values = values

    def __getitem__(self, key: Any) -> Any:
        return self._values[self._names[key] if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> list[str]:
        return list(self._names)


class Address:
    """Where a database is.

    Args:
        url: `postgresql://user@host:port/database`, with a password or without.

    Raises:
        ConfigError: it is no address of one.
    """

    def __init__(self, url: str) -> None:
        try:
            self._said = {name: value for name, value in conninfo.conninfo_to_dict(url).items() if value is not None}
        except psycopg.ProgrammingError:  # its message repeats the address, password and all
            raise ConfigError("the store's address can't be read: expected postgresql://host/database") from None
        if not self._said.get("dbname"):
            raise ConfigError("the store's address names no database: expected postgresql://host/database")
        if odd := sorted(_OURS & self._said.keys()):
            raise ConfigError(f"the store's address can't set {', '.join(odd)}")
        self.place = self._place()

    def parameters(self) -> dict[str, Any]:
        """Return everything that a connection is made with."""
        milliseconds = int(DEADLINE_S * 1000)
        ours = {"connect_timeout": CONNECT_S, "tcp_user_timeout": milliseconds, "client_encoding": "UTF8"}
        return {**self._said, **ours, "application_name": "humanlayer-agent"}

    def without_password(self, text: str) -> str:
        """Return `text` without the password, should it stand there."""
        password = str(self._said.get("password") or "")
        return text.replace(password, "***") if password else text

    def _place(self) -> str:
        """The address without who asks and their password: it names the same store for everybody."""
        host, port = str(self._said.get("host") or ""), str(self._said.get("port") or "")
        named = f"/{self._said['dbname']}"
        if not host or host.startswith("/"):  # a socket of this machine
            query = "&".join(f"{name}={value}" for name, value in (("host", host), ("port", port)) if value)
            return f"postgresql://{named}{'?' if query else ''}{query}"
        return f"postgresql://{host}{':' if port else ''}{port}{named}"


class _Link(psycopg.Connection[Row]):
    """A connection that gives up a call which brings nothing for `DEADLINE_S` seconds."""

    def wait(self, gen: Any, *ignored: Any, **also_ignored: Any) -> Any:
        """Go on with what `gen` does with the connection, as it can be read and written."""
        deadline = time.monotonic() + DEADLINE_S
        poll, file = select.poll(), self.pgconn.socket
        try:
            wanted = next(gen)
            while True:
                poll.register(file, sum(flag for bit, flag in _WAITS.items() if wanted & bit))
                found = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
                if not found:
                    raise psycopg.OperationalError(f"no answer within {DEADLINE_S:g} s")
                event = found[0][1]
                readable = Ready.R if event & ~select.POLLOUT else Ready.NONE  # an error shows where it is read
                wanted = gen.send(readable | (Ready.W if event & select.POLLOUT else Ready.NONE))
        except StopIteration as done:
            return done.value


class Session:
    """A transaction of a connection, as the store's statements want it."""

    def __init__(self, link: _Link, address: Address) -> None:
        self._link = link
        self._address = address
        self.now = 0
        self.serves_since = 0

    def clock(self) -> tuple[str, int]:
        """Return the database's clock: its name, and the time when this transaction began to read or write.

        Its name says since when the server serves: nobody could give a sign of life while it did not, so that older
        signs are as old as another clock's.
        """
        return f"the database since {self.serves_since}", self.now

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Any:
        text = translated(statement)
        with reported(self._address):
            if _STREAM in statement:
                cursor = self._link.cursor(name="log")
                cursor.itersize = _PART
                return _Stream(cursor.execute(text, [*values]), self._address)
            if "%(p1)s" in text:
                return self._link.execute(text, {f"p{number}": value for number, value in enumerate(values, 1)})
            return self._link.execute(text, [*values]) if values else self._link.execute(text)

    def is_private(self) -> bool:
        """Tell whether nobody on the way can hear or change what is said: it is encrypted, or stays on this machine."""
        local = str(self._link.info.host or "").startswith("/") or self._link.info.hostaddr in ("127.0.0.1", "::1")
        return local or bool(self._link.pgconn.ssl_in_use)

    def run(self, script: str) -> None:
        """Run statements as they stand."""
        with reported(self._address):
            self._link.execute(script)


class _Stream:
    """Rows that are fetched in parts."""

    def __init__(self, cursor: Any, address: Address) -> None:
        self._cursor = cursor
        self._address = address

    def __iter__(self) -> Iterator[Any]:
        with reported(self._address), self._cursor:
            yield from self._cursor


class Server:
    """A connection to one database, for all threads of one process.

    Args:
        address: where it is.
        writes: False only reads.
        wait_ms: how long to wait for another process's write before giving up.

    Raises:
        StoreError: it can't be reached, holds no store, or one of another version.
        StoreTampered: its tables, triggers or functions are not as we made them.
    """

    def __init__(self, address: Address, *, writes: bool = True, wait_ms: int = 5_000) -> None:
        self._address = address
        self._writes = writes
        self._wait_ms = min(wait_ms, int(DEADLINE_S * 1000) - 2_000)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._session: Session | None = None
        self._link: _Link | None = None
        self._told = (0, 0)  # the database's time, and ours of the monotonic clock then
        self.position = LogPosition(address.place)
        with self._lock:
            self._connect()

    kind: Literal["postgresql"] = "postgresql"

    def version_and_size(self) -> tuple[int, int]:
        """Return the version of its schema, and the bytes that the database takes."""
        with self.read() as session:
            (size,) = session.execute("SELECT pg_database_size(current_database())").fetchone()
            return structure.version_of(session), size

    @property
    def place(self) -> str:
        """The address, without who asks and their password."""
        return self._address.place

    @property
    def is_open(self) -> bool:
        """Tell whether this process has a connection."""
        return self._link is not None and not self._link.closed and os.getpid() == self._pid

    def now(self) -> int:
        """Return the database's time in ms, as it was told last, and what has passed since."""
        told, then = self._told
        return told + _monotonic() - then

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A transaction that changes nothing: it sees one moment of the store, whatever others write."""
        self._check_process()
        with self._lock:
            session = self._connect()
            if self._in_transaction():  # of this thread
                yield session
                return
            self.position.look()
            self._begin(_READS)
            try:
                self.position.check(session)
                yield session
            finally:
                self._roll_back()

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction: durable when this returns, undone when anything is raised inside. One goes on at a time."""
        self._check_process()
        with self._lock:
            session = self._connect()
            self.position.look()
            try:
                self._begin(_WRITES)
                self.position.check(session)
                yield session
                newest = self.position.newest(session)
                session.execute("COMMIT")
                self.position.seen = newest
            except BaseException:
                self._roll_back()
                raise

    def settled(self) -> int:
        """Return the newest event before which no other can come any more: who was writing then has ended."""
        self._check_process()
        with self._lock:
            (newest,) = self._connect().execute("SELECT settled()").fetchone()
            return int(newest)

    @contextmanager
    def purge(self) -> Iterator[Session]:
        """The same, for one that deletes."""
        with self.write() as session:
            session.execute("SET CONSTRAINTS ALL DEFERRED")
            session.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # another store is verified meanwhile
            yield session

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the other threads of this process from the connection meanwhile."""
        self._check_process()
        with self._lock:
            yield

    def rewrite(self) -> bool:
        """Write the tables anew without what was deleted.

        Returns:
            False: others are reading them, or the role may not.
        """
        self._check_process()
        with self._lock:
            session = self._connect()
            try:
                for table in structure.TABLES:
                    session.execute(f"VACUUM FULL {table}")
            except StoreError:
                return False
            return True

    def close(self) -> None:
        """Close the connection; what was committed stays. Closing twice is fine; it opens again when it is used."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._drop()

    def again(self) -> "Server":
        """Another connection to the same, only to read."""
        return Server(self._address, writes=False)

    def call(self, statement: str, values: Sequence[Any]) -> Row | None:
        """Call a function that is a transaction by itself: one round trip. It returns one row, or none."""
        self._check_process()
        with self._lock:
            session = self._connect()
            try:
                found: Row | None = session.execute(statement, values).fetchone()
            except BaseException:
                self._roll_back()
                raise
            return found

    def _begin(self, statement: str) -> None:
        assert self._link is not None
        assert self._session is not None
        with reported(self._address):
            cursor = self._link.execute(statement)
            cursor.nextset()
            row = cursor.fetchone()
        assert row is not None
        self.tell_time(row[0])

    def tell_time(self, now: int) -> None:
        """Take over what time it is by the database's clock."""
        assert self._session is not None
        self._session.now, self._told = now, (now, _monotonic())

    def _in_transaction(self) -> bool:
        return self._link is not None and self._link.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def _roll_back(self) -> None:
        """End a transaction. A connection on which that is not possible is not to be trusted with the next one."""
        link = self._link
        if link is None:
            return
        with suppress(psycopg.Error):
            if not link.closed and link.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                if link.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                    raise psycopg.OperationalError("it has not answered")
                link.execute("ROLLBACK")
            if not link.closed:
                return
        self._drop()

    def _drop(self) -> None:
        link, self._link, self._session = self._link, None, None
        if link is not None:
            with suppress(psycopg.Error):
                link.close()

    def _check_process(self) -> None:
        """Refuse to go on in the child of a fork: both would speak on one connection."""
        if os.getpid() != self._pid:
            raise StoreError(f"the store {self.place} was opened before a fork: open it anew in the child process")

    def _connect(self) -> Session:
        if self._link is not None and (self._link.closed or self._is_dead(self._link)):
            self._drop()
        if self._session is None:
            with reported(self._address):
                link = _Link.connect(**self._address.parameters(), autocommit=True, row_factory=_rows)
            session = Session(link, self._address)
            try:
                session.execute(self._settings())
                (session.serves_since,) = session.execute(_SERVES_SINCE).fetchone()
                structure.check(session, self.place)
                link.adapters.register_dumper(str, StrDumper)
            except BaseException:
                link.close()
                raise
            self._link, self._session = link, session
        return self._session

    def _is_dead(self, link: _Link) -> bool:
        """Tell whether the server has closed the connection since it was used: nobody knows what becomes of what is
        sent on such a one.
        """
        if self._in_transaction():
            return False
        poll = select.poll()
        poll.register(link.pgconn.socket, select.POLLIN)
        try:
            while poll.poll(0):  # a notice, a farewell and then the end
                link.pgconn.consume_input()
        except psycopg.Error:
            return True
        return link.pgconn.status != psycopg.pq.ConnStatus.OK

    def _settings(self) -> str:
        """What holds for a session. Whatever a server or a role has as its default, a commit is on the disk."""
        limit = int(DEADLINE_S * 1000) - 1_000
        said = {
            "search_path": PATH,
            "default_transaction_isolation": "read committed",
            "synchronous_commit": "on",
            "standard_conforming_strings": "on",
            "lock_timeout": str(self._wait_ms),
            "statement_timeout": str(limit),
            "idle_in_transaction_session_timeout": str(2 * limit),
            "default_transaction_read_only": "off" if self._writes else "on",
        }
        return "; ".join(f"SET {name} = {value if ',' in value else repr(value)}" for name, value in said.items())


class Listener:
    """Hears which requests something has become of, on a connection of its own.

    It is a hint and nothing else: what was not heard is read anew every few seconds, and whoever is told reads what
    stands there.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._link: _Link | None = None
        self._pid = os.getpid()
        self._heard: set[str] = set()
        self._read: dict[str, float] = {}  # when it was said last that there may be news of a request

    def is_news(self, request_id: str) -> bool:
        """Tell whether a request may be another than when this was asked last. The first time, it may."""
        with self._lock:
            now = time.monotonic()
            due = now - self._read.get(request_id, -REREAD_S) >= REREAD_S
            if self._link is None and not due:
                return False
            news = not self._hear() or due or request_id in self._heard
            if news:
                self._heard.discard(request_id)
                self._read = {name: at for name, at in self._read.items() if now - at < 2 * REREAD_S}
                self._read[request_id] = now
            return news

    def wait(self, seconds: float) -> None:
        """Wait for so long, or until something is heard. Nothing is heard before it was asked for news."""
        poll = select.poll()
        try:
            with self._lock:
                link = self._link if os.getpid() == self._pid else None
                if link is not None:
                    poll.register(link.pgconn.socket, select.POLLIN)
        except psycopg.Error:
            link = None
        if link is None:
            time.sleep(seconds)
        elif poll.poll(seconds * 1000):
            with self._lock:
                if self._link is link:
                    self._hear()  # or the next one would not have to wait

    def close(self) -> None:
        """Stop hearing. It begins anew when it is asked."""
        with self._lock:
            self._drop()

    def _hear(self) -> bool:
        """Take in what was told; False where nothing can be heard."""
        try:
            if self._link is None or self._link.closed or os.getpid() != self._pid:
                self._link, self._pid = _Link.connect(**self._address.parameters(), autocommit=True), os.getpid()
                self._link.execute("LISTEN humanlayer")
            self._link.pgconn.consume_input()
            while (told := self._link.pgconn.notifies()) is not None:
                self._heard.add(told.extra.decode())
        except psycopg.Error:
            self._drop()
            return False
        if len(self._heard) > _MANY:  # others' requests
            self._heard.clear()
            self._read.clear()
        return True

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None and os.getpid() == self._pid:
            with suppress(psycopg.Error):
                link.close()


@contextmanager
def connected(address: Address) -> Iterator[Session]:
    """A connection for what is no business of a store that is there already; it is closed in the end.

    Raises:
        StoreError: it can't be made.
    """
    with reported(address):
        link = _Link.connect(**address.parameters(), autocommit=True, row_factory=_rows)
        with closing(link):
            link.execute(f"SET search_path = {PATH}")
            yield Session(link, address)


@contextmanager
def reported(address: Address) -> Iterator[None]:
    """Make every error of the database's a `StoreError`."""
    try:
        yield
    except psycopg.Error as error:
        said = " ".join(str(error).split()) or type(error).__name__
        kind = StoreUnreachable if isinstance(error, psycopg.OperationalError) else StoreError
        raise kind(f"the store {address.place}: {address.without_password(said)}") from error
    except (ValueError, OverflowError) as error:  # text that is not Unicode, an integer too large
        raise StoreError(f"the store {address.place} can't hold this: {error}") from error


@cache
def translated(statement: str) -> str:
    """Return a statement of ours as PostgreSQL has it."""
    text = statement.replace("%", "%%") if "?" in statement else statement
    text = text.replace("coalesce(max(seq) + 1, 0) FROM audit_event", "next_place()")
    text = text.replace("CROSS JOIN", "JOIN").replace(f" {_STREAM}", "")
    text = re.sub(r"\+(?=[a-z])", "", text)  # keeps SQLite from an index
    text = re.sub(r"json_extract\(((?:\w+\.)?body), '\$\.(at|time)'\)", r"json_extract(\1, '$.\2')::bigint", text)
    if not re.search(r"\?\d", text):
        return text.replace("?", "%s")
    return re.sub(r"\?(\d)", r"%(p\1)s", text)


def _rows(cursor: Any) -> Any:
    names = {column.name: number for number, column in enumerate(cursor.description or ())}
    return lambda values: Row(names, values)


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000_000
