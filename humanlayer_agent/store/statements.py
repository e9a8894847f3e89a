"""The statements that one write transaction of the SQLite store is made of.

A state changes by one conditional UPDATE, and its audit event is appended beside it, in the caller's transaction.

The audit log's part in one write transaction of the SQLite store: what is appended, and the heads that sign it.
"""

import hashlib
import json
import os
import secrets
from typing import Any

from humanlayer_agent import __version__
from humanlayer_agent.approvals.authority import Authority, Removal
from humanlayer_agent.approvals.model import ApprovalRequest, Execution, Outcome, Run, Vote
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import BEGIN, STORE, Entry, Tip, seal
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.heads import Head, KeyKind, Signs, head_in, root_of, signed
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes import identity
from humanlayer_agent.redaction.redactor import Redactor, redactor
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.rows import (
    context_digest,
    dump_action,
    dump_decision,
    dump_groups,
    dump_rule,
    read_vote,
    said_approver,
    sayable,
)
from humanlayer_agent.store.transactions import Connection, Row


class Log:
    """One open write transaction at one moment (`now`, ms). `known` is its `redactor`, where that is known already."""

    def __init__(self, connection: Connection, now: int, known: Redactor | None = None) -> None:
        self._db = connection
        self.now = now
        self.last: Entry | None = None  # what was appended last in this transaction
        self._redactor = known
        self._tips: dict[str, Tip] = {}  # as far as they were read: nobody else writes meanwhile
        self._left: tuple[Removal, ...] | None = None

    def rows(self, query: str, *values: Any) -> list[Row]:
        return self._db.execute(query, values).fetchall()

    def change(self, statement: str, *values: Any) -> int:
        """Run a statement that changes rows; returns how many it has changed."""
        return self._db.execute(statement, values).rowcount

    def append(self, kind: EventType, **fields: Any) -> None:
        """Seal an event behind the newest of its chain, without the secrets in it.

        The newest is read under the write lock, else two would follow the same.
        """
        written = self.redactor().fields(fields)
        chain = STORE if kind in _OF_THE_STORE else self._chain_of(written.get("run"))
        tip = self.tip(chain) or BEGIN
        (seq,) = self._db.execute(_PLACE).fetchone()
        entry = seal(seq, tip, kind, chain=chain, at=self.now, pid=os.getpid(), fields=written)
        self._db.execute(
            "INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", (entry.seq, entry.hash, entry.body.decode())
        )
        self.last = entry
        self._tips[chain] = Tip(tip.link + 1, entry.hash)

    def _chain_of(self, run: Any) -> str:
        """Return the chain that an event about a run belongs to: its own, as long as it goes on."""
        if type(run) is not str or not self.rows(f"SELECT 1 FROM run WHERE id = ? AND {_GOES_ON}", run):
            return STORE
        return run if self.tip(run) is not None else STORE

    def tip(self, chain: str) -> Tip | None:
        """Return the newest event of a chain; None where it has not begun."""
        if chain not in self._tips:
            newest, begun = f"SELECT link, hash {_NEWEST}", f"SELECT 0, hash {_BEGUN}"
            found = self.rows(newest.format("?"), chain) or self.rows(begun.format("?"), chain)
            if not found:
                return None
            self._tips[chain] = Tip(*found[0])
        return self._tips[chain]

    def tips(self) -> dict[str, Tip]:
        """Return the newest events of the store's chain, and of those of all runs that go on."""
        store, runs = self.tip(STORE), self.rows(_TIPS)
        found = {row["id"]: Tip(row["link"], row["hash"]) for row in runs if row["hash"] is not None}
        return found if store is None else {STORE: store, **found}

    def head(self) -> Entry | None:
        row = self._db.execute("SELECT seq, hash FROM audit_event ORDER BY seq DESC LIMIT 1").fetchone()
        return Entry(row["seq"], row["hash"], b"") if row else None

    def open_log(self) -> None:
        """The first event of a store: it gives the log an identity of its own."""
        self.append(events.AUDIT_OPENED, store=secrets.token_hex(16), version=__version__)

    def redactor(self) -> Redactor:
        """Return the redactor that keeps secrets out of this log; it makes its key where there is none yet."""
        if self._redactor is not None:
            return self._redactor
        if (key := log_key(self._db)) is None:
            key = secrets.token_bytes(32)
            self._db.execute('INSERT INTO log_key ("only", value) VALUES (1, ?)', (key,))
        self._redactor = redactor(key)
        return self._redactor

    def write_head(self, signer: Signs, key: KeyKind) -> Head:
        """Sign the newest event, and append that; the newest is never a head itself."""
        newest = self.newest("TRUE")
        assert newest is not None
        if newest["type"] == events.AUDIT_HEAD.name and (known := head_in(newest)):
            return known
        opened, before = self.first(), self.newest("type = 'audit.head'")
        former = head_in(before) if before else None
        if former and key == former.key == "user" and former.signer != signer.fingerprint:
            self.append(events.KEY_ROTATED, signer=signer.fingerprint, former=former.signer)
        last = self.head()
        assert opened is not None
        assert last is not None
        said = Head(opened["store"], last.seq, last.hash, self.count(), self.now, key, root=root_of(self.tips()))
        head = signed(said, signer)
        self.append(events.AUDIT_HEAD, **head.fields())
        return head

    def count(self) -> int:
        """Return how many events there are: as many as the newest head says, and those that came after it."""
        newest = self.newest("type = 'audit.head'")
        head = head_in(newest) if newest else None
        before, after = (head.count, head.seq) if head else (0, -1)
        (more,) = self._db.execute("SELECT count(*) FROM audit_event WHERE seq > ?", (after,)).fetchone()
        return int(before + more)

    def left(self) -> tuple[Removal, ...]:
        """Return who has left, as the log says, the first one first."""
        if self._left is None:
            self._left = tuple(map(_removal, self.rows(_LEFT)))
        return self._left

    def counting(self, authority: Authority, before: int | None = None) -> Authority:
        """Return the authority without those who have left; `before`: who had when the event of that number came."""
        left = tuple(each for each in self.left() if before is None or each.seq < before)
        return authority.without(lambda: left)

    def first(self) -> dict[str, Any] | None:
        """The event that opened the log."""
        return self._event("seq = 0")

    def newest(self, condition: str, *values: Any, by: str = "seq") -> dict[str, Any] | None:
        """The newest event of which this holds. (`condition`, and what it is the newest by, are our own text.)"""
        return self._event(f"{condition} ORDER BY {by} DESC", *values)

    def _event(self, condition: str, *values: Any) -> dict[str, Any] | None:
        found = self.rows(f"SELECT seq, hash, body FROM audit_event WHERE {condition} LIMIT 1", *values)
        return Entry(found[0]["seq"], found[0]["hash"], found[0]["body"].encode()).event if found else None


