"""`hla hub`: serves the channels, for agents on this machine."""

import os
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.end_signal import EndSignal
from humanlayer_agent.cli.shared.options import ChannelsOption, StoreOption
from humanlayer_agent.errors import ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import Authority
    from humanlayer_agent.hub.hub import Task
    from humanlayer_agent.store.sqlite import SQLStore

BUSY_MS = 1_000
"""How long the hub waits for another process's write. Slack takes an acknowledgement that comes within 3 s; what can't
be written by then is not acknowledged, and a human clicks again."""

_LOOK_EVERY = 2.0
"""Seconds between two looks at the channels files."""


def hub(
    channels: ChannelsOption = None,
    store: StoreOption = None,
    metrics: Annotated[
        int | None,
        typer.Option("--metrics", metavar="PORT", min=0, max=65535, help="Serve figures and /healthz on loopback."),
    ] = None,
    project: Annotated[
        Path | None,
        typer.Option("--project", metavar="DIR", help="Also the channels file of this project, once you trust it."),
    ] = None,
) -> None:
    """Deliver requests to Slack, mail and web, collect the answers, remind, escalate. Runs until Ctrl-C.

    Needs a channels.yaml whose routes name such a channel, its secrets in the environment, and a signing key: hla init.
    It asks for the key's passphrase at the terminal; without one, HUMANLAYER_PASSPHRASE_FILE names a file with it.

    With --metrics 9187 (0: any free port) http://127.0.0.1:9187/metrics has figures for Prometheus, without commands or
    secrets, and /healthz says 200 where the store answers and every channel works, 503 and why where not.

    Examples: SLACK_BOT_TOKEN=xoxb-... SLACK_APP_TOKEN=xapp-... hla hub;  hla hub --metrics 9187
    """
    from humanlayer_agent.processes.ancestry import refuse_agents
    from humanlayer_agent.processes.memory_protection import protect_secrets

    refuse_agents("serves channels")
    protect_secrets()
    authority = read_authority(channels, project)
    with closing(writable_store(store)) as opened:
        _serve(opened, authority, channels, project, metrics)


def read_authority(channels: Path | None, project: Path | None = None) -> "Authority":
    """Return the authority that channels files describe: who may decide.

    Raises:
        ConfigError: there is none, or it has a mistake.
    """
    from humanlayer_agent.configuration import build_authority

    authority = build_authority(channels, project=project)
    if authority is None:
        raise ConfigError("there is no channels.yaml that says who may approve: run hla init, or give --channels FILE")
    return authority


def writable_store(location: str | None) -> "SQLStore":
    """The store that agents write their requests to; made where it is not there."""
    from humanlayer_agent.errors import StoreError
    from humanlayer_agent.store.access import open_store

    try:
        return open_store(location, busy_ms=BUSY_MS)
    except StoreError as error:
        raise ConfigError(str(error)) from error


def _serve(
    opened: "SQLStore", authority: "Authority", channels: Path | None, project: Path | None, port: int | None
) -> None:
    from humanlayer_agent.channels.registry import FACTORIES
    from humanlayer_agent.configuration import build_hub, unlocked_signer
    from humanlayer_agent.hub.head_posts import alarm, witness

    def post(text: str) -> None:
        if made is not None:
            made.post(text)

    heads = witness(opened, post, say=lambda line: _say("heads", line))

    def warn(text: str) -> None:
        if made is not None:
            made.warn(text)

    loud = alarm(opened, warn, say=lambda line: _say("hub", line))
    made = build_hub(
        opened,
        authority,
        lambda: unlocked_signer(authority, project=project),
        channels=channels,
        project=project,
        tasks=[heads, loud, _settings_watch(channels, project)],
        say=_say,
        watched=port is not None,
    )
    if made is None:
        kinds = ", ".join(FACTORIES)
        raise ConfigError(f"no route has a step that the hub serves ({kinds}): add `- {{to: slack, after: 2m}}` to one")
    with EndSignal() as end_signal, ExitStack() as watching:
        if port is not None:
            from humanlayer_agent.hub.metrics import Watch

            watch = watching.enter_context(Watch(opened, made, made.channels, port))
            _say("hub", f"figures at {watch.url}/metrics, and {watch.url}/healthz")
        _say("hub", f"store {opened.location}; Ctrl-C ends it")
        with made:
            end_signal.wait()
            _say("hub", "ending")
    _say("hub", "ended")


def _settings_watch(channels: Path | None, project: Path | None) -> "Task":
    """A task that says so where a channels file is changed. Who may approve does not change under a running hub."""
    from humanlayer_agent.channels import settings
    from humanlayer_agent.hub.hub import Task

    files = settings.load(project, file=channels).files

    def stamps() -> list[tuple[int, int, int] | None]:
        return [_stamp(name) for name in files]

    known = stamps()

    def look() -> None:
        nonlocal known
        before, known = known, stamps()
        for name, old, new in zip(files, before, known, strict=True):
            if old != new:
                said = f"{name} has changed: this hub goes on as it began; end it (Ctrl-C) and start it again for that"
                try:
                    settings.load(project, file=channels)
                except ConfigError as error:
                    said = f"{name} has changed and can't be used ({error}): this hub goes on as it began"
                _say("hub", said)

    return Task("settings", _LOOK_EVERY, look, alone=False)


def _stamp(name: str) -> tuple[int, int, int] | None:
    """What tells one state of a file from another; None where it is not there."""
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _say(channel: str, line: str) -> None:
    from humanlayer_agent.approvals.store_interface import now_ms
    from humanlayer_agent.cli.shared.store_access import time_text
    from humanlayer_agent.safe_text import one_line

    with suppress(BrokenPipeError, ValueError):
        print(f"{time_text(now_ms())}  {channel:<10} {one_line(line)}", flush=True)
