"""The log as JSON lines: the same bytes, and the same verifier. An export can be cut short anywhere, and be resumed.

The log in the words of OCSF, for tools that read those: nothing verifies that but the log that it was made of.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from humanlayer_agent.audit.chain import Entry, said
from humanlayer_agent.audit.events import EVENT_TYPES
from humanlayer_agent.audit.verify import ANY
from humanlayer_agent.errors import ConfigError

_LINE = re.compile(rb'\{"e":(\{.*\}),"h":"([0-9a-f]{64})"\}\n', re.DOTALL)
_BLOCK = 1 << 16


class Torn(Exception):
    """The last line has no end. `seen` says how many lines before it were whole."""

    def __init__(self, seen: int) -> None:
        super().__init__(f"the last line, after {seen} whole ones, has no end")
        self.seen = seen


def read_entries(stream: Iterable[bytes]) -> Iterator[Entry]:
    """The entries of an export, as they stand there: for `verify`, which finds what is wrong with them.

    Raises:
        Torn: after the last whole line there is more.
    """
    for seen, line in enumerate(stream):
        if not line.endswith(b"\n"):
            raise Torn(seen)
        found = _LINE.fullmatch(line)
        yield Entry(ANY, found[2].decode(), found[1]) if found else Entry(ANY, "", line)


@dataclass(frozen=True, slots=True)
class Tail:
    """The end of an export: its last whole line (None: it has none), its length up to there, and what lies beyond."""

    last: Entry | None
    length: int
    torn: bytes


def tail_of(file: BinaryIO) -> Tail:
    """The end of an export, read from behind.

    Raises:
        ConfigError: its last whole line is not one of an export.
    """
    end = file.seek(0, os.SEEK_END)
    found, position = b"", end
    while position > 0 and found.count(b"\n") < 2:
        position = max(0, position - _BLOCK)
        file.seek(position)
        found = file.read(end - position)
    whole, newline, torn = found.rpartition(b"\n")
    if not newline:
        return Tail(None, 0, found)
    line = whole.rpartition(b"\n")[2] + b"\n"
    entry = _LINE.fullmatch(line)
    try:
        seq = json.loads(entry[1])["seq"] if entry else None
    except (ValueError, KeyError, RecursionError):
        seq = None
    if entry is None or type(seq) is not int:
        raise ConfigError("its last line is not one of an export")
    return Tail(Entry(seq, entry[2].decode(), entry[1]), end - len(torn), torn)


class Exporter:
    """Appends to one file; each entry is durable before `write` returns.

    A line that was cut off is removed first: `recovered` says what that was, for an `audit.recovered` event.

    Args:
        path: the file; made with mode 0600 where it is not there.

    Raises:
        ConfigError: it can't be written, or is no export.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recovered: dict[str, int | str] | None = None
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with os.fdopen(self._descriptor, "rb", closefd=False) as file:
                tail = tail_of(file)
            if tail.torn:
                os.ftruncate(self._descriptor, tail.length)
                os.fsync(self._descriptor)
                digest = hashlib.sha256(tail.torn).hexdigest()
                self.recovered = {"offset": tail.length, "bytes": len(tail.torn), "sha256": digest}
        except BlockingIOError as error:
            raise ConfigError(f"{path}: another export is writing it") from error
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from error
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        self.last = tail.last
        self._length = tail.length

    def write(self, entries: Iterable[Entry]) -> None:
        """Append entries, whole lines only. `last` is the newest that is durable, wherever this is interrupted.

        Raises:
            OSError: the disk is full, or gone.
        """
        lines: list[bytes] = []
        size = 0
        newest: Entry | None = None
        for newest in entries:
            lines.append(newest.line)
            size += len(lines[-1])
            if size >= _BLOCK:
                self._append(b"".join(lines), newest)
                lines, size = [], 0
        if newest is not None and lines:
            self._append(b"".join(lines), newest)

    def close(self) -> None:
        os.close(self._descriptor)

    def _append(self, lines: bytes, newest: Entry) -> None:
        written = 0
        try:
            while written < len(lines):  # always at the same place: what was interrupted is written over
                written += os.pwrite(self._descriptor, lines[written:], self._length + written)
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._length)
            raise
        self._length += written
        self.last = newest


