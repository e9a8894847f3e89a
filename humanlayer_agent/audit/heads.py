"""Signed heads: how far a log goes, said so that somebody outside can keep it.

A chain alone does not show that its tail was cut, or that all of it was written anew. A head that is kept where whoever
writes the log can't reach it (a chat, a mailbox, another machine) shows both.

Ed25519: has a key signed this?
"""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from humanlayer_agent.audit.chain import Tip
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

_PURPOSE = "humanlayer-agent head"
_BEGIN = "hla-head-"

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
    or one that only the process had which wrote it. `store` identifies the log. `root` stands for the newest events of
    all chains (`root_of`); heads of format 1, and those that say nothing but that one event stood there, have none.
    """

    store: str
    seq: int
    hash: str
    count: int
    time: int
    key: KeyKind = "process"
    signer: str = ""
    signature: str = ""
    root: str = ""

    def fields(self) -> dict[str, Any]:
        """As an `audit.head` event holds it."""
        whole = _said(self)
        return {"signer": whole.pop("signer"), "head_signature": whole.pop("signature"), "head": whole}


def _said(head: Head) -> dict[str, Any]:
    """Return what a head says, without a root that it does not have."""
    return {name: value for name, value in asdict(head).items() if name != "root" or value}


def _format(head: Head) -> int:
    return 2 if head.root else 1


def root_of(tips: Mapping[str, Tip]) -> str:
    """Return the root (hex) of the Merkle tree over the newest events of all chains, in the order of their names.

    The tree is that of RFC 9162, section 2.1.1, with SHA-256. A leaf is the canonical JSON of `[chain, link, hash]`.

    Example:
        >>> root_of({"": Tip(0, "ab")})[:16], root_of({"": Tip(0, "ab"), "r": Tip(1, "cd")})[:16]
        ('078961807a84441e', '2023c1a6b8cb72d6')
    """
    leaves = (canonical([chain, tip.link, tip.hash]) for chain, tip in sorted(tips.items()))
    level = [hashlib.sha256(b"\0" + leaf).digest() for leaf in leaves]
    while len(level) > 1:
        pairs = (level[at : at + 2] for at in range(0, len(level), 2))
        level = [hashlib.sha256(b"\1" + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].hex() if level else hashlib.sha256().hexdigest()


def statement(head: Head) -> bytes:
    """Return the text that is signed: canonical JSON of everything but the signature."""
    said = _said(head) | {"purpose": f"{_PURPOSE} {_format(head)}"}
    del said["signer"], said["signature"]
    return canonical(said)


def signed(head: Head, signer: Signs) -> Head:
    """`head` with the signature of `signer`."""
    return replace(head, signer=signer.fingerprint, signature=signer.sign_text(statement(head)))


def is_signed(head: Head) -> bool:
    """Tell whether the key that `head` names has signed it. (Whose key that is, is another question.)"""
    return is_signature(head.signer, head.signature, statement(head))


def head_in(event: dict[str, Any]) -> Head | None:
    """The head that an `audit.head` event holds; None where it holds none."""
    try:
        said = event["head"]
        head = Head(**said, signer=event["signer"], signature=event["head_signature"])
        numbers = (head.seq, head.count, head.time)
        texts = (head.store, head.hash, head.key, head.signer, head.signature, head.root)
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
    return " ".join([f"{_BEGIN}{_format(head)}", *(f"{name}={value}" for name, value in _said(head).items())])


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


def _form(space: str) -> re.Pattern[str]:
    said = space.join(f"{name}=(?P<{name}>{form})" for name, form in _FIELDS.items())
    return re.compile(rf"{_BEGIN}(?:1|(?P<two>2)){space}{said}(?(two){space}root=(?P<root>{_HEX % 64}))")


_TEXT, _CLOSE = _form(r"\s+"), _form("")
_WRAPPED = re.compile(r"=?\r?\n(?:> ?)*[ \t]*")


def heads_in(text: str) -> list[Head]:
    """Every head in a text: a chat message, a mail (wrapped and quoted ones too), lines of an export."""
    found = [*_TEXT.finditer(text)] or [*_TEXT.finditer(_WRAPPED.sub(" ", text))]
    found = found or [*_CLOSE.finditer("".join(_WRAPPED.sub("", text).split()))]  # a mail may be wrapped within words
    heads = []
    for each in found:
        said: dict[str, Any] = {name: value for name, value in each.groupdict("").items() if name != "two"}
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
