"""The files of a work tree that a command of git's would make other versions of: a switch, a merge, a rebase.

Which files stands in the repository, in the trees of the commits that the command line names, and they are compared
without running git. What is found is what the command is known to do; where it can't be told, nothing is added, and
whatever holds the command holds it as before.
"""

import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Generic, TypeVar

from humanlayer_agent.shell.disk_reader import MAX_INDEX
from humanlayer_agent.shell.program import VERSION, Effect, EffectKind, Program, SimpleCommand
from humanlayer_agent.shell.programs.special.patch import targets
from humanlayer_agent.shell.repository.history import NoRepository, Repository
from humanlayer_agent.shell.repository.index import Tracked, understood
from humanlayer_agent.shell.repository.object_store import MOST_BYTES, TREE, Allowance, Entry, NotKnown
from humanlayer_agent.shell.view import View

MOST_FILES = 300
_LINK, _SUBMODULE = 0o120000, 0o160000
_ELSEWHERE = frozenset({"git-dir", "work-tree", "bare", "exec-path"})
_MOVES = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", None),
    }
)
"""Variables with which git looks elsewhere, or does something else."""
_MOST_TREES = 8
_MOST_PLACES = 16
_INDEX = "the index"
_OF_A_PATCH = 1 << 20
_BRING_UNSEEN = frozenset(
    str.split("bisect checkout-index filter-branch lfs read-tree sparse-checkout submodule subtree")
)
"""Further commands that bring other files into a work tree, which nobody looks for here."""
_PICKS = frozenset({"pick", "p", "reword", "r", "edit", "e", "squash", "s", "fixup", "f"})
_NOTHING = frozenset({"noop", "break", "b", "drop", "d", "label", "l", "update-ref", "u"})

Content = tuple[int, bytes] | str | None
"""What a file gets: mode and blob, "" for something that is made of several versions, None where it goes."""


