"""The objects of an approval. Times are integer milliseconds since the epoch, UTC."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule
from humanlayer_agent.policy.decision import PolicyDecision

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


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one agent. `instance` stays the same when the agent is restarted; `requester` started it."""

    id: str
    agent: str
    instance: str
    requester: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class Approver:
    """Who answered: the stable identity, how it was established, and how far that is trusted.

    `principal` is the identity that answered ("os:1000:alice"); `assurance` is one of `authority.ASSURANCES`. Who that
    is, and whether they may decide, is found out where the answer is recorded. `groups` are the identities of groups
    ("slack-usergroup:T012AB/S078GH") that the channel has just verified `principal` to be in: only those that it found.
    """

    principal: str
    channel: str
    assurance: str
    groups: tuple[str, ...] = ()


def person(principal: str) -> str:
    """Who `principal` is, for people to read: an OS user's name; other principals stay as they are.

    Example:
        >>> person("os:1000:alice"), person("slack:T1/U2")
        ('alice', 'slack:T1/U2')
    """
    kind, _, rest = principal.partition(":")
    return (rest.partition(":")[2] if kind == "os" else "") or principal


@dataclass(frozen=True, slots=True)
class Answer:
    """What a human said to one request, as the channel heard it.

    `kind` is approve, reject (`comment` says why), edit, respond (`comment` is what the model gets instead of the
    output), escalate (ask the next audience now), terminate (end the run), or revoke (take an approval back).
    `decision_id` is unique and comes from the channel (the same click delivered twice has the same one).
    `presented_digest` is the digest of what was shown. `input_mode` is typed, click, reply or api. `edited` is what the
    command is to be instead, exactly, in an edit; "" in every other answer.
    """

    kind: AnswerKind
    approver: Approver
    presented_digest: str
    decision_id: str
    comment: str = ""
    input_mode: str = "typed"
    edited: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An ask that waits for humans. `body` is what was hashed to `digest`; `requester` started the run.

    Read back from a store, `action` has neither `env` nor `stdin`: only their digests are kept (in `body`).
    `expires` is when nobody may answer any more; an approval may be used for `valid_for` ms. `decided` is when it left
    pending, `decided_by` the principal whose vote did that ("" where none), `comment` that vote's words. `edited` is
    what that vote made of the command (state superseded), `parent` the request whose edit this one asks about.

    `rule` is what it takes to approve it, as whoever asked saw it: for display, because whoever runs the action asks
    their own `Authority`. So many approvals as `needed` must be there before it can be approved at all. `escalated` is
    how many steps of the rule an escalation has made due. Votes from before `since` don't count: it is set where a
    restarted run has adopted the request. `abandoned`: it is pending, and the process that asked is known to be gone;
    the same agent, started again, may adopt it until it expires.
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


@dataclass(frozen=True, slots=True)
class Vote:
    """One recorded answer: of which person, signed with which key (its fingerprint), and the signature in hex.

    `solo` says that this person also started the run. Votes from before there were signatures have none.
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


@dataclass(frozen=True, slots=True)
class VoteResult:
    """What became of an answer: recorded, the same one again (duplicate), late, or refused.

    `state` is that of the request afterwards (None where there is no such request), `reason` why it did not count, and
    `code` the same as one of `votes.REFUSALS`. `missing` is how many approvals a pending request still needs.
    """

    outcome: Literal["recorded", "duplicate", "late", "refused"]
    state: RequestState | None
    reason: str = ""
    code: str = ""
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to run exactly one action once; consumed before execution.

    `action` is what may run, and `digest` is its digest: where a human changed the command (`edited_by` is not ""), it
    is not what was proposed. `request_id` is the request that a human answered ("" where none was asked), `approved_by`
    who approved this action, the last of several ("" where the policy itself allows it). `request` is the approved
    request as the process knows it that asked; what it takes to run is judged by that, and not by the store's row.
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


@dataclass(frozen=True, slots=True)
class Execution:
    """The proof that a permit was consumed, durable before it is returned: now, and only once, its action may run."""

    permit_id: str
    digest: str
    started: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a permit was not issued or not consumed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Denial:
    """Why an action may not run. `by` is policy, human, nobody (no answer, no channel), or store.

    `answer` is what the human said, where one did, and `comment` their words: an approver's, proved by a signed vote.
    `terminate` says that the whole run is to end; `in_a_row`, that it is because of so many denials in a row. Where a
    human had changed the command, `edited` is what it was changed to, and what `decision` and `reason` are about.
    `halted`: because every agent of the store is stopped (`hla stop`), not only this one.
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

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an execution ended: its exit code, or None and why (time-out, could not be started, interrupted).

    `unwatched` says that the command has ended, or deceived, what watches over it: that ends the run.
    """

    returncode: int | None
    detail: str = ""
    duration_ms: int = 0
    unwatched: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


class Asker(Protocol):
    """What the Gate needs of a channel: put one request before a human, and wait.

    `ask` raises `ChannelError` (`NoTerminal`) where nobody can be asked, `RunTerminated` on Ctrl-C. It returns None
    where `until` (ms) passed or `cancelled()` became true without an answer. It never decides by itself.

    A channel may also have `tell(text)`: it says one line to the human who has just answered. And `identities`, the
    principals whose answers it brings: where no people are configured these count, and where some are, the channel is
    not asked what none of them may answer.
    """

    name: str

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None: ...
