"""Metamorphic tests of the policies that ship; and that they find what is wrong with others, in its smallest form."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import state_path
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.metamorphic import memory
from humanlayer_agent.policy_tools.metamorphic.all_transformations import for_each_line, rewrite, transformations
from humanlayer_agent.policy_tools.metamorphic.run import Checked, Failure, examples_of, run, select
from humanlayer_agent.policy_tools.metamorphic.shrink import smaller
from humanlayer_agent.policy_tools.metamorphic.templates import as_data, places_of_data
from humanlayer_agent.shell import parse
from tests.support.extent import SOAK, policies, some
from tests.support.rows import for_each

SHARES = {"guard": 0.1, "default": 0.03, "strict": 0.05, "ci": 0.02, "sandbox": 0.06}
"""The part of all rewritings that the short form judges."""


def shown(found: list[Checked]) -> list[str]:
    return [
        f"{' + '.join(failure.chain)}: {failure.before.verdict} -> {failure.after.verdict}, rule {checked.example.rule.id}:"
        f" {failure.original!r} => {failure.rewritten!r}"
        for checked in found
        for failure in checked.failures
    ]


@pytest.mark.remembered
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", policies(SHARES))
def test_shipped(name: str) -> None:
    found = run(load(find(name)), compositions=4, share=1 if SOAK else SHARES[name] / some(1, here=8))
    assert sum(checked.tried for checked in found) > some(500, here=60)
    assert shown(found) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["default", "strict"])
def test_shipped_where_it_is_confined(name: str) -> None:
    """What is asked about or denied although it would run confined is so in every spelling."""
    found = run(load(find(name)), compositions=2, share=1 if SOAK else SHARES[name] / some(2, here=20), confined=True)
    assert sum(checked.tried for checked in found) > some(200, here=20)
    assert shown(found) == []


# ---- what is found in others ------------------------------------------------------------------------------


@pytest.fixture
def policy_of(tmp_path: Path) -> Callable[[str], Path]:
    """The file of a policy that allows what its one rule (the rest of a line in YAML) does not deny."""

    def write(rule: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(
            "version: 1\npolicy: mine\ndefaults: {unmatched: allow}\nrules:\n"
            f"  - {{id: mine, decision: deny, reason: never, severity: high, suggestion: none, {rule}}}\n"
        )
        return path

    return write


def test_of_the_call_of_a_tool_the_command_is_rewritten(policy_of: Callable[[str], Path]) -> None:
    tests = """{match: ['Bash({"command": "frob -x a"})', 'mcp__a__frob({"b": 1})']}"""
    rule = f"when: {{any: [{{program: frob}}, {{tool: mcp__a__frob}}]}}, tests: {tests}"
    (checked,) = run(load(policy_of(rule)), compositions=1)
    assert checked.tried > 0
    assert {failure.original for failure in checked.failures} <= {"frob -x a"}


SPELLED = 'when: {argv: [rm, "-rf", "..."]}, tests: {match: ["A=1 rm -rf a b \'c d\' > out"], not_match: [rm a]}'
QUOTED = 'when: {argv: [echo, "...", {regex: ".*rm.*"}, "..."]}, tests: {match: [echo rm], not_match: ["rm -rf x"]}'
DEEP = "when: {program: rm, not: {all: [{via: bash}, {via: nice}]}}, tests: {match: [rm x], not_match: [ls]}"


def failures_of(path: Path, *names: str, compositions: int = 0, seed: int = 0) -> list[Failure]:
    found = run(load(path), names=names, compositions=compositions, seed=seed)
    return [failure for checked in found for failure in checked.failures]


def test_a_rule_about_a_spelling_fails_and_shrinks(policy_of: Callable[[str], Path]) -> None:
    (failure,) = failures_of(policy_of(SPELLED), "split-options", "tabs", "group")
    assert (failure.chain, failure.original, failure.rewritten) == (("split-options",), "rm -rf", "rm -r -f")
    assert (failure.before.verdict, failure.after.verdict) == (Verdict.DENY, Verdict.ALLOW)
    assert (failure.before.rule, failure.hardened) == ("mine", False)


def test_compositions_shrink_to_what_is_needed(policy_of: Callable[[str], Path]) -> None:
    names = ("bash-c", "nice", "tabs", "single-quotes", "group")
    assert failures_of(policy_of(DEEP), *names) == []
    found = failures_of(policy_of(DEEP), *names, compositions=60)
    assert {frozenset(failure.chain) for failure in found} == {frozenset({"bash-c", "nice"})}
    assert min(found, key=lambda f: len(f.rewritten)).original == "rm"


def test_text_that_is_judged_as_if_it_ran_fails(policy_of: Callable[[str], Path]) -> None:
    found = failures_of(policy_of(QUOTED), "as-echo", "as-here-document", "as-nested-shell")
    assert {f.chain for f in found} == {("as-echo",), ("as-nested-shell",)}
    assert all(f.hardened and f.before.verdict is Verdict.ALLOW for f in found)
    assert {f.original for f in found if f.chain == ("as-echo",)} == {"echo 'data'"}


@pytest.mark.long
def test_the_same_seed_does_the_same(policy_of: Callable[[str], Path]) -> None:
    path = policy_of(SPELLED)
    names = select(())
    first, again = (failures_of(path, *names, compositions=10, seed=7) for _ in range(2))
    assert [f.rewritten for f in first] == [f.rewritten for f in again]
    assert len(first) > 5


def test_parts_are_taken_away_one_by_one() -> None:
    assert list(smaller("A=1 rm -rf x > out && ls | wc")) == [
        "A=1 rm -rf x > out", "ls | wc", "rm -rf x > out && ls | wc", "A=1 rm x > out && ls | wc",
        "A=1 rm -rf > out && ls | wc", "A=1 rm -rf x && ls | wc",
    ]  # fmt: skip
    assert list(smaller("echo 'x")) == []


def test_names() -> None:
    assert select(["bash-c", "as-ech*"]) == ["bash-c", "as-echo", "as-echo-double-quotes", "as-echo-octal"]
    assert set(select(())) == {*transformations(), *places_of_data()}
    with pytest.raises(KeyError):
        select(["bash-x"])


def test_what_can_not_be_parsed_is_not_rewritten() -> None:
    assert rewrite("echo 'x", ("tabs",), seed=0, cwd="/p", home="/h") is None
    assert rewrite("# only a comment", ("group",), seed=0, cwd="/p", home="/h") is None
    assert rewrite("ls", ("split-options",), seed=0, cwd="/p", home="/h") is None


@for_each("name", places_of_data())
@for_each("text", ["rm -rf /", "echo 'a' \"b\" $x `c` \\ EOF", "a\nb\n", "-n", "$(rm x)", ""])
def test_places_of_data_parse(name: str, text: str) -> None:
    assert parse(as_data(name, text)).status != "failed"


# ---- the command line -------------------------------------------------------------------------------------


def test_failures_are_shown(policy_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = policy_of(SPELLED)
    arguments = ["policy", "test", str(path), "--metamorphic", "--transformations", "split-options, tabs"]
    assert main(arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{path}:5: mine: split-options", "    deny (mine)", "        rm -rf", "    allow (no rule)", "        rm -r -f",
        "mine: 1 of 2 examples passed, 6 rewritings with seed 0",
    ]  # fmt: skip


def test_results_for_programs(policy_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["policy", "test", str(policy_of(SPELLED)), "--metamorphic", "--transformations", "split-options"]
    assert main([*arguments, "--format", "json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert (first["passed"], second["passed"], first["rewritings"]) == (False, True, 1)
    assert first["failures"] == [
        {
            "transformations": ["split-options"],
            "expected": "deny or stricter",
            "original": {"command": "rm -rf", "verdict": "deny", "rules": ["mine"]},
            "rewritten": {"command": "rm -r -f", "verdict": "allow", "rules": []},
        }
    ]
    assert main([*arguments, "--format", "junit"]) == 1
    (suite,) = ElementTree.fromstring(capsys.readouterr().out).findall("testsuite")
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("mine metamorphic", "2", "1")
    (failure,) = suite.findall("testcase/failure")
    assert failure.get("message") == "split-options: allow (no rule) instead of deny (mine)"
    assert "rm -r -f" in (failure.text or "")


@pytest.mark.long
def test_what_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", "guard", "--metamorphic", "--transformations", "tabs,as-echo", "--seed", "3"]) == 0
    assert re.fullmatch(
        r"guard: ([0-9]+) of \1 examples passed, [0-9]+ rewritings with seed 3\n"
        r"guard: each rewriting of 3 commands of a rule, in turns \(--thorough: of all\)\n",
        capsys.readouterr().out,
    )


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", "guard", "--metamorphic", "--transformations", "tabz"]) != 0
    assert "no transformation is called tabz; did you mean tabs?" in capsys.readouterr().err


# ---- dealt out ----------------------------------------------------------------------------------------------

MANY = 'when: {program: frob}, tests: {match: [frob a, sudo frob b, frob c | cat, "frob -x d", frob e, frob f; ls, frob g]}'


def test_each_way_to_rewrite_is_tried_on_some_commands_of_a_rule_and_each_command_in_turn(
    policy_of: Callable[[str], Path],
) -> None:
    policy = load(policy_of(MANY))
    for names, tried in (
        (["eval-twice"], 3),
        (["eval-twice", "group", "bash-c", "eval"], 12),
        (["as-echo", "as-echo-octal"], 6),
    ):
        found = run(policy, names=names, compositions=0, most=3)
        assert sum(each.tried for each in found) == tried
    everything = select(())
    dealt = run(policy, compositions=0, most=3)
    assert all(each.tried > 40 for each in dealt), "each command has its turn"
    alone = {name: sum(each.tried for each in run(policy, names=[name], compositions=0)) for name in everything[::9]}
    for name, of_all in alone.items():
        dealt_out = sum(each.tried for each in run(policy, names=[name], compositions=0, most=3))
        assert dealt_out == (of_all if name in for_each_line() else min(3, of_all)), name


def test_what_each_line_is_worth_is_tried_on_all(policy_of: Callable[[str], Path]) -> None:
    """A rule that knows one of its sixteen commands by the spelling of its program alone."""
    plain = ", ".join(f"frob {letter}" for letter in "abcdefghijklmno")
    policy = load(
        policy_of(f"when: {{any: [{{argv: [trob, x]}}, {{program: frob}}]}}, tests: {{match: [trob x, {plain}]}}")
    )
    found = run(policy, compositions=0, most=3, names=["usr-bin"])
    assert [f.rewritten for each in found for f in each.failures] == ["/usr/bin/trob x"]


@pytest.mark.parametrize(("more", "tried"), [("", 0), ("  - {id: a, decision: allow, when: {program: ls}}\n", 1)])
def test_what_the_default_asks_about_gets_milder_only_by_a_rule_that_allows(
    policy_of: Callable[[str], Path], more: str, tried: int
) -> None:
    path = policy_of('when: {program: frob}, tests: {not_match: ["trob a"]}')
    path.write_text(path.read_text().replace("unmatched: allow", "unmatched: ask") + more)
    found = run(load(path, tested=False), names=["tabs"], compositions=0)
    assert [each.tried for each in found] == [tried]


def test_everything_is_tried_where_that_is_asked_for(
    policy_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(policy_of(MANY))
    arguments = ["policy", "test", path, "--metamorphic", "--transformations", "as-echo"]
    assert main(arguments) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "mine: 7 of 7 examples passed, 3 rewritings with seed 0"
    assert second == "mine: each rewriting of 3 commands of a rule, in turns (--thorough: of all)"
    assert main([*arguments, "--thorough"]) == 0
    assert capsys.readouterr().out == "mine: 7 of 7 examples passed, 7 rewritings with seed 0\n"
    assert main(["policy", "test", path, "--thorough"]) == 2


# ---- by rule, and remembered ------------------------------------------------------------------------------

TWO = """\
version: 1
policy: two
extends: [builtin:guard]
rules:
  - {id: first, decision: deny, severity: high, reason: a, suggestion: b, when: {program: frob}, tests: {match: [frob a]}}
  - {id: other, decision: deny, severity: high, reason: a, suggestion: b, when: {argv: [trob, "-rf"]}, tests: {match: ["trob -rf"]}}
