"""What the tests of a policy show, and the examples that are proposed for what they don't."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.sources import shipped_names
from humanlayer_agent.policy_tools import coverage as module
from humanlayer_agent.policy_tools.coverage import Clause, Coverage, count, coverage, key

Cover = Callable[[str], Coverage]


@pytest.fixture
def cover(tmp_path: Path) -> Cover:
    def run(rules: str) -> Coverage:
        path = tmp_path / "p.yaml"
        path.write_text(f"version: 1\npolicy: p\nrules:\n{rules}")
        return coverage(load(path, tested=False))

    return run


def missing(found: Coverage) -> list[tuple[str, str]]:
    return [(clause.name, clause.change) for rule in found.rules for clause in rule.clauses if not clause.shown]


RULE = "  - {id: r, decision: ask, when: {effect: [delete, move], paths: {none_within: ['${PROJECT}/**']}}, unless: {program: mv}, tests: %s}\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("tests", "lacking"),
    [
        ("{match: [rm /srv/a], not_match: [cat /srv/a, rm a, mv /srv/a b]}", []),
        ("{match: [rm /srv/a], not_match: [cat /srv/a, rm a]}", [("unless", "never")]),
        ("{match: [rm /srv/a], not_match: [rm a]}", [("when.effect", "without"), ("unless", "never")]),
        ("{match: [rm /srv/a], not_match: [cat /srv/a]}", [("when.paths", "without"), ("unless", "never")]),
        (
            "{}",
            [("when.effect", "without"), ("when.paths", "without"), ("unless.program", "without"), ("unless", "never")],
        ),
    ],
)
def test_what_no_test_needs(cover: Cover, tests: str, lacking: list[tuple[str, str]]) -> None:
    found = cover(RULE % tests)
    assert missing(found) == lacking
    (rule,) = found.rules
    assert rule.points == (rule.decided + len(rule.clauses) - len(lacking), 1 + len(rule.clauses))
    assert (rule.matched, rule.decided) == ((1, 1) if "match: [rm" in tests else (0, 0))


@pytest.mark.long
def test_what_is_proposed_shows_it(cover: Cover) -> None:
    """Adding every proposal leaves nothing that a proposal could be made for."""
    text = (
        "  - {id: a, decision: ask, when: {effect: delete, program: [rm, find], paths: {any_within: [/srv/**]}},"
        " unless: {recursive: false}, tests: %s}\n"
        "  - {id: b, decision: allow, when: {effect: read, any: [{program: cat}, {program: head}], paths: {all_within: ['${PROJECT}/**']}}, tests: %s}\n"
        "  - {id: c, decision: deny, when: {program: git, subcommand: push, flags: {any: [force]}, not: {flags: {any: [dry-run]}}}, tests: %s}\n"
    )
    tests: list[dict[str, list[str]]] = [{"match": [], "not_match": []} for _ in range(3)]
    for _ in range(3):
        found = cover(text % tuple(tests))
        for rule, mine in zip(found.rules, tests, strict=True):
            for clause in rule.clauses:
                if clause.proposed is not None:
                    kind, command = clause.proposed
                    if command not in mine.setdefault(kind, []):
                        mine[kind].append(command)
    assert missing(cover(text % tuple(tests))) == []
    assert found.percent == 100.0
    assert all(each["match"] and each["not_match"] for each in tests)


@pytest.mark.long
def test_each_alternative_must_hold_somewhere(cover: Cover) -> None:
    text = "  - {id: r, decision: ask, when: {any: [{program: rm}, {program: mv}]}, tests: {match: [rm a], not_match: [ls]}}\n"
    found = cover(text)
    assert missing(found) == [("when.any[1]", "never")]
    (clause,) = (c for c in found.rules[0].clauses if not c.shown)
    assert clause.proposed is not None
    assert clause.proposed[0] == "match"
    assert clause.proposed[1].startswith("mv")


@pytest.mark.long
def test_a_clause_that_makes_no_difference_has_no_proposal(cover: Cover) -> None:
    text = "  - {id: r, decision: ask, when: {program: rm, any: [{program: [rm, mv]}]}, tests: {match: [rm a], not_match: [ls]}}\n"
    proposed = {c.name: c.proposed for c in cover(text).rules[0].clauses if not c.shown}
    assert proposed["when.any[0].program"] is None
    assert proposed["when.program"] is not None


@pytest.mark.long
def test_the_effect_clause_that_the_others_imply(cover: Cover) -> None:
    """It can't be left out: it has the rule asked about effects. A match is enough to show it."""
    text = "  - {id: r, decision: ask, when: {effect: environment, env: {any: [FOO]}}, tests: {match: [printenv FOO], not_match: [printenv PATH]}}\n"
    assert missing(cover(text)) == []


def test_a_rule_that_never_decides(cover: Cover) -> None:
    text = (
        "  - {id: r, decision: ask, when: {program: rm}, tests: {match: [rm a], not_match: [ls]}}\n"
        "  - {id: s, decision: deny, when: {effect: delete}, tests: {match: [rm a], not_match: [ls]}}\n"
    )
    first, second = cover(text).rules
    assert (first.matched, first.decided) == (1, 0)
    assert (second.matched, second.decided) == (1, 1)
    assert first.points == (1, 2)


