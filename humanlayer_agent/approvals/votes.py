"""The count of votes. Who may vote is checked when a vote is recorded, and for every vote again before anything runs.

What the store's columns say of a request counts for nothing here, because whoever can write the file can write those:
a vote counts only if a trusted key has signed it, for exactly this request, as the process knows it that asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from humanlayer_agent.approvals.authority import GLASS, ApprovalRule, Authority, Person, breaks_glass
from humanlayer_agent.approvals.model import AnswerKind, ApprovalRequest, Approver, Vote
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.signing import is_signed
from humanlayer_agent.policy.decision import PolicyDecision

REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "no-request": "there is no such request",
        "wrong-digest": "the answer is for something else than the request",
        "incomplete": "the answer is incomplete",
        "bad-edit": "the edit can't be taken",
        "repeated-id": "the decision id belongs to another answer",
        "altered": "the stored request is not what was asked",
        "no-route": "the policy names a route that does not exist",
        "untrusted-signer": "the key of this process may not sign votes",
        "unknown-identity": "nobody who may answer is known by this identity",
        "not-an-approver": "this person is not one of the approvers",
        "low-assurance": "an answer that comes this way is not enough",
        "unknown-requester": "it is not known who started the run, so nobody can be told from them",
        "requester": "who started the run may not answer",
        "severe-for-group": "being in a group is not enough for what is of this severity",
        "not-told-apart": "this person can't be told from another who answers, or who started the run",
        "voted-before": "this person has answered already",
        "nobody-further": "there is nobody further to ask",
        "no-such-answer": "this is not answered so",
        "hasty": "the last answers came too quickly: what this is about has to be typed",
        "away": "this person is away, and another answers in their place",
        "no-such-scope": "nothing of that scope is offered for this request",
    }
)
"""Why an answer did not count. Programs rely on the codes: they are never changed or used again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why somebody may not answer: a code of `REFUSALS`, and a sentence."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Seat:
    """Somebody who may answer: the id of the person, and whether that person also started the run.

    Of somebody who is nobody of the people, and may answer as one of a group, the principal is the id.
    """

    person: str
    solo: bool


def seat_of(authority: Authority, rule: ApprovalRule, requester: str, approver: Approver) -> Seat | Refusal:
    """Return the seat from which `approver` may answer a request of `requester` under `rule`, or why there is none."""
    if approver.channel == GLASS:
        return _glass_seat(authority, requester, approver)
    person = authority.person_of(approver.principal)
    group = authority.group_of(rule, approver.principal, approver.groups)
    if person is None and group is None:
        return Refusal("unknown-identity", REFUSALS["unknown-identity"])  # a stranger's words go nowhere
    starter = authority.person_of(requester)
    own = approver.principal == requester or (person is not None and person == starter)
    who = person.id if person else approver.principal
    for each in rule.stand_ins:
        if each.absent == who:
            return Refusal(
                "away", f"{who} is away, and {each.person} answers in their place (hla people back ends that)"
            )
    if (person is None or person.id not in rule.approvers) and not (rule.solo and own and not rule.approvers):
        if group is None:
            return Refusal("not-an-approver", f"{who} is not an approver of route {rule.name}")
        if not rule.by_group:
            return Refusal(
                "severe-for-group", f"{REFUSALS['severe-for-group']}: {who} is no approver but by {group.id}"
            )
    if not rule.takes(approver.assurance):
        return Refusal(
            "low-assurance",
            f"an answer by {approver.channel} ({approver.assurance}) is not enough: {rule.min_assurance} is needed",
        )
    if starter is None and not rule.solo:
        return Refusal("unknown-requester", f"nobody is known as {requester}, who started the run")
    if own and not rule.solo:
        return Refusal("requester", f"{who} started the run: somebody else must answer")
    if person is None and (other := _may_be(authority, rule, starter, approver.principal)):
        return Refusal(
            "not-told-apart", f"{who} may be {other}: name them, or that identity of {other}, under `people:`"
        )
    return Seat(who, own)


def _glass_seat(authority: Authority, requester: str, approver: Approver) -> Seat | Refusal:
    """Return the seat of one of two who approve outside of any route: never that of whoever started the run."""
    person, starter = authority.for_glass(approver.principal, approver.assurance), authority.person_of(requester)
    if person is None:
        return Refusal("not-an-approver", f"{approver.principal} is not named under break_glass, or not at a terminal")
    if starter is None:
        return Refusal("unknown-requester", f"nobody is known as {requester}, who started the run")
    if person == starter:
        return Refusal("requester", f"{person.id} started the run: somebody else must answer")
    return Seat(person.id, False)


def glass_rule(authority: Authority) -> ApprovalRule:
    """Return the rule that is for who approves outside of any route, where there is one.

    Raises:
        ConfigError: nobody may.
    """
    return ApprovalRule(GLASS, authority.glass, quorum=2, min_assurance="terminal")


