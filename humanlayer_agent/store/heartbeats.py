"""Heartbeats, by which processes live: the one place that decides whether one, its runs and its leases are gone.

A process says that it lives by a heartbeat in the store. Nobody's wall clock counts: it may be set, and two machines
never agree on it. Times are those of a monotonic clock, and stand beside its name. Who reads the same clock compares;
whoever reads another one notes since when, by its own, the last heartbeat has been the newest.

Where the table of processes shows that a process is there, or has ended, that is certain, and its heartbeat does not
matter: it may be late, because the machine slept or is loaded.

A store on a server can be out of everybody's reach, and then nobody could give a sign. So it keeps since when signs
have come without a gap, by the server's clock, and nobody's silence counts from before that: who comes back after an
outage has as long again as ever. (A file is there while its machine is awake.)
"""

import os
import threading
import time
from typing import Protocol, runtime_checkable

from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes import identity
from humanlayer_agent.store.transactions import Connection, Row, Transactions

EVERY = 5.0
"""Seconds between two heartbeats of a process."""

AGAIN = 1.0
"""Seconds after which one that could not be written is tried again."""

SILENT_MS = 30_000
"""After so long without one, a process that can't be seen is gone."""

LEFT_MS = 45_000
"""After so long without one, what a process that is gone has asked is withdrawn: until then the same agent, started
again, may go on waiting for it."""


GAP_MS = 10_000
"""After so long without a sign from anybody it may be that nobody could give one."""

UNWATCHED_MS = 600_000
"""So long after it was first seen to be silent, a process is gone even where signs never came without a gap: where only
single commands look at the store."""

_WATCH = "watch"
"""What the row of `silence` is called that says since when signs have come without a gap."""


@runtime_checkable
class Clocked(Protocol):
    """A connection to a database with a clock of its own."""

    def clock(self) -> tuple[str, int]:
        """Return its name, and the time in ms."""
        ...


_GOING_ON = (
    "SELECT id FROM run WHERE state IN ('open', 'terminated') UNION "
    "SELECT run_id FROM execution JOIN permit ON permit.id = permit_id WHERE execution.state = 'started'"
)


def clock(db: Connection) -> tuple[str, int]:
    """Return the store's clock: its name, and the time in ms. A store on a server has the server's.

    That of a file is this machine's, which stands still while that sleeps: nobody could give a sign of life then.
    """
    if isinstance(db, Clocked):
        return db.clock()
    return identity.clock_source(), time.monotonic_ns() // 1_000_000


def is_gone(db: Connection, run: Row) -> bool:
    """Tell whether the process of a run is gone.

    Args:
        db: in a write transaction.
        run: has `run_id`, `process`, `clock` and `beat`.
    """
    alive = identity.lives(run["process"])
    return _silent(db, f"run {run['run_id']}", run, SILENT_MS) if alive is None else not alive


def is_left(db: Connection, run: Row) -> bool:
    """Tell whether nobody waits any more for what a run that was lost has asked.

    A process that is there keeps its requests, whatever was thought of its run.

    Args:
        db: in a write transaction.
        run: as for `is_gone`; it was found lost before.
    """
    if identity.lives(run["process"]):
        return False
    return _silent(db, f"run {run['run_id']}", run, LEFT_MS)


def holds(db: Connection, lease: Row, *, note: bool = True) -> bool:
    """Tell whether a lease on a channel is somebody's at this moment.

    Args:
        db: in a write transaction, unless `note` is False: then nothing is written.
    """
    if identity.lives(lease["process"]) is False:
        return False
    return not _silent(db, f"lease {lease['channel']}", lease, lease["ttl"], note=note)


def forget_run(db: Connection, run_id: str) -> None:
    """Drop what was noted of the silence of a run that has ended, and left nothing that waits."""
    db.execute("DELETE FROM silence WHERE what = ?", (f"run {run_id}",))


