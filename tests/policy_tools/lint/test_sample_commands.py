"""Commands made from patterns: what a pattern is turned into is what it matches."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.path_patterns import PathSet
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.policy.language.examples import PROJECT, director_for, examples
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.policy import Text
from humanlayer_agent.policy_tools.lint import boundary_values, witnesses
from humanlayer_agent.policy_tools.lint.witnesses import judged
from tests.support.tables import catalog_examples

NAMES = st.text("ab.*?", min_size=1, max_size=4).filter(lambda t: t not in (".", "..") and "**" not in t)


@given(st.lists(NAMES | st.just("**"), min_size=1, max_size=4), st.booleans())
def test_a_path_lies_in_its_pattern(parts: list[str], anywhere: bool) -> None:
    pattern = ("**/" if anywhere else "/srv/") + "/".join(parts)
    path = boundary_values.path_in(pattern)
    (word,) = shlex.split(path)
    absolute = word if word.startswith("/") else f"/nowhere/project/{word}"
    assert PathSet([pattern], {}).has(absolute)


@given(st.text("ab*?' $\\", min_size=1, max_size=6))
def test_a_word_matches_its_glob(glob: str) -> None:
    word = boundary_values.word_in(Text(glob=glob))
    assert word is not None
    (text,) = shlex.split(word)
    assert TextSet([Text(glob=glob)]).has(text) or set(glob) <= {"*"}


def test_options_by_their_names() -> None:
    assert boundary_values.spelled("rm", "recursive") in ("-r", "-R")
    assert boundary_values.spelled("git push", "force") in ("-f", "--force")
    assert boundary_values.spelled("rm", "no-such") is None
    assert boundary_values.spelled("no-such", "force") is None


@pytest.mark.long
def test_cases_are_decided_as_the_director_decides() -> None:
    policy = load(find("default"), tested=False)
    director = director_for(policy)
    for command in [e.command for e in examples(policy)] + [e.command for e in catalog_examples()]:
        decision = director.evaluate(Action(command, cwd=PROJECT))
        again = judged(director, command).decision
        assert (again.verdict, again.rules, again.reason) == (decision.verdict, decision.rules, decision.reason), (
            command
        )


def test_dangers_do_what_is_said_of_them() -> None:
    """Each has an effect of the kinds by which it is dangerous, and no shipped policy for a machine allows it."""
    director = director_for(load(find("default"), tested=False))
    for danger in witnesses.all_dangers():
        case = judged(director, danger.command)
        assert {e.kind for c in case.program.commands for e in c.effects} & danger.by, danger.command
        assert not case.allowed, danger.command


def test_a_command_is_read_once_for_all_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    default, strict = (director_for(load(find(name))) for name in ("default", "strict"))
    first = judged(default, "rm -rf old")
    monkeypatch.delattr(witnesses, "analyse")
    second = judged(strict, "rm -rf old")
    assert second.program is first.program
    assert second.decision is not first.decision
