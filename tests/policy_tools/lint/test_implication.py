"""Proofs hold for every command: whatever is proven of generated conditions is true of all commands that are tried."""

from collections.abc import Callable
from functools import cache
from itertools import permutations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit
from humanlayer_agent.policy_tools.lint.implication import Prover, condition, impossible
from humanlayer_agent.policy_tools.lint.sample_commands import samples
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case
from tests.support.extent import examples

PLACES = ["${PROJECT}/**", "/srv/**", "/srv/a", "/srv/a/**", "~/.ssh/**", "**/.env", "/tmp/**"]
HOSTS = ["a.example", "*.example", "b.example"]
some = st.lists


def of(values: list[str]) -> st.SearchStrategy[str]:
    return some(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(
        lambda found: "[" + ", ".join(repr(v) for v in found) + "]"
    )


CLAUSES = st.one_of(
    st.sampled_from(["read", "write", "delete", "network", "execute", "environment", "metadata"]).map(
        "effect: {}".format
    ),
    of(["read", "write", "delete", "network", "move"]).map("effect: {}".format),
    of(["rm", "cat", "git", "curl", "chmod", "./rm", "ls"]).map("program: {}".format),
    of(PLACES).map("paths: {{any_within: {}}}".format),
    of(PLACES).map("paths: {{all_within: {}}}".format),
    of(PLACES).map("paths: {{none_within: {}}}".format),
    of(HOSTS).map("hosts: {{any_in: {}}}".format),
    of(HOSTS).map("hosts: {{none_in: {}}}".format),
    of(["force", "recursive"]).map("flags: {{any: {}}}".format),
    of(["force", "recursive"]).map("flags: {{all: {}}}".format),
    of(["force", "recursive"]).map("flags: {{none: {}}}".format),
    of(["list", "operand", "option", "code"]).map("role: {}".format),
    of(["push", "reset"]).map("subcommand: {}".format),
    of(["read", "write", "delete"]).map("effects: {{only: {}}}".format),
    of(["read", "write", "network"]).map("effects: {{any: {}}}".format),
    of(["read", "write"]).map("effects: {{all: {}}}".format),
    of(["PATH", "HOME"]).map("env: {{any: {}}}".format),
    of(["PATH", "x", "code", "p*"]).map("names: {{any_in: {}}}".format),
    of(["PATH", "x", "code", "p*"]).map("names: {{none_in: {}}}".format),
    of(PLACES).map("paths: {{contents_of: {}}}".format),
    of(["a", "%*", "*"]).map("operands: {{any: {}}}".format),
    of(["a", "%*", "*"]).map("operands: {{all: {}}}".format),
    of(["sudo", "xargs", "bash"]).map("via: {}".format),
    st.sampled_from(["resolved: true", "resolved: false", "unread: true", "recursive: true", "recursive: false"]),
)


def mapping(clauses: list[str]) -> str:
    return "{" + ", ".join({clause.partition(":")[0]: clause for clause in clauses}.values()) + "}"


PLAIN = st.lists(CLAUSES, min_size=1, max_size=3).map(mapping)
CONDITIONS = st.one_of(
    PLAIN,
    PLAIN,
    st.tuples(CLAUSES, some(PLAIN, min_size=1, max_size=2)).map(lambda t: f"{{{t[0]}, any: [{', '.join(t[1])}]}}"),
    st.tuples(CLAUSES, some(PLAIN, min_size=1, max_size=2)).map(lambda t: f"{{{t[0]}, all: [{', '.join(t[1])}]}}"),
    st.tuples(CLAUSES, PLAIN).map(lambda t: f"{{{t[0]}, not: {t[1]}}}"),
    st.tuples(CLAUSES, PLAIN).map(lambda t: f"{{{t[0]}, flow: {{from: {t[1]}}}}}"),
)
RULES = some(st.tuples(CONDITIONS, st.none() | PLAIN), min_size=2, max_size=5)


@cache
def commands() -> tuple[str, ...]:
    fill = {
        "{path}": ("/srv/a", "a", "~/.ssh/x", '"$X"', "/srv/*"),
        "{host}": ("a.example", "$H"),
        "{name}": ("PATH", "X"),
    }
    found = dict.fromkeys(
        (
            "sudo rm -rf /srv/a",
            "ls | xargs rm",
            "bash -c 'rm a'",
            "$X a",
            "git push --force a",
            "./rm a",
            "cat /srv/a | curl -d @- a.example",
            "x=$(cat a); rm $x",
        )
    )
    for texts in samples().values():
        for text in texts:
            key = next((k for k in fill if k in text), "")
            found.update(dict.fromkeys([text.replace(key, v) for v in fill[key]] if key else [text]))
    return tuple(found)


def text_of(rules: list[tuple[str, str | None]], decision: str) -> str:
    lines = [
        f"  - {{id: r{n}, decision: {decision}, when: {when}" + (f", unless: {unless}" if unless else "") + "}\n"
        for n, (when, unless) in enumerate(rules)
    ]
    return "".join(lines)


def as_sure(one: list[Hit], other: list[Hit]) -> bool:
    """Wherever `one` hits, does `other` hit the same effect or its command, at least as surely?"""
    certain: dict[tuple[int, int], bool] = {}
    for hit in other:
        for at in (
            ((id(hit.command), id(hit.effect)), (id(hit.command), 0))
            if hit.effect is None
            else ((id(hit.command), id(hit.effect)),)
        ):
            certain[at] = certain.get(at, False) or hit.certain
    for hit in one:
        found = certain.get((id(hit.command), id(hit.effect)), certain.get((id(hit.command), 0)))
        if found is None or (hit.certain and not found):
            return False
    return True


@pytest.mark.long
@settings(max_examples=examples(25, soak=1000))
@given(RULES)
@example([("{effect: delete}", None), ("{effect: delete, program: rm}", "{flags: {any: [force]}}")])
@example(
    [
        ("{effect: read, paths: {any_within: [/srv/**]}}", "{role: list}"),
        ("{effect: read, role: operand, paths: {any_within: [/srv/a]}}", None),
    ]
)
def test_what_is_proven_is_so(subject_of: Callable[..., Subject], rules: list[tuple[str, str | None]]) -> None:
    subject = subject_of(text_of(rules, "ask"))
    conditions = [condition(rule, subject.compiler(rule.rule)) for rule in subject.rules]
    cases = [subject.case(command) for command in commands()]
    prover = Prover()
    for one, other in permutations(conditions, 2):
        if prover.covers(one, other):
            for case in cases:
                assert as_sure(case.hits_of(one.rule), case.hits_of(other.rule)), case.command
    for each in conditions:
        if impossible(each.when) or prover.excused(each):
            assert not certainly(each.rule, cases)


def certainly(rule: CompiledRule, cases: list[Case]) -> list[str]:
    return [case.command for case in cases if any(hit.certain for hit in case.hits_of(rule))]


@pytest.mark.long
@settings(max_examples=examples(15, soak=600))
@given(CONDITIONS, RULES)
@example("{effect: read, paths: {all_within: [/srv/a/**]}}", [("{effect: read}", None)])
def test_an_allow_that_is_stopped_allows_nothing(
    subject_of: Callable[..., Subject], allow: str, stops: list[tuple[str, str | None]]
) -> None:
    # Loaded as an ask, since most of these allows would be refused as too broad; what it is asked is the same.
    subject = subject_of(text_of([(allow, None), *stops], "ask"))
    mine, *others = (condition(rule, subject.compiler(rule.rule)) for rule in subject.rules)
    prover = Prover()
    for other in others:
        if prover.stops(mine, other):
            for command in commands():
                case = subject.case(command)
                sure = [hit for hit in case.hits_of(mine.rule) if hit.certain]
                assert as_sure(sure, case.hits_of(other.rule)), command


@settings(max_examples=examples(30, soak=600))
@given(CONDITIONS, CLAUSES.filter(lambda clause: not clause.startswith("effect:")))
def test_a_condition_with_one_clause_more_is_covered(
    subject_of: Callable[..., Subject], wide: str, clause: str
) -> None:
    subject = subject_of(text_of([(wide, None), (f"{{all: [{wide}, {{{clause}}}]}}", None)], "ask"))
    one, other = (condition(rule, subject.compiler(rule.rule)) for rule in subject.rules)
    assert Prover().covers(other, one)
    assert Prover().covers(one, one)


def test_too_many_alternatives_are_not_shown(subject_of: Callable[..., Subject]) -> None:
    many = ", ".join(f"{{program: p{n}}}" for n in range(12))
    nested = f"{{any: [{many}], all: [{{any: [{many}]}}, {{any: [{many}]}}, {{any: [{many}]}}]}}"
    subject = subject_of(text_of([(nested, None), ("{program: q}", None)], "ask"))
    one, other = (condition(rule, subject.compiler(rule.rule)) for rule in subject.rules)
    assert not Prover().covers(one, one)
    assert not Prover().covers(one, other)
