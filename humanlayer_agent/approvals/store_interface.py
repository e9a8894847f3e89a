"""The store as the Gate needs it: the one place where agents, humans and channels meet.

Each method is one transaction that holds the change and its audit event, or nothing. Everything that keeps a store
from doing its work is a `StoreError`, and the action is denied.

A store has no opinion on who may decide. Methods that need to know take the caller's `Authority`: the one that records
an answer asks its own, and the one that runs the action asks its own again, because one store serves many processes.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.absences import Absences
from humanlayer_agent.approvals.authority import Authority, Removal
from humanlayer_agent.approvals.delivery import Surfaces
from humanlayer_agent.approvals.grants import Grants
from humanlayer_agent.approvals.holds import Hold, Holds
from humanlayer_agent.approvals.model import (
    Answer,
    ApprovalRequest,
    Execution,
    Outcome,
    Permit,
    Refused,
    RequestState,
    Run,
    Vote,
    VoteResult,
)
from humanlayer_agent.approvals.stop import Halts
from humanlayer_agent.audit.anchor import Loss
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.heads import Head
from humanlayer_agent.audit.verify import Reached, Verification
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.redaction.redactor import Redactor

NEVER_RUNS = "a plan or a question is no action: it never runs, whatever a human says to it"
"""Why there is no permit for a plan."""


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Figures:
    """How much is in a store.

    `version` is that of its schema, `events` the number of those in its log, `waiting` of requests that wait, `runs` of
    those that go on, `leases` the channels that are somebody's, `size` what it takes on the disk, in bytes.
    """

    kind: Literal["sqlite", "postgresql"]
    version: int
    events: int
    waiting: int
    runs: int
    leases: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Purged:
    """The numbers of rows that went, or would go."""

    requests: int
    votes: int
    permits: int

    def __bool__(self) -> bool:
        return bool(self.requests or self.permits)


class Purging(Protocol):
    """One look at a whole store, and what of it may be deleted."""

    def would_go(self) -> Purged:
        """Return the numbers of rows that may go, as far as was heard."""
        ...

    def would_stay(self) -> Purged:
        """Return the numbers of rows that only a legal hold keeps."""
        ...

    def holds(self) -> list[Hold]:
        """Return the holds that stand."""
        ...

    def delete(self, by: str, sha256: str) -> Purged:
        """Delete it, in one transaction with its event: who does (a principal), and the digest of the export."""
        ...

    def erase(self) -> bool:
        """Make what was deleted vanish from the bytes too; False where another process is in the way."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """What somebody has decided, as the tables have it (what was purged is not in them).

    Args:
        answers: how many of each kind.
        last: their newest answers, the newest first: when (ms), the kind, the id of the request.
        grants: the ids of the grants they gave, each with how often it was used.
        standing: those of the grants that still let something through.
        keys: the keys that signed what they answered themselves at a command line.
    """

    answers: Mapping[str, int]
    last: tuple[tuple[int, str, str], ...]
    grants: Mapping[str, int]
    standing: tuple[str, ...]
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Removed:
    """What ended with somebody's leaving: ids of grants, of approvals that were not used, and of absences."""

    grants: tuple[str, ...]
    lapsed: tuple[str, ...]
    absences: tuple[str, ...]


class People(Protocol):
    """Who has left, as far as a store was told. It takes no proof: nobody can do more by it than before."""

    def left(self) -> Sequence[Removal]:
        """Return who has left, the first one first."""
        ...

    def principals(self, person: str) -> list[str]:
        """Return the principals under whom somebody has answered."""
        ...

    def record_of(self, person: str) -> Record:
        """Return what somebody has decided."""
        ...

    def remove(self, person: str, identities: Sequence[str], keys: Sequence[str], by: str, reason: str = "") -> Removed:
        """End everything that somebody may do, in one transaction. It can't be taken back.

        Args:
            person: their id. identities: the principals that they are known by. keys: fingerprints of their keys.
            by: the principal who does. reason: their words.
        """
        ...


