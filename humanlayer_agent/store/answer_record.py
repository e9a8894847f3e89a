"""One human's answer on its way into the store: may they, is it in time, what becomes of the request.

Everything here happens inside one write transaction. What is recorded decides what is shown and who waits; what runs is
decided by counting the signed votes again (`votes.tally`).
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from humanlayer_agent.action import PLAN, QUESTION, Action
from humanlayer_agent.approvals.attention import HOUR_MS, IN_A_ROW, SEVERE, is_hasty, is_typed, to_type
from humanlayer_agent.approvals.authority import GLASS, ApprovalRule, Authority, breaks_glass
from humanlayer_agent.approvals.grants import MAIL, offers
from humanlayer_agent.approvals.model import (
    Answer,
    ApprovalRequest,
    Approver,
    Refused,
    RequestState,
    Vote,
    VoteResult,
    answers_to,
)
from humanlayer_agent.approvals.store_interface import edit_fault
from humanlayer_agent.approvals.votes import REFUSALS, Refusal, Seat, counts, glass_rule, seat_of, tally
from humanlayer_agent.audit import events
from humanlayer_agent.canonical_json import encodable
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.grants import give
from humanlayer_agent.store.rows import (
    load_action,
    load_decision,
    load_demands,
    load_rule,
    said_approver,
    sayable,
    storable,
)
from humanlayer_agent.store.statements import Ledger, Log
from humanlayer_agent.store.transactions import Row

_REACHED: dict[str, RequestState] = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "superseded",
    "respond": "answered",
    "escalate": "pending",
    "terminate": "terminated",
    "revoke": "revoked",
}
"""The state that an answer leads to, an approval where it is the last that was missing."""

_GROUPS = 100
"""So many groups of one person are recorded at the most."""

_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


def record_answer(
    ledger: Ledger, request_id: str, answer: Answer, authority: Authority, signer: Signer, *, revoking: bool = False
) -> VoteResult:
    """Count `answer`, once, or say why it does not count.

    Args:
        revoking: the answer takes an approval back; no other may, and it may do nothing else.
    """
    authority = ledger.counting(authority)
    row = ledger.request(request_id)
    if row is not None and answer.kind == "approve" and not answer.scope and _is_plan(row):
        answer = replace(answer, scope=PLAN)  # there is no once of what does not run
    if before := _same_id(ledger, answer):
        return _repeated(ledger, row, before, request_id, answer)
    admitted = _admitted(row, answer, authority, signer, revoking=revoking)
    if isinstance(admitted, Refusal):
        return _refused(ledger, request_id, answer, row, admitted)
    assert row is not None
    rule, seat = admitted
    state: RequestState = row["state"]
    if state == "pending" and row["expires"] <= ledger.now:
        ledger.settle(row, state := "expired")
    used = revoking and bool(ledger.rows("SELECT 1 FROM permit WHERE request_id = ? AND state = 'consumed'", row["id"]))
    if state != ("approved" if revoking else "pending") or used:
        reason = "the approval was already used" if used else f"the request was already {state}"
        ledger.say_vote(events.VOTE_LATE, request_id, answer, run=row["run_id"], why=reason)
        return VoteResult("late", state, reason)
    votes = ledger.votes(request_id)
    glass = answer.approver.channel == GLASS
    same_way = [vote for vote in votes if (vote.approver.channel == GLASS) == glass]
    if not revoking and answer.kind != "escalate" and _has_answered(same_way, seat, answer.approver):
        refusal = Refusal("voted-before", f"{seat.person} has answered already")
        return _refused(ledger, request_id, answer, row, refusal)
    level, to = 0, ""
    if answer.kind == "escalate":
        due, steps = rule.due(ledger.now - row["created"], row["escalated"]), rule.due(2**62)
        if len(due) == len(steps):
            return _refused(ledger, request_id, answer, row, Refusal("nobody-further", REFUSALS["nobody-further"]))
        level, to = len(due) + 1, steps[len(due)].to
    scope = (None if glass else _too_hasty(ledger, row, answer, seat, rule)) or _scope(ledger, row, answer)
    if isinstance(scope, Refusal):
        return _refused(ledger, request_id, answer, row, scope)
    vote = _signed(ledger, request_id, answer, seat, signer, scope)
    ledger.vote(row, vote)
    missing = _missing(ledger, [*votes, vote], row, rule)
    if glass:
        missing = _say_glass(ledger, row, [*same_way, vote])
    if answer.kind == "escalate":
        ledger.escalate(row, level, to, answer.approver.principal)
        return VoteResult("recorded", "pending", missing=missing)
    result = _counted(ledger, row, answer, missing)
    if result.state == "approved":
        give(ledger, row, [*votes, vote])
    return result


def _counted(ledger: Ledger, row: Row, answer: Answer, missing: int) -> VoteResult:
    """Change the request as a recorded answer demands, after which so many approvals are missing."""
    by = answer.approver.principal
    state = _REACHED[answer.kind]
    if answer.kind == "approve" and missing:
        return VoteResult("recorded", "pending", missing=missing)
    if answer.kind == "revoke":
        ledger.take_back(row, state, by=by)
        ledger.void_permits("request_id = ?", row["id"])
    else:
        ledger.settle(row, state, by=by)
    if state == "terminated":
        ledger.stop_run(row["run_id"], "a human stopped the run")
    return VoteResult("recorded", state)


def demanded(ledger: Log, row: Row, person: str, rule: ApprovalRule) -> str:
    """Return what `person` has to type to approve a request, because their last answers came too quickly; "" where they
    need not.
    """
    severity = load_demands(row["decision"])[1]
    if not rule.slow_down_ms or severity not in SEVERE:
        return ""
    found = ledger.rows(
        "SELECT vote.at - request.created AS took FROM vote JOIN request ON request.id = vote.request_id "
        "WHERE person = ? AND answer = 'approve' AND vote.at > ? "
        "AND json_extract(request.decision, '$.severity') IN (?, ?) ORDER BY vote.at DESC LIMIT ?",
        *(person, ledger.now - HOUR_MS, *SEVERE, IN_A_ROW),
    )
    hasty = is_hasty((each["took"] for each in found), rule.slow_down_ms)
    return to_type(load_decision(row["decision"])) if hasty else ""


def _too_hasty(ledger: Ledger, row: Row, answer: Answer, seat: Seat, rule: ApprovalRule) -> Refusal | None:
    wanted = demanded(ledger, row, seat.person, rule) if answer.kind == "approve" else ""
    if not wanted or is_typed(wanted, answer.comment):
        return None
    quickly = f"the last {IN_A_ROW} of high severity were approved within {rule.slow_down_ms / 1000:g} s each"
    return Refusal("hasty", f"{quickly}: write what this is about with the approval: {wanted}")


def _missing(ledger: Ledger, votes: Sequence[Vote], row: Row, rule: ApprovalRule) -> int:
    """Return how many approvals a request with these votes still needs, as far as its rows say: one more than its route
    wants, where one of those who approved it has approved too many others within the hour.
    """
    votes = [vote for vote in votes if vote.approver.channel != GLASS]
    people = {vote.person for vote in votes if vote.answer == "approve"}
    needed: int = max(row["needed"], rule.quorum)
    if rule.second_after and any(vote.answer == "approve" and _tired(ledger, vote, rule) for vote in votes):
        needed += 1
    gone = {each.absent for each in rule.stand_ins}  # what they said before counts again when they are back
    gone |= {each.person for each in ledger.left()}
    return max(0, needed - len(people - {"", *gone}))


def _say_glass(ledger: Ledger, row: Row, votes: Sequence[Vote]) -> int:
    """Say in the log that somebody approves outside of a request's route; returns how many are missing."""
    gone = {each.person for each in ledger.left()}
    given = [vote for vote in votes if vote.person not in gone]
    broken, said = breaks_glass((vote.person, vote.signer) for vote in given), votes[-1]
    ledger.append(
        events.GLASS_BROKEN,
        run=row["run_id"],
        request=row["id"],
        approver=said_approver(said.approver),
        person=said.person,
        people=sorted({vote.person for vote in given}),
        signer=said.signer,
        reason=said.comment,
        done=broken,
    )
    return 0 if broken else 1


