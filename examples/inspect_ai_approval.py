"""An evaluation with Inspect AI in which every call of a tool is judged, and waits for a human where the policy asks.

Run it:  python examples/inspect_ai_approval.py openai/gpt-5
"""

import sys

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import Tool, tool

from humanlayer_agent import Gate
from humanlayer_agent.adapters.inspect_ai import supervised


@tool
def close_account() -> Tool:
    async def execute(customer: str) -> str:
        """Close the account of a customer.

        Args:
            customer: Whose account it is.
        """
        return f"closed the account of {customer}"

    return execute


def accounts(gate: Gate) -> Task:
    samples = [Sample(input="Close the account of ada, and say what you did.")]
    return Task(dataset=samples, solver=[use_tools(close_account()), generate()], **supervised(gate))


if __name__ == "__main__":
    with Gate.from_config(agent="accounts") as gate:
        evaluate(accounts(gate), model=sys.argv[1])
