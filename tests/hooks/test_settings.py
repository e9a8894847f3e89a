"""`hla init --claude-code`: our hook is added to the tool's settings, and nothing else of them is changed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.cli import main
from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks import hook_settings
from humanlayer_agent.hooks.coding_agents import AGENTS, CodingAgent
from humanlayer_agent.testing.patience import PATIENCE
from tests.support import children, enclosures, extent
from tests.support.keys import known_passphrase, make_key

CLAUDE = AGENTS["claude-code"]
with_hook = partial(hook_settings.with_hook, CLAUDE)
hook_entry = partial(hook_settings.hook_entry, CLAUDE)
settings_path = partial(hook_settings.settings_path, CLAUDE)

MINE: dict[str, Any] = {
    "$schema": "x",
    "model": "opus",
    "permissions": {"allow": ["Bash(ls:*)"]},
    "env": {"A": "1"},
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "mine.sh"}]}],
    },
    "unknown": {"ü": [1, None]},
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2),
    max_leaves=4,
)
KEYS = st.dictionaries(st.text(max_size=9).filter(lambda name: name not in ("env", "hooks")), JSON, max_size=3)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a directory of our own, with a key whose passphrase nobody has to type."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_key()
    with known_passphrase():
        yield


def without_ours(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without what we add."""
    ours = {"HUMANLAYER_SUPERVISED", "CLAUDE_CODE_SHELL"}
    *before, added = settings["hooks"]["PreToolUse"]
    assert "humanlayer_agent.cli hook claude-code" in added["hooks"][0]["command"]
    return {
        **settings,
        "env": {name: value for name, value in settings["env"].items() if name not in ours},
        "hooks": {**settings["hooks"], "PreToolUse": before},
    }


def test_nothing_of_the_settings_is_lost() -> None:
    assert without_ours(with_hook(MINE)) == MINE


@settings(max_examples=extent.examples(50))
@given(KEYS, st.lists(JSON, max_size=3))
def test_whatever_they_hold(others: dict[str, Any], entries: list[Any]) -> None:
    full = {**others, "hooks": {"PreToolUse": entries, "Other": entries}, "env": {"B": "2"}}
    added = with_hook(full)
    assert without_ours(added) == full
    assert with_hook(added) == added


def test_the_way_to_ask_is_kept_until_another_is_named() -> None:
    waiting = with_hook(MINE, "wait")
    assert with_hook(waiting) == waiting
    assert with_hook(waiting, "tool") == with_hook(MINE)


@pytest.mark.parametrize("ask", ["tool", "wait", "deny"])
def test_our_deadline_is_below_the_tools(ask: str) -> None:
    (hook,) = hook_entry(ask)["hooks"]
    deadline = float(hook["command"].split("--deadline ")[1].split()[0])
    assert deadline + 5 <= hook["timeout"]
    assert hook["command"].endswith(" || exit 2")


@pytest.mark.parametrize("wrong", [{"hooks": []}, {"hooks": {"PreToolUse": {}}}, {"env": "A=1"}, {"hooks": None}])
def test_settings_of_another_form_are_not_touched(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="nothing was changed"):
        with_hook(wrong)


def test_confining_is_kept_until_it_is_ended() -> None:
    confined = with_hook(MINE, confine=True)
    assert with_hook(confined) == confined
    assert with_hook(confined, confine=False)["hooks"]["PreToolUse"] == with_hook(MINE)["hooks"]["PreToolUse"]
    assert with_hook(confined, confine=False)["hooks"]["PostToolUse"] == []
    (before, after) = (confined["hooks"][name][-1] for name in ("PreToolUse", "PostToolUse"))
    assert before["hooks"] == after["hooks"]
    assert after["matcher"] == "Bash"