def _tired(ledger: Ledger, vote: Vote, rule: ApprovalRule) -> bool:
    (found,) = ledger.rows(
        "SELECT count(*) AS approvals FROM vote "
        "WHERE person = ? AND answer = 'approve' AND at > ? AND at <= ? AND request_id <> ?",
        *(vote.person, vote.at - HOUR_MS, vote.at, vote.request_id),
    )
    return bool(found["approvals"] >= rule.second_after)


def _admitted(
    row: Row | None, answer: Answer, authority: Authority, signer: Signer, *, revoking: bool
) -> tuple[ApprovalRule, Seat] | Refusal:
    """The rule that an answer falls under and who gives it, or why it can't count."""
    if row is None:
        return _refusal("no-request")
    if not _complete(answer) or (answer.kind == "revoke") != revoking:
        return _refusal("incomplete")
    if answer.presented_digest != row["digest"]:
        return _refusal("wrong-digest")
    action = as_asked(row)
    if action is None:
        return _refusal("altered")
    if answer.kind not in answers_to(action.type):
        words = "a question is answered in words: nothing of it could be approved"
        return Refusal("no-such-answer", words if action.type == QUESTION else _NO_EDIT)
    if fault := edit_fault(answer, action.content):
        return Refusal("bad-edit", fault)
    if answer.approver.channel == GLASS and (answer.kind != "approve" or answer.scope or not answer.comment.strip()):
        return Refusal("incomplete", "outside of a route a request is approved once, with a reason, and nothing else")
    if answer.kind == "respond" and not answer.comment.strip():
        return Refusal("incomplete", "a response needs words")
    try:
        demands = load_demands(row["decision"])
        glass = answer.approver.channel == GLASS
        rule = glass_rule(authority) if glass else authority.rule_of(*demands, row["requester"])
    except ConfigError as error:
        return Refusal("no-route", str(error))
    except _UNREADABLE:
        return _refusal("altered")
    seat = seat_of(authority, rule, row["requester"], answer.approver)
    if isinstance(seat, Refusal):
        return seat
    if not authority.trusts(signer.fingerprint):
        return _refusal("untrusted-signer")
    return rule, seat


