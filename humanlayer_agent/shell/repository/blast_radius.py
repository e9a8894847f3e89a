"""The blast radius of an action: what would go, and whether anybody has it elsewhere; told without running anything.

A human who is asked reads what a command *says*. What it would cost stands on the disk: how many files and bytes, which
of them are in a commit and which nowhere else, what a push would publish or throw away. It is looked up only for what a
human is asked about, never for the verdict, and it never makes one milder.
"""

import errno
import os
import posixpath
import re
import shlex
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from humanlayer_agent.shell.program import Effect, Program, SimpleCommand
from humanlayer_agent.shell.repository.history import NoRepository, NothingNamed, Repository
from humanlayer_agent.shell.repository.losses import Uncommitted
from humanlayer_agent.shell.repository.object_store import NotKnown, read_file
from humanlayer_agent.shell.repository.settings import settings_in
from humanlayer_agent.shell.repository.work_tree import ELSEWHERE, WorkTrees, divided, is_moved, is_text, place_of
from humanlayer_agent.shell.view import View
from humanlayer_agent.shell.wildcards import listing_of

MAX_ENTRIES = 10_000
"""So many files and folders are counted for one action; what is beyond is said to be more."""
MAX_SENTENCES = 12
"""So many are shown: what decides must stay on the screen."""
NAMED = 5
"""So many files are named that are nowhere else, and so many commits."""
SECONDS = 2.0
"""So long it is counted; what is beyond is said to be more."""
_MOST_TARGETS = 200
_GONE = frozenset({"delete"})
_CHANGED = frozenset({"write", "move"})
_MAKES_NOTHING = frozenset({"read", "delete", "environment", "network"})
_GIT_FOLDER = frozenset({"HEAD", "objects", "refs"})
"""What git takes a folder by for a repository."""
_LONGEST_NAME = 80
_LONGEST_PLACE = 300
_PLAIN = re.compile(r"[\w@%+=:,./~^…-]+")
_OTHER_ROOTS = frozenset(str.split("chroot nsenter unshare bwrap proot fakechroot systemd-nspawn"))
"""Programs under which a path may be another one than here."""


