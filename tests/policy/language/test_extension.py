"""Extending a policy: what is inherited, in which scope, and the two ways to change it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Policy

BASE = """
version: 1
policy: base
defaults: {unmatched: deny}
lists: {mine: ["/base/**"], other: ["/other/**", $mine]}
rules:
  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: [$other]}}}
  - {id: deletes, decision: ask, when: {effect: delete}}
  - {id: never, decision: deny, locked: true, when: {program: reboot}}
"""
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(name, text) -> path. Every file but the base extends `base.yaml` unless it says otherwise."""
    (tmp_path / "base.yaml").write_text(BASE)

    def to_file(name: str, body: str, extends: str = "[base.yaml]") -> Path:
        path = tmp_path / name
        path.write_text(f"version: 1\npolicy: {path.stem}\nextends: {extends}\n{body}")
        return path

    return to_file


def verdict(policy: Policy, command: str, **more: str) -> str:
    director = Director(
        policy, project="/p", environ={"HOME": "/h"}, **({"today": lambda: more["today"]} if more else {})
    )
    return str(director.evaluate(Action(command, cwd="/p")).verdict)


def test_rules_are_inherited_with_their_origin(write: Write, tmp_path: Path) -> None:
    policy = load(write("top.yaml", "rules: [{id: mv, decision: ask, when: {program: mv}}]\n"))
    assert [(r.id, r.inherited, r.origin) for r in policy.rules] == [
        ("reads", True, f"{tmp_path}/base.yaml:7"),
        ("deletes", True, f"{tmp_path}/base.yaml:8"),
        ("never", True, f"{tmp_path}/base.yaml:9"),
        ("mv", False, f"{tmp_path}/top.yaml:4"),
    ]
    assert verdict(policy, "rm x") == "ask"
    assert [Path(s.name).name for s in policy.sources] == ["base.yaml", "top.yaml"]


def test_defaults_are_the_strictest_inherited_unless_said(write: Write) -> None:
    assert load(write("top.yaml", "")).defaults.unmatched == "deny"
    assert load(write("top.yaml", "defaults: {unmatched: ask}\n")).defaults.unmatched == "ask"
    assert load(write("top.yaml", "", "[builtin:default, base.yaml]")).defaults.unmatched == "deny"


def test_how_much_is_kept_is_inherited_key_by_key(write: Write) -> None:
    middle = write("middle.yaml", "defaults: {keep: {files: 7, days: 3}, undo: run}\n")
    found = load(write("top.yaml", "defaults: {keep: {megabytes: 1, days: 4}}\n", f"[{middle.name}]"))
    assert Director(found, project="/p").in_force().rules.undo
    not_here = load(write("not.yaml", "defaults: {undo: none}\n", f"[{middle.name}]"))
    assert not Director(not_here, project="/p").in_force().rules.undo
    assert found.defaults.keep == {"files": 7, "megabytes": 1, "days": 4}
    assert Director(found, project="/p").in_force().rules.keep == Bounds(7, 1_000_000, 4)
    assert Director(load(write("other.yaml", "")), project="/p").in_force().rules.keep == Bounds()
    for wrong in ("{files: -1}", "{days: 0}", "{bytes: 1}", "none"):
        with pytest.raises(PolicyError):
            load(write("wrong.yaml", f"defaults: {{keep: {wrong}}}\n"))
    with pytest.raises(PolicyError, match=r"wrong\.yaml:4:18: 'always': expected 'run' or 'none'"):
        load(write("wrong.yaml", "defaults: {undo: always}\n"))


def test_a_list_of_the_same_name_changes_nothing_that_is_inherited(write: Write) -> None:
    own = "rules: [{id: mine, decision: ask, when: {effect: read, paths: {any_within: [$mine]}}}]\n"
    policy = load(write("top.yaml", 'lists: {mine: ["/top/**"]}\n' + own))
    assert verdict(policy, "cat /base/x") == "allow"
    assert verdict(policy, "cat /top/x") == "ask"


def test_inherited_lists_can_be_used(write: Write) -> None:
    own = "rules: [{id: mine, decision: ask, when: {effect: read, paths: {any_within: [$mine]}}}]\n"
    policy = load(write("top.yaml", own))
    assert verdict(policy, "cat /base/x") == "ask"
    assert verdict(policy, "cat /other/x") == "allow"


