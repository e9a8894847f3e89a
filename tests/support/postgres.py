"""A PostgreSQL server of our own: on a socket in a temporary folder, for the tests of one process, gone afterwards."""

import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import psycopg
import pytest

from humanlayer_agent.errors import StoreError
from humanlayer_agent.store.postgres.postgres_store import make_store
from humanlayer_agent.store.postgres.server import Address, connected
from humanlayer_agent.store.postgres.structure import TABLES, check

_UNDER = "/usr/lib/postgresql"
_TEMPLATE = "hla_template"
_numbers = itertools.count()


@cache
def programs() -> Path | None:
    """The folder with `initdb` and `postgres`: those on the path, or the newest that Debian has installed."""
    if found := shutil.which("initdb"):
        return Path(os.path.realpath(found)).parent
    known = sorted(Path(_UNDER).glob("*/bin"), key=lambda each: float(each.parent.name))
    return known[-1] if known else None


class LocalServer:
    """A server that listens on a socket in `folder`, as the superuser `postgres`.

    Args:
        durable: True flushes to the disk, as a real one does.
        connections: so many may be open at once.
    """

    def __init__(self, folder: Path, *, durable: bool = False, connections: int = 60) -> None:
        self.folder = folder
        self._connections = connections
        self._durable = durable
        self._unused: list[str] = []
        self._programs = programs()
        # PostgreSQL refuses to run as root.
        self._user = "postgres" if os.getuid() == 0 else None
        if self._user:
            about = pwd.getpwnam(self._user)
            os.chown(folder, about.pw_uid, about.pw_gid)
        made = [*("-D", folder / "data", "-U", "postgres", "-A", "trust"), *("-E", "UTF8", "--locale=C", "--no-sync")]
        self._run("initdb", *made)
        self.start()
        self.administer(f"CREATE DATABASE {_TEMPLATE}")
        make_store(self.url(_TEMPLATE))
        self._empty(_TEMPLATE)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flush = "on" if self._durable else "off"
        limits = f"-c shared_buffers=16MB -c max_connections={self._connections}"
        settings = f"-k {self.folder} -c listen_addresses='' -c fsync={flush} {limits}"
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-o", settings, "-l", self.folder / "log", "start")

    def kill(self) -> None:
        """End it as a crash does: nothing is written any more."""
        pid = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        while os.path.exists(f"/proc/{pid}"):
            os.sched_yield()

    def stop(self) -> None:
        """End it."""
        self._run("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def url(self, database: str, user: str = "postgres") -> str:
        """The address of a database."""
        return f"postgresql:///{database}?host={self.folder}&user={user}"

    def administer(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements as the superuser; returns the rows of the last one."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                found = connection.execute(statement)  # type: ignore[call-overload]
            return found.fetchall() if found.description else []

    @contextmanager
    def new_store(self) -> Iterator[str]:
        """The address of an empty store. To make a database takes a second, so one that is used no more is emptied."""
        if self._unused:
            name = self._unused.pop()
            self._empty(name)
        else:
            name = f"store_{next(_numbers)}"
            self.administer(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
        yield self.url(name)
        if self._is_whole(name):  # a test may have changed more than rows
            self._unused.append(name)

    def new_database(self) -> str:
        """The address of a database without a store."""
        name = f"empty_{next(_numbers)}"
        self.administer(f"CREATE DATABASE {name}")
        return self.url(name)

    def _is_whole(self, name: str) -> bool:
        with suppress(StoreError), connected(Address(self.url(name))) as session:
            check(session, name)
            return True
        return False

    def _empty(self, name: str) -> None:
        emptied = "; ".join(f"DELETE FROM humanlayer.{table}" for table in TABLES)
        self.administer(f"SET session_replication_role = replica; {emptied}", database=name)

    def _run(self, program: str, *arguments: object) -> None:
        assert self._programs is not None
        subprocess.run(
            [self._programs / program, *map(str, arguments)],
            user=self._user,
            cwd=self.folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def local_server(*, durable: bool = False, connections: int = 60) -> Iterator[LocalServer]:
    """A server, or a skipped test where PostgreSQL is not installed."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="hla-pg-"))  # the path of a socket is at most 107 characters
    try:
        server = LocalServer(folder, durable=durable, connections=connections)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
