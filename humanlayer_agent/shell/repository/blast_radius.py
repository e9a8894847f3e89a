"""The blast radius of an action: what would go, and whether anybody has it elsewhere; told without running anything.

A human who is asked reads what a command *says*. What it would cost stands on the disk: how many files and bytes, which
of them are in a commit and which nowhere else, what a push would publish or throw away. It is looked up only for what a
human is asked about, never for the verdict, and it never makes one milder.
"""

import os
import posixpath
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from humanlayer_agent.shell.program import Effect, Program, SimpleCommand
from humanlayer_agent.shell.repository.history import Repository
from humanlayer_agent.shell.repository.losses import Uncommitted
from humanlayer_agent.shell.repository.object_store import NotKnown
from humanlayer_agent.shell.repository.work_tree import WorkTrees, divided, is_moved, is_text, place_of
from humanlayer_agent.shell.view import View
from humanlayer_agent.shell.wildcards import listing_of

MAX_ENTRIES = 10_000
"""So many files and folders are counted for one action; what is beyond is said to be more."""
MAX_SENTENCES = 12
"""So many are shown: what decides must stay on the screen."""
NAMED = 5
"""So many files are named that are nowhere else, and so many commits."""
_MOST_TARGETS = 200
_GONE = frozenset({"delete"})
_CHANGED = frozenset({"write", "move"})
_RECEIVED = "refs/heads/"


def blast_radius(program: Program, *, project: str, view: View, environ: Iterable[str] = ()) -> tuple[str, ...]:
    """Return sentences about what a program would do to what is there now; none where there is nothing to say.

    Args:
        program: as the Director has read it.
        project: the directory that the agent works for.
        view: what of the disk its commands see.
        environ: the names of the variables that it is started with.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> blast_radius(analyse("rm /no/such/file", cwd="/"), project="/srv/app", view=View())
        ('Deletes /no/such/file: there is no such file now.',)
    """
    with WorkTrees(view, lambda repository: Uncommitted(repository, None)) as trees:
        counting = _Counting(trees, project)
        said = (
            *counting.deleted(_targets(program, _GONE, view)),
            *counting.replaced(_targets(program, _CHANGED, view)),
            *_pushed(program, trees, project, moved=is_moved(program, tuple(environ))),
            *_reached(program),
        )
    more = len(said) - MAX_SENTENCES
    return said if more <= 0 else (*said[:MAX_SENTENCES], f"{more:,} more things like these are at stake.")


@dataclass(slots=True)
class _Target:
    """A path that something is done to, and whether everything below it is meant."""

    path: str
    whole: bool


def _targets(program: Program, kinds: frozenset[str], view: View) -> list[_Target]:
    found: dict[str, _Target] = {}
    for command in program.commands:
        for effect in command.effects:
            if effect.kind not in kinds or not effect.operand or not effect.operand.startswith("/"):
                continue
            if effect.kind == "move" and effect.role != "target":
                continue
            for path in _paths(effect, view):
                known = found.setdefault(path, _Target(path, False))
                known.whole |= effect.recursive
    # What lies below another one is counted there.
    wide = [each.path for each in found.values() if each.whole]
    return [
        each
        for each in found.values()
        if not any(each.path.startswith(f"{above.rstrip('/')}/") for above in wide if above != each.path)
    ]


def _paths(effect: Effect, view: View) -> Iterator[str]:
    """The paths that an effect certainly means."""
    path = posixpath.normpath(effect.operand or "")
    if effect.pattern is not None:
        rest = effect.pattern.removeprefix(path.rstrip("/") + "/")
        listing = listing_of(path, rest, view) if rest != effect.pattern else None
        yield from (f"{path.rstrip('/')}/{name.rstrip('/')}" for name in listing.names) if listing else ()
    elif effect.resolved:
        yield path


@dataclass(slots=True)
class _Count:
    """What was counted: `kept` are in a commit as they are, `alone` are not, and `outside` are in no repository."""

    files: int = 0
    folders: int = 0
    size: int = 0
    kept: int = 0
    alone: list[str] = field(default_factory=list)
    outside: int = 0
    linked: int = 0
    repositories: list[str] = field(default_factory=list)
    unknown: bool = False
    more: bool = False


