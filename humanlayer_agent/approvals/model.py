"""The objects of an approval. Times are integer milliseconds since the epoch, UTC."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from humanlayer_agent.action import FUNCTION, QUESTION, Action
from humanlayer_agent.approvals.authority import ApprovalRule
from humanlayer_agent.confine.journal import MovedAside
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.processes.file_swaps import FileChange, JudgedFiles

if TYPE_CHECKING:
    from humanlayer_agent.approvals.grants import GrantUse

RequestState = Literal[
    "pending",
    "approved",
    "rejected",
    "answered",
    "expired",
    "withdrawn",
    "superseded",
    "terminated",
    "revoked",
    "lapsed",
    "invalidated",
]
AnswerKind = Literal["approve", "reject", "edit", "respond", "escalate", "terminate", "revoke"]

_ANY: frozenset[AnswerKind] = frozenset({"approve", "reject", "edit", "respond", "escalate", "terminate", "revoke"})
_ANSWERS: Mapping[str, frozenset[AnswerKind]] = {
    QUESTION: frozenset({"respond", "reject", "escalate", "terminate"}),
    FUNCTION: _ANY - {"edit"},
}


def answers_to(kind: str) -> frozenset[AnswerKind]:
    """Return the answers that may be given to an action of this type: no channel offers another, and none counts.

    The text of a call says what it is given, and is nothing that could run in another form.

    Example:
        >>> "edit" in answers_to("bash"), "edit" in answers_to("function")
        (True, False)
    """
    return _ANSWERS.get(kind, _ANY)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one agent.

    Args:
        agent: its name.
        instance: stays the same when the agent is restarted.
        requester: the principal who started it.
        project: the directory it works for.
    """

    id: str
    agent: str
    instance: str
    requester: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class Approver:
    """The human who answered: the stable identity, how it was established, and how far that is trusted.

    Who that is, and whether they may decide, is found out where the answer is recorded.

    Args:
        principal: the identity that answered ("os:1000:alice").
        channel: the name of the channel that heard it.
        assurance: one of `authority.ASSURANCES`.
        groups: the identities of groups ("slack-usergroup:T012AB/S078GH") that the channel has just verified
            `principal` to be in: only those that it found.

    Example:
        >>> Approver("os:1000:alice", "terminal", "terminal").principal
        'os:1000:alice'
    """

    principal: str
    channel: str
    assurance: str
    groups: tuple[str, ...] = ()


def person(principal: str) -> str:
    """Return a principal's name for people to read: an OS user's name; other principals stay as they are.

    Example:
        >>> person("os:1000:alice"), person("slack:T1/U2")
        ('alice', 'slack:T1/U2')
    """
    kind, _, rest = principal.partition(":")
    return (rest.partition(":")[2] if kind == "os" else "") or principal


@dataclass(frozen=True, slots=True)
class Answer:
    """A human's answer to one request, as the channel heard it.

    Args:
        kind: approve, reject (`comment` says why), edit, respond (`comment` is what the model gets instead of the
            output), escalate (ask the next audience now), terminate (end the run), or revoke (take an approval back).
        approver: who answered.
        presented_digest: the digest of what was shown.
        decision_id: unique, from the channel: the same click delivered twice has the same one.
        comment: the human's words.
        input_mode: typed, click, reply or api.
        edited: what the command is to be instead, exactly, in an edit; "" in every other answer.
        scope: with an approval, the name of the `grants.Offer` by which more of the kind is approved; "" for once.

    Example:
        >>> alice = Approver("os:1000:alice", "terminal", "terminal")
        >>> Answer("reject", alice, presented_digest="0" * 64, decision_id="1", comment="wrong bucket").kind
        'reject'
    """

    kind: AnswerKind
    approver: Approver
    presented_digest: str
    decision_id: str
    comment: str = ""
    input_mode: str = "typed"
    edited: str = ""
    scope: str = ""


