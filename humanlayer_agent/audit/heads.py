"""Signed heads: how far a log goes, said so that somebody outside can keep it.

A chain alone does not show that its tail was cut, or that all of it was written anew. A head that is kept where whoever
writes the log can't reach it (a chat, a mailbox, another machine) shows both.

Ed25519: has a key signed this?
"""

import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

from humanlayer_agent.canonical_json import canonical


def is_signature(key: str, signature: str, text: bytes) -> bool:
    """Tell whether `key` (the public key in hex) made `signature` (hex) of `text`. False for what is none at all."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), text)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


EVERY_EVENTS = 1_000
EVERY_MS = 60_000
"""A head is written after so many events, and where something is written so long after the last one."""

_PURPOSE = "humanlayer-agent head 1"
_BEGIN = "hla-head-1"

KeyKind = Literal["user", "process"]


class Signs(Protocol):
    """The part of a key that a head needs (`keys.signing.Signer` has it)."""

    @property
    def fingerprint(self) -> str: ...

    def sign_text(self, text: bytes) -> str: ...


@dataclass(frozen=True, slots=True)
class Head:
    """The newest event of a log at one time (ms): its number, its hash, and how many events there are.

    `signer` is the fingerprint of the key that made `signature`; `key` says whose that is: the user's own, from a file,
    or one that only the process had which wrote it. `store` identifies the log.
    """

    store: str
    seq: int
    hash: str
    count: int
    time: int
    key: KeyKind = "process"
    signer: str = ""
    signature: str = ""

    def fields(self) -> dict[str, Any]:
        """As an `audit.head` event holds it."""
        whole = asdict(self)
        return {"signer": whole.pop("signer"), "head_signature": whole.pop("signature"), "head": whole}


def statement(head: Head) -> bytes:
    """Return the text that is signed: canonical JSON of everything but the signature."""
    said = asdict(head) | {"purpose": _PURPOSE}
    del said["signer"], said["signature"]
    return canonical(said)


def signed(head: Head, signer: Signs) -> Head:
    """`head` with the signature of `signer`."""
    signature = signer.sign_text(statement(head))
    return Head(head.store, head.seq, head.hash, head.count, head.time, head.key, signer.fingerprint, signature)


def is_signed(head: Head) -> bool:
    """Tell whether the key that `head` names has signed it. (Whose key that is, is another question.)"""
    return is_signature(head.signer, head.signature, statement(head))


def head_in(event: dict[str, Any]) -> Head | None:
    """The head that an `audit.head` event holds; None where it holds none."""
    try:
        said = event["head"]
        head = Head(**said, signer=event["signer"], signature=event["head_signature"])
        numbers = (head.seq, head.count, head.time)
        texts = (head.store, head.hash, head.key, head.signer, head.signature)
    except (KeyError, TypeError):
        return None
    fine = all(type(number) is int for number in numbers) and all(type(text) is str for text in texts)
    return head if fine else None


# ---- as text, for chats and mails --------------------------------------------------------------------


def head_text(head: Head) -> str:
    """`head` on one line, to be posted where people keep it; `heads_in` finds it again in any text.

    Example:
        >>> head_text(Head("5f", 41, "ab", 42, 1700000000000))
        'hla-head-1 store=5f seq=41 hash=ab count=42 time=1700000000000 key=process signer= signature='
    """
    return " ".join([_BEGIN, *(f"{name}={value}" for name, value in asdict(head).items())])


def head_line(head: Head) -> str:
    """`head` in short, for people; nothing can be verified with it.

    Example:
        >>> head_line(Head("5f", 1041, "ab" * 32, 1042, 1700000000000, "user", "cd" * 32))
        'event 1,041 of 2023-11-14 22:13:20 UTC is signed: hash abababababab, key cdcdcdcdcdcd (whole: hla audit head)'
    """
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(head.time / 1000))
    key = f"{head.signer[:12]}{'' if head.key == 'user' else ', of this process only'}"
    return f"event {head.seq:,} of {when} is signed: hash {head.hash[:12]}, key {key} (whole: hla audit head)"


_HEX = r"[0-9a-f]{%d}"
_FIELDS = {
    "store": _HEX % 32, "seq": r"\d{1,16}", "hash": _HEX % 64, "count": r"\d{1,16}", "time": r"\d{1,16}",
    "key": r"user|process", "signer": _HEX % 64, "signature": _HEX % 128,
}  # fmt: skip
_TEXT = re.compile(rf"{_BEGIN}\s+" + r"\s+".join(rf"{name}=(?P<{name}>{form})" for name, form in _FIELDS.items()))
_WRAPPED = re.compile(r"=?\r?\n(?:> ?)*[ \t]*")


def heads_in(text: str) -> list[Head]:
    """Every head in a text: a chat message, a mail (wrapped and quoted ones too), lines of an export."""
    found = [*_TEXT.finditer(text)] or [*_TEXT.finditer(_WRAPPED.sub(" ", text))]
    # A mail may be wrapped within the long hexadecimal numbers.
    found = found or [*_TEXT.finditer(re.sub(r"(?<=[0-9a-f]) (?=[0-9a-f]+\b(?!=))", "", _WRAPPED.sub(" ", text)))]
    heads = []
    for each in found:
        said: dict[str, Any] = each.groupdict()
        heads.append(Head(**said | {name: int(said[name]) for name in ("seq", "count", "time")}))
    return heads + _of_export(text)


def _of_export(text: str) -> list[Head]:
    import json

    heads = []
    for line in text.splitlines():
        if line.startswith('{"e":') and '"audit.head"' in line:
            try:
                event = json.loads(line)["e"]
            except (ValueError, KeyError, RecursionError):
                continue
            if isinstance(event, dict) and event.get("type") == "audit.head" and (head := head_in(event)):
                heads.append(head)
    return heads
