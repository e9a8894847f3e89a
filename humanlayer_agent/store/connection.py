"""One SQLite file: opened safely, written in whole transactions, never shared across a fork.

Everything that can go wrong with the file becomes a `StoreError`, and what was begun is rolled back.
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from humanlayer_agent.errors import StoreError, StoreTampered
from humanlayer_agent.store import schema
from humanlayer_agent.store.log_position import LogPosition, WalTail

_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs", "beegfs", "gpfs"),
        *("gfs2", "ocfs2"),  # disks of several machines
        *("9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "fakeowner"),  # folders shared with a virtual machine
        "fuse",
    }
)
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs"})
"""Programs behind FUSE that only lay folders of this machine over each other: the root of a rootless container. Any
other may reach another machine. A disk of this one that FUSE mounts (NTFS) is of the type `fuseblk`: it is local."""
_LOG_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""How a write-ahead log begins (https://www.sqlite.org/fileformat2.html#the_write_ahead_log)."""
_NEEDED = (3, 37)  # STRICT tables
_LOOK_AGAIN_MS = 100


class Database:
    """A connection to one file, for all threads of one process.

    Args:
        path: the file. It is created with mode 0600, and its directory with 0700.
        create: False opens only a store that is there, to read.
        busy_ms: how long to wait for another process's write before giving up.

    Raises:
        StoreError: the file can't be used, or was written by a newer version.
    """

    def __init__(self, path: Path, *, create: bool = True, busy_ms: int = 5_000) -> None:
        if sqlite3.sqlite_version_info < _NEEDED:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old: 3.37 or newer is needed")
        self.path = path
        self._wal, self._index = f"{path}-wal", f"{path}-shm"
        self._writable = create
        self._busy_ms = busy_ms
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._log: tuple[int, ...] | None = None  # device and inode of this connection's write-ahead log and its index
        self._tail: WalTail | None = None
        self._torn = False  # somebody has overwritten it
        self._size = 0
        self._changed: int | None = None  # when the file was, as far as this connection has read it
        self._checked: tuple[int, int] | None = None  # SQLite's number of the schema that is ours, and its version
        self._roots: tuple[int, float] | None = None  # under which number of the schema, where its tables are
        self._looked: tuple[sqlite3.Connection, int] | None = None  # when that was looked at
        self.position = LogPosition(path)
        with self._reported():
            self._file = _prepare(path, create)
            self._connect()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for statements that change nothing: it sees one moment of the store, whatever others write."""
        self._check_process()
        with self._lock, self._reported():
            connection = self._connect()
            if connection.in_transaction:  # of this thread
                yield connection
                return
            self.position.look()
            connection.execute("BEGIN")
            try:
                self._check_content(connection)
                yield connection
            finally:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: durable when this returns, undone when anything is raised inside.

        It takes the write lock at its start: a transaction that reads first and writes then fails at once
        (SQLITE_BUSY), whatever the time-out, if another process wrote in between.
        """
        self._check_process()
        with self._lock, self._reported():
            self._connect()
            connection = self._check_file()
            self.position.look()
            try:
                connection.execute("BEGIN IMMEDIATE")
                self._check_tail()
                self._check_content(connection)
                yield connection
                newest = self.position.newest(connection)
                connection.execute("COMMIT")
                before, self.position.seen = self.position.seen, newest
                self._check_log(newest[1] if newest and newest != before else "")
            except BaseException:
                self._undo(connection)
                raise

    def settled(self) -> int:
        """Return the newest event (-1: there is none) before which no other can come any more: one writes at a time."""
        with self.read() as connection:
            (newest,) = connection.execute("SELECT coalesce(max(seq), -1) FROM audit_event").fetchone()
            return int(newest)

    @contextmanager
    def purge(self) -> Iterator[sqlite3.Connection]:
        """The same, for one that deletes: what it deletes is overwritten in the file."""
        with self.read() as connection:
            connection.execute("PRAGMA secure_delete=ON")
        with self.write() as connection:
            connection.execute("PRAGMA defer_foreign_keys=ON")
            yield connection

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the other threads of this process from the connection meanwhile."""
        self._check_process()
        with self._lock:
            yield

    def rewrite(self) -> bool:
        """Write the file anew without what was deleted, and empty the write-ahead log, which holds older pages.

        Returns:
            False: another process is reading those, so that they are still there.
        """
        self._check_process()
        with self._lock, self._reported():
            self._connect()
            connection = self._check_file()
            connection.execute("VACUUM")
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    def close(self) -> None:
        """Close the connection; what was committed stays. Closing twice is fine; it opens again when it is used."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._connection is not None:
                if not self._torn:
                    self._connection.close()
                self._connection = None
                self._forget_log()

    def again(self) -> "Database":
        """Another connection to the same file, only to read."""
        return Database(self.path, create=False)

    kind: Literal["sqlite"] = "sqlite"

    def version_and_size(self) -> tuple[int, int]:
        """Return the version of its schema, and the bytes that the file takes."""
        with self.read() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            return version, self.path.stat().st_size

    @property
    def place(self) -> str:
        """The path, as text."""
        return str(self.path)

    @property
    def is_open(self) -> bool:
        """Tell whether this process has a connection to the file."""
        return self._connection is not None and os.getpid() == self._pid

    def _undo(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if connection.in_transaction:  # a connection that can't roll back is not to be trusted with the next write
            with suppress(sqlite3.Error):
                connection.close()
            self._connection = None
            self._forget_log()

    def _forget_log(self) -> None:
        """The last connection that is closed removes the write-ahead log."""
        if self._tail is not None:
            self._tail.close()
        self._tail = self._log = None

    def _check_process(self) -> None:
        """Refuse to go on in the child of a fork. The lock may be held there by a thread that is not there any more."""
        if os.getpid() != self._pid:
            raise StoreError(f"the store {self.path} was opened before a fork: open it anew in the child process")

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection, self._changed = self._open(), None
        return self._connection

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{self._mode()}",
            uri=True,
            isolation_level=None,  # we begin and commit ourselves
            check_same_thread=False,  # our lock keeps threads apart
            timeout=self._busy_ms / 1000,
        )
        connection.row_factory = sqlite3.Row
        try:
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("BEGIN")  # before anything has SQLite read the schema: see `_check_content`
            (number,) = connection.execute("PRAGMA schema_version").fetchone()
            version = schema.check(connection, self.path)
            connection.execute("COMMIT")
            self._checked = number, version
            connection.execute("PRAGMA synchronous=FULL")  # NORMAL may lose acknowledged commits at power loss
            if self._writable:
                self._use_wal(connection)
                self._migrate(connection, version)
            elif version < schema.newest():
                connection = self._migrated_copy(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _mode(self) -> str:
        if self._writable:
            return "mode=rw"
        # Even a reader needs the files beside a write-ahead log. A copy for an auditor may be where none can be made.
        log = self.path.with_name(self.path.name + "-wal")
        fixed = not os.access(self.path.parent, os.W_OK) and not log.exists()
        return "mode=ro&immutable=1" if fixed else "mode=ro"

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Readers don't wait for writers in WAL mode. Switching to it ignores the busy time-out, so we wait here."""
        deadline = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.01)
        if mode != "wal":
            raise StoreError(f"the store {self.path} can't be used in WAL mode there (it is in {mode} mode)")

    def _migrate(self, connection: sqlite3.Connection, version: int) -> None:
        if version == schema.newest():
            return
        deadline = time.monotonic() + self._busy_ms / 1000
        connection.execute(f"PRAGMA busy_timeout={min(self._busy_ms, _LOOK_AGAIN_MS)}")
        while self._version(connection) < schema.newest():
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                continue  # another process is at it; afterwards it may write so much that we never get the lock
            try:
                schema.upgrade(connection, schema.check(connection, self.path))
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        connection.execute(f"PRAGMA busy_timeout={self._busy_ms}")

    def _version(self, connection: sqlite3.Connection) -> int:
        """The version of the schema at one moment: it takes several reads, and another process may be leading it on."""
        connection.execute("BEGIN")
        try:
            return schema.version_of(connection, self.path)
        finally:
            connection.execute("ROLLBACK")

    def _migrated_copy(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """A store of an older version in memory, as this one would have it: a reader may not change the file."""
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        copy.row_factory = sqlite3.Row
        connection.backup(copy)
        connection.close()
        schema.upgrade(copy, schema.check(copy, self.path))
        copy.execute("PRAGMA query_only=ON")
        return copy

    def _check_content(self, connection: sqlite3.Connection) -> None:
        """Refuse a schema that is not ours or not of our version any more, and a log that was set back.

        Every statement but these is prepared in a transaction that has passed here, so what SQLite makes of the schema
        is what was looked at, under this number: whoever sets the number back can't slip another one in.
        """
        (number,) = connection.execute("PRAGMA schema_version").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if (number, version) != self._checked:
            self._checked = None
            try:
                if schema.check(connection, self.path) < schema.newest():
                    raise StoreTampered(f"the schema of the store {self.path} was set back to an older version")
            except BaseException:
                connection.execute("PRAGMA writable_schema=RESET")  # SQLite forgets what it has read
                raise
            self._checked = number, version
        self._check_roots(connection, number)
        self.position.check(connection)

    def _check_roots(self, connection: sqlite3.Connection, number: int) -> None:
        """Refuse pages in the place of others under the same schema: processes would each see other tables."""
        (written,) = connection.execute("PRAGMA data_version").fetchone()  # moves where another connection has written
        if (connection, written) == self._looked:
            return
        (roots,) = connection.execute("SELECT total(rootpage * rowid) FROM sqlite_schema").fetchone()
        if self._roots is not None and self._roots[0] == number and self._roots[1] != roots:
            raise StoreTampered(f"the schema of the store {self.path} was changed: its tables are on other pages")
        self._roots, self._looked = (number, roots), (connection, written)

    def _check_file(self) -> sqlite3.Connection:
        """Refuse to write into a file that nobody will ever find again; returns a connection that has read it.

        SQLite does not notice that the file itself was written over: it goes on with the pages that it holds. So they
        are read anew after each change, which is a checkpoint in most cases.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreError(f"the store {self.path} is gone: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != self._file:
            raise StoreError(f"the store {self.path} was replaced by another file while it was in use")
        if self._size and not found.st_size:
            raise StoreError(f"the store {self.path} was emptied while it was in use")
        self._size = found.st_size
        connection = self._connect()
        if self._changed not in (None, found.st_ctime_ns):
            self._connection = self._open()  # before the other is closed: the last one to go takes the log with it
            connection.close()
        self._changed = found.st_ctime_ns
        return self._connect()

    def _check_tail(self) -> None:
        """Refuse to follow what somebody has overwritten: nobody who opens the store later will find it."""
        if self._tail is not None and not self._tail.is_there():
            if not self._torn and self._connection is not None:
                _leave_open(self._connection)
            self._torn = True
            raise StoreTampered(
                f"the end of {self._wal} was overwritten while it was in use: what this process has written there last "
                "may be lost. End what uses the store; hla audit verify says more"
            )

    def _check_log(self, hash_: str) -> None:
        """Refuse what was committed into a write-ahead log that nobody will ever find again, or be able to read.

        As long as a connection is open, no other removes that file or its index, nor cuts off its head. By the index
        processes keep apart what they write. `hash_` is that of the newest event, if it was written now.
        """
        try:
            if self._tail is None:
                self._tail = WalTail(os.open(self._wal, os.O_RDONLY | os.O_CLOEXEC))
            log, header = os.stat(self._wal), self._tail.begins()
            about = os.stat(self._index)  # not opened: closing it would drop the locks that SQLite holds on it
        except OSError as error:
            raise StoreError(f"{error.filename} was removed while it was in use: {error.strerror}") from error
        found = log.st_dev, log.st_ino, about.st_dev, about.st_ino
        self._log = self._log or found
        if found != self._log or (log.st_size and header[:4] not in _LOG_MAGIC):  # empty: nothing was written yet
            raise StoreError(f"{self._wal}, or its index, was replaced or overwritten while it was in use")
        if hash_:
            self._tail.keep(header, hash_)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except sqlite3.Error as error:
            raise StoreError(f"the store {self.path}: {error}") from error
        except OSError as error:
            raise StoreError(
                f"the store {self.path} can't be used: {error.strerror or error} (HUMANLAYER_STORE names another)"
            ) from error
        except (ValueError, OverflowError) as error:  # text that is not Unicode, an integer too large
            raise StoreError(f"the store {self.path} can't hold this: {error}") from error


def _leave_open(connection: sqlite3.Connection) -> None:
    """Never close a connection, not even where nobody refers to it any more.

    With the last one, SQLite copies the write-ahead log into the file as it stands, garbage and all. Where it is left
    there, whoever opens the store next has SQLite look at it first, and drop what is not whole: that is seen.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _prepare(path: Path, create: bool) -> tuple[int, int]:
    """Make sure of the file and who may read it; returns its device and inode.

    An existing file is never opened here: closing it again would drop the locks that SQLite holds on it.
    """
    if create:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise StoreError(f"there is no store at {path}") from error
    if not stat.S_ISREG(found.st_mode):
        raise StoreError(f"the store {path} is not a regular file")
    if kind := network_file_system(path):
        raise StoreError(f"the store {path} is on a network file system ({kind}), where its locks can't be trusted")
    if create and found.st_mode & 0o077:
        path.chmod(found.st_mode & 0o700)  # it holds full commands
    return found.st_dev, found.st_ino


def network_file_system(path: Path) -> str:
    """The type of the file system that holds `path`, where it is one over a network; else ""."""
    kind = _file_system(path)
    family = kind if kind in _LOCAL_FUSE else kind.partition(".")[0]
    return kind if family in _NETWORK else ""


def _file_system(path: Path) -> str:
    """The type of the file system that holds `path`; "" where it can't be told."""
    device = path.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(" - ")[2].split()[0] for line in lines if line.split()[2] == wanted), "")
