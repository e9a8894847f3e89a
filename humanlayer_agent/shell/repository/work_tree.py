"""The files of a work tree that a command of git's would make other versions of: a switch, a merge, a rebase.

Which files stands in the repository, in the trees of the commits that the command line names, and they are compared
without running git. What is found is what the command is known to do. Where it can't be told, that is said instead: a
command that may replace any file, held to some of them, would leave a mixture of two versions.
"""

import os
import posixpath
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Generic, TypeVar

from humanlayer_agent.shell.disk_reader import MAX_INDEX
from humanlayer_agent.shell.program import VERSION, Effect, EffectKind, Program, SimpleCommand
from humanlayer_agent.shell.programs.special.patch import targets
from humanlayer_agent.shell.repository.history import NoRepository, NothingNamed, Repository
from humanlayer_agent.shell.repository.index import Tracked, understood
from humanlayer_agent.shell.repository.object_store import EMPTY, MOST_BYTES, TREE, Allowance, Entry, NotKnown
from humanlayer_agent.shell.view import View

MOST_FILES = 300
_LINK, _SUBMODULE = 0o120000, 0o160000
ELSEWHERE = frozenset({"git-dir", "work-tree", "bare", "exec-path"})
"""Options with which git looks elsewhere."""
_MOVES = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", None),
    }
)
"""Variables with which git looks elsewhere, or does something else."""
_OF_ONE_FILE = re.compile(rb"^diff --git a/(.+) b/\1\r?$", re.M)
_MOST_TREES = 8
_MOST_PLACES = 16
_MOST_FOLDERS = 1000
_INDEX = "the index"
_OF_A_PATCH = 1 << 20
_BRING_UNSEEN = frozenset(str.split("bisect filter-branch lfs sparse-checkout submodule subtree"))
"""Further commands that bring other files into a work tree, which nobody looks for here."""
_LEAVES_REFERENCES = frozenset(
    str.split("add archive bundle clean config format-patch gc init maintenance mv notes push rm stage worktree")
)
"""git's commands that change something, but no branch, tag or stash of the repository in which they run."""
_ONLY_NAMES = frozenset({"branch", "tag"})
_KEEPS_FILES = _ONLY_NAMES | {"commit"}
_FORCED = frozenset({"force", "force-create", "force-move", "force-copy"})
_LOOKS_ONLY = frozenset({"check", "stat", "numstat", "summary", "cached"})
_RESETS = frozenset({"hard", "merge", "keep"})
_TAKE_PATHS = frozenset({"checkout", "restore", "stash push"})
_CONFLICT = frozenset({"ours", "theirs", "merge", "conflict"})
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
        self.trees = [EMPTY if repository.is_unborn else repository.tree_of(repository.revision("HEAD"))]
        """Those of which the files may be, that are there when a command begins. With the first alone nothing would be
        missed of a whole action, since what another one has of its own was noted on the way there."""
        self.changes: dict[str, Content] = {}
        """What the current command changes, by absolute path."""
        self.committed = False
        """What was in the work tree may be in a commit by now."""
        self.whose = ""
        """What people call where the changes come from, where it is not the first operand."""
        self.aside: list[list[str]] = []
        """What earlier commands have put onto the stash, by absolute path."""
        self.bisected: tuple[bytes | None, list[bytes]] | None = None
        """The commit that is bad, and those that are good, where an earlier command has said so."""
        self.tried = set[str]()
        """What differs in any commit between these, by absolute path."""
        self.listing_known = True
        """It can be told what the index has."""
        self._listed: dict[str, Tracked] | None = None
        self._unmerged: list[str] = []
        self._anew: list[tuple[bytes, Callable[[str], bool], bool]] = []

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

    def go(self, revision: str, *, branches: bool = False) -> None:
        """Note that the commit of a revision is the current one from now on."""
        commit = self.repository.peeled(self.repository.revision(revision, branches=branches))
        if not self.repository.is_unborn and not self.repository.adrift:
            self.repository.left.append(self.commit("HEAD"))
        self.repository.head, self.repository.grown, self.repository.adrift = commit, False, False

    def move(self, target: bytes) -> None:
        """Go to a tree: what differs from where it was changes."""
        if self.committed:
            return self.reset(target)
        for tree in self.trees:
            for path, _, new in self.repository.differences(tree, target):
                if self.minds(path):
                    self.note(path, new)
        return self.may_be(target)

    def reset(
        self, target: bytes, wanted: Callable[[str], bool] = lambda path: True, *, refreshed: bool = False
    ) -> None:
        """Go to a tree, and drop what was not committed.

        Args:
            refreshed: git has looked before whether files only seem to have changed; else it makes those anew as well.
        """
        stands = self.has if refreshed else self.stands
        for tree in self.trees:
            for path, _, new in self.repository.differences(tree, target):
                if wanted(path) and self.minds(path) and (len(self.trees) > 1 or not stands(path, new)):
                    self.note(path, new)
        have = {path: new for path, _, new in self.repository.differences(None, target)}
        for path in self._unmerged if self.indexed else ():  # as it was read
            if wanted(path) and self.minds(path) and not self.has(path, have.get(path)):
                self.note(path, have.get(path))
        self.restore(have, wanted, removes=True, refreshed=refreshed)
        self.may_be(target)

    def restore(
        self,
        source: dict[str, Entry | None],
        wanted: Callable[[str], bool],
        *,
        removes: bool,
        refreshed: bool = False,
    ) -> None:
        """Make files what a source says of them; with `removes`, what is tracked and not in the source goes."""
        stands = self.has if refreshed else self.stands
        for path, entry in source.items():
            if wanted(path) and self.minds(path) and not stands(path, entry):
                self.note(path, entry)
                if entry is not None and entry[0] != _SUBMODULE:
                    self._clear(path)
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

    def _clear(self, path: str) -> None:
        """Note what goes where a folder gives way to a file."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            try:
                entries = list(self.repository.view.entries(f"{self.repository.top}/{folder}"))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise NotKnown(str(error)) from None
            self.repository.allowance.spend(len(entries))
            for name, is_link, is_directory in entries:
                below = f"{folder}/{name}"
                if is_directory and not is_link:
                    waiting.append(below)
                elif self.minds(below):
                    self.note(below, None)

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
        if tree not in self.trees:
            if len(self.trees) >= _MOST_TREES:
                raise NotKnown("too many versions that the files may be of")
            self.trees.append(tree)

    @property
    def indexed(self) -> dict[str, Tracked]:
        """What the index has."""
        if not self.listing_known:
            raise NotKnown("an earlier command has changed the index")
        if self._listed is None:
            self._listed = self._read_index()
        while self._anew:
            tree, wanted, afresh = self._anew.pop(0)
            kept = {path: tracked for path, tracked in self._listed.items() if not wanted(path)}
            for path, entry in _entries(self, tree).items():
                if entry is not None and wanted(path):
                    known = None if afresh else self._listed.get(path)
                    is_same = known is not None and (known.mode, known.blob) == entry
                    kept[path] = known if known is not None and is_same else Tracked(*entry, -1, -1, (-1, -1))
            self._listed = kept
        return self._listed

    def unsettle(self) -> None:
        """Note that a command may have changed the index, and moved any branch or tag."""
        self.repository.moved, self.listing_known = True, False

    def lose(self) -> None:
        """Note that a command may have gone anywhere."""
        self.unsettle()
        self.repository.adrift = True

    def list_anew(
        self, tree: bytes, wanted: Callable[[str], bool] = lambda path: True, *, afresh: bool = False
    ) -> None:
        """Note that the index has from now on what a tree has; with `afresh`, and nothing of the files on the disk."""
        self._anew.append((tree, wanted, afresh))

    def _read_index(self) -> dict[str, Tracked]:
        index = self.repository.read(f"{self.repository.own}/index", MAX_INDEX) or b""
        try:
            unmerged = list[bytes]()
            listed = understood(index, unmerged) if index else {}
            found = {os.fsdecode(path): tracked for path, tracked in listed.items()}
            self._unmerged = sorted({os.fsdecode(path) for path in unmerged})
        except ValueError as error:
            raise NotKnown(f"an index that is not understood: {error}") from None
        if index and not found and index[8:12] != bytes(4):
            raise NotKnown("an index of which nothing is merged")
        self.repository.allowance.spend(len(found))
        return found

    def in_index(self) -> dict[str, Entry | None]:
        """Return what the index would restore."""
        return {path: (tracked.mode, tracked.blob) for path, tracked in self.indexed.items()}

    def has(self, path: str, entry: Entry | None, *, believes: bool = True) -> bool:
        """Tell whether a file is there already as an entry says.

        Args:
            believes: what the index says of when it was changed, and of its size, is taken for its content.
        """
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
            known = self.indexed.get(path) if believes else None
            if known is not None and known.blob == blob and known.mode == mode and _is_listed(known, step.found):
                return True  # a filter may have made something else of it, as git did when it was checked out
            if step.found.st_size > MOST_BYTES:
                return False  # it is not looked into
            data = self.repository.read(f"{self.repository.top}/{path}", MOST_BYTES)
        import hashlib

        if data is None:
            return False
        return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).digest() == blob

    def stands(self, path: str, entry: Entry | None) -> bool:
        """Tell whether git takes a file for what an entry says, and leaves it. It looks at no content."""
        found, known = self.repository.view.look(f"{self.repository.top}/{path}").found, self.indexed.get(path)
        if found is None or entry is None or entry[0] == _SUBMODULE:
            return self.has(path, entry)
        if known is None or (known.mode, known.blob) != entry or not self.is_as_listed(path):
            return False
        seconds, fraction = divmod(found.st_ctime_ns, 10**9)
        then, exactly = divmod(known.times[0], 10**9)
        return then == seconds & 0xFFFFFFFF and exactly in (0, fraction)

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
        self._make, self._known, self._allowance = make, dict[str, Tree | NotKnown](), Allowance()
        self._unsettled = False

    def at(self, place: str) -> Tree:
        """Return that of a directory.

        Raises:
            NotKnown: there is none, it can't be read, or there are too many.
        """
        if place not in self._known:
            if len(self._known) >= _MOST_PLACES:
                raise NotKnown("too many work trees")
            try:
                repository = self.enter_context(Repository.of(place, self.view, self._allowance))
                self._known[place] = tree = self._make(repository)
                if self._unsettled:
                    tree.unsettle()
            except NotKnown as error:
                self._known[place] = error
        if isinstance(found := self._known[place], NotKnown):
            raise found
        return found

    def unsettle(self) -> None:
        """Note that a command may have changed the index, and moved any branch or tag."""
        self._unsettled = True
        for tree in self._known.values():
            if not isinstance(tree, NotKnown):
                tree.unsettle()


def note_versions(
    program: Program, project: str, view: View, minds: Callable[[str], bool], environ: Collection[str] = ()
) -> None:
    """Add to the commands of a program which files they make other versions of; or that nobody can tell.

    Args:
        program: as `analyse` has read it.
        project: where a command runs of which that is not known.
        view: what of the disk its commands see.
        minds: tells of an absolute path whether a change of it is to be added.
        environ: the names of the variables that it is started with.
    """
    if not any(_is_meant(command) and command.subcommand not in _KEEPS_FILES for command in program.commands):
        return
    elsewhere = is_moved(program, environ)
    with WorkTrees(view, lambda repository: WorkTree(repository, minds)) as trees:
        for command in program.commands:
            if _is_meant(command):
                _note(command, trees, project, elsewhere=elsewhere)
            elif _may_move(command):
                trees.unsettle()


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
            if _is_meant(command) or _brings_unseen(command):
                found[number] = _brought(command, trees, moved)
            if _may_move(command):
                trees.unsettle()
    return found


def _brings_unseen(command: SimpleCommand) -> bool:
    changes = any(effect.kind != "read" for effect in command.effects)
    return command.program == "git" and changes and (command.subcommand or "").partition(" ")[0] in _BRING_UNSEEN


def _may_move(command: SimpleCommand) -> bool:
    """Tell whether a command that is not followed here may move a branch or a tag."""
    if command.program != "git":
        return not command.known or any(effect.unread for effect in command.effects)
    if _is_meant(command):
        return False
    changes = any(effect.kind != "read" for effect in command.effects) or not command.resolved
    return changes and (command.subcommand or "").partition(" ")[0] not in _LEAVES_REFERENCES


def _brought(command: SimpleCommand, trees: WorkTrees[WorkTree], moved: bool) -> tuple[str, ...]:
    place, tree = place_of(command), None
    if place is None or moved or not command.flags.isdisjoint(ELSEWHERE):
        return () if command.subcommand in _ONLY_NAMES else ("/",)
    if not _is_meant(command):
        return (f"{place}/",)
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
        if tree is not None:
            tree.lose()
        return () if command.subcommand in _ONLY_NAMES else (f"{top}/",)
    return tuple(path for path, content in tree.changes.items() if _may_lead(content))


def _may_lead(content: Content) -> bool:
    """May a file that gets this lead elsewhere, or be a repository of its own?"""
    return content == "" or (isinstance(content, tuple) and content[0] in (_LINK, _SUBMODULE))


def is_moved(program: Program, environ: Collection[str]) -> bool:
    """Tell whether a variable may lead git elsewhere."""
    return is_moved_by(program.commands, environ)


def is_moved_by(commands: Iterable[SimpleCommand], environ: Collection[str] = ()) -> bool:
    """Tell whether a variable that commands set, or are started with, may lead git elsewhere."""
    effects = (effect for command in commands for effect in command.effects)
    given = {effect.operand for effect in effects if effect.kind == "environment"}
    return not _MOVES.isdisjoint({*given, *environ})


def _is_meant(command: SimpleCommand) -> bool:
    return command.program == "git" and command.subcommand in COMMANDS


def _note(command: SimpleCommand, trees: WorkTrees[WorkTree], project: str, *, elsewhere: bool) -> None:
    """Add what a command does in each of the directories that it may run in."""
    places = places_of(command)
    for place in places or (project,):
        tree, doubt = None, "" if places else "where it runs is not known"
        try:
            if not elsewhere and command.flags.isdisjoint(ELSEWHERE):
                tree = trees.at(place)
                tree.changes, tree.whose = {}, ""
            else:
                doubt = "it works in a repository that is named elsewhere"
            meant = _of_any_path(command)
            if doubt or None in meant.operands or not command.flags_complete:
                raise NotKnown(doubt or "its command line is not known as a whole")
            assert tree is not None
            if tree.repository.recurses or "recurse-submodules" in command.flags:
                _refuse_submodules(tree)
            COMMANDS[command.subcommand or ""](tree, meant, tree.repository.view.real(place))
            doubt = _add(command, tree)
        except NoRepository:
            if places or not _has_repositories(trees.view, project) or not _rewrites(command):
                doubt = ""
        except NothingNamed:  # git refuses, at the latest where it gets there
            doubt = _add(command, tree) if tree is not None else ""
        except (NotKnown, RecursionError) as error:
            doubt = str(error) or "it is too deep"
            if tree is not None:
                doubt = _add(command, tree) or doubt
            if command.subcommand == "commit" or (tree is not None and _minds_none_of(command, tree, place)):
                doubt = ""
            elif tree is not None:
                tree.lose()
            doubt = doubt if _rewrites(command) else ""
        if doubt:
            operand = f"files that can't be told ({doubt})"
            command.effects.append(Effect("vcs-rewrite", VERSION, operand, True, command.span, "git", value=""))
            return


def _of_any_path(command: SimpleCommand) -> SimpleCommand:
    """Return a command in which a path that is not known stands for all of them."""
    if None not in command.operands or command.subcommand not in _TAKE_PATHS:
        return command
    first = 0 if command.subcommand == "restore" else len(command.operands)
    if "--" in command.argv:
        first = len(command.operands) - (len(command.argv) - command.argv.index("--") - 1)
    operands = [each if each is not None or n < first else ":/" for n, each in enumerate(command.operands)]
    return replace(command, operands=operands) if first >= 0 else command


def _has_repositories(view: View, folder: str) -> bool:
    """Tell whether repositories lie directly in a folder."""
    try:
        names = [name for name, _, is_directory in view.entries(folder) if is_directory]
    except OSError:
        return False
    return len(names) > _MOST_FOLDERS or any(view.look(f"{folder}/{name}/.git").found is not None for name in names)


def _add(command: SimpleCommand, tree: WorkTree) -> str:
    """Add what was found; why there may be more, or ""."""
    # A name that is not UTF-8 can't be written down, so nobody can be asked about it.
    changes = {path: content for path, content in tree.changes.items() if path.isascii() or is_text(path)}
    whose = tree.whose or next((each for each in command.operands if each), "") or f"git {command.subcommand}"
    for path, content in sorted(changes.items())[:MOST_FILES]:
        kind: EffectKind = "delete" if content is None else "write"
        value = f"{content[0]:o} {content[1].hex()}" if isinstance(content, tuple) else content
        command.effects.append(Effect(kind, VERSION, path, True, command.span, whose, value=value))
    if len(changes) < len(tree.changes):
        return "the names of some are not UTF-8"
    return f"they are more than {MOST_FILES}" if len(changes) > MOST_FILES else ""


def _rewrites(command: SimpleCommand) -> bool:
    """Tell whether a command of which not all is known may give files another content."""
    flags = command.flags if command.flags_complete else command.flags | _RESETS
    match command.subcommand:
        case name if name in _KEEPS_FILES:
            return False
        case "reset":
            return not flags.isdisjoint(_RESETS)
        case "restore":
            return "staged" not in flags or "worktree" in flags or not command.flags_complete
        case "apply":  # what it is given says which files, and is judged by that
            return False
        case "am":
            return not {"quit", "show-current-patch"} & flags
        case _:
            return True


def _minds_none_of(command: SimpleCommand, tree: WorkTree, place: str) -> bool:
    """Tell whether a command names each file that it gives another content, and nobody minds these."""
    words, paths = divided(command)
    if paths is None and (command.subcommand == "restore" or not _CONFLICT.isdisjoint(command.flags)):
        words, paths = [], words
    if not paths or None in command.operands or "pathspec-from-file" in command.options:
        return False
    repository = tree.repository
    for each in paths:
        path = posixpath.normpath(posixpath.join(repository.view.real(place), each))
        step = repository.view.look(path)
        if _is_pattern(each) or step.found is None or step.is_directory or tree._minds(path):
            return False
    return True


def is_text(path: str) -> bool:
    return not re.search("[\ud800-\udfff]", path)


def places_of(command: SimpleCommand) -> tuple[str, ...]:
    """The directories that git may work in; none where they are not known."""
    moved = command.options.get("directory", [])
    if command.cwd is None or None in moved:
        return ()
    return tuple(posixpath.join(place, *filter(None, moved)) for place in command.cwd)


def place_of(command: SimpleCommand) -> str | None:
    """The directory that git works in; None where it is not known."""
    places = places_of(command)
    return places[0] if len(places) == 1 else None


# ---- the command lines -------------------------------------------------------------------------------------


def divided(command: SimpleCommand) -> tuple[list[str], list[str] | None]:
    """The operands before `--` and after it; None where there is no `--`."""
    words = [each for each in command.operands if each is not None]
    if "--" not in command.argv:
        return words, None
    after = len(command.argv) - command.argv.index("--") - 1
    return words[: len(words) - after], words[len(words) - after :]


def _is_pattern(word: str) -> bool:
    """Tell whether a path specification is more than a path."""
    return bool(set(word) & set("*?[\\")) or word.startswith(":")


def selection(tree: WorkTree, here: str, patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path is meant by path specifications. What is more than a path is taken to mean all."""
    if any(map(_is_pattern, patterns)):
        return lambda path: True
    places = {posixpath.relpath(posixpath.join(here, each), tree.repository.top) for each in patterns}
    return lambda path: "." in places or any(path == each or path.startswith(f"{each}/") for each in places)


