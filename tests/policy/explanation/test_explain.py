"""An explanation says the same as the decision, and names what kept rules from applying."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import explain, flow
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import find, load

pytestmark = pytest.mark.usefixtures("compiled")

RULES = """
  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}}}
  - {id: root, decision: deny, when: {program: rm, flags: {any: [recursive]}, paths: {any_within: [/etc]}}}
"""


def test_the_clause_that_failed(director_of: Callable[..., Director]) -> None:
    director = director_of(RULES)
    explanation = explain(director, Action("cat /srv/x && rm -r /srv/y", cwd=director.project))
    cat, rm = explanation.parts
    (read,) = cat.effects
    assert str(read.verdict) == "ask"
    (missed,) = read.missed
    assert (missed.rule.rule.id, missed.answer) == ("reads", "no")
    assert missed.because == ('paths: {all_within: ["${PROJECT}/**"]} (no)',)
    (missed,) = rm.own.missed
    assert (missed.rule.rule.id, missed.because) == ("root", ("paths: {any_within: [/etc]} (no)",))


def test_an_uncertain_clause(director_of: Callable[..., Director]) -> None:
    director = director_of(RULES)
    (part,) = explain(director, Action('cat "$F"', cwd=director.project)).parts
    (missed,) = part.effects[0].missed
    assert (missed.answer, missed.because) == ("maybe", ('paths: {all_within: ["${PROJECT}/**"]} (maybe)',))


@pytest.mark.long
@pytest.mark.parametrize("name", ["default", "strict"])
def test_it_says_what_the_decision_says(name: str) -> None:
    policy = load(find(name))
    director = examples.director_for(policy)
    for example in examples.examples(policy):
        action = Action(example.command, cwd=examples.PROJECT)
        explanation = explain(director, action)
        decision = director.evaluate(action)
        assert (explanation.decision.verdict, explanation.decision.rules) == (decision.verdict, decision.rules)
        assert [part.verdict for part in explanation.parts] == [part.verdict for part in decision.parts]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"in": ["rm", "a b"]}, '{in: [rm, "a b"]}'),
        ([{"glob": "x"}, {"regex": "a+"}], "[x, {regex: a+}]"),
        (True, "true"),
        ("", '""'),
    ],
)
def test_data_in_one_line(value: object, expected: str) -> None:
    assert flow(value) == expected


def test_examples_that_fail_say_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        "version: 1\npolicy: p\nrules:\n"
        "  - id: r\n    decision: deny\n    when: {program: rm}\n"
        '    tests: {match: [rm x, ls, "$X y"], maybe: ["$X y", rm x, ls], not_match: [ls, rm x]}\n'
        "  - id: a\n    decision: allow\n    when: {program: [rm, ls]}\n"
        "    tests: {match: [ls, rm x]}\n"
    )
    results = [
        (r.example.rule.id, r.example.kind, r.example.command, r.expected)
        for r in examples.run(load(path, tested=False))
    ]
    assert results == [
        ("r", "match", "rm x", ""),
        ("r", "match", "ls", "r applies"),
        ("r", "match", "$X y", "r applies"),
        ("r", "maybe", "$X y", ""),
        ("r", "maybe", "rm x", "r may apply, uncertainly"),
        ("r", "maybe", "ls", "r may apply, uncertainly"),
        ("r", "not_match", "ls", ""),
        ("r", "not_match", "rm x", "r does not apply"),
        ("a", "match", "ls", "allow"),
        ("a", "match", "rm x", "allow"),
    ]
