"""What is kept of the answers of rules is what they would say when they are asked: no command changes another's."""

import dataclasses

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.answer_cache import settled_clauses
from humanlayer_agent.policy.conditions.rule_matcher import CompiledRule
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.policy import Match, Program


def directors(name: str) -> tuple[Director, Director]:
    """One as it is, and one that asks every rule each time."""
    made = [Director.load(name, project="/p", environ={"HOME": "/h"}, tested=False) for _ in range(2)]
    rules = made[1].in_force().rules
    rules.all = tuple(dataclasses.replace(rule, settled=False, ahead=None) for rule in rules.all)
    return made[0], made[1]


def told(decision: PolicyDecision) -> str:
    return repr(dataclasses.replace(decision, microseconds=0))


def examples(name: str) -> list[str]:
    found = []
    for rule in load(find(name), tested=False).rules:
        if rule.tests is not None:
            found += [*rule.tests.match, *rule.tests.maybe, *rule.tests.not_match]
    return [text for text in found if isinstance(text, str)]


@pytest.mark.parametrize("name", ["default", "strict", "sandbox"])
def test_the_examples_of_all_rules_one_after_another(name: str) -> None:
    """In both orders: what is kept of one command is then used for the other."""
    kept, asked = directors(name)
    texts = list(dict.fromkeys(examples(name)))
    assert len(texts) > 50
    for text in [*texts, *reversed(texts)]:
        action = Action(text, cwd="/p")
        assert told(kept.decide(action)) == told(asked.decide(action)), text


def test_rules_that_are_not_settled_are_answered_ahead() -> None:
    """Else a flow would have to be traced for every command that writes or runs anything."""
    rules = Director.load("default", project="/p", tested=False).in_force().rules.all
    ahead = {rule.rule.id: rule for rule in rules if not rule.settled and rule.ahead is not None}
    assert "fetched-and-run" in ahead
    assert isinstance(ahead["fetched-and-run"], CompiledRule)


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (Match(effect=("write",), flags=None), {"effect"}),
        (Match(program=Program(names=("a",)), operands=None), {"program"}),
        (Match(program=Program(names=("a",), regex="b")), set()),
        (Match(any=(Match(role=("code",)), Match(unread=True))), {"any"}),
        (Match(any=(Match(role=("code",)), Match(agent=None, subcommand=("x",)))), set()),
        (Match(effect=("read",), negated=Match(subcommand=("x",))), {"effect"}),
        (Match(negated=Match(all=(Match(resolved=True),))), {"negated"}),
    ],
)
def test_which_clauses_follow_from_the_key(match: Match, expected: set[str]) -> None:
    assert settled_clauses(match, by_effect=True) == expected


def test_the_key_of_a_command_says_less() -> None:
    match = Match(role=("code",), resolved=True, subcommand=("x",))
    assert settled_clauses(match, by_effect=True) == {"role", "resolved"}
    assert settled_clauses(match, by_effect=False) == {"resolved"}
