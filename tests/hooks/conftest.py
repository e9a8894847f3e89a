"""Real hooks: whole processes, a server that they start, and a home of its own for each group of tests."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.testing.patience import PATIENCE
from tests.agents.conftest import ordinary_user

__all__ = ["ordinary_user"]

HOOK = [sys.executable, "-I", "-m", "humanlayer_agent.cli", "hook"]
CLAUDE: dict[str, Any] = {
    "hook_event_name": "PreToolUse",
    "session_id": "s1",
    "transcript_path": "/nowhere/t.jsonl",
    "permission_mode": "default",
    "tool_use_id": "toolu_01",
}
GEMINI: dict[str, Any] = {"hook_event_name": "BeforeTool", "session_id": "g1", "timestamp": "2026-01-01T00:00:00Z"}
COMMON: dict[str, dict[str, Any]] = {
    "claude-code": CLAUDE,
    "gemini-cli": GEMINI,
    "codex": {**CLAUDE, "turn_id": "t1", "model": "any"},
    "copilot": {"sessionId": "p1", "timestamp": 1795863639715},
    "opencode": {"hook_event_name": "tool.execute.before", "session_id": "ses_1", "tool_use_id": "call_0_0"},
    "cline": {
        "clineVersion": "",
        "timestamp": "2026-11-28T11:35:49.407Z",
        "taskId": "conv_1",
        "hookName": "tool_call",
        "sessionContext": {"rootSessionId": "1795865748639"},
        "agent_id": "agent_1",
        "parent_agent_id": None,
        "workspaceRoots": ["/nowhere"],
        "tool_call": {"id": "call_0_0"},
        "iteration": 1,
        "userId": "unknown",
    },
}
"""What each agent says beside the call, as it was seen."""
COMMANDS = {
    "claude-code": "Bash",
    "gemini-cli": "run_shell_command",
    "codex": "Bash",
    "copilot": "bash",
    "opencode": "bash",
    "cline": "run_commands",
}
"""The tool of each agent that runs a command."""


def question(agent: str, tool: str, inputs: object, **more: Any) -> dict[str, Any]:
    """A question in an agent's own form."""
    made: dict[str, Any] = json.loads(json.dumps(COMMON[agent]))
    for field, value in (("name", tool), ("inputs", inputs)):
        *path, last = AGENTS[agent].fields[field].split(".")
        where = made
        for key in path:
            where = where[key]
        where[last] = value
    return {**made, **more}


def inputs_of(agent: str, line: str) -> dict[str, Any]:
    """What the tool of an agent that runs commands is given."""
    return {"commands": [line]} if agent == "cline" else {"command": line}


@dataclass(frozen=True)
class Answered:
    """What a hook did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out) if self.out else {}
        return found

    @property
    def verdict(self) -> str:
        """allow, deny, ask, or "" where the tool's own rules decide."""
        specific = self.json.get("hookSpecificOutput", self.json)
        found = str(specific.get("permissionDecision") or self.json.get("decision") or "")
        if "cancel" in self.json:
            found = "deny" if self.json["cancel"] else ""
        return "" if found == "none" else found

    @property
    def reason(self) -> str:
        specific = self.json.get("hookSpecificOutput", self.json)
        return str(
            specific.get("permissionDecisionReason") or self.json.get("reason") or self.json.get("errorMessage") or ""
        )

    @property
    def refused(self) -> bool:
        """Whether the tool does not run the call, whatever its user says."""
        return self.code == 2 or self.verdict == "deny"


def _patient(options: tuple[str, ...]) -> tuple[str, ...]:
    """No hook is late because the machine is busy."""
    return options if "--deadline" in options else (*options, "--deadline", "600")


class Machine:
    """A user with a home and a project, whose coding agent has our hook.

    Args:
        become: before every program, where it is not us.
    """

    def __init__(self, folder: Path, become: Sequence[str] = ()) -> None:
        self.become = become
        self.home, self.project = folder / "home", folder / "home" / "project"
        self.project.mkdir(parents=True)
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("XDG_", "HUMANLAYER_", "CLAUDE", "GEMINI"))}
        self.env = {
            **kept,
            "HOME": str(self.home),
            **{agent.project: str(self.project) for agent in AGENTS.values()},
            "SHELL": "/bin/bash",
        }

    @property
    def folder(self) -> Path:
        return self.home / ".local/state/humanlayer-agent/hooks"

    @property
    def store(self) -> Path:
        return self.home / ".local/share/humanlayer-agent/store.sqlite3"

    def start(
        self, *arguments: str, env: dict[str, str] | None = None, program: Sequence[str] = HOOK
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*self.become, *program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env if env is None else env,
            cwd="/",
        )

    def raw(self, data: bytes, *arguments: str, env: dict[str, str] | None = None) -> Answered:
        """Answer whatever stands on standard input."""
        out, err = (process := self.start(*(arguments or ("claude-code",)), env=env)).communicate(
            data, timeout=PATIENCE
        )
        return Answered(process.returncode, out.decode(), err.decode())

    def ask(self, tool: str, inputs: object, *options: str, env: dict[str, str] | None = None, **more: Any) -> Answered:
        """A question of Claude Code."""
        body = {**CLAUDE, "cwd": str(self.project), "tool_name": tool, "tool_input": inputs, **more}
        return self.raw(json.dumps(body).encode(), "claude-code", *_patient(options), env=env)

    def bash(self, command: str, *options: str, **more: Any) -> Answered:
        return self.ask("Bash", {"command": command}, *options, **more)

    def gemini(self, tool: str, inputs: object, *options: str, **more: Any) -> Answered:
        """A question of Gemini CLI."""
        body = {**GEMINI, "cwd": str(self.project), "tool_name": tool, "tool_input": inputs, **more}
        return self.raw(json.dumps(body).encode(), "gemini-cli", *_patient(options))

    def asked_by(self, agent: str, tool: str, inputs: object, *options: str, **more: Any) -> Answered:
        """A question of any agent."""
        body = question(agent, tool, inputs, **{"cwd": str(self.project), **more})
        longest = AGENTS[agent].longest
        late = ("--deadline", str(longest - 10)) if longest and "--deadline" not in options else ()
        return self.raw(json.dumps(body).encode(), agent, *_patient((*options, *late)))

    def servers(self) -> list[int]:
        """The processes that answer in this home."""
        return [int(text) for lock in self.folder.glob("*.lock") if (text := lock.read_text())]

    def signal(self, number: int) -> None:
        for pid in self.servers():
            os.kill(pid, number)

    def end(self) -> None:
        for pid in self.servers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def events(self) -> list[dict[str, Any]]:
        """The audit log."""
        from humanlayer_agent.store.sqlite import SQLiteStore

        store = SQLiteStore(self.store, create=False)
        try:
            return [entry.event for entry in store.events()]
        finally:
            store.close()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One for the tests of a module: they leave it as it was."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    yield made
    made.end()


@pytest.fixture
def new_machine(tmp_path: Path) -> Iterator[Callable[[], Machine]]:
    """For what breaks one."""
    made: list[Machine] = []

    def make() -> Machine:
        made.append(Machine(tmp_path / f"m{len(made)}"))
        return made[-1]

    yield make
    for each in made:
        each.end()
