"""`hla channel`: which channels there are, and whether one works."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.store_access import StoreOption
from humanlayer_agent.errors import ChannelError, ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles

NO_HUMAN = 3
"""Exit code: nobody could be reached, or nobody answered."""

ChannelsOption = Annotated[Path | None, typer.Option("--channels", help="A channels file that is the whole.")]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@app.command("ls")
def ls(channels: ChannelsOption = None, store: StoreOption = None) -> None:
    """List the channels of your channels files: what uses them, what they lack, which process serves them.

    Example: hla channel ls
    """
    from humanlayer_agent.channels import settings

    found = settings.load(file=channels)
    for name in found.channels:
        print(f"{name:<12} {found.channels[name].type:<10} {'; '.join(_notes(name, found, store))}")


def _notes(name: str, found: "Profiles", store: str | None) -> Iterator[str]:
    from humanlayer_agent.channels.registry import FACTORIES, missing

    routes = [route for route, each in found.routes.items() if any(step.to == name for step in each.steps)]
    yield f"routes: {', '.join(routes)}" if routes else "no route uses it"
    if found.channels[name].type not in FACTORIES:
        yield "asks where the agent runs"
        return
    if lacking := missing(name, found):
        yield f"not set here: {', '.join(lacking)}"
    server = _server(name, store)
    yield f"served by process {server}" if server is not None else "no process serves it: hla hub does"


def _server(name: str, store: str | None) -> int | None:
    """The pid of the process that serves a channel; None where none does."""
    from humanlayer_agent.cli.shared.store_access import open_store
    from humanlayer_agent.processes.identity import pid_of

    try:
        with closing(open_store(store)) as opened:
            lease = opened.surfaces.lease(name)
            return pid_of(lease.process) if lease else None
    except ConfigError:  # no store yet
        return None


@app.command("test")
def try_one(
    name: Annotated[str, typer.Argument(help="The channel, as your channels file names it.")],
    channels: ChannelsOption = None,
    store: StoreOption = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, max=3600, help="Seconds to wait for an answer.")] = 300,
) -> None:
    """Send a harmless request by a channel and wait for the answer. Whatever it is, nothing runs.

    Example: hla channel test slack
    """
    from humanlayer_agent.channels import registry, settings
    from humanlayer_agent.cli.hub import read_authority, writable_store
    from humanlayer_agent.configuration import unlocked_signer
    from humanlayer_agent.hub.channel_test import try_channel
    from humanlayer_agent.processes.ancestry import refuse_agents
    from humanlayer_agent.processes.memory_protection import protect_secrets

    refuse_agents("tests channels")
    protect_secrets()
    authority = read_authority(channels)
    found = settings.load(file=channels)
    registry.check(name, found)
    signer = unlocked_signer(authority)
    channel = registry.build(name, found, signer=signer)
    with closing(writable_store(store)) as opened:
        try:
            trial = try_channel(opened, channel, authority, signer, timeout=timeout, say=_say)
        except ChannelError as error:
            _say(f"{name} does not work: {error}")
            raise typer.Exit(NO_HUMAN) from None
    if trial.vote is None:
        _say(f"nobody answered within {timeout:.0f} s")
        raise typer.Exit(NO_HUMAN)
    _say(f"{name} works: {trial.vote.answer} by {trial.person} after {trial.seconds:.1f} s; nothing was run")


def _say(line: str) -> None:
    from humanlayer_agent.safe_text import one_line

    print(one_line(line), flush=True)
