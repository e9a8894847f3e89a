"""Puts kept files back: what is to be done is found out first, and is then done as a whole or not at all.

Nothing is followed that was planted, nothing is overwritten that is not as it was left, and what goes is kept first. A
journal stands while it is done: who is killed meanwhile has it finished by the next one.
"""

import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Literal

from humanlayer_agent.confine.confinement import Bounds, within
from humanlayer_agent.confine.project_files import ProjectFiles
from humanlayer_agent.confine.repository import changes_nothing_that_runs, runs_nothing
from humanlayer_agent.locations import read_own_json, write_own_json
from humanlayer_agent.shell import index_names, missing_objects
from humanlayer_agent.undo.folder_descriptors import open_file, opened_folder, parent_of, state_of
from humanlayer_agent.undo.kept_files import PERMISSIONS, Kept, KeptFile, KeptFiles, Manifest
from humanlayer_agent.undo.permit_changes import (
    ATTRIBUTES_OF_A_FOLDER,
    GIT,
    NOT_SEEN,
    SEVERAL_NAMES,
    ended,
    is_object,
    observed,
    repository_of,
    taken,
)

_ALL = Bounds(files=10_000_000, bytes=1 << 50, days=36_500)
"""What an undo overwrites is kept as a whole, and nothing goes for it."""
UNDO = "undo-"
"""The names of undos begin so; no permit's does."""
_LARGEST_TEXT = 1 << 20
_USUAL = 0o777
_LARGEST_INDEX = 1 << 26
_MOST_NAMES = 5_000
_GIT_DATA = re.compile(
    r"(?:[A-Z_]*HEAD|AUTO_MERGE|(?:COMMIT_EDIT|MERGE_|SQUASH_|TAG_EDIT)MSG|MERGE_(?:MODE|RR)|index|packed-refs|shallow"
    r"|description|info/(?:exclude|refs)|(?:refs|logs|objects|branches|rr-cache)/.+|hooks/[^/]+\.sample)"
)
"""What of a repository's own files never has git run anything."""
_NAME = re.compile(rb"\b[0-9a-f]{40}\b")
_CHANGED = "it was changed since, {by}"
_BY_HAND = "by hand, or by something before which nothing was kept"
_RUNS_CODE = "git may run code by it: name exactly this path, too, where it is to come back"
_BESIDE = "{other} ran at the same time, and which of them changed it is not known"
_BETWEEN = "between two commands of the run it was changed by something else"
_LATER = "{name} came into it later"
_GONE = "the folder that it was in is gone"
_OTHERS = "it belongs to another user, or to a group that is not yours"
_PRUNED = "git no longer has {name}, which it refers to"
_UNWRITABLE = "its folder can't be written"


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from what was kept for a run.

    Args:
        deleted: kept files that are gone; a folder may stand there.
        changed: kept files with another content, mode or type.
        created: files that were not there; what git ignores is not looked for.
        committed: files that the last commit had as they were, and that differ: git has them.
    """

    deleted: tuple[KeptFile, ...] = ()
    changed: tuple[KeptFile, ...] = ()
    created: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deleted or self.changed or self.created or self.committed)

    def within(self, paths: Iterable[str]) -> "Changes":
        """Return those of these paths, and of what is below them; all of them where none is given."""
        has = _Chosen(paths).has
        return Changes(
            tuple(file for file in self.deleted if has(file.path)),
            tuple(file for file in self.changed if has(file.path)),
            tuple(path for path in self.created if has(path)),
            tuple(path for path in self.committed if has(path)),
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One file, link or folder: how it is now, and how it is to be; both have mode 0 where it is not there."""

    now: KeptFile
    then: KeptFile

    @property
    def path(self) -> str:
        """Return where it is, from the project on."""
        return self.now.path

    @property
    def kind(self) -> Literal["delete", "restore", "change", "mode"]:
        """Return what the step does, for people."""
        if not self.then.mode:
            return "delete"
        if not self.now.mode:
            return "restore"
        same = stat.S_IFMT(self.now.mode) == stat.S_IFMT(self.then.mode) and self.now.content == self.then.content
        return "mode" if same else "change"


