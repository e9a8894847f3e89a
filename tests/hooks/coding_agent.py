"""A coding agent that does what its hook answers: it runs what was put in the place of its command, and reports it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.hook_settings import with_hook
from humanlayer_agent.testing.patience import PATIENCE
from tests.hooks.conftest import Answered, Machine

HLA = [sys.executable, "-I", "-m", "humanlayer_agent.cli"]


@dataclass(frozen=True)
class Ran:
    """What a command of the coding agent has done, and where its shell was afterwards."""

    code: int
    out: str
    err: str
    folder: str


def replaced(answered: Answered) -> str:
    """What is to run in the place of an allowed command."""
    assert answered.verdict == "allow", answered
    return str(answered.json["hookSpecificOutput"]["updatedInput"]["command"])


class CodingAgent(Machine):
    """Asks the hook as Claude Code does, in one session, with settings that `hla init --claude-code --confine` writes.

    Args:
        folder: for its user's home.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.options = ["--confine"]
        self.settings = self.home / ".claude" / "settings.json"
        self.settings.parent.mkdir()
        self._calls = self._sessions = 0
        self.begin()

    def begin(self) -> None:
        """Begin another session, in which nothing has run."""
        self._sessions += 1
        self.session, self.cwd = f"session-{self._sessions}", str(self.project)
        self.settings.write_text(json.dumps(with_hook(AGENTS["claude-code"], {}, confine=True)))

    def asked(self, command: str, **more: Any) -> Answered:
        """What the hook answers before a command."""
        self._calls += 1
        return self.bash(command, *self.options, **{**self._common(), **more})

    def run(self, line: str, **env: str) -> Ran:
        """Run a line as Claude Code does: with a bash of its own, which says in the end where it is."""
        told = self.home / "cwd"
        script = f"eval \"$1\" </dev/null; code=$?; pwd -P >| '{told}'; exit $code"
        done = subprocess.run(
            ["bash", "-c", script, "bash", line],
            env={**self.env, **env},
            cwd=self.cwd,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return Ran(done.returncode, done.stdout, done.stderr, told.read_text().removesuffix("\n"))

    def ended(self, line: str, *, event: str = "PostToolUse", **inputs: Any) -> Answered:
        """What the hook says once a line has run, in the place of the command that it was asked about last."""
        more = {**self._common(), "hook_event_name": event, "tool_response": {"stdout": ""}}
        return self.ask("Bash", {"command": line, **inputs}, *self.options, **more)

    def does(self, command: str) -> Ran:
        """The whole way of a command that is allowed."""
        line = replaced(self.asked(command))
        ran = self.run(line)
        ended = self.ended(line, event="PostToolUseFailure" if ran.code else "PostToolUse")
        assert (ended.code, ended.out, ended.err) == (0, "", "")
        self.cwd = ran.folder
        return ran

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The events of one type that are about this session."""
        runs = {e["run"] for e in self.events() if e["type"] == "run.started" and e.get("instance") == self.session}
        about = (e for e in self.events() if e["type"] == kind)
        return [e for e in about if e.get("run") in runs or e.get("session") == self.session]

    def unread(self, name: str = "tool", program: str = "/bin/cp") -> str:
        """A program in the project that nobody can read: only a confined command may run it unasked."""
        made = self.project / name
        if not made.exists():
            made.write_bytes(Path(os.path.realpath(program)).read_bytes())
            made.chmod(0o755)
        return f"./{name}"

    def _common(self) -> dict[str, Any]:
        return {"cwd": self.cwd, "session_id": self.session, "tool_use_id": f"toolu_{self._calls}"}
