"""Cursor's hooks, by the forms that its documentation has: it tells of one call by several events.

Nobody has tried them with the program itself: what is shown here is what our hook answers.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.hooks import hook_settings, server
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.tools.catalog import load
from tests.hooks.conftest import COMMON, Machine, Waiting, inputs_of
from tests.hooks.test_payloads import WRONG, answered, judge, project, sound, text_of  # noqa: F401 - fixtures
from tests.support.keys import known_passphrase, make_key

CURSOR = AGENTS["cursor"]
Ask = Callable[..., Waiting]


def told(event: str, **given: Any) -> dict[str, Any]:
    """A question of one of the other events, which name no call."""
    common = {name: value for name, value in COMMON["cursor"].items() if name != "tool_use_id"}
    return {**common, "hook_event_name": event, **given}


def shell(command: str, cwd: str, **more: Any) -> dict[str, Any]:
    return told("beforeShellExecution", command=command, cwd=cwd, sandbox=False, **more)


def mcp(name: str, inputs: Any, **more: Any) -> dict[str, Any]:
    return told("beforeMCPExecution", tool_name=name, tool_input=inputs, command="npx some-server", **more)


def read(path: str, **more: Any) -> dict[str, Any]:
    return told("beforeReadFile", file_path=path, content="secret", attachments=[], **more)


def kinds(judge: server.Server) -> list[str]:  # noqa: F811
    """The types of all events of the log."""
    return [entry.event["type"] for entry in judge._judge._store().events()]


@pytest.fixture
def says(judge: server.Server, project: Path) -> Callable[[dict[str, Any]], str]:  # noqa: F811
    return lambda body: answered(judge, project, "cursor", text_of(body))


def test_each_event_is_judged_by_itself(says: Callable[[dict[str, Any]], str], project: Path) -> None:  # noqa: F811
    here = str(project)
    assert says(shell("ls -la", here)) == "allow"
    assert says(shell("ls -la", "")) == "allow"  # some versions name no directory
    assert says(shell("rm -rf /srv/x", here)) == "deny"
    assert says(shell("cat .env", here)) == "deny"
    assert says(read(f"{here}/a.py")) == "none"
    assert says(read(f"{here}/.env")) == "deny"
    assert says(mcp("create_issue", '{"title": "x"}')) == "deny"
    assert says(mcp("create_issue", {"title": "x"})) == "deny"


@pytest.mark.parametrize("event", sorted(CURSOR.also))
def test_what_is_not_understood_is_denied(says: Callable[[dict[str, Any]], str], project: Path, event: str) -> None:  # noqa: F811
    sound_one = {
        "beforeShellExecution": shell("ls", str(project)),
        "beforeMCPExecution": mcp("list_issues", "{}"),
        "beforeReadFile": read(f"{project}/a.py"),
    }[event]
    for field in ("command", "file_path") if event != "beforeMCPExecution" else ("tool_name", "tool_input"):
        if field in sound_one:
            for value in (each for each in WRONG if not isinstance(each, str) or each in ("\0", "\ud800")):
                assert says({**sound_one, field: value}) == "deny", (field, value)
            assert says({name: each for name, each in sound_one.items() if name != field}) == "deny"


def test_names_that_are_no_event(says: Callable[[dict[str, Any]], str], project: Path) -> None:  # noqa: F811
    for name in ("beforeShellCommand", "afterShellExecution", "postToolUse", "PreToolUse", "", None, [], {"a": 1}, 7):
        assert says(shell("ls", str(project), hook_event_name=name)) == "deny", name


def test_a_call_that_two_events_tell_of_is_judged_once(
    says: Callable[[dict[str, Any]], str],
    judge: server.Server,  # noqa: F811
    project: Path,  # noqa: F811
) -> None:
    here = str(project)
    call = sound("cursor", project, inputs={"command": "ls -la", "description": "look", "block_until_ms": 1000})
    assert [says(call), says(shell("ls -la", here))] == ["allow", "allow"]
    assert kinds(judge)[-2:] == ["exec.finished", "decision.left"]
    assert says(shell("ls -la", here)) == "allow"
    assert kinds(judge)[-1] == "exec.finished", "an answer counts once"
    assert says(call) == "allow"
    assert kinds(judge)[-1] == "exec.finished", "the event that has the whole call is always judged"


def test_an_answer_to_less_of_a_call_is_none_to_more_of_it(
    says: Callable[[dict[str, Any]], str],
    project: Path,  # noqa: F811
) -> None:
    inputs = {"command": "ls -la", "required_permissions": ["all"]}
    assert says(shell("ls -la", str(project))) == "allow"
    assert says(sound("cursor", project, inputs=inputs)) == "none", "its own sandbox is not left by an allow of ours"


def test_what_no_other_event_tells_of_is_not_kept_for_ever(
    says: Callable[[dict[str, Any]], str],
    judge: server.Server,  # noqa: F811
    project: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("humanlayer_agent.hooks.judge._MOST_ANSWERS", 3)
    for n in range(5):
        assert says(sound("cursor", project, inputs={"command": f"echo {n}"})) == "allow"
    (session,) = judge._judge._sessions.values()
    assert [each.essence[0] for each in session._answers] == ["echo 2", "echo 3", "echo 4"]


def test_what_has_changed_since_is_judged_anew(
    says: Callable[[dict[str, Any]], str],
    judge: server.Server,  # noqa: F811
    project: Path,  # noqa: F811
) -> None:
    script = project / "build.sh"
    script.write_text("echo hello\n")
    call = sound("cursor", project, inputs={"command": "bash build.sh"})
    assert [says(call), says(shell("bash build.sh", str(project)))] == ["allow", "allow"]
    assert kinds(judge)[-1] == "decision.left"
    assert says(call) == "allow"
    script.write_text("rm -rf /srv/x\n")
    assert says(shell("bash build.sh", str(project))) == "deny"


def test_another_call_is_judged_anew(
    says: Callable[[dict[str, Any]], str],
    judge: server.Server,  # noqa: F811
    project: Path,  # noqa: F811
) -> None:
    (project / "build").mkdir()
    call = sound("cursor", project, inputs={"command": "rm -rf build"})
    assert says(call) == "allow"
    assert says(shell("rm -rf build", "/srv")) == "deny", "in another directory"
    assert says(shell("rm -rf build", str(project), conversation_id="conv_2")) == "allow"
    assert kinds(judge)[-1] == "exec.finished", "of another conversation"
    assert says(sound("cursor", project, inputs={"command": "rm -rf /srv/x"})) == "deny"
    assert says(shell("rm -rf /srv/x", str(project))) == "deny", "what was denied is not let through"


def test_nobody_is_asked_twice(ask: Ask, person: Machine) -> None:
    line = "curl https://cursor.invalid/once"
    one = ask(line, agent="cursor", session="twice")
    one.say("approve")
    assert one.answer().verdict == "allow"
    again = shell(line, str(person.project), conversation_id="twice")
    found = person.raw(json.dumps(again).encode(), "cursor", "--ask", "wait")
    assert (found.code, found.verdict) == (0, "allow")
    requests = [each for each in one.store.requests() if line in each.action.content]
    assert len(requests) == 1


def test_a_denial_is_said_by_word_and_by_exit_code(machine: Machine) -> None:
    found = machine.asked_by("cursor", "Shell", inputs_of("cursor", "rm -rf /"))
    assert found.code == 2
    assert found.json["permission"] == "deny"
    assert found.json["user_message"] == found.json["agent_message"] != ""
    assert found.json["agent_message"] in found.err
    none = machine.asked_by("cursor", "Read", {"file_path": str(machine.project / "a")})
    assert (none.code, none.json) == (0, {}), "no word at all would be taken for a hook that failed"
    assert none.out == "{}\n"


def test_another_shell_asks(machine: Machine) -> None:
    body = json.dumps(shell("ls", str(machine.project))).encode()
    assert machine.raw(body, "cursor", env={**machine.env, "SHELL": "/bin/zsh"}).refused
    assert machine.raw(body, "cursor").verdict == "allow"


def test_a_tool_of_whichever_server_is_known_by_what_such_tools_do(project: Path) -> None:  # noqa: F811
    from humanlayer_agent.tools.calls import call_of

    call = call_of("cursor", "MCP:write_file", {"path": "/etc/hosts", "content": ""})
    assert (call.kind, call.text) == ("call", "> /etc/hosts")


def test_its_agent_may_type_into_programs() -> None:
    assert load().agents["cursor"].typed_into == load().agents["codex"].typed_into != frozenset()


# ---- its settings


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_key()
    with known_passphrase():
        yield tmp_path / "here"


def test_init_adds_a_hook_that_fails_closed_to_each_event(here: Path, own_user: Path) -> None:
    path = own_user / ".cursor/hooks.json"
    path.parent.mkdir()
    mine = {"version": 1, "hooks": {"preToolUse": [{"command": "mine.sh"}], "stop": [{"command": "done.sh"}]}, "x": 1}
    path.write_text(json.dumps(mine))
    assert main(["init", "--yes", "--cursor", "--ask", "wait"]) == 0
    written = json.loads(path.read_text())
    assert written["hooks"]["stop"] == mine["hooks"]["stop"]  # type: ignore[index]
    assert written["x"] == 1
    for event in CURSOR.events:
        entry = written["hooks"][event][-1]
        assert "humanlayer_agent.cli hook cursor --ask wait" in entry["command"]
        assert entry["failClosed"] is True
        assert entry["timeout"] == 600
    assert written["hooks"]["preToolUse"][0] == {"command": "mine.sh"}
    assert hook_settings.with_hook(CURSOR, written) == written, "the way to ask is kept"
