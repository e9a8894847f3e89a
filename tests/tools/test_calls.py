"""Calls of tools, as the shell commands that do the same; and what is not understood of them."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.examples import PROJECT
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.shell import analyse
from humanlayer_agent.tools import catalog
from humanlayer_agent.tools.calls import Call, NotACall, call_of, known_effects, loaded, shown, written
from tests.support import extent

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2),
    max_leaves=4,
)
NAMES = sorted({name for tools in catalog.load().agents.values() for name in (*tools.tools, *tools.leaves)})
ARGUMENTS = sorted(
    {name for tools in catalog.load().agents.values() for tool in tools.tools.values() for name in tool.takes}
)


def judged(text: str) -> PolicyDecision:
    return Director.load("default", project=PROJECT).evaluate(written(text, cwd=PROJECT))


@pytest.mark.parametrize(
    ("agent", "name", "inputs", "text"),
    [
        ("claude-code", "Bash", {"command": "ls", "description": "why", "timeout": 5}, "ls"),
        ("claude-code", "Write", {"file_path": "a b'c", "content": "x"}, "> 'a b'\"'\"'c'"),
        ("claude-code", "Edit", {"file_path": "~/.x", "old_string": "", "new_string": ""}, "> '~/.x' > ~/.x"),
        ("claude-code", "Read", {"file_path": " a\u00a0"}, "cat -- ' a\u00a0' a"),
        ("claude-code", "Read", {"file_path": "-rf", "limit": 3}, "cat -- -rf"),
        ("claude-code", "Grep", {"pattern": "-f/etc/shadow"}, "grep -r -e -f/etc/shadow -- ."),
        ("claude-code", "Grep", {"pattern": "K", "glob": ".env*"}, "grep -r --include='.env*' -e K -- ."),
        ("claude-code", "Grep", {"pattern": "K", "glob": "!*.md"}, "grep -r -e K -- ."),
        ("claude-code", "Grep", {"pattern": "K", "glob": "**/x/*.pem"}, "grep -r --include='*.pem' -e K -- ."),
        ("claude-code", "Glob", {"pattern": "src/**/*.py"}, "find ./src -path 'src/**/*.py'"),
        ("claude-code", "Glob", {"pattern": "/root/.ssh/*"}, "find /root/.ssh -path '/root/.ssh/*'"),
        ("claude-code", "Glob", {"pattern": "../../*", "path": "-delete"}, "find ./-delete/../.. -path '../../*'"),
        ("claude-code", "Glob", {"pattern": "*", "path": "("}, "find ./'(' -path '*'"),
        ("claude-code", "Glob", {"pattern": "*", "path": "~/.ssh"}, "find '~/.ssh' ~/.ssh -path '*'"),
        ("claude-code", "Glob", {"pattern": "*.{ts,tsx}"}, "find . -path '*.{ts,tsx}'"),
        ("claude-code", "Glob", {"pattern": "*/../../*"}, "find \"$FOLDER\" -path '*/../../*'"),
        ("claude-code", "Glob", {"pattern": "{/etc,/root}/*"}, "find \"$FOLDER\" -path '{/etc,/root}/*'"),
        ("claude-code", "Monitor", {"ws": {"url": "wss://example.org/x"}}, "curl -gL -- wss://example.org/x"),
        ("claude-code", "WebFetch", {"url": "http://a@b/", "prompt": "x"}, 'curl -L -- "$ADDRESS"'),
        ("gemini-cli", "run_shell_command", {"command": "ls", "dir_path": "src"}, "ls"),
        (
            "gemini-cli",
            "web_fetch",
            {"prompt": "Summary: say what http://localhost:1/ has"},
            "curl -gL -- http://localhost:1/",
        ),
        ("gemini-cli", "web_fetch", {"prompt": "Note: nothing"}, 'curl -L -- "$ADDRESS"'),
        ("gemini-cli", "web_fetch", {"prompt": "http://localhost:1/ http:/x.invalid"}, 'curl -L -- "$ADDRESS"'),
        ("codex", "apply_patch", {"input": "*** Delete File: a"}, "> a; rm -f -- a"),
        ("copilot", "grep", {"pattern": "x", "paths": ["a", "b"]}, "grep -r -e x -- a b"),
        ("copilot", "grep", {"pattern": "x", "paths": "a"}, "grep -r -e x -- a"),
        ("copilot", "view", {"path": "a", "view_range": [1, 2]}, "cat -- a"),
        ("opencode", "bash", {"command": "ls", "workdir": "src"}, "ls"),
        ("cline", "run_commands", {"commands": ["ls"]}, "ls"),
        ("cline", "run_commands", {"commands": "ls"}, "ls"),
        ("cline", "run_commands", {"commands": ["cat x", "rm x"]}, "bash -c 'cat x'; bash -c 'rm x'"),
        ("cline", "read_files", {"files": [{"path": "a", "start_line": 1}, {"path": "b"}]}, "cat -- a b"),
        ("cline", "search_codebase", {"queries": ["a", "-f/x"]}, "grep -r -e a -e -f/x -- ."),
        (
            "cline",
            "fetch_web_content",
            {"requests": [{"url": "http://localhost/", "prompt": "x"}]},
            "curl -gL -- http://localhost/",
        ),
        ("opencode", "read", {"filePath": "/srv/x"}, "cat -- /srv/x"),
        (
            "opencode",
            "apply_patch",
            {"patchText": "*** Add File: a\n*** Update File: b\n*** Move to: c"},
            "> a > b > c; rm -f -- b",
        ),
    ],
)
def test_what_a_call_does(agent: str, name: str, inputs: dict[str, Any], text: str) -> None:
    call = call_of(agent, name, inputs)
    assert (call.text, call.doubts) == (text, ())


@pytest.mark.parametrize(
    "name",
    ["bash", "BASH", "Bash ", " Bash", "B\u0430sh", "Bash\u200b", "mcp__x__Bash", "mcp__x__Read", "default.Bash", ""],
)
def test_a_name_that_looks_like_another_is_another(name: str) -> None:
    assert call_of("claude-code", name, {"command": "ls", "file_path": "a"}) == Call("call")


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("codex", "mcp__filesystem__write_file"),
        ("cline", "filesystem__write_file"),
        ("claude-code", "mcp__filesystem__write_file"),
        ("gemini-cli", "mcp_filesystem_write_file"),
        ("copilot", "filesystem-write_file"),
        ("opencode", "filesystem_write_file"),
    ],
)
def test_a_tool_of_a_server_stays_a_call_whatever_is_known_of_it(agent: str, name: str) -> None:
    call = call_of(agent, name, {"path": "/etc/x", "content": "y"})
    assert (call.kind, call.text) == ("call", "> /etc/x")
    assert call_of(agent, name.replace("filesystem", "filesystem2"), {"path": "/etc/x"}) == Call("call")


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("Bash", {}),
        ("Bash", {"command": None}),
        ("Bash", {"command": ["ls"]}),
        ("Bash", {"command": {"a": "ls"}}),
        ("Write", {"file_path": 7}),
        ("Write", {"content": "x"}),
        ("Read", {"file_path": True}),
        ("NotebookEdit", {"new_source": "x"}),
        ("Monitor", {"description": "x"}),
        ("Monitor", {"ws": "wss://x/"}),
        ("Monitor", {"ws": {}}),
        ("Monitor", {"ws": {"url": ["wss://x/"]}}),
        ("Grep", {"path": "a"}),
        ("Grep", {"pattern": ["a"]}),
    ],
)
def test_what_the_tool_could_not_do_either_is_no_call(name: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(NotACall):
        call_of("claude-code", name, inputs)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("Bash", {"command": "ls", "shell": "zsh"}),
        ("Bash", {"command": "ls", "Command": "rm -rf /srv"}),
        ("Read", {"file_path": "a", "paths": [".env"]}),
        ("Read", {"file_path": "a", "file_path ": "/etc/shadow"}),
        ("Read", {"file_path": "a", "file_p\u0430th": "/etc/shadow"}),
        ("Monitor", {"command": "ls", "ws": {"url": "wss://localhost/", "headers": {}}}),
        ("WebFetch", {"url": "http://localhost/", "proxy": "http://x.invalid"}),
    ],
)
def test_an_argument_that_nobody_knows_is_told(name: str, inputs: dict[str, Any]) -> None:
    call = call_of("claude-code", name, inputs)
    assert len(call.doubts) == 1
    assert "is not known" in call.doubts[0]
    assert call.doubts[0].isprintable()


@pytest.mark.parametrize(
    "places",
    [{"dir_path": "src", "directory": "/srv"}, {"dir_path": " /srv"}, {"directory": "~"}, {"dir_path": "~/x"}],
)
def test_a_directory_that_is_not_certain(places: dict[str, str]) -> None:
    call = call_of("gemini-cli", "run_shell_command", {"command": "rm -rf build", **places})
    assert call.doubts == ("in which directory run_shell_command works is not known",)
    assert call_of("gemini-cli", "run_shell_command", {"command": "ls", "dir_path": "a", "directory": "a"}).doubts == ()


def test_what_is_null_is_not_there() -> None:
    assert call_of("claude-code", "Read", {"file_path": "a", "paths": None, "limit": None}).doubts == ()


@pytest.mark.parametrize(("value", "leaves"), [(True, True), ("true", True), (1, True), ([], True), (False, False)])
def test_out_of_the_sandbox(value: object, leaves: bool) -> None:
    call = call_of("claude-code", "Bash", {"command": "ls", "dangerouslyDisableSandbox": value})
    assert call.unsandboxed is leaves


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"x": {"a": 1, "a": 1}}', "NaN", '{"a": Infinity}', "[", ""])
def test_json_that_means_two_things_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loaded(text)


@pytest.mark.parametrize("name", ["mcp__a\n", "mcp__a({})", "b\u0430sh", "", "x" * 201])
def test_what_can_not_be_shown(name: str) -> None:
    with pytest.raises(NotACall):
        shown(name, {})


# ---- what policies and `hla check` see


@pytest.mark.parametrize(
    ("call", "command"),
    [
        ('Bash({"command": "rm -rf /srv/x"})', "rm -rf /srv/x"),
        ('Write({"file_path": "/etc/hosts", "content": "x"})', "> /etc/hosts"),
        ('bash({"command": "ls -la"})', "ls -la"),
        ('read_file({"absolute_path": ".env"})', "cat -- .env"),
        ('edit({"filePath": "a.py", "oldString": "a", "newString": "b"})', "> a.py"),
        ('edit({"path": "a.py"})', "> a.py"),
        ('run_shell_command({"command": "rm x", "dir_path": "/srv"})', "rm /srv/x"),
        ('Grep({"pattern": "x", "glob": ".env*"})', "grep -r --include='.env*' -e x -- ."),
    ],
)
def test_a_call_that_is_written_down_is_judged_as_its_command(call: str, command: str) -> None:
    found, wanted = judged(call), Director.load("default", project=PROJECT).evaluate(Action(command, cwd=PROJECT))
    assert (found.verdict, found.rule, found.reason) == (wanted.verdict, wanted.rule, wanted.reason)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ('Bash({"command": "ls", "shell": "zsh"})', "shell is not known"),
        ('Write({"file_path": 7})', "file_path is no text"),
        ('Bash({"command": "%s"})' % ("x" * 3_000), ""),
        ('mcp__filesystem__write_file({"path": "a", "content": "x"})', "Calls mcp__filesystem__write_file"),
        ('mcp__x__Read({"file_path": "a"})', "Calls mcp__x__Read"),
        ('Read({"file_path": "a", "file_path": "/etc/shadow"})', ""),
        ('R\u0435ad({"file_path": "a"})', ""),
    ],
)
def test_what_is_not_understood_asks(call: str, says: str) -> None:
    found = judged(call)
    assert (found.verdict, says in found.reason) == (Verdict.ASK, True), found


HEAD, TAIL = "*** Begin Patch\n*** Add File: ok.txt\n+x\n", "+evil\n*** End Patch"


@pytest.mark.parametrize(
    ("agent", "name", "inputs"),
    [
        # What an agent makes of a call after its hook has heard of it.
        ("gemini-cli", "run_shell_command", {"command": "bash -c cat /root/.ssh/id_rsa"}),
        ("gemini-cli", "run_shell_command", {"command": " /bin/SH  -c 'true' '; rm x; '"}),
        ("gemini-cli", "run_shell_command", {"command": "cat .env\u00a0"}),
        ("claude-code", "Bash", {"command": "\ufeffcat .env"}),
        ("cline", "run_commands", {"commands": ["cd /home/u; : '<<pwd'", "rm -rf x", "pwd"]}),
        ("opencode", "apply_patch", {"patchText": f"{HEAD}*** Add File /root/.bashrc\n{TAIL}"}),
        ("opencode", "apply_patch", {"patchText": f"{HEAD}***\u00a0Rename: /root/.bashrc\n{TAIL}"}),
    ],
)
def test_what_may_be_read_otherwise_is_told(agent: str, name: str, inputs: dict[str, Any]) -> None:
    assert call_of(agent, name, inputs).doubts


@pytest.mark.parametrize(
    ("agent", "name", "inputs"),
    [
        ("gemini-cli", "run_shell_command", {"command": "env bash -c x\n"}),
        ("claude-code", "Bash", {"command": " bash -c 'ls' \n"}),
        ("cline", "run_commands", {"commands": ["cat <<EOF\nx\nEOF"]}),
        ("cline", "run_commands", {"commands": ["ls", "pwd"]}),
        (
            "opencode",
            "apply_patch",
            {"patchText": "*** Begin Patch\r\n*** Update File: a\r\n@@\r\n-x\r\n*** End Patch"},
        ),
    ],
)
def test_what_can_not_be_read_otherwise_is_not(agent: str, name: str, inputs: dict[str, Any]) -> None:
    assert call_of(agent, name, inputs).doubts == ()


@pytest.mark.parametrize("header", ["*** Add File:/root/.x", "***Add File: /root/.x", "*** Move to:\t/root/.x"])
def test_a_header_of_a_patch_needs_no_blank(header: str) -> None:
    assert "/root/.x" in call_of("opencode", "apply_patch", {"patchText": f"{HEAD}{header}\n{TAIL}"}).text


@pytest.mark.parametrize("glob", ["*.py .env", "*.py, .env", "x,.env"])
def test_several_patterns_in_one_text(glob: str) -> None:
    assert "--include=.env " in call_of("claude-code", "Grep", {"pattern": "K", "glob": glob}).text


@pytest.mark.parametrize("path", ["~/", " /root", " ~/.ssh"])
def test_a_folder_is_spelled_before_it_is_one_word(path: str) -> None:
    call = call_of("claude-code", "Glob", {"pattern": "*", "path": path})
    assert path.strip() in call.text.split()


def test_what_is_known_of_a_servers_tool_is_judged_where_a_rule_allows_its_call(tmp_path: Path) -> None:
    policy = """
