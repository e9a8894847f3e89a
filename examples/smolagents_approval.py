"""An agent of smolagents whose tools are judged, and wait for a human where the policy asks for one.

Run it:  python examples/smolagents_approval.py Qwen/Qwen3-Next-80B-A3B-Instruct
"""

import sys
from typing import Any

from smolagents import InferenceClientModel, ToolCallingAgent, tool

from humanlayer_agent import Gate
from humanlayer_agent.adapters.smolagents import ToolApprovals


@tool
def close_account(customer: str) -> str:
    """Close the account of a customer.

    Args:
        customer: Whose account it is.
    """
    return f"closed the account of {customer}"


def close(model: Any, gate: Gate) -> str:
    agent = ToolApprovals(gate).supervise(ToolCallingAgent(tools=[close_account], model=model))
    answer = agent.run("Close the account of ada, and say what you did.")
    return "\n".join([*(str(getattr(step, "observations", "")) for step in agent.memory.steps), str(answer)])


if __name__ == "__main__":
    with Gate.from_config(agent="accounts") as gate:
        print(close(InferenceClientModel(sys.argv[1]), gate))
