"""Commands that do harm, against all that approvers would grant on the examples of the rules: none of them is covered.

What is harmful is in the shared data, where that is here; pairs of our own are in `test_grants.UNCOVERED`.
"""

import json
import os
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.grants import Pattern, offers, why_never
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import loader
from tests.approvals.test_grants import COVERED

pytestmark = pytest.mark.usefixtures("compiled")

PROJECT = "/srv/app"
DATA = Path(os.environ.get("HLA_DATA", Path(__file__).parents[3] / "shared" / "data")) / "bypass.jsonl"


def asked(director: Director, command: str) -> ApprovalRequest:
    action = Action(command, cwd=PROJECT, project=PROJECT, run_id="r")
    decision = director.evaluate(action)
    digest = action.digest(decision.policy_digest, decision.files)
    return ApprovalRequest("1", "1", digest, {}, action, decision, "os:1:a", created=0, expires=1, valid_for=1)


def examples() -> list[str]:
    """What the rules' own examples do, and what a grant is given on in `test_grants`."""
    found = [before for before, _ in COVERED]
    for rule in loader.load(loader.find("default"), tested=False).rules:
        found += [str(each) for kind in ("match", "not_match") for each in getattr(rule.tests, kind, None) or ()]
    return list(dict.fromkeys(found))


@pytest.mark.long
@pytest.mark.parametrize("confined", [True, False])
def test_no_grant_of_more_than_the_exact_command_covers_harm(confined: bool) -> None:
    if not DATA.is_file():
        pytest.skip(f"no data: {DATA} is missing; set HLA_DATA (allowed in CI)")
    director = Director.load("default", project=PROJECT, environ={"HOME": "/home/u"}, confined=confined, tested=False)
    patterns: set[Pattern] = set()
    for command in examples():
        for offer in offers(asked(director, command)):
            patterns.update(offer.scope.patterns)
    assert len(patterns) > 50, "else this says nothing"
    covered, seen = [], 0
    for row in map(json.loads, DATA.read_text().splitlines()):
        request = asked(director, row["command"])
        decision = request.decision
        if row["policy"] != "default" or decision.verdict is not Verdict.ASK or why_never(decision):
            continue
        seen += 1
        if all(any(pattern.covers(ask) for pattern in patterns) for ask in decision.asks):
            covered.append(row["id"])
    assert seen > 50, "else this says nothing"
    assert not covered
