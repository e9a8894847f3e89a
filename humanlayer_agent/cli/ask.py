"""`hla ask`: a script asks a human something, and gets the words of the answer."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, ProjectOption, StoreOption

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate

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
    from humanlayer_agent.approvals.store_interface import sqlite_path
    from humanlayer_agent.configuration import build_gate, checked_project, find_project
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.safe_text import visible

    place = checked_project(project) if project is not None else find_project()
    protect_secrets()
    location = sqlite_path(store) if store else None
    gate: Gate = build_gate(project=place, store=location, agent=AGENT, channels=channels)
    with gate:
        answer = gate.ask_human(question, options)
    if answer:
        print(visible(answer.text))
        return ANSWERED
    print(f"humanlayer-agent: no answer: {visible(answer.why)}", file=sys.stderr)
    return UNANSWERED