"""
NAMES = ("tabs", "double-quotes", "group", "variables")


def two(tmp_path: Path, *changes: tuple[str, str]) -> Policy:
    text = TWO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "two.yaml"
    path.write_text(text)
    return load(path)


def judged(found: list[Checked]) -> dict[str, bool]:
    """By rule: was it remembered?"""
    return {checked.example.rule.id: checked.remembered for checked in found}


def again(policy: Policy, **more: Any) -> list[Checked]:
    return run(policy, **{"names": NAMES, "compositions": 0, "remember": True, **more})


def test_shipped_rules_are_left_out_of_a_policy_of_ones_own(tmp_path: Path) -> None:
    policy = two(tmp_path)
    assert {each.rule.id for each in examples_of(policy)} == {"first", "other"}
    assert {each.rule.id for each in examples_of(policy, ["othe?", "own-files"])} == {"other", "own-files"}
    assert len({each.rule.id for each in examples_of(policy, ["*"])}) > 10
    assert examples_of(load(find("guard"))), "of a policy that ships, all"
    with pytest.raises(KeyError):
        examples_of(policy, ["firts"])


def test_an_exception_of_ones_own_to_a_shipped_rule_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "version: 1\npolicy: mine\nextends: [builtin:default]\nexceptions:\n"
        "  - {rule: packages, when: {program: frobpip}, reason: ours, expires: 2999-12-31, tests: {not_match: [pip install x]}}\n"
    )
    assert [each.command for each in examples_of(load(path, tested=False))] == ["pip install x"]


def test_what_was_judged_is_remembered_by_rule(tmp_path: Path) -> None:
    first = again(two(tmp_path))
    second = again(two(tmp_path))
    assert judged(first) == {"first": False, "other": False}
    assert judged(second) == {"first": True, "other": True}
    assert [(c.tried, c.failures) for c in second] == [(c.tried, c.failures) for c in first]
    more = again(two(tmp_path, ("[frob a]", "[frob a, frob b]")))
    assert judged(more) == {"first": False, "other": True}, "another example is that rule's alone"


@pytest.mark.parametrize(
    "changes",
    [
        {"policy": ("[builtin:guard]", "[builtin:guard]\ndefaults: {unmatched: deny}")},
        {"policy": ('argv: [trob, "-rf"]', 'argv: [trob, "-rf", "..."]')},
        {"seed": 1},
        {"names": NAMES[:3]},
        {"confined": True},
    ],
    ids=str,
)
def test_what_it_depends_on_has_changed(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The verdict on a rewriting is that of all rules together, so one that decides something else counts for all."""
    again(two(tmp_path))
    policy = two(tmp_path, *([changes.pop("policy")] if "policy" in changes else []))
    assert judged(again(policy, **changes)) == {"first": False, "other": False}