@pytest.mark.long
def test_failing_tests_show_nothing(cover: Cover) -> None:
    text = "  - {id: r, decision: ask, when: {program: rm}, tests: {match: [rm a, ls], not_match: [rm b]}}\n"
    assert missing(cover(text)) == [("when.program", "without")]


@pytest.mark.long
def test_what_ships_counts_only_in_its_own_policy() -> None:
    found = coverage(load(find("ci")))
    assert (found.rules, found.percent) == ((), 100.0)


IDLE = {
    # The project of the examples lies in none of the vital directories.
    "guard": {"disaster when.any[1].not"},
    # What is not resolved is never certain to have no effects, and a directory with all below lies in no list of single
    # directories; of the two that say that code was read either would do. They say what is meant, and cost nothing.
    "default": {
        "no-effects when.resolved",
        "run-read-code when.resolved",
        "run-read-code when.unread",
        "git-settings when.program",  # no other program has these sub-commands with this effect
        "own-server when.hosts",  # what else is contacted is asked about by itself
        "programs-in-the-project when.any[1].resolved",  # where nothing is confined, other rules ask in doubt
    },
    # What these options do is an effect by itself.
    "strict": {"print when.resolved", "print when.any[1].flags"},
    "sandbox": {"no-effects when.resolved"},
}
"""Clauses of shipped policies that make no difference as far as is known, and why they stand there."""


@pytest.mark.long
@pytest.mark.parametrize("name", shipped_names())
def test_shipped_policies_are_covered(name: str) -> None:
    found = coverage(load(find(name)))
    lacking = [(r.rule.id, c.name, c.change, c.proposed) for r in found.rules for c in r.clauses if c.proposed]
    assert lacking == []
    assert [r.rule.id for r in found.rules if not r.decided] == []
    assert {f"{r.rule.id} {c.name}" for r in found.rules for c in r.clauses if c.idle} == IDLE.get(name, set())
    assert found.percent == 100.0


def test_counting_a_log() -> None:
    policy = load(find("default"))
    director = examples.director_for(policy)
    commands = ["ls", "rm -rf /srv/x", "rm -rf /srv/y", 'rm "$X"', "'"]
    counts = count(director, ((Action(c, cwd=examples.PROJECT), None) for c in commands))
    by_id = {name.split(" ")[-1]: numbers for name, numbers in counts.items()}
    assert by_id["delete-outside-project"] == (3, 3)
    assert by_id["read-project"] == (1, 1)
    assert by_id["packages"] == (0, 0)
    assert set(counts) == {key(rule) for rule in policy.rules}


def test_it_is_bounded(cover: Cover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHANGES", 1)
    with pytest.raises(PolicyError, match="too large"):
        cover(RULE % "{}")


def test_names_of_clauses() -> None:
    assert Clause(("when", "any", 1, "paths"), "", "without").name == "when.any[1].paths"


CONFINED = """\
version: 1
policy: p
defaults: {confine: project}
confinements: {project: {write: ["${PROJECT}/**"]}}
rules:
  - id: writes
    decision: ask
    confined: project
    when: {effect: write, any: [{paths: {all_within: ["${PROJECT}/**", "/tmp/**"]}}, {paths: {any_within: ["**/x.py"]}}]}
    tests: {maybe: ['echo > "$X"'], confined: ['echo > "$X"']}
  - {id: harmless, decision: allow, when: {resolved: true, effects: {only: [write]}}}
"""


@pytest.mark.long
def test_what_only_shows_where_it_is_confined_is_shown(tmp_path: Path) -> None:
    """Without the first alternative it may apply all the same, but is not certain where it is confined."""
    path = tmp_path / "p.yaml"
    path.write_text(CONFINED)
    found = coverage(load(path))
    (rule,) = [each for each in found.rules if each.rule.id == "writes"]
    (clause,) = [each for each in rule.clauses if each.change == "never" and each.path == ("when", "any", 0)]
    assert clause.shown == 'echo > "$X"'


EXCEPTION = """\
  - {id: r, decision: ask, when: {effect: delete}, tests: {match: [rm a, rm /srv/x, rmdir /srv/x], not_match: [ls]}}
exceptions:
  - {rule: r, when: {program: rm, paths: {all_within: [/srv/**]}}, reason: y, expires: 2999-01-01, tests: %s}
"""


@pytest.mark.parametrize(
    ("tests", "lacking"),
    [
        ("{match: [rm /srv/y]}", []),
        ("{match: [rm /srv/y], not_match: [rm a, rmdir /srv/y]}", []),
    ],
)
def test_the_clauses_of_an_exception(cover: Cover, tests: str, lacking: list[tuple[str, str]]) -> None:
    found = cover(EXCEPTION % tests)
    assert missing(found) == lacking
    rule, exception = found.rules
    assert (rule.exception, exception.name, exception.matched) == (None, "exception to r", 1)
    assert [clause.name for clause in exception.clauses] == ["when.program", "when.paths"]


@pytest.mark.long
def test_a_clause_of_an_exception_that_no_test_needs(cover: Cover) -> None:
    rules = EXCEPTION.replace("match: [rm a, rm /srv/x, rmdir /srv/x]", "match: [rm a]")
    assert missing(cover(rules % "{match: [rm /srv/y]}")) == [("when.program", "without")]