# ---- OCSF ---------------------------------------------------------------------------------------------------

OCSF_VERSION = "1.3.0"
"""The version of the Open Cybersecurity Schema Framework whose classes are filled in."""

_PROCESS, _API = (1, 1007), (6, 6003)
"""Process Activity, and API Activity: each with its category."""

_LAUNCH, _TERMINATE = 1, 2
_CREATE, _READ, _UPDATE, _DELETE, _OTHER = 1, 2, 3, 4, 99
_SUCCESS, _FAILURE, _UNKNOWN = 1, 2, 0
_ALLOWED, _DENIED = 1, 2
_SEVERITIES = {"low": 2, "medium": 3, "high": 4, "critical": 5}
_RUNS_OF = {
    "decision.evaluated": _LAUNCH,
    "exec.started": _LAUNCH,
    "exec.finished": _TERMINATE,
    "exec.unknown": _TERMINATE,
}
_VERBS = {
    **dict.fromkeys(("run.started", "request.created", "grant.given", "absence.said", "hold.placed"), _CREATE),
    **dict.fromkeys(("audit.read",), _READ),
    **dict.fromkeys(("retention.purged", "grant.revoked", "person.removed", "absence.ended", "hold.lifted"), _DELETE),
}
_UPDATES = ("vote.recorded", "request.")
_FAILED = ("vote.refused", "vote.late", "permit.refused", "supervision.refused", "wall.refused", "login.refused")
_LOUD = (
    "supervision.break-glass",
    "supervision.stopped",
    "supervision.resumed",
    "audit.loss-accepted",
    "person.removed",
)
_KNOWN = 10_000
"""So many runs, and commands by their permits, are remembered to be told again where later events don't."""


