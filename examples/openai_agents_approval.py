"""An agent of the OpenAI Agents SDK whose tools are judged, and wait for a human where the policy asks for one.

Run it:  python examples/openai_agents_approval.py gpt-5
"""

import asyncio
import sys
from typing import Any

from agents import Agent, Runner, function_tool

from humanlayer_agent import Gate
from humanlayer_agent.adapters.openai_agents import ToolApprovals


@function_tool
def close_account(customer: str) -> str:
    """Close the account of a customer."""
    return f"closed the account of {customer}"


async def close(model: Any, gate: Gate) -> str:
    agent = ToolApprovals(gate).supervise(Agent(name="accounts", model=model, tools=[close_account]))
    result = await Runner.run(agent, "Close the account of ada, and say what you did.")
    return "\n".join(str(getattr(item, "output", "")) for item in result.new_items) + str(result.final_output)


if __name__ == "__main__":
    with Gate.from_config(agent="accounts") as gate:
        print(asyncio.run(close(sys.argv[1], gate)))
