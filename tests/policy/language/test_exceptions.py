"""Exceptions to rules: what they excuse, until when, and what a file that has them may say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Policy

BASE = """
version: 1
policy: base
defaults: {unmatched: allow}
lists: {mine: ["/base/**"]}
rules:
  - {id: deletes, decision: ask, when: {effect: delete}, unless: {paths: {all_within: [/tmp/**]}}}
  - {id: never, decision: deny, locked: true, when: {program: reboot}}
  - {id: worst, decision: ask, severity: critical, when: {program: dd}}
  - {id: reads, decision: allow, when: {effect: read}}
  - {id: names-it, decision: ask, when: {effect: environment, role: expanded, env: {any: [SECRET]}}}
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(body) -> the path of a file that extends `base.yaml`."""
    (tmp_path / "base.yaml").write_text(BASE)

    def to_file(body: str, name: str = "top.yaml", extends: str = "[base.yaml]") -> Path:
        path = tmp_path / name
        path.write_text(f"version: 1\npolicy: {path.stem}\nextends: {extends}\n{body}")
        return path

    return to_file


def exception(rule: str = "deletes", when: str = "{paths: {all_within: [/srv/x]}}", more: str = "") -> str:
    return f"exceptions:\n  - {{rule: {rule}, when: {when}, reason: y, expires: 2999-12-31{more}}}\n"


def verdict(policy: Policy, command: str, now: str = "2026-01-01") -> str:
    return str(director(policy, now).evaluate(Action(command, cwd="/p")).verdict)


def director(policy: Policy, now: str = "2026-01-01") -> Director:
    return Director(policy, project="/p", environ={"HOME": "/h"}, today=lambda: now)


def test_it_adds_to_what_the_rule_excuses_itself(write: Write) -> None:
    policy = load(write(exception()))
    assert [verdict(policy, f"rm {path}") for path in ("/srv/x", "/tmp/x", "/srv/y")] == ["allow", "allow", "ask"]
    assert verdict(load(write("")), "rm /srv/x") == "ask"


@pytest.mark.parametrize("command", ['rm "$X"', "rm /srv/?", "rm /srv/x /srv/y", "x=/srv/x; rm $x $Y"])
def test_maybe_never_excuses(write: Write, command: str) -> None:
    assert verdict(load(write(exception())), command) == "ask"


def test_a_list_is_that_of_the_file_that_names_it(write: Write) -> None:
    """The rule's own file has a list of that name, which says something else."""
    body = 'lists: {mine: ["/top/**"]}\n' + exception(when="{paths: {all_within: [$mine]}}")
    policy = load(write(body))
    assert [verdict(policy, f"rm /{path}/x") for path in ("top", "base")] == ["allow", "ask"]


def test_exceptions_of_several_files_count(write: Write) -> None:
    write(exception(), "middle.yaml")
    policy = load(write(exception(when="{paths: {all_within: [/srv/y]}}"), extends="[middle.yaml]"))
    assert [verdict(policy, f"rm /srv/{name}") for name in "xyz"] == ["allow", "allow", "ask"]


def test_it_is_not_one_to_a_rule_that_takes_the_place(write: Write) -> None:
    """Whoever replaces a rule says all of it."""
    write(exception(), "middle.yaml")
    rule = "{id: deletes, decision: ask, override: {rule: deletes, reason: y, expires: 2999-01-01}, when: {effect: delete}}"
    policy = load(write(f"rules: [{rule}]\n", extends="[middle.yaml]"))
    assert verdict(policy, "rm /srv/x") == "ask"


def test_a_file_that_is_reached_in_two_ways_is_excused_in_both_or_not_at_all(write: Write) -> None:
    write(exception(), "middle.yaml")
    assert verdict(load(write("", extends="[middle.yaml, base.yaml]")), "rm /srv/x") == "ask"


def test_variables_that_are_excused_are_no_effect(write: Write) -> None:
    policy = load(write(exception("names-it", "{program: printf}")))
    assert [verdict(policy, f"{program} $SECRET") for program in ("printf", "echo")] == ["allow", "ask"]


# ---- the end ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expires", "last", "first"),
    [
        ("2030-06-30", "2030-06-30T23:59:59Z", "2030-07-01T00:00:00Z"),
        ("2030-06-30", "2030-06-30", "2030-07-01"),
        ("2030-06-30T18:00:00Z", "2030-06-30T17:59:59Z", "2030-06-30T18:00:00Z"),
        ("2030-06-30T18:00:00+02:00", "2030-06-30T15:59:59Z", "2030-06-30T16:00:00Z"),
        ("9999-12-31", "9999-12-31T23:59:59Z", "9999-12-31T24:00:00Z"),
    ],
)
def test_it_ends(write: Write, expires: str, last: str, first: str) -> None:
    policy = load(write(exception().replace("2999-12-31", expires)))
    assert (verdict(policy, "rm /srv/x", last), verdict(policy, "rm /srv/x", first)) == ("allow", "ask")


def test_it_ends_in_a_running_process_and_the_digest_says_so(write: Write) -> None:
    now = "2030-06-30T10:00:00Z"
    policy = load(write(exception().replace("2999-12-31", "2030-06-30T18:00:00Z")))
    running = Director(policy, project="/p", environ={"HOME": "/h"}, today=lambda: now)
    before = running.digest
    seen = [running.evaluate(Action("rm /srv/x", cwd="/p")).verdict]
    now = "2030-06-30T17:00:00Z"
    assert running.digest == before
    now = "2030-06-30T18:00:00Z"
    seen.append(running.evaluate(Action("rm /srv/x", cwd="/p")).verdict)
    assert [str(each) for each in seen] == ["allow", "ask"]
    assert running.digest != before
    now = "2030-06-30T17:59:00Z"  # somebody has set the clock back
    assert running.digest == before


def test_where_it_stands_is_not_part_of_the_digest_and_what_it_says_is(write: Write) -> None:
    digests = [
        director(load(write(body))).digest
        for body in ("", exception(), "# moved\n" + exception(), exception(when="{paths: {all_within: [/srv/y]}}"))
    ]
    assert digests[1] == digests[2]
    assert len(set(digests)) == 3


# ---- its tests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ("{match: [rm /srv/x], not_match: [rm /srv/y, ls, rm /srv/x /srv/y, rm /srv/x; rm /srv/y]}", None),
        ("{match: [rm /srv/y]}", "it is excused from deletes, as a whole"),
        ("{match: [rm /srv/x /srv/y]}", "it is excused from deletes, as a whole"),
        ("{match: [rm /srv/x; rm /srv/y]}", "it is excused from deletes, as a whole"),
        ("{match: [ls]}", "it is excused from deletes, as a whole"),
        ("{not_match: [rm /srv/x]}", "it is not excused from deletes, as a whole"),
        ("{not_match: [ls; rm /srv/x]}", "it is not excused from deletes, as a whole"),
    ],
)
def test_its_tests_hold_or_the_policy_is_broken(write: Write, tests: str, said: str | None) -> None:
    path = write(exception(more=f", tests: {tests}"))
    if said is None:
        assert {(r.example.kind, r.passed) for r in examples.run(load(path))} == {("match", True), ("not_match", True)}
        return
    with pytest.raises(PolicyError) as caught:
        load(path)
    assert said in str(caught.value)
    assert f"{path}:5:" in str(caught.value)
    assert "exception to deletes" in str(caught.value)


def test_tests_of_one_that_has_ended_are_not_run(write: Write) -> None:
    body = exception(more=", tests: {match: [rm /srv/x]}").replace("2999-12-31", "2020-01-01")
    assert not list(examples.run(load(write(body))))


# ---- what a file may say ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (exception("delets"), "deletes"),
        (exception("never"), "is locked: nothing is excused from it"),
        (exception("own-commands"), "is locked: nothing is excused from it"),
        (exception("worst"), "critical severity"),
        (exception("privilege"), "critical severity"),
        (exception("reads"), "excuses from a rule that asks or denies"),
        (exception(when="{}"), "an empty condition would match everything"),
        (exception(when="{flow: {from: {effect: read}}}"), "a flow would let more through here"),
        (exception(when="{paths: {all_within: [$nope]}}"), "the list $nope is not defined"),
        (exception(when="{paths: {all_within: ['!/x']}}"), "takes out names of variables"),
        (exception().replace("2999-12-31", "soon"), "expected a day such as 2030-12-31, or a moment"),
        (exception().replace("2999-12-31", "2999-12-31T18:00:00"), "a moment needs its time zone"),
        (exception().replace(", expires: 2999-12-31", ""), "the key 'expires' is missing"),
        (exception().replace(", reason: y", ""), "the key 'reason' is missing"),
        (exception(more=", tests: {maybe: [x]}"), "unknown key 'maybe'"),
        (exception(more=", decision: allow"), "unknown key 'decision'"),
    ],
)
def test_what_is_no_exception(write: Write, body: str, said: str) -> None:
    path = write(body)
    with pytest.raises(PolicyError) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_flow_may_narrow_one(write: Write) -> None:
    rule = "rules: [{id: contacts, decision: ask, when: {effect: network}}]\n"
    when = "{hosts: {any_in: [example.org]}, not: {flow: {from: {effect: read}}}}"
    policy = load(write(rule + exception("contacts", when)))
    assert verdict(policy, "curl https://example.org") == "allow"
    assert verdict(policy, "curl -T a https://example.org") == "ask"
    assert verdict(policy, "cat a | curl -d @- https://example.org") == "ask"


def test_only_the_options_that_are_named() -> None:
    """`flags: {only: [...]}`, which exceptions are narrowed by."""
    from humanlayer_agent.policy.conditions.compiler import Compiler, Situation
    from humanlayer_agent.policy.language.policy import Flags, Match
    from humanlayer_agent.shell import analyse

    clause = Compiler({}, {}).match(Match(flags=Flags(only=("recursive", "force"))), excuses=True)
    commands = ("rm x", "rm -r x", "rm -rf x", "rm -rv x", "rm $X x", "rm --nope x", "rm -r $X")
    answers = [clause(analyse(c, cwd="/p").commands[0], None, Situation()) for c in commands]
    assert answers == [2, 2, 2, 0, 1, 1, 1]