class OCSF:
    """Makes of each event of a log what a SIEM reads: Process Activity of what is judged and run, API Activity of what
    people and hubs do. All that was written stands in `unmapped`, with the hash by which the log proves it.

    Example::

            made = OCSF(store_id)
            for entry in store.events():
                print(json.dumps(made(entry)))
    """

    def __init__(self, log: str, version: str) -> None:
        self._log = log
        self._version = version
        self._runs: dict[str, tuple[str, str]] = {}
        self._commands: dict[str, str] = {}

    def __call__(self, entry: Entry) -> dict[str, Any]:
        """Return what an event is in OCSF.

        Raises:
            ValueError: it can't be read.
        """
        event = entry.event
        if not isinstance(event, dict) or type(event.get("at")) is not int or type(event.get("type")) is not str:
            raise ValueError(f"event {entry.seq} is not one that this program writes")
        kind = event["type"]
        self._remember(kind, event)
        category, class_ = _PROCESS if kind in _RUNS_OF else _API
        activity = _RUNS_OF.get(kind) or _verb(kind)
        made: dict[str, Any] = {
            "category_uid": category,
            "class_uid": class_,
            "activity_id": activity,
            "type_uid": class_ * 100 + activity,
            "time": event["at"],
            "severity_id": _severity(kind, event),
            "status_id": _status(kind, event),
            "message": EVENT_TYPES[kind].meaning if kind in EVENT_TYPES else kind,
            "metadata": self._metadata(entry, event),
            "actor": self._actor(event),
            "unmapped": {"event": event, "hash": entry.hash},
        }
        if activity == _OTHER:
            made["activity_name"] = kind
        return made | (self._process(kind, event) if class_ == _PROCESS[1] else _api(kind, event))

    def _metadata(self, entry: Entry, event: dict[str, Any]) -> dict[str, Any]:
        about = said(event.get("request")) or said(event.get("run"))
        number = event["seq"] if type(event.get("seq")) is int else entry.seq
        return {
            "version": OCSF_VERSION,
            "product": {"name": "humanlayer-agent", "vendor_name": "humanlayer-agent", "version": self._version},
            "log_name": f"humanlayer-agent {self._log}",
            "uid": f"{self._log}:{number}",
            "sequence": number,
            "event_code": event["type"],
            "logged_time": event["at"],
            **({"correlation_uid": about} if about else {}),
            **({"profiles": ["security_control"]} if event["type"] == "decision.evaluated" else {}),
        }

    def _remember(self, kind: str, event: dict[str, Any]) -> None:
        if kind == "run.started":
            _kept(self._runs, said(event.get("run")), (said(event.get("requester")), said(event.get("agent"))))
        elif kind == "decision.evaluated" and (permit := said(event.get("permit")) or said(event.get("request"))):
            _kept(self._commands, permit, said(event.get("command")))

    def _actor(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return who did it: the human where there is one, else the agent, for whoever has started its run."""
        approver = event.get("approver")
        person = said(event.get("person"))
        principal = said(approver.get("principal")) if isinstance(approver, dict) else ""
        by = event.get("by")
        requester, agent = self._runs.get(said(event.get("run")), ("", ""))
        who = principal or (said(by) if isinstance(by, str) else "") or said(event.get("requester")) or requester
        user = {"name": person or who, "uid": who or person} if who or person else None
        app = said(event.get("agent")) or agent or "humanlayer-agent"
        return {"app_name": app, **({"user": user} if user else {})}

    def _process(self, kind: str, event: dict[str, Any]) -> dict[str, Any]:
        permit = said(event.get("permit"))
        command = said(event.get("command")) or self._commands.get(permit, "")
        command = command or self._commands.get(said(event.get("request")), "")
        made: dict[str, Any] = {
            "process": {
                "uid": permit or f"{self._log}:{event.get('seq')}",  # no process id: what is judged may never be one
                **({"cmd_line": command} if command else {}),
            },
            "device": {"type_id": 0, "name": "unknown"},  # the log is of a store, which may serve many machines
        }
        if kind == "decision.evaluated":
            verdict = event.get("verdict")
            made["action_id"] = {"allow": _ALLOWED, "deny": _DENIED}.get(str(verdict), 0)
            made["disposition_id"] = {"allow": 1, "deny": 2}.get(str(verdict), 0)  # Allowed, Blocked, Unknown
        if type(event.get("returncode")) is int:
            made["exit_code"] = event["returncode"]
        return made


def _verb(kind: str) -> int:
    return _VERBS.get(kind, _UPDATE if kind.startswith(_UPDATES) else _OTHER)


def _api(kind: str, event: dict[str, Any]) -> dict[str, Any]:
    approver = event.get("approver")
    channel = said(event.get("channel")) or (said(approver.get("channel")) if isinstance(approver, dict) else "")
    request = said(event.get("request"))
    return {
        "api": {
            "operation": kind,
            "service": {"name": "humanlayer-agent"},
            **({"request": {"uid": request}} if request else {}),
        },
        "src_endpoint": {"name": channel or "humanlayer-agent", "svc_name": channel or "humanlayer-agent"},
    }


def _severity(kind: str, event: dict[str, Any]) -> int:
    if kind == "decision.evaluated" and event.get("verdict") != "allow":
        return _SEVERITIES.get(str(event.get("severity")), 1)
    return 4 if kind in _LOUD else 2 if kind in _FAILED else 1


def _status(kind: str, event: dict[str, Any]) -> int:
    if kind == "decision.evaluated":
        return {"allow": _SUCCESS, "deny": _FAILURE}.get(str(event.get("verdict")), _UNKNOWN)
    if kind == "exec.unknown":
        return _UNKNOWN
    return _FAILURE if kind in _FAILED or (kind == "exec.finished" and event.get("returncode") != 0) else _SUCCESS


def _kept(known: dict[str, Any], name: str, value: Any) -> None:
    known[name] = value
    if len(known) > _KNOWN:
        del known[next(iter(known))]
