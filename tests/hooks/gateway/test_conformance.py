"""`hla mcp` as clients meet it: the official SDK's client, over real pipes, before the official SDK's server. A human
answers from elsewhere. docs/mcp.md has the table that these tests hold to.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError, StdioServerParameters

from humanlayer_agent.locations import default_store_path
from humanlayer_agent.processes import reaper
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support import children
from tests.support.mcp_client import Listening, at_once, text
from tests.support.remote_human import RemoteHuman

pytestmark = [pytest.mark.usefixtures("compiled", "forked_by_clients"), pytest.mark.long]

GATEWAY = [sys.executable, "-m", "humanlayer_agent.cli", "mcp"]
SERVER = [sys.executable, str(Path(__file__).parents[2] / "support" / "mcp_demo_server.py")]
POLICY = """\
version: 1
policy: demo
extends: [builtin:default]
rules:
  - id: demo
    decision: allow
    reason: A tool of the demo.
    when: {tool: {name: [mcp__demo__echo, mcp__demo__fail, mcp__demo__environment, mcp__demo__slow, mcp__demo__die,
      mcp__demo__chat, mcp__demo__wish, mcp__demo__grow, mcp__demo__grown, mcp__demo__prompts/get]}}
  - id: demo-forbidden
    decision: deny
    reason: This tool is forbidden.
    when: {tool: {name: mcp__demo__forbidden}}