class Store(Protocol):
    """Runs, requests, votes, permits, executions and the audit chain."""

    @property
    def location(self) -> str:
        """What names it: a path, or an address without its password."""
        ...

    def now(self) -> int:
        """Return the time in ms, as everybody who uses the store has it: on a server, that of the database."""
        ...

    def is_news(self, request_id: str) -> bool:
        """Tell whether something may have become of a request since this was asked last: it costs next to nothing.

        Where nobody can tell, that is True.
        """
        ...

    def pause(self, seconds: float) -> None:
        """Wait on this thread for so long, or until it is heard that something has become of any request."""
        ...

    @property
    def surfaces(self) -> Surfaces:
        """The places where requests are shown, and the processes that see to that."""
        ...

    @property
    def halts(self) -> Halts:
        """The stops that keep every agent of this store from acting."""
        ...

    @property
    def grants(self) -> Grants:
        """The approvals that have a scope."""
        ...

    @property
    def absences(self) -> Absences:
        """The words of people who are away."""
        ...

    @property
    def people(self) -> People:
        """What is known of people who have left."""
        ...

    def open_run(self, run: Run) -> None:
        """Begin a run of this process, whose heartbeat the store writes from now on.

        What processes that are gone have left is settled first (`reconcile`).
        """
        ...

    def stop_run(self, run_id: str, why: str) -> None:
        """Let nothing more of a run happen: what waits is withdrawn, unused permits are void. Again changes nothing."""
        ...

    def supervisors(self) -> list[str]:
        """The identities (`identity.identity`) of the processes whose runs have not ended."""
        ...

    def close_run(self, run_id: str, status: str) -> None:
        """End a run: its pending requests are withdrawn, its unused permits void. Closing again changes nothing."""
        ...

    def record(self, kind: EventType, **fields: Any) -> None:
        """Append an event that changes nothing else."""
        ...

    def record_decision(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        *,
        authority: Authority | None = None,
        **fields: Any,
    ) -> None:
        """Append the decision on an action that gets neither a permit nor a request.

        Args:
            authority: says who can have lifted a stop (None: nobody).

        Raises:
            AgentsStopped: every agent is stopped. The decision is in the log, with that.
            RunLost: the run was given up. The decision is in the log, with that.
        """
        ...

    def allow(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        *,
        use_by_ms: int,
        edit_of: str | None = None,
        authority: Authority | None = None,
    ) -> Permit:
        """Record the policy's own allow and issue a permit that is good for `use_by_ms`.

        Args:
            edit_of: the request whose edit the action is.
            authority: as for `record_decision`.

        Raises:
            AgentsStopped: every agent is stopped. The decision is in the log, with that.
            RunLost: the run was given up. The decision is in the log, with that.
        """
        ...

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
        """Record the policy's own allow, issue its permit and consume it: `allow` and `consume` in one transaction.

        Args:
            digest: of the action as it was judged.
            about_to_run: the same, computed anew from what is about to run.
            authority: as for `consume`.
            outcome: how it ends, where that is known before it runs (somebody else runs it): recorded as well.

        Returns:
            The permit, `started`; or why nothing may run.

        Raises:
            AgentsStopped: every agent is stopped. The decision is in the log, with that.
        """
        ...

    def create_request(self, draft: ApprovalRequest, authority: Authority | None = None) -> ApprovalRequest:
        """Record an ask and begin to wait for humans. Where `draft.parent` is set it asks about that request's edit.

        A *pending* request with the same idempotency key, left by a run whose process is gone, is adopted instead: the
        human is asked once. An approved one never is, nor one with votes that `authority` does not count.

        Raises:
            AgentsStopped: every agent is stopped. The decision is in the log, with that, and nobody is asked.
            RunLost: the same, where the run was given up.
        """
        ...

    def collect(self, draft: ApprovalRequest, authority: Authority) -> ApprovalRequest | Refused:
        """Take over the request called `draft.id`, of this run or of an earlier one of the same instance, whatever has
        become of it.

        Args:
            draft: the same as it would be asked now; the row is not believed.
            authority: counts the votes.

        Returns:
            The request as this process may rely on it, or why it may not.

        Raises:
            AgentsStopped: every agent is stopped.
            RunLost: the run was given up.
        """
        ...

    def get(self, request_id: str) -> ApprovalRequest | None:
        """The request as it is now."""
        ...

    def requests(
        self, *, state: RequestState | Literal["settled"] | None = None, run: str | None = None, last: int | None = None
    ) -> list[ApprovalRequest]:
        """Requests, oldest first.

        Args:
            state: only those in this state; "settled": in any but pending.
            run: only those of this run.
            last: only the newest so many of these.
        """
        ...

    def ids(self, beginning: str) -> list[str]:
        """Return the ids of all requests that begin so."""
        ...

    def votes(self, request_id: str) -> list[Vote]:
        """Return the answers to a request, oldest first."""
        ...

    def decide(self, request_id: str, answer: Answer, authority: Authority, signer: Signer) -> VoteResult:
        """Count one human's answer, once. Late, wrong and unknown answers leave an audit event and nothing else.

        An approval counts towards the quorum, and the request stays pending until that is reached; one rejection ends
        it. An edit supersedes it, and that is all it does here: whoever waits for the request judges `edited`. An edit
        to nothing, or to the same command, is refused.

        Args:
            authority: says whether this person may answer.
            signer: signs the vote; its key must be one of the authority's.
        """
        ...

    def to_type(self, request_id: str, principal: str, authority: Authority) -> str:
        """Return what `principal` has to type with an approval of this request, because their last answers came too
        quickly (`attention`); "" where they need not.
        """
        ...

    def revoke(self, request_id: str, answer: Answer, authority: Authority, signer: Signer) -> VoteResult:
        """Take an approval back (answer kind "revoke"), before it is used: late afterwards. See `decide`."""
        ...

    def expire(self, request_id: str) -> RequestState:
        """Nobody answered in time. It is written: a clock that jumps back revives nothing. Returns the state."""
        ...

    def withdraw(self, request_id: str, why: str) -> RequestState:
        """Nobody waits any more, or nobody can be asked. Returns the state there is afterwards."""
        ...

    def terminate(self, request_id: str, why: str) -> RequestState:
        """A human stopped the run without an answer to this request (Ctrl-C). Ends the run as well."""
        ...

    def permit(self, request: ApprovalRequest, authority: Authority, *, use_by_ms: int) -> Permit | Refused:
        """Issue the one permit of an approved request.

        Args:
            request: as the caller knows it, from `create_request`; the row is not believed.
            authority: counts the votes.

        Returns:
            `Halted` where every agent is stopped.
        """
        ...

    def consume(self, permit: Permit, digest: str, authority: Authority) -> Execution | Refused:
        """Use a permit, before execution, at most once, for a run of this process. The votes are counted again.

        Args:
            permit: as this store issued it, with the action as one of the run that is about to use it: a permit of
                another run, or of another process, is refused, and stays good there.
            digest: computed anew from what is about to run.
            authority: that of the process that is about to run it.

        Returns:
            `Halted` where every agent is stopped, whatever else the rows say.
        """
        ...

    def void(self, permit_id: str, why: str) -> None:
        """Make an unused permit unusable."""
        ...

    def finish(self, permit_id: str, outcome: Outcome) -> bool:
        """Record how an execution ended. False where none of this permit is running."""
        ...

    def used(self, counter: str, per: str, run: str) -> int:
        """Return how much was counted (`PolicyDecision.counts`) of what has started.

        Args:
            counter: names what is counted.
            per: "run": in this run; "hour" or "day": in the last one, in any run.
            run: the run.
        """
        ...

    def reconcile(self) -> None:
        """Settle what processes that are gone left behind: executions become unknown, and are never run again.

        Gone is a process that has certainly ended, or one that can't be seen from here (on another machine, in another
        container, before a restart) and gave no sign of life for half a minute.
        """
        ...

    def events(
        self,
        *,
        run: str | None = None,
        request: str | None = None,
        type: str | None = None,
        after: int = -1,
        last: int | None = None,
    ) -> Iterator[Entry]:
        """Audit events by `seq`.

        Args:
            run, request: only those of this run or request.
            type: only of this type ("vote.late"), or of this family ("vote").
            after: only those with a greater `seq`.
            last: only the newest so many of these.
        """
        ...

    def first_run(self, agent: str, instance: str) -> Entry | None:
        """Return the event with which the first run of this instance of an agent began; None where it has had none."""
        ...

    def first_decision(self, agent: str, instance: str, project: str) -> Entry | None:
        """Return the first decision on an action of this instance of an agent in a project; None: there is none."""
        ...

    def verify(
        self,
        *,
        heads: Sequence[Head] = (),
        progress: Callable[[int], None] = lambda count: None,
        since: Reached | None = None,
    ) -> Verification:
        """Check all chains, and every row of the tables against the events that made it. See `audit.verify`.

        Args:
            heads: kept elsewhere.
            since: a head up to which it was checked before: only what came after is read, and the rows that tells of.
        """
        ...

    def loss(self) -> Loss | None:
        """Return the events that the anchor beside the user's keys names and the log has no more; None: there are none.

        Raises:
            StoreError: the log can't be read.
        """
        ...

    @property
    def holds(self) -> Holds:
        """The legal holds, which keep what would be deleted."""
        ...

    def purge(self, *, before: int, exported: Head, authority: Authority | None = None) -> Purging:
        """Look for what is settled, old (before this moment, in ms) and exported (up to this head).

        Raises:
            StoreError: the store was tampered with, or the export is not of its log: then nothing may go.
        """
        ...

    def figures(self) -> Figures:
        """Return how much is in it."""
        ...

    def redactor(self) -> Redactor:
        """Return the redactor that keeps secrets out of this store's log, and names digests in it."""
        ...

    def write_head(self) -> Head:
        """Sign the newest event, and write that down too, to be kept elsewhere as a witness (`audit.heads`)."""
        ...

    def close(self) -> None:
        """Let go of the file or the connection."""
        ...


def edit_fault(answer: Answer, original: str) -> str:
    """Return why the edited command of an answer can't be taken; "" where it can, or where there rightly is none."""
    edited = answer.edited
    if answer.kind != "edit":
        return "" if type(edited) is str and not edited else "only an edit may come with another command"
    if type(edited) is not str or not edited.strip():  # a str subclass may compare equal to anything
        return "the edit leaves no command"
    if "\0" in edited or edited.encode("utf-8", "replace").decode() != edited:
        return "the edited command has characters that no command line can hold"
    if edited == original:
        return "the edit changes nothing: approve the request, or reject it"
    return ""
