"""`hla audit verify`: is the log still what was written, and who has witnessed how far it goes?"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.options import FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, prints
from humanlayer_agent.cli.shared.records import VerificationRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text

if TYPE_CHECKING:
    from humanlayer_agent.approvals.store_interface import Store
    from humanlayer_agent.audit.heads import Head
    from humanlayer_agent.audit.verify import Verification
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.store.verification_record import Checked

FilesArgument = Annotated[
    list[Path] | None, typer.Argument(metavar="FILE", help="Exports, in their order; the store if none is given.")
]
RequireHeadOption = Annotated[
    bool, typer.Option("--require-head", help="Exit with 5 unless a head that was kept elsewhere agrees.")
]
HeadOption = Annotated[
    str | None, typer.Option("--head", metavar="FILE|-", help="Heads that were kept elsewhere: a chat message, a mail.")
]


@prints(VerificationRecord)
def verify(
    files: FilesArgument = None,
    store: StoreOption = None,
    head: HeadOption = None,
    since_checked: Annotated[
        bool,
        typer.Option("--since-checked", help="Read only what came after the last whole verification of this store."),
    ] = False,
    require_head: RequireHeadOption = False,
    output: FormatOption = "table",
) -> None:
    """Check that the log is what was written.

    Every hash is computed again, and every row of a store compared with the events that made it. An intact store's
    newest head is recorded with your audit key: --since-checked goes on from there, and says so.

    Exit code 0: intact; the last line says whether a head that was kept elsewhere agrees. 1: tampered with; the first
    bad event is named. 5: events are missing, the last line is torn, or no head was given with --require-head.

    A store is compared with the anchor beside your keys too.

    Example: hla audit verify export.jsonl --head head.txt
    """
    if head and head != "-" and any(_is_same(path, Path(head)) for path in files or ()):
        from humanlayer_agent.errors import ConfigError

        raise ConfigError(f"{head}: a head that stands in the log itself witnesses nothing: name one kept elsewhere")
    heads = kept_heads(head)
    checked = None
    if files and since_checked:
        from humanlayer_agent.errors import ConfigError

        raise ConfigError("--since-checked is for a store: an export is read whole")
    if files:
        found = verify_files(files, heads)
    else:
        found, checked = _verify_store(store, heads, since_checked)
    if since_checked and checked is None:
        typer.echo("everything was read: there was no earlier verification to go on from", err=True)
    if output == "table":
        _report(found, heads, checked)
    else:
        print_record(_record(found, heads, checked), output)
    code = {"intact": 0, "tampered": 1}.get(found.kind, 5)
    raise typer.Exit(code or unwitnessed(bool(heads), require_head))


def _verify_store(
    location: str | None, heads: list["Head"], since_checked: bool
) -> "tuple[Verification, Checked | None]":
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.store.verification_record import verify_since_checked, verify_whole

    try:
        opened = open_store(location)
    except ConfigError as error:
        return unopened(error), None
    checked: Checked | None = None

    def check(known: list["Head"]) -> "Verification":
        nonlocal checked
        with _progress() as progress:
            if not since_checked:
                return verify_whole(opened, heads=known, progress=progress)
            found, checked = verify_since_checked(opened, heads=known, progress=progress)
            return found

    return by_anchor(opened, heads, check), checked


def unopened(error: "ConfigError") -> "Verification":
    """Return the verification of a store that was tampered with so that it does not even open.

    Raises:
        ConfigError: it does not open for another reason.
    """
    from humanlayer_agent.audit.verify import Verification
    from humanlayer_agent.errors import StoreTampered

    if not isinstance(error.__cause__, StoreTampered):
        raise error
    return Verification(0, "", problem=str(error), kind="tampered")


def by_anchor(opened: "Store", heads: list["Head"], check: "Callable[[list[Head]], Verification]") -> "Verification":
    """Verify a store, by the anchor beside the user's keys as well. (That one is no witness: it is not elsewhere.)

    Args:
        heads: those that were kept elsewhere.
        check: verifies it with some heads.
    """
    from dataclasses import replace

    from humanlayer_agent.audit.anchor import anchor_of
    from humanlayer_agent.audit.heads import is_signed

    anchor = anchor_of(opened.location)
    found = check([*heads, anchor.head] if anchor and is_signed(anchor.head) else heads)
    loss = opened.loss()
    if loss and found.kind == "tampered" and found.bad_seq is not None and found.bad_seq >= loss.first:
        found = replace(found, problem=str(loss))  # nobody has kept that head elsewhere
    return found


def unwitnessed(witnessed: bool, required: bool) -> int:
    """Return the exit code for a log that is intact."""
    return 5 if required and not witnessed else 0


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def verify_files(files: list[Path], heads: list["Head"]) -> "Verification":
    """Verify exports, in their order, as one log."""
    from dataclasses import replace

    from humanlayer_agent.audit.chain import Entry
    from humanlayer_agent.audit.export import Torn, read_entries
    from humanlayer_agent.audit.verify import verify
    from humanlayer_agent.errors import ConfigError

    torn: list[str] = []

    def entries() -> Iterator[Entry]:
        for path in files:
            try:
                with path.open("rb") as stream:
                    yield from read_entries(stream)
            except Torn as error:
                torn.append(f"{path}: {error}")
                return
            except OSError as error:
                raise ConfigError(f"{path}: {error.strerror}") from error

    with _progress() as progress:
        found = verify(entries(), heads=heads, progress=progress)
    if torn and (found.intact or found.kind == "gap"):
        problem = f"{torn[0]}: hla audit export -o goes on from there"
        seq = found.last + 1 if found.bad_seq is None else found.bad_seq
        return replace(found, bad_seq=seq, problem=problem, kind="torn")
    return found


def kept_heads(source: str | None) -> list["Head"]:
    """The heads in a file, or on standard input."""
    if source is None:
        return []
    from humanlayer_agent.audit.heads import heads_in, is_signed
    from humanlayer_agent.errors import ConfigError

    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"{source}: {error.strerror}") from error
    heads = heads_in(text)
    if not heads:
        raise ConfigError(f"{source}: there is no head in it: a line that begins with hla-head-, as a hub posts it")
    for head in heads:
        if not is_signed(head):
            raise ConfigError(
                f"{source}: the head of event {head.seq} was not signed as it stands there: copy it whole"
            )
    return heads


def _record(found: "Verification", heads: list["Head"], checked: "Checked | None") -> VerificationRecord:
    not_read = 0 if checked is None else checked.head.seq
    return {
        "result": found.kind,
        "events": found.count,
        "head": found.head,
        "bad_event": found.bad_seq,
        "problem": found.problem,
        "not_read": not_read,
        "last_head": found.last_head.seq if found.last_head is not None else None,
        "signers": list(found.signers),
        "witnessed": max((head.seq for head in heads), default=None) if found.kind == "intact" else None,
    }


def _report(found: "Verification", heads: list["Head"], checked: "Checked | None" = None) -> None:
    """Say what was found."""
    from humanlayer_agent.safe_text import one_line

    if found.kind == "tampered":
        where = "" if found.bad_seq is None else f"event {found.bad_seq}: "
        typer.echo(f"TAMPERED: {where}{one_line(found.problem)}")
        return
    if found.kind in ("gap", "torn"):
        said = "TORN" if found.kind == "torn" else "INCOMPLETE"
        typer.echo(f"{said}: event {found.bad_seq}: {one_line(found.problem)}")
        typer.echo(f"intact before that: {found.count} events")
        return
    if checked is None:
        typer.echo(f"intact: {found.count} events, head {found.head}")
    else:
        at = checked.head.seq
        typer.echo(f"intact since event {at}: {found.count - at} events, head {found.head}")
        typer.echo(
            f"not read: the {at} events before that, which were intact on {time_text(checked.at)} (your audit key has "
            "signed that), and the rows that no later event tells of; hla audit verify reads everything"
        )
    if found.last_head is not None:
        typer.echo(f"newest signed head in it: event {found.last_head.seq}, {time_text(found.last_head.time)}")
        typer.echo(f"signed by: {', '.join(_whose(one_line(signer)) for signer in found.signers)}")
    if not heads:
        typer.echo(
            "the end is not witnessed: that later events were cut off may not show without a head that was kept "
            "elsewhere (hla audit head prints one, --head FILE compares)"
        )
        return
    newest = max(heads, key=lambda head: head.seq)
    later = found.count - 1 - newest.seq
    newer = "1 event is newer" if later == 1 else f"{later} events are newer"
    whose = _whose(f"user {newest.signer[:16]}" if newest.key == "user" else "process")
    typer.echo(f"witnessed up to event {newest.seq} ({time_text(newest.time)}, signed by {whose}); {newer} than that")


def _whose(signer: str) -> str:
    """Return whose key signed heads, in words."""
    kind, _, beginning = signer.partition(" ")
    if kind != "user":
        return "a key that is gone with its process"
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.keys.key_file import AuditKey
    from humanlayer_agent.locations import audit_key_path

    try:
        yours = audit_key_path().exists() and AuditKey(audit_key_path()).fingerprint.startswith(beginning)
    except (ConfigError, OSError):
        yours = False
    return f"{'your key' if yours else 'the key'} {beginning}..."


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """A counter of events on a terminal, for logs that take a while."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed:,} events"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda count: bar.update(task, completed=count)
