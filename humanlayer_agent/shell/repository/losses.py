"""Work that git has nowhere else, and that a command would throw away: changes of files, untracked files, stashes.

Looked for on the disk and in the repository, without running git. Where nothing would be lost, what the catalog says of
such a command in general does not hold; where something would, its names are said; and where it can't be told, the
catalog's words stand.
"""

import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from humanlayer_agent.shell.program import LOSS, Effect, Program, SimpleCommand
from humanlayer_agent.shell.repository.history import NoRepository, Repository
from humanlayer_agent.shell.repository.object_store import NotKnown
from humanlayer_agent.shell.repository.work_tree import (
    COMMANDS,
    ELSEWHERE,
    WorkTree,
    WorkTrees,
    divided,
    is_moved,
    is_text,
    place_of,
    selection,
)
from humanlayer_agent.shell.view import View

_MOST_TRACKED = 20_000
_MOST_FOUND = 20_000
_NAMED = 5
_GENERAL = {"branch": frozenset({"branch"}), "stash drop": frozenset({"stash"}), "stash clear": frozenset({"stash"})}
_WORK_TREE = frozenset({"work-tree"})
"""The roles of what the catalog says of a command in general."""
_HARMLESS = frozenset({"read", "environment"})
_CHANGES = "uncommitted changes"


class Beginning:
    """The uncommitted changes that a work tree had when a run began.

    Args:
        project: a directory in it, an absolute path.
        view: what of the disk is seen.
    """

    def __init__(self, project: str, view: View) -> None:
        self.top = ""
        """The work tree; "" where nothing is known of it."""
        try:
            with Repository.of(project, view) as repository:
                tree = WorkTree(repository, lambda path: False)
                if len(tree.indexed) > _MOST_TRACKED:
                    return
                self._head, self._index = tree.trees[0], tree.indexed
                self._changed = {path for path in tree.indexed if not tree.is_as_listed(path)}
                self.top = repository.top
        except NotKnown:
            return

    def has(self, repository: Repository, path: str) -> bool:
        """Tell whether a file had changes then that were not committed, or that can't be told."""
        listed = self._index.get(path) if self.top == repository.top else None
        if listed is None or path in self._changed:
            return True
        return repository.entry(self._head, path) != (listed.mode, listed.blob)


def is_clean(directory: str, view: View) -> bool | None:
    """Tell whether nothing that git tracks differs from the last commit; None where that can't be told.

    Args:
        directory: in the work tree, an absolute path.
        view: what of the disk is seen.
    """
    try:
        with Repository.of(directory, view) as repository:
            tree = WorkTree(repository, lambda path: False)
            if len(tree.indexed) > _MOST_TRACKED:
                return None
            committed = {path: entry for path, _, entry in repository.differences(None, tree.trees[0])}
            listed = {path: (entry.mode, entry.blob) for path, entry in tree.indexed.items()}
            return listed == committed and all(tree.has(path, entry) for path, entry in listed.items())
    except (NotKnown, RecursionError):
        return None