def blast_radius(
    program: Program, *, project: str, view: View, environ: Mapping[str, str] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return sentences about what a program would do to what is there now; none where there is nothing to say.

    Args:
        program: as the Director has read it.
        project: the directory that the agent works for.
        view: what of the disk its commands see.
        environ: the variables that it is started with, as far as they are known; beyond that they are ours.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> blast_radius(analyse("rm /no/such/file", cwd="/"), project="/srv/app", view=View())
        ('Deletes /no/such/file: there is no such file now.',)
    """
    with WorkTrees(view, lambda repository: Uncommitted(repository, None)) as trees:
        counting = _Counting(trees, project)
        said = (
            [*counting.deleted(program)],
            [*counting.replaced(program)],
            [*Pushes(program, trees, project, environ).said()],
            [*_reached(program)],
        )
    # None of these may crowd out the others.
    places = [(at, kind) for kind, each in enumerate(said) for at in range(len(each))]
    shown = sorted(sorted(places)[:MAX_SENTENCES], key=lambda place: place[::-1])
    more = len(places) - len(shown)
    beyond = [f"{more:,} more things are at stake."] if more else []
    return (*(said[kind][at] for at, kind in shown), *beyond)


@dataclass(slots=True)
class _Target:
    """A path that something is done to, whether everything below it is meant, and whether a link at its end is
    followed.
    """

    path: str
    whole: bool
    follows: bool = False


def _targets(program: Program, kinds: frozenset[str], view: View) -> tuple[list[_Target], bool]:
    """Return what something is certainly done to, and whether that may be done to more."""
    found: dict[str, _Target] = {}
    unsure: list[str] = []
    for command in program.commands:
        elsewhere = not _OTHER_ROOTS.isdisjoint(command.via)
        for effect in command.effects:
            if effect.kind not in kinds or (effect.kind == "move" and effect.role != "target"):
                continue
            if elsewhere or not effect.operand or not effect.operand.startswith("/"):
                unsure.append("")
                continue
            paths = _paths(effect, view)
            if paths is None:
                unsure.append(posixpath.normpath(effect.operand) if effect.below or effect.role == "found" else "")
            for path in paths or ():
                known = found.setdefault(path, _Target(path, False, effect.kind == "write"))
                known.whole |= effect.recursive
    # What lies below another one is counted there.
    wide = frozenset(each.path for each in found.values() if each.whole)
    apart = [each for each in found.values() if wide.isdisjoint(_above(each.path))]
    return apart, not all(path in wide or not wide.isdisjoint(_above(path)) for path in unsure)


def _above(path: str) -> Iterator[str]:
    while path not in ("/", ""):
        path = posixpath.dirname(path)
        yield path


def _paths(effect: Effect, view: View) -> tuple[str, ...] | None:
    """Return the paths that an effect certainly means; None where it may mean others."""
    named = effect.operand or ""
    path = posixpath.normpath(named)
    climbs = ".." in named.split("/")
    if effect.pattern is not None:
        rest = effect.pattern.removeprefix(path.rstrip("/") + "/")
        listing = listing_of(path, rest, view) if rest != effect.pattern and not climbs else None
        return None if listing is None else tuple(f"{path.rstrip('/')}/{name.rstrip('/')}" for name in listing.names)
    if not effect.resolved:
        return None
    if named.endswith(("/", "/.", "/..")):  # a link is followed there
        at = view.look(f"{view.real(posixpath.dirname(path))}/{posixpath.basename(path)}".replace("//", "/"))
        return (view.real(named),) if climbs or at.target is not None else (path,)
    return (posixpath.join(view.real(posixpath.dirname(named)), posixpath.basename(named)),) if climbs else (path,)


@dataclass(slots=True)
class _Count:
    """What was counted: `kept` are in a commit as they are, `alone` are not, `unread` may be, and `outside` are in no
    repository.
    """

    files: int = 0
    folders: int = 0
    size: int = 0
    kept: int = 0
    alone: list[str] = field(default_factory=list)
    unread: int = 0
    outside: int = 0
    names: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Of each file that has several names: how many were counted, how many there are, and its bytes."""
    repositories: list[str] = field(default_factory=list)
    of_git: list[str] = field(default_factory=list)
    """What git itself keeps in a repository that does not go as a whole."""
    unknown: bool = False
    more: bool = False


_Tree = Uncommitted | NotKnown | None
"""The work tree of a folder: why nobody can tell, and None where there is none."""


class _Counting:
    """Counts what is there, within one bound for the whole action."""

    def __init__(self, trees: WorkTrees[Uncommitted], project: str) -> None:
        self._trees, self._project, self._left = trees, project, MAX_ENTRIES
        self._until = time.monotonic() + SECONDS
        self._tops: dict[str, str | None] = {}
        self._lost: dict[str, bool] = {}
        """Of each work tree whether its commits go."""
        self._gone: frozenset[str] = frozenset()
        """What goes with all that is below, by paths without links."""
        self._top = self._top_of(trees.view.real(project)) if project else ""

    def deleted(self, program: Program) -> Iterator[str]:
        """Say what would be deleted."""
        count, missing, there = _Count(), dict[str, bool](), []
        targets, further = _targets(program, _GONE, self._trees.view)
        self._gone, self._lost = frozenset(self._real(each.path) for each in targets), {}
        for target in targets[:_MOST_TARGETS]:
            if self._count(target, count):
                there.append(target.path)
            else:
                missing[target.path] = self._is_missing(target.path)
        if there:
            count.more |= len(targets) > _MOST_TARGETS
            yield f"Deletes {_amount(count)} at {self._named(there, 'place')}{self._copies(count)}."
            yield from self._about(count)
        before = ", before the other commands run" if _makes_something(program) else ""
        for path, is_certain in list(missing.items())[:NAMED]:
            what = f"there is no such file now{before}" if is_certain else "nobody could look whether it is there"
            yield f"Deletes {self._name(path)}: {what}."
        if len(missing) > NAMED:
            yield f"Deletes {len(missing) - NAMED:,} more that were not found."
        if further and (there or missing):
            yield "It may delete more: what, can't be told."
        yield from self._elsewhere(there)

    def replaced(self, program: Program) -> Iterator[str]:
        """Say what would be changed that is nowhere else."""
        count, there = _Count(), []
        targets, _ = _targets(program, _CHANGED, self._trees.view)
        for target in targets[:_MOST_TARGETS]:
            path = self._trees.view.real(target.path) if target.follows else target.path
            found = self._look(path)
            if found is not None and stat.S_ISREG(found.st_mode) and self._count(_Target(path, False), count):
                there.append(path)
        if count.alone or count.unknown or count.outside or count.unread:
            yield f"Changes {_amount(count)} at {self._named(there, 'place')}{self._copies(count)}."
        yield from self._elsewhere([target.path for target in targets[:_MOST_TARGETS]])

    def _elsewhere(self, paths: Sequence[str]) -> Iterator[str]:
        """Name the repositories that are not the project's."""
        tops = dict.fromkeys(self._top_of(posixpath.dirname(self._real(path)) or "/") for path in paths)
        others = [top for top in tops if top and top != self._top]
        for top in others[:NAMED]:
            yield f"That is in another repository: {_shown(top, _LONGEST_PLACE)}."
        if len(others) > NAMED:
            yield f"It is in {len(others) - NAMED:,} more other repositories."

    def _copies(self, count: _Count) -> str:
        """Say of how many files a commit has what they hold, and name some of the others."""
        said = [f"{_are(count.kept)} in a commit"] if count.kept else []
        if count.alone:
            said.append(f"{_are(len(count.alone))} in no commit: {self._named(sorted(count.alone), 'file')}")
        if count.unread:
            said.append(f"of {count.unread:,} nobody can tell whether a commit has them")
        if not said:
            seen = count.outside and not (count.repositories or count.of_git or count.more or count.unknown)
            said = ["none of it is under version control"] if seen else []
        return "".join(f"; {each}" for each in said)

    def _about(self, count: _Count) -> Iterator[str]:
        for folder in count.repositories[:NAMED]:
            yield f"With it goes a whole repository, its history included: {_shown(folder, _LONGEST_PLACE)}."
        if len(count.repositories) > NAMED:
            yield f"With it go {len(count.repositories) - NAMED:,} more repositories."
        if count.of_git:
            yield (
                "With it go files of git's own, on which history, branches or stashes may hang: "
                f"{self._named(count.of_git, 'file')}."
            )
        if linked := sum(seen for seen, names, _ in count.names.values() if seen < names):
            have = "has" if linked == 1 else "have"
            yield f"{linked:,} of them {have} further names (hard links): what they hold stays there."
        if count.unknown:
            yield "Not everything there could be looked at: it may be more."

    def _named(self, paths: Sequence[str], what: str) -> str:
        """Return some of these paths, and how many more there are."""
        more = len(paths) - NAMED
        beyond = f" and {more:,} more {what}{'s' if more != 1 else ''}" if more > 0 else ""
        return ", ".join(map(self._name, paths[:NAMED])) + beyond

    def _name(self, path: str) -> str:
        """Return how a path is called from the project."""
        root = f"{self._project.rstrip('/')}/"
        return _shown(path.removeprefix(root) if root != "/" and path.startswith(root) else path)

    def _top_of(self, folder: str) -> str:
        tree = self._tree(folder)
        return tree.repository.top if isinstance(tree, Uncommitted) else ""

    def _real(self, path: str) -> str:
        """Where a path is, a link at its end not followed: that is what is deleted."""
        folder, name = posixpath.split(path)
        return posixpath.join(self._trees.view.real(folder or "/"), name)

    def _look(self, path: str) -> os.stat_result | None:
        return self._trees.view.look(self._real(path)).found

    def _is_missing(self, path: str) -> bool:
        """Tell whether there is certainly nothing at a path."""
        place = self._trees.view.place(self._real(path))
        try:
            os.lstat(place or "")
        except OSError as error:
            return place is not None and error.errno in (errno.ENOENT, errno.ENOTDIR)
        except ValueError:
            pass
        return False

    def _is_at_its_end(self) -> bool:
        return self._left <= 0 or time.monotonic() > self._until

    def _count(self, target: _Target, count: _Count) -> bool:
        """Add what a target has; False where nothing is there."""
        here = self._real(target.path)
        found = self._trees.view.look(here).found
        if found is None:
            return False
        if (folder := self._git_folder_above(here)) and not here.endswith(".lock"):
            (count.repositories if folder == here and target.whole else count.of_git).append(
                posixpath.dirname(here) if folder == here and here.endswith("/.git") else here
            )
        self._left -= 1
        waiting = [(here, found, self._tree(posixpath.dirname(here)))]
        while waiting:
            path, found, tree = waiting.pop()
            if not stat.S_ISDIR(found.st_mode):
                if self._is_at_its_end():
                    count.more = True
                    break
                self._add(path, found, tree, count)
                continue
            count.folders += 1
            if not target.whole:
                continue
            inside = list(self._inside(path, count))
            names = {posixpath.basename(each) for each, _ in inside}
            if ".git" in names:
                tree = self._tree(path)
                if f"{path}/.git" in {each for each, about in inside if stat.S_ISDIR(about.st_mode)}:
                    count.repositories.append(path)
            elif names >= _GIT_FOLDER and not folder and posixpath.basename(path) != ".git":
                count.repositories.append(path)
            waiting += [(*each, tree) for each in inside]
        return True

    def _git_folder_above(self, path: str) -> str:
        """Return the folder of a repository's own files that a path is, or lies in; "" where it does in none."""
        while path != "/":
            if posixpath.basename(path) == ".git" and self._trees.view.look(path).is_directory:
                return path
            if all(self._trees.view.look(f"{path}/{name}").found is not None for name in _GIT_FOLDER):
                return path
            path = posixpath.dirname(path)
        return ""

    def _tree(self, folder: str) -> _Tree:
        """The work tree that a folder lies in, whose commits stay."""
        top = self._top_above(folder)
        if top is None:
            return None
        try:
            tree = self._trees.at(top)
            if top not in self._lost:
                self._lost[top] = self._goes((tree.repository.common, *tree.repository.objects.folders))
        except NoRepository:
            return None
        except NotKnown as error:
            return error
        return None if self._lost[top] else tree

    def _goes(self, folders: Sequence[str]) -> bool:
        """Tell whether one of these folders goes, or something in it."""
        return any(
            each in self._gone
            or not self._gone.isdisjoint(_above(each))
            or any(path.startswith(f"{each}/") for path in self._gone)
            for each in folders
        )

    def _top_above(self, folder: str) -> str | None:
        if folder not in self._tops:
            if self._trees.view.look(f"{folder.rstrip('/')}/.git").found is not None:
                self._tops[folder] = folder
            else:
                self._tops[folder] = self._top_above(posixpath.dirname(folder)) if folder != "/" else None
        return self._tops[folder]

    def _inside(self, folder: str, count: _Count) -> Iterator[tuple[str, os.stat_result]]:
        try:
            for name, _, _ in self._trees.view.entries(folder):
                if self._is_at_its_end():
                    count.more = True
                    return
                self._left -= 1
                path = f"{folder.rstrip('/')}/{name}"
                if (found := self._trees.view.look(path).found) is not None:
                    yield path, found
                else:
                    count.unknown = True
        except (OSError, ValueError):
            count.unknown = True

    def _add(self, path: str, found: os.stat_result, tree: _Tree, count: _Count) -> None:
        count.files += 1
        if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
            known = count.names.setdefault((found.st_dev, found.st_ino), [0, found.st_nlink, found.st_size])
            known[0] += 1
        else:
            count.size += found.st_size
        if f"{posixpath.dirname(path)}/".find("/.git/") >= 0 or path.endswith("/.git"):
            return  # of the repository itself: that is said once
        if tree is None:
            count.outside += 1
            return
        try:
            if isinstance(tree, NotKnown):
                raise tree
            name = path[len(tree.repository.top.rstrip("/")) + 1 :]
            if name in tree.indexed and tree.is_committed(name):
                count.kept += 1
            else:
                count.alone.append(path)
        except (NotKnown, RecursionError):
            count.unread += 1


def _makes_something(program: Program) -> bool:
    """Tell whether a command of a program may make a file."""
    return any(
        not command.known or any(effect.kind not in _MAKES_NOTHING or effect.unread for effect in command.effects)
        for command in program.commands
    )


def _amount(count: _Count) -> str:
    """Return "3 files and 1 folder (9 bytes)"."""
    parts = [_some(count.files, "file")] if count.files or not count.folders else []
    parts += [_some(count.folders, "folder")] if count.folders else []
    all_names = sum(size for seen, names, size in count.names.values() if seen >= names)
    size = f" ({_bytes(count.size + all_names)})" if count.files else ""
    return f"{'more than ' if count.more else ''}{' and '.join(parts)}{size}"


def _some(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n != 1 else ''}"


def _are(n: int) -> str:
    return f"{n:,} {'is' if n == 1 else 'are'}"


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


def _shown(name: str, most: int = _LONGEST_NAME) -> str:
    """Return a name that nobody takes for words of ours: in quotation marks where it has more than names usually do."""
    if len(name) > most:
        name = f"{name[:40]}…{name[-30:]}"
    if not is_text(name):
        return ascii(name)
    return name if _PLAIN.fullmatch(name) else shlex.quote(name)


# ---- pushes and hosts --------------------------------------------------------------------------------------

_OPEN = "Pushes something: what, and to which branch, can't be told."
_RECEIVED = "refs/heads/"
_SEVERAL = frozenset(str.split("all mirror tags follow-tags prune branches"))
_NOT_FOLLOWED = ELSEWHERE | frozenset(
    str.split("setting config-env repo receive-pack exec recurse-submodules namespace super-prefix")
)
"""Options of git, and of `git push`, that have it go elsewhere or push something else."""
_SAME_USER = frozenset(str.split("time nice ionice timeout nohup stdbuf setsid command builtin exec env bash sh"))
"""Programs under which git reads the settings that are read here."""
_LEAVES_HISTORY = frozenset(str.split("add stage rm mv clean archive format-patch push"))
"""git's commands that change something, but neither its settings nor what a push to another branch says."""
_READ_BY_GIT = frozenset({"HOME", "XDG_CONFIG_HOME"})
_NO = ("false", "no", "off", "0")
_MOST_PUSHES = 20


class Pushes:
    """The pushes of a program, read as git would (git-push(1)): its settings decide what a line says only in part.

    Args:
        program: as the Director has read it.
        trees: where repositories are looked up.
        project: where a command runs of which that is not known.
        environ: the variables that it is started with, as far as they are known; beyond that they are ours.
    """

    def __init__(
        self, program: Program, trees: WorkTrees[Uncommitted], project: str, environ: Mapping[str, str]
    ) -> None:
        self._program, self._trees, self._project = program, trees, project
        self._settings: dict[str, dict[str, list[str]]] = {}
        self._environ = {**os.environ, **environ}
        names = tuple(self._environ)
        given = {e.operand for each in program.commands for e in each.effects if e.kind == "environment"}
        self._moved = (
            is_moved(program, names)
            or not _READ_BY_GIT.isdisjoint(given)
            or any(str(name).startswith("GIT_CONFIG") and name != "GIT_CONFIG_NOSYSTEM" for name in {*names, *given})
        )

    def said(self) -> Iterator[str]:
        """Say of each push what it brings, and what it throws away."""
        pushes = [
            each
            for each in self._program.commands
            if each.program == "git" and each.subcommand == "push" and "dry-run" not in each.flags
        ]
        further = [each for each in self._program.commands if _may_matter(each)] if pushes else []
        for command in pushes[:_MOST_PUSHES]:
            try:
                yield from list(self._said(command, [each for each in further if each is not command]))
            except (NotKnown, ValueError, RecursionError):
                yield _OPEN
        if len(pushes) > _MOST_PUSHES:
            yield f"Pushes {len(pushes) - _MOST_PUSHES:,} times more."

    def _said(self, command: SimpleCommand, others: Sequence[SimpleCommand]) -> Iterator[str]:
        place = place_of(command)
        if self._moved or place is None or None in command.operands or not command.flags_complete:
            raise NotKnown("a command line that is not known")
        if not command.flags.isdisjoint(_NOT_FOLLOWED) or not _SAME_USER.issuperset(command.via):
            raise NotKnown("it goes elsewhere")
        commits = all(each.subcommand == "commit" and "amend" not in each.flags for each in others)
        if others and not commits:
            raise NotKnown("another command may change what is pushed")
        repository = self._trees.at(self._trees.view.real(place or self._project)).repository
        if repository.top not in self._settings:
            self._settings[repository.top] = _settings(repository, self._trees.view, self._environ)
        yield from _push(repository, self._settings[repository.top], command, grows=bool(others))


def _may_matter(command: SimpleCommand) -> bool:
    """Tell whether a command may change what a push brings, or whereto."""
    if not command.known or any(effect.unread or effect.kind == "execute" for effect in command.effects):
        return True
    changing = [effect for effect in command.effects if effect.kind not in ("read", "environment", "network")]
    if command.program == "git":
        base = (command.subcommand or "").partition(" ")[0]
        return base not in _LEAVES_HISTORY and (bool(changing) or base in ("fetch", "pull", "remote", "config"))
    paths = [effect.pattern or effect.operand for effect in changing if effect.kind in ("write", "delete", "move")]
    return any(path is None or "git" in path for path in paths)


def _settings(repository: Repository, view: View, environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return git's settings, as they hold in a repository: the names of sections and of settings in small letters.

    Raises:
        NotKnown: there are more, in files that they name.
        ValueError: they are not understood.
    """
    home = environ.get("HOME") or os.path.expanduser("~")
    shared = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    files = ("/etc/gitconfig", f"{shared}/git/config", f"{home}/.gitconfig")
    texts = [os.fsdecode(read_file(view, path, 1 << 18) or b"") for path in files if path.startswith("/")]
    found: dict[str, list[str]] = {}
    for text in (*texts, repository.written_settings):
        for name, value in settings_in(text):
            first, _, rest = name.partition(".")
            middle, dot, last = rest.rpartition(".")
            key = f"{first.lower()}.{middle}{dot}{last.lower()}"
            if key.startswith(("include.", "includeif.")):
                raise NotKnown("settings that include others")
            found.setdefault(key, []).append(value.strip().strip('"'))
    return found


def _push(
    repository: Repository, settings: dict[str, list[str]], command: SimpleCommand, *, grows: bool
) -> Iterator[str]:
    before, after = divided(command)
    words = [*before, *(after or [])]
    branch = repository.branch()
    remote = words[0] if words else _remote(settings, branch)
    shown = _shown(re.sub(r"(?<=//)[^/@]*@", "", remote))
    forced = not command.flags.isdisjoint({"force", "force-with-lease", "mirror"})
    if not command.flags.isdisjoint(_SEVERAL):
        yield _several(shown, forced=forced, deletes=not command.flags.isdisjoint({"mirror", "prune"}))
        return
    _refuse(settings, remote)
    specs = words[1:] or [branch]
    if "tag" in specs or (not words[1:] and branch == "HEAD"):
        raise NotKnown("not only branches")
    for spec in specs:
        source, colon, target = spec.removeprefix("+").partition(":")
        if colon and not source and not target:
            yield _several(shown, forced=forced or spec.startswith("+"), deletes=False)
            continue
        if not source or "delete" in command.flags:
            gone = (target if colon else source).removeprefix(_RECEIVED)
            kind = "" if gone.startswith("refs/") else "branch "
            yield f"Deletes {f'the {kind}' if kind else ''}{_shown(gone)} of {shown}."
            continue
        if "*" in spec or source.startswith("^") or (colon and not target):
            raise NotKnown("several branches")
        push = _Push(repository, settings, remote, shown, forced or spec.startswith("+"), grows)
        yield from push.said(source, target if colon else "", branch)


def _several(remote: str, *, forced: bool, deletes: bool) -> str:
    """Say that not one branch is pushed."""
    thrown = ", and throws away what it has there and you have not" if forced else ""
    deleted = ", and deletes those that are not here" if deletes else ""
    return f"Pushes several branches or tags to {remote}{thrown}{deleted}."


def _remote(settings: dict[str, list[str]], branch: str) -> str:
    """Where a push goes that names no place."""
    for name in (f"branch.{branch}.pushremote", "remote.pushdefault", f"branch.{branch}.remote"):
        if name in settings:
            return settings[name][-1]
    named = {name[len("remote.") : -len(".url")] for name in settings if _is_url(name)}
    return min(named) if len(named) == 1 else "origin"


def _is_url(name: str) -> bool:
    return name.startswith("remote.") and name.endswith(".url")


def _refuse(settings: dict[str, list[str]], remote: str) -> None:
    """Refuse what git is told to push besides, or elsewhere, than a line says."""
    usual = settings.get("push.default", ["simple"])[-1].lower() in ("simple", "current")
    further = {"push.followtags", "push.recursesubmodules", "submodule.recurse"}
    switched = [settings[name][-1].lower() for name in (*further, f"remote.{remote}.mirror") if name in settings]
    if not usual or any(value not in _NO for value in switched) or f"remote.{remote}.push" in settings:
        raise NotKnown("settings say what is pushed")


@dataclass(frozen=True, slots=True)
class _Push:
    """One push of one branch.

    Args:
        remote: to which.
        shown: as people read it.
        forced: it throws away what is there.
        grows: commits are made before it.
    """

    repository: Repository
    settings: dict[str, list[str]]
    remote: str
    shown: str
    forced: bool
    grows: bool

    def said(self, source: str, target: str, branch: str) -> Iterator[str]:
        """Say what is pushed, and what it throws away."""
        repository = self.repository
        here = repository.peeled(repository.revision(source, branches=True))
        named = target
        target = (target or source).removeprefix(_RECEIVED)
        target = branch if target in ("HEAD", "@") and not named else target
        there = self._there(target, named, branch)
        before = " and what is committed before" if self.grows else ""
        if there is None:
            yield f"Pushes {_shown(source)} to {self.shown} as {_shown(target)}, of which nothing is known here."
            if self.forced:
                yield f"It throws away what {self.shown} {_shown(target)} has, if there is one."
            return
        new, lost = repository.between([there], [here]), repository.between([here], [there])
        known = "" if new or self.grows else ", by what was fetched of it last"
        brought = _commits(repository, new) if new or not self.grows else "what is committed before"
        brought += before if new else ""
        yield f"Pushes {brought} to {self.shown} {_shown(target)}{known}."
        if lost:
            how = "throws away" if self.forced else "is refused, or throws away"
            yield f"It {how} {_commits(repository, lost)} that {self.shown} {_shown(target)} has."
        elif self.forced:
            yield f"It throws away what {self.shown} {_shown(target)} has got since it was fetched last, if it has."

    def _there(self, target: str, named: str, branch: str) -> bytes | None:
        """What a branch of the remote was at when it was fetched last; None where nothing tells."""
        own = f"remote.{self.remote}."
        if len(self.settings.get(f"{own}url", ())) != 1 or f"{own}pushurl" in self.settings:
            return None
        if any(name.startswith("url.") and name.endswith(".pushinsteadof") for name in self.settings):
            return None
        if target in ("HEAD", "@", "") or target.startswith("refs/"):
            return None
        fetched = {each.removeprefix("+") for each in self.settings.get(f"{own}fetch", ())}
        kept = f"refs/remotes/{self.remote}/"
        if fetched.isdisjoint({f"{_RECEIVED}*:{kept}*", f"{_RECEIVED}{target}:{kept}{target}"}):
            return None
        try:
            if not named and target != branch:
                self.repository.reference(f"{_RECEIVED}{target}")  # it may be a tag
            return self.repository.peeled(self.repository.reference(f"{kept}{target}"))
        except NothingNamed:
            return None


def _commits(repository: Repository, names: Sequence[bytes]) -> str:
    if not names:
        return "no new commit"
    titles = [f"{name.hex()[:8]} “{_title(repository, name)}”" for name in names[:NAMED]]
    more = len(names) - NAMED
    listed = "; ".join(titles) + (f" and {more:,} more" if more > 0 else "")
    return f"{_some(len(names), 'commit')} ({listed})"


def _title(repository: Repository, name: bytes) -> str:
    """Return the first line of what a commit says; nothing in it ends the quotation marks around it."""
    try:
        _, data = repository.objects.get(name)
    except NotKnown:
        return ""
    title = data.partition(b"\n\n")[2].partition(b"\n")[0].decode("utf-8", "replace")
    return re.sub("[“”„‟〝〞＂]", '"', f"{title[:80]}…" if len(title) > 80 else title)


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