class WorkTree:
    """A work tree, and what the commands of one action make of it.

    Args:
        repository: the one that it is of.
        minds: tells of an absolute path whether a change of it is looked for.
    """

    def __init__(self, repository: Repository, minds: Callable[[str], bool]) -> None:
        self.repository = repository
        self._minds = minds
        self.trees = [repository.tree_of(repository.revision("HEAD"))]
        """Those of which the files may be, that are there when a command begins. With the first alone nothing would be
        missed of a whole action, since what another one has of its own was noted on the way there."""
        self.changes: dict[str, Content] = {}
        """What the current command changes, by absolute path."""
        self.committed = False
        """What was in the work tree may be in a commit by now."""
        self.whose = ""
        """What people call where the changes come from, where it is not the first operand."""

    def minds(self, path: str) -> bool:
        """Tell whether a file of the work tree, by its path there, is looked for."""
        return self._minds(f"{self.repository.top}/{path}")

    def tree(self, revision: str, *, branches: bool = False) -> bytes:
        """Return the tree of a revision; of `A...B` that of where both part."""
        one, dots, other = revision.partition("...")
        if not dots:
            return self.repository.tree_of(self.repository.revision(revision, branches=branches))
        bases = self.bases(self.commit(one or "HEAD"), self.commit(other or "HEAD"))
        if len(bases) != 1:
            raise NotKnown(f"{revision} is no single commit")
        return self.repository.tree_of(bases[0])

    def commit(self, revision: str) -> bytes:
        """Return the commit that a revision is."""
        return self.repository.peeled(self.repository.revision(revision))

    def bases(self, one: bytes, other: bytes) -> list[bytes]:
        """Return where the pasts of two commits part."""
        return self.repository.merge_bases(one, other)

    # ---- what commands do ------------------------------------------------------------------------------

    def go(self, revision: str) -> None:
        """Note that the commit of a revision is the current one from now on."""
        commit = self.commit(revision)
        self.repository.left.append(self.commit("HEAD"))
        self.repository.head = commit

    def move(self, target: bytes) -> None:
        """Go to a tree: what differs from where it was changes."""
        if self.committed:
            return self.reset(target)
        for tree in self.trees:
            for path, _, new in self.repository.differences(tree, target):
                if self.minds(path):
                    self.note(path, new)
        return self.may_be(target)

    def reset(self, target: bytes, wanted: Callable[[str], bool] = lambda path: True) -> None:
        """Go to a tree, and drop what was not committed."""
        for tree in self.trees:
            for path, _, new in self.repository.differences(tree, target):
                if wanted(path) and self.minds(path) and (len(self.trees) > 1 or not self.has(path, new)):
                    self.note(path, new)
        have = {path: new for path, _, new in self.repository.differences(None, target)}
        self.restore(have, wanted, removes=True)
        self.may_be(target)

    def restore(self, source: dict[str, Entry | None], wanted: Callable[[str], bool], *, removes: bool) -> None:
        """Make files what a source says of them; with `removes`, what is tracked and not in the source goes."""
        for path, entry in source.items():
            if wanted(path) and self.minds(path) and not self.has(path, entry):
                self.note(path, entry)
        for path in self.indexed if removes else ():
            if path not in source and wanted(path) and self.minds(path) and not self.has(path, None):
                self.note(path, None)

    def merge(self, base: bytes | None, other: bytes | None) -> None:
        """Bring in what differs between two trees; None is an empty one. Of several that follow each other, what
        differs from where it began is noted where it first does.
        """
        for path, before, theirs in self.repository.differences(base, other):
            for above in _above(path) if theirs is not None else ():
                if self.minds(above) and any(self._file(tree, above) for tree in self.trees):
                    self.note(above, None)  # theirs is a folder
            if not self.minds(path):
                continue
            for tree in self.trees:
                ours = self._file(tree, path)
                if ours != theirs:
                    self.note(path, theirs if ours == before else "")

    def note(self, path: str, content: Content) -> None:
        """Note what a file of the work tree becomes."""
        place = f"{self.repository.top}/{path}"
        if place in self.changes and self.changes[place] != content:
            content = ""
        self.changes[place] = content

    def remove_below(self, target: bytes, wanted: Callable[[str], bool]) -> None:
        """Note what goes because a tree has a file where its folder was, or a folder in its place."""
        for path in filter(self.minds, self.indexed):
            found = self.repository.entry(target, path)
            if (found is not None and found[0] == TREE) or any(
                wanted(above) and self._file(target, above) for above in _above(path)
            ):
                self.note(path, None)

    def _file(self, tree: bytes, path: str) -> Entry | None:
        """What a tree has at a path, but for a folder."""
        found = self.repository.entry(tree, path)
        return None if found is not None and found[0] == TREE else found

    def may_be(self, tree: bytes) -> None:
        """Note that the files may be those of a tree from now on."""
        if tree not in self.trees and len(self.trees) < _MOST_TREES:
            self.trees.append(tree)

    @cached_property
    def indexed(self) -> dict[str, Tracked]:
        """What the index has."""
        index = self.repository.read(f"{self.repository.own}/index", MAX_INDEX) or b""
        try:
            found = {os.fsdecode(path): tracked for path, tracked in understood(index).items()} if index else {}
        except ValueError as error:
            raise NotKnown(f"an index that is not understood: {error}") from None
        if index and not found and index[8:12] != bytes(4):
            raise NotKnown("an index of which nothing is merged")
        self.repository.allowance.spend(len(found))
        return found

    def in_index(self) -> dict[str, Entry | None]:
        """Return what the index would restore."""
        return {path: (tracked.mode, tracked.blob) for path, tracked in self.indexed.items()}

    def has(self, path: str, entry: Entry | None) -> bool:
        """Tell whether a file is there already as an entry says."""
        view = self.repository.view
        step = view.look(f"{self.repository.top}/{path}")
        if step.found is None or entry is None:
            return step.found is None and entry is None
        mode, blob = entry
        if mode == _SUBMODULE:
            return step.is_directory
        if stat.S_ISLNK(step.found.st_mode) or mode == _LINK:
            data = os.fsencode(step.target) if step.target is not None and mode == _LINK else None
        elif not stat.S_ISREG(step.found.st_mode) or (
            self.repository.keeps_modes and bool(mode & 0o100) != bool(step.found.st_mode & 0o100)
        ):
            return False
        else:
            known = self.indexed.get(path)
            if known is not None and known.blob == blob and known.mode == mode and _is_listed(known, step.found):
                return True  # a filter may have made something else of it, as git did when it was checked out
            if step.found.st_size > MOST_BYTES:
                return False  # it is not looked into
            data = self.repository.read(f"{self.repository.top}/{path}", MOST_BYTES)
        import hashlib

        if data is None:
            return False
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest() == blob

    def is_as_listed(self, path: str) -> bool:
        """Tell whether a file seems to be as the index has it: its content is not read."""
        found, known = self.repository.view.look(f"{self.repository.top}/{path}").found, self.indexed[path]
        return found is not None and stat.S_IFMT(found.st_mode) == stat.S_IFMT(known.mode) and _is_listed(known, found)


