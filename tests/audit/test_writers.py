"""Many processes, one chain; and the lock that makes it so is really needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children
from tests.support.extent import SOAK

PROCESSES = 4
EACH = 2_500 if SOAK else 300

WRITE = """
import sys
from contextlib import contextmanager
from humanlayer_agent.store.connection import Database
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.audit import events
from tests.support import children

path, name, count, lock = sys.argv[1:]
store = SQLiteStore(path, busy_ms=60_000)
if lock == "no":  # the mutation: the newest event is read before the lock is taken
    @contextmanager
    def write(self):
        with self._lock, self._reported():
            connection = self._connect()
            early = Ledger(connection, 0).tip("")
            connection.execute("BEGIN IMMEDIATE")
            Ledger.tip = lambda ledger, chain: early
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self._undo(connection)
                raise

    Database.write = write
    Ledger.write_head = lambda self, *given: None
    store._write_head = lambda: None
print(flush=True)
sys.stdin.readline()
failed = 0
for number in range(int(count)):
    try:
        store.record(events.POLICY_LOADED, run=name, number=number)
    except Exception:
        failed += 1
print(failed)
"""


def written(path: Path, lock: str, each: int) -> int:
    """How many events could not be written, of `each` by every process; all begin at once."""
    processes = [
        children.Popen(
            [sys.executable, "-c", WRITE, str(path), f"writer-{number}", str(each), lock],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return sum(int(process.communicate()[0]) for process in processes)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_four_processes_make_one_intact_chain(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite3"
    SQLiteStore(path).close()
    assert written(path, "yes", EACH) == 0
    store = SQLiteStore(path)
    assert store.verify().intact
    told: dict[str, list[int]] = {}
    for entry in store.events(type="policy"):
        told.setdefault(entry.event["run"], []).append(entry.event["number"])
    assert told == {f"writer-{number}": list(range(EACH)) for number in range(PROCESSES)}
    heads = len(list(store.events(type="audit.head")))
    assert heads >= PROCESSES * EACH // 1_000


@pytest.mark.sample(1)
@pytest.mark.parametrize("lock", ["yes", "no"])
def test_without_the_lock_events_are_lost(tmp_path: Path, lock: str) -> None:
    """What the test above asserts is false where the newest event is read before the lock is taken."""
    path = tmp_path / "store.sqlite3"
    SQLiteStore(path).close()
    failed = written(path, lock, 100)
    assert (failed == 0) == (lock == "yes")