def test_another_engine_judges_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again(two(tmp_path))
    monkeypatch.setattr(memory, "engine_digest", lambda: "another")
    assert judged(again(two(tmp_path))) == {"first": False, "other": False}


@pytest.mark.parametrize("name", ["bashlex", "tree-sitter", "tree-sitter-bash", "tree-sitter-javascript", "pyyaml"])
def test_another_version_of_a_parser_is_another_engine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = memory.engine_digest.__wrapped__()
    real = memory.version
    monkeypatch.setattr(memory, "version", lambda each: "0" if each == name else real(each))
    assert memory.engine_digest.__wrapped__() != before


def kept() -> list[Path]:
    return sorted(Path(state_path("metamorphic")).glob("*.json"))


@pytest.mark.parametrize(
    "tamper",
    [
        lambda path: path.write_text(path.read_text().replace('"tried": 4', '"tried": 400')),
        lambda path: path.write_text(path.read_text()[:-20]),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text("[1]"),
        lambda path: path.chmod(0o644),
        lambda path: (path.rename(path.with_suffix(".moved")), path.symlink_to(path.with_suffix(".moved"))),
    ],
)
def test_a_memory_that_is_not_as_it_was_written_is_not_used(tmp_path: Path, tamper: Callable[[Path], Any]) -> None:
    again(two(tmp_path))
    assert len(kept()) == 2
    for path in kept():
        tamper(path)
    found = again(two(tmp_path))
    assert judged(found) == {"first": False, "other": False}
    assert all(checked.tried < 400 for checked in found)


