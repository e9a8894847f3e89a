"""`hla channel`: which channels there are, and whether one works."""

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.completion import channel_names
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.options import ChannelsOption, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_records, prints
from humanlayer_agent.cli.shared.records import ChannelRecord
from humanlayer_agent.errors import ChannelError, ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles

NO_HUMAN = 3
"""Exit code: nobody could be reached, or nobody answered."""

app = Commands(
    help="""See which ways there are to reach humans, and try one.

    Example: hla channel ls"""
)


@app.command("ls")
@prints(ChannelRecord, many=True)
def ls(channels: ChannelsOption = None, store: StoreOption = None, output: FormatOption = "table") -> None:
    """List the channels of your channels files: what uses them, what they lack, which process serves them.

    Example: hla channel ls
    """
    from humanlayer_agent.channels import settings

    found = settings.load(file=channels)
    rows = [_record(name, found, store) for name in found.channels]
    if output == "table":
        _print(rows)
    else:
        print_records(rows, output)


def _record(name: str, found: "Profiles", store: str | None) -> ChannelRecord:
    from humanlayer_agent.channels.registry import FACTORIES, missing, uninstalled

    hub = found.channels[name].type in FACTORIES
    return {
        "channel": name,
        "type": found.channels[name].type,
        "routes": [route for route, each in found.routes.items() if any(step.to == name for step in each.steps)],
        "hub": hub,
        "not_installed": (uninstalled(name, found) or None) if hub else None,
        "not_set": list(missing(name, found)) if hub else [],
        "process": _server(name, store) if hub else None,
    }


def _print(rows: "Sequence[ChannelRecord]") -> None:
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    if not rows:
        print("There is no channels file of yours: hla init writes one.")
        return
    cells = [(row["channel"], row["type"], "; ".join(_notes(row))) for row in rows]
    print_rows(console(), ("channel", "type", ""), [[one_line(cell) for cell in row] for row in cells], whole=True)


def _notes(row: ChannelRecord) -> list[str]:
    """What a person wants to know of a channel, a few words each."""
    said = [f"routes: {', '.join(row['routes'])}" if row["routes"] else "no route uses it"]
    if not row["hub"]:
        return [*said, "asks where the agent runs"]
    said += [row["not_installed"]] if row["not_installed"] else []
    said += [f"not set here: {', '.join(row['not_set'])}"] if row["not_set"] else []
    process = row["process"]
    return [*said, f"served by process {process}" if process is not None else "no process serves it: hla hub does"]


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
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="The channel, as your channels file names it.", autocompletion=channel_names
        ),
    ],
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
