"""Why a command is not allowed: every part that is not, what stands in its way, and what would have to change."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import Explanation, explain
from humanlayer_agent.policy.explanation.why_not import changes, obstacles
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import find, load

pytestmark = pytest.mark.usefixtures("compiled")

RULES = """
  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}}}
  - {id: lists, decision: allow, when: {effect: read, program: ls, role: list, paths: {all_within: [/srv/**]}}}
  - {id: mirror, decision: allow, when: {effect: network, hosts: {any_in: [a.example]}}}
  - {id: secrets, decision: ask, when: {effect: read, paths: {any_within: ["**/.env"]}}}
  - {id: etc, decision: deny, locked: true, when: {effect: read, paths: {any_within: [/etc/**]}}}
"""


@pytest.fixture
def explained(director_of: Callable[..., Director]) -> Callable[[str], Explanation]:
    director = director_of(RULES)
    return lambda command: explain(director, Action(command, cwd=director.project))


Explained = Callable[[str], Explanation]


def test_what_is_allowed_has_no_obstacle(explained: Explained) -> None:
    assert obstacles(explained("cat a && ls /srv/x")) == []
    assert changes(explained("cat a")) == []


def test_no_allow_covers_it(explained: Explained) -> None:
    (obstacle,) = obstacles(explained("cat a; cat /srv/b"))
    assert obstacle.effect is not None
    assert obstacle.effect.operand == "/srv/b"
    assert (obstacle.standing, obstacle.allowed) == ((), ())
    assert [t.rule.rule.id for t in obstacle.nearest] == ["reads"], "the other is about another program"
    (change,) = changes(explained("cat /srv/b"))
    assert change == "an allow would have to cover the effect read /srv/b: reads, if /srv/b lay in ${PROJECT}/**"


def test_a_rule_stands_in_the_way(explained: Explained) -> None:
    (obstacle,) = obstacles(explained("cat .env"))
    assert [hit.rule.rule.id for hit in obstacle.standing if hit.rule] == ["secrets"]
    assert (obstacle.allowed, obstacle.nearest) == (("reads",), ())
    (change,) = changes(explained("cat .env"))
    assert change == "secrets (ask) would have to leave it alone: another command, or an `unless` for this"


def test_a_locked_rule(explained: Explained) -> None:
    first, second = changes(explained("cat /etc/passwd"))
    assert first == "etc (deny) would have to leave it alone: it is locked, so only another command helps"
    assert second.startswith("an allow would have to cover the effect read /etc/passwd")


def test_no_allow_is_about_such_effects(explained: Explained) -> None:
    (change,) = changes(explained("rm a"))
    assert change.endswith("no allow is about effects of the kind delete")
    (change,) = changes(explained("true"))
    assert change.endswith("no allow is about true commands")


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("curl https://b.example", "mirror, if b.example were one of a.example"),
        ('cat "$X"', 'which can\'t be told: "$X" is not known'),
        ("ls /opt/x", "if /opt/x lay in ${PROJECT}/**"),
    ],
)
def test_hints(explained: Explained, command: str, hint: str) -> None:
    assert any(hint in change for change in changes(explained(command)))


def test_what_may_apply_would_have_to_be_ruled_out(explained: Explained) -> None:
    first, *_ = changes(explained('cat "$X"'))
    assert first == 'secrets (ask) and etc (deny) would have to be ruled out: "$X" would have to be known'


def test_what_can_not_be_read(explained: Explained) -> None:
    assert changes(explained("cat 'a"))[0].startswith(
        "it would have to be written so that it can be read: unterminated"
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["default", "strict", "sandbox"])
def test_there_is_a_change_for_everything_that_is_not_allowed(name: str) -> None:
    """And none for what is: with every obstacle named, each example of the policy can be explained."""
    policy = load(find(name))
    director = examples.director_for(policy)
    for example in examples.examples(policy):
        explanation = explain(director, Action(example.command, cwd=examples.PROJECT))
        allowed = str(explanation.decision.verdict) == "allow"
        assert bool(changes(explanation)) is not allowed, example.command
        asked = {h.rule.rule.id for o in obstacles(explanation) for h in o.standing if h.rule is not None}
        assert asked >= set(explanation.decision.rules) if not allowed and explanation.decision.parse == "ok" else True


CONFINED = """\
version: 1
policy: p
defaults: {confine: project}
confinements: {project: {write: ["${PROJECT}/**"]}}
rules:
  - {id: known, decision: ask, confined: project, when: {resolved: false}}
  - {id: code, decision: allow, confined: project, when: {effect: execute}}
"""


def test_what_a_confinement_would_change(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(CONFINED)
    bare, confined = (examples.director_for(load(path), confined=so) for so in (False, True))
    action = Action("./a.out", cwd=bare.project)
    own, effect = obstacles(explain(bare, action))
    assert [tried.because for tried in effect.nearest] == [("confined: project (no)",)]
    assert changes(explain(bare, action)) == [
        "known (ask) would have to leave it alone: another command, or one that runs confined to project, where it allows",
        f"an allow would have to cover the effect execute {bare.project}/a.out:"
        " code, if it could be confined (--confined judges as if it could)",
    ]
    assert own.standing[0].rule is not None
    assert changes(explain(confined, action)) == []
