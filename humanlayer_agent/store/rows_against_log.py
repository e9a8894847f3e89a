"""The comparison of the tables with the log: each row is held against the events that made it.

The chain shows an edited log. A row edited with SQL, with the triggers dropped, leaves the chain whole: it shows here.
"""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from humanlayer_agent.approvals.holds import Held
from humanlayer_agent.redaction.redactor import LABEL, Redactor
from humanlayer_agent.store.retention_scope import FORM, HELD_FORM, Bounds, Settled, Told, settled
from humanlayer_agent.store.rows import context_digest, dump_groups
from humanlayer_agent.store.statements import log_key
from humanlayer_agent.store.transactions import Connection, Row

_SETTLED = ("approved", "rejected", "answered", "expired", "withdrawn", "superseded", "terminated")
_UNUSED = ("revoked", "lapsed", "invalidated")

_TABLES = {
    "run": "SELECT id, agent, instance, requester, project, state FROM run",
    "request": "SELECT id, run_id AS run, digest, requester, created AS asked, expires, valid_for, state, decided, "
    "body, action, decision, parent, needed, rule, escalated, kept FROM request",
    "vote": "SELECT decision_id AS id, request_id AS request, answer, principal, channel, assurance, "
    "presented_digest, comment, input_mode, at, pid, edited, person, solo, signer, signature, member_of, scope "
    "FROM vote",
    "permit": "SELECT id, run_id AS run, request_id AS request, digest, state FROM permit",
    "execution": "SELECT permit_id AS id, state, started, returncode FROM execution",
    "grant": "SELECT id, project, policy, given, until, max_uses, uses, revoked, revoked_by FROM given_grant",
    "use": "SELECT grant_id || ':' || use AS id, permit_id AS permit, at FROM grant_use",
    "halt": "SELECT id, at, principal, reason FROM halt",
    "resumption": "SELECT id, halt, at, principal, person, channel, assurance, comment, signer, signature "
    "FROM resumption",
}
_KEYS = {"vote": "decision_id", "execution": "permit_id", "use": "grant_id || ':' || use"}
"""What identifies a row, where that is not `id`."""


