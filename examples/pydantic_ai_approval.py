"""An agent of PydanticAI whose tools are judged, and wait for a human where the policy asks for one.

Run it:  python examples/pydantic_ai_approval.py openai:gpt-5
"""

import sys
from typing import Any

from pydantic_ai import Agent

from humanlayer_agent import Gate
from humanlayer_agent.adapters.pydantic_ai import ToolApprovals


def close_account(customer: str) -> str:
    """Close the account of a customer."""
    return f"closed the account of {customer}"


def close(model: Any, gate: Gate) -> str:
    agent = Agent(model, tools=[close_account], capabilities=[ToolApprovals(gate)])
    result = agent.run_sync("Close the account of ada, and say what you did.")
    parts = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    return "\n".join([*(str(part.content) for part in parts), result.output])


if __name__ == "__main__":
    with Gate.from_config(agent="accounts") as gate:
        print(close(sys.argv[1], gate))
