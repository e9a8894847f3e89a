"""A gateway between a client that is a pair of pipes and a server that is a list, with a real Gate, policy and store."""

import json
import os
import queue
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.configuration import build_director, build_gate
from humanlayer_agent.hooks.gateway import Gateway, Waiting
from humanlayer_agent.hooks.gateway.calls import Place
from humanlayer_agent.hooks.gateway.clients import PipedClient
from humanlayer_agent.hooks.gateway.doubts import DoubtingDirector
from humanlayer_agent.hooks.gateway.messages import Message, Unfit
from humanlayer_agent.hooks.gateway.tool_lists import ToolLists
from humanlayer_agent.hooks.gateway.upstreams import ServerGone
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.testing.patience import PATIENCE, until

POLICY = """\
version: 1
policy: demo
extends: [builtin:default]
rules:
  - id: demo
    decision: allow
    reason: A tool of the demo.
    when: {tool: {name: "mcp__demo__*"}}
  - id: demo-path
    decision: deny
    reason: Nothing at this place.
    when: {tool: {name: "mcp__demo__*", args: {path: {within: /secret/**}}}}
  - id: demo-forbidden
    decision: deny
    reason: This tool is forbidden.
    when: {tool: {name: mcp__demo__forbidden}}
  - id: demo-asked
    decision: ask
    reason: This tool is asked about.
    when: {tool: {name: mcp__demo__asked}}
"""


class ListedServer:
    """A server of which the test says what it sends, and sees what it has got."""

    def __init__(self) -> None:
        self.got: queue.Queue[Message] = queue.Queue()
        self.sent: queue.Queue[Message | Unfit | None] = queue.Queue()
        self.gone = ""

    def send(self, message: Message) -> None:
        if self.gone:
            raise ServerGone(self.gone)
        self.got.put(json.loads(json.dumps(message)))

    def received(self) -> Iterator[Message | Unfit]:
        while (message := self.sent.get()) is not None:
            yield message
        raise ServerGone("the server has ended")

    def close(self) -> None:
        self.sent.put(None)

    def next(self) -> Message:
        return self.got.get(timeout=PATIENCE)


class WatchedDirector(DoubtingDirector):
    """Keeps what it was asked to judge."""

    def __init__(self, director: Director) -> None:
        super().__init__(director)
        self.judged: list[Action] = []

    def evaluate(self, action: Action) -> PolicyDecision:
        self.judged.append(action)
        return super().evaluate(action)


class Rig:
    """All of it."""

    def __init__(self, policy: Path | str, project: Path, *, answerable: bool = False) -> None:
        self.server = ListedServer()
        self.said: list[str] = []
        self.ended = threading.Event()
        theirs, self._to = os.pipe()
        self._from, ours = os.pipe()
        self._ends = [self._to, self._from, theirs, ours]
        self._kept = b""
        self.director, asker = WatchedDirector(build_director(policy, project=project)), Waiting()
        asker.answerable = answerable
        self.gate: Gate = build_gate(
            director=self.director, asker=asker, project=project, store=default_store_path(), agent="a client",
            max_denials=0,
        )  # fmt: skip
        self.lists = ToolLists("demo", "./demo")
        self.gateway = Gateway(
            self.gate, self.director, asker, Place("demo", "a client", str(project), str(project), local=True),
            self.lists, PipedClient(theirs, ours), ended=self.ended.set, say=self.said.append,
        )  # fmt: skip
        self.gateway.serve(self.server)

    def say(self, message: Any) -> None:
        """The client sends this: an object, or a line as it is."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        left = memoryview(line + b"\n")
        while left:
            left = left[os.write(self._to, left) :]

    def asks(self, method: str, params: Any = None, id: Any = 1, **more: Any) -> None:
        """The client sends a request."""
        self.say(
            {"jsonrpc": "2.0", "id": id, "method": method, **({} if params is None else {"params": params}), **more}
        )

    def calls(self, name: str, arguments: Any = None, id: Any = 1, **more: Any) -> None:
        """The client calls a tool."""
        given = {} if arguments is None else {"arguments": arguments}
        self.asks("tools/call", {"name": name, **given, **more}, id)

    def hears(self) -> Message:
        """What the client gets next."""
        while b"\n" not in self._kept:
            assert select.select([self._from], [], [], PATIENCE)[0], self.said
            self._kept += os.read(self._from, 65536)
        line, _, self._kept = self._kept.partition(b"\n")
        found: Message = json.loads(line)
        return found

    def settled(self) -> None:
        """Wait until everything that the client has sent so far has come to its end: a ping comes back."""
        self.asks("ping", id="settled")
        while (message := self.server.next())["method"] != "ping":
            raise AssertionError(f"the server got {message}")
        self.answers({}, id="settled")
        assert self.hears()["id"] == "settled"

    def answers(self, result: Any, id: Any = 1) -> None:
        """The server sends a result."""
        self.server.sent.put({"jsonrpc": "2.0", "id": id, "result": result})

    def lists_tools(self, *tools: Any, id: Any = "list", cursor: str | None = None, next: str | None = None) -> Message:
        """The client asks for the tools, and gets these. Returns what it gets."""
        self.asks("tools/list", {} if cursor is None else {"cursor": cursor}, id)
        assert self.server.next()["method"] == "tools/list"
        self.answers({"tools": list(tools), **({} if next is None else {"nextCursor": next})}, id)
        return self.hears()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the log says of this kind."""
        return [dict(each.event) for each in self.gate.store.events(type=kind)]

    def close(self) -> None:
        self.gateway.close()
        os.close(self._to)
        self.ended.wait(PATIENCE)
        for each in self._ends[1:]:
            os.close(each)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.fixture
def make_rig(project: Path, policy: Path) -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(named: Path | str = policy, **options: Any) -> Rig:
        made.append(Rig(named, project, **options))
        return made[-1]

    yield make
    for rig in made:
        rig.close()


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    """A gateway whose policy allows the tools of the demo, and whose client has seen two of them."""
    made = make_rig()
    made.lists_tools(tool("echo"), tool("asked"), tool("forbidden"))
    return made


def tool(name: str, description: str = "Say it again.", **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "path": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


__all__ = ["Rig", "tool", "until"]