def _none_known(last: int) -> Sequence["ApprovalRequest"]:
    return ()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A request that waits for humans. Read back from a store, `action` has neither `env` nor `stdin`.

    Args:
        id: names it.
        idempotency_key: the same where the same agent, started again, asks the same: the pending request is adopted.
        digest: of the action; an approval is for this one.
        body: the JSON that was hashed to `digest`, with digests of `env` and `stdin`.
        action, decision: the action, and the policy's answer.
        requester: the principal who started the run.
        created: when it was made (ms).
        expires: when nobody may answer any more (ms).
        valid_for: how long an approval may wait to be used (ms).
        state: pending, or how it ended.
        decided, decided_by, comment: when it left pending (ms), the principal whose vote did that ("" where none), and
            that vote's words.
        edited: what that vote made of the command (state superseded).
        parent: the request whose edit this one asks about.
        rule: what it takes to approve it, as whoever asked saw it: for display, because whoever runs the action asks
            their own `Authority`.
        needed: so many approvals must be there before it can be approved at all.
        escalated: how many steps of the rule an escalation has made due.
        since: votes from before this (ms) don't count; set where a restarted run has adopted the request.
        abandoned: the process that asked is known to be gone. While it is pending, the same agent, started again, may
            adopt it; where nobody has for a while, it is withdrawn for that.
        held: whatever its run starts, and has started so far, runs confined: nothing of it reaches the human's
            terminal. Known to the process that asks, and to no other.
        can_hold: whoever asks can run it held, and apply what that changes. The same.
        to_type: what whoever answers at the channel of the process that asks has to type to approve it, because their
            last answers came too quickly; "" where they need not.
        kept: nobody waits for the answer, and the request stays when its run ends: a later one comes for it.
        earlier: reads the newest so many requests of its store that are settled, oldest first, for what a scope would
            have meant (`channels.offers.foresight`). It may raise StoreError. Only the process that asks knows any.
        beside: gives the requests of the same run that wait for their turn at the same human. The same.
    """

    id: str
    idempotency_key: str
    digest: str
    body: dict[str, Any]
    action: Action
    decision: PolicyDecision
    requester: str
    created: int
    expires: int
    valid_for: int
    state: RequestState = "pending"
    decided: int | None = None
    decided_by: str = ""
    comment: str = ""
    edited: str = ""
    parent: str = ""
    rule: ApprovalRule | None = None
    needed: int = 1
    escalated: int = 0
    since: int = 0
    abandoned: bool = False
    held: bool = False
    can_hold: bool = False
    to_type: str = ""
    kept: bool = False
    earlier: Callable[[int], Sequence["ApprovalRequest"]] = field(default=_none_known, compare=False, repr=False)
    beside: Callable[[], Sequence["ApprovalRequest"]] = field(default=tuple, compare=False, repr=False)

    @property
    def answers(self) -> frozenset[AnswerKind]:
        """The answers that may be given (`answers_to`)."""
        return answers_to(self.action.type)

    @property
    def ending(self) -> RequestState | Literal["abandoned"]:
        """Its state, for people to read: "abandoned" where it was withdrawn because its agent is gone."""
        return "abandoned" if self.abandoned and self.state == "withdrawn" else self.state


@dataclass(frozen=True, slots=True)
class Vote:
    """One recorded answer: of which person, signed with which key, and the signature in hex.

    Args:
        request_id: the request that it answers.
        answer: its kind.
        approver, presented_digest, decision_id, comment, input_mode, edited: as in `Answer`.
        at: when it was recorded (ms).
        person: the id of the person in the channels file.
        solo: this person also started the run.
        signer: the fingerprint of the key; "" in votes from before there were signatures.
        signature: in hex.
        scope: what it lets be done again, as it is signed (`grants.Scope.text`); "" where that is nothing.
    """

    request_id: str
    answer: AnswerKind
    approver: Approver
    presented_digest: str
    decision_id: str
    comment: str
    input_mode: str
    at: int
    edited: str = ""
    person: str = ""
    solo: bool = False
    signer: str = ""
    signature: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class VoteResult:
    """The fate of an answer: recorded, the same one again (duplicate), late, or refused.

    Args:
        outcome: which of the four.
        state: that of the request afterwards; None where there is no such request.
        reason: why it did not count.
        code: the same as one of `votes.REFUSALS`.
        missing: how many approvals a pending request still needs.
    """

    outcome: Literal["recorded", "duplicate", "late", "refused"]
    state: RequestState | None
    reason: str = ""
    code: str = ""
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to run exactly one action once; consumed before execution.

    Args:
        id: names it.
        digest: of `action`.
        action: what may run. Where a human changed the command, it is not what was proposed.
        decision: the policy's answer to it.
        use_by: when it lapses (ms).
        request_id: the request that a human answered; "" where none was asked.
        approved_by: who approved this action, the last of several; "" where the policy itself allows it.
        comment: their words.
        edited_by: who changed the command; "" where nobody did.
        request: the approved request as the process knows it that asked; what it takes to run is judged by that, and
            not by the store's row.
        granted: the uses of grants by which it may run, without anybody being asked; () where none were needed.
        requester: the principal who started the run, where grants let it run.
        started: it was consumed in the transaction that issued it (`Gate.admit`): the action may run now, and `start`
            is not called.
        judged: the directory and the files that it was judged by, for whoever starts the action (`run_command`).
    """

    id: str
    digest: str
    action: Action
    decision: PolicyDecision
    use_by: int
    request_id: str = ""
    approved_by: str = ""
    comment: str = ""
    edited_by: str = ""
    request: ApprovalRequest | None = None
    granted: tuple["GrantUse", ...] = ()
    requester: str = ""
    started: bool = False
    judged: JudgedFiles | None = field(default=None, compare=False, repr=False)

    @property
    def by_grants(self) -> str:
        """The grants by which it may run, for people: "grant 7f3a by alice (12 of 50)"; "" where none were needed."""
        return " and ".join(map(str, self.granted))