class _Counting:
    """Counts what is there, within one bound for the whole action."""

    def __init__(self, trees: WorkTrees[Uncommitted], project: str) -> None:
        self._trees, self._project, self._left = trees, project, MAX_ENTRIES
        self._top = self._top_of(trees.view.real(project)) if project else ""

    def deleted(self, targets: Sequence[_Target]) -> Iterator[str]:
        """Say what would be deleted."""
        count, missing, there = _Count(), [], []
        for target in targets[:_MOST_TARGETS]:
            if self._count(target, count):
                there.append(target.path)
            else:
                missing.append(target.path)
        if there:
            count.more |= len(targets) > _MOST_TARGETS
            yield f"Deletes {_amount(count)} at {self._named(there, 'place')}{self._copies(count)}."
            yield from _about(count)
            yield from self._elsewhere(there)
        for path in missing[:NAMED]:
            yield f"Deletes {self._name(path)}: there is no such file now."

    def replaced(self, targets: Sequence[_Target]) -> Iterator[str]:
        """Say what would be changed that is nowhere else."""
        count, there = _Count(), []
        for target in targets[:_MOST_TARGETS]:
            found = self._look(target.path)
            if found is not None and stat.S_ISREG(found.st_mode) and self._count(_Target(target.path, False), count):
                there.append(target.path)
        if count.alone or count.unknown or count.outside:
            yield f"Changes {_amount(count)} at {self._named(there, 'place')}{self._copies(count)}."
        yield from self._elsewhere([target.path for target in targets[:_MOST_TARGETS]])

    def _elsewhere(self, paths: Sequence[str]) -> Iterator[str]:
        """Name the repositories that are not the project's."""
        tops = dict.fromkeys(self._top_of(posixpath.dirname(self._real(path)) or "/") for path in paths)
        for top in tops:
            if top and top != self._top:
                yield f"That is in another repository: {_shown(top)}."

    def _copies(self, count: _Count) -> str:
        """Say of how many files a commit has what they hold, and name some of the others."""
        if not count.kept and not count.alone:
            return "; none of it is under version control" if count.outside and not count.repositories else ""
        said = [f"{_are(count.kept)} in a commit"] if count.kept else []
        if count.alone:
            said.append(f"{_are(len(count.alone))} in no commit: {self._named(sorted(count.alone), 'file')}")
        return f"; {'; '.join(said)}"

    def _named(self, paths: Sequence[str], what: str) -> str:
        """Return some of these paths, and how many more there are."""
        more = len(paths) - NAMED
        beyond = f" and {more:,} more {what}{'s' if more != 1 else ''}" if more > 0 else ""
        return ", ".join(map(self._name, paths[:NAMED])) + beyond

    def _name(self, path: str) -> str:
        """Return how a path is called from the project."""
        root = f"{self._project.rstrip('/')}/"
        return _shown(path.removeprefix(root) if self._project and path.startswith(root) else path)

    def _top_of(self, folder: str) -> str:
        tree = self._tree(folder)
        return tree.repository.top if tree is not None else ""

    def _real(self, path: str) -> str:
        """Where a path is, a link at its end not followed: that is what is deleted."""
        folder, name = posixpath.split(path)
        return posixpath.join(self._trees.view.real(folder or "/"), name)

    def _look(self, path: str) -> os.stat_result | None:
        return self._trees.view.look(self._real(path)).found

    def _count(self, target: _Target, count: _Count) -> bool:
        """Add what a target has; False where nothing is there."""
        here = self._real(target.path)
        found = self._trees.view.look(here).found
        if found is None:
            return False
        waiting = [(here, found, self._tree(posixpath.dirname(here)))]
        while waiting:
            path, found, tree = waiting.pop()
            if self._left <= 0:
                count.more = True
                break
            self._left -= 1
            if not stat.S_ISDIR(found.st_mode):
                self._add(path, found, tree, count)
                continue
            count.folders += 1
            if target.whole:
                inside = list(self._inside(path, count))
                if any(each.endswith("/.git") and stat.S_ISDIR(about.st_mode) for each, about in inside):
                    count.repositories.append(path)
                    tree = None  # what its commits hold goes with them
                elif posixpath.basename(path) == ".git" and path == here:
                    count.repositories.append(posixpath.dirname(path))
                waiting += [(*each, tree) for each in inside]
        return True

    def _tree(self, folder: str) -> Uncommitted | None:
        try:
            return self._trees.at(folder)
        except NotKnown:
            return None

    def _inside(self, folder: str, count: _Count) -> Iterator[tuple[str, os.stat_result]]:
        try:
            for name, _, _ in islice(self._trees.view.entries(folder), self._left + 1):
                path = f"{folder.rstrip('/')}/{name}"
                if (found := self._trees.view.look(path).found) is not None:
                    yield path, found
        except OSError:
            count.unknown = True

    def _add(self, path: str, found: os.stat_result, tree: Uncommitted | None, count: _Count) -> None:
        count.files += 1
        if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
            count.linked += 1
        else:
            count.size += found.st_size
        if f"{posixpath.dirname(path)}/".find("/.git/") >= 0 or path.endswith("/.git"):
            return  # of the repository itself: that is said once
        try:
            name = path[len(tree.repository.top.rstrip("/")) + 1 :] if tree is not None else ""
            if tree is not None and name in tree.indexed and not tree.minds(name):
                count.kept += 1
                return
        except (NotKnown, RecursionError):
            count.unknown = True
        if tree is None:
            count.outside += 1
        else:
            count.alone.append(path)


