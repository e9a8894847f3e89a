"""The verification of the log: everything is computed again, and bytes are compared.

Parsing and hashing again would pass a duplicate key or added white space: only the canonical bytes themselves count.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from humanlayer_agent.audit.anchor import is_accepted
from humanlayer_agent.audit.chain import GENESIS, Entry, decoded
from humanlayer_agent.audit.events import AUDIT_HEAD, AUDIT_LOSS_ACCEPTED, AUDIT_OPENED
from humanlayer_agent.audit.heads import Head, head_in, is_signed
from humanlayer_agent.canonical_json import canonical

Kind = Literal["intact", "gap", "torn", "tampered"]

_STEP = 1_000  # events between two calls of `progress`


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings of the verifier.

    `count` events are intact from the beginning on, and `head` is the hash of the last of them. `kind` says what is
    wrong otherwise: events are missing (gap), the last line is not whole (torn), or it was tampered with; `bad_seq` is
    the place of the first event that is not what was written (None where all are), `problem` what is wrong there.

    `store` identifies the log, `last_head` is the newest signed head in it, and `signers` says whose keys have signed
    heads in it ("user abc...", "process"); `newest_heads` are the newest of each key of a user.

    Where `since` is a head, what came before the event that it names was not read: `count` events stand there, those
    from that one on are intact, and of keys and heads only theirs are told.
    """

    count: int
    head: str
    bad_seq: int | None = None
    problem: str = ""
    kind: Kind = "intact"
    store: str = ""
    last_head: Head | None = None
    signers: tuple[str, ...] = ()
    newest_heads: tuple[Head, ...] = ()
    since: Head | None = None

    @property
    def intact(self) -> bool:
        return self.bad_seq is None


def verify(
    entries: Iterable[Entry],
    *,
    heads: Sequence[Head] = (),
    progress: Callable[[int], None] = lambda count: None,
    since: Head | None = None,
) -> Verification:
    """Check a log, from its first event or from the one that `since` names.

    A chain alone can't show that its tail was cut or that all of it was written anew: that takes a head kept elsewhere.

    Args:
        heads: kept where whoever writes the log could not reach them.
        progress: is called with how many events were read, now and then.
        since: a head up to which the log was checked before; `entries` begin with the event that it names.
    """
    walk = _Walk(heads, since)
    for entry in entries:
        if walk.step(entry):
            break
        if walk.read % _STEP == 0:
            progress(walk.read)
    progress(walk.read)
    return walk.result()


