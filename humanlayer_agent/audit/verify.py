"""Is the log still what was written? Everything is computed again, and bytes are compared.

Parsing and hashing again would pass a duplicate key or added white space: only the canonical bytes themselves count.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from humanlayer_agent.actions import canonical
from humanlayer_agent.audit.chain import GENESIS, Entry
from humanlayer_agent.audit.events import AUDIT_OPENED


@dataclass(frozen=True, slots=True)
class Verification:
    """What the verifier found.

    `count` events are intact, and `head` is the hash of the last of them. `bad_seq` is the place of the first event
    that is not what was written (None where all are), and `problem` says what is wrong there.
    """

    count: int
    head: str
    bad_seq: int | None = None
    problem: str = ""

    @property
    def intact(self) -> bool:
        return self.bad_seq is None


def verify(entries: Iterable[Entry]) -> Verification:
    """Check a whole log, from its first event.

    A chain alone can't show that its tail was cut or that all of it was written anew: that takes a head kept elsewhere.
    """
    count, head = 0, GENESIS
    for entry in entries:
        if problem := _problem(entry, count, head):
            return Verification(count, head, count, problem)
        count, head = count + 1, entry.hash
    if not count:
        return Verification(0, head, 0, "the log is empty: its first event is missing")
    return Verification(count, head)


def _problem(entry: Entry, seq: int, prev: str) -> str:
    """What is wrong with `entry` as event number `seq` after the hash `prev`; "" if nothing."""
    if entry.seq != seq:
        return f"event {seq} is missing: the next one is numbered {entry.seq}"
    try:
        event = json.loads(entry.body)
        rewritten = canonical(event)
    except (ValueError, RecursionError):  # rfc8785's own errors are ValueErrors
        return "not canonical JSON"
    if not isinstance(event, dict):
        return "not an event"
    if rewritten != entry.body:
        return "its bytes are not canonical JSON: they were edited"
    if hashlib.sha256(entry.body).hexdigest() != entry.hash:
        return "its hash is not that of its bytes: one of them was edited"
    if event.get("seq") != seq:
        return f"it says that it is event {event.get('seq')}"
    if event.get("prev") != prev:
        return "it does not follow the event before it"
    if (event.get("type") == AUDIT_OPENED.name) != (seq == 0):
        return f"{AUDIT_OPENED.name} is the first event of a log, and only that"
    return ""
