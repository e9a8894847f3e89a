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
from functools import cache
from pathlib import Path

from humanlayer_agent.errors import StoreError

APPLICATION_ID = 0x484C4131
"""Marks the file as ours in its header ("HLA1")."""

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
        self._beside = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
        self._writable = create
        self._busy_ms = busy_ms
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._log: tuple[int, ...] | None = None  # device and inode of this connection's write-ahead log and its index
        self._size = 0
        with self._reported():
            self._file = _prepare(path, create)
            self._connect()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for statements that change nothing."""
        self._check_process()
        with self._lock, self._reported():
            yield self._connect()

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one moment of the store, whatever others write meanwhile."""
        with self.read() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: durable when this returns, undone when anything is raised inside.

        It takes the write lock at its start: a transaction that reads first and writes then fails at once
        (SQLITE_BUSY), whatever the time-out, if another process wrote in between.
        """
        self._check_process()
        with self._lock, self._reported():
            connection = self._connect()
            self._check_file()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
                self._check_log()
            except BaseException:
                self._undo(connection)
                raise

    def rewrite(self) -> bool:
        """Write the file anew without what was deleted, and empty the write-ahead log, which holds older pages.

        Returns:
            False: another process is reading those, so that they are still there.
        """
        self._check_process()
        with self._lock, self._reported():
            connection = self._connect()
            self._check_file()
            connection.execute("VACUUM")
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy

    def close(self) -> None:
        """Close the connection; what was committed stays. Closing twice is fine; it opens again when it is used."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _undo(self, connection: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if connection.in_transaction:  # a connection that can't roll back is not to be trusted with the next write
            with suppress(sqlite3.Error):
                connection.close()
            self._connection = None

    def _check_process(self) -> None:
        """Refuse to go on in the child of a fork. The lock may be held there by a thread that is not there any more."""
        if os.getpid() != self._pid:
            raise StoreError(f"the store {self.path} was opened before a fork: open it anew in the child process")

    def _connect(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection, self._log = self._open(), None
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
            connection.execute("PRAGMA synchronous=FULL")  # NORMAL may lose acknowledged commits at power loss
            if self._writable:
                self._use_wal(connection)
                self._migrate(connection)
            elif _check_version(connection, self.path, newest=len(_migrations())) < len(_migrations()):
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

    def _migrate(self, connection: sqlite3.Connection) -> None:
        newest = len(_migrations())
        deadline = time.monotonic() + self._busy_ms / 1000
        connection.execute(f"PRAGMA busy_timeout={min(self._busy_ms, _LOOK_AGAIN_MS)}")
        while _check_version(connection, self.path, newest=newest) < newest:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= deadline:
                    raise
                continue  # another process is at it; afterwards it may write so much that we never get the lock
            try:
                _upgrade(connection, _check_version(connection, self.path, newest=newest))
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
        connection.execute(f"PRAGMA busy_timeout={self._busy_ms}")

    def _migrated_copy(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """A store of an older version in memory, as this one would have it: a reader may not change the file."""
        copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        copy.row_factory = sqlite3.Row
        connection.backup(copy)
        connection.close()
        _upgrade(copy, _check_version(copy, self.path, newest=len(_migrations())))
        copy.execute("PRAGMA query_only=ON")
        return copy

    def _check_file(self) -> None:
        """Refuse to write into a file that nobody will ever find again."""
        try:
            found = self.path.stat()
        except OSError as error:
            raise StoreError(f"the store {self.path} is gone: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != self._file:
            raise StoreError(f"the store {self.path} was replaced by another file while it was in use")
        if self._size and not found.st_size:
            raise StoreError(f"the store {self.path} was emptied while it was in use")
        self._size = found.st_size

    def _check_log(self) -> None:
        """Refuse what was committed into a write-ahead log that nobody will ever find again, or be able to read.

        As long as a connection is open, no other removes that file or its index, nor cuts off its head. By the index
        processes keep apart what they write.
        """
        path, index = self._beside
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                log, magic = os.fstat(descriptor), os.read(descriptor, 4)
            finally:
                os.close(descriptor)
            about = index.stat()  # not opened: closing it would drop the locks that SQLite holds on it
        except OSError as error:
            raise StoreError(f"{error.filename or path} was removed while it was in use: {error.strerror}") from error
        found = log.st_dev, log.st_ino, about.st_dev, about.st_ino
        self._log = self._log or found
        if found != self._log or (log.st_size and magic not in _LOG_MAGIC):  # empty: nothing was written yet
            raise StoreError(f"{path}, or its index, was replaced or overwritten while it was in use")

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"the store {self.path}: {error}") from error
        except (ValueError, OverflowError) as error:  # text that is not Unicode, an integer too large
            raise StoreError(f"the store {self.path} can't hold this: {error}") from error


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


def _check_version(connection: sqlite3.Connection, path: Path, *, newest: int) -> int:
    (mark,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if mark != APPLICATION_ID and (mark or version or tables):
        raise StoreError(f"{path} is a database of another program, not a humanlayer-agent store")
    if version > newest:
        raise StoreError(
            f"the store {path} was written by a newer humanlayer-agent (schema {version}, this one knows {newest}): "
            "upgrade humanlayer-agent, or name another store"
        )
    return int(version)


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    migrations = _migrations()
    for script in migrations[version:]:
        for statement in _statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={len(migrations)}")


def newest_schema() -> int:
    """The version of the schema that this version of ours writes."""
    return len(_migrations())


@cache
def _migrations() -> list[str]:
    """The scripts that lead from an empty file to the newest schema, in order."""
    scripts = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [script.read_text(encoding="utf-8") for script in scripts]


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. (`executescript` would commit before it starts.)"""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
