"""Anchors: how far a log went, kept beside the key that signs its heads.

A store that was set back to an older copy, emptied or deleted agrees with itself. The anchor of each store is a signed
head in the user's own folder, by which the next process sees that events are missing. Whoever has the user's power can
write both back, so an anchor is evidence, and no wall: against that, heads are kept where they can't be reached.
"""

import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.audit.heads import Head, head_text, heads_in, is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.locations import anchor_folder, read_own_json, temporary_folder, write_own_json

EVERY_MS = 1_000
"""An anchor is written where the last one is so old. It is not made durable: after a crash the one before it serves."""

REMEDY = "Restore what is missing, or find out what happened and go on without it: hla audit accept-loss"
"""What a human can do about a loss."""

_FORMAT = "humanlayer-agent anchor 1"
_ACCEPTED = "humanlayer-agent loss 1"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A signed head of a store, and where that was then: its real path, and the name of the machine; or its address.

    It goes by the identity of the log, so a store may be moved. `accepted` is the newest of the events that a human
    goes on without; -1: there are none.
    """

    head: Head
    path: str
    host: str
    accepted: int = -1

    @property
    def file(self) -> Path:
        """Where it is kept."""
        return anchor_file(self.head.store)


@dataclass(frozen=True, slots=True)
class Loss:
    """Events that an anchor names and the log has no more. `left` is the newest that is there; None: there is none."""

    anchor: Anchor
    left: int | None
    left_at: int = 0

    @property
    def first(self) -> int:
        """The first event that is missing, or the one that is another."""
        return min(-1 if self.left is None else self.left, self.anchor.head.seq - 1) + 1

    @property
    def description(self) -> str:
        """Sentences that tell what is missing, and which anchor says so."""
        last, left = self.anchor.head.seq, self.left
        if left is None:
            what = f"is gone, or another one is in its place: its log went to event {last}"
        elif left < last:
            gone = f"events {left + 1} to {last} are" if left + 1 < last else f"event {last} is"
            what = f"was set back: its log ends at event {left} ({_time(self.left_at)}), and {gone} missing"
        else:
            what = f"was written anew: event {last}, or one before it, is not the one that stood there"
        once = _time(self.anchor.head.time)
        return f"the store {self.anchor.path} {what}. The anchor {self.anchor.file} of {once} says so"

    def __str__(self) -> str:
        return f"{self.description}. {REMEDY}"

    def fields(self) -> dict[str, Any]:
        """What an event says of it."""
        lost = self.anchor.head
        return {"lost": {"store": lost.store, "seq": lost.seq, "hash": lost.hash, "time": lost.time}, "left": self.left}


def acceptance(event: Mapping[str, Any]) -> bytes:
    """Return the text that a human signs who goes on without what is lost: what that is, and who says so."""
    said = {name: event.get(name) for name in ("lost", "left", "approver", "signer")}
    return canonical(said | {"purpose": _ACCEPTED})


def is_accepted(event: Mapping[str, Any]) -> bool:
    """Tell whether the key that an event of this kind names has signed it. (Whose key that is, is another question.)"""
    return is_signature(str(event.get("signer")), str(event.get("loss_signature")), acceptance(event))


def anchor_at(head: Head, path: Path | str, accepted: int) -> Anchor:
    """The anchor of the store that is at `path` now."""
    return Anchor(head, *_place(path), accepted)


def is_anchored(path: Path | str) -> bool:
    """Tell whether the store at `path` has an anchor. One among temporary files has none that would outlive it."""
    if isinstance(path, str) and "://" in path:
        return True
    temporary = os.path.realpath(temporary_folder())
    stays, kept = (not Path(os.path.realpath(each)).is_relative_to(temporary) for each in (path, anchor_folder()))
    return stays or not kept


def anchor_file(store: str) -> Path:
    """Where the anchor of a log (by its identity) is kept."""
    return anchor_folder() / f"{store}.json"


def read_anchor(file: Path) -> Anchor | None:
    """The anchor in a file; None where there is none that this user alone can have written."""
    found = read_own_json(file)
    if found is None or found.get("format") != _FORMAT:
        return None
    head, path, host, accepted = (found.get(name) for name in ("head", "path", "host", "accepted"))
    if not (isinstance(head, str) and isinstance(path, str) and isinstance(host, str) and isinstance(accepted, int)):
        return None
    heads = heads_in(head)
    return Anchor(heads[0], path, host, accepted) if len(heads) == 1 else None


def write_anchor(anchor: Anchor) -> None:
    """Keep an anchor in the place of the one before it.

    Raises:
        OSError: it can't be written.
    """
    said = {"head": head_text(anchor.head), "path": anchor.path, "host": anchor.host, "accepted": anchor.accepted}
    write_own_json(anchor.file, {"format": _FORMAT} | said, required=True)


def anchor_of(path: Path | str) -> Anchor | None:
    """The anchor of the store that is, or was, at `path` on this machine; None where there was none."""
    found = read_own_json(_place_file(path))
    store = found.get("store") if found else None
    anchor = read_anchor(anchor_file(store)) if isinstance(store, str) and "/" not in store else None
    return anchor if anchor and (anchor.path, anchor.host) == _place(path) else None


def write_place(path: Path | str, store: str) -> None:
    """Keep which store is at `path`, for `anchor_of`.

    Raises:
        OSError: it can't be written.
    """
    write_own_json(_place_file(path), {"store": store, "path": _place(path)[0]}, required=True)


def _place(path: Path | str) -> tuple[str, str]:
    if isinstance(path, str) and "://" in path:  # a server's: the same from every machine
        return path, ""
    return os.path.realpath(path), os.uname().nodename


def _place_file(path: Path | str) -> Path:
    name = hashlib.sha256("\0".join(_place(path)).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return anchor_folder() / f"at-{name}.json"


def _time(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000))