def test_one_rules_memory_is_not_anothers(tmp_path: Path) -> None:
    again(two(tmp_path))
    one, other = kept()
    texts = one.read_bytes(), other.read_bytes()
    one.write_bytes(texts[1])
    other.write_bytes(texts[0])
    assert judged(again(two(tmp_path))) == {"first": False, "other": False}


def test_a_failure_that_is_remembered_is_judged_again(tmp_path: Path) -> None:
    """One that is none any more is not told; the rule is judged as if nothing were known."""
    names = ("split-options", "tabs")
    rule = ('argv: [trob, "-rf"]', 'argv: [rm, "-rf", "..."]'), ("trob -rf", "rm -rf a/b")
    found = again(two(tmp_path, *rule, ("[builtin:guard]", "[]\ndefaults: {unmatched: allow}")), names=names)
    (failed,) = [checked for checked in found if checked.failures]
    (path,) = [path for path in kept() if "split-options" in path.read_text()]
    content = json.loads(path.read_text())
    content["found"]["rm -rf a/b"]["failures"] = [[["split-options"], "rm -rf a/b", "rm -rf a/b"]]
    path.write_text(json.dumps({**content, "seal": memory._seal(content)}))
    (told,) = [checked for checked in again(load(tmp_path / "two.yaml"), names=names) if checked.failures]
    assert not told.remembered
    assert [f.rewritten for f in told.failures] == [f.rewritten for f in failed.failures]


