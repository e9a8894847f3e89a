"""The clause `tool`: which tool is called, and what it is given."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import FUNCTION, Action, tool_arguments
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.tools.calls import written

PROJECT = "/nowhere/project"


def director(tmp_path: Path, rules: str, unmatched: str = "ask") -> Director:
    file = tmp_path / "policy.yaml"
    file.write_text(f"version: 1\npolicy: test\ndefaults: {{unmatched: {unmatched}}}\nrules:\n{rules}")
    return Director.load(str(file), project=PROJECT, environ={"HOME": "/home/u"})


def rule(decision: str, when: str) -> str:
    return f"  - {{id: it, decision: {decision}, reason: It is so., when: {{tool: {when}}}}}\n"


def verdict(judge: Director, tool: str, arguments: dict[str, Any]) -> str:
    return str(judge.evaluate(call(tool, arguments)).verdict)


def call(tool: str, arguments: dict[str, Any]) -> Action:
    text = tool_arguments(arguments)
    return Action(f"{tool}({text})", type=FUNCTION, cwd=PROJECT, tool=tool, arguments=text)


@pytest.mark.parametrize(
    ("when", "arguments", "expected"),
    [
        ("close", {}, "deny"),
        ("[open, cl*]", {}, "deny"),
        ("open", {}, "allow"),
        ("{name: close, args: {repo: acme/x}}", {"repo": "acme/x"}, "deny"),
        ("{name: close, args: {repo: acme/x}}", {"repo": "other"}, "allow"),
        ("{name: close, args: {repo: acme/x}}", {}, "allow"),
        ("{args: {repo: {regex: 'a+'}}}", {"repo": "aaa"}, "deny"),
        ("{args: {number: '12'}}", {"number": 12}, "deny"),
        ("{args: {force: 'true'}}", {"force": True}, "deny"),
        ("{args: {labels: '*\"bug\"*'}}", {"labels": ["a", "bug"]}, "deny"),
        ("{args: {labels: 'bug'}}", {"labels": ["a", "bug"]}, "ask"),
        ("{args: {number: '12'}}", {"number": 12.0}, "deny"),
        ("{args: {number: '12'}}", {"number": [12]}, "ask"),
        ("{args: {edits: '*KEY*'}}", {"edits": [{"new": "x" * 3000 + "KEY"}]}, "ask"),
        ("{args: {edits: '*KEY*'}}", {"edits": {"characters": 1, "sha256": "KEY"}}, "deny"),
        ("{args: {path: {within: '/etc/**'}}}", {"path": ["a", "/etc/x"]}, "deny"),
        ("{args: {path: {within: '/etc/**'}}}", {"path": {"x": "/etc/x"}}, "ask"),
        ("{args: {path: {within: '/etc/**'}}}", {"path": "file:/etc/x"}, "ask"),
        ("{args: {path: {within: '/etc/**'}}}", {"path": "/%65tc/x"}, "ask"),
        ("{args: {repo: {given: false}}}", {}, "deny"),
        ("{args: {repo: {given: false}}}", {"repo": None}, "allow"),
        ("{args: {repo: {given: true}}}", {"repo": None}, "deny"),
        ("{args: {text: 'x*'}}", {"text": "x" * 9000}, "ask"),
        ("{args: {path: {within: '${PROJECT}/**'}}}", {"path": "a/b"}, "deny"),
        ("{args: {path: {within: '${PROJECT}/secret/**'}}}", {"path": "a/../secret/b"}, "deny"),
        ("{args: {path: {within: '${PROJECT}/**'}}}", {"path": "/etc/x"}, "allow"),
        ("{args: {path: {within: '/etc/**'}}}", {"path": "file:///etc/x"}, "ask"),
        ("{args: {path: {within: '~/.ssh/**'}}}", {"path": "~/.ssh/id"}, "ask"),
        ("{args: {path: {within: '/etc/**'}}}", {"path": " /etc/x"}, "ask"),
    ],
)
def test_what_is_denied(tmp_path: Path, when: str, arguments: dict[str, Any], expected: str) -> None:
    rules = f"{rule('deny', when)}  - {{id: calls, decision: allow, reason: Any., when: {{tool: close}}}}\n"
    assert verdict(director(tmp_path, rules), "close", arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "docs/a"}, "allow"),
        ({"path": "docs/../b"}, "ask"),
        ({"path": "/etc/x"}, "ask"),
        ({"path": "file:///nowhere/project/docs/a"}, "ask"),  # a tool may take that for a name
        ({}, "ask"),
        ({"path": ["docs/a"]}, "allow"),
        ({"path": ["docs/a", "/etc/x"]}, "ask"),
        ({"path": [["docs/a"]]}, "ask"),
        ({"path": []}, "ask"),
        ({"path": {"x": "docs/a"}}, "ask"),
        ({"path": None}, "ask"),
        ({"path": 5}, "ask"),
        ({"path": "docs/%2e%2e/%2e%2e/x"}, "ask"),
        ({"path": "docs/$X"}, "ask"),
        ({"path": "docs\\..\\..\\x"}, "ask"),
        ({"path": "docs/\u200b"}, "ask"),
        ({"path": "~root/x"}, "ask"),
        ({"path": "C:x"}, "ask"),
        ({"path": "docs/" + "x" * 9000}, "ask"),
    ],
)
def test_what_is_allowed(tmp_path: Path, arguments: dict[str, Any], expected: str) -> None:
    judge = director(tmp_path, rule("allow", "{name: mcp__files__read, args: {path: {within: '${PROJECT}/docs/**'}}}"))
    assert verdict(judge, "mcp__files__read", arguments) == expected
    assert verdict(judge, "mcp__files__write", arguments) == "ask"


def test_an_allow_of_a_tool_covers_the_call_and_nothing_else_that_is_done(tmp_path: Path) -> None:
    judge = director(tmp_path, rule("allow", "[Write, close]"))
    assert verdict(judge, "close", {"file_path": "a"}) == "allow"
    assert verdict(judge, "Write", {"file_path": "a"}) == "ask"  # a write is known to be done by it
    as_command = Action("> /etc/x", cwd=PROJECT, tool="Write", arguments=tool_arguments({"file_path": "/etc/x"}))
    assert str(judge.evaluate(as_command).verdict) == "ask"
    assert str(judge.evaluate(Action("frob", cwd=PROJECT, tool="Write")).verdict) == "ask"


def test_a_tool_is_no_program_of_its_name(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    when = "{program: [task, 'task*', echo]}"
    file.write_text(f"version: 1\npolicy: p\nrules:\n  - {{id: it, decision: allow, reason: So., when: {when}}}\n")
    judge = Director.load(str(file), project=PROJECT)
    assert str(judge.evaluate(Action("echo a", cwd=PROJECT)).verdict) == "allow"
    assert verdict(judge, "echo", {"a": 1}) == "ask"


def test_a_command_of_which_no_tool_is_known_is_none(tmp_path: Path) -> None:
    judge = director(tmp_path, rule("deny", "'*'"))
    assert str(judge.evaluate(Action("ls", cwd=PROJECT)).verdict) == "ask"
    assert str(judge.evaluate(Action("ls", cwd=PROJECT, tool="Bash")).verdict) == "deny"


@pytest.mark.parametrize("when", ["'*'", "['**', close]", "{args: {a: b}}"])
def test_an_allow_of_any_tool_is_too_broad(tmp_path: Path, when: str) -> None:
    with pytest.raises(PolicyError, match="too broad"):
        director(tmp_path, rule("allow", when))


@pytest.mark.parametrize("when", ["{}", "{args: {a: {}}}", "{named: x}", "{args: {}}", "3"])
def test_mistakes_are_named(tmp_path: Path, when: str) -> None:
    with pytest.raises(PolicyError, match=r"policy\.yaml:5:"):
        director(tmp_path, rule("deny", when))


def test_rules_on_tools_are_tested_by_calls_as_they_are_written(tmp_path: Path) -> None:
    tests = "tests: {match: ['close({\"issue\": 1})'], not_match: ['open({\"issue\": 1})', 'close x']}"
    file = tmp_path / "policy.yaml"
    file.write_text(
        "version: 1\npolicy: test\nrules:\n"
        f"  - {{id: it, decision: deny, reason: No., when: {{tool: close}}, {tests}}}\n"
    )
    Director.load(str(file), project=PROJECT)
    file.write_text(file.read_text().replace("'open({", "'close({"))
    with pytest.raises(PolicyError, match="close"):
        Director.load(str(file), project=PROJECT)


@pytest.mark.parametrize(
    "text",
    [
        "ls",
        "f() { rm x; }",
        "close()",
        "close({)",
        "close([1])",
        "close({}) ; ls",
        "x({}",
        "/x({})",
        "a/({})",
        "a//b({})",
    ],
)
def test_what_is_no_call_is_a_command(text: str) -> None:
    assert written(text) == Action(text)


@given(st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=20)))
def test_a_call_is_read_as_it_was_written(arguments: dict[str, Any]) -> None:
    for name in ("mcp__a__b", "mcp__a__resources/read"):
        action = written(f"{name}({json.dumps(arguments)})")
        assert (action.tool, action.arguments, action.type) == (name, tool_arguments(arguments), FUNCTION)


def test_the_digest_is_that_of_the_tool_and_of_all_that_it_is_given() -> None:
    def digest(**fields: str) -> str:
        return Action("> a", cwd=PROJECT, **fields).digest("0" * 64)

    long = [tool_arguments({"content": "x" * 5000 + end}) for end in "ab"]
    found = {digest(), digest(tool="Write", arguments="{}"), digest(tool="Edit", arguments="{}")}
    found |= {digest(tool="Write", arguments=each) for each in long}
    assert len(found) == 5


def test_what_python_has_for_paths_is_a_path() -> None:
    given = tool_arguments({"a": Path("/etc/x"), "b": b"/etc/y", "c": {1, 2}})
    assert given == '{"a":"/etc/x","b":"/etc/y","c":{"\\u0000":"{1, 2}"}}'


def test_nothing_that_a_tool_is_given_stands_for_what_is_not_kept() -> None:
    given = tool_arguments({"a": {"\0": "x"}, "b": "x" * 3000})
    assert '"a":{"\\u0000\\u0000":"x"}' in given
    assert '"b":{"\\u0000":[3000,' in given


def test_what_is_too_deep_is_no_call() -> None:
    text = 'x({"a":' + "[" * 900 + "]" * 900 + "})"
    assert written(text) == Action(text)
    with pytest.raises(ValueError, match="too deep"):
        tool_arguments({"a": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]})


def test_paths_of_a_call_go_from_where_the_agent_is_or_from_the_project(tmp_path: Path) -> None:
    judge = director(tmp_path, rule("allow", "{name: mcp__a__b, args: {path: {within: '${PROJECT}/**'}}}"))
    text = tool_arguments({"path": "../../x"})
    action = Action(f"mcp__a__b({text})", type=FUNCTION, cwd=f"{PROJECT}/a/b/c", tool="mcp__a__b", arguments=text)
    assert str(judge.evaluate(action).verdict) == "ask"
