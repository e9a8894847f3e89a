"""The real server: over pipes, and by Streamable HTTP with the official SDK's server on loopback."""

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.gateway import upstreams
from humanlayer_agent.hooks.gateway.messages import LONGEST, Unfit
from humanlayer_agent.hooks.gateway.upstreams import HttpServer, SecretHeader, ServerGone, StdioServer
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.hooks.gateway.test_conformance import GATEWAY, POLICY, SERVER, text
from tests.support.remote_human import RemoteHuman

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def stdio(tmp_path: Path, code: str) -> StdioServer:
    return StdioServer([sys.executable, "-c", code], cwd=str(tmp_path), env=dict(os.environ))


def send_on(server: StdioServer) -> None:
    """Send large messages until that can't be any more."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        server.send({**PING, "params": {"x": "x" * 100_000}})
        time.sleep(0.01)


def test_lines_that_are_no_messages(tmp_path: Path) -> None:
    server = stdio(
        tmp_path, 'print("hello\\n\\n{}\\n[1]\\n{\\"id\\": 1.5}\\n{\\"id\\": 3, \\"result\\": {}}\\n{\\"method\\": 7}")'
    )
    found = list(server.received())
    server.close()
    assert [each for each in found if not isinstance(each, Unfit)] == [{}, {"id": 3, "result": {}}]
    assert len(found) == 6


def test_of_a_key_that_stands_there_twice_the_last_counts_and_goes_on(tmp_path: Path) -> None:
    server = stdio(tmp_path, 'print("{\\"id\\": 1, \\"result\\": {\\"a\\": 1, \\"a\\": 2}}")')
    assert list(server.received()) == [{"id": 1, "result": {"a": 2}}]
    server.close()


def test_a_message_that_is_too_long(tmp_path: Path) -> None:
    server = stdio(tmp_path, f'print("x" * {LONGEST + 1}); input()')
    with pytest.raises(ServerGone, match="a message of over"):
        list(server.received())
    server.close()


def test_a_server_that_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for: what waits for it is bounded, and then it counts as gone."""
    monkeypatch.setattr(upstreams, "MAX_UNREAD", 3)
    monkeypatch.setattr(upstreams, "LAST_S", 0.1)
    server = stdio(tmp_path, "import time; time.sleep(600)")
    with pytest.raises(ServerGone, match="has not read 3 messages"):
        send_on(server)
    server.close()
    assert list(server.received()) == []


def test_a_server_that_ends(tmp_path: Path) -> None:
    server = stdio(tmp_path, "pass")
    assert list(server.received()) == []
    with pytest.raises(ServerGone, match="reads no more"):
        send_on(server)
    server.close()


def test_a_server_that_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstreams, "LAST_S", 0.1)
    server = stdio(
        tmp_path, "import signal, time; signal.signal(15, signal.SIG_IGN); print('{}', flush=True); time.sleep(600)"
    )
    received = server.received()
    assert next(received) == {}
    server.close()
    assert list(received) == []


