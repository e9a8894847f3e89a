"""Requests as a real Director makes them, what a grant on one would cover of another; and what store tests ask about."""

import secrets
from dataclasses import replace
from functools import cache

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.grants import exact_action, offers, why_never
from humanlayer_agent.approvals.model import ApprovalRequest, Approver
from humanlayer_agent.policy.decision import Ask, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.testing.approvers import ScriptedApprovers

PROJECT = "/home/ann/app"
TEAM = ScriptedApprovers()
ALICE = "os:1000:alice"
BOB, TESTER = Approver("slack:T1/U2", "slack", "chat"), Approver("os:1000:tester", "terminal", "terminal")
READ = Ask("r", "cat", "read", "operand", "/srv/data/x", places=("/srv/data/x",))
HOST = Ask("n", "curl", "network", "operand", "example.org", "443", verb=("",))


def reading(path: str) -> Ask:
    """What is asked about a file."""
    return replace(READ, operand=path, places=(path,))


@cache
def director(policy: str = "default", project: str = PROJECT) -> Director:
    """A shipped policy, for a project that is on no disk."""
    return Director.load(policy, project=project, environ={"HOME": "/home/ann", "PATH": "/usr/bin:/bin"})


def asked(command: str, by: Director | None = None, **fields: str) -> ApprovalRequest:
    """The request that `command` would be, as the policy has it judged now."""
    judge = by or director()
    where = {"cwd": judge.project, "project": judge.project, "run_id": "run-1", "agent": "agent"} | fields
    action = Action(command, **where)  # type: ignore[arg-type]
    decision = judge.evaluate(action)
    return ApprovalRequest(
        id=secrets.token_hex(16),
        idempotency_key=secrets.token_hex(32),
        digest=action.digest(decision.policy_digest, decision.files),
        body=action.body(decision.policy_digest, decision.files),
        action=action,
        decision=decision,
        requester="os:1000:ann",
        created=0,
        expires=600_000,
        valid_for=60_000,
        needed=1,
    )


def covering(given: ApprovalRequest, later: ApprovalRequest) -> set[str]:
    """The names of the scopes offered for one request that cover all that another one asks about."""
    decision = later.decision
    if decision.verdict is not Verdict.ASK or why_never(decision):
        return set()
    exact = exact_action(decision, later.digest)
    return {offer.name for offer in offers(given) if all(offer.scope.covers(ask, exact) for ask in decision.asks)}
