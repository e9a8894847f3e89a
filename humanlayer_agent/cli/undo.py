"""`hla undo`: what the commands of a run have changed of a project's own files, and the way back."""

import os
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from humanlayer_agent.cli.shared.completion import kept_run_ids
from humanlayer_agent.cli.shared.human_signature import credentials, open_to_write, typed_word
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import ChangeRecord, KeptFileRecord, KeptRunRecord, UndoneRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text

if TYPE_CHECKING:
    from humanlayer_agent.confine.kept_files import Kept, KeptFiles, Manifest
    from humanlayer_agent.confine.project_files import ProjectFiles
    from humanlayer_agent.confine.restoration import Changes, Undone
    from humanlayer_agent.store.sqlite import SQLStore

DONE, NOT_DONE, NO_HUMAN, INCOMPLETE = 0, 1, 3, 5
_LEAST_PREFIX = 4
_SHOWN = 100


@prints(UndoneRecord)
@prints(ChangeRecord, many=True, when="--dry-run")
@prints(KeptRunRecord, many=True, when="--list")
@prints(KeptFileRecord, many=True, when="--run ID --list")
def undo(
    paths: Annotated[list[str] | None, typer.Argument(metavar="PATH", help="Only these, and all below.")] = None,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="The run, or the beginning of its id.", autocompletion=kept_run_ids),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Say what was kept: of the run, or of which runs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what differs, and change nothing.")] = False,
    delete_created: Annotated[
        bool, typer.Option("--delete-created", help="Also delete files that were not there before.")
    ] = False,
    project: Annotated[Path | None, typer.Option("--project", help="The project; that of this directory.")] = None,
    output: FormatOption = "table",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Put back what a run changed of files that no commit has, as they were before its first unread command.

    You see what was deleted, changed and created since, and type a word (and your key's passphrase, if you have a key).
    What is overwritten is kept first, so an undo can be undone. What git ignores was not kept; what the last commit has
    git brings back: git restore. Exit code: 5 where something could not be put back.

    Examples: hla undo --list;  hla undo --run 3f2a --dry-run;  hla undo --run 3f2a src notes.txt
    """
    human_only("undo", "takes back what a run has changed", store)
    from humanlayer_agent.confine.kept_files import KeptFiles
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.locations import kept_folder

    kept = KeptFiles(kept_folder())
    if run is None:
        if not listing:
            raise ConfigError("name the run: --run ID (hla undo --list says which were kept for)")
        raise typer.Exit(_runs(kept, output))
    top = _project(project)
    found = _named(kept, run, top)
    try:
        manifest = kept.manifest(found)
        _check_log(found, store)
        if listing:
            raise typer.Exit(_listed(manifest, output))
        now = _files(top)
        chosen = _differing(manifest, now).within(_relative(top, paths or []))
        _show(chosen, output if dry_run else "table", err=output != "table" and not dry_run)
        if dry_run or (output == "table" and not chosen):
            raise typer.Exit(DONE)
        if not delete_created:
            chosen = replace(chosen, created=())
        raise typer.Exit(_undo(kept, manifest, now, replace(chosen, committed=()), channels, store, output))
    except (OSError, StoreError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise ConfigError(f"nothing was undone: {error}") from error


def _runs(kept: "KeptFiles", output: str) -> int:
    found = kept.all()
    if output != "table":
        print_records(map(_run_record, found), output)
        return DONE
    if not found:
        typer.echo("Nothing was kept: that is done before a confined command of which nobody knows all that it writes.")
        return DONE
    rows = [
        (each.run[:12] if len(each.run) == 32 else each.run, time_text(each.at), f"{each.files:,}", each.project)
        for each in found
    ]
    _table(("run", "kept", ">files", "project"), rows)
    return DONE


def _run_record(kept: "Kept") -> KeptRunRecord:
    return {
        "run": kept.run,
        "project": kept.project,
        "at": kept.at,
        "files": kept.files,
        "bytes": kept.bytes,
        "left_out": kept.left_out,
    }


def _named(kept: "KeptFiles", run: str, top: str) -> "Kept":
    """What was kept of a project for the run of this id, or the only one whose id begins so.

    Raises:
        ConfigError: there is none, or there are several, or it is of another project.
    """
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.safe_text import one_line

    if (exact := kept.of(run, top)) is not None:
        return exact
    known = [e for e in kept.all() if e.run == run or (len(run) >= _LEAST_PREFIX and e.run.startswith(run))]
    here = [each for each in known if each.project == top]
    if len(here) > 1:
        raise ConfigError(f"{len(here)} runs begin with {one_line(run)}: give more of its id")
    if not here and known:
        where = one_line(known[0].project)
        raise ConfigError(
            f"run {one_line(run)} worked for {where}, and this is {one_line(top)}: go there, or --project"
        )
    if not here:
        raise ConfigError(f"nothing was kept for a run {one_line(run)}: hla undo --list names what there is")
    return here[0]


def _project(project: Path | None) -> str:
    from humanlayer_agent.configuration import checked_project, find_project

    return os.path.realpath(checked_project(project) if project is not None else find_project())


def _relative(top: str, paths: list[str]) -> Iterator[str]:
    from humanlayer_agent.confine.confinement import is_below
    from humanlayer_agent.errors import ConfigError

    for path in paths:
        folder, name = os.path.split(os.path.abspath(path))
        place = os.path.join(os.path.realpath(folder), name)
        if not is_below(place, top):
            raise ConfigError(f"{path} is not in {top}")
        yield os.path.relpath(place, top)


def _check_log(found: "Kept", location: str | None) -> None:
    """Raise ConfigError where the log does not say that this was kept."""
    from humanlayer_agent.audit import events
    from humanlayer_agent.errors import ConfigError

    with closing(open_store(location)) as opened:
        for entry in opened.events(type=events.FILES_KEPT.name):
            if entry.event.get("manifest") == {"sha256": found.digest}:
                return
    raise ConfigError(f"the log does not say that this was kept for run {found.run}: nothing of it is put back")


def _files(project: str) -> "ProjectFiles":
    from humanlayer_agent.agents.run_enclosures import RunEnclosures
    from humanlayer_agent.confine.confinement import Unenforceable
    from humanlayer_agent.confine.project_files import project_files

    try:
        return RunEnclosures.of("hla undo", project).files()
    except (Unenforceable, OSError):
        return project_files(project, None)


def _differing(manifest: "Manifest", now: "ProjectFiles") -> "Changes":
    from humanlayer_agent.confine.restoration import changes

    return changes(manifest, now)


def _listed(manifest: "Manifest", output: str) -> int:
    import stat

    rows = [(file.path, stat.filemode(file.mode), file.size, file.content) for file in manifest.files]
    if output != "table":
        listed: list[KeptFileRecord] = [
            {"path": path, "kept": True, "mode": mode, "bytes": size, "sha256": content, "why": None}
            for path, mode, size, content in rows
        ]
        listed += [
            {"path": left.path, "kept": False, "mode": None, "bytes": None, "sha256": None, "why": left.why}
            for left in manifest.left
        ]
        print_records(listed, output)
        return DONE
    _table(("mode", ">bytes", "path"), [(mode, _size(size), path) for path, mode, size, _ in rows])
    if manifest.left:
        typer.echo("\nNot kept:")
        _table(("why", "path"), [(left.why, left.path) for left in manifest.left])
    typer.echo(f"\n{len(manifest.committed)} files are as the last commit has them, and were not kept.")
    if manifest.ignored:
        typer.echo(f"What git ignores was not kept either: {_some(manifest.ignored)}.")
    if manifest.held:
        typer.echo(f"Nor was what commands can't write: {_some(manifest.held)}.")
    return DONE


def _show(found: "Changes", output: str, *, err: bool) -> None:
    """Say what differs.

    Args:
        err: where standard output is for programs, and a person is to see it all the same.
    """
    rows: list[tuple[Literal["deleted", "changed", "created", "committed"], str]] = [
        *(("deleted", file.path) for file in found.deleted),
        *(("changed", file.path) for file in found.changed),
        *(("created", path) for path in found.created),
        *(("committed", path) for path in found.committed),
    ]
    if output != "table":
        records: Iterator[ChangeRecord] = ({"path": path, "change": change} for change, path in rows)
        print_records(records, output)
        return
    if not rows:
        typer.echo("Nothing differs from what was kept.", err=err)
        return
    _table(("since then", "path"), rows[:_SHOWN], err=err)
    if len(rows) > _SHOWN:
        typer.echo(f"and {len(rows) - _SHOWN} more: --dry-run --format jsonl shows all", err=err)
    if found.committed:
        typer.echo('"committed": the last commit had it so, and it differs now; git restore brings it back.', err=err)


def _undo(
    kept: "KeptFiles",
    manifest: "Manifest",
    now: "ProjectFiles",
    chosen: "Changes",
    channels: Path | None,
    location: str | None,
    output: str,
) -> int:
    from humanlayer_agent.errors import NoTerminal
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.processes.tty import controlling_terminal

    nothing: UndoneRecord = {"restored": [], "deleted": [], "failed": {}, "undo": None}
    if not chosen:
        typer.echo("Nothing to put back; --delete-created deletes what is new.", err=output != "table")
        if output != "table":
            print_record(nothing, output)
        return DONE
    protect_secrets()
    try:
        with controlling_terminal() as fd, closing(open_to_write(location)) as opened:
            if not _agreed(fd, chosen, channels, opened):
                typer.echo("nothing was undone", err=output != "table")
                if output != "table":
                    print_record(nothing, output)
                return NOT_DONE
            return _said(*_done(kept, manifest, now, chosen, opened), bool(chosen.deleted), output)
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: nothing was undone: only a human at a terminal does that: {error}", err=True)
        return NO_HUMAN


def _agreed(fd: int, chosen: "Changes", channels: Path | None, opened: "SQLStore") -> bool:
    """Take the word for it, and the passphrase of a human who has a key."""
    from humanlayer_agent.audit import events
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.locations import key_path
    from humanlayer_agent.processes.identity import os_user

    def wrong() -> None:
        opened.record(events.SUPERVISION_REFUSED, wanted="undo", by=os_user(), refusal="wrong-passphrase")

    acts = [f"puts back {len(chosen.deleted) + len(chosen.changed)} files"]
    acts += [f"DELETES {len(chosen.created)} files that were not there"] if chosen.created else []
    if not typed_word(fd, f"This {' and '.join(acts)}; what it overwrites is kept first.", "undo", "do that"):
        return False
    if not os.path.lexists(key_path()):
        return True
    return bool(ask(fd, credentials(channels)[1], wrong=wrong))


def _done(
    kept: "KeptFiles", manifest: "Manifest", now: "ProjectFiles", chosen: "Changes", opened: "SQLStore"
) -> "tuple[Kept, Undone]":
    from humanlayer_agent.audit import events
    from humanlayer_agent.confine import restoration
    from humanlayer_agent.processes.identity import os_user

    before = restoration.keep_before(kept, f"undo-{secrets.token_hex(4)}", manifest, now, chosen)
    opened.record(events.FILES_KEPT, by=os_user(), **before.logged)
    opened.record(
        events.FILES_RESTORED,
        by=os_user(),
        name=manifest.run,
        project=manifest.project,
        files=len(chosen.deleted) + len(chosen.changed),
        deleted=len(chosen.created),
        undo=before.run,
    )
    return before, restoration.undo(kept, manifest, kept.manifest(before), chosen)


def _said(before: "Kept", done: "Undone", made: bool, output: str) -> int:
    from humanlayer_agent.safe_text import one_line

    if output != "table":
        told: UndoneRecord = {
            "restored": list(done.restored),
            "deleted": list(done.removed),
            "failed": done.failed,
            "undo": before.run,
        }
        print_record(told, output)
        return INCOMPLETE if done.failed else DONE
    more = " --delete-created" if made else ""
    removed = f", deleted {len(done.removed)}" if done.removed else ""
    typer.echo(f"put back {len(done.restored)} files{removed}; hla undo --run {before.run}{more} takes that back")
    for path, why in done.failed.items():
        typer.echo(f"NOT undone: {one_line(path)}: {one_line(why)}", err=True)
    return INCOMPLETE if done.failed else DONE


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, err: bool = False) -> None:
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    print_rows(console(err=err), titles, [[one_line(cell) for cell in row] for row in rows], whole=True)


def _size(count: int) -> str:
    return f"{count:,}"


def _some(paths: tuple[str, ...], shown: int = 5) -> str:
    from humanlayer_agent.safe_text import one_line

    more = len(paths) - shown
    return ", ".join(map(one_line, paths[:shown])) + (f" and {more} more" if more > 0 else "")