class Uncommitted(WorkTree):
    """A work tree, of which only the files are looked for whose content is in no commit.

    Args:
        repository: the one that it is of.
        beginning: tells what somebody else has changed; None: anything may be somebody else's.
    """

    def __init__(self, repository: Repository, beginning: Beginning | None) -> None:
        super().__init__(repository, lambda path: True)
        self._beginning = beginning
        self.said: list[str] = []
        """What the current command would throw away besides `changes`."""

    def minds(self, path: str) -> bool:
        """Tell whether somebody else's work is lost with what a file has now."""
        step = self.repository.view.look(f"{self.repository.top}/{path}")
        if step.found is None or step.is_directory or self.has(path, self.repository.entry(self.trees[0], path)):
            return False
        return self._beginning is None or self._beginning.has(self.repository, path)

    def is_committed(self, path: str) -> bool:
        """Tell whether the current commit has what a file has now. What the index says of a file is believed only where
        nobody can have changed that file since: anybody may set when it was changed last.
        """
        entry = self.repository.entry(self.trees[0], path)
        return self.has(path, entry, believes=self._is_settled(path) and self.stands(path, entry))

    def _is_settled(self, path: str) -> bool:
        """Tell whether a file is older than the index."""
        view = self.repository.view
        found, index = view.look(f"{self.repository.top}/{path}").found, view.look(f"{self.repository.own}/index").found
        return found is not None and index is not None and found.st_mtime_ns < index.st_mtime_ns

    def move(self, target: bytes) -> None:
        """Nothing is lost: git refuses."""

    def merge(self, base: bytes | None, other: bytes | None) -> None:
        """Nothing is lost: git refuses."""

    def may_be(self, tree: bytes) -> None:
        """What is there counts, and not what an earlier command of the action leaves there."""

    def untracked(self, folders: Iterable[str], *, whole: bool) -> Iterator[str]:
        """Yield what lies below folders (files, or folders with nothing that is tracked) and is not tracked.

        Args:
            folders: absolute paths.
            whole: folders with nothing that is tracked count.
        """
        listed = self.indexed
        above = {folder for path in listed for folder in _above(path)}
        waiting, seen = list(folders), 0
        while waiting:
            folder = waiting.pop()
            try:
                entries = list(islice(self.repository.view.entries(folder), _MOST_FOUND + 1))
            except NotADirectoryError:
                entries = []
                if (path := posixpath.relpath(folder, self.repository.top)) not in listed:
                    yield path
            except FileNotFoundError:
                continue
            except OSError as error:
                raise NotKnown(str(error)) from None
            for name, _, is_directory in sorted(entries):
                if (seen := seen + 1) > _MOST_FOUND:
                    raise NotKnown("too many files")
                path = posixpath.relpath(f"{folder}/{name}", self.repository.top)
                if name == ".git" or path in listed:
                    continue
                if is_directory and path in above:
                    waiting.append(f"{folder}/{name}")
                elif not is_directory:
                    yield path
                elif whole:
                    yield f"{path}/"


def note_losses(
    program: Program, project: str, view: View, beginning: Beginning | None, environ: Collection[str] = ()
) -> None:
    """Say of the commands of a program what uncommitted work they would throw away.

    Args:
        program: as `analyse` has read it.
        project: where a command runs of which that is not known.
        view: what of the disk its commands see.
        beginning: what was not committed when the run began; None where that is not known, and everything counts.
        environ: the names of the variables that it is started with.
    """
    meant = [command for command in program.commands if _handler(command) and not _is_switch(command, project, view)]
    if not meant:
        return
    elsewhere = is_moved(program, environ)
    harmful = [command for command in program.commands if not _changes_nothing(command)]
    with WorkTrees(view, lambda repository: Uncommitted(repository, beginning)) as trees:
        for command in meant:
            # What else runs may change what there is to lose.
            alone = program.status == "ok" and not any(other is not command for other in harmful)
            _note(command, trees, project, alone=alone, elsewhere=elsewhere)


def _is_switch(command: SimpleCommand, project: str, view: View) -> bool:
    """Tell whether git goes to another branch, or refuses to: what it is given is no file."""
    words = [each or "*" for each in command.operands]
    if command.subcommand != "checkout" or command.flags & {"force", "patch", _LISTED} or "--" in command.argv:
        return False
    if len(words) > 1 or not command.flags_complete or any(set(each) & set(":*?[\\") for each in words):
        return False
    names = (posixpath.normpath(posixpath.join(place_of(command) or project, each)) for each in words)
    return all(view.look(name).found is None for name in names)


def _changes_nothing(command: SimpleCommand) -> bool:
    """Tell whether a command leaves what others would throw away."""
    if not command.known:
        return False
    if command.program == "git" and (command.subcommand == "clean" or command.argv[1:] == ["reset", "--hard"]):
        return True
    return all(effect.kind in _HARMLESS for effect in command.effects)