class _Walk:
    """One pass over a log."""

    def __init__(self, heads: Sequence[Head], since: Head | None) -> None:
        self.read = 0
        self._kept = heads
        self._wanted = {head.seq: head for head in heads}
        self._since = since
        self._next = since.seq if since else 0  # number of the event that is due
        self._hash = GENESIS
        self._intact = (self._next, GENESIS)
        self._fault: tuple[int, str, Kind] | None = None
        self._store = since.store if since else ""
        self._last_head: Head | None = None
        self._signers: dict[str, None] = {}
        self._newest: dict[str, Head] = {}  # by key of a user

    def step(self, entry: Entry) -> bool:
        """Look at the next entry; True where looking further makes no sense."""
        event, problem = _content(entry)
        if problem or event is None:
            return self._stop(self._next, problem)
        seq = event.get("seq")
        if type(seq) is not int or entry.seq not in (seq, ANY):
            return self._stop(self._next, f"it says that it is event {seq}")
        if seq > self._next:
            what = f"event {self._next} is" if seq == self._next + 1 else f"events {self._next} to {seq - 1} are"
            self._note(self._next, f"{what} missing: the next one is numbered {seq}", "gap")
        elif seq < self._next:
            return self._stop(self._next, f"event {seq} comes again, or out of its order")
        elif self._since is not None and not self.read:
            if entry.hash != self._since.hash:
                return self._stop(seq, "it is not the event that the log was checked up to: it was written anew")
        elif event.get("prev") != self._hash:
            return self._stop(seq, "it does not follow the event before it")
        if problem := self._own(event, seq):
            return self._stop(seq, problem)
        self._next, self._hash = seq + 1, entry.hash
        self.read += 1
        if self._fault is None:
            self._intact = (self._next, self._hash)
        kept = self._wanted.get(seq)
        return kept is not None and kept.hash != entry.hash and self._stop(seq, _REWRITTEN)

    def _own(self, event: dict[str, Any], seq: int) -> str:
        """Return what is wrong with an event of the log about itself; "" if nothing."""
        kind = event.get("type")
        if (kind == AUDIT_OPENED.name) != (seq == 0):
            return f"{AUDIT_OPENED.name} is the first event of a log, and only that"
        if seq == 0:
            self._store = str(event.get("store", ""))
            return self._strangers()
        if kind == AUDIT_LOSS_ACCEPTED.name and not is_accepted(event):
            return "it says that a human accepts a loss, and its signature is not one"
        if kind != AUDIT_HEAD.name:
            return ""
        head = head_in(event)
        if head is None or not is_signed(head):
            return "it is a head, and its signature is not one"
        before = (head.seq, head.hash) == (seq - 1, event.get("prev")) and head.count == seq
        if not before or (self._store and head.store != self._store):
            return "it is a head of something else than the events before it"
        self._store = self._store or head.store
        self._last_head = head
        self._signers[f"user {head.signer[:16]}" if head.key == "user" else "process"] = None
        if head.key == "user":
            self._newest[head.signer] = head
        return ""

    def _strangers(self) -> str:
        """Return a sentence where a head that was kept elsewhere is of another log; "" where none is."""
        found = next((head.store for head in self._kept if head.store != self._store), None)
        return f"the head kept elsewhere is of the log {found}, this is {self._store}" if found and self._store else ""

    def result(self) -> Verification:
        if self._fault is None or self._fault[2] == "gap":
            self._compare()
        count, head = self._intact
        found = Verification(
            count,
            head,
            store=self._store,
            last_head=self._last_head,
            signers=tuple(self._signers),
            newest_heads=tuple(self._newest.values()),
            since=self._since,
        )
        if self._since is not None and self.read < 2 and self._fault is None:  # the event after it says so far it goes
            self._stop(self._next, "its end was cut off: this event stood there when the log was checked")
        if self._fault is None and not self._next:
            return replace(found, bad_seq=0, problem="the log is empty: its first event is missing", kind="gap")
        if self._fault is None:
            return found
        seq, problem, kind = self._fault
        return replace(found, bad_seq=seq, problem=problem, kind=kind)

    def _compare(self) -> None:
        """With the heads that were kept elsewhere."""
        if problem := self._strangers():
            self._stop(0, problem)
            return
        beyond = [head.seq for head in self._kept if head.seq >= self._next]
        if beyond:
            last = max(beyond)
            events = f"events {self._next} to {last}" if last > self._next else f"event {last}"
            self._stop(self._next, f"its end was cut off: {events} once stood there, says the head kept elsewhere")

    def _note(self, seq: int, problem: str, kind: Kind) -> None:
        if self._fault is None:
            self._fault = (seq, problem, kind)

    def _stop(self, seq: int, problem: str) -> bool:
        """It was tampered with; the first fault names the place."""
        first = min(seq, self._fault[0]) if self._fault else seq
        before = f"{self._fault[1]}; then event {seq}: " if self._fault else ""
        self._fault = (first, before + problem, "tampered")
        return True


ANY = -1
"""`Entry.seq` of an entry that says itself which number it has: a line of an export."""

_REWRITTEN = "it is not the event that the head kept elsewhere names: this one, or one before it, was written anew"


def _content(entry: Entry) -> tuple[dict[str, Any] | None, str]:
    """The event in `entry`, or what is wrong with its bytes."""
    try:
        event = decoded(entry.body)
        rewritten = canonical(event)
    except (ValueError, RecursionError):
        return None, "not canonical JSON"
    if not isinstance(event, dict):
        return None, "not an event"
    if rewritten != entry.body:
        return None, "its bytes are not canonical JSON: they were edited"
    if hashlib.sha256(entry.body).hexdigest() != entry.hash:
        return None, "its hash is not that of its bytes: one of them was edited"
    return event, ""