def test_init_confines_where_nothing_is_in_the_way(own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enclosures.backend()
    assert main(["init", "--yes", "--claude-code", "--confine"]) == 0
    assert "PostToolUse" in capsys.readouterr().out
    written = json.loads(settings_path().read_text())
    assert written == with_hook({}, confine=True)
    assert "--confine" in written["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert main(["init", "--yes", "--claude-code", "--no-confine"]) == 0
    assert "--confine" not in settings_path().read_text()


def test_init_confines_nothing_where_something_is(own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings_path().parent.mkdir(parents=True)
    mine = json.dumps({"permissions": {"deny": ["Bash(rm:*)"]}, "sandbox": {"enabled": True}})
    settings_path().write_text(mine)
    assert main(["init", "--yes", "--claude-code", "--confine"]) == 2
    said = capsys.readouterr().err
    assert "'Bash(rm:*)' of permissions.deny would not see the command" in said
    assert "its own sandbox is switched on" in said
    assert settings_path().read_text() == mine
    assert main(["init", "--yes", "--confine"]) == 2


def test_init_writes_it(capsys: pytest.CaptureFixture[str], own_user: Path) -> None:
    path = own_user / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps(MINE))
    path.chmod(0o640)
    assert main(["init", "--claude-code", "--yes"]) == 0
    shown = capsys.readouterr().out
    assert '"matcher": "*"' in shown
    assert str(path) in shown
    written = json.loads(path.read_text())
    assert without_ours(written) == MINE
    assert path.stat().st_mode & 0o777 == 0o640
    assert json.loads((path.parent / "settings.json.old").read_text()) == MINE
    before = path.read_bytes()
    assert main(["init", "--claude-code", "--yes"]) == 0
    assert "is there" in capsys.readouterr().out
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 2


def test_init_where_there_are_no_settings_yet(own_user: Path) -> None:
    assert main(["init", "--claude-code", "--ask", "wait", "--yes"]) == 0
    written = json.loads(settings_path().read_text())
    assert written["hooks"]["PreToolUse"] == [hook_entry("wait")]
    assert written["env"]["HUMANLAYER_SUPERVISED"] == "1"
    assert os.path.basename(written["env"]["CLAUDE_CODE_SHELL"]) == "bash"


def test_init_says_that_another_shell_makes_everything_ask(capsys: pytest.CaptureFixture[str], own_user: Path) -> None:
    path = own_user / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text('{"env": {"CLAUDE_CODE_SHELL": "/bin/zsh"}}')
    assert main(["init", "--claude-code", "--yes"]) == 0
    assert "/bin/zsh" in capsys.readouterr().out
    assert json.loads(path.read_text())["env"]["CLAUDE_CODE_SHELL"] == "/bin/zsh"


def test_a_link_to_the_settings_stays_a_link(own_user: Path, tmp_path: Path) -> None:
    (own_user / ".claude").mkdir()
    target = tmp_path / "dotfiles.json"
    target.write_text("{}")
    (own_user / ".claude/settings.json").symlink_to(target)
    assert main(["init", "--claude-code", "--yes"]) == 0
    assert (own_user / ".claude/settings.json").is_symlink()
    assert "PreToolUse" in target.read_text()


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"a": 1,}', "\xff"])
def test_broken_settings_are_not_touched(own_user: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = own_user / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode("latin-1"))
    assert main(["init", "--claude-code", "--yes"]) == 2
    assert str(path) in capsys.readouterr().err
    assert path.read_bytes() == text.encode("latin-1")


def test_init_asks_first(own_user: Path, tmp_path: Path) -> None:
    assert main(["init", "--yes"]) == 0
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    for typed, code in (("n", 1), ("y", 0)):
        child: Any = children.spawn(
            sys.executable,
            ["-m", "humanlayer_agent.cli", "init", "--claude-code"],
            env=env,
            timeout=PATIENCE,
            encoding="utf-8",
        )
        child.expect_exact("Type y to do this")
        assert "PreToolUse" in child.before
        child.sendline(typed)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == code
        assert settings_path().exists() is (typed == "y")


def test_without_a_terminal_nothing_is_written(own_user: Path) -> None:
    assert main(["init", "--yes"]) == 0
    done = children.run(
        [sys.executable, "-m", "humanlayer_agent.cli", "init", "--claude-code"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
    )
    assert done.returncode == 3
    assert not settings_path().exists()


def test_what_is_written_answers(own_user: Path, tmp_path: Path) -> None:
    """The command of the settings, run by a shell as the tool does it."""
    (hook,) = hook_entry("tool")["hooks"]
    question = {
        "hook_event_name": "PreToolUse",
        "cwd": str(tmp_path),
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
    }
    env = {**os.environ, "CLAUDE_PROJECT_DIR": str(tmp_path), **with_hook({})["env"]}
    done = subprocess.run(
        ["/bin/sh", "-c", hook["command"]], input=json.dumps(question).encode(), capture_output=True, env=env
    )
    lock = next((own_user / ".local/state/humanlayer-agent/hooks").glob("*.lock"))
    os.kill(int(lock.read_text()), 9)
    assert done.returncode == 0
    assert b'"allow"' in done.stdout


# ---- other coding agents


OTHERS = [agent for agent in AGENTS.values() if agent.name != "claude-code"]
IN_SETTINGS = [agent for agent in AGENTS.values() if agent.entry != "plugin"]
PLUGINS = [agent for agent in AGENTS.values() if agent.entry == "plugin"]


def name_of(agent: CodingAgent) -> str:
    return agent.name


@pytest.mark.parametrize("agent", IN_SETTINGS, ids=name_of)
def test_nothing_is_lost_of_anybodys_settings(agent: CodingAgent) -> None:
    event = agent.event or "preToolUse"
    other = {"command": "mine.sh"} if agent.entry != "matcher" else MINE["hooks"]["PreToolUse"][0]
    mine = {"$schema": "x", "version": 1, "hooks": {"other": [{"a": 1}], event: [other]}, "unknown": {"ü": [1, None]}}
    added = hook_settings.with_hook(agent, mine)
    assert added["hooks"][event][0] == other
    assert {**added, "hooks": mine["hooks"], "env": 0} == {**mine, "env": 0}
    assert hook_settings.with_hook(agent, added) == added
    waits = hook_settings.with_hook(agent, added, "wait")
    assert len(waits["hooks"][event]) == 2
    assert hook_settings.with_hook(agent, waits) == waits
    with pytest.raises(ConfigError, match="nothing was changed"):
        hook_settings.with_hook(agent, {"hooks": {event: {}}})


@settings(max_examples=extent.examples(50))
@given(st.sampled_from(IN_SETTINGS), KEYS, st.lists(JSON, max_size=3))
def test_whatever_anybodys_settings_hold(agent: CodingAgent, others: dict[str, Any], entries: list[Any]) -> None:
    event = agent.event or "preToolUse"
    full = {**others, "version": 1, "hooks": {event: entries, "Other": entries}}
    added = hook_settings.with_hook(agent, full)
    assert added["hooks"][event][:-1] == entries
    assert {**added, "hooks": 0, "env": 0} == {**full, "hooks": 0, "env": 0}
    assert hook_settings.with_hook(agent, added) == added


@pytest.mark.parametrize("agent", AGENTS.values(), ids=name_of)
def test_every_deadline_is_below_the_agents(agent: CodingAgent) -> None:
    for ask in agent.asks:
        words = hook_settings.hook_words(agent, ask)
        deadline = int(words[words.index("--deadline") + 1])
        if agent.longest:
            assert deadline + 5 <= agent.longest
        if agent.entry == "plugin":
            late = [int(each) for each in re.findall(r"LATE_MS = (\d+)", hook_settings.plugin_text(agent, ask))]
            assert all(deadline * 1000 + 5_000 <= each for each in late)
        else:
            entry = hook_settings.hook_entry(agent, ask)
            name, unit = agent.timeout
            (late_at,) = [each[name] for each in entry.get("hooks", [entry])]
            assert (deadline + 5) * unit <= late_at


@pytest.mark.parametrize("agent", OTHERS, ids=name_of)
def test_init_writes_the_hook_of_each(
    agent: CodingAgent, own_user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if agent.variable:
        monkeypatch.delenv(agent.variable, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    path = hook_settings.settings_path(agent)
    assert path.is_relative_to(own_user)
    assert main(["init", "--yes", agent.option, "--ask", "wait"]) == 0
    assert str(path) in capsys.readouterr().out
    text = path.read_text()
    assert "--ask" in text
    assert "wait" in text
    assert os.access(path, os.X_OK) is text.startswith("#!")
    assert main(["init", "--yes", agent.option]) == 0  # keeps how is asked
    assert "is there" in capsys.readouterr().out
    assert path.read_text() == text
    assert main(["init", "--yes", agent.option, "--ask", "deny"]) == 0
    assert path.read_text() != text
    assert path.with_name(f"{path.name}.old").read_text() == text


@pytest.mark.parametrize("agent", PLUGINS, ids=name_of)
def test_a_file_of_somebody_elses_is_not_replaced(
    agent: CodingAgent, own_user: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    path = hook_settings.settings_path(agent)
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    assert main(["init", "--yes", agent.option]) == 2
    assert "is not ours" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_ways_to_ask_that_an_agent_has_not(own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "--yes", "--codex", "--ask", "tool"]) == 2
    assert "must be one of deny, wait for Codex" in capsys.readouterr().err
    assert main(["init", "--yes", "--ask", "wait"]) == 2
    assert main(["init", "--yes", "--codex", "--confine"]) == 2
    assert main(["hook", "cline", "--ask", "wait", "--deadline", "590"]) == 2


def test_the_command_line_knows_every_agent() -> None:
    commands = command_tree().commands
    for name in AGENTS:
        assert name in str(commands["hook"].help)
    options = {option for each in commands["init"].params for option in each.opts}
    assert {agent.option for agent in AGENTS.values()} <= options


def test_several_agents_at_once(own_user: Path) -> None:
    assert main(["init", "--yes", "--codex", "--copilot", "--gemini-cli"]) == 0
    for name in ("codex", "copilot", "gemini-cli"):
        assert "humanlayer_agent.cli hook" in hook_settings.settings_path(AGENTS[name]).read_text()


@pytest.mark.parametrize(
    ("answer", "code", "stops"),
    [
        ('{"cancel": false}', 0, False),
        ('{"cancel": true, "errorMessage": "no"}', 0, True),
        ('{"cancel": true, "errorMessage": "no"}', 2, True),
        ("", 0, True),
        ("", 2, True),
        ("Traceback", 1, True),
        ('{"cancel": false} trailing', 0, True),
        ('{"cancel": false}\\n{"cancel": false}', 0, True),
        ('noise\\n{"cancel": false}', 0, True),
    ],
)
def test_clines_script_says_a_word_whatever_becomes_of_the_hook(
    tmp_path: Path, answer: str, code: int, stops: bool
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nprintf '{answer}'\nexit {code}\n")
    python.chmod(0o700)
    script = tmp_path / "PreToolUse"
    script.write_text(hook_settings.plugin_text(AGENTS["cline"], "deny", str(python)))
    done = subprocess.run(["sh", script], capture_output=True, text=True, input="{}")
    assert json.loads(done.stdout)["cancel"] is stops
    assert done.returncode == 0