@dataclass(frozen=True, slots=True)
class Waiting:
    """The answer where a human has yet to say something, and nobody waits: `id` is what `Gate.collect` takes.

    Args:
        id: of the request. It may be written down, and stays good when the process ends.
        request: what is asked, for whoever shows it to somebody.

    Example:
        >>> from humanlayer_agent import Gate
        >>> with Gate.from_config(policy="default", instance="clerk-1", durable=True) as gate:
        ...     asked = gate.submit(gate.call("pay", {"amount": 300}))
        >>> asked.request.decision.reason
        'Calls pay: no rule allows it.'
    """

    id: str
    request: ApprovalRequest = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Execution:
    """The proof that a permit was consumed, durable before it is returned: now, and only once, its action may run."""

    permit_id: str
    digest: str
    started: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason why a permit was not issued or not consumed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Denial:
    """The answer to an action that may not run.

    Args:
        reason: why, for people and for the model.
        by: policy, human, nobody (no answer, no channel), or store.
        decision: the policy's.
        request_id: the request that a human answered.
        approver, comment: who denied it, and their words, proved by a signed vote.
        terminate: the whole run is to end.
        edited: what a human had changed the command to; `decision` and `reason` are about that.
        answer: what the human said, where one did.
        in_a_row: the run ends because of so many denials in a row.
        question: it is no denial, but what became of a question to a human: nothing was to run.
        halted: because every agent of the store is stopped (`hla stop`), not only this one.

    Example:
        >>> str(Denial("the run has ended", by="policy"))
        'the run has ended'
    """

    reason: str
    by: Literal["policy", "human", "nobody", "store"]
    decision: PolicyDecision | None = None
    request_id: str = ""
    approver: str = ""
    comment: str = ""
    terminate: bool = False
    edited: str = ""
    answer: AnswerKind | None = None
    in_a_row: int = 0
    halted: bool = False
    question: bool = False

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an execution.

    Args:
        returncode: the exit code, or None where there is none.
        detail: why there is none (time-out, could not be started, interrupted).
        duration_ms: how long it took, in milliseconds.
        unwatched: the command has ended, or deceived, what watches over it: that ends the run.
        receipt: what the log is to say of the answer that a coding agent's hook is given, which runs it.
        changed: the files that it was judged by and that became others; found by `Gate.finish`.
        moved: what it left where it would be run later by itself, and where that is now.
        started: False where it was not even started.
        network: how many connections were forwarded for it, and how many were not, by host (`CommandResult.network`).
        files: how many files of the project it made, changed and removed, where that was looked at for `hla undo`.

    Example:
        >>> Outcome(0, duration_ms=120).returncode
        0
    """

    returncode: int | None
    detail: str = ""
    duration_ms: int = 0
    unwatched: bool = False
    receipt: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[FileChange, ...] = ()
    moved: tuple[MovedAside, ...] = ()
    started: bool = True
    network: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: Mapping[str, Any] = field(default_factory=dict)


class Asker(Protocol):
    """The part of a channel that the Gate needs: put one request before a human, and wait.

    It never decides by itself. A channel may also have `tell(text)`: it says one line to the human who has just
    answered. And `identities`, the principals whose answers it brings: where no people are configured these count, and
    where some are, the channel is not asked what none of them may answer. And `only_waits`, which is True where it puts
    nothing before a human, and only watches whether anybody still waits for the answer: it is asked by every route.
    """

    name: str

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        """Put `request` before a human, and wait for the answer.

        Args:
            until: give up then (ms since the epoch).
            cancelled: give up when it returns True.

        Returns:
            None where there was no answer in time.

        Raises:
            ChannelError: nobody can be asked (`NoTerminal`).
            RunTerminated: Ctrl-C.
        """
        ...
