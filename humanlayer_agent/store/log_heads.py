"""The duties of a process to the log beside its events: signed heads when they are due, and that it could not be
written.
"""

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import Approver, Refused
from humanlayer_agent.approvals.stop import who_may_resume
from humanlayer_agent.audit import events
from humanlayer_agent.audit.anchor import Loss, acceptance
from humanlayer_agent.audit.heads import EVERY_EVENTS, EVERY_MS, Head, KeyKind, Signs, signed
from humanlayer_agent.errors import ConfigError, StoreError, StoreTampered
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signing import Signer, process_signer
from humanlayer_agent.locations import audit_key_path
from humanlayer_agent.store.log_position import LogPosition
from humanlayer_agent.store.rows import said_approver, storable
from humanlayer_agent.store.statements import Ledger
from humanlayer_agent.store.transactions import Transactions
from humanlayer_agent.store.verification_record import forget

if TYPE_CHECKING:
    from humanlayer_agent.approvals.store_interface import Store
    from humanlayer_agent.store.sqlite import SQLStore

_OF_WHAT_WAS_ASKED = {"IntegrityError", "ProgrammingError", "DataError", "ValueError", "OverflowError"}
"""Errors that are no fault of the log: those of Python, and those that every database's module has (PEP 249)."""

logger = logging.getLogger("humanlayer_agent")


@dataclass(frozen=True, slots=True)
class Degraded:
    """Since when (ms) the log can't be written, why not, and how many writes have failed."""

    since: int
    why: str
    failures: int = 1


def note_signers(store: "Store", signers: Collection[str]) -> None:
    """Write down whose signatures count from here on, where that is not what the log says last.

    Whoever can write a channels file can name a key of their own: it does not count in a run that goes on, and that it
    counts in the next one is to be seen. Where the log can't be written, nothing will run.
    """
    with suppress(StoreError):
        before, now = known_signers(store), sorted(signers)
        if now != before:
            store.record(events.SIGNERS_CHANGED, former=before, signers=now)


def accept_loss(
    store: "SQLStore", loss: Loss, approver: Approver, comment: str, authority: Authority, signer: Signer
) -> Refused | None:
    """Go on without what is lost: that is signed, and said in the log. Anchors reach as far as the log from then on.

    Args:
        store: opened without being compared with its anchor.
        approver: the human who was shown `loss`. comment: their words. signer: their key, unlocked.

    Returns:
        Why they may not; then nothing is changed.

    Raises:
        StoreError, OSError: it can't be written.
    """
    authority = authority.without(store.people.left)
    person = who_may_resume(authority, approver)
    if isinstance(person, Refused):
        return person
    if not authority.trusts(signer.fingerprint):
        return Refused("the key of this process is not one of the signers")
    said = loss.fields() | {"approver": said_approver(approver), "signer": signer.fingerprint}
    signature = signer.sign_text(acceptance(said))
    store.record(
        events.AUDIT_LOSS_ACCEPTED, **said, person=person.id, comment=storable(comment), loss_signature=signature
    )
    forget(loss.anchor.head.store)  # it may name an event that is among what is lost
    if loss.left is None:
        loss.anchor.file.unlink(missing_ok=True)
    store.anchor_anew(loss.anchor.head.seq if loss.left is not None else -1)
    return None


def known_signers(store: "Store") -> list[str]:
    """Return the keys whose signatures count, as the log says last.

    Raises:
        StoreError: the log can't be read.
    """
    for entry in store.events(type=events.SIGNERS_CHANGED.name, last=1):
        found = entry.event.get("signers")
        return found if isinstance(found, list) else []
    return []


def signers_at_start(store: "Store", agent: str, instance: str) -> frozenset[str] | None:
    """Return the keys that counted when the first run of this instance of an agent began, as the log says.

    Returns:
        None where it has had no run yet.

    Raises:
        StoreError: the log can't be read.
    """
    first = store.first_run(agent, instance)
    if first is None:
        return None
    found: list[str] = []
    for entry in store.events(type=events.SIGNERS_CHANGED.name):
        if entry.seq < first.seq:
            found = entry.event.get("signers") or []
    return frozenset(found)


