"""`hla plan`: a human hands in what a task will need, before an agent starts on it."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, PolicyOption, ProjectOption, StoreOption
from humanlayer_agent.errors import ConfigError, NoTerminal

if TYPE_CHECKING:
    from humanlayer_agent.keys.signing import Signer

GRANTED, NOT_GRANTED, NO_HUMAN = 0, 1, 3
LASTS = "1h"
"""For how long one lasts that does not say it: at the command line there is no run that it could end with."""


def plan(
    needs: Annotated[
        list[str], typer.Argument(metavar="NEED", help="What it needs, one by one; or a file with all of it.")
    ],
    lasts: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help=f"For how long, as 30m or 4h. [{LASTS}]")
    ] = None,
    agent: Annotated[
        str, typer.Option("--agent", metavar="NAME", help="The agent that it is for; else any of yours.")
    ] = "",
    project: ProjectOption = None,
    policy: PolicyOption = None,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Have what a task will need approved before it starts: then it is not asked about, and all else is as ever.

    A need is "read PATH", "write PATH" (all below it, if it is a directory; "write PATH by PROGRAM" for one program
    only), "network HOST by PROGRAM" or "package NAME by PROGRAM". It is asked of whoever the policy says, as one
    question; what is of high severity or denied can't be approved ahead. The approval is signed with your key, since
    other processes are to believe it. Exit codes: 0 approved, 1 not, 2 usage, 3 nobody could be asked.

    Examples: hla plan 'read /srv/docs' 'network example.org by curl' --for 4h;  hla plan --project ~/src/app plan.yaml
    """
    human_only("plan", "hands in a plan here (an agent has Gate.request_plan)", store)
    text = _text(needs)
    raise typer.Exit(hand_in(text, lasts, agent=agent, project=project, policy=policy, channels=channels, store=store))


def _text(needs: list[str]) -> str:
    if len(needs) != 1 or not Path(needs[0]).is_file():
        return "\n".join(needs)
    try:
        return Path(needs[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{needs[0]}: this plan can't be read: {error}") from error


def hand_in(
    text: str,
    lasts: str | None = None,
    *,
    agent: str = "",
    project: Path | None = None,
    policy: str | None = None,
    channels: Path | None = None,
    store: str | None = None,
) -> int:
    """Ask for a plan, wait, and print what becomes of it. Returns the exit code.

    Args:
        text: of the plan (see `policy.plan`).
        lasts: for how long; None: what the plan says, else an hour.
        agent: the name of the agent that it is for; "" for any of this user's.
        project, policy, channels, store: instead of those that are found.

    Raises:
        ConfigError: it says what no plan says, or no key may sign the answer.
    """
    from humanlayer_agent.action import PLAN, Action
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.approvals.grants import Grant
    from humanlayer_agent.configuration import build_director, build_gate, checked_project, find_project
    from humanlayer_agent.policy.decision import Verdict
    from humanlayer_agent.policy.plan import read_plan
    from humanlayer_agent.processes.memory_protection import protect_secrets

    place = checked_project(project) if project is not None else find_project()
    asked = read_plan(text, str(place))
    asked = replace(asked, lasts=lasts or asked.lasts or LASTS)
    read_plan(asked.text, str(place))  # --for is checked as well
    director = build_director(policy, project=place)
    here = str(place)
    judged = director.evaluate(Action(asked.text, type=PLAN, cwd=here, project=here, agent=agent, interpreter=()))
    protect_secrets()
    try:  # where nobody is asked, there is nothing to sign
        signer = _unlocked(channels, place) if judged.verdict is Verdict.ASK else None
    except NoTerminal as error:
        print(f"humanlayer-agent: not approved: only a human at a terminal hands in a plan: {error}", file=sys.stderr)
        return NO_HUMAN
    gate: Gate = build_gate(
        director=director, project=place, store=store, agent=agent, channels=channels, signer=signer
    )
    with gate:
        answer = gate.request_plan(asked.text, project=str(place), why=asked.why)
    if isinstance(answer, Grant):
        print(f"approved: {answer.id[:12]} by {' and '.join(answer.by)}, for {asked.lasts}: {answer.words}")
        return GRANTED
    print(f"humanlayer-agent: not approved: {answer}", file=sys.stderr)
    return NO_HUMAN if answer.by == "nobody" else NOT_GRANTED


def _unlocked(channels: Path | None, project: Path) -> "Signer":
    """Return the user's own key, after its passphrase was typed here: no file stands in for a human who answers."""
    from humanlayer_agent.configuration import build_authority, build_signer
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.processes.tty import controlling_terminal

    signer = build_signer(build_authority(channels, project=project))
    if signer is None:
        raise ConfigError(
            "no channels.yaml of yours names your key under `signers:`, so no other process would believe an approval: "
            "run hla init"
        )
    _ = signer.fingerprint  # a key that can't be used is an error before anything is typed
    with controlling_terminal() as fd:
        if not ask(fd, signer):
            raise ConfigError("your key stays locked: nobody was asked")
    return signer
