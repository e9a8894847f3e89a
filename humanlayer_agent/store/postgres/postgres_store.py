"""The store on a PostgreSQL server: for agents on many machines."""

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from humanlayer_agent.action import INERT, Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import Answer, Outcome, Permit, Refused, VoteResult
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry, unsealed
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes import identity
from humanlayer_agent.redaction.redactor import Redactor
from humanlayer_agent.store.postgres import structure
from humanlayer_agent.store.postgres.server import PATH, Address, Listener, Server, connected
from humanlayer_agent.store.rows import action_fields, decision_fields, enforcement_fields
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.store.statements import said_of, state_after

_ADMIT = "SELECT * FROM admit(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FINISH = "SELECT * FROM finish(?, ?, ?, ?, ?, ?, ?, ?)"


class PostgresStore(SQLStore):
    """A `Store` in a database, for all threads of one process, beside any number of others on any machine.

    Its time is the database's, never a host's.

    Args:
        url: `postgresql://user@host:port/database`.
        clock: the time in ms; for tests. None is the database's.
        create: False opens it to read.
        busy_ms: how long to wait for another process's write.
        anchored: False opens it also where events are missing that its anchor names, or where another store was.

    Raises:
        ConfigError: it is no address.
        StoreError: it can't be reached, or holds no store.
        LogLost: its log was set back, or the store that was there is gone.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], int] | None = None,
        create: bool = True,
        busy_ms: int = 5_000,
        anchored: bool = True,
    ) -> None:
        self.url = url
        self._chosen_clock = clock is not None
        self._started: dict[str, dict[str, Any]] = {}  # permits that were used at once, until their executions end
        self._server = Server(Address(url), writes=create, wait_ms=busy_ms)
        self._listener = Listener(Address(url))
        super().__init__(self._server, clock or self._server.now, writes=create, anchored=anchored)

    def to_write(self) -> "PostgresStore":
        return PostgresStore(self.url)

    def is_news(self, request_id: str) -> bool:
        return self._listener.is_news(request_id)

    def pause(self, seconds: float) -> None:
        self._listener.wait(seconds)

    def close(self) -> None:
        self._listener.close()
        super().close()

    def access(self) -> tuple[str, bool]:
        with self._server.read() as session:
            return structure.part_of(session), session.is_private()

    def note_read(self, command: str) -> bool:
        """Put it in the log that a command reads, where the role may only read.

        Args:
            command: its words, small letters.

        Raises:
            StoreError: it can't be written: nothing should be read then.
        """
        if self.access()[0] != "auditor":
            return False
        try:
            with connected(Address(self.url)) as session:
                session.execute("SET lock_timeout = '10s'; SET synchronous_commit = on")
                session.execute("SELECT humanlayer.audit_read(?)", (command,))
        except StoreError as error:
            raise StoreError(f"nothing is read that can't be logged ({events.AUDIT_READ.name}): {error}") from error
        return True

    def admit(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        about_to_run: str,
        *,
        use_by_ms: int,
        authority: Authority,
        outcome: Outcome | None = None,
    ) -> Permit | Refused:
        ordinary = decision.verdict is Verdict.ALLOW and action.type not in INERT and about_to_run == digest
        if ordinary and not decision.counts:  # limits are counted, and compared, by statements
            permit = Permit(secrets.token_hex(16), digest, action, decision, 0)
            said = _said_of_allowed(permit, outcome)
            ends = ("", None) if outcome is None else (state_after(outcome), outcome.returncode)
            values = (permit.id, action.run_id, identity.identity(), digest, use_by_ms)
            now = self._at_once(_ADMIT, lambda seen, mark, bodies: (*values, *seen, mark, bodies, *ends), said)
            if now is not None:
                if outcome is None:
                    self._started[permit.id] = {**_of(permit), "started": now}
                return replace(permit, use_by=now + use_by_ms, started=True)
        return super().admit(
            action, decision, digest, about_to_run, use_by_ms=use_by_ms, authority=authority, outcome=outcome
        )

    def decide(self, request_id: str, answer: Answer, authority: Authority, signer: Signer) -> VoteResult:
        return self._heard(
            request_id, answer, lambda: super(PostgresStore, self).decide(request_id, answer, authority, signer)
        )

    def revoke(self, request_id: str, answer: Answer, authority: Authority, signer: Signer) -> VoteResult:
        return self._heard(
            request_id, answer, lambda: super(PostgresStore, self).revoke(request_id, answer, authority, signer)
        )

    def _heard(self, request_id: str, answer: Answer, decide: Callable[[], VoteResult]) -> VoteResult:
        """Record an answer. Where the server's reply is lost, nobody knows whether it was: its own id tells."""
        try:
            return decide()
        except StoreError as error:
            found = self.votes(request_id) if isinstance(error.__cause__, psycopg.OperationalError) else []
            if not any(vote.decision_id == answer.decision_id for vote in found):
                raise
            request = self.get(request_id)
            return VoteResult("recorded", request.state if request else None)

    def finish(self, permit_id: str, outcome: Outcome) -> bool:
        if (started := self._started.pop(permit_id, None)) is not None:
            said: list[_Said] = [(kind, {**started, **fields}, ()) for kind, fields in said_of(outcome)]
            values = (permit_id, started["run"], state_after(outcome), outcome.returncode)
            if self._at_once(_FINISH, lambda seen, mark, bodies: (*values, *seen, mark, bodies), said) is not None:
                return True
        return super().finish(permit_id, outcome)

    def _at_once(
        self,
        statement: str,
        values: Callable[[tuple[int, str], str, list[str]], Sequence[Any]],
        said: Sequence["_Said"],
    ) -> int | None:
        """Have the database do in one round trip what is ordinary; returns its time.

        Args:
            values: makes what is bound of the newest event that was seen, of the mark (`unsealed`) and of the bodies.
            said: the events.

        Returns:
            None: something is out of the ordinary, and nothing was done.

        Raises:
            StoreError: nobody knows whether it was done: what it would have let run must not.
        """
        redactor, halts = self._redactor, self.halts
        if self._chosen_clock or redactor is None or self.degraded is not None or halts.has_seen_one:
            return None
        with self._server.alone():
            self._position.look()
            if not self._position.is_settled or self._position.seen is None:
                return None
            mark = secrets.token_hex(16)
            bodies = [_unsealed(redactor, mark, *each) for each in said]
            try:
                row = self._server.call(statement, values(self._position.seen, mark, bodies))
            except StoreError as error:
                self._keeper.failed(error, self._clock())
                raise
            if row is None:
                return None
            now, seq, hash_ = row
            self._server.tell_time(now)
            self._position.seen = (seq, hash_)
        self._written(Entry(seq, hash_, b""), now)
        return int(now)


