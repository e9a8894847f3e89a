"""The record of the last whole verification of a log: from there on it can be verified without reading all of it.

It holds a head that the user's audit key has signed, the events that it is the root of, and a signature of that key
which says that everything up to it was found intact. A head alone would not do: the log is full of them, and whoever
could put one here would have everything before it passed over. Whoever reads the audit key can sign a record too, so it
never stands for what it saves: what is said of a log is said since that head, and `hla audit verify` reads everything.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.audit.chain import Tip
from humanlayer_agent.audit.heads import Head, head_in, is_signature, is_signed
from humanlayer_agent.audit.verify import Reached, Verification
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.locations import audit_key_path, data_folder, read_own_json, write_own_json

if TYPE_CHECKING:
    from humanlayer_agent.approvals.store_interface import Store

_PURPOSE = "humanlayer-agent verification 2"
_STORE = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Checked:
    """A head up to which a log was read whole and found intact, how far its chains went, and when (ms)."""

    reached: Reached
    at: int

    @property
    def head(self) -> Head:
        return self.reached.head


def verify_since_checked(
    store: "Store", *, heads: Sequence[Head] = (), progress: Callable[[int], None] = lambda count: None
) -> tuple[Verification, Checked | None]:
    """Verify what came after the last whole verification of a store, and the rows that it tells of.

    Args:
        heads: kept elsewhere.

    Returns:
        What was found, and what it goes on from. None: there is nothing to go on from, and everything was read.

    Raises:
        StoreError: the store can't be read.
    """
    checked = last_whole(store)
    found = store.verify(heads=heads, progress=progress, since=checked.reached if checked else None)
    return _recorded(found), checked if found.since is not None else None


def verify_whole(
    store: "Store", *, heads: Sequence[Head] = (), progress: Callable[[int], None] = lambda count: None
) -> Verification:
    """Verify all of a store; where it is intact, and the audit key has signed a head in it, that is recorded.

    Args:
        heads: kept elsewhere.

    Raises:
        StoreError: the store can't be read.
    """
    return _recorded(store.verify(heads=heads, progress=progress))


def _recorded(found: Verification) -> Verification:
    if found.intact and found.since is None:
        with suppress(ConfigError, OSError):
            _write(found, AuditKey(audit_key_path()))
    return found


def last_whole(store: "Store") -> Checked | None:
    """Return what the record of this log says; None where there is none that the user's audit key has signed."""
    try:
        first = next(store.events(), None)
        named = first.event.get("store") if first is not None else None
        return _read(named, AuditKey(audit_key_path()).fingerprint) if isinstance(named, str) else None
    except (ConfigError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def forget(store: str) -> None:
    """Remove the record of a log (by its identity), so that the next verification reads everything.

    Raises:
        OSError: it can't be removed.
    """
    with suppress(ConfigError):
        _path(store).unlink(missing_ok=True)


def _path(store: str) -> Path:
    if not _STORE.fullmatch(store):
        raise ConfigError("a log without an identity can't be recorded")
    return data_folder() / f"verified-{store}.json"


def _statement(head: Head, at: int) -> bytes:
    return canonical({"purpose": _PURPOSE, "head": asdict(head), "at": at})


def _read(store: str, key: str) -> Checked | None:
    said = read_own_json(_path(store)) or {}
    head, at, signature = head_in(said["head"]), said["at"], said["signature"]
    if head is None or type(at) is not int or type(signature) is not str:
        return None
    reached = Reached(head, {str(chain): Tip(link, hash_) for chain, (link, hash_) in said["tips"].items()})
    ours = head.store == store and head.key == "user" and head.signer == key and is_signed(head)
    ours = ours and reached.agrees
    return Checked(reached, at) if ours and is_signature(key, signature, _statement(head, at)) else None


def _write(found: Verification, key: AuditKey) -> None:
    reached = next((each for each in found.newest_heads if each.head.signer == key.fingerprint), None)
    if reached is None or not reached.agrees:
        return
    at, head = now_ms(), reached.head
    tips = {chain: [tip.link, tip.hash] for chain, tip in reached.tips.items()}
    said = {"head": head.fields(), "tips": tips, "at": at, "signature": key.sign_text(_statement(head, at))}
    write_own_json(_path(found.store), said)
