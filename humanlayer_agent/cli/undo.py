"""`hla undo`: what commands have changed of a project's files, and the way back."""

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.completion import kept_run_ids
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_signature import credentials, open_to_write, typed_word
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import DiffRecord, KeptRecord, UndoneRecord, UndoStepRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text

if TYPE_CHECKING:
    from humanlayer_agent.confine.project_files import ProjectFiles
    from humanlayer_agent.store.sqlite import SQLStore
    from humanlayer_agent.undo.kept_files import Kept, KeptFiles, Manifest
    from humanlayer_agent.undo.restoration import Changes, Plan, Step, Undone

DONE, NOT_DONE, NO_HUMAN, REFUSED = 0, 1, 3, 5
_LEAST_PREFIX = 4
_SHOWN = 100
_SHORT = 12
_LONGEST_TEXT = 1 << 20
_NOTHING = (
    "Nothing was kept: that is done before a confined command of which nobody knows all that it writes, and with "
    "`undo: run` in the policy before every command."
)
_NO_END = "How it ended is not known, so all that is different since counts as its own."

app = Commands(
    help="""See what commands have changed of a project's files, and put it back.

    With `undo: run` in the policy, what each command replaces is kept. Without it, the files that no commit has are
    kept once for a run, before the first confined command of which nobody knows all that it writes.

    Examples: hla undo ls;  hla undo show 3f2a;  hla undo apply 3f2a"""
)

PermitArgument = Annotated[
    str | None,
    typer.Argument(metavar="PERMIT", help="A permit or an undo that hla undo ls names, or the beginning of its id."),
]
PathsOption = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="PATH", help="Only this, and all below it; may stand several times."),
]
RunOption = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="ID", help="All that a run changed: its id, or the beginning.", autocompletion=kept_run_ids
    ),
]
ProjectOption = Annotated[Path | None, typer.Option("--project", help="The project; that of this directory.")]


class _Known:
    """What is kept, and what of it the log knows: each is looked up once.

    Args:
        kept: the folder.
        store: the store with the log; the user's own where it is None.
    """

    def __init__(self, kept: "KeptFiles", store: str | None) -> None:
        self.kept, self._store = kept, store
        self._manifests: dict[str, list[Manifest]] = {}

    @cached_property
    def logged(self) -> dict[str, str]:
        """Return, by the digest of each list of files that the log knows, the permit, or undo, that it is of."""
        from humanlayer_agent.audit import events

        found: dict[str, str] = {}
        with closing(open_store(self._store)) as opened:
            for kind in (events.FILES_KEPT.name, events.EXEC_FINISHED.name):
                for entry in opened.events(type=kind):
                    said = entry.event.get("files") if kind == events.EXEC_FINISHED.name else entry.event
                    if isinstance(said, dict) and isinstance(manifest := said.get("manifest"), dict):
                        found[str(manifest.get("sha256"))] = str(entry.event.get("permit") or "")
        return found

    def manifests(self, project: str) -> "list[Manifest]":
        """Return what was kept for the permits of a project."""
        from humanlayer_agent.undo.restoration import manifests_of

        if project not in self._manifests:
            self._manifests[project] = manifests_of(self.kept, project, self.logged)
        return self._manifests[project]

    def check(self, named: "Iterable[Kept]") -> None:
        """Raise ConfigError where the log does not say that this was kept."""
        from humanlayer_agent.errors import ConfigError

        for each in named:
            if self.logged.get(each.digest) != each.permit:
                raise ConfigError(f"the log does not say that this was kept for {each.name}: nothing of it is put back")


@dataclass(frozen=True, slots=True)
class _Target:
    """What is to be undone: permits, or what was kept once for a run.

    Args:
        name: as it was called.
        run: the run.
        project: its directory.
        plan: what an undo would do.
        manifests: what was kept.
        committed: files that only git can bring back.
        stays: files that are new, and stay all the same.
    """

    name: str
    run: str
    project: str
    plan: "Plan"
    manifests: "tuple[Manifest, ...]"
    committed: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()

    @property
    def beyond(self) -> list[str]:
        """Return what no undo takes back, in sentences."""
        return list(dict.fromkeys(each for manifest in self.manifests for each in manifest.beyond))


