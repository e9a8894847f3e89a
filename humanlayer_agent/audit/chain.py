"""The hash chains: each event holds the hash of the one before it in its chain, in RFC 8785 canonical JSON.

Each run has a chain of its own, so that no run waits for another to write; what is of no run that goes on is in the
chain of the store. The events that a run starts and ends with are in that one too: a run's chain begins with the hash
of the first, and the second says how far it went, so that no run can vanish. Logs of format 1 are one chain.

`seq`, `chain`, `link` and `prev` are inside the hashed bytes: the place in the whole log, the chain (none: that of the
store), the place in it, and the hash of the event before. Order is by `seq`, never by time; in the log of a server
numbers may be missing, where something was not done in the end. There are no floats. Text that is not valid Unicode is
written as base64 with an escaped form to read: no command can keep the log from being written.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from humanlayer_agent.audit.events import EventType
from humanlayer_agent.canonical_json import canonical, encodable

FORMAT = 2
"""The version of the event format, in each event as `v`."""

GENESIS = "0" * 64
"""`prev` of the first event."""

STORE = ""
"""The chain of what is of no run that goes on."""

_LIMIT = 2**53

COMMON = frozenset({"v", "seq", "chain", "link", "prev", "type", "code", "at", "pid"})
"""The fields that any event has, whatever happened."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One sealed event: its place, the SHA-256 (hex) of `body`, and `body`, its canonical bytes."""

    seq: int
    hash: str
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The event as it was written."""
        value: dict[str, Any] = json.loads(self.body)
        return value

    @property
    def line(self) -> bytes:
        """The line of an export, with the bytes that were hashed: `{"e":<event>,"h":"<hash>"}` and a line feed."""
        return b'{"e":' + self.body + b',"h":"' + self.hash.encode() + b'"}\n'


@dataclass(frozen=True, slots=True)
class Tip:
    """The newest event of a chain: its place there, and its hash."""

    link: int
    hash: str


BEGIN = Tip(-1, GENESIS)
"""The tip of the store's chain before its first event."""


def seal(
    seq: int, tip: Tip, kind: EventType, *, chain: str = STORE, at: int, pid: int, fields: Mapping[str, Any]
) -> Entry:
    """The entry that follows `tip`.

    Args:
        seq: its place in the log.
        tip: the newest event of its chain, read under the same lock that the new one is written under.
        kind: what happened.
        chain: the run whose chain it is in.
        at: when, milliseconds since the epoch.
        pid: the process that says so.
        fields: everything else; None values are left out.

    Raises:
        ValueError: a field that can't be part of an event (a float, an integer beyond 2**53, a reserved name).
    """
    body = _body(kind, seq, chain, tip.link + 1, tip.hash, at, pid, fields)
    return Entry(seq, hashlib.sha256(body).hexdigest(), body)


def unsealed(kind: EventType, *, chain: str, mark: str, pid: int, fields: Mapping[str, Any]) -> str:
    """The body of an event that a database seals by itself, which alone knows its place and its time.

    Args:
        chain: the run whose chain it is in.
        mark: a text that stands nowhere else. Where the database writes `seq`, `link`, `prev` and `at`, there stands
            the JSON string of it with that name behind.

    Raises:
        ValueError: as for `seal`.
    """
    return _body(kind, f"{mark}seq", chain, f"{mark}link", f"{mark}prev", f"{mark}at", pid, fields).decode()


def _body(
    kind: EventType,
    seq: int | str,
    chain: str,
    link: int | str,
    prev: str,
    at: int | str,
    pid: int,
    fields: Mapping[str, Any],
) -> bytes:
    if reserved := COMMON & fields.keys():
        raise ValueError(f"event {kind.name}: field names {sorted(reserved)} are reserved")
    event = {name: loggable(value) for name, value in fields.items() if value is not None}
    event |= {"v": FORMAT, "seq": seq, "link": link, "prev": prev}
    event |= {"type": kind.name, "code": kind.code, "at": at, "pid": pid}
    if chain != STORE:
        event["chain"] = chain
    return canonical(event)


def decoded(body: bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is none, or has a number that no event can have.
        RecursionError: it is nested too deeply.
    """
    return _reader.decode(body.decode(json.detect_encoding(body), "surrogatepass"))


def _refuse(number: str) -> None:
    raise ValueError(f"{number[:20]} can't be part of an audit event")


def _integer(digits: str) -> int:
    if len(digits) > 17 or abs(number := int(digits)) >= _LIMIT:
        raise ValueError(f"{digits[:20]} can't be part of an audit event")
    return number


_reader = json.JSONDecoder(parse_float=_refuse, parse_constant=_refuse, parse_int=_integer)


def said(value: Any) -> str:
    """Return a field of an event as text: what was not Unicode has an escaped form beside it.

    Example:
        >>> said("ls"), said(None), said({"base64": "/w==", "encoding": "base64", "display": "\\\\xff"})
        ('ls', '', '\\\\xff')
    """
    if value is None:
        return ""
    return str(value["display"] if isinstance(value, dict) and "display" in value else value)


def loggable(value: Any) -> Any:
    """`value` as an event can hold it; text that is not Unicode becomes a mapping with base64, encoding and display."""
    if isinstance(value, str):
        if value.isascii():
            return value
        written = encodable(value)
        if isinstance(written, dict):
            return written | {"display": value.encode("utf-8", "backslashreplace").decode()}
        return written
    if value is None or isinstance(value, int):
        if value is not None and abs(value) >= _LIMIT:
            raise ValueError(f"{value} exceeds what other programs read exactly: no part of an audit event")
        return value
    if isinstance(value, Mapping):
        return {name: loggable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [loggable(item) for item in value]
    raise ValueError(f"{type(value).__name__} can't be part of an audit event")