def as_asked(row: Row) -> Action | None:
    """Return the action of a stored request that is still what its digest says; None for any other: what is shown of it
    must be what is approved.
    """
    try:
        body, action = json.loads(row["body"]), load_action(row["action"])
        shown = {
            "type": action.type,
            "command": encodable(action.content),
            "cwd": encodable(action.cwd),
            "project": encodable(action.project),
            "interpreter": list(action.interpreter),
            "agent": encodable(action.agent),
            "tool": encodable(action.tool),
            "arguments": encodable(action.arguments) if action.tool else "",
        }
        same = all(body.get(name, "") == value for name, value in shown.items())
        return action if same and hashlib.sha256(row["body"]).hexdigest() == row["digest"] else None
    except _UNREADABLE:
        return None


def read_request(row: Row) -> ApprovalRequest:
    """The request in a row of the table; what was not read beside it (who decided, with which words) is empty."""
    asked, more = as_asked(row), row.keys()
    return ApprovalRequest(
        id=row["id"],
        idempotency_key=row["idempotency_key"],
        digest=row["digest"] if asked else "",  # what is shown may be approved, and nothing else
        body=json.loads(row["body"]),
        action=replace(asked or load_action(row["action"]), run_id=row["run_id"]),
        decision=load_decision(row["decision"]),
        requester=row["requester"],
        created=row["created"],
        expires=row["expires"],
        valid_for=row["valid_for"],
        state=row["state"],
        decided=row["decided"],
        decided_by=(row["principal"] if "principal" in more else "") or "",
        comment=(row["comment"] if "comment" in more else "") or "",
        edited=(row["edited"] if "edited" in more else "") or "",
        parent=row["parent"] or "",
        rule=load_rule(row["rule"]),
        needed=row["needed"],
        escalated=row["escalated"],
        abandoned="abandoned" in more and bool(row["abandoned"]),
    )