def _is_listed(known: Tracked, about: os.stat_result) -> bool:
    seconds, fraction = divmod(about.st_mtime_ns, 10**9)
    is_exact = known.times[1] % 10**9 in (0, fraction)  # not everybody who writes an index knows it
    return is_exact and (known.size, known.time) == (about.st_size & 0xFFFFFFFF, seconds & 0xFFFFFFFF)


Tree = TypeVar("Tree", bound=WorkTree)


class WorkTrees(ExitStack, Generic[Tree]):
    """The work trees that the commands of one action work in. They share what may be read. To be closed.

    Args:
        view: what of the disk the commands see.
        make: makes one.
    """

    def __init__(self, view: View, make: Callable[[Repository], Tree]) -> None:
        super().__init__()
        self.view = view
        self._make, self._known, self._allowance = make, dict[str, Tree | None](), Allowance()

    def at(self, place: str) -> Tree:
        """Return that of a directory.

        Raises:
            NotKnown: there is none, it can't be read, or there are too many.
        """
        if place not in self._known:
            if len(self._known) >= _MOST_PLACES:
                raise NotKnown("too many work trees")
            repository = self.enter_context(Repository.of(place, self.view, self._allowance))
            self._known[place] = None
            self._known[place] = self._make(repository)
        if (tree := self._known[place]) is None:
            raise NotKnown("it could not be read before")
        return tree


def note_versions(program: Program, view: View, minds: Callable[[str], bool], environ: Collection[str] = ()) -> None:
    """Add to the commands of a program which files they make other versions of.

    Args:
        program: as `analyse` has read it.
        view: what of the disk its commands see.
        minds: tells of an absolute path whether a change of it is to be added.
        environ: the names of the variables that it is started with.
    """
    if not any(_is_meant(command) for command in program.commands) or is_moved(program, environ):
        return
    with WorkTrees(view, lambda repository: WorkTree(repository, minds)) as trees:
        for command in program.commands:
            if _is_meant(command):
                _note(command, trees)


def brought_links(program: Program, view: View) -> dict[int, tuple[str, ...]]:
    """Return what the git commands of a program may make links, or repositories within the work tree, of.

    Args:
        program: as `analyse` has read it.
        view: what of the disk its commands see.

    Returns:
        For each command, by its number in the program, the paths; `FOLDER/` is anything below a folder, where nobody
        can tell what the command brings.
    """
    found: dict[int, tuple[str, ...]] = {}
    moved = is_moved(program, ())
    with WorkTrees(view, lambda repository: WorkTree(repository, lambda path: True)) as trees:
        for number, command in enumerate(program.commands):
            if command.program == "git" and (command.subcommand in COMMANDS or _brings_unseen(command)):
                found[number] = _brought(command, trees, moved)
    return found


def _brings_unseen(command: SimpleCommand) -> bool:
    changes = any(effect.kind != "read" for effect in command.effects)
    return changes and (command.subcommand or "").partition(" ")[0] in _BRING_UNSEEN


