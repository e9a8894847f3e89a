"""Sealing events along all chains, as a store does; and as the first format of the log had it."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import BEGIN, GENESIS, STORE, Entry, Tip, seal
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.store.statements import Log


class Sealer:
    """Makes the events that follow `entries`, each in its chain."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.tips = {STORE: BEGIN}
        self._next = 0
        for entry in entries:
            self._take_in(entry)

    def __call__(self, kind: EventType, fields: Mapping[str, Any], *, at: int = 1, pid: int = 7) -> Entry:
        run = fields.get("run")
        goes_on = type(run) is str and run in self.tips
        chain = str(run) if goes_on and kind not in (events.RUN_STARTED, events.RUN_FINISHED) else STORE
        if goes_on and kind is events.RUN_FINISHED:
            fields = {**fields, "links": self.tips[str(run)].link, "last": self.tips[str(run)].hash}
        entry = seal(self._next, self.tips[chain], kind, chain=chain, at=at, pid=pid, fields=fields)
        self._take_in(entry)
        return entry

    def _take_in(self, entry: Entry) -> None:
        event = entry.event
        self.tips[event.get("chain", STORE)] = Tip(event.get("link", event["seq"]), entry.hash)
        self._next = event["seq"] + 1
        if type(event.get("run")) is not str:
            return
        if event["type"] == events.RUN_STARTED.name:
            self.tips[event["run"]] = Tip(0, entry.hash)
        elif event["type"] == events.RUN_FINISHED.name:
            self.tips.pop(event["run"], None)


def append_in_format_1(log: Log, kind: EventType, **fields: Any) -> None:
    """Append an event to a store whose schema is older than chains of runs, as was done then."""
    newest = log.rows("SELECT seq, hash FROM audit_event ORDER BY seq DESC LIMIT 1")
    seq, prev = (newest[0]["seq"] + 1, newest[0]["hash"]) if newest else (0, GENESIS)
    said = {name: value for name, value in log.redactor().fields(fields).items() if value is not None}
    common = {"v": 1, "seq": seq, "prev": prev, "type": kind.name, "code": kind.code, "at": log.now, "pid": os.getpid()}
    body = canonical(said | common)
    values = (seq, hashlib.sha256(body).hexdigest(), body.decode())
    log.change("INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", *values)