class Agreement:
    """Collects what a log tells of each row, then compares.

    Args:
        whole: the log is heard from its first event. Else only the rows that it tells of are compared, with that.

    Example::

            told = Agreement()
            verification = verify(entries, hear=told.hear)
            told.first_difference(connection)
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._whole = whole
        self._told: dict[str, dict[str, Told]] = {table: {} for table in _TABLES}
        self._at = 0  # of the event that is being heard
        self.strange: tuple[int, str] | None = None  # what could not be heard, and why: nothing was from there on
        self._held: dict[str, list[Held]] = {}
        self._lifted: set[str] = set()
        self._hearers = {
            "run": self._hear_run,
            "request": self._hear_request,
            "vote": self._hear_vote,
            "decision": self._hear_decision,
            "permit": self._hear_permit,
            "exec": self._hear_exec,
            "grant": self._hear_grant,
            "supervision": self._hear_supervision,
            "retention": self._hear_retention,
            "hold": self._hear_hold,
        }

    def hear(self, event: dict[str, Any]) -> bool:
        """Hear the next event, which was found intact and is nobody else's; False where it is not one of ours."""
        try:
            event |= event.get("exact") or {}  # what was redacted: keyed digests of it
            self._at = int(event["at"])
            family, _, what = event["type"].partition(".")
            if hear := self._hearers.get(family):
                hear(what, event)
        except (KeyError, TypeError, ValueError, AttributeError):  # a chain that somebody else wrote anew
            self.strange = (event["seq"], f"event {event['seq']} is not one that this program writes")
        return self.strange is None

    def first_difference(self, connection: Connection) -> tuple[int | None, str] | None:
        """The first row that is not as told: the event that tells otherwise (None where none does), and the problem."""
        if self.strange:
            return self.strange
        redactor = Redactor(log_key(connection))
        for table, query in _TABLES.items():
            told = self._told[table]
            seen = set()
            rows = connection.execute(f"{query} NOT INDEXED") if self._whole else _rows_of(connection, table, told)
            for row in rows:  # a server sends them in parts
                seen.add(row["id"])
                known = told.get(row["id"])
                if problem := _difference(table, row, known, redactor, self._whole):
                    return (known.seq if known else None), f"{table} {row['id']}: {problem}"
            for missing in told.keys() - seen:
                return told[missing].seq, f"{table} {missing}: its row is missing"
        return None

    def _tell(self, table: str, key: str, seq: int, **fields: Any) -> None:
        told = self._told[table].setdefault(key, Told(seq))
        told.seq, told.at, told.first = seq, self._at, told.first or self._at
        told.fields |= fields

    def _hear_run(self, what: str, event: dict[str, Any]) -> None:
        fields: dict[str, Any] = {}
        if what == "started":
            fields = {name: event[name] for name in ("agent", "instance", "requester", "project")} | {"state": "open"}
        elif what == "stopped":
            fields = {"state": "terminated"}
        elif what == "finished":
            fields = {"state": event["state"]}
        self._tell("run", event["run"], event["seq"], **fields)

    def _hear_request(self, what: str, event: dict[str, Any]) -> None:
        fields: dict[str, Any] = {}
        if what == "created":
            names = ("run", "digest", "requester", "asked", "expires", "valid_for", "context")
            fields = {name: event[name] for name in names} | {"state": "pending", "decided": None}
            fields |= {"parent": event.get("parent"), "rule": event.get("rule", ""), "escalated": 0}
            fields |= {"needed": event.get("needed", 1), "kept": int(event.get("kept", False))}
        elif what == "adopted":
            fields = {"run": event["run"]}
        elif what == "escalated":
            fields = {"escalated": event["level"]}
        elif what in _UNUSED:
            fields = {"state": what}
        elif what in _SETTLED:
            fields = {"state": what, "decided": event["at"]}
        self._tell("request", event["request"], event["seq"], **fields)

    def _hear_vote(self, what: str, event: dict[str, Any]) -> None:
        if what == "recorded":
            fields = {
                name: event[name] for name in ("request", "answer", "presented_digest", "input_mode", "at", "pid")
            }
            fields |= {name: event.get(name, "") for name in ("edited", "person", "signer", "signature", "scope")}
            fields["solo"] = event.get("solo", False)
            comment = event["comment"]
            fields["comment"] = comment if isinstance(comment, str) else comment["display"]
            who = dict(event["approver"])
            fields["member_of"] = dump_groups(tuple(who.pop("groups", ())))
            self._tell("vote", event["decision_id"], event["seq"], **fields, **who)

    def _hear_decision(self, what: str, event: dict[str, Any]) -> None:
        if permit := event.get("permit"):
            self._tell("permit", permit, event["seq"], run=event["run"], request=None, digest=event["digest"])

    def _hear_permit(self, what: str, event: dict[str, Any]) -> None:
        if what == "consumed":
            self._tell(
                "permit",
                event["permit"],
                event["seq"],
                run=event["run"],
                request=event.get("request"),
                digest=event["digest"],
                state="consumed",
            )

    def _hear_exec(self, what: str, event: dict[str, Any]) -> None:
        fields: dict[str, Any] = {}
        if what == "unknown":
            fields = {"state": "unknown"}
        elif what == "started":
            fields = {"state": "started", "started": event["at"], "returncode": None}
        elif what == "finished":
            known = event.get("returncode")
            fields = {"state": "failed" if known is None else "finished", "returncode": known}
        self._tell("execution", event["permit"], event["seq"], **fields)

    def _hear_grant(self, what: str, event: dict[str, Any]) -> None:
        grant = event["grant"]
        if what == "given":
            fields = {name: event[name] for name in ("project", "policy", "until", "max_uses")}
            self._tell("grant", grant, event["seq"], given=event["at"], uses=0, revoked=None, revoked_by="", **fields)
        elif what == "used":
            self._tell("grant", grant, event["seq"], uses=event["use"])
            self._tell("use", f"{grant}:{event['use']}", event["seq"], permit=event["permit"], at=event["at"])
        elif what == "revoked":
            self._tell("grant", grant, event["seq"], revoked=event["at"], revoked_by=event["by"])

    def _hear_supervision(self, what: str, event: dict[str, Any]) -> None:
        if what == "stopped":
            fields = {"at": event["at"], "principal": event["by"], "reason": event["reason"]}
            self._tell("halt", event["halt"], event["seq"], **fields)
        elif what == "resumed":
            fields = {name: event[name] for name in ("halt", "at", "person", "comment", "signer", "signature")}
            who = {name: event["approver"][name] for name in ("principal", "channel", "assurance")}
            self._tell("resumption", event["resumption"], event["seq"], **fields, **who)

    def settled(self, bounds: Bounds) -> Settled:
        """Return everything that may be deleted, as far as the log was heard."""
        return settled(self._told, bounds)

    def _hear_hold(self, what: str, event: dict[str, Any]) -> None:
        """Hear what is held. What can't be read keeps everything, as where it is decided what may go."""
        if what != "placed":
            self._lifted.add(str(event.get("hold")))
            return
        try:
            name, held = str(event["hold"]), held_in(event)
        except (ValueError, KeyError):
            name, held = f"event {event['seq']}", Held()
        self._held.setdefault(name, []).append(held)  # one that is said twice holds both

    def _hear_retention(self, what: str, event: dict[str, Any]) -> None:
        """Check that what was deleted then is gone, and nothing else: nothing that was held."""
        if event["form"] not in (FORM, HELD_FORM):
            raise ValueError("a newer version deleted by other rules")
        named = event["holds"] if event["form"] == HELD_FORM else []
        if self._held.keys() - self._lifted - set(named):
            raise ValueError("it deleted although a hold stood that nobody had lifted")
        held = tuple(each for name in named for each in self._held[name])
        gone = self.settled(Bounds(event["before"], event["through"], held))
        if (len(gone.requests), len(gone.permits)) != (event["requests"], event["permits"]):
            raise ValueError("it says that something else was deleted than what was settled then")
        for table, ids in (("request", gone.requests), ("vote", gone.votes), ("permit", gone.permits)):
            for id_ in ids:
                del self._told[table][id_]
        for id_ in gone.permits:
            self._told["execution"].pop(id_, None)
        for id_ in gone.requests:
            self._told["grant"].pop(id_, None)
        for key, use in list(self._told["use"].items()):
            if use.fields["permit"] in gone.permits or key.partition(":")[0] in gone.requests:
                del self._told["use"][key]


