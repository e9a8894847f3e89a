"""A LangChain agent whose tools are judged, call by call, and wait for a human where the policy asks for one.

Run it:  python examples/langchain_agent.py anthropic:claude-sonnet-4-5
"""

import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

from humanlayer_agent import Gate
from humanlayer_agent.adapters.langchain import ApprovalMiddleware


@tool
def close_account(customer: str) -> str:
    """Close the account of a customer."""
    return f"closed the account of {customer}"


def close(model: Any, gate: Gate) -> str:
    agent = create_agent(model, [close_account], middleware=[ApprovalMiddleware(gate)])
    messages = agent.invoke({"messages": "Close the account of ada, and say what you did."})["messages"]
    return "\n".join(message.text for message in messages if message.type in ("tool", "ai"))


if __name__ == "__main__":
    with Gate.from_config(agent="accounts") as gate:
        print(close(sys.argv[1], gate))
