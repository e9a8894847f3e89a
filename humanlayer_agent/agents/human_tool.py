"""A human as a tool: a function that an agent's framework can offer to a model."""

from collections.abc import Callable, Sequence

from humanlayer_agent.agents.require_approval import refuse_older_settings
from humanlayer_agent.approvals.gate import Gate


def human_as_tool(
    *,
    gate: Gate | None = None,
    options: Sequence[str] = (),
    contact_channel: None = None,
    response_options: None = None,
) -> Callable[[str], str]:
    """Return a function `contact_human(question)` that asks a human and returns what the model is to read.

    The answer decides nothing: what needs an approval still does.

    Args:
        gate: whose people and channels are asked. Where it is None, one is built with the first question from the
            settings of the machine and the user.
        options: answers that are offered, at most nine; any other words may be given as well.
        contact_channel, response_options: nothing may be given; the error says what is written here instead.

    Raises:
        ConfigError: a `contact_channel`, or `response_options`, are given; by the function, where what it is given is
            no question that could be put.

    Example:
        >>> from humanlayer_agent import Gate, human_as_tool
        >>> class Maintainer:
        ...     def query(self, prompt: str, *, options: list[str]) -> str:
        ...         return "next"
        >>> ask = human_as_tool(gate=Gate.from_config(policy="default", user=Maintainer()))
        >>> print(ask("Which branch is released?"))
        A human read your question, and answers in words.
        The human's words, quoted as they were written: "next"
    """
    refuse_older_settings(contact_channel, response_options)
    made = [gate] if gate is not None else []

    def contact_human(question: str) -> str:
        """Ask a human something, and wait for the answer in words.

        Args:
            question: what you want to know, with all that is needed to answer it.
        """
        if not made:
            from humanlayer_agent.configuration import build_gate

            made.append(build_gate(agent="function"))
        return made[0].ask_human(question, options).told

    return contact_human
