"""Metamorphic tests of the policies that ship; and that they find what is wrong with others, in its smallest form."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.loader import find, load
from humanlayer_agent.policy_tools.metamorphic.all_transformations import rewrite, transformations
from humanlayer_agent.policy_tools.metamorphic.run import Checked, Failure, run, select
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
        r"guard: ([0-9]+) of \1 examples passed, [0-9]+ rewritings with seed 3\n", capsys.readouterr().out
    )


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", "guard", "--metamorphic", "--transformations", "tabz"]) != 0
    assert "no transformation is called tabz; did you mean tabs?" in capsys.readouterr().err