def test_adding_to_a_list(write: Write) -> None:
    policy = load(write("top.yaml", 'lists: {more: ["/more/**"], mine: {add: ["/added/**", $more]}}\n'))
    for place in ("base", "other", "added", "more"):
        assert verdict(policy, f"cat /{place}/x") == "allow", "also through a list that holds it"
    assert verdict(load(write("top.yaml", "")), "cat /added/x") == "deny", "only for who adds it"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("lists: {none: {add: [/x]}}\n", "top.yaml:4:15: no extended file has a list none"),
        ("lists: {mine: {add: [$none]}}\n", r"the list \$none is not defined; defined here: mine, other, policies"),
        ("lists: {a: [$b], b: [$a]}\n", r"the list \$a contains itself|the list \$b contains itself"),
        ("lists: {mine: {sub: [/x]}}\n", "top.yaml:4:16: unknown key 'sub'|the key 'add' is missing"),
        ("rules: [{id: reads, decision: deny, when: {effect: read}}]\n", "base.yaml:7 has a rule reads already"),
        (
            "rules: [{id: x, decision: ask, override: {rule: nope, reason: y, expires: 2999-01-01}, when: {effect: read}}]\n",
            "no extended file has a rule nope",
        ),
        (
            "rules: [{id: x, decision: ask, override: {rule: never, reason: y, expires: 2999-01-01}, when: {effect: read}}]\n",
            "the rule never of .*base.yaml:9 is locked",
        ),
        (
            "rules: [{id: x, decision: ask, override: {rule: deletes, expires: 2999-01-01}, when: {effect: read}}]\n",
            "the key 'reason' is missing",
        ),
        (
            "rules: [{id: x, decision: ask, override: {rule: deletes, reason: y}, when: {effect: read}}]\n",
            "the key 'expires' is missing",
        ),
        (
            "rules: [{id: x, decision: ask, override: {rule: deletes, reason: y, expires: soon}, when: {effect: read}}]\n",
            "'soon': expected a day such as 2030-12-31",
        ),
        (
            "rules: [{id: x, decision: ask, override: {rule: deletes, reason: y, expires: 2999-01-01}, when: {effect: read}},"
            " {id: z, decision: ask, override: {rule: deletes, reason: y, expires: 2999-01-01}, when: {effect: read}}]\n",
            "x overrides deletes already",
        ),
    ],
)
def test_mistakes(write: Write, body: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        load(write("top.yaml", body))


OVERRIDE = (
    "rules: [{id: deletes, decision: allow, override: {rule: deletes, reason: cleaning up, expires: 2030-06-30},"
    ' when: {effect: delete, paths: {all_within: ["/base/**"]}}}]\n'
)


def test_an_override_holds_until_it_expires(write: Write) -> None:
    policy = load(write("top.yaml", OVERRIDE))
    assert verdict(policy, "rm /base/x", today="2030-06-30") == "allow"
    assert verdict(policy, "rm /base/x", today="2030-07-01") == "ask", "the original holds again"
    assert verdict(policy, "rm /srv/x", today="2030-06-30") == "deny", "the original does not hold beside it"


def test_an_override_ends_in_a_running_process(write: Write) -> None:
    day = "2030-06-30"
    director = Director(load(write("top.yaml", OVERRIDE)), project="/p", environ={"HOME": "/h"}, today=lambda: day)
    action = Action("rm /base/x", cwd="/p")
    first = director.evaluate(action)
    day = "2030-07-01"
    second = director.evaluate(action)
    assert (str(first.verdict), str(second.verdict)) == ("allow", "ask")
    assert first.policy_digest != second.policy_digest


def test_cycles_depth_and_number_are_bounded(write: Write) -> None:
    a = write("a.yaml", "", "[b.yaml]")
    write("b.yaml", "", "[a.yaml]")
    with pytest.raises(PolicyError, match=r"a\.yaml extends this file: a cycle"):
        load(a)
    for n in range(12):
        write(f"d{n}.yaml", "", f"[d{n + 1}.yaml]")
    with pytest.raises(PolicyError, match="at most 8 deep"):
        load(write("d.yaml", "", "[d0.yaml]"))
    for n in range(6):
        write(f"w{n}.yaml", "", f"[w{n + 1}.yaml, w{n + 1}.yaml, w{n + 1}.yaml]")
    write("w6.yaml", "")
    with pytest.raises(PolicyError, match="and 32 files"):
        load(write("w.yaml", "", "[w0.yaml]"))


@pytest.mark.parametrize("extends", ["/etc/passwd", "~/x.yaml", "builtin:nope", "builtin:../x", "nowhere.yaml", "''"])
def test_what_can_not_be_extended(write: Write, extends: str) -> None:
    with pytest.raises(PolicyError):
        load(write("top.yaml", "", f"[{extends}]"))


def test_a_file_reached_in_two_ways_counts_once_unless_changed_on_one(write: Write) -> None:
    write("left.yaml", "")
    write("right.yaml", "")
    both = load(write("top.yaml", "", "[left.yaml, right.yaml]"))
    assert [r.id for r in both.rules] == ["reads", "deletes", "never"]
    write("right.yaml", OVERRIDE)
    changed = load(write("top.yaml", "", "[left.yaml, right.yaml]"))
    assert [r.id for r in changed.rules].count("deletes") == 3
    assert verdict(changed, "rm /base/x", today="2030-01-01") == "ask", "the strictest of both ways"


def test_the_digest_follows_every_file(write: Write, tmp_path: Path) -> None:
    top = write("top.yaml", "")
    first = Director(load(top), project="/p").digest
    assert Director(load(top), project="/p").digest == first
    (tmp_path / "base.yaml").write_text(BASE.replace("decision: ask", "decision: deny"))
    assert Director(load(top), project="/p").digest != first
    assert verdict(load(top), "rm x") == "deny", "the compiled form is not used when an extended file has changed"


def test_lists_of_lists_are_bounded(write: Write) -> None:
    lists = ", ".join(f"l{n}: [{', '.join(f'$l{n + 1}' for _ in range(10))}]" for n in range(12))
    with pytest.raises(PolicyError, match="too deep"):
        load(write("top.yaml", f"lists: {{{lists}, l12: [/x]}}\n"))