def held_in(event: dict[str, Any]) -> Held:
    """Return what an event of a hold says that is kept.

    Raises:
        ValueError, KeyError: it says nothing of the kind.
    """
    found = Held(event.get("run") or "", event.get("since"), event.get("until"))
    if type(found.run) is not str or any(type(each) not in (int, type(None)) for each in (found.since, found.until)):
        raise ValueError("a hold is about a run, or a time")
    return found


def _rows_of(connection: Connection, table: str, ids: Iterable[str]) -> Iterator[Row]:
    key = _KEYS.get(table, "id")
    for each in ids:
        yield from connection.execute(f"{_TABLES[table]} WHERE {key} = ?", (each,))


def _same(held: Any, told: Any, redactor: Redactor) -> bool:
    """Tell whether a row holds what the log tells, where it tells only a keyed digest too."""
    keyed = isinstance(told, str) and told.startswith(LABEL) and isinstance(held, str)
    return held == told or (keyed and redactor.digest(held) == told)


def _difference(table: str, row: Row, told: Told | None, redactor: Redactor, whole: bool) -> str:
    """Return how `row` differs from what was told; "" if it doesn't."""
    if told is None:
        # A permit of an approved request is first told of when it is consumed.
        fresh = table == "permit" and row["request"] is not None and row["state"] != "consumed"
        return "" if fresh else "no event made this row"
    columns = row.keys()
    for name, value in told.fields.items():
        if name in columns and not _same(row[name], value, redactor):
            if isinstance(value, str) and value.startswith(LABEL):  # what the row holds may be secret
                return f"{name} is not what the log says"
            return f"{name} is {row[name]!r}, and the log says {value!r}"
    if table == "permit" and row["state"] == "consumed" and "state" not in told.fields:
        return "it is consumed, and the log does not say so"
    if table == "request":
        if not isinstance(row["body"], bytes) or hashlib.sha256(row["body"]).hexdigest() != row["digest"]:
            return "its body is not what its digest says"
        context = context_digest(row["action"], row["decision"])
        if (whole or "context" in told.fields) and not _same(context, told.fields.get("context"), redactor):
            return "its stored action or decision was edited"
    return ""
