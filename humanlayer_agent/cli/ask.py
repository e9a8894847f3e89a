"""`hla ask` and `hla mcp ask`: a script, or an agent that speaks MCP, asks a human something, and gets the words of the
answer.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.mcp import CLIENT, mcp
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, ProjectOption, StoreOption

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.approvals.questions import HumanAnswer

ANSWERED, UNANSWERED = 0, 1
AGENT = "a script"
"""Who is shown as the one that asks: outside of a run there is no agent."""

_HUMANS = "asks by it (an agent's own command `hla ask` is answered by its supervisor and never executed)"


def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.")],
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option", "-o", metavar="TEXT", help="An answer that is offered, once for each; other words may be given."
        ),
    ] = None,
    project: ProjectOption = None,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Ask a human something by the configured channels, wait, and print the answer.

    An agent that only has a shell asks its human by the same words, as a whole command of its own: its supervisor
    answers that, and never executes it. Exit codes: 0 answered, 1 not (and why, on standard error), 2 usage.

    Example: hla ask 'Which branch is released?' --option main --option next
    """
    human_only("ask", _HUMANS, store)
    raise typer.Exit(put(question, options or (), project=project, channels=channels, store=store))


def put(
    question: str,
    options: Sequence[str] = (),
    *,
    project: Path | None = None,
    channels: Path | None = None,
    store: str | None = None,
) -> int:
    """Ask, wait, and print what becomes of it. Returns the exit code.

    Raises:
        ConfigError: it is no question that could be put, or a channels file has a mistake.
    """
    from humanlayer_agent.configuration import build_gate, checked_project, find_project
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.safe_text import visible

    place = checked_project(project) if project is not None else find_project()
    protect_secrets()
    gate: Gate = build_gate(project=place, store=store, agent=AGENT, channels=channels)
    with gate:
        answer = gate.ask_human(question, options)
    if answer:
        print(visible(answer.text))
        return ANSWERED
    print(f"humanlayer-agent: no answer: {visible(answer.why)}", file=sys.stderr)
    return UNANSWERED


@mcp.command("ask")
def mcp_ask(
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            min=1,
            help="Until a question counts as not answered; less than the client waits. [as the route says]",
        ),
    ] = None,
    project: ProjectOption = None,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Serve one tool, ask_human(question, options), by which an agent asks you something, until its client ends.

    The client starts it. You answer by your channels (a hub, or hla requests respond), never at the client's terminal;
    the agent gets your words, marked as data, or why there are none. They allow nothing: what needs an approval still
    does. It takes the extra mcp.

    Exit codes: 0 the client has gone, 2 usage or configuration.

    Examples: hla mcp ask --deadline 50;  claude mcp add ask-human -- hla mcp ask --project ~/src/app
    """
    human_only("mcp ask", "serves questions (an agent's own command is hla ask)", store)
    from humanlayer_agent.configuration import checked_project, find_project
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.extras import lacks
    from humanlayer_agent.processes.memory_protection import protect_secrets

    try:
        from humanlayer_agent.hooks.question_server import serve
    except ImportError as error:
        raise ConfigError(lacks("hla mcp ask", "mcp", error)) from error
    place = checked_project(project) if project is not None else find_project()
    protect_secrets()
    serve(_waiting(place, channels, store, deadline))


def _waiting(
    project: Path, channels: Path | None, store: str | None, deadline: float | None
) -> "Callable[[str, Sequence[str], Callable[[], bool]], HumanAnswer | None]":
    """Return what puts a question before humans that are elsewhere, each in a run of its own."""
    from humanlayer_agent.configuration import build_gate
    from humanlayer_agent.hooks.gateway import Waiting
    from humanlayer_agent.hooks.judge import ToolGone

    timeout_ms = None if deadline is None else int(deadline * 1000)

    def put(question: str, options: Sequence[str], gone: Callable[[], bool]) -> "HumanAnswer | None":
        asker = Waiting()
        asker.waits_while(gone)
        gate: Gate = build_gate(
            project=project, store=store, agent=CLIENT, asker=asker, channels=channels, timeout_ms=timeout_ms
        )
        try:
            with gate:
                return gate.ask_human(question, options)
        except ToolGone:
            return None

    return put
