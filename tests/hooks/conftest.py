"""Real hooks: whole processes, a server that they start, and a home of its own for each group of tests."""

import json
import os
import signal
import subprocess
import sys
from asyncio import unix_events
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pexpect
import pytest

from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver
from humanlayer_agent.configuration import build_authority, build_signer
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, STORE_VARIABLE
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.agents.conftest import ordinary_user
from tests.approvals.conftest import postgres
from tests.support import children
from tests.support.keys import PASSPHRASE, make_key, passphrase_file
from tests.support.stores import opened

__all__ = ["ordinary_user", "postgres"]

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
    "cursor": {
        "conversation_id": "conv_1",
        "generation_id": "gen_1",
        "model": "any",
        "hook_event_name": "preToolUse",
        "cursor_version": "3.18.0",
        "workspace_roots": ["/nowhere"],
        "user_email": None,
        "transcript_path": None,
        "tool_use_id": "tool_1",
    },
}
"""What each agent says beside the call, as it was seen; Cursor, as its documentation has it."""
COMMANDS = {
    "claude-code": "Bash",
    "gemini-cli": "run_shell_command",
    "codex": "Bash",
    "copilot": "bash",
    "opencode": "bash",
    "cline": "run_commands",
    "cursor": "Shell",
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
        found = str(
            specific.get("permissionDecision") or self.json.get("decision") or self.json.get("permission") or ""
        )
        if "cancel" in self.json:
            found = "deny" if self.json["cancel"] else ""
        return "" if found == "none" else found

    @property
    def reason(self) -> str:
        specific = self.json.get("hookSpecificOutput", self.json)
        return str(
            specific.get("permissionDecisionReason")
            or self.json.get("reason")
            or self.json.get("errorMessage")
            or self.json.get("agent_message")
            or ""
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
        store: the address of its store on a server; "" is a file in its home.
    """

    def __init__(self, folder: Path, become: Sequence[str] = (), store: str = "") -> None:
        self.become = become
        self._named_store = store
        self.home, self.project = folder / "home", folder / "home" / "project"
        self.project.mkdir(parents=True)
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("XDG_", "HUMANLAYER_", "CLAUDE", "GEMINI"))}
        self.env = {
            **kept,
            "HOME": str(self.home),
            **{agent.project: str(self.project) for agent in AGENTS.values()},
            "SHELL": "/bin/bash",
            **({STORE_VARIABLE: store} if store else {}),
        }

    def approve(self, request_id: str) -> None:
        """Approve a request at a terminal of this user's, with the key that `make_key` made."""
        child: Any = children.spawn(
            sys.executable,
            ["-m", "humanlayer_agent.cli", "requests", "approve", request_id],
            env={**self.env, "LC_ALL": "C.UTF-8"},
            timeout=PATIENCE,
            encoding="utf-8",
        )
        child.expect_exact('Type "')
        child.expect('([^"]+)"')
        child.sendline(child.match[1])
        child.expect_exact("Passphrase of your key: ")
        child.sendline(PASSPHRASE)
        child.expect(pexpect.EOF)

    @property
    def folder(self) -> Path:
        return self.home / ".local/state/humanlayer-agent/hooks"

    @property
    def store(self) -> Path:
        return self.home / ".local/share/humanlayer-agent/store.sqlite3"

    def opened(self, **how: Any) -> SQLStore:
        """Its store."""
        return opened(self._named_store or self.store, **how)

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
        with closing(self.opened(create=False)) as store:
            return [entry.event for entry in store.events()]


def short_of_time(agent: str) -> list[str]:
    """A hook whose human has half a second, and which itself is not late."""
    return [
        *HOOK[:2],
        "-c",
        "from humanlayer_agent.hooks import client\n"
        f"raise SystemExit(client.run({agent!r}, ['--ask', 'wait', '--seconds', '2.5'], 600))",
    ]


class Waiting:
    """A hook that waits, and the store that it waits for."""

    def __init__(
        self,
        machine: Machine,
        agent: str,
        tool: str,
        inputs: dict[str, Any],
        *options: str,
        session: str,
        program: list[str],
        value: str = "",
    ) -> None:
        body = question(agent, tool, inputs, cwd=str(machine.project))
        *path, last = AGENTS[agent].fields["session"].split(".")
        where = body
        for key in path:
            where = where[key]
        where[last] = session
        self.process = machine.start(agent, "--ask", "wait", *options, program=program)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(body).encode())
        self.process.stdin.close()
        self.process.stdin = None
        self.store = machine.opened()
        self.value = value or str(next(iter(inputs.values())))

    def request(self) -> ApprovalRequest:
        """The request, once it is there."""

        def asked() -> list[ApprovalRequest]:
            assert self.process.poll() is None, self.process.communicate()
            return [r for r in self.store.requests(state="pending") if self.value in r.action.content]

        return until(asked, f"the request about {self.value}")[0]

    def say(self, kind: Any, *, signer: Any = None, **more: str) -> None:
        """What the human of this machine says, as `hla requests` records it."""
        request, authority = self.request(), build_authority()
        assert authority is not None
        if signer is None:
            signer = build_signer(authority)
            assert signer is not None
            signer.unlock(PASSPHRASE)
        answer = Answer(kind, Approver(os_user(), "test", "terminal"), request.digest, os.urandom(8).hex(), **more)
        result = self.store.decide(request.id, answer, authority, signer)
        assert result.outcome == "recorded", result

    def answer(self) -> Answered:
        out, err = self.process.communicate(timeout=PATIENCE)
        return Answered(self.process.returncode, out.decode(), err.decode())


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


@pytest.fixture(scope="module")
def person(machine: Machine) -> Machine:
    """The machine of a person who has run `hla init`."""
    make_key(machine.home / ".local/share/humanlayer-agent/signing.key")
    init = [sys.executable, "-m", "humanlayer_agent.cli", "init", "--yes"]
    env = {**machine.env, PASSPHRASE_VARIABLE: str(passphrase_file(machine.home))}
    children.run(init, env=env, cwd=machine.project, check=True, capture_output=True)
    return machine


@pytest.fixture
def ask(person: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Waiting]]:
    monkeypatch.setenv("HOME", str(person.home))
    monkeypatch.delenv("HUMANLAYER_STORE")
    made: list[Waiting] = []

    def start(
        command: str,
        *options: str,
        agent: str = "claude-code",
        tool: str = "",
        name: str = "command",
        session: str = "s1",
        program: list[str] = HOOK,
    ) -> Waiting:
        inputs: dict[str, Any] = {name: command} if tool else inputs_of(agent, command)
        if agent == "claude-code" and not tool:
            inputs["description"] = "why"
        tool = tool or COMMANDS[agent]
        made.append(Waiting(person, agent, tool, inputs, *options, session=session, program=program, value=command))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.communicate()
        each.store.close()


@pytest.fixture
def forked_by_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the official SDK's client starts has its imports done: half of what these tests took was those."""
    forking = SimpleNamespace(**{**vars(subprocess), "Popen": children.Popen})
    monkeypatch.setattr(unix_events, "subprocess", forking)
