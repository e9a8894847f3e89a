"""The check of a permit, made when it is issued, and once more when it is consumed.

Rows say what happened; only signed votes, counted under the authority of the process that is about to run the action,
say that it may happen. The log is heard as well: a request that was made to live again leaves its end in there.
"""

from dataclasses import dataclass

from humanlayer_agent.action import INERT
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.model import ApprovalRequest, Permit, Refused, Vote
from humanlayer_agent.approvals.store_interface import NEVER_RUNS
from humanlayer_agent.approvals.votes import tally
from humanlayer_agent.audit import events
from humanlayer_agent.errors import LOST
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes import identity
from humanlayer_agent.store.grants import unproved_grants
from humanlayer_agent.store.statements import Ledger, Log
from humanlayer_agent.store.transactions import Row


@dataclass(frozen=True, slots=True)
class Proof:
    """The votes that approve a request, oldest first, and until when (ms) they may be acted on."""

    votes: tuple[Vote, ...]
    usable_until: int


def prove(ledger: Ledger, request: ApprovalRequest, authority: Authority) -> Proof | Refused:
    """Return the proof that signed votes approve `request` at this moment, as the process knows it that asked, or why
    they do not.
    """
    if ledger.is_over(request.id, events.PERMIT_CONSUMED):
        return Refused("its request is said to be approved, and the log says that it is over")
    counted = tally(request, ledger.votes(request.id), authority)
    if counted.why_not:
        return Refused(f"its votes do not approve it: {counted.why_not}")
    # A clock that is far behind the votes was set back: nobody knows how long ago they were given.
    if not counted.decided - request.valid_for < ledger.now < counted.decided + request.valid_for:
        return Refused("the approval was not used in time")
    return Proof(counted.approvals, counted.decided + request.valid_for)


def strange(permit: Permit, row: Row) -> str:
    """Return why `permit` is not this run's to use, nor this process's; "" where it is.

    Args:
        permit: its action is one of the run that is about to use it.
        row: the permit as the store has it, with the process of its run.
    """
    if row["run_id"] != permit.action.run_id:
        return "the stored permit belongs to another run"
    if not identity.is_same(row["process"], identity.identity()):
        return "the permit belongs to a run of another process"
    return ""


def unproved(ledger: Ledger, permit: Permit, row: Row, digest: str, authority: Authority) -> str:
    """Return why `permit` may not be used although its row may say so; "" where it is proved.

    Args:
        row: the permit as the store has it.
        digest: of what is about to run.
    """
    request = permit.request
    if permit.action.type in INERT:
        return NEVER_RUNS
    if digest != permit.digest:
        return "what is about to run is not what was permitted"
    if ledger.now >= permit.use_by:
        return "the permit was not used in time"
    if row["request_id"] != (request.id if request else None):
        return "the stored permit belongs to another request"
    if permit.granted:
        return unproved_grants(ledger, permit, digest, authority)
    if request is None:
        allowed = permit.decision.verdict is Verdict.ALLOW or not permit.decision.enforced
        return "" if allowed else "the policy does not allow it, and nobody has approved it"
    if request.digest != permit.digest:
        return "what was approved is not what was permitted"
    proof = prove(ledger, request, authority)
    return proof.reason if isinstance(proof, Refused) else ""


def used(log: Log, counter: str, per: str, run: str) -> int:
    """Return how much of a counter was used in a run, or in the last hour or day. A clock that was set back counts as
    one that stands still: the time of what was counted never goes back.
    """
    if per == "run":
        in_run = log.newest(f"{_COUNTED} AND run = ?", counter, run)
        return 0 if in_run is None else int(in_run["in_run"])
    newest = log.newest(_COUNTED, counter, by=_BY_TIME)
    if newest is None:
        return 0
    since = max(log.now, int(newest["time"])) - _SPANS[per]
    before = log.newest(f"{_COUNTED} AND json_extract(body, '$.time') <= ?", counter, since, by=_BY_TIME)
    return int(newest["total"]) - (0 if before is None else int(before["total"]))


def over_limit(ledger: Ledger, decision: PolicyDecision, run: str) -> str:
    """Return why what was judged to be within its limits is not any more: others were quicker; "" where it is."""
    for count in decision.counts if decision.enforced else ():
        for per, most in count.within:
            if used(ledger, count.counter, per, run) + count.amount > most:
                return f"a limit of the policy ({_PER[per]}) was reached in the meantime: propose it again"
    return ""


def count(ledger: Ledger, permit: Permit, run: str) -> None:
    """Count what is about to start."""
    for each in permit.decision.counts:
        if each.amount <= 0:
            continue
        newest = ledger.newest(_COUNTED, each.counter, by=_BY_TIME)
        ledger.append(
            events.LIMIT_COUNTED,
            run=run,
            permit=permit.id,
            counter=each.counter,
            amount=each.amount,
            total=each.amount + (0 if newest is None else int(newest["total"])),
            in_run=each.amount + used(ledger, each.counter, "run", run),
            time=max(ledger.now, 0 if newest is None else int(newest["time"])),
        )


_COUNTED = "type = 'limit.counted' AND json_extract(body, '$.counter') = ?"
_BY_TIME = "json_extract(body, '$.time') DESC, seq"
_SPANS = {"hour": 3_600_000, "day": 86_400_000}
_PER = {"run": "in one run", "hour": "in an hour", "day": "in a day"}


def why_refused(row: Row | None, digest: str, now: int) -> str:
    """Return what the rows themselves say against a use; "" where they say nothing."""
    if row is None:
        return "there is no such permit"
    if row["state"] == "consumed":
        return "the permit was already used: it is good for one execution"
    if row["digest"] != digest:
        return "what is about to run is not what was permitted"
    if row["run_state"] == "lost":
        return LOST
    if row["run_state"] != "open":
        return "the run has ended"
    if row["request_state"] == "revoked":
        return "the approval was revoked before it was used"
    if row["state"] == "void":
        return "the permit is void"
    if row["use_by"] <= now:
        return "the permit was not used in time"
    if row["request_state"] not in (None, "approved"):
        return f"its request is {row['request_state']}"
    return ""