_OF_THE_STORE = frozenset({events.RUN_STARTED, events.RUN_FINISHED})
"""Events of a run that say in the chain of the store that it began, and how far its own went."""

_GOES_ON = "state IN ('open', 'terminated')"

_NEWEST, _BEGUN = (
    "FROM audit_event WHERE chain = {0} ORDER BY link DESC LIMIT 1",
    "FROM audit_event WHERE audit_event.run = {0} AND +type = 'run.started' ORDER BY seq LIMIT 1",
)
_TIPS = (
    f"SELECT id, coalesce((SELECT link {_NEWEST}), 0) AS link, "
    f"coalesce((SELECT hash {_NEWEST}), (SELECT hash {_BEGUN})) AS hash FROM run WHERE {_GOES_ON}"
).format("run.id")
"""The newest events of all runs that go on: one round trip, for everybody waits meanwhile."""

_PLACE = "SELECT coalesce(max(seq) + 1, 0) FROM audit_event"
"""The place of the next event. (A server has counted it: `postgres.server.translated`.)"""

_LEFT = f"SELECT seq, hash, body FROM audit_event WHERE type = '{events.PERSON_REMOVED.name}' ORDER BY seq"


def _removal(row: Row) -> Removal:
    """Return what an event says of somebody who has left; of what can't be read, that nobody can tell who."""
    try:
        event = Entry(row["seq"], row["hash"], row["body"].encode()).event
        names, keys = event["identities"], event["keys"]
        if all(type(each) is str for each in (event["person"], *names, *keys)):
            return Removal(event["person"], tuple(names), frozenset(keys), row["seq"], int(event["at"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise StoreError(f"event {row['seq']} says that somebody has left, and can't be read: nothing is decided by it")


def log_key(connection: Connection) -> bytes | None:
    """The key that this store's log is redacted with; None where nothing was written with it yet."""
    row = connection.execute("SELECT value FROM log_key").fetchone()
    return bytes(row["value"]) if row else None


REQUEST_EVENTS = {
    "approved": events.REQUEST_APPROVED,
    "rejected": events.REQUEST_REJECTED,
    "answered": events.REQUEST_ANSWERED,
    "expired": events.REQUEST_EXPIRED,
    "withdrawn": events.REQUEST_WITHDRAWN,
    "superseded": events.REQUEST_SUPERSEDED,
    "terminated": events.REQUEST_TERMINATED,
    "revoked": events.REQUEST_REVOKED,
    "lapsed": events.REQUEST_LAPSED,
    "invalidated": events.REQUEST_INVALIDATED,
}
"""The event that says a request has reached a state."""

_OVER = tuple(event.name for state, event in REQUEST_EVENTS.items() if state != "approved")


def moved_away(place: str) -> str:
    """Return the sentence for who would go on with a store that was moved."""
    return f"this store was moved to {place}: name that one (store.yaml, HUMANLAYER_STORE or --store)"


class Ledger(Log):
    """One open write transaction at one moment: the log, and what it records."""

    def left_for(self) -> str:
        """Return where the store was moved to; "" where it goes on here."""
        found = self.newest("type IN ('store.left', 'store.moved')")
        return str(found["target"]) if found and found["type"] == events.STORE_LEFT.name else ""

    # Runs

    def start_run(self, run: Run) -> None:
        if self.rows("SELECT 1 FROM run WHERE id = ?", run.id):
            raise StoreError(f"the run id {run.id!r} was used before: each run has its own")
        if place := self.left_for():
            raise StoreError(moved_away(place))
        self._db.execute(
            "INSERT INTO run (id, agent, instance, requester, project, process, started, clock, beat) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(run.id, run.agent, run.instance, run.requester, run.project),
                *(identity.identity(), self.now, *heartbeats.clock(self._db)),
            ),
        )
        self.append(
            events.RUN_STARTED,
            run=run.id,
            agent=run.agent,
            instance=run.instance,
            requester=run.requester,
            project=run.project,
        )
        if self.last is None or self.tip(run.id) != Tip(0, self.last.hash):  # a database may read a text otherwise
            raise StoreError(f"a run can't be called {run.id!r}: the log would not find it by that")

    def stop_run(self, run_id: str, why: str) -> None:
        """A human stopped it: nothing of it waits or may run any more."""
        changed = self._db.execute(
            "UPDATE run SET state = 'terminated', ended = ? WHERE id = ? AND state = 'open'", (self.now, run_id)
        )
        if changed.rowcount:
            self.append(events.RUN_STOPPED, run=run_id, why=why)
        self._clear_run(run_id, why)
        # What earlier runs of the same agent have left for it is not to go on either.
        for row in self.rows(
            "SELECT DISTINCT run_id FROM request WHERE kept AND run_id IN (SELECT other.id FROM run JOIN run AS other "
            "ON (other.agent, other.instance) = (run.agent, run.instance) WHERE run.id = ? AND other.state <> 'open')",
            run_id,
        ):
            self._clear_run(row["run_id"], why)

    def end_run(self, run_id: str, state: str, status: str) -> bool:
        """End a run that goes on; False where it has ended before."""
        changed = self._db.execute(
            "UPDATE run SET state = ?, ended = ? WHERE id = ? AND state IN ('open', 'terminated')",
            (state, self.now, run_id),
        )
        if not changed.rowcount:
            return False
        if state != "lost":
            heartbeats.forget_run(self._db, run_id)
        if state == "lost":  # its pending requests stay for a while: the restarted run adopts them
            self.void_permits("run_id = ?", run_id)
        else:
            self._clear_run(run_id, "the run ended", kept=False)
        given_out = "run_id = ? AND kept AND EXISTS (SELECT 1 FROM permit WHERE request_id = request.id)"
        for row in self.unused_approvals(given_out, run_id):  # nobody knows what has become of it
            self.spoil(row, "lapsed", "its run ended before it was used")
        went = self.tip(run_id)
        links, last = (went.link, went.hash) if went else (None, None)
        self.append(events.RUN_FINISHED, run=run_id, state=state, status=status, links=links, last=last)
        return True

    def withdraw_left(self) -> None:
        """Withdraw what runs that are lost have asked, where the same agent has not come back for it in time."""
        left = self.rows(
            "SELECT request.*, process, clock, beat FROM request JOIN run ON run.id = run_id "
            "WHERE request.state = 'pending' AND run.state = 'lost' AND NOT kept"
        )
        for row in left:
            if heartbeats.is_left(self._db, row):
                self.settle(row, "withdrawn", why="its agent is gone")
        heartbeats.forget_lost_runs(self._db)

    def in_use(self) -> bool:
        """Tell whether a run goes on, or a process serves a channel."""
        if self.rows("SELECT 1 FROM run WHERE state IN ('open', 'terminated') LIMIT 1"):
            return True
        return bool(self.held_leases())

    def held_leases(self) -> list[Row]:
        """The leases on channels that are somebody's. Of the others' silence is noted what can't be told yet."""
        return [lease for lease in self.rows("SELECT * FROM lease") if heartbeats.holds(self._db, lease)]

    def is_gone(self, run: Row) -> bool:
        """Tell whether the process of a run is gone (`heartbeats`)."""
        return heartbeats.is_gone(self._db, run)

    def _clear_run(self, run_id: str, why: str, *, kept: bool = True) -> None:
        """Withdraw what waits, and void what was approved. `kept`: also what was to stay when the run ends."""
        some = "run_id = ?" if kept else "run_id = ? AND NOT kept"
        for row in self.rows(f"SELECT * FROM request WHERE {some} AND +state = 'pending'", run_id):
            self.settle(row, "withdrawn", why=why)
        self.void_permits("run_id = ?", run_id)
        for row in self.unused_approvals(some, run_id):
            self.spoil(row, "lapsed", why)

    def void_permits(self, condition: str, *values: Any) -> None:
        """Make unused permits unusable. (`condition` is our own text.)"""
        self._db.execute(f"UPDATE permit SET state = 'void' WHERE state = 'issued' AND {condition}", values)

    # Requests

    def request(self, request_id: str) -> Row | None:
        found = self.rows("SELECT * FROM request WHERE id = ?", request_id)
        return found[0] if found else None

    def unused_approvals(self, condition: str, *values: Any) -> list[Row]:
        """Approved requests whose permit was not consumed. (`condition` is our own text, never somebody else's.)"""
        return self.rows(f"SELECT * FROM request WHERE state = 'approved' AND used = 0 AND {condition}", *values)

    def is_over(self, request_id: str, *also: EventType) -> bool:
        """Tell whether the log says that a request has ended: a row that was made to live again leaves that behind."""
        names = (*_OVER, *(event.name for event in also))
        places = ", ".join("?" * len(names))
        query = f"SELECT 1 FROM audit_event WHERE request = ? AND type IN ({places}) LIMIT 1"
        return bool(self.rows(query, request_id, *names))

    def is_as_asked(self, row: Row) -> bool:
        """Tell whether the action and the decision in the row of a request are those that the log says were asked."""
        found = self.rows(
            "SELECT body FROM audit_event WHERE request = ? AND type = ?", row["id"], events.REQUEST_CREATED.name
        )
        said = [json.loads(each["body"]) for each in found]
        asked = {"context": context_digest(row["action"], row["decision"]), "needed": row["needed"]}
        written = self.redactor().fields(asked)
        return len(said) == 1 and all(said[0].get(name) in (asked[name], written[name]) for name in asked)

    def waiting(self, draft: ApprovalRequest) -> Row | None:
        """The pending request that `draft` would repeat, where nobody else waits for its answer."""
        found = self.rows(
            "SELECT request.*, run.process, run.clock, run.beat, run.state AS run_state "
            "FROM request JOIN run ON run.id = run_id WHERE idempotency_key = ? AND request.state = 'pending'",
            draft.idempotency_key,
        )
        if not found:
            return None
        row = found[0]
        if row["expires"] <= self.now:
            self.settle(row, "expired")
            return None
        abandoned = row["run_state"] != "open" or self.is_gone(row)
        return row if abandoned or row["run_id"] == draft.action.run_id else None

    def adopt(self, request_id: str, run_id: str) -> None:
        (row,) = self.rows("SELECT * FROM request WHERE id = ?", request_id)
        self._db.execute("UPDATE request SET run_id = ? WHERE id = ?", (run_id, row["id"]))
        self.append(
            events.REQUEST_ADOPTED, run=run_id, request=row["id"], digest=row["digest"], former_run=row["run_id"]
        )

    def insert(self, draft: ApprovalRequest) -> None:
        run_id, key = draft.action.run_id, draft.idempotency_key
        if self.rows("SELECT 1 FROM request WHERE idempotency_key = ? AND state = 'pending'", key):
            # Another live run of the same agent waits for an answer of its own.
            key = hashlib.sha256(f"{key} {run_id}".encode()).hexdigest()
        action, decision = dump_action(draft.action), dump_decision(draft.decision)
        rule = dump_rule(draft.rule)
        self._db.execute(
            "INSERT INTO request (id, run_id, idempotency_key, digest, body, action, decision, requester, created, "
            "expires, valid_for, parent, needed, rule, kept) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(draft.id, run_id, key, draft.digest, canonical(draft.body), action, decision),
                *(draft.requester, draft.created, draft.expires, draft.valid_for, draft.parent or None),
                *(draft.needed, rule, draft.kept),
            ),
        )
        self.append(
            events.REQUEST_CREATED,
            run=run_id,
            request=draft.id,
            digest=draft.digest,
            requester=draft.requester,
            asked=draft.created,
            expires=draft.expires,
            valid_for=draft.valid_for,
            context=context_digest(action, decision),
            parent=draft.parent or None,
            needed=draft.needed,
            rule=rule or None,
            kept=draft.kept or None,
        )

    def settle(self, row: Row, state: str, **fields: Any) -> None:
        """Move a pending request to its answer or end."""
        changed = self._db.execute(
            "UPDATE request SET state = ?, decided = ? WHERE id = ? AND state = 'pending' AND digest = ?",
            (state, self.now, row["id"], row["digest"]),
        )
        if changed.rowcount != 1:  # we hold the write lock and have just read it: the file is not what it seems
            raise StoreError(f"request {row['id']} could not become {state}")
        self._say(row, state, **fields)

    def spoil(self, row: Row, state: str, why: str) -> None:
        """An approved request that will not be used: lapsed or invalidated."""
        self.take_back(row, state, why=why)

    def take_back(self, row: Row, state: str, **fields: Any) -> None:
        """Move an approved request to how it ended unused."""
        changed = self._db.execute(
            "UPDATE request SET state = ? WHERE id = ? AND state = 'approved'", (state, row["id"])
        )
        if changed.rowcount != 1:
            raise StoreError(f"request {row['id']} could not become {state}")
        self._say(row, state, **fields)

    def escalate(self, row: Row, level: int, to: str, by: str) -> None:
        """Ask the next audience now: so many steps of its rule as `level` are due."""
        self._db.execute("UPDATE request SET escalated = ? WHERE id = ? AND state = 'pending'", (level, row["id"]))
        self.append(
            events.REQUEST_ESCALATED,
            run=row["run_id"],
            request=row["id"],
            digest=row["digest"],
            level=level,
            to=to,
            by=by,
        )

    def _say(self, row: Row, state: str, **fields: Any) -> None:
        self.append(
            REQUEST_EVENTS[state],
            run=row["run_id"],
            request=row["id"],
            digest=row["digest"],
            asked=row["created"],
            **fields,
        )

    # Votes

    def vote(self, row: Row, vote: Vote) -> None:
        approver = vote.approver
        self._db.execute(
            "INSERT INTO vote (decision_id, request_id, answer, principal, channel, assurance, presented_digest, "
            "comment, input_mode, at, pid, edited, person, solo, signer, signature, member_of, scope) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(vote.decision_id, vote.request_id, vote.answer),
                *(approver.principal, approver.channel, approver.assurance),
                *(vote.presented_digest, vote.comment, vote.input_mode, vote.at, os.getpid(), vote.edited),
                *(vote.person, int(vote.solo), vote.signer, vote.signature, dump_groups(approver.groups)),
                vote.scope,
            ),
        )
        self.say_vote(
            events.VOTE_RECORDED,
            row["id"],
            vote,
            run=row["run_id"],
            asked=row["created"],
            person=vote.person,
            solo=vote.solo,
            signer=vote.signer,
            signature=vote.signature,
            scope=vote.scope or None,
        )

    def say_vote(self, kind: EventType, request_id: str, answer: Any, **fields: Any) -> None:
        """Append an event about an `Answer` or a `Vote`; of one that is refused, whatever stands in it."""
        approver = answer.approver
        self.append(
            kind,
            request=request_id,
            answer=sayable(answer.kind if hasattr(answer, "kind") else answer.answer),
            approver=said_approver(approver),
            presented_digest=sayable(answer.presented_digest),
            decision_id=sayable(answer.decision_id),
            comment=sayable(answer.comment),
            input_mode=sayable(answer.input_mode),
            edited=sayable(answer.edited) or None,
            **fields,
        )

    def votes(self, request_id: str) -> list[Vote]:
        """All recorded answers to a request, in the order of the table."""
        return self.votes_where("request_id = ?", request_id)

    def votes_where(self, condition: str, *values: Any) -> list[Vote]:
        """Votes, in the order of the table. (`condition` is our own text.)"""
        return [read_vote(row) for row in self.rows(f"SELECT * FROM vote WHERE {condition} ORDER BY rowid", *values)]

    # Permits and executions

    def issue(self, run_id: str, digest: str, use_by: int, request_id: str | None) -> str:
        """A new permit; returns its id."""
        permit_id = secrets.token_hex(16)
        self._db.execute(
            "INSERT INTO permit (id, run_id, request_id, digest, issued, use_by) VALUES (?, ?, ?, ?, ?, ?)",
            (permit_id, run_id, request_id, digest, self.now, use_by),
        )
        return permit_id

    def permit(self, permit_id: str) -> Row | None:
        """A permit with the states of its run and request."""
        found = self.rows(
            "SELECT permit.*, run.process, run.state AS run_state, request.state AS request_state, created, decided "
            "FROM permit JOIN run ON run.id = permit.run_id LEFT JOIN request ON request.id = request_id "
            "WHERE permit.id = ?",
            permit_id,
        )
        return found[0] if found else None

    def consume(self, permit_id: str, digest: str) -> bool:
        """The compare-and-set that everything else is for: True for one caller at most. (Votes are counted before.)"""
        changed = self._db.execute(
            """
            UPDATE permit SET state = 'consumed'
            WHERE id = ?1 AND state = 'issued' AND digest = ?2 AND use_by > ?3
              AND EXISTS (SELECT 1 FROM run WHERE run.id = permit.run_id AND run.state = 'open')
              AND (request_id IS NULL OR EXISTS (
                SELECT 1 FROM request
                WHERE request.id = permit.request_id AND request.state = 'approved'
                  AND request.digest = ?2 AND request.decided + request.valid_for > ?3))
            """,
            (permit_id, digest, self.now),
        )
        return changed.rowcount == 1

    def start(self, permit: Row, **fields: Any) -> Execution:
        self._db.execute(
            "INSERT INTO execution (permit_id, process, started) VALUES (?, ?, ?)",
            (permit["id"], identity.identity(), self.now),
        )
        times = {"asked": permit["created"], "decided": permit["decided"], "issued": permit["issued"]}
        self.append(events.PERMIT_CONSUMED, **_of_permit(permit), **times)
        self.append(events.EXEC_STARTED, **_of_permit(permit), **fields)
        return Execution(permit["id"], permit["digest"], self.now)

    def void(self, permit_id: str, why: str, **fields: Any) -> None:
        self._db.execute("UPDATE permit SET state = 'void' WHERE id = ? AND state = 'issued'", (permit_id,))
        self.append(events.PERMIT_REFUSED, permit=permit_id, why=why, **fields)

    def executions(self, condition: str, *values: Any) -> list[Row]:
        """Executions with their permits. (`condition` is our own text.)"""
        return self.rows(
            "SELECT permit.*, execution.process, execution.started, clock, beat FROM execution "
            "JOIN permit ON permit.id = permit_id JOIN run ON run.id = permit.run_id WHERE " + condition,
            *values,
        )

    def end_execution(self, row: Row, outcome: Outcome | None) -> None:
        """Record how it ended; None where nobody will ever know."""
        known = outcome.returncode if outcome else None
        self._db.execute(
            "UPDATE execution SET state = ?, finished = ?, returncode = ? WHERE permit_id = ? AND state = 'started'",
            (state_after(outcome), self.now, known, row["id"]),
        )
        if outcome is None:
            self.append(events.EXEC_UNKNOWN, **_of_permit(row), started=row["started"], process=row["process"])
        else:
            for kind, fields in said_of(outcome):
                self.append(kind, **_of_permit(row), started=row["started"], **fields)