_Bound = Callable[[tuple[int, str], str, list[str]], Sequence[Any]]
_Said = tuple[EventType, dict[str, Any], tuple[str, ...]]
"""An event: its kind, its fields, and the names of those that are the time of the transaction."""


def _of(permit: Permit) -> dict[str, Any]:
    return {"run": permit.action.run_id, "request": None, "permit": permit.id, "digest": permit.digest}


def _said_of_allowed(permit: Permit, outcome: Outcome | None) -> list[_Said]:
    """Return what the log says of an allow that is used at once, in the words of `SQLStore.admit`."""
    action, decision, common = permit.action, permit.decision, _of(permit)
    judged = {**action_fields(action, permit.digest), **decision_fields(decision), "permit": permit.id}
    said: list[_Said] = [
        (events.DECISION_EVALUATED, judged, ()),
        (events.PERMIT_CONSUMED, common, ("issued",)),
        (events.EXEC_STARTED, {**common, **enforcement_fields(decision)}, ()),
    ]
    if outcome is not None:
        said += [(kind, {**common, **fields}, ("started",)) for kind, fields in said_of(outcome)]
    return said


def _unsealed(redactor: Redactor, mark: str, kind: EventType, fields: dict[str, Any], times: tuple[str, ...]) -> str:
    written = redactor.fields(fields) | dict.fromkeys(times, f"{mark}at")
    return unsealed(kind, chain=written["run"], mark=mark, pid=os.getpid(), fields=written)


@dataclass(frozen=True, slots=True)
class Made:
    """The store that was made: which version there was before (0: none), which there is now, and its roles."""

    place: str
    before: int
    now: int
    roles: tuple[str, ...]


def make_store(url: str) -> Made:
    """Make the store in an empty database, or bring an older one to the newest version, with the rights of its roles.

    The role of the address owns everything then. Agents should use another one.

    Raises:
        ConfigError: it is no address, or the role may not make others.
        StoreError: it can't be reached or made.
    """
    made = make_tables(Address(url))
    PostgresStore(url).close()  # which opens its log
    return made


def make_tables(address: Address) -> Made:
    """The same, without the log, which whoever writes first opens."""
    with connected(address) as session:
        session.execute("BEGIN")
        session.execute("SELECT pg_advisory_xact_lock(1212956977, 0)")
        before = structure.version_of(session)
        if (encoding := session.execute("SHOW server_encoding").fetchone()[0]) != "UTF8":
            raise ConfigError(f"{address.place} holds text as {encoding}: make a database with ENCODING 'UTF8'")
        for script in structure.scripts()[before:]:
            session.run(script)
        session.execute(f"SET LOCAL search_path = {PATH}")
        structure.check(session, address.place)
        structure.grant_roles(session)
        session.execute("COMMIT")
    return Made(address.place, before, structure.newest(), tuple(structure.ROLES.values()))