def forget_lost_runs(db: Connection) -> None:
    """Drop what was noted of the silence of runs that are lost and have left nothing that waits."""
    db.execute(
        "DELETE FROM silence WHERE what LIKE 'run %' AND EXISTS (SELECT 1 FROM run WHERE id = substr(what, 5) AND "
        "state = 'lost') AND NOT EXISTS (SELECT 1 FROM request WHERE run_id = substr(what, 5) AND +state = 'pending')"
    )


def _silent(db: Connection, what: str, sign: Row, limit: int, *, note: bool = True) -> bool:
    """Tell whether the last sign of life has been the newest for `limit` ms. What can't be told yet is noted."""
    name, now = clock(db)
    watched = _watched_since(db) if note else 0
    known = sign["clock"] == name and sign["beat"] <= now
    since = sign["beat"] if known else _noted_since(db, what, sign, note=note)
    if now - since < limit:
        return False
    return now - watched >= limit or now - _noted_since(db, what, sign) >= UNWATCHED_MS


def _noted_since(db: Connection, what: str, sign: Row, *, note: bool = True) -> int:
    """Return since when, by this clock, a sign of life has been seen to be the newest: it is noted now, if not yet."""
    name, now = clock(db)
    noted = db.execute(
        "SELECT since FROM silence WHERE what = ? AND watcher = ? AND clock = ? AND beat = ?",
        (what, name, sign["clock"], sign["beat"]),
    ).fetchone()
    if noted is not None and noted["since"] <= now:
        return int(noted["since"])
    if note:
        _note(db, (name, what, sign["clock"], sign["beat"], now))
    return now


def _watched_since(db: Connection) -> int:
    """Return since when signs have come without a gap, of which this is one.

    In a file that is always so.
    """
    if not isinstance(db, Clocked):
        return 0
    name, now = clock(db)
    row = db.execute("SELECT beat, since FROM silence WHERE what = ? AND watcher = ?", (_WATCH, name)).fetchone()
    since = int(row["since"]) if row is not None and 0 <= now - row["beat"] <= GAP_MS else now
    if row is None or not 0 <= now - row["beat"] < AGAIN * 1000:  # not written anew for each of many
        _note(db, (name, _WATCH, name, now, since))
    return since


def _note(db: Connection, row: tuple[str, str, str, int, int]) -> None:
    db.execute(
        "INSERT INTO silence (watcher, what, clock, beat, since) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (what, watcher) DO UPDATE "
        "SET clock = excluded.clock, beat = excluded.beat, since = excluded.since",
        row,
    )


class Heart:
    """Writes the heartbeats of this process into one store, on a thread that keeps nobody from ending.

    While no run of this process goes on it writes nothing but, on a server, that it is there.
    """

    def __init__(self, database: Transactions) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._stopped: threading.Event | None = None  # that of the thread that is there

    def start(self) -> None:
        """Begin. Starting again changes nothing."""
        with self._lock:
            if self._stopped is None:
                self._stopped = threading.Event()
                arguments = (self._database, identity.identity(), self._stopped)
                threading.Thread(target=_beat_on, args=arguments, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """End, soon."""
        with self._lock:
            if self._stopped is not None:
                self._stopped.set()
                self._stopped = None


def _beat_on(database: Transactions, process: str, stopped: threading.Event) -> None:
    late = False
    while not stopped.wait(AGAIN if late else EVERY):
        try:
            # In this order: who forks may be in a transaction, and a heartbeat waits for that to end.
            with database.alone(), _no_fork:
                beat(database, process)
            late = False
        except StoreError:
            late = True
        if stopped.is_set():
            database.close()  # it was closed meanwhile, and we have opened it again


def beat(database: Transactions, process: str) -> None:
    """Write that a process lives, where a run of it goes on.

    Raises:
        StoreError: it can't be written.
    """
    with database.write() as db:
        _watched_since(db)
        db.execute(
            f"UPDATE run SET clock = ?, beat = ? WHERE process = ? AND id IN ({_GOING_ON})", (*clock(db), process)
        )


_no_fork = threading.Lock()
"""Held while a heartbeat is written: what SQLite holds at a fork would be held in the child for ever."""
os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_no_fork.release)