"""


class Demo:
    """A client of the gateway before the demo server, by pipes or by HTTP."""

    def __init__(self, folder: Path, human: RemoteHuman, way: str = "pipes") -> None:
        self.folder, self.human, self.way = folder, human, way
        self.project = folder / "project"
        self.project.mkdir()
        self.policy = folder / "policy.yaml"
        self.policy.write_text(POLICY)

    def argv(self, *options: str, server: list[str] | None = None) -> list[str]:
        given = ["--name", "demo", "--project", str(self.project), "--policy", str(self.policy), *options]
        return [*GATEWAY, *given, *(["--", *SERVER, str(self.folder)] if server is None else server)]

    def listening(self, *options: str) -> Listening:
        """A gateway that serves HTTP."""
        return Listening(self.argv(*options, server=[]), ["--", *SERVER, str(self.folder)], cwd=self.project)

    def talk(
        self,
        use: Callable[[Client], Awaitable[Any]],
        *options: str,
        argv: list[str] | None = None,
        env: dict[str, str] | None = None,
        **callbacks: Any,
    ) -> Any:
        """What `use` makes of a client of a gateway that was started for it."""
        if self.way == "http":
            if callbacks.get("mode") == "2026-07-28":  # which is not spoken there
                callbacks["mode"] = "auto"
            with self.listening(*options) as gateway:
                try:
                    return gateway.talk(use, **callbacks)
                finally:
                    gateway.ends()
        command, *args = argv or self.argv(*options)

        async def main() -> Any:
            server = StdioServerParameters(
                command=command, args=args, env={**os.environ, **(env or {})}, cwd=self.project
            )
            async with Client(server, **callbacks) as client:
                await client.list_tools()
                return await use(client)

        return anyio.run(main)

    @property
    def calls(self) -> list[str]:
        """What the server's tools did."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def pid(self) -> int:
        """The server's process."""
        path = self.folder / "pid"
        return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else 0

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [dict(each.event) for each in self.human.store.events(type=kind)]

    def raw(self, *options: str) -> "subprocess.Popen[bytes]":
        """A gateway that is talked to by hand, and that knows its server."""
        process = children.Popen(
            self.argv(*options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.project
        )
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        tell(process, {"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"})
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == 0
        tell(process, {"id": "list", "method": "tools/list"})
        assert json.loads(process.stdout.readline())["id"] == "list"
        until(lambda: self.pid > 0, "the server")
        return process


def tell(process: "subprocess.Popen[bytes]", *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()


def call(id: int, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.fixture
def human() -> Iterator[RemoteHuman]:
    human = RemoteHuman()
    yield human
    human.store.close()


@pytest.fixture
def demo(tmp_path: Path, human: RemoteHuman, request: pytest.FixtureRequest) -> Demo:
    return Demo(tmp_path, human, getattr(request, "param", "pipes"))


both = pytest.mark.parametrize("demo", ["pipes", "http"], indirect=True)
"""By pipes, and by HTTP."""


def is_over(pid: int) -> bool:
    found = reaper.processes().get(pid)
    return found is None or not found[0]


MAIL = {"to": "a@example.org", "body": "hello"}


def mailed(client: Client, **changed: str) -> Callable[[], Any]:
    return lambda: client.call_tool("send_mail", {**MAIL, **changed})


# ---- the rows of the table ----------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_allow(demo: Demo, mode: str) -> None:
    async def use(client: Client) -> Any:
        return await client.call_tool("echo", {"text": "hi"}), await client.call_tool("fail", {})

    good, bad = demo.talk(use, mode=mode)
    assert (good.is_error, text(good)) == (False, "hi")
    assert (bad.is_error, text(bad)) == (True, "as wanted")
    assert demo.calls == ["echo hi", "fail"]
    assert [each.get("returncode") for each in demo.events("exec.finished")] == [0, 1]
    assert demo.events("run.finished")[0]["status"] == "finished"


@both
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_deny(demo: Demo, mode: str) -> None:
    async def use(client: Client) -> Any:
        return await client.call_tool("forbidden", {})

    result = demo.talk(use, mode=mode)
    assert result.is_error
    assert text(result).startswith("Not executed: the policy forbids this command. This tool is forbidden.")
    assert demo.calls == []


@both
def test_ask_and_approve(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        return await at_once(mailed(client), lambda: demo.human.answers("approve"))

    result, request = demo.talk(use)
    assert (result.is_error, text(result)) == (False, "sent")
    assert demo.calls == ["send_mail a@example.org hello"]
    assert request.action.content == 'mcp__demo__send_mail({"to": "a@example.org", "body": "hello"})'
    assert (request.action.tool, request.action.agent) == ("mcp__demo__send_mail", "an agent (by MCP)")
    (consumed,), (finished,) = demo.events("permit.consumed"), demo.events("exec.finished")
    assert (consumed["request"], finished["returncode"]) == (request.id, 0)


@both
def test_an_approval_is_for_these_arguments(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        await at_once(mailed(client), lambda: demo.human.answers("approve"))
        return await at_once(mailed(client, to="b@example.org"), lambda: demo.human.answers("reject"))

    result, _ = demo.talk(use)
    assert result.is_error
    assert demo.calls == ["send_mail a@example.org hello"]


@both
def test_ask_and_reject_with_words(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        first = await at_once(mailed(client), lambda: demo.human.answers("reject", 'not to "him"\nnow'))
        return first[0], await mailed(client)()  # the same again is asked of nobody

    for result in demo.talk(use):
        assert result.is_error
        assert text(result).startswith("Not executed: a human was asked, and refused this command.")
        assert "The human's words, quoted as they were written: " + json.dumps('not to "him"\nnow') in text(result)
    assert demo.calls == []
    assert len(demo.human.asked()) == 1


@both
def test_ask_and_answer_in_words_or_stop_the_run(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        words = await at_once(mailed(client), lambda: demo.human.answers("respond", "use echo"))
        stopped = await at_once(mailed(client, to="b"), lambda: demo.human.answers("terminate"))
        return words[0], stopped[0], await client.call_tool("echo", {"text": "still there?"})

    words, stopped, after = demo.talk(use)
    assert "answers in words instead" in text(words)
    assert '"use echo"' in text(words)
    assert "stopped the whole run" in text(stopped)
    assert after.is_error
    assert demo.calls == []


@both
def test_an_edit_is_refused(demo: Demo) -> None:
    """A call is what the client has sent, or nothing."""
    edited = 'mcp__demo__send_mail({"to": "b@example.org", "body": "hello"})'

    async def use(client: Client) -> Any:
        def edit() -> None:
            request = demo.human.next()
            with pytest.raises(AssertionError, match="no-such-answer"):
                demo.human.answers("edit", edited, request)
            demo.human.answers("reject", "send that one", request)

        return (await at_once(mailed(client), edit))[0]

    result = demo.talk(use)
    assert result.is_error
    assert "send that one" in text(result)
    assert demo.calls == []


@both
def test_nobody_answers_in_time(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        return await mailed(client)()

    result = demo.talk(use, "--deadline", "1")
    assert "nobody answered within 1 s" in text(result)
    assert demo.calls == []
    assert [each.state for each in demo.human.asked()] == ["expired"]


@both
def test_three_at_once_and_the_middle_one_denied(demo: Demo) -> None:
    """Each answer goes to its own call, whatever the order."""

    def answering() -> None:
        waiting = {request.action.content: request for request in (demo.human.next() for _ in range(3))}
        for to, kind in (("c", "approve"), ("b", "reject"), ("a", "approve")):
            (request,) = (each for content, each in waiting.items() if f'"to": "{to}"' in content)
            demo.human.answers(kind, request=request)  # type: ignore[arg-type]

    async def use(client: Client) -> Any:
        calls = [mailed(client, to=to) for to in "abc"]
        return (await at_once(*calls, answering))[:3]

    assert [result.is_error for result in demo.talk(use)] == [False, True, False]
    assert sorted(demo.calls) == ["send_mail a hello", "send_mail c hello"]


@both
def test_one_that_waits_keeps_nothing_else_waiting(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        async with anyio.create_task_group() as group:
            group.start_soon(mailed(client))
            request = await anyio.to_thread.run_sync(demo.human.next)
            said = [text(await client.call_tool("echo", {"text": str(n)})) for n in range(3)]
            await client.list_tools(cache_mode="bypass")
            await anyio.to_thread.run_sync(lambda: demo.human.answers("approve", request=request))
        return said

    assert demo.talk(use) == ["0", "1", "2"]
    assert demo.calls[-1] == "send_mail a@example.org hello"


@both
def test_every_agent_is_stopped(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        def stop() -> None:
            demo.human.next()
            with closing(SQLiteStore(default_store_path())) as store:
                store.halts.stop("os:1000:bob", "enough")

        waited = (await at_once(mailed(client), stop))[0]
        return waited, await client.call_tool("echo", {"text": "hi"})

    for result in demo.talk(use):
        assert result.is_error
        assert "end your work now" in text(result)
    assert demo.calls == []


@both
def test_the_gateway_is_killed_while_a_human_is_asked(demo: Demo) -> None:
    """The server ends with it; what was asked leads to nothing, and is asked again by the next one."""
    if demo.way == "http":
        process, client = (gateway := demo.listening()).process, gateway.calls_elsewhere("send_mail", MAIL)
    else:
        process = client = demo.raw()
        tell(process, call(1, "send_mail", **MAIL))
    first, server = demo.human.next(), demo.pid
    for each in (process, client):
        each.kill()
        each.communicate()
    until(lambda: is_over(server), "the server's end")
    (demo.folder / "pid").unlink()

    def answers() -> None:
        until(lambda: len(demo.events("request.created") + demo.events("request.adopted")) == 2, "the question")
        (pending,) = (each for each in demo.human.asked() if each.state == "pending")
        demo.human.answers("approve", request=pending)

    async def use(client: Client) -> Any:
        return (await at_once(mailed(client), answers))[0]

    assert text(demo.talk(use)) == "sent"
    assert demo.calls == ["send_mail a@example.org hello"]
    assert first.id in {each.id for each in demo.human.asked()}


@pytest.mark.parametrize("how", ["closes", "SIGTERM", "SIGINT"])
def test_the_client_goes_while_a_human_is_asked(demo: Demo, how: str) -> None:
    process = demo.raw()
    tell(process, call(1, "send_mail", **MAIL))
    request, server = demo.human.next(), demo.pid
    if how == "closes":
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
    else:
        process.send_signal(getattr(signal, how))
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, b"")
    assert b"the demo server has begun" in err
    demo.human.state_of(request.id, "withdrawn")
    assert is_over(server)
    assert demo.calls == []


def test_a_client_that_does_not_read_the_log(demo: Demo) -> None:
    """Lines of the gateway and of the server go nowhere then; the calls go on."""
    process = demo.raw()
    assert process.stderr is not None
    assert process.stdout is not None
    process.stderr.close()
    tell(process, {"method": "notifications/unheard-of"}, call(1, "echo", text="hi"))
    answer = json.loads(process.stdout.readline())
    assert (answer["id"], answer["result"]["isError"]) == (1, False)
    process.stderr = None
    process.communicate()
    assert process.returncode == 0


def test_kill_9_of_the_client(demo: Demo) -> None:
    """Nobody tells the gateway: it sees that the pipe has ended."""
    code = (
        "import json, subprocess, sys\n"
        f"p = subprocess.Popen({demo.argv()!r}, stdin=subprocess.PIPE)\n"
        f"p.stdin.write({json.dumps({'jsonrpc': '2.0', **call(1, 'send_mail', **MAIL)}).encode()!r} + b'\\n')\n"
        "p.stdin.flush()\np.wait()"
    )
    client = subprocess.Popen([sys.executable, "-c", code], cwd=demo.project, stdout=subprocess.DEVNULL)
    request = demo.human.next()
    until(lambda: demo.pid > 0, "the server")
    client.kill()
    client.wait()
    demo.human.state_of(request.id, "withdrawn")
    until(lambda: is_over(demo.pid), "the server's end")


def test_the_server_dies_in_the_middle_of_a_call(demo: Demo) -> None:
    process = demo.raw()
    tell(process, call(1, "die"))
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())
    assert process.wait(PATIENCE) == 1
    process.communicate()
    assert (answer["id"], "nobody knows what became of it" in answer["error"]["message"]) == (1, True)
    (finished,) = demo.events("exec.finished")
    assert (finished.get("returncode"), "nobody knows" in finished["detail"]) == (None, True)
    assert demo.calls == ["die"]


# ---- passed on ------------------------------------------------------------------------------------------------


@both
def test_everything_that_a_server_may_want_of_a_client(demo: Demo) -> None:
    logged: list[Any] = []
    progress: list[Any] = []

    async def log(params: Any) -> None:
        logged.append(params.data)

    async def sample(context: Any, params: Any) -> Any:
        return types.CreateMessageResult(
            role="assistant", model="m", content=types.TextContent(type="text", text="four")
        )

    async def roots(context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/app")])

    async def elicit(context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content={"colour": "red"})

    async def use(client: Client) -> Any:
        async def noted(*args: Any) -> None:
            progress.append(args)

        said = text(await client.call_tool("chat", {}))
        with anyio.move_on_after(PATIENCE), pytest.raises(MCPError):
            await client.call_tool("slow", {}, read_timeout_seconds=3, progress_callback=noted)
        await anyio.to_thread.run_sync(lambda: until(lambda: demo.calls[-1] == "slow ended", "its cancellation"))
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        resources = await client.list_resources()
        await client.call_tool("grow", {})
        tools = (await client.list_tools()).tools
        return said, prompt, resources, tools

    said, prompt, resources, tools = demo.talk(
        use, mode="legacy", logging_callback=log, sampling_callback=sample, list_roots_callback=roots,
        elicitation_callback=elicit,
    )  # fmt: skip
    assert said == "four 1 red"
    assert logged == ["hello"]
    assert [args[0] for args in progress] == [1]
    assert prompt.messages[0].content.text == "Greet Ada."
    assert [str(each.uri) for each in resources.resources] == ["demo://weather"]
    assert "grown" in [each.name for each in tools]
    assert "the client cancelled it" in [each.get("detail") or "" for each in demo.events("exec.finished")][1]
    assert [each["added"] for each in demo.events("tools.changed")] == [["grown"]]


def test_a_resource_is_read_once_somebody_said_so(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        with pytest.raises(MCPError, match="refused this command"):
            await at_once(
                lambda: client.read_resource("demo://weather"), lambda: demo.human.answers("reject", "not today")
            )
        raise LookupError

    with pytest.raises((LookupError, BaseExceptionGroup)):
        demo.talk(use)
    assert demo.calls == []
    assert demo.human.asked()[0].action.content == 'mcp__demo__resources/read({"uri": "demo://weather"})'


def test_what_the_server_asks_back_goes_on_in_the_newest_protocol(demo: Demo) -> None:
    """There, the client calls once more, and gives what was wanted with it."""

    async def elicit(context: Any, params: Any) -> Any:
        return types.ElicitResult(action="accept", content={"colour": "red"})

    async def use(client: Client) -> Any:
        return await client.call_tool("wish", {})

    result = demo.talk(use, mode="2026-07-28", elicitation_callback=elicit)
    assert text(result) == "red"
    assert demo.human.asked() == []
    assert "it goes on" in demo.events("exec.finished")[0]["detail"]


def test_the_server_gets_the_variables_that_were_named(demo: Demo) -> None:
    async def use(client: Client) -> Any:
        names = ("DEMO_TOKEN", "OTHER_TOKEN", "HUMANLAYER_SUPERVISED", "HUMANLAYER_STORE")
        return [text(await client.call_tool("environment", {"name": name})) for name in names]

    env = {"DEMO_TOKEN": "x", "OTHER_TOKEN": "y"}
    assert demo.talk(use, "--pass-env", "DEMO_TOKEN", env=env) == ["x", "(none)", "1", "(none)"]