def _refuse_submodules(tree: WorkTree) -> None:
    if any(tracked.mode == _SUBMODULE for tracked in tree.indexed.values()):
        raise NotKnown("what its submodules get")


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
        raise NothingNamed(f"no {name}")
    return data.decode("utf-8", "surrogateescape")


def _switch(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git checkout, git switch."""
    words, paths = divided(command)
    if "pathspec-from-file" in command.options or ("patch" in command.flags and len(words) < 2 and not paths):
        paths = [*(paths or []), ":/"]
    target = _meant(tree, words[0], here, is_first=len(words) == 1, is_revision=paths is not None) if words else None
    if words and target is None:
        if paths is not None or command.subcommand != "checkout" or not _is_file(tree, here, words[0]):
            raise NothingNamed(f"{words[0]} names nothing here")
        words, paths = [], words
    if command.subcommand == "checkout" and (len(words) > 1 or paths):
        _take(tree, command, words[0] if words else None, target, selection(tree, here, paths or words[1:]))
        return
    if "orphan" in command.options and command.subcommand == "switch":
        target = EMPTY
    if "force" in command.flags:
        tree.reset(target or (EMPTY if tree.repository.is_unborn else tree.tree("HEAD")))
    elif target is not None:
        tree.move(target)
    made = [name for key in ("create", "force-create") for name in command.options.get(key, ())]
    if "orphan" in command.options:
        tree.repository.adrift = True
    elif words and "..." not in words[0]:
        tree.go(words[0], branches=True)
        is_name = not re.search(r"[@~^-]", words[0]) or _is_there(tree, f"refs/heads/{words[0]}")
        is_detached = "detach" in command.flags or not _is_there(tree, f"refs/heads/{words[0]}")
        tree.repository.on = "" if not is_name else "HEAD" if is_detached else words[0]
    elif made and not tree.repository.is_unborn:
        tree.go("HEAD")
    for name in made:
        _make(tree, "heads", name, "HEAD")
        tree.repository.on = name or ""


def _meant(tree: WorkTree, word: str, here: str, *, is_first: bool, is_revision: bool) -> bytes | None:
    """Return the tree of what `git checkout` is given first; None where that is no revision, but may be a file.

    Args:
        is_first: it is all that it is given, so it may be a branch of a remote, which is made here.
        is_revision: it can't be a file.
    """
    try:
        return tree.tree(word, branches=True)
    except NotKnown as error:
        found = tree.repository.remote_branches(word)
        there = not is_revision and _is_file(tree, here, word)
        if len(found) == 1 and is_first and not there:
            tree.repository.made[f"refs/heads/{word}"] = found[0]
            return tree.repository.tree_of(found[0])
        if len(found) > 1 and not there:
            raise NotKnown(f"several branches are named {word}") from None
        if not there and not isinstance(error, NothingNamed):
            raise
        return None


def _take(
    tree: WorkTree, command: SimpleCommand, word: str | None, target: bytes | None, wanted: Callable[[str], bool]
) -> None:
    """Files are made as they are in a tree, or in the index."""
    if not _CONFLICT.isdisjoint(command.flags | command.options.keys()):
        raise NotKnown("what both sides of a conflict have")
    tree.whose = word if target is not None and word is not None else _INDEX
    tree.restore(tree.in_index() if target is None else _entries(tree, target), wanted, removes=False)
    if target is not None:
        tree.remove_below(target, wanted)


def _is_file(tree: WorkTree, here: str, word: str) -> bool:
    """Tell whether a word, as it stands there, names files that are there, or that the index has."""
    path = posixpath.normpath(posixpath.join(here, word))
    if tree.repository.view.look(path).found is not None:
        return True
    return not _is_pattern(word) and any(map(selection(tree, here, [word]), tree.indexed))


def _make(tree: WorkTree, kind: str, name: str | None, start: str) -> None:
    """Note that a branch or a tag is made."""
    if name is None:
        tree.repository.moved = True
    elif not tree.repository.is_unborn:
        tree.repository.made[f"refs/{kind}/{name}"] = tree.repository.revision(start)


def _branch(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git branch, git tag: they change no file, but what names stand for."""
    words, _ = divided(command)
    kind = "heads" if command.subcommand == "branch" else "tags"
    if "set-upstream-to" in command.options or "unset-upstream" in command.flags:
        tree.repository.follows = False
    if not command.flags.isdisjoint({"list", "delete", "force-delete", "verify", "show-current"}) or not words:
        return
    if not command.flags.isdisjoint({"move", "force-move", "copy", "force-copy"}):
        old = words[0] if len(words) > 1 else "HEAD"
        _make(tree, kind, words[-1], f"refs/heads/{old}" if old != "HEAD" else old)
    elif not command.flags.isdisjoint(_FORCED) or not _is_there(tree, f"refs/{kind}/{words[0]}"):
        _make(tree, kind, words[0], words[1] if len(words) > 1 else "HEAD")


def _is_there(tree: WorkTree, name: str) -> bool:
    try:
        tree.repository.reference(name)
    except NothingNamed:
        return False
    return True


def _entries(tree: WorkTree, source: bytes) -> dict[str, Entry | None]:
    return {path: entry for path, _, entry in tree.repository.differences(None, source)}


def _above(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _restore(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git restore."""
    sources = command.options.get("source", [])
    source = sources[-1] if sources else "HEAD" if "staged" in command.flags else None
    if sources and source is None:
        raise NotKnown("its source is not known")
    words = [each for each in command.operands if each]
    wanted = selection(tree, here, [*words, *([":/"] if "pathspec-from-file" in command.options else [])])
    if "staged" in command.flags and "worktree" not in command.flags:
        return tree.list_anew(tree.tree(source or "HEAD"), wanted)
    if not _CONFLICT.isdisjoint(command.flags | command.options.keys()):
        raise NotKnown("what both sides of a conflict have")
    tree.whose = source or _INDEX
    entries = tree.in_index() if source is None else _entries(tree, tree.tree(source))
    tree.restore(entries, wanted, removes="overlay" not in command.flags)
    return tree.list_anew(tree.tree(source), wanted) if "staged" in command.flags and source else None


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
    if tree.repository.is_unborn:
        return tree.move(theirs)
    tree.repository.grown = True
    differ = (tree.repository.differences(each, theirs) for each in tree.trees)
    if not any(tree.minds(path) for found in differ for path, *_ in found):
        return None  # without a look at the history, which may be long
    bases = [tree.repository.tree_of(base) for base in tree.bases(tree.commit("HEAD"), other)]
    for base in (*bases, *([] if bases else [None])):
        tree.merge(base, theirs)
    return tree.may_be(theirs)


def _pick(tree: WorkTree, commit: bytes, command: SimpleCommand, *, back: bool = False) -> None:
    """One commit is brought in again, or taken back."""
    tree.repository.grown = True
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
        raise NothingNamed("no rebase is going on")
    if way in ("continue", "skip"):
        if tree.repository.view.look(f"{tree.repository.own}/rebase-apply").found is not None:
            raise NotKnown("what a rebase has still to apply")
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
    tree.repository.grown = True
    for each in reversed(commits):
        _pick(tree, each, command)
    return None


def _stash(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git stash pop, apply and branch."""
    words, _ = divided(command)
    if command.subcommand == "stash branch":
        _make(tree, "heads", words[0] if words else None, "HEAD")
        words = words[1:]
    name = words[0] if words else "0"
    number = re.fullmatch(r"(?:stash@\{)?([0-9]{1,6})\}?", name)
    if tree.aside and number is None:
        raise NotKnown(f"{name} is another one by then")
    if tree.aside and number is not None and int(number[1]) < len(tree.aside):
        # Put aside by an earlier command, if there was something to put aside.
        for path in tree.aside[-1 - int(number[1])]:
            tree.changes[path] = ""
        if command.subcommand == "stash pop" and tree.aside[-1 - int(number[1])]:
            tree.aside.pop(-1 - int(number[1]))
            return
        if tree.aside[-1 - int(number[1])] or not _is_there(tree, "refs/stash"):
            return
        tree.aside.pop(-1 - int(number[1])) if command.subcommand == "stash pop" else None
    elif number is not None:
        name = str(int(number[1]) - len(tree.aside))
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
    before, after = divided(command)
    patterns = [*before, *(after or [])] if command.subcommand == "stash push" else []
    wanted = selection(tree, here, patterns) if patterns else lambda path: True
    if not tree.repository.is_unborn:
        tree.reset(tree.tree("HEAD"), wanted, refreshed=True)
    tree.aside.append(sorted(tree.changes))


def _reset(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    words, paths = divided(command)
    if tree.repository.is_unborn:
        return None
    try:
        revision, patterns = words[0] if words else "HEAD", [*words[1:], *(paths or [])]
        target = tree.tree(revision)
    except NotKnown as error:
        if not command.flags.isdisjoint({*_RESETS, "soft"}):
            raise
        tree.listing_known = tree.listing_known and isinstance(error, NothingNamed)
        revision, patterns = "HEAD", [*words, *(paths or [])]
        target = tree.tree(revision)
    if patterns or "pathspec-from-file" in command.options or "patch" in command.flags:
        return tree.list_anew(target, selection(tree, here, patterns) if patterns else lambda path: True)
    if "keep" in command.flags:
        tree.move(target)
    elif not command.flags.isdisjoint({"hard", "merge"}):
        tree.reset(target)
    if command.flags.isdisjoint({"soft"}):
        tree.list_anew(target)
    if words:
        _leap(tree, revision)
    return None


def _leap(tree: WorkTree, revision: str) -> None:
    """The current branch is somewhere else from now on."""
    commit, branch = tree.commit(revision), tree.repository.branch()
    if not branch:
        tree.repository.moved = True  # it is not known which one that is
    elif branch != "HEAD":
        tree.repository.made[f"refs/heads/{branch}"] = commit
    tree.repository.head, tree.repository.grown, tree.repository.adrift = commit, False, False


def _read_tree(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git read-tree."""
    words, _ = divided(command)
    if "dry-run" in command.flags:
        return
    targets = [tree.tree(each) for each in words]
    if "update" in command.flags and "prefix" in command.options:
        raise NotKnown("it is brought below a folder")
    if "update" in command.flags and len(targets) == 1:
        tree.reset(targets[0]) if "reset" in command.flags else _from_listed(tree, targets[0])
    for other in targets[1:] if "update" in command.flags else ():
        tree.merge(targets[0], other)
        tree.may_be(other)
    if len(targets) != 1 or "prefix" in command.options:
        tree.listing_known = False
    else:
        tree.list_anew(targets[0], afresh=command.flags.isdisjoint({"merge", "reset"}))


def _from_listed(tree: WorkTree, target: bytes) -> None:
    """What differs between the index and a tree is made as it is there."""
    here, there = tree.in_index(), _entries(tree, target)
    for path in here.keys() | there.keys():
        if here.get(path) != there.get(path) and tree.minds(path):
            tree.note(path, there.get(path))


def _from_index(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git checkout-index."""
    if not command.options.keys().isdisjoint({"prefix", "stage"}) or "stdin" in command.flags:
        raise NotKnown("which files it is told by something else than its operands")
    words = [each for each in command.operands if each]
    wanted = (lambda path: True) if "all" in command.flags else selection(tree, here, words)
    tree.whose = _INDEX
    tree.restore(tree.in_index(), wanted, removes=False)


def _worktree(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git worktree add: of what is checked out there, what differs from the project's own."""
    words, _ = divided(command)
    if not words:
        return
    for made in command.options.get("branch", ()):
        _make(tree, "heads", made, words[1] if len(words) > 1 else "HEAD")
    if "--no-checkout" in command.argv:
        return
    place, name = tree.repository.view.real(posixpath.join(here, words[0])), posixpath.basename(words[0].rstrip("/"))
    target: bytes = tree.trees[0]
    tree.whose = words[1] if len(words) > 1 else name
    if len(words) > 1:
        target = tree.tree(words[1], branches=True)
    elif not {"-b", "-B", "-d", "--detach"} & set(command.argv):
        try:
            target = tree.tree(f"refs/heads/{name}")
        except NothingNamed:
            found = tree.repository.remote_branches(name)
            target = tree.repository.tree_of(found[0]) if len(found) == 1 else target
            _make(tree, "heads", name, "HEAD")
    for path, _, new in tree.repository.differences(tree.trees[0], target):
        if new is not None and tree._minds(f"{place}/{path}"):
            tree.changes[f"{place}/{path}"] = new


def _bisect(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git bisect, which goes to any commit between the good ones and the bad one, and back."""
    what = (command.subcommand or "").removeprefix("bisect ")
    words, _ = divided(command)
    if what == "reset":
        if tree.bisected is None:
            tree.move(tree.tree(words[0] if words else _state(tree, "BISECT_START").strip(), branches=True))
            return
        tree.changes |= dict.fromkeys(tree.tried, "")
        return
    if "--no-checkout" in command.argv or tree.repository.view.look(f"{tree.repository.own}/BISECT_HEAD").found:
        return
    if any(each.startswith("--term") for each in command.argv):
        raise NotKnown("words of their own for good and bad")
    begun = tree.bisected is not None
    if what == "start":
        tree.bisected = None, []
    elif tree.bisected is None:
        found = tree.repository.below("refs/bisect")
        good = [name for each, name in found.items() if each.startswith("good-")]
        if any(not re.fullmatch(r"bad|good-.*|skip-.*", each) for each in found):
            raise NotKnown("words of their own for good and bad")
        tree.bisected = found.get("bad"), good
    bad, good = tree.bisected
    said = [tree.commit(each) for each in words]
    if what == "start":
        bad, good = said[0] if said else None, said[1:]
    elif what in ("bad", "new"):
        bad = said[0] if said else bad if begun and bad else tree.commit("HEAD")
    elif what in ("good", "old"):
        good = [*good, *(said or ([] if begun and good else [tree.commit("HEAD")]))]
    tree.bisected = bad, good
    if bad is None or not good:
        return
    commits = {*tree.repository.between(good, [bad]), *(base for each in good for base in tree.bases(each, bad))}
    for each in sorted(commits):
        theirs = tree.repository.tree_of(each)
        for path, *_ in (one for ours in tree.trees for one in tree.repository.differences(ours, theirs)):
            if tree.minds(path):
                tree.note(path, "")
    tree.tried |= tree.changes.keys()
    tree.whose = f"some commit between {good[0].hex()[:8]} and {bad.hex()[:8]}"
    tree.repository.adrift = True


def _patched(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git apply, git am, of files that are there."""
    if way := _in_progress(command):
        if way == "abort":
            tree.reset(tree.tree("ORIG_HEAD"))
        return
    _refuse(command, "directory")
    if not command.flags.isdisjoint(_LOOKS_ONLY) and "apply" not in command.flags:
        tree.listing_known = tree.listing_known and "cached" not in command.flags
        return
    if command.subcommand == "am":
        tree.repository.grown = True
        if not command.operands:
            raise NotKnown("what it reads from its input")
    said = command.options.get("strip", [])
    strip = _number(said[-1], 1) if said else 1
    tops = {tree.repository.top, here} if command.subcommand == "apply" else {tree.repository.top}
    for word in command.operands:
        data = tree.repository.read(posixpath.join(here, word or ""), _OF_A_PATCH)
        names = targets((data or b"").decode("utf-8", "surrogateescape"), strip)
        if data is None or names is None:
            raise NotKnown(f"what {word} brings")
        if strip == 1:  # a file of which only the mode changes has no other line with its name
            names += [os.fsdecode(each) for each in _OF_ONE_FILE.findall(data)]
        for path in _joined(tops, names or ()):
            if tree._minds(path):
                tree.changes[path] = ""


def _joined(tops: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    return (posixpath.normpath(posixpath.join(top, name)) for top in tops for name in names)


def _commit(tree: WorkTree, command: SimpleCommand, here: str) -> None:
    """git commit: it changes nothing there, but what was changed is in the last commit now."""
    tree.committed = tree.repository.grown = True


COMMANDS: dict[str, Callable[[WorkTree, SimpleCommand, str], None]] = {
    "am": _patched,
    "apply": _patched,
    **{f"bisect {each}": _bisect for each in ("start", "good", "bad", "new", "old", "skip", "run", "reset")},
    "branch": _branch,
    "checkout": _switch,
    "checkout-index": _from_index,
    "cherry-pick": _picked,
    "commit": _commit,
    "merge": _merge,
    "pull": _pull,
    "read-tree": _read_tree,
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
    "tag": _branch,
    "worktree add": _worktree,
}
