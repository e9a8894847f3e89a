"""What tests of servers that speak MCP do with the official SDK's client."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio


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