def _of_permit(row: Row) -> dict[str, Any]:
    return {"run": row["run_id"], "request": row["request_id"], "permit": row["id"], "digest": row["digest"]}


def state_after(outcome: Outcome | None) -> str:
    """Return the state of an execution that has ended so."""
    return "unknown" if outcome is None else "failed" if outcome.returncode is None else "finished"


def said_of(outcome: Outcome) -> list[tuple[EventType, dict[str, Any]]]:
    """Return the events that tell how an execution ended, each with what it says besides which permit it was."""
    said: list[tuple[EventType, dict[str, Any]]] = []
    if outcome.changed:
        files = [
            {"path": file.path, "judged": {"sha256": file.sha256}, "found": {"sha256": file.found}, "own": file.own}
            for file in outcome.changed
        ]
        said.append((events.EXEC_CHANGED, {"files": files, "refused": not outcome.started or None}))
    if outcome.moved:
        left = [{"path": each.path, "kept": each.kept, "restored": each.restored} for each in outcome.moved]
        said.append((events.EXEC_MOVED_ASIDE, {"files": left}))
    how: dict[str, Any] = {"returncode": outcome.returncode, "detail": outcome.detail or None}
    how |= {"duration_ms": outcome.duration_ms, "network": outcome.network or None, "files": outcome.files or None}
    said.append((events.EXEC_FINISHED, {**how, **outcome.receipt}))
    return said