def _complete(answer: Answer) -> bool:
    """Tell whether everything is there. Texts must be plain `str`: a subclass may say that it equals anything."""
    who = answer.approver
    if type(who) is not Approver:
        return False
    needed = (answer.kind, answer.decision_id, who.principal)
    words = (answer.presented_digest, answer.comment, answer.input_mode, answer.scope)
    texts = (*needed, *words, who.channel, who.assurance)
    if type(who.groups) is not tuple or len(who.groups) > _GROUPS:
        return False
    return all(type(text) is str for text in (*texts, *who.groups)) and all(needed) and answer.kind in _REACHED


def _same_id(ledger: Ledger, answer: Answer) -> Vote | None:
    if type(answer.decision_id) is not str:
        return None
    found = ledger.votes_where("decision_id = ?", answer.decision_id)
    return found[0] if found else None


def _has_answered(votes: Sequence[Vote], seat: Seat, approver: Approver) -> bool:
    return any(
        (vote.person == seat.person or vote.approver.principal == approver.principal) and vote.answer != "escalate"
        for vote in votes
    )


def _is_plan(row: Row) -> bool:
    with suppress(*_UNREADABLE):
        return load_action(row["action"]).type == PLAN
    return False


def _scope(ledger: Ledger, row: Row, answer: Answer) -> str | Refusal:
    """The scope that an answer chose of those that are offered, as it is signed; "" where it chose none.

    It is made of what the row says must be approved: that has to be what the log says that was asked.
    """
    if not answer.scope:
        return ""
    if answer.kind != "approve" or answer.approver.assurance in MAIL:
        return Refusal("no-such-scope", "only an approval has a scope, and none that comes by mail")
    if not ledger.is_as_asked(row):
        return _refusal("altered")
    offered = {offer.name: offer for offer in offers(read_request(row))}
    if (chosen := offered.get(answer.scope)) is None:
        return Refusal("no-such-scope", f"{REFUSALS['no-such-scope']}: {sayable(answer.scope)[:40]}")
    return replace(chosen.scope, until=ledger.now + chosen.age).text()


def _signed(ledger: Ledger, request_id: str, answer: Answer, seat: Seat, signer: Signer, scope: str) -> Vote:
    vote = Vote(
        request_id=request_id,
        answer=answer.kind,
        approver=answer.approver,
        presented_digest=answer.presented_digest,
        decision_id=answer.decision_id,
        comment=storable(answer.comment),
        input_mode=answer.input_mode,
        at=ledger.now,
        edited=answer.edited,
        person=seat.person,
        solo=seat.solo,
        signer=signer.fingerprint,
        scope=scope,
    )
    return replace(vote, signature=signer.sign(vote))


def _refusal(code: str) -> Refusal:
    return Refusal(code, REFUSALS[code])


def _refused(ledger: Ledger, request_id: str, answer: Answer, row: Row | None, refusal: Refusal) -> VoteResult:
    ledger.say_vote(
        events.VOTE_REFUSED,
        request_id,
        answer,
        run=row["run_id"] if row else None,
        digest=row["digest"] if row else None,
        refusal=refusal.code,
        why=refusal.reason,
    )
    return VoteResult("refused", row["state"] if row else None, refusal.reason, refusal.code)


def _repeated(ledger: Ledger, row: Row | None, vote: Vote, request_id: str, answer: Answer) -> VoteResult:
    """An answer whose id we have seen: the channel delivered it twice, or somebody uses the id of another."""
    who = vote.approver
    given = (request_id, answer.kind, answer.approver, answer.presented_digest, answer.edited, bool(answer.scope))
    # Delivered once more, they may be in other groups by now.
    by = replace(who, groups=getattr(answer.approver, "groups", ()))
    known = (vote.request_id, vote.answer, by, vote.presented_digest, vote.edited, bool(vote.scope))
    if row is not None and given == known:
        return VoteResult("duplicate", row["state"], "this answer was already recorded")
    return _refused(ledger, request_id, answer, row, _refusal("repeated-id"))