version: 1
policy: files
extends: [builtin:default]
rules:
  - id: server
    decision: allow
    reason: Our files.
    when: {tool: {name: [mcp__filesystem__*, mcp__sqlite__*, Read]}}
"""
    (tmp_path / "policy.yaml").write_text(policy)
    director = Director(load(tmp_path / "policy.yaml"), project=PROJECT)
    for call, verdict in (
        ('mcp__filesystem__read_text_file({"path": "a.py"})', Verdict.ALLOW),
        ("mcp__filesystem__list_allowed_directories({})", Verdict.ALLOW),
        ('mcp__filesystem__read_text_file({"path": ".env"})', Verdict.ASK),
        ('mcp__filesystem__write_file({"path": "/etc/hosts", "content": ""})', Verdict.ASK),
        ('mcp__filesystem__move_file({"source": "~/.ssh/id_rsa", "destination": "a"})', Verdict.ASK),
        ('mcp__filesystem__read_multiple_files({"paths": ["a.py", "/etc/shadow"]})', Verdict.ASK),
        ('mcp__filesystem__read_text_file({"path": "a.py", "also": "/etc/shadow"})', Verdict.ASK),
        ('mcp__filesystem__read_text_file({"path": ["a.py"]})', Verdict.ASK),
        ('mcp__filesystem__a_new_tool({"path": "/etc/shadow"})', Verdict.ALLOW),  # the rule's own word
        ('mcp__sqlite__read_query({"query": "select 1"})', Verdict.ALLOW),
        ('mcp__sqlite__read_query({"query": "attach \'/srv/x\' as y"})', Verdict.ASK),
        ('Read({"file_path": "a.py", "also": "x"})', Verdict.ASK),
    ):
        assert director.evaluate(written(call, cwd=PROJECT)).verdict is verdict, call


def test_a_servers_paths_may_go_from_the_project_or_the_directory_of_the_call() -> None:
    assert known_effects("", "mcp__filesystem__write_file", '{"path":"x","content":""}') == ("> x", ())
    director = Director.load("default", project=PROJECT)
    action = written('mcp__filesystem__write_file({"path": "x", "content": ""})', cwd="/srv/elsewhere")
    effects = [each.operand for command in director.program(action).commands for each in command.effects]
    assert effects == ["mcp__filesystem__write_file", "/srv/elsewhere/x", f"{PROJECT}/x"]


# ---- whatever it is


@settings(max_examples=extent.examples(200))
@given(
    st.sampled_from(["", *catalog.load().agents]),
    st.sampled_from(NAMES) | st.text(max_size=12),
    st.dictionaries(st.sampled_from(ARGUMENTS) | st.text(max_size=9), JSON, max_size=5),
)
def test_whatever_a_call_is_given_it_is_understood_or_refused(agent: str, name: str, inputs: dict[str, Any]) -> None:
    try:
        call = call_of(agent, name, inputs)
    except NotACall as error:
        assert str(error).isprintable() or "\n" not in str(error)
        return
    agents = catalog.load().agents
    tables = [agents[agent]] if agent else agents.values()
    known = {argument for each in tables if name in each.tools for argument in each.tools[name].takes}
    if call.kind in ("command", "touch") and not call.doubts:
        assert {key for key, value in inputs.items() if value is not None} <= known


@settings(max_examples=extent.examples(200))
@given(st.text(max_size=12))
def test_a_path_is_one_word_whatever_is_in_it(path: str) -> None:
    """Nothing of a path is taken for another word, an option, or a command."""
    if "\0" in path:
        return
    words = shlex.split(call_of("opencode", "read", {"filePath": path}).text)
    assert words[:2] == ["cat", "--"]
    assert path in words[2:]
    program = analyse(call_of("opencode", "write", {"filePath": path}).text, cwd="/srv/app")
    assert {effect.kind for command in program.commands for effect in command.effects} <= {"write"}
