"""Claude Code by the Claude Agent SDK, with a tool of our own: each call is judged, and waits for a human where the
policy asks for one.

Run it:  python examples/claude_agent_sdk_approval.py
"""

import asyncio
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, create_sdk_mcp_server, tool

from humanlayer_agent import Gate
from humanlayer_agent.adapters.claude_agent_sdk import supervised


@tool("close_account", "Close the account of a customer.", {"customer": str})
async def close_account(given: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"closed the account of {given['customer']}"}]}


def options(**more: Any) -> ClaudeAgentOptions:
    servers: Any = {"accounts": create_sdk_mcp_server("accounts", tools=[close_account])}
    return ClaudeAgentOptions(mcp_servers=servers, **more)


async def main(gate: Gate) -> None:
    async with ClaudeSDKClient(supervised(options(), gate)) as client:
        await client.query("Close the account of ada, and say what you did.")
        async for message in client.receive_response():
            print(message)


if __name__ == "__main__":
    with Gate.from_config(agent="claude-code") as gate:
        asyncio.run(main(gate))
