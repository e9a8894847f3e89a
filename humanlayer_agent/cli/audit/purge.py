"""`hla audit purge`: deletes full commands, requests, votes and permits that are settled, old, and in an export.

`hla audit hold`: what it keeps all the same.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.completion import run_ids
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_signature import credentials, open_to_write, typed_word
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_records, prints
from humanlayer_agent.cli.shared.records import HoldRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text
from humanlayer_agent.locations import kept_folder

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import Authority
    from humanlayer_agent.approvals.holds import Held, Hold
    from humanlayer_agent.approvals.model import Approver, Refused
    from humanlayer_agent.approvals.store_interface import Purged, Store
    from humanlayer_agent.audit.heads import Head
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.store.retention import Purge
    from humanlayer_agent.store.sqlite import SQLStore
    from humanlayer_agent.undo.kept_files import Kept

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
    deleted is gone from the file's bytes too, and so are the files that were kept for hla undo before that. What a
    legal hold keeps stays (hla audit hold). Without --delete nothing is changed; with it you type a word and your key's
    passphrase.

    Example: hla audit purge --older-than 90d --exported audit.jsonl
    """
    human_only("audit purge", "deletes what was recorded", store)
    from humanlayer_agent.configuration import build_authority
    from humanlayer_agent.errors import ConfigError, NoTerminal, StoreError
    from humanlayer_agent.processes.memory_protection import protect_secrets

    protect_secrets()
    before = _before(older_than)
    head, sha256 = _export(exported)
    try:
        with closing(open_to_write(store)) as opened:
            looked = opened.purge(before=before, exported=head, authority=build_authority(channels))
            _say_held(looked)
            raise typer.Exit(_purged(looked, opened, channels, sha256, before) if delete else _shown(looked, before))
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: nothing was deleted: only a human at a terminal does that: {error}", err=True)
        raise typer.Exit(NO_HUMAN) from error
    except StoreError as error:
        raise ConfigError(str(error)) from error


def _shown(looked: "Purge", before: int) -> int:
    would, kept = looked.would_go(), _kept(looked, before)
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

    would, kept = looked.would_go(), _kept(looked, before)
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
        typer.echo(f"deleted {_counts(gone, KeptFiles(kept_folder()).forget(before, _is_held(looked.holds())))}")
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


def _say_held(looked: "Purge") -> None:
    """Say what stays because somebody holds it."""
    if not (holds := looked.holds()):
        return
    for each in holds:
        typer.echo(f"held: {_what(each)} (hold {each.id[:8]}, by {each.person}); hla audit hold ls")
    typer.echo(f"kept by that: {_counts(looked.would_stay())}")


def _kept(looked: "Purge", before: int) -> int:
    """For how many runs and commands files were kept before a moment (ms), which nobody holds."""
    from humanlayer_agent.undo.kept_files import KeptFiles

    held = _is_held(looked.holds())
    return sum(each.at < before and not held(each) for each in KeptFiles(kept_folder()).all())


def _is_held(holds: "Sequence[Hold]") -> "Callable[[Kept], bool]":
    return lambda kept: any(each.held.keeps(kept.run, kept.at, kept.at) for each in holds)


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


# ---- holds ------------------------------------------------------------------------------------------------

hold = Commands(
    help="""Keep what a purge would delete, until somebody who may decide lifts the hold.

    Examples: hla audit hold add --run 3f2a --reason "case 12";  hla audit hold ls;  hla audit hold release 8c1d"""
)

_Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; for the log, and who reads it.")]
_WORDS_LIMIT = 2000
_CHANNEL = "command-line"


