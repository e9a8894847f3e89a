"""Deletes what a store need not keep: full commands, requests, votes and permits that are settled, old, and exported.

The log keeps every event, with commands as they were redacted, so the chain stays whole and the report is the same.
What has to be gone is found again by the verifier (`settled`).
"""

from humanlayer_agent.approvals.store_interface import Purged
from humanlayer_agent.audit import events
from humanlayer_agent.audit.heads import Head
from humanlayer_agent.errors import StoreError
from humanlayer_agent.store.retention_scope import FORM, Bounds, Settled
from humanlayer_agent.store.rows_against_log import Agreement
from humanlayer_agent.store.sqlite import SQLStore, entry_of, read_verified
from humanlayer_agent.store.statements import Ledger


class Purge:
    """One look at a whole store, and what may go.

    Args:
        store: the store.
        before: a request is old whose last event was before this moment (ms).
        exported: the newest head in an export that was verified; what came after it stays.

    Raises:
        StoreError: the store was tampered with, or the export is not of its log: then nothing may go.

    Example::

            purge = Purge(store, before=now_ms() - 90 * 86_400_000, exported=found.last_head)
            purge.would_go()
            purge.delete("os:1000:alice", sha256)
            purge.erase()
    """

    def __init__(self, store: SQLStore, *, before: int, exported: Head) -> None:
        self._store = store
        self._told = Agreement()
        self._bounds = Bounds(before, exported.seq)
        found = read_verified(store.database, self._told, heads=[exported])
        if not found.intact:
            raise StoreError(f"nothing is deleted from a store that is not as its log says: {found.problem}")
        self._heard = found.count - 1

    def would_go(self) -> Purged:
        """Return the numbers of rows that may go, as far as was heard."""
        return _counted(self._told.settled(self._bounds))

    def delete(self, by: str, sha256: str) -> Purged:
        """Delete it, in one transaction with its event. `erase` makes sure of the bytes.

        Args:
            by: the principal who does. sha256: of the export.

        Raises:
            StoreError: it can't be written; then nothing is deleted.
        """
        with self._store.purging() as ledger:
            newer = ledger.rows("SELECT seq, hash, body FROM audit_event WHERE seq > ? ORDER BY seq", self._heard)
            for entry in self._told.listen(map(entry_of, newer)):
                self._heard = entry.seq
            gone = self._told.settled(self._bounds)
            _delete(ledger, gone, self._bounds)
            ledger.append(
                events.RETENTION_PURGED,
                form=FORM,
                by=by,
                before=self._bounds.before,
                through=self._bounds.through,
                requests=len(gone.requests),
                votes=len(gone.votes),
                permits=len(gone.permits),
                sha256=sha256,
            )
        return _counted(gone)

    def erase(self) -> bool:
        """Make what was deleted vanish from the bytes of the file too; False where another process is in the way."""
        try:
            return self._store.database.rewrite()
        except StoreError:
            return False


def _counted(gone: Settled) -> Purged:
    return Purged(len(gone.requests), len(gone.votes), len(gone.permits))


def _delete(ledger: Ledger, gone: Settled, bounds: Bounds) -> None:
    ledger.change('INSERT INTO purging ("only", before, through) VALUES (1, ?, ?)', bounds.before, bounds.through)
    for id_ in gone.permits:
        ledger.change("DELETE FROM execution WHERE permit_id = ?", id_)
        ledger.change("DELETE FROM grant_use WHERE permit_id = ?", id_)
        _exactly(ledger.change("DELETE FROM permit WHERE id = ?", id_), 1)
    for id_ in gone.requests:
        for table in ("presentation", "delivery", "permit"):  # a permit that was never used is not in the log
            ledger.change(f"DELETE FROM {table} WHERE request_id = ?", id_)
        ledger.change("DELETE FROM vote WHERE request_id = ?", id_)
        ledger.change("DELETE FROM grant_use WHERE grant_id = ?", id_)
        ledger.change("DELETE FROM given_grant WHERE id = ?", id_)
        _exactly(ledger.change("DELETE FROM request WHERE id = ?", id_), 1)
    ledger.change("DELETE FROM purging")


def _exactly(count: int, wanted: int) -> None:
    if count != wanted:
        raise StoreError("the store changed meanwhile: nothing is deleted")