@dataclass(frozen=True, slots=True)
class Plan:
    """What an undo would do.

    Args:
        project: the directory.
        steps: what is to be done.
        refused: by path, why it can't be undone: then nothing is.
        done: paths that are as they were, already.
    """

    project: str
    steps: tuple[Step, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    done: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """What came of an undo.

    Args:
        restored, removed: paths that are as they were again, and that were deleted.
        failed: by path, why not: then nothing was undone, but for what `left` names.
        left: paths that could not be put back to what they were before the undo began.
    """

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()


class _Chosen:
    def __init__(self, paths: Iterable[str]) -> None:
        self.exact = frozenset(path.rstrip("/") for path in paths)

    def has(self, path: str) -> bool:
        return not self.exact or any(each in (".", path) or path.startswith(f"{each}/") for each in self.exact)


# ---- what is to be done -------------------------------------------------------------------------------


def changes(manifest: Manifest, now: ProjectFiles) -> Changes:
    """Return what became of the files of a project since they were kept for a run.

    Args:
        manifest: what was kept.
        now: its files now.

    Raises:
        OSError: the project is not there.
    """
    deleted: list[KeptFile] = []
    changed: list[KeptFile] = []
    with opened_folder(manifest.project) as top:
        for file in manifest.files:
            found = observed(top, file.path)
            if not found.mode or stat.S_ISDIR(found.mode):
                deleted.append(file)
            elif not found.is_as(file):
                changed.append(file)
    there = {*(file.path for file in manifest.files), *manifest.held, *manifest.committed}
    there |= {each.path for each in manifest.left}
    hidden = (*manifest.ignored, *manifest.unseen)
    folders, names = tuple(each for each in hidden if each.endswith("/")), frozenset(hidden)
    created = [
        path
        for path in now.loose
        if path not in there
        and path not in names
        and not path.startswith(folders)
        and not within(f"{manifest.project}/{path}", manifest.untouchable)
    ]
    differ = set(manifest.committed) - now.committed if now.repository else set()
    return Changes(tuple(deleted), tuple(changed), tuple(sorted(created)), tuple(sorted(differ)))


def plan_since(kept: KeptFiles, manifest: Manifest, chosen: Changes) -> Plan:
    """Return how what differs from what was kept for a run is undone, whoever has changed it since.

    Args:
        kept: where.
        manifest: what was kept.
        chosen: of `changes`.

    Raises:
        OSError: the project is not there.
    """
    with opened_folder(manifest.project) as top:
        before = {file.path: file for file in (*chosen.deleted, *chosen.changed)}
        before |= {path: KeptFile(path, 0, 0, "") for path in chosen.created}
        after = {path: observed(top, path) for path in before}
        for path in [path for path, file in after.items() if stat.S_ISDIR(file.mode)]:
            for below, file in _folders_below(top, path):  # empty folders may stand in the place of a file
                after[below] = file
                before[below] = KeptFile(below, 0, 0, "")
        for path in list(before):  # the folders that files were in were not kept
            if before[path].mode:
                for above in _parents(path):
                    if not before[above].mode if above in before else state_of(top, above) is None:
                        before[above] = KeptFile(above, stat.S_IFDIR | _USUAL & ~_umask(), 0, "")
                        after.setdefault(above, KeptFile(above, 0, 0, ""))
        return _Planner(kept, manifest.project, top, frozenset(), {}).plan(before, after)


def manifests_of(kept: KeptFiles, project: str, known: Container[str] | None = None) -> list[Manifest]:
    """Return what was kept for each permit in a project, and for each undo, in the order in which they ran.

    Where it is not known how a command left things, since its supervisor was killed, that is how they are now.

    Args:
        kept: where.
        project: its directory.
        known: the digests of those that the log knows: no others count.

    Raises:
        OSError: something of it is gone, or the project is.
    """
    found = []
    for record in reversed(kept.all()):
        if record.project == project and record.permit and (known is None or record.digest in known):
            manifest = kept.manifest(record)
            if manifest.after is None:
                manifest, _ = ended(manifest, _ALL, whole="" in manifest.scope)
            found.append(manifest)
    return found


def plan_of(
    kept: KeptFiles, manifests: Sequence[Manifest], others: Sequence[Manifest], paths: Iterable[str] = ()
) -> Plan:
    """Return how what the commands of permits changed is undone, where nothing has changed it since.

    Args:
        kept: where it is kept.
        manifests: of one permit, or of all permits of a run; in the order in which they ran.
        others: of the other permits in this project: they say who changed something since, or at the same time.
        paths: only these, and what is below them; all where none is given. What could have git run code comes back only
            where its own path is among them.

    Raises:
        OSError: the project is not there.
    """
    project, chosen = manifests[0].project, _Chosen(paths)
    before: dict[str, KeptFile] = {}
    after: dict[str, KeptFile] = {}
    refused: dict[str, str] = {}
    until: dict[str, int] = {}
    for manifest in manifests:
        assert manifest.after is not None
        files = {file.path: file for file in manifest.files}
        for left in manifest.after:
            was = files.get(left.path) or KeptFile(left.path, 0, 0, "")
            before.setdefault(left.path, was)
            ended_at = until.get(left.path, 0)
            if manifest.at >= ended_at and ended_at and not after[left.path].is_as(was):
                refused.setdefault(left.path, _BETWEEN)
            if manifest.until >= ended_at:  # else it ran beside one that ended later
                after[left.path], until[left.path] = left, manifest.until
        refused |= dict.fromkeys(manifest.unseen, NOT_SEEN)
    wanted = {path for path in before if chosen.has(path)}
    for path in list(wanted):  # what is to come back needs its folders
        wanted |= {each for each in _parents(path) if each in before and stat.S_ISDIR(before[each].mode)}
    for other in others:
        beside = any(other.at < each.until and each.at < (other.until or other.at) for each in manifests)
        for left in other.after or () if beside else ():
            if left.path in wanted and not stat.S_ISDIR(left.mode):
                refused.setdefault(left.path, _BESIDE.format(other=short(other.permit)))
    refused = {path: why for path, why in refused.items() if path in wanted or (path[-1:] == "/" and chosen.has(path))}
    later = {
        left.path: (short(other.permit), left)
        for other in sorted(others, key=lambda each: each.at)
        if other.at >= manifests[0].at
        for left in other.after or ()
    }
    with opened_folder(project) as top:
        planner = _Planner(kept, project, top, chosen.exact, later)
        planner.refused |= refused
        return planner.plan({path: before[path] for path in wanted}, {path: after[path] for path in wanted})


class _Planner:
    """Finds out what is to be done, and what speaks against it.

    Args:
        kept: has what is to come back.
        project, top: the directory, and a descriptor of it.
        exact: paths that a human has named.
        later: by path, what has changed it since, and how that left it.
    """

    def __init__(
        self, kept: KeptFiles, project: str, top: int, exact: frozenset[str], later: Mapping[str, tuple[str, KeptFile]]
    ) -> None:
        self._kept, self._project, self._top = kept, project, top
        self._exact, self._later = exact, later
        self.refused: dict[str, str] = {}

    def plan(self, before: Mapping[str, KeptFile], after: Mapping[str, KeptFile]) -> Plan:
        """Return the plan: `before` is how it is to be, `after` how it was left."""
        steps: dict[str, Step] = {}
        done: list[str] = []
        for path in sorted(before):
            was, left = before[path], after[path]
            name, found = self._later.get(path, ("", left))
            slack = _LARGEST_INDEX if left.meaning else 0  # git may have noted more in it that means the same
            now = observed(self._top, path, max(was.size, left.size, found.size) + slack)
            if now.is_as(was):
                done.append(path)
                self.refused.pop(path, None)
            elif path in self.refused:
                pass
            elif why := self._unkept(was) or (left.why if left.why != SEVERAL_NAMES else ""):
                self.refused[path] = why
            elif not now.is_as(left):
                self.refused[path] = _CHANGED.format(by=f"by {name}" if name and now.is_as(found) else _BY_HAND)
            else:
                steps[path] = Step(now, was)
        for step in steps.values():
            if why := self._why_not(step, steps):
                self.refused[step.path] = why
        return Plan(self._project, tuple(steps.values()), self.refused, tuple(done))

    def _unkept(self, was: KeptFile) -> str:
        return "" if was.why == ATTRIBUTES_OF_A_FOLDER and was.path in self._exact else was.why

    def _why_not(self, step: Step, steps: Mapping[str, Step]) -> str:
        then = step.then
        if then.mode and -1 not in then.owner and not _may_own(then.owner):
            return _OTHERS
        if stat.S_ISDIR(step.now.mode) and not stat.S_ISDIR(then.mode):
            below = (f"{step.path}/{name}" for name in _names_in(self._top, step.path))
            if stays := next((path for path in below if path not in steps or steps[path].then.mode), ""):
                return _LATER.format(name=stays)
        above = os.path.dirname(step.path)
        if above and then.mode:
            folder = steps[above].then if above in steps else observed(self._top, above)
            if not stat.S_ISDIR(folder.mode):
                return _GONE
        if above not in steps and not _is_writable(self._top, above):
            return _UNWRITABLE
        if then.mode and not stat.S_ISDIR(then.mode) and repository_of(step.path.lower()):
            return self._why_not_git(step)
        return ""

    def _why_not_git(self, step: Step) -> str:
        """What speaks against putting back a file that git keeps for itself."""
        parts = step.path.split("/")
        number = [part.lower() for part in parts].index(GIT) + 1
        repository, inner = "/".join(parts[:number]), "/".join(parts[number:])
        if step.path in self._exact:
            return ""
        if stat.S_ISLNK(step.then.mode):  # what lies there may be anything by now
            return _RUNS_CODE
        if inner == "config" and self._says_nothing_more(step):
            return ""
        if not _GIT_DATA.fullmatch(inner):
            return _RUNS_CODE
        if is_object(step.path) or inner.startswith("logs/"):
            return ""
        objects = f"{self._project}/{repository}/objects"
        names = self._objects_named(step) if os.path.isdir(objects) else ()
        missing = missing_objects(objects, names)
        return _PRUNED.format(name=missing[0]) if missing else ""

    def _objects_named(self, step: Step) -> list[str]:
        """The commits that a branch or the like names, or the contents that an index does."""
        if step.then.size > _LARGEST_TEXT and not step.path.endswith("/index"):
            return []
        content = self._kept.content(step.then.content)
        if step.path.endswith("/index"):
            return index_names(content)[:_MOST_NAMES]
        return [name.decode() for name in _NAME.findall(content)[:_MOST_NAMES]]

    def _says_nothing_more(self, step: Step) -> bool:
        """Tell whether a repository's `config` comes back without anything that runs and is not there now."""
        if step.then.size > _LARGEST_TEXT:
            return False
        content = self._kept.content(step.then.content)
        if runs_nothing(content):
            return True
        if not stat.S_ISREG(step.now.mode) or step.now.size > _LARGEST_TEXT:
            return False
        with parent_of(self._top, step.path, git=True) as (folder, name), _opened(folder, name) as file:
            return changes_nothing_that_runs(file.read(_LARGEST_TEXT + 1), content)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def short(permit: str) -> str:
    """Return a permit, or an undo, as people are told of it."""
    return permit if permit.startswith(UNDO) else permit[:12]


def _parents(path: str) -> Iterator[str]:
    while path := os.path.dirname(path):
        yield path


def _may_own(owner: tuple[int, int]) -> bool:
    if os.geteuid() == 0:
        return True
    return owner[0] == os.geteuid() and owner[1] in (os.getegid(), *os.getgroups())


def _is_writable(top: int, folder: str) -> bool:
    try:
        if not folder:
            return os.access(".", os.W_OK | os.X_OK, dir_fd=top)
        with parent_of(top, folder, git=True) as (above, name):
            return os.access(name, os.W_OK | os.X_OK, dir_fd=above, follow_symlinks=True)
    except OSError:
        return False


def _names_in(top: int, folder: str) -> list[str]:
    with suppress(OSError), parent_of(top, folder, git=True) as (above, name), _folder(above, name) as here:
        return os.listdir(here)
    return []


def _folders_below(top: int, path: str) -> Iterator[tuple[str, KeptFile]]:
    """A folder and those in it, as far as there is nothing else."""
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        for name in _names_in(top, folder):
            found = observed(top, f"{folder}/{name}", 0)
            if stat.S_ISDIR(found.mode):
                yield f"{folder}/{name}", found
                waiting.append(f"{folder}/{name}")


@contextmanager
def _folder(above: int, name: str) -> Iterator[int]:
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(folder: int, name: str) -> Iterator[BinaryIO]:
    with open(open_file(folder, name), "rb") as file:
        yield file


# ---- doing it -----------------------------------------------------------------------------------------


def keep_before(kept: KeptFiles, run: str, plan: Plan) -> Kept:
    """Keep what an undo is going to overwrite or delete, as what the command of a permit would: so that it can be
    undone in its turn, and finished where it is interrupted.

    Args:
        kept: where.
        run: the run that it is of.
        plan: what is to be done.

    Raises:
        OSError: it can't be kept, or something is no longer as the plan has it.
    """
    with kept.writing(_ALL) as contents, opened_folder(plan.project) as top:
        files = []
        for step in plan.steps:
            now = taken(top, step.path, contents)
            if not now.is_as(step.now) or now.why not in ("", SEVERAL_NAMES):
                raise OSError(errno.EBUSY, f"{step.path}: what stands there now could not be kept first")
            if now.mode:
                files.append(now)
        at = time.time_ns() // 1_000_000
        manifest = Manifest(
            *(run, plan.project, at),
            files=tuple(files),
            permit=f"{UNDO}{secrets.token_hex(6)}",
            after=tuple(replace(step.then, why="") for step in plan.steps),
            until=at,
            scope=tuple(step.path for step in plan.steps),
        )
        return kept.put(contents, manifest)


def undo(kept: KeptFiles, plan: Plan, before: Kept) -> Undone:
    """Do what is planned, as a whole or not at all.

    Args:
        kept: where what comes back is kept.
        plan: with nothing refused.
        before: what `keep_before` has kept.

    Raises:
        OSError: the project is not there.
        ValueError: something of it is refused.
    """
    if plan.refused:
        raise ValueError("something of it can't be undone")
    journal = _journal(kept, before)
    with opened_folder(plan.project) as top:
        write_own_json(journal, {"digest": before.digest, "permit": before.permit}, required=True)
        work = _Work(kept, top, before.permit)
        try:
            work.carry_out(plan.steps)
        except OSError as error:
            path = work.path
            back = [Step(step.then, step.now) for step in _with_contents(plan.steps, kept.manifest(before))]
            left = work.carry_back(back)
            journal.unlink()
            return Undone(failed={path: error.strerror or str(error)}, left=tuple(left))
        journal.unlink()
    restored = tuple(step.path for step in plan.steps if step.then.mode)
    return Undone(restored, tuple(step.path for step in plan.steps if not step.then.mode))


def interrupted(kept: KeptFiles, project: str) -> list[Kept]:
    """Return the undos of a project that were begun, and not finished."""
    found = []
    for each in kept.all():
        is_one = each.project == project and each.permit.startswith(UNDO)
        said = read_own_json(_journal(kept, each)) if is_one else None
        if said is not None and said.get("digest") == each.digest:
            found.append(each)
    return found


def finish(kept: KeptFiles, record: Kept) -> Undone:
    """Finish an undo that was interrupted. What was changed since stays as it is, and is said.

    Raises:
        OSError: what was kept is gone, or the project is.
    """
    manifest = kept.manifest(record)
    steps = steps_of(manifest)
    with opened_folder(manifest.project) as top:
        work = _Work(kept, top, record.permit)
        left = work.carry_back(steps)
        _journal(kept, record).unlink(missing_ok=True)
    gone = set(left)
    return Undone(
        tuple(step.path for step in steps if step.then.mode and step.path not in gone),
        tuple(step.path for step in steps if not step.then.mode and step.path not in gone),
        dict.fromkeys(left, "it was changed since the undo was interrupted"),
        tuple(left),
    )


def steps_of(manifest: Manifest) -> tuple[Step, ...]:
    """Return what the command of a permit, or an undo, has done, as steps."""
    files = {file.path: file for file in manifest.files}
    return tuple(Step(files.get(left.path) or KeptFile(left.path, 0, 0, ""), left) for left in manifest.after or ())


def _with_contents(steps: Iterable[Step], before: Manifest) -> list[Step]:
    known = {file.path: file for file in before.files}
    return [Step(known.get(step.path, step.now), step.then) for step in steps]


def _journal(kept: KeptFiles, record: Kept) -> Path:
    return kept.folder / "undo" / f"{record.permit}.json"


class _Work:
    """Does steps in the project, in an order in which folders are there when they are needed. What is done already is
    left as it is, so that it can be done again from the start.

    Args:
        kept: has the contents.
        top: a descriptor of the project.
        name: of the undo: temporary files have it, so that those of one that was killed are found again.
    """

    def __init__(self, kept: KeptFiles, top: int, name: str) -> None:
        self._kept, self._top = kept, top
        self._temporary = f".{name}"
        self.path = ""

    def carry_out(self, steps: Sequence[Step]) -> None:
        """Do all of them.

        Raises:
            OSError: one can't be done; `path` is its path.
        """
        for act, step in _ordered(steps):
            self.path = step.path
            act(self, step)

    def carry_back(self, steps: Sequence[Step]) -> list[str]:
        """Do all that can be done, and return the paths of which that was not possible."""
        left: list[str] = []
        for act, step in _ordered(steps):
            try:
                act(self, step)
            except OSError:
                left.append(step.path)
        return list(dict.fromkeys(left))

    def open_up(self, step: Step) -> None:
        """Make a folder writable for us, until its own mode is set at the end."""
        with suppress(FileNotFoundError, NotADirectoryError), self._at(step) as (folder, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                self._set_mode(folder, name, step.now.mode | stat.S_IRWXU)

    def remove(self, step: Step) -> None:
        """Remove what is not a folder, where it is as it was left."""
        now = observed(self._top, step.path)
        if not now.mode or now.is_as(step.then):
            return
        self._check(now, step)
        with self._at(step) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, step: Step) -> None:
        """Remove a folder, where there is nothing in it."""
        with suppress(FileNotFoundError, NotADirectoryError), self._at(step) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def make_folder(self, step: Step) -> None:
        """Make a folder that is ours alone, until its own mode is set at the end."""
        with self._at(step) as (folder, name):
            try:
                os.mkdir(name, mode=0o700, dir_fd=folder)
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise

    def put(self, step: Step) -> None:
        """Put back a file or a link, in the place of what is as it was left."""
        now, then = observed(self._top, step.path), step.then
        with self._at(step) as (folder, name):
            temporary = f"{self._temporary}-{name[:100]}"
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            if now.is_as(then) and not (then.meaning and now.content != then.content):
                return
            if now.mode:
                self._check(now, step)
            try:
                self._write(folder, temporary, then)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise

    def settle_folder(self, step: Step) -> None:
        """Give a folder its own mode."""
        with self._at(step) as (folder, name):
            about = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                _own(folder, name, step.then.owner, about)
                self._set_mode(folder, name, step.then.mode)

    def _write(self, folder: int, name: str, then: KeptFile) -> None:
        if stat.S_ISLNK(then.mode):
            os.symlink(self._kept.content(then.content), os.fsencode(name), dir_fd=folder)
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with (
                self._kept.opened(then.content) as content,
                open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file,
            ):
                shutil.copyfileobj(content, file, 1 << 20)
                file.flush()
                os.fsync(file.fileno())
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _own(folder, name, then.owner, about)
        if not stat.S_ISLNK(then.mode):
            os.chmod(name, stat.S_IMODE(then.mode) & PERMISSIONS, dir_fd=folder)

    def _set_mode(self, folder: int, name: str, mode: int) -> None:
        with _folder(folder, name) as here:
            os.fchmod(here, stat.S_IMODE(mode))

    def _check(self, now: KeptFile, step: Step) -> None:
        """Raise OSError where something stands there that is not as it was left."""
        if not now.is_as(step.now):
            raise OSError(errno.EBUSY, "what stands there now was not there when the undo began")

    def _at(self, step: Step) -> AbstractContextManager[tuple[int, str]]:
        return parent_of(self._top, step.path, git=True)


def _own(folder: int, name: str, owner: tuple[int, int], about: os.stat_result) -> None:
    if -1 not in owner and owner != (about.st_uid, about.st_gid):
        os.chown(name, *owner, dir_fd=folder, follow_symlinks=False)


def _ordered(steps: Sequence[Step]) -> Iterator[tuple[Callable[[_Work, Step], None], Step]]:
    def is_folder(file: KeptFile) -> bool:
        return stat.S_ISDIR(file.mode)

    shallow = sorted(steps, key=lambda step: step.path.count("/"))
    deep = shallow[::-1]
    yield from ((_Work.open_up, step) for step in shallow if is_folder(step.now))
    gone = [step for step in deep if step.now.mode and is_folder(step.now) != is_folder(step.then)]
    gone += [step for step in deep if step.now.mode and not is_folder(step.now) and not step.then.mode]
    yield from ((_Work.remove, step) for step in gone if not is_folder(step.now))
    yield from ((_Work.remove_folder, step) for step in gone if is_folder(step.now))
    made = [step for step in shallow if is_folder(step.then)]
    yield from ((_Work.make_folder, step) for step in made if not is_folder(step.now))
    yield from ((_Work.put, step) for step in shallow if step.then.mode and not is_folder(step.then))
    yield from ((_Work.settle_folder, step) for step in deep if is_folder(step.then))