@app.command()
@prints(KeptRecord, many=True)
def ls(
    run: RunOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Of all projects.")] = False,
    last: Annotated[int, typer.Option("--last", metavar="N", help="So many, the newest.")] = 50,
    project: ProjectOption = None,
    output: FormatOption = "table",
    store: StoreOption = None,
) -> None:
    """List what was kept, the newest last: permits and runs, what can be undone of them, how much that takes.

    Examples: hla undo ls;  hla undo ls --run 3f2a;  hla undo ls --all --format jsonl
    """
    human_only("undo ls", "looks at what can be undone", store)
    from humanlayer_agent.undo.restoration import short

    with _explained(store) as known:
        kept, top = known.kept, _project(project)
        found = [each for each in kept.all() if everything or each.project == top]
        if run is not None:
            found = [each for each in found if each.run.startswith(run)]
        rows = [_kept_record(known, each) for each in reversed(found[:last])]
        if output != "table":
            print_records(rows, output)
            raise typer.Exit(DONE)
        if not rows:
            typer.echo(_NOTHING)
            raise typer.Exit(DONE)
        titles = ("permit or run", "run", "when", ">made", ">changed", ">deleted", ">bytes", "can be undone")
        _table(
            titles,
            [
                (
                    short(row["permit"] or row["run"]),
                    row["run"][:_SHORT],
                    time_text(row["at"]),
                    *(f"{row[name]:,}" if row["permit"] else "" for name in ("created", "changed", "deleted")),
                    f"{row['bytes']:,}",
                    "yes" if row["undoable"] else row["why"],
                )
                for row in rows
            ],
        )
        _say_interrupted(kept, top)


@app.command()
@prints(UndoStepRecord, many=True)
def show(
    permit: PermitArgument = None,
    run: RunOption = None,
    project: ProjectOption = None,
    output: FormatOption = "table",
    store: StoreOption = None,
) -> None:
    """Show what a command, or a run, has changed: files, what an undo does to each, and what no undo takes back.

    Examples: hla undo show 3f2a;  hla undo show --run 81c0
    """
    human_only("undo show", "looks at what can be undone", store)
    with _explained(store) as known:
        target = _target(known, permit, run, _project(project))
        if output != "table":
            print_records(_step_records(target), output)
        else:
            _show(target)


@app.command()
@prints(DiffRecord, many=True)
def diff(
    permit: PermitArgument = None,
    run: RunOption = None,
    paths: PathsOption = None,
    project: ProjectOption = None,
    output: FormatOption = "table",
    store: StoreOption = None,
) -> None:
    """Show what an undo would change of texts, as diff -u has it; secrets are hidden.

    Examples: hla undo diff 3f2a;  hla undo diff 3f2a --path src
    """
    human_only("undo diff", "looks at what can be undone", store)
    from humanlayer_agent.safe_text import one_line

    with _explained(store) as known:
        target = _target(known, permit, run, _project(project), paths or ())
        rows = _diffs(known.kept, target)
        if output != "table":
            print_records(rows, output)
            raise typer.Exit(DONE)
        for row in rows:
            typer.echo(row["diff"] or one_line(f"{row['path']}: {row['why']}"))


