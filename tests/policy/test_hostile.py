"""A repository's policy that tries to loosen anything: refused, or without effect."""

import os
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.layers import find_layers

pytestmark = pytest.mark.usefixtures("compiled")

HEAD = "version: 1\npolicy: hostile\n"
EVERYTHING = '  - {id: free, decision: allow, when: {effect: [read, write, delete], paths: {all_within: ["/**"]}}}\n'
COMMANDS = (
    "rm -rf /srv/x",
    "cat ~/.ssh/id_rsa",
    "curl https://example.org",
    "hla requests approve 1",
    "frobnicate",
    "cat .humanlayer/x",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".humanlayer").mkdir(parents=True)
    return tmp_path / "project"


def director(project: Path, text: str | bytes | None) -> Director:
    path = project / ".humanlayer" / "policy.yaml"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    elif path.exists():
        path.unlink()
    return Director(find_layers(project, machine=project / "no-etc"), project=project)


def judged(project: Path, text: str | None, command: str) -> PolicyDecision:
    return director(project, text).evaluate(Action(command, cwd=str(project)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "text",
    [
        HEAD + "rules:\n" + EVERYTHING,
        HEAD + "defaults: {unmatched: allow}\nrules:\n" + EVERYTHING,
        HEAD
        + "defaults: {unmatched: allow, locked: true}\nrules:\n"
        + EVERYTHING.replace("decision", "locked: true, decision"),
        HEAD + "extends: [builtin:default]\nlists: {temp: {add: ['/**']}, tools: {add: ['/**']}}\n",
        HEAD
        + "extends: [builtin:default]\nlists: {temp: ['/**'], secrets: [/nothing], own: [/nothing], startup: [/nothing]}\n",
        HEAD + "extends: [builtin:default]\nrules:\n"
        "  - {id: secrets, override: {rule: secrets, reason: x, expires: 2999-01-01}, decision: allow, when: {program: cat}}\n",
        HEAD + "extends: [builtin:sandbox]\n",
    ],
    ids=["allow", "unmatched", "locked", "add-to-lists", "redefine-lists", "override", "extend-sandbox"],
)
def test_nothing_is_loosened(project: Path, text: str) -> None:
    for command in COMMANDS:
        without, having = judged(project, None, command), judged(project, text, command)
        assert having.verdict >= without.verdict, command


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "observe: true\nrules:\n" + EVERYTHING, "can't turn enforcement off"),
        (
            HEAD + "extends: [builtin:default]\nrules:\n"
            "  - {id: x, override: {rule: own-files, reason: x, expires: 2999-01-01}, decision: allow, when: {program: cat}}\n",
            "is locked",
        ),
        (HEAD + "extends: [../../secret.yaml]\n", "lies outside"),
        (HEAD + "extends: [/etc/passwd]\n", "expected builtin:NAME"),
        (HEAD + "extends: [link.yaml]\n", "lies outside"),
        (HEAD + "rules:\n  - {id: r, decision: ask, when: {program: {regex: '(a+)+$'}}}\n", "is not needed"),
        (HEAD + "rules:\n  - {id: r, decision: ask, when: {program: {regex: '(?=(a+))x'}}}\n", "not understood"),
        (HEAD + "rules:\n  - {id: r, decision: ask, when: {argv: [{regex: '((a{99}){99}){99}'}]}}\n", "too large"),
        (HEAD + "rules: " + "[" * 200_000, "too large or too deep|maximum nesting depth"),  # the second is PyYAML's, from 6.0.4
        (HEAD + "rules: " + "{a: " * 100_000, "too large or too deep"),
        (HEAD + "a: &a [x, x]\nb: &b [*a, *a, *a, *a, *a]\n" + "".join(f"c{n}: &c{n} [{', '.join(['*b' if n == 0 else f'*c{n - 1}'] * 9)}]\n" for n in range(9)), "too large"),
        ("x" * 600_000, "too large"),
        (HEAD + "rules: !!python/object/apply:os.system ['touch /tmp/x']\n", "is not read here"),
        (HEAD + "version: " + "9" * 10_000 + "\n", "the key 'version' stands here twice|a number of more than"),
        ("version: " + "9" * 10_000 + "\n", "a number of more than"),
    ],
)  # fmt: skip
def test_it_is_refused(project: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    (project / ".humanlayer" / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(PolicyError, match=message) as caught:
        director(project, text)
    assert "hunter2" not in str(caught.value)


def test_a_policy_that_is_a_link_to_a_file_elsewhere_is_not_quoted(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    (project / ".humanlayer" / "policy.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(PolicyError, match="lies outside") as caught:
        Director(find_layers(project, machine=tmp_path / "no"), project=project)
    assert "hunter2" not in str(caught.value)


def test_a_fifo_does_not_make_us_wait(project: Path) -> None:
    os.mkfifo(project / ".humanlayer" / "policy.yaml")
    with pytest.raises(PolicyError, match="not a regular file"):
        Director(find_layers(project, machine=project / "no"), project=project)


def test_messages_do_not_act_on_the_screen(project: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        director(
            project,
            HEAD
            + 'rules:\n  - {id: r, decision: ask, when: {effect: read, paths: {any_within: ["$\\e[2J\\u202e"]}}}\n',
        )
    assert "\x1b" not in str(caught.value)
    assert "\u202e" not in str(caught.value)


def test_reasons_are_text_and_nothing_more(project: Path) -> None:
    reason = "{{ paths.__class__ }} {{ command }}{% for x in y %} {0} %s ${HOME} {{ {{ paths }} }}"
    rule = (
        f'  - {{id: r, decision: deny, reason: "{reason}", suggestion: "{{{{ command }}}}", when: {{program: rm}}}}\n'
    )
    decision = judged(project, HEAD + "rules:\n" + rule, "rm '{{ reason }}'")
    expected = reason.replace("{{ command }}", "rm '{{ reason }}'").replace("{{ paths }}", "an unknown path")
    assert decision.reason == expected


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "pattern", ["/" + "**/a/" * 60 + "b", "/" + "*a" * 300, "**/" + "*a" * 300 + "b", "/" + "*/" * 300 + "**/x"]
)
def test_a_path_pattern_can_not_burn_time(project: Path, pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pattern is tried in more ways than its length times the length of the path."""
    from humanlayer_agent.policy.conditions import word_patterns

    text = (
        HEAD + f'rules:\n  - {{id: r, decision: deny, when: {{effect: read, paths: {{any_within: ["{pattern}"]}}}}}}\n'
    )
    made = director(project, text)
    calls = 0
    matches = word_patterns.glob_matches

    def counted(pattern: str, text: str) -> bool:
        nonlocal calls
        calls += 1
        return matches(pattern, text)

    monkeypatch.setattr(word_patterns, "glob_matches", counted)
    path = "/" + "a/" * 1000 + "a" * 200
    for command in (f"cat {path}", f"cat {path}*", "cat " + "/" + "*a" * 400):
        made.evaluate(Action(command, cwd=str(project)))
    assert calls <= 3 * 400 * 1001


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["TMPDIR", "HOME"])
def test_settings_that_would_make_everything_temporary(tmp_path: Path, name: str) -> None:
    for value in ("/", "//", "/..", str(tmp_path), str(tmp_path.parent), "relative"):
        environ = {"HOME": str(tmp_path / "home"), "TMPDIR": value}
        found = Director.load("default", project=tmp_path / "home" / "project", environ=environ)
        decision = found.evaluate(Action("rm -rf /etc/x", cwd=found.project))
        assert str(decision.verdict) != "allow", value


def test_a_project_whose_name_is_a_pattern(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="can't be used"):
        Director.load("default", project=tmp_path / "app*")