def _brought(command: SimpleCommand, trees: WorkTrees[WorkTree], moved: bool) -> tuple[str, ...]:
    place = place_of(command)
    if place is None or moved:
        return ("/",)
    if not _is_meant(command):
        return (f"{place}/",) if command.flags.isdisjoint(_ELSEWHERE) else ("/",)
    top = place
    try:
        tree = trees.at(place)
        top = tree.repository.top
        if None in command.operands or not command.flags_complete:
            raise NotKnown("a command line that is not known")
        tree.changes = {}
        COMMANDS[command.subcommand or ""](tree, command, tree.repository.view.real(place))
    except NoRepository:
        return ()
    except (NotKnown, RecursionError):
        return (f"{top}/",)
    return tuple(path for path, content in tree.changes.items() if _may_lead(content))


def _may_lead(content: Content) -> bool:
    """May a file that gets this lead elsewhere, or be a repository of its own?"""
    return content == "" or (isinstance(content, tuple) and content[0] in (_LINK, _SUBMODULE))


def is_moved(program: Program, environ: Collection[str]) -> bool:
    """Tell whether a variable may lead git elsewhere."""
    effects = (effect for command in program.commands for effect in command.effects)
    given = {effect.operand for effect in effects if effect.kind == "environment"}
    return not _MOVES.isdisjoint({*given, *environ})


def _is_meant(command: SimpleCommand) -> bool:
    return command.program == "git" and command.subcommand in COMMANDS and command.flags.isdisjoint(_ELSEWHERE)


def _note(command: SimpleCommand, trees: WorkTrees[WorkTree]) -> None:
    place = place_of(command)
    if place is None or None in command.operands or not command.flags_complete:
        return
    tree = None
    try:
        tree = trees.at(place)
        tree.changes, tree.whose = {}, ""
        COMMANDS[command.subcommand or ""](tree, command, tree.repository.view.real(place))
    except (NotKnown, RecursionError):
        if tree is None:
            return
    # A name that is not UTF-8 can't be written down, so nobody can be asked about it.
    changes = {path: content for path, content in tree.changes.items() if path.isascii() or is_text(path)}
    whose = tree.whose or next((each for each in command.operands if each), "") or f"git {command.subcommand}"
    for path, content in sorted(changes.items())[:MOST_FILES]:
        kind: EffectKind = "delete" if content is None else "write"
        value = f"{content[0]:o} {content[1].hex()}" if isinstance(content, tuple) else content
        command.effects.append(Effect(kind, VERSION, path, True, command.span, whose, value=value))
    if len(changes) > MOST_FILES:
        top = tree.repository.top
        command.effects.append(Effect("write", VERSION, top, False, command.span, whose, below=True))


def is_text(path: str) -> bool:
    return not re.search("[\ud800-\udfff]", path)


def place_of(command: SimpleCommand) -> str | None:
    """The directory that git works in; None where it is not known."""
    if command.cwd is None or len(command.cwd) != 1:
        return None
    place = command.cwd[0]
    for moved in command.options.get("directory", ()):
        if moved is None:
            return None
        place = posixpath.join(place, moved)
    return place


# ---- the command lines -------------------------------------------------------------------------------------


def divided(command: SimpleCommand) -> tuple[list[str], list[str] | None]:
    """The operands before `--` and after it; None where there is no `--`."""
    words = [each for each in command.operands if each is not None]
    if "--" not in command.argv:
        return words, None
    after = len(command.argv) - command.argv.index("--") - 1
    return words[: len(words) - after], words[len(words) - after :]