def _note(command: SimpleCommand, trees: WorkTrees[Uncommitted], project: str, *, alone: bool, elsewhere: bool) -> None:
    handler, place = _handler(command), place_of(command)
    roles = _GENERAL.get(command.subcommand or "", _WORK_TREE)
    general = [effect for effect in command.effects if effect.kind == "vcs-rewrite" and effect.role in roles]
    known = place is not None and None not in command.operands and command.flags_complete
    known = known and not elsewhere and command.flags.isdisjoint({*ELSEWHERE, _LISTED})
    here = trees.view.real(place or project)
    try:
        try:
            if handler is None or not known:
                raise NotKnown("an unknown command line")
            lost = handler(trees, command, here)
        except (NotKnown, RecursionError) as error:
            if general or isinstance(error, NoRepository):
                return
            tree = trees.at(here)
            lost = _few(f"{_CHANGES}, perhaps of", sorted(path for path in tree.indexed if tree.minds(path)))
    except NoRepository:
        return
    except (NotKnown, RecursionError):
        lost = [f"{_CHANGES}, if there are any"]
    if lost or alone:
        command.effects[:] = [effect for effect in command.effects if effect not in general]
    if lost:
        whose = f"{command.program} {command.subcommand or ''}".strip()
        command.effects.append(Effect("vcs-rewrite", LOSS, "; ".join(lost), True, command.span, whose))


