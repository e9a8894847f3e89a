"""Commands of a coding agent that run confined: it runs what its hook answers, with its own bash, and that uses a permit."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.hooks.coding_agents import with_hook
from humanlayer_agent.testing.patience import PATIENCE
from tests.hooks.conftest import Answered, Machine
from tests.support import enclosures

CONFINE = "--confine"


@dataclass(frozen=True)
class Ran:
    """What a command of the coding agent has done, and where its shell was afterwards."""

    code: int
    out: str
    err: str
    folder: str


class CodingAgent(Machine):
    """A coding agent that does what its hook answers: runs what was put in the place of its command, and reports it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cwd = str(self.project)
        self.calls = 0
        self.settings = self.home / ".claude" / "settings.json"
        self.settings.parent.mkdir()
        self.settings.write_text(json.dumps(with_hook({}, confine=True)))

    def asked(self, command: str, *options: str, **more: Any) -> Answered:
        """What the hook answers before a command."""
        self.calls += 1
        return self.bash(command, CONFINE, *options, cwd=self.cwd, tool_use_id=f"toolu_{self.calls}", **more)

    def run(self, line: str) -> Ran:
        """Run a line as the coding agent does, in a bash of its own."""
        told = self.home / "cwd"
        shell = ["bash", "-c", f'eval "$1" </dev/null; code=$?; pwd -P >| {told}; exit $code', "bash", line]
        done = subprocess.run(shell, env=self.env, cwd=self.cwd, capture_output=True, text=True, timeout=PATIENCE)
        return Ran(done.returncode, done.stdout, done.stderr, told.read_text().strip())

    def ended(self, command: str, *options: str, **more: Any) -> Answered:
        """What the hook says once a command has ended; `command` is the one that is reported."""
        body = {"hook_event_name": "PostToolUse", "cwd": self.cwd, "tool_use_id": f"toolu_{self.calls}", **more}
        inputs = body.pop("tool_input", {"command": command})
        return self.ask("Bash", inputs, CONFINE, *options, **body, tool_response={"stdout": ""})

    def does(self, command: str, *options: str) -> Ran:
        """The whole way of a command that is allowed."""
        line = replaced(self.asked(command, *options))
        ran = self.run(line)
        ended = self.ended(line, *options)
        assert (ended.code, ended.out, ended.err) == (0, "", "")
        self.cwd = ran.folder
        return ran

    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events()]


def replaced(answered: Answered) -> str:
    """What is to run in the place of an allowed command."""
    assert answered.verdict == "allow", answered
    return str(answered.json["hookSpecificOutput"]["updatedInput"]["command"])


@pytest.fixture
def agent() -> Iterator[CodingAgent]:
    enclosures.backend()
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-hook-") as folder:
        made = CodingAgent(Path(folder))
        yield made
        made.end()


def test_an_allowed_command_runs_confined_and_the_log_has_all_of_it(agent: CodingAgent) -> None:
    answered = agent.asked("echo out; echo err >&2; exit 7")
    assert "echo out; echo err" in answered.reason
    assert "confined to project" in answered.reason
    line = replaced(answered)
    assert "echo out" not in line
    ran = agent.run(line)
    assert (ran.code, ran.out, ran.err) == (7, "out\n", "err\n")
    assert agent.ended(line).code == 0
    events = agent.events()
    judged = next(event for event in events if event["type"] == "decision.evaluated")
    assert judged["command"] == "echo out; echo err >&2; exit 7"
    of_permit = [event["type"] for event in events if event.get("permit") == judged["permit"]]
    assert of_permit == [
        *("decision.evaluated", "permit.handed", "permit.consumed", "exec.started", "exec.finished", "hook.reported")
    ]
    assert next(event for event in events if event["type"] == "exec.finished")["returncode"] == 7
    assert next(event for event in events if event["type"] == "exec.started")["confined"]


def test_what_nobody_can_read_is_held_and_not_asked_about(agent: CodingAgent) -> None:
    canary = agent.home / "canary"
    canary.write_text("here")
    (agent.project / "a.py").write_text(f"import os; os.remove({str(canary)!r})")
    (agent.project / "run").write_bytes(b"#!/bin/sh\nrm " + bytes(canary) + b"\necho x > made\n")
    (agent.project / "run").chmod(0o755)
    assert agent.does("./run").code == 0
    assert agent.does("python3 a.py").code != 0
    assert canary.read_text() == "here"
    assert (agent.project / "made").exists()


def test_the_shell_goes_on_where_the_command_ended(agent: CodingAgent) -> None:
    odd = agent.project / "a b'$(touch x)\n"
    odd.mkdir()
    (agent.project / "sub").mkdir()
    assert agent.does("cd sub && exit 3").folder == str(agent.project / "sub")
    assert agent.does("pwd").out == f"{agent.project}/sub\n"
    assert agent.does("cd ..").folder == str(agent.project)
    ran = agent.run(replaced(agent.asked("cd a*")))
    assert ran.folder == str(odd).strip()
    assert os.listdir(agent.project) == [odd.name, "sub"] or sorted(os.listdir(agent.project)) == [odd.name, "sub"]


def test_a_folder_that_only_the_command_sees_is_not_gone_to(agent: CodingAgent) -> None:
    assert agent.does("mkdir -p /tmp/only-inside && cd /tmp/only-inside").folder == str(agent.project)
