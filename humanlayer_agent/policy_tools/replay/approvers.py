"""Simulated approvers: what would be left to ask in recorded runs, had whoever approved the first ask approved more of
its kind.

They approve everything, always in the same of the scopes that are offered. What the grants cover is decided by the code
that decides it for a real one (`approvals.grants`). Nobody knows when recorded commands ran, so each grant ends with
its run at the latest, and none with the time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.grants import Scope, enough, exact_action, offers
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy_tools.replay import Judged

Choice = Literal["narrowest", "second", "widest"]

_PLACES: dict[Choice, int] = {"narrowest": 0, "second": 1, "widest": 2}
_REQUESTER = "os:0:simulated"

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class Simulated:
    """A grant that nobody gave: what it was given on, and what it let through.

    Args:
        words: as its approver would have chosen it.
        scope: what it covers.
        first: the command that was asked about.
        covered: the commands that ran by it, alone or with others.
    """

    words: str
    scope: Scope
    first: Judged
    covered: list[Judged] = field(default_factory=list)

    def covers(self, decision: PolicyDecision, digest: str) -> frozenset[int]:
        """Return which of the asks of a decision it covers, by their numbers."""
        exact = exact_action(decision, digest)
        return frozenset(n for n, ask in enumerate(decision.asks) if self.scope.covers(ask, exact))


@dataclass(slots=True)
class Asked:
    """So many asks: without grants, and so many of them that a grant answered."""

    before: int = 0
    answered: int = 0

    @property
    def after(self) -> int:
        """How many are left."""
        return self.before - self.answered

    @property
    def share(self) -> float:
        """How many of 100 are answered; 0 where there are none."""
        return 100 * self.answered / self.before if self.before else 0.0

    def count(self, *, answered: bool) -> None:
        """Count one more."""
        self.before += 1
        self.answered += answered


class Approvers:
    """Approves all that is asked about in runs, and counts what need not have been asked.

    Args:
        choice: which of the scopes that are offered is chosen: the narrowest, the one after it, or the widest; where
            there are fewer, the last.

    Attributes:
        certain: asks of which something is certain: a rule asks about it whatever else the command does.
        unsure: all others: what nobody could read, and what only can't be ruled out.
        by_rule: by the rule that decided ("" where no rule allows it).
        by_run: by the run.
        grants: those that were given, in their order.
    """

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.certain, self.unsure = Asked(), Asked()
        self.by_rule: dict[str, Asked] = {}
        self.by_run: dict[str, Asked] = {}
        self.grants: list[Simulated] = []
        self._held: dict[str, list[Simulated]] = {}

    def watch(self, rows: Iterable[R]) -> Iterator[R]:
        """Pass rows on, and answer what is asked in them."""
        for row in rows:
            if isinstance(row, Judged) and row.decisions[0].verdict is Verdict.ASK:
                self._asked(row)
            yield row

    def _asked(self, row: Judged) -> None:
        request, decision = _request(row), row.decisions[0]
        held = self._held.setdefault(row.step.run, [])
        chosen = enough([grant for grant in held if _is_good(grant, request)], decision, request.digest)
        for grant in chosen:
            grant.covered.append(row)
        sure = self.certain if row.certain is not None else self.unsure
        rule, run = (
            table.setdefault(key, Asked())
            for table, key in ((self.by_rule, decision.rule), (self.by_run, row.step.run))
        )
        for count in (sure, rule, run):
            count.count(answered=bool(chosen))
        if not chosen and (offered := offers(request)):
            offer = offered[min(_PLACES[self.choice], len(offered) - 1)]
            scope = replace(offer.scope, run=row.step.run, until=offer.age)
            self.grants.append(grant := Simulated(offer.words, scope, row))
            held.append(grant)


def _request(row: Judged) -> ApprovalRequest:
    """Return the request that the command would have become."""
    step, decision = row.step, row.decisions[0]
    action = Action(
        step.command,
        type=step.type,
        cwd=row.cwd,
        project=row.project,
        interpreter=step.interpreter,
        agent=step.agent,
        run_id=step.run,
    )
    body = action.body(decision.policy_digest, decision.files)
    digest = action.digest(decision.policy_digest, decision.files)
    return ApprovalRequest("", "", digest, body, action, decision, _REQUESTER, created=0, expires=1, valid_for=1)


def _is_good(grant: Simulated, request: ApprovalRequest) -> bool:
    used_up = len(grant.covered) >= grant.scope.uses
    policy = request.decision.policy_digest
    return not used_up and not grant.scope.why_not(request.action, _REQUESTER, policy, 0)