def _few(what: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    named = [path if is_text(path) else ascii(path) for path in paths[:_NAMED]]
    more = len(paths) - _NAMED
    return [f"{what} {', '.join(named)}" + (f" and {more} more" if more > 0 else "")]


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


# ---- the command lines -------------------------------------------------------------------------------------

Handler = Callable[[WorkTrees[Uncommitted], SimpleCommand, str], list[str]]


def _handler(command: SimpleCommand) -> Handler | None:
    if command.program == "rsync":
        return _mirrored if any(effect.kind == "delete" for effect in command.effects) else None
    if command.program != "git":
        return None
    if command.subcommand == "clean" and "dry-run" in command.flags:
        return None
    if command.subcommand == "restore" and "staged" in command.flags and "worktree" not in command.flags:
        return None
    if command.subcommand == "checkout" and command.flags & {"create", "orphan"} and "force" not in command.flags:
        return None
    needed = _NEEDED.get(command.subcommand or "")
    return None if needed and command.flags.isdisjoint(needed) else _HANDLERS.get(command.subcommand or "")


def _files(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """Files that get the content of another version."""
    tree = trees.at(here)
    if "patch" in command.flags:
        raise NotKnown("somebody chooses")
    if not command.flags.isdisjoint({"ours", "theirs", "merge", "conflict"}) and command.subcommand != "reset":
        before, after = divided(command)
        wanted = selection(tree, here, after or before)
        return _few(f"{_CHANGES} of", sorted(path for path in tree.indexed if wanted(path) and tree.minds(path)))
    tree.changes, count = {}, 0
    if command.subcommand == "reset" and command.operands:
        count = len(tree.repository.between([tree.commit(command.operands[0] or "")], [tree.commit("HEAD")]))
    COMMANDS[command.subcommand or ""](tree, command, here)
    top = tree.repository.top
    lost = _few(f"{_CHANGES} of", sorted(posixpath.relpath(path, top) for path in tree.changes))
    return lost + ([f"{count} commits of the branch"] if count else [])


def _removed(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """git rm -f."""
    tree = trees.at(here)
    wanted = selection(tree, here, [each for each in command.operands if each])
    return _few(f"{_CHANGES} of", sorted(path for path in tree.indexed if wanted(path) and tree.minds(path)))


def _cleaned(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """git clean. What is ignored is not told apart."""
    tree = trees.at(here)
    before, after = divided(command)
    words = [*before, *(after or [])]
    wild = any(set(each) & set("*?[\\") or each.startswith(":") for each in words)
    folders = (
        [tree.repository.view.real(posixpath.join(here, each)) for each in words] if words and not wild else [here]
    )
    if wild or any(not f"{folder}/".startswith(f"{tree.repository.top}/") for folder in folders):
        folders = [tree.repository.top]
    found = sorted(tree.untracked(folders, whole="d" in command.flags or bool(words)))
    return _few("untracked files:" if "x" in command.flags else "untracked files, what is not ignored of", found)


def _dropped(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """git stash drop, clear."""
    repository = trees.at(here).repository
    try:
        repository.reference("refs/stash")
    except NotKnown:
        return []
    log = (repository.read(f"{repository.common}/logs/refs/stash", 1 << 20) or b"").decode("utf-8", "replace")
    kept = [line.partition("\t")[2] for line in reversed(log.splitlines())]
    if command.subcommand == "stash drop":
        words, _ = divided(command)
        found = re.fullmatch(r"(?:stash@\{)?([0-9]{1,6})\}?", words[0] if words else "0")
        if found is None or int(found[1]) >= len(kept):
            raise NotKnown("no such stash")
        kept = kept[int(found[1]) :][:1]
    return _few("stash", kept) or ["stash"]


def _deleted(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """git branch -D."""
    if (
        not command.flags.isdisjoint({"force-move", "force-copy", "remotes", "list"})
        or "force-delete" not in command.flags
    ):
        raise NotKnown("not only deleted")
    tree = trees.at(here)
    lost = []
    for word in divided(command)[0]:
        tip = tree.repository.reference(f"refs/heads/{word}")
        count = len(tree.repository.between([tree.commit("HEAD")], [tip]))
        lost += [f"branch {word} with {count} commits that are not in HEAD"] if count else []
    return lost


def _detached(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """git worktree remove --force."""
    for word in divided(command)[0]:
        tree = trees.at(posixpath.join(here, word))
        top = tree.repository.top
        found = [path for path in tree.indexed if tree.minds(path)]
        return _few(f"{_CHANGES} of", sorted([*found, *tree.untracked([top], whole=True)]))
    return []


def _mirrored(trees: WorkTrees[Uncommitted], command: SimpleCommand, here: str) -> list[str]:
    """rsync --delete: what is below the target, and not the same in what is mirrored."""
    sources = [effect.operand for effect in command.effects if effect.kind == "read" and effect.source == "own"]
    lost: list[str] = []
    for effect in command.effects:
        if effect.kind != "delete" or effect.operand is None:
            continue
        tree = trees.at(posixpath.dirname(effect.operand.rstrip("/")) or "/")
        view, target = tree.repository.view, tree.repository.view.real(effect.operand)
        below = posixpath.relpath(target, tree.repository.top)
        inside = [path for path in tree.indexed if below == "." or path.startswith(f"{below}/")]
        if not inside:
            continue  # nothing in there is under version control: it is made anew from what is
        found = [path for path in inside if tree.minds(path)] + list(tree.untracked([target], whole=True))
        for path in found:
            name = posixpath.relpath(f"{tree.repository.top}/{path}", target)
            there = view.look(f"{tree.repository.top}/{path}").found
            folders = (folder for source in sources if source for folder in (source, posixpath.dirname(source)))
            copies = [view.look(f"{folder.rstrip('/')}/{name}").found for folder in folders]
            if not any(copy is not None and there is not None and _is_same(copy, there) for copy in copies):
                lost.append(path)
    return _few(f"{_CHANGES} of", sorted(lost))


def _is_same(one: os.stat_result, other: os.stat_result) -> bool:
    return (stat.S_IFMT(one.st_mode), one.st_size, int(one.st_mtime)) == (
        stat.S_IFMT(other.st_mode),
        other.st_size,
        int(other.st_mtime),
    )


_LISTED = "pathspec-from-file"
"""The option of git by which a file says what it works on."""
_NEEDED = {
    "branch": frozenset({"force-delete"}),
    "reset": frozenset({"hard", "merge", "keep"}),
    "read-tree": frozenset({"reset"}),
    "rm": frozenset({"force"}),
    "switch": frozenset({"force"}),
    "worktree remove": frozenset({"force"}),
}
"""Without one of these, git refuses where something would be lost."""
_HANDLERS: dict[str, Handler] = {
    "branch": _deleted,
    "checkout": _files,
    "clean": _cleaned,
    "read-tree": _files,
    "reset": _files,
    "restore": _files,
    "rm": _removed,
    "stash clear": _dropped,
    "stash drop": _dropped,
    "switch": _files,
    "worktree remove": _detached,
}