class Keeper:
    """Keeps one process's part of one log. Thread-safe.

    Args:
        signer: signs the heads; None: the user's key for that, or where there is none, one that only this process has.
    """

    def __init__(self, signer: Signs | None = None) -> None:
        self.degraded: Degraded | None = None
        self._given = signer
        self._lock = Lock()
        self._last_head: tuple[int, int] | None = None  # its number, and when (ms), as far as this process knows

    # The log could not be written

    def failed(self, error: StoreError, now: int) -> None:
        """A write came to nothing. What only does not fit the schema is no fault of the log."""
        cause = error.__cause__
        if _OF_WHAT_WAS_ASKED & {kind.__name__ for kind in type(cause).__mro__}:
            return
        tampered = isinstance(error, StoreTampered) or "while it was in use" in str(error)
        if cause is None and not tampered:  # what a method itself refuses
            return
        with self._lock:
            before = self.degraded
            self.degraded = Degraded(before.since if before else now, str(error), before.failures + 1 if before else 1)

    def say(self, ledger: Ledger) -> Degraded | None:
        """Write down, before anything else, that writing had failed; returns what `recovered` has to be told."""
        degraded = self.degraded
        if degraded is not None:
            ledger.append(events.AUDIT_DEGRADED, since=degraded.since, failures=degraded.failures, why=degraded.why)
        return degraded

    def recovered(self, said: Degraded | None) -> None:
        """That has been committed."""
        with self._lock:
            if self.degraded is said:
                self.degraded = None

    # Heads

    def due(self, database: Transactions, last: int, now: int) -> bool:
        """Tell whether a head is due after this event. (Another process may have written one meanwhile.)"""
        if self._last_head is None or self._is_due(last, now):
            with database.read() as connection:
                self._last_head = _last_head(Ledger(connection, now))
        return self._is_due(last, now)

    def _is_due(self, last: int, now: int) -> bool:
        seq, at = self._last_head or (0, now)
        return last - seq >= EVERY_EVENTS or now - at >= EVERY_MS

    def signer(self) -> tuple[Signs, KeyKind]:
        """The key for heads, and whose it is. It is read now: not while the log is locked."""
        if self._given is not None:
            return self._given, "user"
        path = audit_key_path()
        try:
            if path.exists():
                return AuditKey(path).load(), "user"
        except (ConfigError, OSError) as error:
            logger.warning("heads of the log are signed with a key of this process: %s", error)
        signer = process_signer()
        _ = signer.fingerprint
        return signer, "process"

    def write(self, ledger: Ledger, signer: Signs, key: KeyKind) -> Head:
        """Write a head."""
        head = ledger.write_head(signer, key)
        self._last_head = (head.seq + 1, head.time)
        return head

    def anchor(self, position: LogPosition, now: int) -> bool:
        """Write down, beside the user's keys, how far the log goes; False where that can't be done.

        It names one event; how many there are is not counted for that, but taken from its number.

        Nothing is denied for want of it: `hla doctor` says that it is missing.
        """
        if position.seen is None or not position.store:
            return False
        seq, hash_ = position.seen
        try:
            signer, key = self.signer()
            position.move_anchor(signed(Head(position.store, seq, hash_, seq + 1, now, key), signer))
        except (ConfigError, OSError) as error:
            logger.debug("the anchor of the log can't be written: %s", error)
            return False
        return True


def _last_head(ledger: Ledger) -> tuple[int, int]:
    """The newest head, or where the log begins."""
    found = ledger.newest("type = 'audit.head'") or ledger.newest("seq = 0")
    return (found["seq"], found["at"]) if found else (0, ledger.now)