# Requests of a run that is gone


def adoptable(ledger: Ledger, draft: ApprovalRequest, authority: Authority | None) -> ApprovalRequest | None:
    """The pending request of a run that is gone which `draft` repeats, as this process may rely on it.

    Where it is not plainly the same one, or an answer to it can't be proved, it is withdrawn, and None returned: the
    human is asked anew.
    """
    row = ledger.waiting(draft)
    if row is None:
        return None
    known = _known(row, draft)
    same = row["digest"] == draft.digest and row["requester"] == draft.requester and as_asked(row) is not None
    if same and not ledger.is_over(row["id"]) and _open(ledger.votes(row["id"]), known, authority):
        return known
    ledger.settle(row, "withdrawn", why=_UNRELIABLE)
    return None


_NO_EDIT = "the call of a tool can't be changed: reject it, and say what you want"
_UNRELIABLE = "the run that asked is gone, and what it left can't be relied on"


def collectable(ledger: Ledger, draft: ApprovalRequest, authority: Authority) -> ApprovalRequest | Refused:
    """The request called `draft.id`, as this process may rely on it, or why there is none: of this run, or, where it is
    kept, of an earlier one that has ended. What becomes of it is the business of `draft`'s run from now on.

    Whose it is, and what it was about, is bound by its name, which the votes sign (`submissions`): whoever calls this
    has compared that.
    """
    found = ledger.rows(
        "SELECT request.*, run.process, run.clock, run.beat, run.state AS run_state "
        "FROM request JOIN run ON run.id = run_id WHERE request.id = ?",
        draft.id,
    )
    if not found:
        return Refused(f"there is no request called {draft.id}")
    row = found[0]
    earlier = row["run_id"] != draft.action.run_id
    if earlier and not (draft.kept and row["kept"]):
        return Refused("it was asked by a run that was not durable: its answer went with it")
    if earlier and row["run_state"] == "open" and not ledger.is_gone(row):
        return Refused("another process of this agent waits for the answer")
    if row["digest"] != draft.digest or row["requester"] != draft.requester:
        return Refused("what was asked is not what would run now")
    if as_asked(row) is None or not ledger.is_as_asked(row):
        return Refused("the stored request is not what was asked")
    known = _known(row, draft)
    if row["state"] == "pending":
        proved = not ledger.is_over(row["id"]) and _open(ledger.votes(row["id"]), known, authority)
        if row["expires"] <= ledger.now or not proved:
            ledger.settle(row, "withdrawn" if not proved else "expired", **({} if proved else {"why": _UNRELIABLE}))
            return known
    if earlier and row["state"] in ("pending", "approved") and not row["used"]:
        ledger.adopt(row["id"], draft.action.run_id)
    return known


def _known(row: Row, draft: ApprovalRequest) -> ApprovalRequest:
    """The stored request that is the same as `draft`, as far as nothing has to be believed."""
    timeout = draft.expires - draft.created
    expires = min(row["expires"], draft.expires)
    return replace(
        draft,
        id=row["id"],
        created=row["created"],
        expires=expires,
        valid_for=min(row["valid_for"], draft.valid_for),
        needed=row["needed"],
        escalated=row["escalated"],
        since=expires - timeout,
    )


def _open(votes: list[Vote], request: ApprovalRequest, authority: Authority | None) -> bool:
    """Tell whether the answers to a request that is said to be pending are all proved, and leave it undecided."""
    if not votes:
        return True
    if authority is None or not tally(request, votes, authority).why_not:
        return False
    rule = authority.rule_for(request.decision, request.requester)
    return all(vote.answer in ("approve", "escalate") and counts(vote, request, rule, authority) for vote in votes)