def _may_be(authority: Authority, rule: ApprovalRule, starter: Person | None, principal: str) -> str:
    """Return who `principal`, who is none of the people, might be of those it must be told from; "" where it is told
    apart.

    That is whoever started the run, who may not answer twice nor, without `solo`, at all; and where several must
    approve, each of the others who may: one human must not count as two.
    """
    if not authority.is_told_apart(starter, principal):
        return starter.id if starter else "who started the run"
    people = {person.id: person for person in authority.people}
    if principal in people:  # somebody's id is no principal of another
        return principal
    others = rule.approvers if rule.quorum > 1 else ()
    return next((who for who in others if not authority.is_told_apart(people[who], principal)), "")


def counts(vote: Vote, request: ApprovalRequest, rule: ApprovalRule, authority: Authority) -> bool:
    """Tell whether `vote` is proved to be what one of the approvers said to `request`, in time."""
    seat = seat_of(authority, rule, request.requester, vote.approver)
    return (
        isinstance(seat, Seat)
        and seat.person == vote.person
        and vote.request_id == request.id
        and vote.presented_digest == request.digest
        and request.since <= vote.at
        and (vote.at < request.expires or vote.answer == "revoke")
        and authority.trusts(vote.signer)
        and is_signed(vote)
    )


def granting(
    votes: Iterable[Vote], decision: PolicyDecision, requester: str, authority: Authority, now: int
) -> tuple[Vote, ...] | str:
    """Return the approvals that a grant consists of, one a person, as far as they count for what `decision` asks about
    now; or why they are not enough.

    Who started the run that would use it is asked for as when a request is answered: nobody grants to themselves what
    somebody else has to approve.

    Args:
        votes: all answers to the request that the grant was given with.
        requester: the principal who started the run that would use it.
        now: the time (ms).
    """
    try:
        rule = authority.rule_for(decision, requester)
    except ConfigError as error:
        return str(error)
    approvals: dict[str, Vote] = {}
    for vote in sorted(votes, key=lambda vote: vote.at):
        if vote.answer == "escalate":
            continue
        if vote.answer != "approve":
            return f"one of the answers is {vote.answer}, not approve"
        seat = seat_of(authority, rule, requester, vote.approver)
        mine = isinstance(seat, Seat) and seat.person == vote.person and vote.approver.channel != GLASS
        if mine and vote.at <= now and authority.trusts(vote.signer) and is_signed(vote):
            approvals.setdefault(vote.person, vote)
    if len(approvals) < rule.quorum:
        return f"{len(approvals)} of its approvals count, and {rule.quorum} must"
    return tuple(approvals.values())


@dataclass(frozen=True, slots=True)
class Tally:
    """The result of counting the votes on a request.

    `approvals` are those that count, one a person, oldest first; `why_not` says why they don't approve it ("" if they
    do), and `decided` is when the last of them came.
    """

    approvals: tuple[Vote, ...]
    why_not: str
    decided: int = 0


def tally(request: ApprovalRequest, votes: Iterable[Vote], authority: Authority) -> Tally:
    """Count the votes on `request`: a quorum of different people, or two who may break glass, and nobody's no.

    A no needs no proof: whoever forges one has only kept something from running.
    """
    given = sorted(votes, key=lambda vote: vote.at)
    if no := next((vote.answer for vote in given if vote.answer not in ("approve", "escalate")), ""):
        return Tally((), f"one of the answers is {no}, not approve")
    if glass := _glass(request, given, authority):
        return Tally(glass, "", glass[-1].at)
    try:
        rule = authority.rule_for(request.decision, request.requester)
    except ConfigError as error:
        return Tally((), str(error))
    approvals: dict[str, Vote] = {}
    for vote in given:
        if vote.answer == "approve" and vote.approver.channel != GLASS and counts(vote, request, rule, authority):
            approvals.setdefault(vote.person, vote)
    counted = tuple(approvals.values())
    if len(counted) < rule.quorum:
        people = "approval counts" if len(counted) == 1 else "approvals count"
        return Tally(counted, f"{len(counted)} {people}, and {rule.quorum} must")
    return Tally(counted, "", counted[-1].at)


def _glass(request: ApprovalRequest, votes: Iterable[Vote], authority: Authority) -> tuple[Vote, ...]:
    """Return the votes by which two people have approved `request` outside of its route; () where they have not."""
    given = [vote for vote in votes if vote.approver.channel == GLASS and vote.answer == "approve"]
    if len(given) < 2 or not authority.glass:
        return ()
    rule = glass_rule(authority)
    counted = [vote for vote in given if not vote.scope and counts(vote, request, rule, authority)]
    return tuple(counted) if breaks_glass((vote.person, vote.signer) for vote in counted) else ()


def said(answer: AnswerKind, request: ApprovalRequest, votes: Sequence[Vote], authority: Authority) -> Vote | None:
    """The newest vote with this answer that is proved to be an approver's. Only such words ever reach a model."""
    try:
        rule = authority.rule_for(request.decision, request.requester)
    except ConfigError:
        return None
    proved = [vote for vote in votes if vote.answer == answer and counts(vote, request, rule, authority)]
    return max(proved, key=lambda vote: vote.at) if proved else None
