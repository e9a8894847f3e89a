"""The verification of the log: everything is computed again, and bytes are compared, along all chains at once.

Parsing and hashing again would pass a duplicate key or added white space: only the canonical bytes themselves count.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from humanlayer_agent.audit.anchor import is_accepted
from humanlayer_agent.audit.chain import BEGIN, FORMAT, GENESIS, STORE, Entry, Tip, decoded
from humanlayer_agent.audit.events import (
    AUDIT_HEAD,
    AUDIT_LOSS_ACCEPTED,
    AUDIT_OPENED,
    RUN_FINISHED,
    RUN_STARTED,
    STORE_MOVED,
)
from humanlayer_agent.audit.heads import Head, head_in, is_signed, root_of
from humanlayer_agent.canonical_json import is_canonical

Kind = Literal["intact", "gap", "torn", "tampered"]

_STEP = 1_000  # events between two calls of `progress`


@dataclass(frozen=True, slots=True)
class Verification:
    """The findings of the verifier.

    `count` events are intact from the beginning on, up to that of the number `last` (-1: none), and `head` is the hash
    of that one; `digest` is the SHA-256 of the hashes of all that were read and intact. `kind` says what is wrong
    otherwise: events are missing (gap), the last line is not whole (torn), or it was tampered with; `bad_seq` is the
    place of the first event that is not what was written (None where all are), `problem` what is wrong there.

    `store` identifies the log, `last_head` is the newest signed head in it, and `signers` says whose keys have signed
    heads in it ("user abc...", "process"); `newest_heads` are the newest of each key of a user, each with how far all
    chains went then.

    Where `since` is a head, what came before the event that it names was not read: `count` events stand there, those
    from that one on are intact, and of keys and heads only theirs are told.
    """

    count: int
    head: str
    last: int = -1
    digest: str = ""
    bad_seq: int | None = None
    problem: str = ""
    kind: Kind = "intact"
    store: str = ""
    last_head: Head | None = None
    signers: tuple[str, ...] = ()
    newest_heads: tuple["Reached", ...] = ()
    since: Head | None = None

    @property
    def intact(self) -> bool:
        return self.bad_seq is None


@dataclass(frozen=True, slots=True)
class Reached:
    """A head in a log, and the newest events of all chains then: what it is the root of."""

    head: Head
    tips: Mapping[str, Tip]

    @property
    def agrees(self) -> bool:
        """Tell whether it is a head of these."""
        return self.head.root != "" and root_of(self.tips) == self.head.root


def verify(
    entries: Iterable[Entry],
    *,
    heads: Sequence[Head] = (),
    progress: Callable[[int], None] = lambda count: None,
    since: Reached | None = None,
    until: int | None = None,
    numbered: bool = False,
    hear: Callable[[dict[str, Any]], bool] = lambda event: True,
) -> Verification:
    """Check a log, from its first event or from the one that `since` names.

    A chain alone can't show that its tail was cut or that all of it was written anew: that takes a head kept elsewhere.

    Args:
        heads: kept where whoever writes the log could not reach them.
        progress: is called with how many events were read, now and then.
        since: a head up to which the log was checked before, with the tips that it is the root of; `entries` begin with
            the event that it names.
        until: the newest event before which no other can come any more. What comes after it is checked as well, and
            not told of. None: there are no others.
        numbered: no number was ever left out: it is the log of a file. (Of one that was moved there, since then.)
        hear: is given each event that was found to follow, and may keep and change it; nothing after the one at which
            it says False is read.
    """
    walk = _Walk(heads, since, until, numbered)
    for entry in entries:
        event, problem = _content(entry)
        if walk.step(entry, event, problem) or (event is not None and not hear(event)):
            break
        if walk.read % _STEP == 0:
            progress(walk.read)
    progress(walk.read)
    return walk.result()


class _Walk:
    """One pass over a log."""

    def __init__(self, heads: Sequence[Head], since: Reached | None, until: int | None, numbered: bool) -> None:
        self.read = 0
        self._kept = heads
        self._wanted: dict[int, list[Head]] = {}  # until the event is read that each names
        for head in heads:
            if since is None or head.seq >= since.head.seq:
                self._wanted.setdefault(head.seq, []).append(head)
        self._since = since.head if since else None
        self._tips = dict(since.tips) if since else {}  # of the store's chain, and of those of runs that go on
        self._last = (since.head.seq, since.head.hash) if since else (-1, GENESIS)
        self._count = since.head.count if since else 0
        self._intact = (self._count, *self._last)
        self._numbered = numbered
        self._left_out: tuple[int, str, tuple[int, int, str]] | None = None  # the first number, and what is before it
        self._digest = hashlib.sha256()
        self._until = until
        self._fault: tuple[int, str, Kind] | None = None
        self._store = since.head.store if since else ""
        self._last_head: Head | None = None
        self._signers: dict[str, None] = {}
        self._newest: dict[str, Reached] = {}  # by key of a user

    @property
    def _due(self) -> int:
        """The number that the next event has, where none is left out."""
        return self._last[0] + (self._since is None or self.read > 0)

    def step(self, entry: Entry, event: dict[str, Any] | None, problem: str) -> bool:
        """Look at the next entry, and at what `_content` says of it; True where looking further makes no sense."""
        if problem or event is None:
            return self._stop(self._due, problem)
        seq = event.get("seq")
        if type(seq) is not int or entry.seq not in (seq, ANY):
            return self._stop(self._due, f"it says that it is event {seq}")
        if self._since is not None and not self.read:
            self.read = 1
            if (seq, entry.hash) != self._last:
                problem = "it is not the event that the log was checked up to: it was written anew"
                return self._stop(self._since.seq, problem)
            return self._witnessed(seq)
        if seq < self._due:
            return self._stop(self._due, f"event {seq} comes again, or out of its order")
        if seq > self._due and self._left_out is None:
            self._left_out = (self._due, _missing(self._due, seq, seq - self._due), self._intact)
        if problem := self._linked(event, seq, entry.hash):
            return self._stop(seq, problem)
        self._last = (seq, entry.hash)
        self.read, self._count = self.read + 1, self._count + 1
        if self._fault is None and (self._until is None or seq <= self._until):
            self._intact = (self._count, *self._last)
            self._digest.update(bytes.fromhex(entry.hash))
        return self._witnessed(seq)

    def _witnessed(self, seq: int) -> bool:
        """Compare what was read just now with the heads that were kept of it; True where one is of something else."""
        agree = all(map(self._agrees, self._wanted.pop(seq, ())))
        return not agree and self._stop(seq, _REWRITTEN)

    def _linked(self, event: dict[str, Any], seq: int, hash_: str) -> str:
        """Take in the next event of its chain. Returns what is wrong with it; "" if nothing."""
        chain, link = _place(event, seq)
        before = self._tips.get(chain, BEGIN if chain == STORE else None)
        if link is not None and before is None and (self._fault or seq > self._due):
            self._note(self._due, _missing(self._due, seq, seq - self._due), "gap")  # it began among those
            before = Tip(link - 1, str(event.get("prev")))
        if link is None or before is None:
            return "it is in the chain of no run that goes on"
        if link <= before.link:
            return f"event {seq} comes again, or out of its order"
        if link > before.link + 1:
            self._note(self._due, _missing(self._due, seq, link - before.link - 1), "gap")
        elif event.get("prev") != before.hash:
            return "it does not follow the event before it"
        problem = self._own(event, seq) or self._of_a_run(event, chain, hash_)
        self._tips[chain] = Tip(link, hash_)
        return problem

    def _of_a_run(self, event: dict[str, Any], chain: str, hash_: str) -> str:
        """Begin the chain of a run, or end it. Returns what is wrong with that; "" if nothing."""
        kind, run = event.get("type"), event.get("run")
        if kind not in (RUN_STARTED.name, RUN_FINISHED.name) or type(run) is not str:
            return ""  # what is no text names no chain
        if chain != STORE:
            return f"{kind} is in the chain of the store, and only there"
        if kind == RUN_STARTED.name:
            again = run in self._tips
            self._tips[run] = Tip(0, hash_)
            return f"the run {run} began before" if again else ""
        went = self._tips.pop(run, None)
        said = (event.get("links"), event.get("last"))
        if event["v"] == 1 or self._fault is not None or said == ((went.link, went.hash) if went else (None, None)):
            return ""
        return f"the run {run} ended with another event than the last one that is there"

    def _own(self, event: dict[str, Any], seq: int) -> str:
        """Return what is wrong with an event of the log about itself; "" if nothing."""
        kind = event.get("type")
        if (kind == AUDIT_OPENED.name) != (seq == 0):
            return f"{AUDIT_OPENED.name} is the first event of a log, and only that"
        if seq == 0:
            self._store = str(event.get("store", ""))
            return self._strangers()
        if kind == STORE_MOVED.name and "chain" not in event:
            self._left_out = None  # those of a server
        if kind == AUDIT_LOSS_ACCEPTED.name and not is_accepted(event):
            return "it says that a human accepts a loss, and its signature is not one"
        if kind != AUDIT_HEAD.name:
            return ""
        head = head_in(event)
        if head is None or not is_signed(head):
            return "it is a head, and its signature is not one"
        if not self._is_before(head, event, seq) or (self._store and head.store != self._store):
            return "it is a head of something else than the events before it"
        self._store = self._store or head.store
        self._last_head = head
        self._signers[f"user {head.signer[:16]}" if head.key == "user" else "process"] = None
        if head.key == "user":
            self._newest[head.signer] = Reached(head, dict(self._tips))
        return ""

    def _is_before(self, head: Head, event: dict[str, Any], seq: int) -> bool:
        """Tell whether a head that an event holds is of the events before that."""
        if event["v"] == 1:
            return (head.seq, head.hash) == (seq - 1, event.get("prev")) and head.count == seq
        if self._fault is not None:  # events are missing: nobody can tell
            return head.root != ""
        return head.count == self._count and self._agrees(head) and head.root != ""

    def _agrees(self, head: Head) -> bool:
        """Tell whether a head is of what was read just now."""
        root = self._fault is not None or head.root in ("", root_of(self._tips))
        return (head.seq, head.hash) == self._last and root

    def _strangers(self) -> str:
        """Return a sentence where a head that was kept elsewhere is of another log; "" where none is."""
        found = next((head.store for head in self._kept if head.store != self._store), None)
        return f"the head kept elsewhere is of the log {found}, this is {self._store}" if found and self._store else ""

    def result(self) -> Verification:
        if self._fault is None or self._fault[2] == "gap":
            self._compare()
        if self._fault is None and self._numbered and self._left_out is not None:
            due, problem, self._intact = self._left_out
            self._note(due, problem, "gap")
        count, last, head = self._intact
        found = Verification(
            count,
            head,
            last,
            self._digest.hexdigest(),
            store=self._store,
            last_head=self._last_head,
            signers=tuple(self._signers),
            newest_heads=tuple(self._newest.values()),
            since=self._since,
        )
        if self._since is not None and self.read < 2 and self._fault is None:  # the event after it says so far it goes
            self._stop(self._due, "its end was cut off: this event stood there when the log was checked")
        if self._fault is None and not self._count:
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
        # What is missing among others was the end of a chain. Where any are missing anyway, nobody can tell.
        missing = [seq for seq in self._wanted if seq >= self._due or self._fault is None]
        if missing:
            first, last = min(*missing, self._due), max(missing)
            events = f"event {first}" if first < self._due or first == last else f"events {first} to {last}"
            self._stop(first, f"its end was cut off: {events} once stood there, says the head kept elsewhere")

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


def _place(event: dict[str, Any], seq: int) -> tuple[str, int | None]:
    """Return the chain that an event is in, and its place there; None where it can't be that."""
    if event["v"] == 1:  # a log of that format is one chain
        return STORE, None if "chain" in event else seq
    chain, link = event.get("chain", STORE), event.get("link")
    fits = type(chain) is str and (chain == event.get("run") if chain != STORE else "chain" not in event)
    return (chain, link) if fits and type(link) is int else (STORE, None)


def _missing(due: int, seq: int, count: int) -> str:
    if count == seq - due:
        what = f"event {due} is" if count == 1 else f"events {due} to {seq - 1} are"
        return f"{what} missing: the next one is numbered {seq}"
    return f"{count} of the events before event {seq} {'is' if count == 1 else 'are'} missing"


def _content(entry: Entry) -> tuple[dict[str, Any] | None, str]:
    """The event in `entry`, or what is wrong with its bytes."""
    try:
        event = decoded(entry.body)
        as_written = is_canonical(entry.body, event)
    except (ValueError, RecursionError):
        return None, "not canonical JSON"
    if not isinstance(event, dict):
        return None, "not an event"
    if not as_written:
        return None, "its bytes are not canonical JSON: they were edited"
    if hashlib.sha256(entry.body).hexdigest() != entry.hash:
        return None, "its hash is not that of its bytes: one of them was edited"
    if type(version := event.get("v")) is not int or version not in (1, FORMAT):
        return None, "it is of no format that is known here"
    return event, ""