def selection(tree: WorkTree, here: str, patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is meant by path specifications. What is more than a path is taken to mean all."""
    if any(set(each) & set("*?[\\") or each.startswith(":") for each in patterns):
        return lambda path: True
    places = {posixpath.relpath(posixpath.join(here, each), tree.repository.top) for each in patterns}
    return lambda path: "." in places or any(path == each or path.startswith(f"{each}/") for each in places)


def _number(word: str | None, otherwise: int) -> int:
    return int(word) if word is not None and re.fullmatch("[0-9]{1,6}", word) else otherwise


def _refuse(command: SimpleCommand, *flags: str) -> None:
    if not command.flags.isdisjoint(flags):
        raise NotKnown(f"git {command.subcommand} with {', '.join(flags)}")


def _in_progress(command: SimpleCommand) -> str:
    return next((each for each in ("abort", "continue", "skip", "quit") if each in command.flags), "")


def _state(tree: WorkTree, name: str) -> str:
    data = tree.repository.read(f"{tree.repository.own}/{name}", 1 << 20)
    if data is None:
        raise NotKnown(f"no {name}")
    return data.decode("utf-8", "surrogateescape")


def _switch(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git checkout, git switch."""
    words, paths = divided(command)
    _refuse(command, "patch", "pathspec-from-file")
    target = None
    if words:
        try:
            target = tree.tree(words[0], branches=True)
        except NotKnown:
            there = tree.repository.view.look(posixpath.normpath(posixpath.join(here, words[0]))).found is not None
            found = tree.repository.remote_branches(words[0])
            if len(found) == 1 and len(words) == 1 and (paths is not None or not there):
                target = tree.repository.tree_of(found[0])
            elif paths is None and command.subcommand == "checkout" and there:
                words, paths = [], words
            else:
                raise
    if command.subcommand == "checkout" and (len(words) > 1 or paths):
        _refuse(command, "ours", "theirs", "merge", "conflict")
        wanted = selection(tree, here, paths or words[1:])
        tree.whose = words[0] if target is not None else _INDEX
        source = tree.in_index() if target is None else _entries(tree, target)
        tree.restore(source, wanted, removes=False)
        if target is not None:
            tree.remove_below(target, wanted)
    elif command.subcommand == "switch" and "orphan" in command.flags:
        raise NotKnown("nothing of the old branch is left")
    elif "force" in command.flags:
        tree.reset(target or tree.tree("HEAD"))
    elif target is not None:
        tree.move(target)
        tree.go(words[0]) if "..." not in words[0] else None


def _entries(tree: WorkTree, source: bytes) -> dict[str, Entry | None]:
    return {path: entry for path, _, entry in tree.repository.differences(None, source)}


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _restore(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git restore."""
    _refuse(command, "patch", "pathspec-from-file", "merge", "conflict", "ours", "theirs")
    if "staged" in command.flags and "worktree" not in command.flags:
        return
    sources = command.options.get("source", [])
    source = sources[-1] if sources else "HEAD" if "staged" in command.flags else None
    if sources and source is None:
        raise NotKnown("an unknown source")
    wanted = selection(tree, here, [each for each in command.operands if each])
    tree.whose = source or _INDEX
    entries = tree.in_index() if source is None else _entries(tree, tree.tree(source))
    tree.restore(entries, wanted, removes="overlay" not in command.flags)


def _merge(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    if (way := _in_progress(command)) == "abort":
        tree.reset(tree.tree("HEAD"))
    if way or command.options.get("strategy") == ["ours"]:
        return
    words, _ = divided(command)
    for word in words or ["@{upstream}"]:
        _bring_in(tree, word)


def _pull(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git pull: what it fetches is known only where it comes from here."""
    words, _ = divided(command)
    if len(words) != 2 or words[0] != "." or ":" in words[1]:
        raise NotKnown("what is fetched is not known")
    tree.whose = words[1]
    tree.move(tree.tree(words[1])) if "rebase" in command.flags else _bring_in(tree, words[1])


def _bring_in(tree: WorkTree, word: str) -> None:
    """A branch is merged into the current one."""
    other, theirs = tree.commit(word), tree.tree(word)
    differ = (tree.repository.differences(each, theirs) for each in tree.trees)
    if not any(tree.minds(path) for found in differ for path, *_ in found):
        return  # without a look at the history, which may be long
    bases = [tree.repository.tree_of(base) for base in tree.bases(tree.commit("HEAD"), other)]
    for base in (*bases, *([] if bases else [None])):
        tree.merge(base, theirs)
    tree.may_be(theirs)


def _pick(tree: WorkTree, commit: bytes, command: SimpleCommand, *, back: bool = False) -> None:
    """One commit is brought in again, or taken back."""
    about = tree.repository.commit(commit)
    said = command.options.get("mainline", [])
    if len(about.parents) > 1 and not said:
        return  # git refuses
    number = _number(said[-1], 1) if said else 1
    base = tree.repository.tree_of(about.parents[number - 1]) if 0 < number <= len(about.parents) else None
    tree.merge(*((about.tree, base) if back else (base, about.tree)))


def _picked(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git cherry-pick, git revert."""
    back = command.subcommand == "revert"
    way = _in_progress(command)
    if way == "abort":
        try:
            start = _state(tree, "sequencer/head").strip()
        except NotKnown:
            start = "HEAD"
        tree.reset(tree.tree(start))
    elif way in ("continue", "skip"):
        if way == "skip":
            tree.reset(tree.tree("HEAD"))
        try:
            todo = _state(tree, "sequencer/todo")
        except NotKnown:
            return  # there was one commit only
        _replay(tree, command, todo)
    if way:
        return
    words, _ = divided(command)
    plain = [word for word in words if not word.startswith("^") and ".." not in word]
    if len(plain) == len(words):
        commits = [tree.commit(word) for word in words]
    else:
        without, tips = [tree.commit(word[1:]) for word in words if word.startswith("^")], list(map(tree.commit, plain))
        for word in words:
            if ".." in word and not word.startswith("^"):
                one, _, other = word.partition("..")
                without.append(tree.commit(one or "HEAD"))
                tips.append(tree.commit(other or "HEAD"))
        commits = tree.repository.between(without, tips)
    for each in commits:
        _pick(tree, each, command, back=back)


def _replay(tree: WorkTree, command: SimpleCommand, todo: str) -> None:
    """What git has still to do, as it has noted it."""
    for line in todo.splitlines():
        words = line.split()
        if not words or words[0].startswith("#") or words[0] in _NOTHING:
            continue
        if words[0] not in {*_PICKS, "revert"} or len(words) < 2:
            raise NotKnown(f"{words[0]} is not read here")
        name = next((word for word in words[1:] if not word.startswith("-")), "")
        _pick(tree, tree.commit(name), command, back=words[0] == "revert")


def _rebase(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    way = _in_progress(command)
    if way == "abort":
        for folder in ("rebase-merge", "rebase-apply"):
            try:
                return tree.reset(tree.tree(_state(tree, f"{folder}/orig-head").strip()))
            except NotKnown:
                continue
        raise NotKnown("no rebase is going on")
    if way in ("continue", "skip"):
        todo = _state(tree, "rebase-merge/git-rebase-todo")
        tree.reset(tree.tree("HEAD")) if way == "skip" else None
        return _replay(tree, command, todo)
    if way or not command.flags.isdisjoint({"edit-todo", "show-current-patch"}):
        return None
    _refuse(command, "root", "exec")
    words, _ = divided(command)
    upstream = tree.commit(words[0] if words else "@{upstream}")
    start = tree.commit(words[1]) if len(words) > 1 else tree.commit("HEAD")
    bases = tree.bases(upstream, start)
    said = command.options.get("onto", [])
    if said and said[-1] is None:
        raise NotKnown("an unknown place")
    onto = tree.tree(said[-1]) if said and said[-1] else tree.repository.tree_of(upstream)
    if "keep-base" in command.flags and len(bases) == 1:
        onto = tree.repository.tree_of(bases[0])
    commits = tree.repository.between([upstream], [start])
    if len(words) > 1:
        tree.move(tree.repository.tree_of(start))
    straight = all(len(tree.repository.commit(each).parents) == 1 for each in commits)
    forced = not command.flags.isdisjoint({"force-rebase", "no-ff", "interactive", "onto"})
    if bases == [upstream] and straight and not forced:
        return None  # it stays where it is
    tree.move(onto)
    for each in reversed(commits):
        _pick(tree, each, command)
    return None


def _stash(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git stash pop, apply and branch."""
    words, _ = divided(command)
    if command.subcommand == "stash branch":
        words = words[1:]
    name = words[0] if words else "0"
    name = f"stash@{{{name}}}" if name.isdigit() else name
    kept = tree.repository.commit(tree.commit(name))
    if not 2 <= len(kept.parents) <= 3:
        raise NotKnown("no stash")
    base = tree.repository.tree_of(kept.parents[0])
    if command.subcommand == "stash branch":
        tree.move(base)
    tree.merge(base, kept.tree)
    if len(kept.parents) == 3:
        untracked = _entries(tree, tree.repository.tree_of(kept.parents[2]))
        tree.restore(untracked, lambda path: True, removes=False)


def _put_aside(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git stash, git stash push: what is tracked becomes what it was in the last commit."""
    _refuse(command, "patch")
    before, after = divided(command)
    patterns = [*before, *(after or [])] if command.subcommand == "stash push" else []
    wanted = selection(tree, here, patterns) if patterns else lambda path: True
    tree.reset(tree.tree("HEAD"), wanted)


def _reset(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    words, _ = divided(command)
    target = tree.tree(words[0] if words else "HEAD")
    if "keep" in command.flags:
        tree.move(target)
    elif not command.flags.isdisjoint({"hard", "merge"}):
        tree.reset(target)


def _worktree(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git worktree add: of what is checked out there, what differs from the project's own."""
    words, _ = divided(command)
    if not words or "--no-checkout" in command.argv:
        return
    place, name = tree.repository.view.real(posixpath.join(here, words[0])), posixpath.basename(words[0].rstrip("/"))
    target: bytes = tree.trees[0]
    tree.whose = words[1] if len(words) > 1 else name
    if len(words) > 1:
        target = tree.tree(words[1], branches=True)
    elif not {"-b", "-B", "-d", "--detach"} & set(command.argv):
        try:
            target = tree.tree(f"refs/heads/{name}")
        except NotKnown:
            found = tree.repository.remote_branches(name)
            target = tree.repository.tree_of(found[0]) if len(found) == 1 else target
    for path, _, new in tree.repository.differences(tree.trees[0], target):
        if new is not None and tree._minds(f"{place}/{path}"):
            tree.changes[f"{place}/{path}"] = new


def _bisect(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git bisect reset; where the others go is not known."""
    words, _ = divided(command)
    tree.move(tree.tree(words[0] if words else _state(tree, "BISECT_START").strip(), branches=True))


def _patched(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git apply, git am, of files that are there."""
    if way := _in_progress(command):
        if way == "abort":
            tree.reset(tree.tree("ORIG_HEAD"))
        return
    _refuse(command, "directory")
    if not command.flags.isdisjoint({"check", "stat", "numstat", "summary", "cached"}) and "apply" not in command.flags:
        return
    said = command.options.get("strip", [])
    strip = _number(said[-1], 1) if said else 1
    tops = {tree.repository.top, here} if command.subcommand == "apply" else {tree.repository.top}
    for word in command.operands:
        data = tree.repository.read(posixpath.join(here, word or ""), _OF_A_PATCH)
        names = targets((data or b"").decode("utf-8", "surrogateescape"), strip)
        for path in _joined(tops, names or ()):
            if tree._minds(path):
                tree.changes[path] = ""


def _joined(tops: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    return (posixpath.normpath(posixpath.join(top, name)) for top in tops for name in names)


def _commit(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git commit: it changes nothing there, but what was changed is in the last commit now."""
    tree.committed = True


COMMANDS: dict[str, Callable[[WorkTree, SimpleCommand, str], None]] = {
    "am": _patched,
    "apply": _patched,
    "bisect reset": _bisect,
    "checkout": _switch,
    "cherry-pick": _picked,
    "commit": _commit,
    "merge": _merge,
    "pull": _pull,
    "rebase": _rebase,
    "reset": _reset,
    "restore": _restore,
    "revert": _picked,
    "stash": _put_aside,
    "stash apply": _stash,
    "stash branch": _stash,
    "stash pop": _stash,
    "stash push": _put_aside,
    "stash save": _put_aside,
    "switch": _switch,
    "worktree add": _worktree,
}
