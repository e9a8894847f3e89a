"""`hla doctor`: hooks of coding agents, and where the links in mails lead."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.doctor.checks import CHECKS
from humanlayer_agent.doctor.context import Context, Finding
from humanlayer_agent.hooks import hook_settings
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.gateway.clients import keep_token
from humanlayer_agent.locations import config_folder

CLAUDE = AGENTS["claude-code"]
with_hook = partial(hook_settings.with_hook, CLAUDE)
hook_entry = partial(hook_settings.hook_entry, CLAUDE)
settings_path = partial(hook_settings.settings_path, CLAUDE)

EXAMPLE = Path(__file__).parents[2] / "examples" / "gemini-cli-settings.json"
Look = Callable[..., list[Finding]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".claude").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a directory of our own: `hla init` sets up the project around it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def look(project: Path, tmp_path: Path) -> Look:
    def make(name: str, **environ: str) -> list[Finding]:
        context = Context(project, {**os.environ, **environ}, machine=tmp_path / "machine")
        return list(next(check for check in CHECKS if check.name == name).make(context))

    return make


def written(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def gemini() -> Path:
    return Path.home() / ".gemini" / "settings.json"


# Hooks


def test_nothing_is_said_where_no_agent_is_set_up(look: Look) -> None:
    assert look("hooks") == []


def test_the_hook_that_init_writes_is_fine(look: Look) -> None:
    written(settings_path(), with_hook({"model": "x"}))
    assert [(each.status, each.said) for each in look("hooks")] == [
        ("ok", "Claude Code asks us before it runs something")
    ]


def test_a_hook_of_an_older_version_is_not_run_before_all_that_is_judged(look: Look) -> None:
    settings = with_hook({})
    (entry,) = settings["hooks"]["PreToolUse"]
    written(
        settings_path(),
        {"hooks": {"PreToolUse": [{**entry, "matcher": "Bash|Write|Edit|MultiEdit|NotebookEdit|Read|Grep"}]}},
    )
    assert [(each.status, each.said) for each in look("hooks")] == [
        ("ok", "Claude Code asks us before it runs something"),
        (
            "warning",
            "Claude Code does not ask us before calls of Monitor, NotebookRead, Glob, LS, WebFetch, LSP, other tools",
        ),
    ]
    written(settings_path(), {"hooks": {"PreToolUse": [{**entry, "matcher": "*"}]}})
    assert [each.status for each in look("hooks")] == ["ok"]


def test_codex(look: Look, tmp_path: Path) -> None:
    folder = tmp_path / "codex"
    written(folder / "config.toml", 'model = "x"\n')
    (found,) = look("hooks", CODEX_HOME=str(folder))
    assert (found.status, "no hook of ours" in found.said) == ("warning", True)
    text = EXAMPLE.with_name("codex-hooks.json").read_text()
    written(folder / "hooks.json", text.replace("hla hook", f"{sys.executable} hook"))
    works, skipped = look("hooks", CODEX_HOME=str(folder))
    assert (works.status, works.said) == ("ok", "Codex asks us before it runs something")
    assert (skipped.status, "has not been told to trust our hook" in skipped.said) == ("warning", True)
    key = f"{folder / 'hooks.json'}:pre_tool_use:0:0"
    for state, trusted in (
        ('trusted_hash = "sha256:0"', True),
        ('trusted_hash = ""', False),
        ('trusted_hash = "sha256:0"\nenabled = false', False),
    ):
        written(folder / "config.toml", f'[hooks.state."{key}"]\n{state}\n')
        assert [each.status for each in look("hooks", CODEX_HOME=str(folder))] == ["ok", *(["warning"] * (not trusted))]
    written(folder / "config.toml", f'[hooks.state."{key.replace("0:0", "0:1")}"]\ntrusted_hash = "sha256:0"\n')
    assert [each.status for each in look("hooks", CODEX_HOME=str(folder))] == ["ok", "warning"]
    written(folder / "config.toml", f'[hooks.state."{key}"]\ntrusted_hash = "sha256:0"\n')
    rules = written(folder / "rules" / "own.rules", 'prefix_rule(pattern=["touch"], decision="forbidden")')
    told = look("hooks", CODEX_HOME=str(folder))[1]
    assert (told.status, str(rules) in told.said) == ("warning", True)
    written(folder / "config.toml", "model = ")
    assert look("hooks", CODEX_HOME=str(folder))[0].status == "failed"


def test_a_hook_that_is_to_confine(look: Look, project: Path) -> None:
    written(settings_path(), with_hook({}, confine=True))
    said = [(each.status, each.said) for each in look("hooks")]
    assert [status for status, _ in said] == ["ok", "ok"]
    assert "confined" in said[1][1]
    written(project / ".claude" / "settings.json", {"permissions": {"ask": ["Bash"]}})
    found = look("hooks")
    assert [each.status for each in found] == ["ok", "warning"]
    assert "'Bash' of permissions.ask would not see the command" in found[1].said


def test_settings_without_it(look: Look) -> None:
    other = {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [{"type": "command", "command": "lint"}]}]}}
    for content in ({}, other, {"hooks": 7}, {"hooks": {"PreToolUse": [3, {"hooks": [4, {}]}]}}):
        written(settings_path(), content)
        (found,) = look("hooks")
        assert (found.status, found.todo) == ("warning", "hla init --claude-code")
        assert str(settings_path()) in found.said


def test_it_may_stand_in_the_projects_settings(look: Look, project: Path) -> None:
    written(settings_path(), {})
    written(project / ".claude" / "settings.local.json", {"hooks": {"PreToolUse": [hook_entry("tool")]}})
    assert [each.status for each in look("hooks")] == ["ok"]


def test_another_folder_of_claude_code(look: Look, tmp_path: Path) -> None:
    written(tmp_path / "elsewhere" / "settings.json", {})
    (found,) = look("hooks", CLAUDE_CONFIG_DIR=str(tmp_path / "elsewhere"))
    assert "elsewhere" in found.said


def test_a_hook_that_can_not_be_started(look: Look, tmp_path: Path) -> None:
    gone = hook_entry("tool", python=str(tmp_path / "gone" / "python"))
    written(settings_path(), {"hooks": {"PreToolUse": [gone]}})
    (found,) = look("hooks")
    assert (found.status, found.todo) == ("failed", "hla init --claude-code")
    assert "gone" in found.said


def test_a_hook_that_lets_through_when_it_crashes(look: Look) -> None:
    entry = hook_entry("tool")
    entry["hooks"][0]["command"] = entry["hooks"][0]["command"].removesuffix(" || exit 2")
    written(settings_path(), {"hooks": {"PreToolUse": [entry]}})
    (found,) = look("hooks")
    assert found.status == "failed"
    assert "exit 2" in found.said
    entry["hooks"][0]["command"] = "'hook claude-code"
    written(settings_path(), {"hooks": {"PreToolUse": [entry]}})
    assert [each.status for each in look("hooks")] == ["failed"]


@pytest.mark.parametrize("content", ["{", "\udcff", "[" * 100_000])
def test_settings_that_can_not_be_read(look: Look, content: str) -> None:
    path = settings_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert look("hooks")[0].status == "failed"


def test_gemini(look: Look, tmp_path: Path) -> None:
    written(gemini(), EXAMPLE.read_text())
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (found,) = look("hooks", PATH=str(bin_))
    assert (found.status, "there is no hla" in found.said) == ("failed", True)
    (bin_ / "hla").write_text("#!/bin/sh\n")
    (bin_ / "hla").chmod(0o755)
    assert [each.status for each in look("hooks", PATH=str(bin_))] == ["ok"]
    written(gemini(), {})
    assert [each.status for each in look("hooks")] == ["warning"]


def test_cursor(look: Look, project: Path) -> None:
    path = hook_settings.settings_path(AGENTS["cursor"])
    path.parent.mkdir()
    (missing,) = look("hooks")
    assert (missing.status, missing.todo) == ("warning", "hla init --cursor")
    assert main(["init", "--yes", "--cursor"]) == 0
    works, untried = look("hooks")
    assert (works.status, works.said) == ("ok", "Cursor asks us before it runs something")
    assert (untried.status, "nobody has seen that Cursor obeys our hook" in untried.said) == ("warning", True)
    settings = json.loads(path.read_text())
    others = {"version": 1, "hooks": {"afterFileEdit": [{"command": "./format.sh"}]}}
    for entry in ({"command": "./check.sh"}, {"type": "prompt", "prompt": "is it safe?"}):
        overruled = written(project / ".cursor/hooks.json", {"version": 1, "hooks": {"preToolUse": [entry]}})
        found = look("hooks")
        assert [each.status for each in found] == ["ok", "warning", "warning"]
        assert f"answers count before ours where they differ: {overruled}" in found[1].said
    written(project / ".cursor/hooks.json", others)
    settings["hooks"]["beforeReadFile"] = []
    settings["hooks"]["preToolUse"][0]["failClosed"] = "true"
    written(path, settings)
    assert [(each.status, each.said) for each in look("hooks")][1:3] == [
        ("warning", "Cursor does not ask us at beforeReadFile"),
        ("failed", "Cursor goes on where our hook fails or is late: failClosed is not set"),
    ]


def test_mcp_servers_that_nobody_stands_before(look: Look, project: Path, tmp_path: Path) -> None:
    assert look("mcp") == []
    home, local = Path.home(), {"command": "npx", "args": ["-y", "forge"], "env": {"TOKEN": "x"}}
    written(project / ".mcp.json", {"mcpServers": {"forge": local}})
    written(home / ".claude.json", {"mcpServers": {"a": {"type": "http", "url": "https://x.invalid/mcp"}}})
    written(home / ".codex/config.toml", '[mcp_servers.b]\ncommand = "uvx"\nargs = ["b"]\n')
    written(home / ".config/opencode/opencode.json", {"mcp": {"c": {"type": "local", "command": ["uvx", "c"]}}})
    found = look("mcp", PATH=str(tmp_path), XDG_CONFIG_HOME="")
    assert {each.status for each in found} == {"warning"}
    start = [sys.executable, "-I", "-m", "humanlayer_agent.cli", "mcp", "--name"]

    def ours(*words: str) -> list[str]:
        return [*start, *words]

    def split(words: list[str]) -> str:
        return f"command {json.dumps(words[0])}, args {json.dumps(words[1:])}"

    told = {each.said.split(" MCP server ")[1].split()[0]: each for each in found}
    assert told.keys() == {"forge", "a", "b", "c"}
    assert split(ours("forge", "--pass-env", "TOKEN", "--", "npx", "-y", "forge")) in told["forge"].todo
    assert split(ours("a", "--http", "https://x.invalid/mcp")) in told["a"].todo
    assert "--bearer-env" in told["a"].todo
    assert split(ours("b", "--", "uvx", "b")) in told["b"].todo
    assert f'"command": {json.dumps(ours("c", "--", "uvx", "c"))}' in told["c"].todo
    assert str(project / ".mcp.json") in told["forge"].said
    address = "http://127.0.0.1:8931/mcp"
    written(home / ".claude.json", {"mcpServers": {"a": {"type": "http", "url": address}}})
    assert address in next(each.todo for each in look("mcp") if " server a " in each.said)
    keep_token("a", address, "x")  # a gateway listens there
    assert [each for each in look("mcp") if " server a " in each.said] == []
    behind = ours("forge", "--", "npx")
    of_project = {"projects": {"/x": {"mcpServers": {"deep": local}}}}
    written(project / ".mcp.json", {"mcpServers": {"forge": {"command": behind[0], "args": behind[1:]}}})
    written(
        home / ".claude.json",
        {"mcpServers": {"a": {"command": "/usr/bin/hla", "args": ["mcp", "--http", "x"]}}, **of_project},
    )
    written(home / ".codex/config.toml", "x = [")
    assert main(["init", "--yes", "--claude-code", "--opencode"]) == 0
    assert [(each.status, "our hook judges" in each.said) for each in look("mcp", XDG_CONFIG_HOME="")] == [
        ("ok", True),
        ("warning", False),
        ("ok", True),
    ]
    assert main(["init", "--yes", "--cursor"]) == 0
    cursors = written(home / ".cursor/mcp.json", {"mcpServers": {"d": {"command": "d"}}})
    (untried,) = (each for each in look("mcp", XDG_CONFIG_HOME="") if str(cursors) in each.said)
    assert (untried.status, "nobody has seen that our hook" in untried.said) == ("warning", True)
    cursors.unlink()
    written(home / ".claude.json", "[]")
    written(project / ".mcp.json", {"mcpServers": [1], "x": None})
    assert [each.status for each in look("mcp", XDG_CONFIG_HOME="")] == ["warning", "ok"]


@pytest.mark.parametrize("name", ["copilot", "opencode", "cline"])
def test_agents_whose_hook_is_a_file_of_its_own(look: Look, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    agent = AGENTS[name]
    path = hook_settings.settings_path(agent)
    assert look("hooks") == []
    hook_settings.settings_folder(agent).mkdir(parents=True)
    (missing,) = look("hooks")
    assert (missing.status, missing.todo) == ("warning", f"hla init --{name}")
    assert main(["init", "--yes", agent.option]) == 0
    assert [(each.status, each.said) for each in look("hooks")] == [
        ("ok", f"{agent.title} asks us before it runs something")
    ]
    path.write_bytes(b"{ \xff")
    assert look("hooks")[0].status == "failed"
    written(path, "{}")
    assert look("hooks")[0].status == "warning"


def test_a_file_of_hooks_that_copilot_skips_without_a_word(look: Look) -> None:
    agent = AGENTS["copilot"]
    assert main(["init", "--yes", agent.option]) == 0
    written(hook_settings.settings_path(agent).with_name("other.json"), "{")
    assert [each.status for each in look("hooks")] == ["failed", "ok"]


def test_a_script_that_may_not_be_executed_and_other_plugins(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert main(["init", "--yes", "--cline", "--opencode"]) == 0
    hook_settings.settings_path(AGENTS["cline"]).chmod(0o600)
    written(hook_settings.settings_path(AGENTS["opencode"]).with_name("more.ts"), "x")
    found = look("hooks")
    assert [each.status for each in found] == ["ok", "warning", "failed"]
    assert "more.ts" in found[1].said
    assert "may not be executed" in found[2].said


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("claude-code", "settings.json", '{"disableAllHooks": true}'),
        ("claude-code", "settings.local.json", '{"disableAllHooks": true}'),
        ("gemini-cli", "settings.json", '{"hooksConfig": {"enabled": false}}'),
        ("codex", "config.toml", "[features]\nhooks = false\n"),
        ("copilot", "settings.json", '{"disableAllHooks": true}'),
        ("copilot", "config.json", '// Managed automatically.\n{"disableAllHooks": true}'),
    ],
)
def test_settings_that_switch_all_hooks_off(look: Look, name: str, file: str, text: str) -> None:
    agent = AGENTS[name]
    assert main(["init", "--yes", agent.option]) == 0
    assert "failed" not in [each.status for each in look("hooks")]
    path = hook_settings.settings_folder(agent) / file
    if path.exists():
        text = json.dumps({**json.loads(path.read_text()), **json.loads(text)})
    written(path, text)
    (found,) = [each for each in look("hooks") if each.status == "failed"]
    assert "switches all hooks" in found.said
    assert str(path) in found.said


# Links in mails


@pytest.mark.parametrize(
    ("mail", "web", "status"),
    [
        ("https://a.example.com", "{type: web, public_url: 'https://a.example.com/'}", "ok"),
        ("http://127.0.0.1:8765", "{type: web}", "ok"),
        ("https://A.example.com", "{type: web, public_url: 'https://a.example.com'}", "ok"),
        ("https://a.example.com", "{type: web, public_url: 'https://b.example.com'}", "failed"),
        ("https://a.example.com/x", "{type: web, public_url: 'https://a.example.com/y'}", "failed"),
        ("http://a.example.com", "{type: web, public_url: 'https://a.example.com'}", "failed"),
        ("https://a.example.com", "{type: web}", "failed"),
        ("https://a.example.com", "", "failed"),
    ],
)
def test_where_the_links_lead(look: Look, mail: str, web: str, status: str) -> None:
    config_folder().mkdir(parents=True, mode=0o700)
    path = config_folder() / "channels.yaml"
    path.write_text(
        "version: 1\npeople: {alice: {email: alice@example.com}}\nchannels:\n"
        f"  mail: {{type: email, from: agents@example.com, public_url: '{mail}', smtp: {{host: h, port: 587}}}}\n"
        + (f"  pages: {web}\n" if web else "")
        + "routes: {default: {approvers: [alice], timeout: 1h, steps: [{to: mail}]}}\n"
    )
    path.chmod(0o600)
    (found,) = look("channels.links")
    assert found.status == status
    assert mail in found.said or status == "ok"
    assert bool(found.todo) == (status == "failed")


def test_without_links_nothing_is_said(look: Look) -> None:
    assert look("channels.links") == []