def test_no_policy_is_loaded_by_what_is_remembered(tmp_path: Path) -> None:
    """A memory that says that all passed does not make a policy pass its own tests."""
    again(two(tmp_path))
    with pytest.raises(PolicyError, match="first applies"):
        two(tmp_path, ("match: [frob a]", "match: [ls]"))


def test_rules_are_chosen_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two(tmp_path)
    path = str(tmp_path / "two.yaml")
    arguments = ["policy", "test", path, "--metamorphic", "--transformations", "tabs,group", "--format", "json"]
    assert main([*arguments, "--rules", "fir*"]) == 0
    assert [(row["rule"], row["remembered"]) for row in json.loads(capsys.readouterr().out)] == [("first", False)]
    assert main(arguments) in (0, 1)
    rows = {row["rule"]: row["remembered"] for row in json.loads(capsys.readouterr().out)}
    assert rows == {"first": True, "other": False}
    assert main([*arguments, "--again"]) in (0, 1)
    assert not any(row["remembered"] for row in json.loads(capsys.readouterr().out))
    assert main([*arguments[:-2]]) in (0, 1)
    said = capsys.readouterr().out
    assert "as they were judged before (--again judges them)" in said
    assert "rules that ship are left out: --rules '*' judges them with your policy" in said
    assert main([*arguments, "--rules", "firts"]) == 2
    assert "no rule is called firts; did you mean first?" in capsys.readouterr().err
    assert main(["policy", "test", path, "--rules", "first"]) == 2
