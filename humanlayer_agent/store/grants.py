"""The grants of an SQL store: given with the vote that approves a request, counted in the transaction of each permit.

Rows find a grant and count its uses; what it gives is in its signed votes. The log is heard as well: it says how often
a grant was used and that it was revoked, whatever its row says, and what time it was, should a clock be set back.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from humanlayer_agent.action import INERT, Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.grants import (
    Grant,
    GrantUse,
    Scope,
    UsedFor,
    enough,
    exact_action,
    in_words,
    read_scope,
    why_never,
)
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Vote
from humanlayer_agent.approvals.votes import granting
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import said
from humanlayer_agent.policy.decision import COMMAND, PolicyDecision, Verdict
from humanlayer_agent.store.rows import load_decision, read_vote, storable
from humanlayer_agent.store.statements import REQUEST_EVENTS, Ledger
from humanlayer_agent.store.transactions import Connection, Row, Transactions

_TOLD = (
    "SELECT type, count(*) AS times FROM audit_event WHERE type IN ('grant.used', 'grant.revoked') "
    "AND json_extract(body, '$.grant') = ? GROUP BY type"
)
_GIVEN = "SELECT seq FROM audit_event WHERE request = ? AND type = 'grant.given'"
_PAST = "SELECT 1 FROM audit_event WHERE json_extract(body, '$.at') >= ? AND seq > ? LIMIT 1"
_OPERANDS = 50
"""So many operands of an action are written down at most."""
_USED_FOR = (
    "SELECT used.body AS used, (SELECT body FROM audit_event AS judged WHERE judged.type = 'decision.evaluated' "
    "AND judged.run = used.run AND judged.seq < used.seq ORDER BY judged.seq DESC LIMIT 1) AS judged "
    "FROM audit_event AS used WHERE used.type = 'grant.used' AND json_extract(used.body, '$.grant') = ? ORDER BY seq"
)
"""What was judged stands right before the uses that let it run, and names the same permit."""
_STILL_APPROVED = ("approved", "lapsed", "invalidated")
_NOT_APPROVED = tuple(event for state, event in REQUEST_EVENTS.items() if state not in _STILL_APPROVED)
_OPEN = "project = ? AND policy = ? AND until > ? AND revoked IS NULL AND uses < max_uses"


@dataclass(frozen=True, slots=True)
class _Proved:
    """A grant whose votes were counted: what all its scopes cover is covered."""

    id: str
    people: tuple[str, ...]
    scopes: tuple[Scope, ...]
    uses: int
    max_uses: int

    def covers(self, decision: PolicyDecision, digest: str) -> frozenset[int]:
        """Return which of the asks of a decision are covered, by their numbers."""
        exact = exact_action(decision, digest)
        return frozenset(
            number for number, ask in enumerate(decision.asks) if all(scope.covers(ask, exact) for scope in self.scopes)
        )


def give(ledger: Ledger, row: Row, votes: Sequence[Vote]) -> None:
    """Make the grant of a request that was approved just now, where all of its approvals have a scope."""
    approvals = [vote for vote in votes if vote.answer == "approve"]
    scopes = [scope for vote in approvals if (scope := read_scope(vote.scope)) is not None]
    if not scopes or len(scopes) < len(approvals):
        return
    first, until = scopes[0], min(scope.until for scope in scopes)
    uses = min(scope.uses for scope in scopes)
    if until <= ledger.now or any((each.project, each.policy) != (first.project, first.policy) for each in scopes):
        return
    ledger.change(
        "INSERT INTO given_grant (id, project, policy, given, until, max_uses) VALUES (?, ?, ?, ?, ?, ?)",
        *(row["id"], storable(first.project), first.policy, ledger.now, until, uses),
    )
    ledger.append(
        events.GRANT_GIVEN,
        run=row["run_id"],
        request=row["id"],
        grant=row["id"],
        project=first.project,
        policy=first.policy,
        until=until,
        max_uses=uses,
        by=[vote.person for vote in approvals],
        words=in_words(scopes),
        operands=_operands(load_decision(row["decision"])),
    )


def _operands(decision: PolicyDecision) -> list[str]:
    """Return what the effects are done to that must be approved, for the log: so that what a grant was used for can be
    held against what was seen when it was given.
    """
    found = dict.fromkeys(ask.operand for ask in decision.asks if ask.kind != COMMAND and ask.operand)
    return [*found][:_OPERANDS]


def unproved_grants(ledger: Ledger, permit: Permit, digest: str, authority: Authority) -> str:
    """Return why the grants that a permit was issued by do not let it run now; "" where they do.

    Args:
        digest: of what is about to run.
        authority: counts their votes.
    """
    rows = ledger.rows("SELECT grant_id, use FROM grant_use WHERE permit_id = ?", permit.id)
    if {(row["grant_id"], row["use"]) for row in rows} != {(use.grant, use.use) for use in permit.granted}:
        return "the uses of its grants are not those that were counted for it"
    covered: frozenset[int] = frozenset()
    for use in permit.granted:
        proved = _proved(ledger, use.grant, permit.action, permit.decision, permit.requester, authority)
        if isinstance(proved, str):
            return f"grant {use.grant[:4]} does not let it run any more: {proved}"
        if use.use > proved.max_uses:
            return f"grant {use.grant[:4]} was used up before"
        covered |= proved.covers(permit.decision, digest)
    if why := why_never(permit.decision):
        return f"no grant covers it: {why}"
    return "" if len(covered) == len(permit.decision.asks) else "its grants do not cover all that must be approved"


def _proved(
    ledger: Ledger, grant_id: str, action: Action, decision: PolicyDecision, requester: str, authority: Authority
) -> _Proved | str:
    """Count the votes of a grant, for an action that is about to run; or say why it is not good for that."""
    found = ledger.rows("SELECT uses, revoked FROM given_grant WHERE id = ?", grant_id)
    if not found:
        return "there is no such grant"
    told = {row["type"]: row["times"] for row in ledger.rows(_TOLD, grant_id)}
    if found[0]["revoked"] is not None or events.GRANT_REVOKED.name in told:
        return "it was revoked"
    if _was_taken_back(ledger, grant_id):
        return "the log says that its request was not approved in the end"
    given = ledger.rows(_GIVEN, grant_id)
    if not given:
        return "the log does not say that it was given"
    now = _time(ledger)
    counted = granting(ledger.votes(grant_id), decision, requester, authority, now)
    if isinstance(counted, str):
        return counted
    scopes = []
    for vote in counted:
        if (scope := read_scope(vote.scope)) is None:
            return "one of its approvals was for once"
        if why := scope.why_not(action, requester, decision.policy_digest, now):
            return why
        scopes.append(scope)
    if ledger.rows(_PAST, min(scope.until for scope in scopes), given[0]["seq"]):
        return "the log has seen the end of it"
    if any(scope.approvals > len(scopes) for scope in scopes):
        return "some of the approvals are missing that it was given by"
    uses = told.get(events.GRANT_USED.name, 0)
    if found[0]["uses"] != uses:
        return "its row and the log disagree on how often it was used"
    people = tuple(vote.person for vote in counted)
    return _Proved(grant_id, people, tuple(scopes), uses, min(scope.uses for scope in scopes))


def _says(ledger: Ledger, grant_id: str, decision: PolicyDecision, exact: str) -> bool:
    """Tell whether a grant covers any of what is asked about if its votes are what they seem. (To prove them all would
    take the longer the more grants there are.)
    """
    scopes = [read_scope(vote.scope) for vote in ledger.votes(grant_id) if vote.answer == "approve"]
    return any(all(scope is not None and scope.covers(ask, exact) for scope in scopes) for ask in decision.asks)


def _was_taken_back(ledger: Ledger, request_id: str) -> bool:
    """Tell whether the log says that a request was not approved in the end. (That its own permit was not used in time
    takes no approval back.)
    """
    places = ", ".join(f"'{event.name}'" for event in _NOT_APPROVED)
    return bool(ledger.rows(f"SELECT 1 FROM audit_event WHERE request = ? AND type IN ({places}) LIMIT 1", request_id))


def _time(ledger: Ledger) -> int:
    """Return the time (ms) that grants are judged by: not before what was written last, should a clock step back."""
    newest = ledger.newest("TRUE")
    told = newest.get("at") if newest is not None else None
    return max(ledger.now, told) if type(told) is int else ledger.now


class SQLGrants:
    """The `Grants` of one store.

    Args:
        database: its file. transaction: begins one of its write transactions.
        admitted: begins one in which something may run: it raises where every agent is stopped.
        judged: appends the decision on an action.
        requests: reads requests by a condition.
        clock: the time in ms.
    """

    def __init__(
        self,
        database: Transactions,
        transaction: Callable[[], AbstractContextManager[Ledger]],
        admitted: Callable[[Action, PolicyDecision, str, Authority], AbstractContextManager[Ledger]],
        judged: Callable[..., None],
        requests: Callable[..., list[ApprovalRequest]],
        clock: Callable[[], int],
    ) -> None:
        self._database = database
        self._transaction = transaction
        self._admitted = admitted
        self._judged = judged
        self._requests = requests
        self._clock = clock

    def given(self, *, project: str | None = None, active: bool = False) -> list[Grant]:
        terms: list[str] = ["TRUE"]
        values: list[Any] = []
        if project is not None:
            terms.append("project = ?")
            values.append(storable(project))
        if active:
            terms.append("revoked IS NULL AND uses < max_uses AND until > ?")
            values.append(self._clock())
        found = self._read(" AND ".join(terms), *values)
        return [grant for grant in found if not (active and grant.over)]

    def get(self, grant_id: str) -> Grant | None:
        found = self._read("id = ?", grant_id)
        return found[0] if found else None

    def uses(self, grant_id: str) -> list[UsedFor]:
        with self._database.read() as connection:
            rows = connection.execute(_USED_FOR, (grant_id,)).fetchall()
        return [_used_for(row) for row in rows]

    def _read(self, condition: str, *values: Any) -> list[Grant]:
        with self._database.read() as connection:
            rows = connection.execute(f"SELECT * FROM given_grant WHERE {condition} ORDER BY given, rowid", values)
            found = [(row, self._votes(connection, row["id"])) for row in rows.fetchall()]
        grants = []
        for row, votes in found:
            (request,) = self._requests(self._database, "id = ?", row["id"])
            scopes = [scope for vote in votes if (scope := read_scope(vote.scope)) is not None]
            grants.append(
                Grant(
                    row["id"],
                    request,
                    row["given"],
                    min([row["until"], *(scope.until for scope in scopes)]),
                    row["uses"],
                    min([row["max_uses"], *(scope.uses for scope in scopes)]),
                    row["revoked"],
                    row["revoked_by"],
                    votes,
                    any(scope.run and self._has_ended(scope.run) for scope in scopes),
                )
            )
        return grants

    def _has_ended(self, run_id: str) -> bool:
        with self._database.read() as connection:
            found = connection.execute("SELECT state FROM run WHERE id = ?", (run_id,)).fetchone()
        return found is not None and found["state"] not in ("open", "terminated")

    @staticmethod
    def _votes(connection: Connection, request_id: str) -> tuple[Vote, ...]:
        rows = connection.execute(
            "SELECT * FROM vote WHERE request_id = ? AND answer = 'approve' ORDER BY rowid", (request_id,)
        )
        return tuple(read_vote(row) for row in rows)

    def use(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        *,
        requester: str,
        authority: Callable[[], Authority],
        use_by_ms: int,
    ) -> Permit | None:
        if action.type in INERT or decision.verdict is not Verdict.ASK or why_never(decision):
            return None
        if not self._has_open(action, decision):
            return None
        counting = authority()
        with self._admitted(action, decision, digest, counting) as ledger:
            counting = ledger.counting(counting)
            grants = self._cover(ledger, action, decision, digest, requester, counting)
            if not grants:
                return None
            until = min(scope.until for each in grants for scope in each.scopes)
            use_by = min(ledger.now + use_by_ms, until)
            if use_by <= ledger.now:
                return None
            permit_id = ledger.issue(action.run_id, digest, use_by, None)
            uses = tuple(_count(ledger, each, permit_id) for each in grants)
            self._judged(ledger, action, decision, digest, permit=permit_id, grants=[use.grant for use in uses])
            for use in uses:
                ledger.append(
                    events.GRANT_USED,
                    run=action.run_id,
                    permit=permit_id,
                    grant=use.grant,
                    use=use.use,
                    max_uses=use.uses,
                    by=use.by,
                    rules=sorted({ask.rule for ask in decision.asks}),
                    operands=_operands(decision),
                    digest=digest,
                )
        return Permit(
            permit_id,
            digest,
            action,
            decision,
            use_by,
            approved_by=" and ".join(dict.fromkeys(person for use in uses for person in use.by)),
            granted=uses,
            requester=requester,
        )

    def revoke(self, grant_id: str, by: str, reason: str = "") -> bool:
        with self._transaction() as ledger:
            return take_back(ledger, grant_id, by, reason)

    def _has_open(self, action: Action, decision: PolicyDecision) -> bool:
        with self._database.read() as connection:
            values = (storable(action.project), decision.policy_digest, self._clock())
            return connection.execute(f"SELECT 1 FROM given_grant WHERE {_OPEN} LIMIT 1", values).fetchone() is not None

    def _cover(
        self,
        ledger: Ledger,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        requester: str,
        authority: Authority,
    ) -> list[_Proved]:
        """Return grants that cover all that a decision asks about, no more of them than are needed; none where there
        are none that do.
        """
        rows = ledger.rows(
            f"SELECT id FROM given_grant WHERE {_OPEN} ORDER BY given, rowid",
            *(storable(action.project), decision.policy_digest, ledger.now),
        )
        exact = exact_action(decision, digest)
        said = [row["id"] for row in rows if _says(ledger, row["id"], decision, exact)]
        proved = [_proved(ledger, each, action, decision, requester, authority) for each in said]
        able = [each for each in proved if not isinstance(each, str) and each.uses < each.max_uses]
        return enough(able, decision, digest)


def take_back(ledger: Ledger, grant_id: str, by: str, reason: str) -> bool:
    """Revoke a grant; False where there is none, or it was revoked before."""
    changed = ledger.change(
        "UPDATE given_grant SET revoked = ?, revoked_by = ? WHERE id = ? AND revoked IS NULL",
        *(ledger.now, storable(by), grant_id),
    )
    if changed:
        ledger.append(events.GRANT_REVOKED, request=grant_id, grant=grant_id, by=storable(by), reason=reason)
        ledger.void_permits("id IN (SELECT permit_id FROM grant_use WHERE grant_id = ?)", grant_id)
    return bool(changed)


def _count(ledger: Ledger, grant: _Proved, permit_id: str) -> GrantUse:
    """Count one use of a grant: the compare-and-set that lets one of several have the last."""
    use = GrantUse(grant.id, grant.people, grant.uses + 1, grant.max_uses)
    ledger.change("UPDATE given_grant SET uses = uses + 1 WHERE id = ? AND uses = ?", grant.id, grant.uses)
    ledger.change(
        "INSERT INTO grant_use (grant_id, permit_id, use, at) VALUES (?, ?, ?, ?)",
        *(grant.id, permit_id, use.use, ledger.now),
    )
    return use


def _used_for(row: Row) -> UsedFor:
    used, judged = json.loads(row["used"]), json.loads(row["judged"] or "{}")
    same = judged.get("permit") == used["permit"]
    run, agent, command = (said(judged.get(name)) if same else "" for name in ("run", "agent", "command"))
    return UsedFor(used["use"], used["at"], run or used["run"], agent, command)