def _amount(count: _Count) -> str:
    """Return "3 files and 1 folder (9 bytes)"."""
    parts = [_some(count.files, "file")] if count.files or not count.folders else []
    parts += [_some(count.folders, "folder")] if count.folders else []
    size = f" ({_bytes(count.size)})" if count.files else ""
    return f"{'more than ' if count.more else ''}{' and '.join(parts)}{size}"


def _some(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n != 1 else ''}"


def _are(n: int) -> str:
    return f"{n:,} {'is' if n == 1 else 'are'}"


def _about(count: _Count) -> Iterator[str]:
    for folder in count.repositories[:NAMED]:
        yield f"With it goes a whole repository, its history included: {_shown(folder)}."
    if count.linked:
        have = "has" if count.linked == 1 else "have"
        yield f"{count.linked:,} of them {have} further names (hard links): what they hold stays there."
    if count.unknown:
        yield "Not everything there could be looked at: it may be more."


def _bytes(size: int) -> str:
    """Return a size as people read it, in powers of 1,000.

    Example:
        >>> _bytes(999), _bytes(5_200_000)
        ('999 bytes', '5.2 MB')
    """
    if size < 1000:
        return f"{size} byte{'s' if size != 1 else ''}"
    shown = float(size)
    for unit in ("kB", "MB", "GB"):
        shown /= 1000
        if shown < 999.5:
            return f"{shown:.1f} {unit}" if shown < 10 else f"{shown:.0f} {unit}"
    return f"{shown / 1000:,.1f} TB"


def _shown(name: str) -> str:
    return name if is_text(name) else ascii(name)


# ---- pushes and hosts --------------------------------------------------------------------------------------


def _pushed(program: Program, trees: WorkTrees[Uncommitted], project: str, *, moved: bool) -> Iterator[str]:
    for command in program.commands:
        if command.program != "git" or command.subcommand != "push" or "dry-run" in command.flags:
            continue
        place = place_of(command)
        if moved or place is None or None in command.operands or not command.flags_complete:
            yield "Pushes something: what, and to which branch, can't be told."
            continue
        try:
            repository = trees.at(trees.view.real(place or project)).repository
            yield from _push(repository, command)
        except (NotKnown, RecursionError):
            yield "Pushes something: what, and to which branch, can't be told."


def _push(repository: Repository, command: SimpleCommand) -> Iterator[str]:
    before, after = divided(command)
    words = [*before, *(after or [])]
    branch = repository.branch()
    upstream = ""
    with suppress(NotKnown):
        upstream = repository.upstream(branch)
    remote = words[0] if words else upstream.removeprefix("refs/remotes/").partition("/")[0] or "origin"
    if command.flags & {"all", "mirror", "tags", "follow-tags", "prune", "branches"}:
        yield f"Pushes more than one branch to {_shown(remote)}."
        return
    for spec in words[1:] or [branch]:
        forced = spec.startswith("+") or bool(command.flags & {"force", "force-with-lease"})
        source, colon, target = spec.removeprefix("+").partition(":")
        target = (target if colon else source).removeprefix(_RECEIVED)
        target = branch if target in ("HEAD", "@") else target
        if not source or "delete" in command.flags:
            yield f"Deletes the branch {_shown(target)} of {_shown(remote)}."
            continue
        here = repository.peeled(repository.revision(source, branches=True))
        try:
            there = repository.peeled(repository.reference(f"refs/remotes/{remote}/{target}"))
        except NotKnown:
            yield f"Pushes {_shown(source)} to {_shown(remote)} as {_shown(target)}, of which nothing is known here."
            continue
        new, lost = repository.between([there], [here]), repository.between([here], [there])
        yield f"Pushes {_commits(repository, new)} to {_shown(remote)} {_shown(target)}."
        if lost:
            how = "throws away" if forced else "is refused, or throws away"
            yield f"It {how} {_commits(repository, lost)} that {_shown(remote)} {_shown(target)} has."


def _commits(repository: Repository, names: Sequence[bytes]) -> str:
    if not names:
        return "no new commit"
    titles = [f"{name.hex()[:8]} “{_shown(_title(repository, name))}”" for name in names[:NAMED]]
    more = len(names) - NAMED
    listed = "; ".join(titles) + (f" and {more:,} more" if more > 0 else "")
    return f"{_some(len(names), 'commit')} ({listed})"


def _title(repository: Repository, name: bytes) -> str:
    try:
        _, data = repository.objects.get(name)
    except NotKnown:
        return ""
    return data.partition(b"\n\n")[2].partition(b"\n")[0].decode("utf-8", "replace")[:80]


def _reached(program: Program) -> Iterator[str]:
    hosts = dict.fromkeys(
        effect.operand
        for command in program.commands
        for effect in command.effects
        if effect.kind == "network" and effect.operand and effect.resolved and effect.role != "remote"
    )
    if hosts:
        named = [_shown(host) for host in hosts]
        more = len(named) - NAMED
        yield f"Reaches {', '.join(named[:NAMED])}{f' and {more:,} more' if more > 0 else ''}."