@pytest.mark.parametrize(
    ("url", "token", "why"),
    [
        ("ftp://example.org", "", "no address of a server"),
        ("https://", "", "no address of a server"),
        ("http://[x", "", "is no address"),
        ("http://example.org/mcp", "x", "by https only"),
        ("http://localhost.example.org/mcp", "x", "by https only"),
    ],
)
def test_addresses(url: str, token: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        HttpServer(url, headers=[SecretHeader("X-Key", "env:PATH")] if token else ())


def test_nobody_is_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = HttpServer(f"http://127.0.0.1:{free.getsockname()[1]}/mcp")
        server.send(PING)
        with pytest.raises(ServerGone, match="can't be reached"):
            list(server.received())
        with pytest.raises(ServerGone, match="can't be reached"):
            server.send(PING)
        server.close()


class Recording(http.server.BaseHTTPRequestHandler):
    """Answers each request, and keeps its headers."""

    seen: list[dict[str, str]]

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(dict(self.headers))
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode()
        self.send_response(200)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_headers_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are read at each request: another program may renew what is in the file."""
    key = tmp_path / "key"
    key.write_text("one\n")
    monkeypatch.setenv("FORGE_TOKEN", "secret")
    handler = type("Handler", (Recording,), {"seen": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        headers = [SecretHeader("Authorization", "env:FORGE_TOKEN", "Bearer "), SecretHeader("X-Key", f"file:{key}")]
        server = HttpServer(f"http://127.0.0.1:{there.server_port}/mcp", headers=headers)
        arrives = server.received()
        for expected in ("one", "two"):
            key.write_text(expected)
            server.send(PING)
            assert next(arrives) == {"jsonrpc": "2.0", "id": 1, "result": {}}
            found = {name.lower(): value for name, value in handler.seen[-1].items()}
            assert (found["authorization"], found["x-key"]) == ("Bearer secret", expected)
        key.unlink()
        server.send(PING)
        with pytest.raises(ServerGone, match="No such file or directory: it is to hold what is sent as X-Key"):
            list(arrives)
        server.close()
        there.shutdown()
    assert len(handler.seen) == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("X-Key=secret", "comes from env:VARIABLE or file:PATH, and is never given here"),
        ("X-Key", "comes from env:VARIABLE or file:PATH"),
        ("=env:PATH", "can't be a header"),
        ("X Key=env:PATH", "can't be a header"),
        ("Host=env:PATH", "can't be a header"),
        ("Mcp-Session-Id=env:PATH", "can't be a header"),
        ("X-Key=env:NO_SUCH", "NO_SUCH is not set"),
        ("X-Key=file:/no/such", "/no/such: No such file or directory"),
        ("X-Key=file:/", "/: Is a directory"),
        ("X-Key=file:/dev/null", "/dev/null is empty"),
        ("X-Key=env:TWO_LINES", "what TWO_LINES holds can't be sent as X-Key: it is one line of visible ASCII"),
    ],
)
def test_headers_that_are_none(said: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWO_LINES", "secret\r\nX-Other: y")
    with pytest.raises(ConfigError) as raised:
        HttpServer("https://example.org/mcp", headers=[SecretHeader.read(said)])
    assert why in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the demo server speaks HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*SERVER, str(tmp_path), str(port)], stderr=subprocess.DEVNULL)

    def is_up() -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

    until(is_up, "the server")
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


@pytest.mark.long
@pytest.mark.usefixtures("compiled", "forked_by_clients")
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
def test_a_gateway_before_it(tmp_path: Path, address: str, mode: str) -> None:
    human = RemoteHuman()
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "project").mkdir()
    given = ["--project", str(tmp_path / "project"), "--policy", str(tmp_path / "policy.yaml"), "--http", address]
    progress: list[Any] = []

    async def main() -> Any:
        argv = [*GATEWAY, "--name", "demo", *given]
        server = StdioServerParameters(command=argv[0], args=argv[1:], env=dict(os.environ))
        async with Client(server, mode=mode) as client:
            tools = (await client.list_tools()).tools
            said = text(await client.call_tool("echo", {"text": "hi"}))
            denied = await client.call_tool("forbidden", {})
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.to_thread.run_sync, lambda: human.answers("approve"))
                mailed = text(await client.call_tool("send_mail", {"to": "a", "body": "b"}))
            with anyio.move_on_after(PATIENCE) as scope:
                await client.call_tool("slow", {}, progress_callback=stop_at_progress(scope))
        return tools, said, denied, mailed

    def stop_at_progress(scope: anyio.CancelScope) -> Any:
        async def stop(*args: Any) -> None:
            progress.append(args)
            scope.cancel()

        return stop

    tools, said, denied, mailed = anyio.run(main)
    assert (len(tools), said, mailed) == (10, "hi", "sent")
    assert denied.is_error
    assert len(progress) == 1
    calls = tmp_path / "calls"
    until(lambda: calls.read_text().splitlines()[-1] == "slow ended", "its cancellation")
    assert calls.read_text().splitlines()[:2] == ["echo hi", "send_mail a b"]
    human.store.close()