@hold.command()
def add(
    run: Annotated[str, typer.Option(metavar="ID", help="What is of this run.", autocompletion=run_ids)] = "",
    since: Annotated[str, typer.Option(metavar="TIME", help="What happened from then on: 2026-03-01, 7d.")] = "",
    until: Annotated[str, typer.Option(metavar="TIME", help="What happened until then.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    reason: _Reason = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Hold a run, a time, or everything: no purge deletes that, in this store. You type a word and your passphrase.

    It is for who may approve by the route "default", and it is signed, and stands in the log (hold.placed).

    Exit codes: 0 done, 1 not wanted, 2 usage, 3 there is no human's terminal.

    Example: hla audit hold add --since 2026-03-01 --until 2026-04-01 --reason "case 12"
    """
    from humanlayer_agent.audit.search import moment
    from humanlayer_agent.errors import ConfigError

    if everything == bool(run or since or until):
        raise ConfigError("say what to hold: --run ID, --since TIME and --until TIME, or --all by itself")
    human_only("audit hold add", "keeps what was recorded", store)
    now = time.time_ns() // 1_000_000

    def place(opened: "SQLStore", fd: int) -> int:
        from humanlayer_agent.approvals.holds import Held

        whole = _whole_run(opened, run) if run else ""
        held = Held(whole, moment(since, now) if since else None, moment(until, now) if until else None)
        if held.since is not None and held.until is not None and held.since > held.until:
            raise ConfigError("--since is later than --until")
        said = f"No purge will delete {_named(held)}, until the hold is released."

        def done(who: "Approver", authority: "Authority", signer: "Signer") -> "Hold | Refused":
            return opened.holds.place(held, who, _words(reason), authority, signer)

        return _signed(opened, fd, channels, said, "hold", done)

    _at_terminal(store, place)


@hold.command()
@prints(HoldRecord, many=True)
def ls(channels: ChannelsOption = None, store: StoreOption = None, output: FormatOption = "table") -> None:
    """List the holds that stand: what each keeps, since when, who placed it and why.

    Example: hla audit hold ls --format jsonl
    """
    from humanlayer_agent.configuration import build_authority

    with closing(open_store(store)) as opened:
        found = opened.holds.standing(build_authority(channels))
    if output != "table":
        print_records(map(_hold_record, found), output)
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    rows = [
        [one_line(cell) for cell in (each.id, _what(each), time_text(each.at), each.person, each.reason or each.note)]
        for each in found
    ]
    print_rows(console(), ("hold", "keeps", "since", "by", "why"), rows, whole=True)


@hold.command()
def release(
    name: Annotated[str, typer.Argument(metavar="HOLD", help="The beginning of its id: hla audit hold ls.")],
    reason: _Reason = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Lift a hold: a later purge may delete what it kept. You type a word and your key's passphrase.

    It is for who may approve by the route "default", and it is signed, and stands in the log (hold.lifted).

    Exit codes: 0 done, 1 not wanted, 2 usage, 3 there is no human's terminal.

    Example: hla audit hold release 8c1d --reason "case 12 is closed"
    """
    from humanlayer_agent.configuration import build_authority
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.safe_text import one_line

    human_only("audit hold release", "lets what was recorded be deleted", store)

    def lift(opened: "SQLStore", fd: int) -> int:
        standing = opened.holds.standing(build_authority(channels))
        found = [each for each in standing if name and each.id.startswith(name)]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} holds that stand begin with {one_line(name)!r}: hla audit hold ls")
        said = f"Purges may delete {_what(found[0])} again. It was held by {found[0].person}: {found[0].reason}"

        def done(who: "Approver", authority: "Authority", signer: "Signer") -> "Hold | Refused":
            return opened.holds.lift(found[0].id, who, _words(reason), authority, signer)

        return _signed(opened, fd, channels, said, "release", done)

    _at_terminal(store, lift)


def _at_terminal(store: str | None, act: "Callable[[SQLStore, int], int]") -> None:
    """Have a human at a terminal do something with the store that they sign."""
    from humanlayer_agent.errors import ConfigError, NoTerminal, StoreError
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.processes.tty import controlling_terminal

    protect_secrets()
    try:
        with controlling_terminal() as fd, closing(open_to_write(store)) as opened:
            raise typer.Exit(act(opened, fd))
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: nothing was done: only a human at a terminal does that: {error}", err=True)
        raise typer.Exit(NO_HUMAN) from error
    except StoreError as error:
        raise ConfigError(f"nothing was done: {error}") from error


def _signed(
    opened: "SQLStore",
    fd: int,
    channels: Path | None,
    said: str,
    word: str,
    act: "Callable[[Approver, Authority, Signer], Hold | Refused]",
) -> int:
    """Take a word and the passphrase for it, and do it."""
    from humanlayer_agent.approvals.model import Approver, Refused
    from humanlayer_agent.audit import events
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    def wrong() -> None:
        opened.record(events.SUPERVISION_REFUSED, wanted=word, by=os_user(), refusal="wrong-passphrase")

    authority, signer = credentials(channels)
    if not typed_word(fd, one_line(said), word, f"{word} it") or not ask(fd, signer, wrong=wrong):
        typer.echo("nothing was done")
        return NOT_DONE
    done = act(Approver(os_user(), _CHANNEL, "terminal"), authority, signer)
    if isinstance(done, Refused):
        raise ConfigError(f"nothing was done: {one_line(done.reason)}")
    typer.echo(f"{'released' if done.lifted else 'held'}: {one_line(_what(done))} (hold {done.id[:8]})")
    return DONE


def _whole_run(opened: "SQLStore", beginning: str) -> str:
    """Return the id of the one run that begins so; the text itself where it is a whole id, of a run that is none yet.

    Raises:
        ConfigError: there are several.
    """
    from humanlayer_agent.errors import ConfigError

    found = {str(entry.event["run"]) for entry in opened.events(type="run.started")}
    fitting = [each for each in found if each == beginning] or [each for each in found if each.startswith(beginning)]
    if len(fitting) != 1:
        raise ConfigError(
            f"{len(fitting)} runs of this log begin with {beginning!r}: hla audit query --type run.started"
        )
    return fitting[0]


def _words(reason: str) -> str:
    from humanlayer_agent.safe_text import one_line

    return one_line(reason.strip())[:_WORDS_LIMIT]


def _what(each: "Hold") -> str:
    return _named(each.held)


def _named(held: "Held") -> str:
    from humanlayer_agent.approvals.holds import described

    since, until = ("" if at is None else time_text(at) for at in (held.since, held.until))
    return described(held, (since, until))


def _hold_record(each: "Hold") -> HoldRecord:
    return {
        "id": each.id,
        "run": each.held.run or None,
        "since": each.held.since,
        "until": each.held.until,
        "at": each.at,
        "person": each.person,
        "reason": each.reason,
        "note": each.note,
    }
