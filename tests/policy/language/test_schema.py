"""A policy file with a mistake is refused with its place and what was expected."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import loader as loading
from humanlayer_agent.policy.language import policy as model

Load = Callable[[str], model.Policy]
HEAD = "version: 1\npolicy: p\nrules:\n"
RULE = "  - {id: r, decision: ask, when: {program: rm}}\n"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], model.Policy]:
    """Loads a policy from its text, as the file p.yaml."""
    monkeypatch.chdir(tmp_path)

    def from_text(text: str) -> model.Policy:
        Path("p.yaml").write_text(text)
        return loading.load(Path("p.yaml"))

    return from_text


def test_a_small_policy(load: Load) -> None:
    policy = load(HEAD + RULE)
    assert policy.rules[0].when.program == model.Program(names=("rm",))
    assert policy.defaults.unmatched == "ask"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "p.yaml:1:1: expected a mapping"),
        ("version: 2\npolicy: p\nrules:\n" + RULE, "p.yaml:1:10: 2: expected 1"),
        ("version: 1\nrules:\n" + RULE, "p.yaml:1:1: the key 'policy' is missing"),
        (HEAD + RULE.replace("rm", "[]"), "p.yaml:4:44: Value should have at least 1 item"),
        (
            HEAD + RULE.replace("decision: ask", "decision: maybe"),
            "p.yaml:4:23: 'maybe': expected 'allow', 'ask' or 'deny'",
        ),
        (HEAD + RULE.replace("when", "wen"), "p.yaml:4:28: unknown key 'wen'; did you mean when?"),
        (
            HEAD + RULE.replace("}}", "}, severty: low}"),
            "p.yaml:4:49: unknown key 'severty'; did you mean severity?",
        ),
        (
            HEAD + RULE.replace("program: rm", "programm: rm"),
            "p.yaml:4:35: unknown key 'programm'; did you mean program?",
        ),
        (
            HEAD + RULE.replace("program: rm", "flags: {some: [x]}"),
            "p.yaml:4:43: unknown key 'some'; known here: all, any, none",
        ),
        (HEAD + RULE + RULE, "p.yaml:5:10: the rule id 'r' stands twice"),
        (HEAD + RULE.replace("program: rm", "effect: frob"), "p.yaml:4:43: 'frob': expected 'read', 'write'"),
        (HEAD + RULE.replace("program: rm", ""), "p.yaml:4:34: an empty condition would match everything"),
        (
            HEAD + RULE.replace("program: rm", "paths: {any_within: [$temp]}"),
            "p.yaml:4:55: the list $temp is not defined",
        ),
        (HEAD + RULE.replace("id: r", "id: R r"), "p.yaml:4:10: String should match pattern"),
        (
            HEAD.replace("rules:", "rulez:") + RULE,
            "p.yaml:3:1: unknown key 'rulez'; did you mean rules?",
        ),
        (HEAD + RULE.replace("program: rm", "program: null"), "p.yaml:4:34: an empty condition would match everything"),
        (HEAD + RULE.replace("program: rm", "not: {paths: null}"), "p.yaml:4:40: an empty condition"),
        (HEAD + RULE.replace("program: rm", "env: {value_in: [/a]}"), "p.yaml:4:40: the key 'any' is missing"),
        (HEAD + RULE.replace("program: rm", "any: rm"), "p.yaml:4:40: Input should be a valid list"),
        (HEAD + RULE.replace("{program: rm}", "rm"), "p.yaml:4:34: Input should be a mapping"),
        (
            HEAD + RULE.replace("}}", "}, route: {nam: x}}"),
            "p.yaml:4:57: unknown key 'nam'; did you mean name?",
        ),
    ],
)
def test_mistakes_are_located(load: Load, text: str, expected: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load(text)
    assert str(caught.value).startswith(expected), str(caught.value)


@pytest.mark.parametrize(
    "when",
    [
        "program: bash",
        "program: [ls, python3]",
        "program: git",
        "effect: execute",
        "effect: network",
        "effects: {only: [read, execute]}",
        "not: {program: rm}",
        "any: [{program: ls}, {program: sudo}]",
    ],
)
def test_a_broad_allow_is_refused(load: Load, when: str) -> None:
    with pytest.raises(PolicyError, match="too broad"):
        load(f"{HEAD}  - {{id: r, decision: allow, when: {{{when}}}}}\n")


@pytest.mark.parametrize(
    "when",
    [
        "program: ls",
        "program: git, subcommand: status",
        'effect: read, paths: {all_within: ["/srv/**"]}',
        "effects: {only: [read]}",
    ],
)
def test_a_narrow_allow_is_fine(load: Load, when: str) -> None:
    load(f"{HEAD}  - {{id: r, decision: allow, when: {{{when}}}}}\n")
