"""`hla audit purge`: deletes full commands, requests, votes and permits that are settled, old, and in an export."""

import hashlib
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.human_signature import credentials, open_to_write, typed_word
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, StoreOption
from humanlayer_agent.cli.shared.store_access import time_text
from humanlayer_agent.locations import kept_folder

if TYPE_CHECKING:
    from humanlayer_agent.approvals.store_interface import Purged, Store
    from humanlayer_agent.audit.heads import Head
    from humanlayer_agent.store.retention import Purge

DONE, NOT_DONE, NO_HUMAN, INCOMPLETE = 0, 1, 3, 5
_DAY_MS = 86_400_000
"""Nothing younger goes: channels may still have to bring up to date what they show of it."""


def purge(
    exported: Annotated[Path, typer.Option("--exported", metavar="FILE", help="A whole export: hla audit export -o.")],
    older_than: Annotated[str, typer.Option(metavar="AGE", help="90d, 12w, or a date: 2026-03-01. At least a day.")],
    delete: Annotated[bool, typer.Option("--delete", help="Do it; without this it only says what would go.")] = False,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Delete what is settled, old, and covered by an export's signed head: full commands, requests, votes, permits.

    The log keeps all its events (commands without their secrets), so it still verifies, and so does the report. What is
    deleted is gone from the file's bytes too, and so are the files that were kept for hla undo before that. Without
    --delete nothing is changed; with it you type a word and your key's passphrase.

    Example: hla audit purge --older-than 90d --exported audit.jsonl
    """
    human_only("audit purge", "deletes what was recorded", store)
    from humanlayer_agent.errors import ConfigError, NoTerminal, StoreError
    from humanlayer_agent.processes.memory_protection import protect_secrets

    protect_secrets()
    before = _before(older_than)
    head, sha256 = _export(exported)
    try:
        with closing(open_to_write(store)) as opened:
            looked = opened.purge(before=before, exported=head)
            raise typer.Exit(_purged(looked, opened, channels, sha256, before) if delete else _shown(looked, before))
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: nothing was deleted: only a human at a terminal does that: {error}", err=True)
        raise typer.Exit(NO_HUMAN) from error
    except StoreError as error:
        raise ConfigError(str(error)) from error


def _shown(looked: "Purge", before: int) -> int:
    would, kept = looked.would_go(), _kept(before)
    typer.echo(f"would delete {_counts(would, kept)}; --delete does it" if would or kept else "nothing to delete")
    return DONE


def _purged(looked: "Purge", opened: "Store", channels: Path | None, sha256: str, before: int) -> int:
    from humanlayer_agent.audit import events
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.processes.tty import controlling_terminal
    from humanlayer_agent.undo.kept_files import KeptFiles

    def wrong() -> None:
        opened.record(events.SUPERVISION_REFUSED, wanted="purge", by=os_user(), refusal="wrong-passphrase")

    would, kept = looked.would_go(), _kept(before)
    if not (would or kept):
        typer.echo("nothing to delete")
        return _erased(looked.erase())
    _, signer = credentials(channels)
    with controlling_terminal() as fd:
        said = f"This deletes {_counts(would, kept)}, for good. The log keeps its events."
        if not typed_word(fd, said, "purge", "delete that") or not ask(fd, signer, wrong=wrong):
            typer.echo("nothing was deleted")
            return NOT_DONE
    gone = looked.delete(os_user(), sha256)
    try:
        typer.echo(f"deleted {_counts(gone, KeptFiles(kept_folder()).forget(before))}")
    except OSError as error:
        typer.echo(f"deleted {_counts(gone)}; what was kept for hla undo could not be: {error}", err=True)
        return INCOMPLETE
    return _erased(looked.erase())


def _erased(done: bool) -> int:
    if done:
        return DONE
    why = "another process keeps the file busy, so what was deleted is still in its bytes"
    typer.echo(f"{why}: run this again when no agent and no hub runs", err=True)
    return INCOMPLETE


def _kept(before: int) -> int:
    """For how many runs and commands files were kept before a moment (ms)."""
    from humanlayer_agent.undo.kept_files import KeptFiles

    return sum(each.at < before for each in KeptFiles(kept_folder()).all())


def _counts(what: "Purged", kept: int = 0) -> str:
    rows = f"{what.requests} requests with their commands and {what.votes} votes, and {what.permits} permits"
    of = "run or command" if kept == 1 else "runs and commands"
    return f"{rows}, and what was kept of files for {kept} {of}" if kept else rows


def _before(text: str) -> int:
    """The moment that everything that goes was settled before.

    Raises:
        ConfigError: it is none, or less than a day ago.
    """
    from humanlayer_agent.audit.search import moment
    from humanlayer_agent.errors import ConfigError

    now = time.time_ns() // 1_000_000
    if (found := moment(text, now)) > now - _DAY_MS:
        raise ConfigError(f"--older-than {text}: it must be a day ago at least")
    return found


def _export(path: Path) -> "tuple[Head, str]":
    """The newest signed head in an export that verifies, and the SHA-256 of the file.

    Raises:
        ConfigError: it can't be read, it does not verify, or no signed head ends it.
    """
    from humanlayer_agent.cli.audit.verify import verify_files
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.safe_text import one_line

    found = verify_files([path], [])
    if not found.intact:
        raise ConfigError(f"{path} does not verify: event {found.bad_seq}: {one_line(found.problem)}")
    if found.last_head is None:
        raise ConfigError(f"{path} has no signed head, so it covers nothing: hla audit export -o {path} writes one")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    typer.echo(f"{path} covers the events up to {found.last_head.seq} ({time_text(found.last_head.time)})")
    return found.last_head, digest