@app.command()
@prints(UndoneRecord)
@prints(UndoStepRecord, many=True, when="--dry-run")
def apply(
    permit: PermitArgument = None,
    run: RunOption = None,
    paths: PathsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    delete_created: Annotated[
        bool,
        typer.Option("--delete-created", help="Of a run without `undo: run`: also delete files that were not there."),
    ] = False,
    project: ProjectOption = None,
    output: FormatOption = "table",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Undo what a command, or a run, has changed, as a whole or not at all.

    You see what is done, and type a word (and your key's passphrase, if you have a key). A file that was changed since
    is a reason to refuse: undo that first, or name other files by --path. What is overwritten is kept first, so an undo
    can be undone. An undo that was interrupted is finished first; with neither a permit nor a run, only that is done.

    Exit codes: 5 refused or not done, and why; 1 another word was typed; 3 there is no human.

    Examples: hla undo apply 3f2a --dry-run;  hla undo apply 3f2a;  hla undo apply --run 81c0 --path src
    """
    human_only("undo apply", "takes back what an agent has changed", store)
    from humanlayer_agent.errors import ConfigError

    with _explained(store) as known:
        kept, top = known.kept, _project(project)
        finished = False if dry_run else _finish_interrupted(known, top)
        if permit is None and run is None and (finished or dry_run is False):
            if finished:
                raise typer.Exit(DONE)
            raise ConfigError("name a permit or a run (hla undo ls says which there are); no undo was interrupted")
        target = _target(known, permit, run, top, paths or (), delete_created=delete_created)
        if dry_run and output != "table":
            print_records(_step_records(target), output)
        else:
            _show(target, err=output != "table")
        if target.plan.refused:
            if output != "table" and not dry_run:
                print_record(_told(refused=dict(target.plan.refused)), output)
            raise typer.Exit(REFUSED)
        if dry_run:
            raise typer.Exit(DONE)
        if not target.plan.steps:
            if output != "table":
                print_record(_told(), output)
            raise typer.Exit(DONE)

        def again() -> "_Target":
            return _target(_Known(kept, store), permit, run, top, paths or (), delete_created=delete_created)

        raise typer.Exit(_apply(kept, target, again, channels, store, output))


# ---- what is meant --------------------------------------------------------------------------------------


@contextmanager
def _explained(store: str | None) -> "Iterator[_Known]":
    """Give what is kept; what is wrong with it is a ConfigError."""
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.locations import kept_folder
    from humanlayer_agent.safe_text import one_line
    from humanlayer_agent.undo.kept_files import KeptFiles

    try:
        yield _Known(KeptFiles(kept_folder()), store)
    except BlockingIOError as error:
        raise ConfigError(
            "a command of an agent is changing files of this project right now: wait for its end, or hla stop"
        ) from error
    except (OSError, StoreError, ValueError, KeyError, TypeError, zlib.error) as error:
        raise ConfigError(f"nothing was undone: {one_line(str(error))}") from error


def _project(project: Path | None) -> str:
    from humanlayer_agent.configuration import checked_project, find_project

    return os.path.realpath(checked_project(project) if project is not None else find_project())


def _target(
    known: _Known,
    permit: str | None,
    run: str | None,
    top: str,
    paths: Iterable[str] = (),
    *,
    delete_created: bool = False,
) -> _Target:
    """What is meant by a permit or a run, and how it would be undone.

    Raises:
        ConfigError: there is no such thing, or the log does not know of it.
    """
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.undo.restoration import plan_of

    if (permit is None) == (run is None):
        raise ConfigError("name either a permit or a run: hla undo ls says which there are")
    kept = known.kept
    named = _named(kept, permit, run, top)
    known.check(named)
    chosen = list(_relative(top, paths))
    if not named[0].permit:
        return _since(kept, named[0], chosen, delete_created=delete_created)
    own, found = {each.permit for each in named}, known.manifests(top)
    manifests = tuple(each for each in found if each.permit in own)
    plan = plan_of(kept, manifests, [each for each in found if each.permit not in own], chosen)
    return _Target(permit or run or "", manifests[0].run, top, plan, manifests)


def _named(kept: "KeptFiles", permit: str | None, run: str | None, top: str) -> "list[Kept]":
    """What was kept for the permit, or the run, of this id, or the only one whose id begins so: for a run, what was
    kept for each of its permits, and undos of these; else what was kept once.
    """
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.safe_text import one_line
    from humanlayer_agent.undo.restoration import UNDO

    wanted = permit if permit is not None else run or ""
    kind = "permit" if permit is not None else "run"

    def begins(name: str) -> bool:
        return name == wanted or (len(wanted) >= _LEAST_PREFIX and name.startswith(wanted))

    known = [each for each in kept.all() if begins(getattr(each, kind)) and (each.permit or permit is None)]
    here = [each for each in known if each.project == top]
    names = {getattr(each, kind) for each in here}
    if wanted in names:
        names, here = {wanted}, [each for each in here if getattr(each, kind) == wanted]
    if len(names) > 1:
        raise ConfigError(f"{len(names)} {kind}s begin with {one_line(wanted)}: give more of its id")
    if not here and known:
        where = one_line(known[0].project)
        raise ConfigError(
            f"{kind} {one_line(wanted)} worked for {where}, and this is {one_line(top)}: go there, or --project"
        )
    if not here:
        raise ConfigError(f"nothing was kept for a {kind} {one_line(wanted)}: hla undo ls names what there is")
    if permit is None and all(not each.permit or each.permit.startswith(UNDO) for each in here):
        return [each for each in here if not each.permit] or here
    return [each for each in here if each.permit]


def _relative(top: str, paths: Iterable[str]) -> Iterator[str]:
    from humanlayer_agent.confine.confinement import is_below
    from humanlayer_agent.errors import ConfigError

    for path in paths:
        folder, name = os.path.split(os.path.abspath(path))
        place = os.path.join(os.path.realpath(folder), name)
        if not is_below(place, top):
            raise ConfigError(f"{path} is not in {top}")
        yield os.path.relpath(place, top)


def _since(kept: "KeptFiles", record: "Kept", paths: list[str], *, delete_created: bool) -> _Target:
    """How what differs from what was kept once for a run is undone."""
    from humanlayer_agent.undo.restoration import changes, plan_since

    manifest = kept.manifest(record)
    chosen: Changes = changes(manifest, _files(record.project)).within(paths)
    stays = () if delete_created else chosen.created
    plan = plan_since(kept, manifest, replace(chosen, created=chosen.created if delete_created else ()))
    return _Target(record.run, record.run, record.project, plan, (manifest,), chosen.committed, stays)


def _files(project: str) -> "ProjectFiles":
    from humanlayer_agent.agents.run_enclosures import RunEnclosures
    from humanlayer_agent.confine.confinement import Unenforceable
    from humanlayer_agent.confine.project_files import project_files

    try:
        return RunEnclosures.of("hla undo", project).files()
    except (Unenforceable, OSError):
        return project_files(project, None)


# ---- what is shown --------------------------------------------------------------------------------------


def _kept_record(known: _Known, record: "Kept") -> KeptRecord:
    from humanlayer_agent.errors import ConfigError

    undoable, why = True, ""
    if record.permit:
        try:
            plan = _target(known, record.permit, None, record.project).plan
            refused = next(iter(plan.refused.items()), None)
            undoable = refused is None and bool(plan.steps)
            why = f"no: {refused[0]}: {refused[1]}" if refused else "" if plan.steps else "nothing is left to undo"
        except (ConfigError, OSError, ValueError) as error:
            undoable, why = False, f"no: {error}"
    return {
        "run": record.run,
        "permit": record.permit or None,
        "project": record.project,
        "at": record.at,
        "files": record.files,
        "created": record.created,
        "changed": record.changed,
        "deleted": record.deleted,
        "bytes": record.bytes,
        "left_out": record.left_out,
        "undoable": undoable,
        "why": why,
    }


def _step_records(target: _Target) -> Iterator[UndoStepRecord]:
    plan = target.plan
    for step in plan.steps:
        if step.path not in plan.refused:
            yield {"path": step.path, "undo": step.kind, "bytes": step.then.size, "why": ""}
    for path in plan.done:
        yield {"path": path, "undo": "done", "bytes": 0, "why": ""}
    for path, why in plan.refused.items():
        yield {"path": path, "undo": "refused", "bytes": 0, "why": why}
    for path in target.committed:
        yield {"path": path, "undo": "committed", "bytes": 0, "why": ""}
    for path in target.stays:
        yield {"path": path, "undo": "stays", "bytes": 0, "why": ""}
    for manifest in target.manifests:
        for left in manifest.left:
            yield {"path": left.path, "undo": "not kept", "bytes": 0, "why": left.why}
    for said in target.beyond:
        yield {"path": "", "undo": "beyond", "bytes": 0, "why": said}


_MEANS = {
    "delete": "is new: goes",
    "restore": "was deleted: comes back",
    "change": "was changed: as it was",
    "mode": "its mode was changed: as it was",
    "done": "is as it was already",
    "refused": "NOT undone",
    "stays": "is new: stays",
    "committed": "git has it: git restore",
    "not kept": "was not kept",
}


def _show(target: _Target, *, err: bool = False) -> None:
    """Say what an undo would do.

    Args:
        err: where standard output is for programs, and a person is to see it all the same.
    """
    found = [row for row in _step_records(target) if row["undo"] != "beyond"]
    if not found:
        typer.echo("Nothing differs from what was kept.", err=err)
    else:
        rows = [(_MEANS[row["undo"]], row["path"], row["why"]) for row in found]
        _table(("what an undo does", "path", "why"), rows[:_SHOWN], err=err)
        if len(rows) > _SHOWN:
            typer.echo(f"and {len(rows) - _SHOWN} more: --dry-run --format jsonl shows all", err=err)
    if any(not manifest.until and manifest.permit for manifest in target.manifests):
        typer.echo(_NO_END, err=err)
    if target.beyond:
        typer.echo("\nNo undo takes back:", err=err)
        for said in target.beyond:
            typer.echo(f"  {said}", err=err)
    if target.plan.refused:
        typer.echo("\nIt can't be undone as a whole: --path names what shall come back of it.", err=err)


def _diffs(kept: "KeptFiles", target: _Target) -> Iterator[DiffRecord]:
    import stat

    for step in target.plan.steps:
        texts = [_text(kept, target.project, step, then=then) for then in (False, True)]
        diff, why = "", ""
        if any(stat.S_ISDIR(each.mode) for each in (step.now, step.then)):
            why = f"folder: {step.kind}"
        elif step.kind == "mode":
            why = f"mode {stat.filemode(step.now.mode)} becomes {stat.filemode(step.then.mode)}"
        elif None in texts:
            why = f"no text, or too long: {step.now.size:,} bytes now, {step.then.size:,} then"
        else:
            diff = _unified(step.path, *(text or "" for text in texts))
            why = "" if diff else "it differs only in what is hidden"
        yield {"path": step.path, "diff": diff, "why": why}
    for path, why in target.plan.refused.items():
        yield {"path": path, "diff": "", "why": f"not undone: {why}"}


def _text(kept: "KeptFiles", project: str, step: "Step", *, then: bool) -> str | None:
    """The text of a file now, or as it was, without secrets; None where it is none."""
    import stat

    from humanlayer_agent.redaction.redactor import Redactor
    from humanlayer_agent.undo.folder_descriptors import open_file, opened_folder, parent_of

    file = step.then if then else step.now
    if not file.mode:
        return ""
    if file.size > _LONGEST_TEXT or not file.content:
        return None
    if then:
        content = kept.content(file.content)
    else:
        with opened_folder(project) as top, parent_of(top, step.path, git=True) as (folder, name):
            if stat.S_ISLNK(file.mode):
                content = os.fsencode(os.readlink(name, dir_fd=folder))
            else:
                with open(open_file(folder, name), "rb") as opened:
                    content = opened.read(_LONGEST_TEXT + 1)
    if b"\0" in content:
        return None
    try:
        return Redactor().text(content.decode()).text
    except UnicodeDecodeError:
        return None


def _unified(path: str, now: str, then: str) -> str:
    from difflib import unified_diff

    from humanlayer_agent.safe_text import one_line, visible

    shown = one_line(path)
    lines = unified_diff(now.splitlines(), then.splitlines(), f"{shown} (now)", f"{shown} (undone)", lineterm="")
    return "\n".join(visible(line, keep="\t") for line in lines)


# ---- what is done ---------------------------------------------------------------------------------------


def _apply(
    kept: "KeptFiles",
    target: _Target,
    again: Callable[[], _Target],
    channels: Path | None,
    location: str | None,
    output: str,
) -> int:
    from humanlayer_agent.errors import NoTerminal
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.processes.tty import controlling_terminal

    protect_secrets()
    try:
        with controlling_terminal() as fd, closing(open_to_write(location)) as opened:
            if not _agreed(fd, target.plan, channels, opened):
                typer.echo("nothing was undone", err=output != "table")
                if output != "table":
                    print_record(_told(), output)
                return NOT_DONE
            with kept.in_use(target.project, alone=True):
                now = again()
                if now.plan != target.plan:
                    why = dict(now.plan.refused) or {"": "something was changed while you looked: see it again"}
                    return _said(_told(refused=why), output)
                return _said(_done(kept, now, opened), output)
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: nothing was undone: only a human at a terminal does that: {error}", err=True)
        return NO_HUMAN


def _agreed(fd: int, plan: "Plan", channels: Path | None, opened: "SQLStore") -> bool:
    """Take the word for it, and the passphrase of a human who has a key."""
    from humanlayer_agent.audit import events
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.locations import key_path
    from humanlayer_agent.processes.identity import os_user

    def wrong() -> None:
        opened.record(events.SUPERVISION_REFUSED, wanted="undo", by=os_user(), refusal="wrong-passphrase")

    deleted = sum(step.kind == "delete" for step in plan.steps)
    acts = [f"puts back {len(plan.steps) - deleted} files and folders"] if deleted < len(plan.steps) else []
    acts += [f"DELETES {deleted} that were not there"] if deleted else []
    if not typed_word(fd, f"This {' and '.join(acts)}; what it overwrites is kept first.", "undo", "do that"):
        return False
    if not os.path.lexists(key_path()):
        return True
    return bool(ask(fd, credentials(channels)[1], wrong=wrong))


def _done(kept: "KeptFiles", target: _Target, opened: "SQLStore") -> UndoneRecord:
    from humanlayer_agent.audit import events
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.undo import restoration

    before = restoration.keep_before(kept, target.run, target.plan)
    opened.record(events.FILES_KEPT, by=os_user(), permit=before.permit, **before.logged)
    deleted = sum(step.kind == "delete" for step in target.plan.steps)
    opened.record(
        events.FILES_RESTORED,
        by=os_user(),
        name=target.run,
        permit=target.manifests[0].permit or None if len(target.manifests) == 1 else None,
        project=target.project,
        files=len(target.plan.steps) - deleted,
        deleted=deleted,
        undo=before.permit,
    )
    return _told(restoration.undo(kept, target.plan, before), before.permit)


def _finish_interrupted(known: _Known, top: str) -> bool:
    """Finish what a human had agreed to before it was interrupted; tell whether there was something.

    Raises:
        ConfigError: the log does not say that it was begun.
    """
    from humanlayer_agent.undo.restoration import finish, interrupted

    found = interrupted(known.kept, top)
    known.check(found)
    for record in found:
        with known.kept.in_use(top, alone=True):
            done = finish(known.kept, record)
        typer.echo(f"{record.permit} had been interrupted, and is finished now.", err=True)
        _say_failed(done.failed)
    return bool(found)


def _say_interrupted(kept: "KeptFiles", top: str) -> None:
    from humanlayer_agent.undo.restoration import interrupted

    for record in interrupted(kept, top):
        typer.echo(f"{record.permit} was interrupted, and is half done: hla undo apply finishes it", err=True)


def _told(
    done: "Undone | None" = None, undo: str | None = None, *, refused: dict[str, str] | None = None
) -> UndoneRecord:
    failed = dict(refused or {}) | (dict(done.failed) if done is not None else {})
    return {
        "restored": list(done.restored) if done is not None else [],
        "deleted": list(done.removed) if done is not None else [],
        "failed": failed,
        "left": list(done.left) if done is not None else [],
        "undo": undo,
    }


def _said(told: UndoneRecord, output: str) -> int:
    from humanlayer_agent.safe_text import one_line

    if output != "table":
        print_record(told, output)
    elif not told["failed"]:
        removed = f", deleted {len(told['deleted'])}" if told["deleted"] else ""
        typer.echo(f"put back {len(told['restored'])} files{removed}; hla undo apply {told['undo']} takes that back")
    else:
        typer.echo("nothing was undone", err=True)
        _say_failed(told["failed"])
        for path in told["left"]:
            typer.echo(f"and could not be put back to how it was before: {one_line(path)}", err=True)
    return REFUSED if told["failed"] else DONE


def _say_failed(failed: Mapping[str, str]) -> None:
    from humanlayer_agent.safe_text import one_line

    for path, why in failed.items():
        typer.echo(f"NOT undone: {one_line(path)}: {one_line(why)}" if path else one_line(why), err=True)


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, err: bool = False) -> None:
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    print_rows(console(err=err), titles, [[one_line(cell) for cell in row] for row in rows], whole=True)
