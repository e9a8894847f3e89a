"""What tests of servers that speak MCP do with the official SDK's client."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from humanlayer_agent.testing.patience import PATIENCE
from tests.support import children
from tests.support.mail_servers import free_port


def text(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


async def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return, each in a thread or a task, all at the same time."""
    found: dict[int, Any] = {}

    async def one(number: int, call: Callable[[], Any]) -> None:
        made = await anyio.to_thread.run_sync(call)
        found[number] = await made if isinstance(made, Awaitable) else made

    async with anyio.create_task_group() as group:
        for number, each in enumerate(calls):
            group.start_soon(one, number, each)
    return [found[number] for number in range(len(calls))]


class Listening:
    """A gateway that serves clients by HTTP, from its start to its end.

    Args:
        argv: `hla mcp`, with what comes before `--listen`.
        server: what comes behind.
        more: options of `subprocess.Popen`.
    """

    def __init__(self, argv: Sequence[str], server: Sequence[str], **more: Any) -> None:
        self.process = children.Popen(
            [*argv, "--listen", str(free_port()), *server],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **more,
        )  # fmt: skip
        assert self.process.stderr is not None
        self.begun = self.process.stderr.readline().decode()
        entries = json.loads(Path(self.begun.rpartition(" is in ")[2].strip()).read_text())["mcpServers"]
        (found,) = entries.values()
        self.url, self.headers = found["url"], found["headers"]

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def talk(self, use: Callable[[Client], Any], **options: Any) -> Any:
        """What `use` makes of a client."""

        async def main() -> Any:
            async with (
                httpx2.AsyncClient(headers=self.headers, timeout=PATIENCE) as http_client,
                Client(streamable_http_client(self.url, http_client=http_client), **options) as client,
            ):
                await client.list_tools()
                return await use(client)

        return anyio.run(main)

    def calls_elsewhere(self, tool: str, arguments: dict[str, str]) -> "subprocess.Popen[bytes]":
        """A process with a client that calls a tool."""
        code = f"""
import anyio, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
async def main():
    async with (httpx2.AsyncClient(headers={self.headers!r}, timeout=600) as http_client,
                Client(streamable_http_client({self.url!r}, http_client=http_client), mode="legacy") as client):
        await client.call_tool({tool!r}, {arguments!r})
anyio.run(main)
"""
        return children.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)

    def ends(self) -> bytes:
        """It is told to end. Returns what else it has said."""
        self.process.terminate()
        assert self.process.stderr is not None
        said: bytes = self.process.stderr.read()
        assert self.process.wait(PATIENCE) == 0
        return said
