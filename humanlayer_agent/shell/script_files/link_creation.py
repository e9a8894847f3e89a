"""Paths that an action makes lead elsewhere before it uses them.

`ln -s / x; rm -rf x/etc`: when the action is judged, x does not exist, so where x/etc leads can't be looked up. A path
at or below what an earlier command of the same action may have linked, moved or unpacked is therefore uncertain, but
where the disk shows that there was no link in what was moved or copied. So is what git brings that is a link in the
version it goes to.

Links that are there already lead out of what is named where a program follows them: `grep -R`, `find -L`, `tar -h`.
So do links in the folders that a program writes to: `cp a.py src/` changes what src/a.py leads to, and `isort .` what
any link does that has the name of code.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, Program, SimpleCommand
from humanlayer_agent.shell.reader import DiskLooks, Reader

_MAKERS = frozenset(
    ("ln", "link", "mv", "rsync", "tar", "bsdtar", "unzip", "cpio", "mount", "7z", "unsquashfs", "busybox", "git")
)
"""Programs that can leave a symbolic link behind at the path they write."""

_PLAIN_INIT = frozenset(("quiet", "initial-branch", "object-format"))
"""Flags of `git init` with which it makes nothing beside `.git`, where its templates may have links."""
_LINKING_COPY = frozenset(("archive", "recursive", "no-dereference", "symbolic-link", "link"))
_LINKING_FLAGS = frozenset(("symbolic-link", "link"))
_CARRIERS = frozenset(("mv", "cp", "rsync"))
"""Programs that leave a link only where there was one."""
_LINKING_ROLES = frozenset(("link", "moved", "unpacked"))
"""Roles of what code (a Python script) writes so that it may lead elsewhere."""
_FOLLOWERS: dict[str, tuple[frozenset[str], ...]] = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "zgrep", "rg"), (frozenset({"dereference-recursive"}),)),
    **dict.fromkeys(("find", "fd", "fdfind"), (frozenset({"follow"}),)),
    **dict.fromkeys(("tar", "bsdtar", "du"), (frozenset({"dereference"}),)),
    "cp": (frozenset({"dereference"}), frozenset({"recursive", "archive"})),
    "ls": (frozenset({"dereference"}), frozenset({"recursive"})),
    "rsync": (frozenset({"copy-links"}),),
    "diff": (frozenset({"recursive"}),),
    "zip": (frozenset({"recurse"}),),
    "tree": (frozenset({"links"}),),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz"), ()),
}
"""Programs that follow links below what they are given: with one flag of each set."""
_FOLLOWS_NOT = frozenset({"no-dereference", "symlinks"})
_REWRITERS: Mapping[str, bool] = {
    **dict.fromkeys(
        str.split(
            """ruff autopep8 yapf autoflake pyupgrade docformatter eslint prettier standard biome gofmt goimports
            gofumpt shfmt rubocop standardrb stylua terraform tofu cargo taplo clang-format ktlint dart zig stylelint"""
        ),
        False,
    ),
    "isort": True,
}
"""Programs that write the files that they find below a folder, also where those are links; whether they go into folders
that are links. (black leaves out what leads out of the project.)"""
_REPLACERS = frozenset(str.split("mkdir touch chmod chown mv ln install rsync tar bsdtar git black sed"))
"""Programs that put something in the place of a link, or write nothing into the folders they are given."""
_HIDDEN = re.compile(r"/\.[^/.][^/]*(?:/|\Z)")
_MOST_NAMES = 200
_LONGEST_PATH = 4_096
"""No longer path can be opened (PATH_MAX)."""
"""Most names of a copied folder that are noted one by one."""
_PYTHON_COPIES = ("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree")
_INSTALLED = frozenset((".git", "node_modules", ".venv", "venv", ".tox", ".nox"))
_HARD_LINKS = (".link", ".hardlink_to", ".link_to")
"""Functions of Python by which a file gets another name."""
_AGAIN = frozenset(("loop", "function", "trap", "background"))
_FILE_KINDS = frozenset(("read", "write", "append", "delete", "move", "metadata", "execute"))


Brought = Mapping[int, Sequence[str]]
"""What git commands may make links of, as `DiskLooks.brought_links` returns it."""


def brought_by_git(program: Program, reader: Reader | None) -> Brought:
    """Return what the git commands of an action may make links, or repositories, of, where another command follows."""
    if len(program.commands) < 2 or not isinstance(reader, DiskLooks):
        return {}
    return reader.brought_links(program) if any(c.program == "git" for c in program.commands) else {}


def doubt_links(program: Program, reader: Reader | None, brought: Brought) -> None:
    """Add an uncertain effect for every path at or below one that an earlier command may have turned into a link.

    The effect by name stays: a rule that denies the path as written still does.

    Args:
        program: all of an action.
        reader: looks for links in what is moved and copied; without one that can, there may be some.
        brought: what `brought_by_git` says of it.
    """
    if not _may_link(program.commands):
        return
    # What repeats, or runs beside, may have run before everything else.
    again = [at for at, command in enumerate(program.commands) if not _AGAIN.isdisjoint(command.inside)]
    plain = not any(_leads_git(command) for command in program.commands)
    made = _Made()
    for at in again:
        made.add((*_links(program.commands[at], plain), *_paths(brought, at)))
    for at, command in enumerate(program.commands):
        led = [e for e in command.effects if e.kind in _FILE_KINDS and _leads_through(e, command, made)]
        for effect in led:
            command.effects.append(replace(effect, operand=None, resolved=False, below=False, pattern=None))
        if led:
            command.doubt(command.text)
        if not _carries_none(command, made, reader):
            made.add(_links(command, plain))
        made.add(_paths(brought, at))


def _paths(brought: Brought, at: int) -> list[tuple[str, bool]]:
    return [(path, False) for path in brought.get(at, ())]


def note_hard_links(program: Program) -> None:
    """Add that a file gets another name: by that it can be changed, wherever it is, and nobody sees it by its own."""
    for command in program.commands:
        for effect in [e for e in command.effects if e.kind == "read" and _gets_name(command, e)]:
            command.effects.append(replace(effect, kind="metadata"))


def _gets_name(command: SimpleCommand, effect: Effect) -> bool:
    """Is what is read given another name by that?"""
    if effect.origin.startswith("python"):
        return effect.origin.endswith(_HARD_LINKS)
    if effect.source != "own" or effect.role == "option":
        return False
    if command.program == "ln":
        return "symbolic" not in command.flags
    return command.program == "link" or (command.program == "cp" and "link" in command.flags)


def note_followed(program: Program, reader: Reader | None) -> None:
    """Add the places outside that programs come to by following links below what they are given.

    Args:
        program: all of an action.
        reader: looks for links; without one that can, nothing is known of them, and nothing added.
    """
    if not isinstance(reader, DiskLooks):
        return
    for command in program.commands:
        sets = _FOLLOWERS.get(command.program or "")
        if sets is None or not all(command.flags & each for each in sets) or command.flags & _FOLLOWS_NOT:
            continue
        for effect in [e for e in command.effects if e.kind == "read" and e.source == "own" and e.role != "option"]:
            if effect.operand is None or not (effect.resolved or effect.below):
                continue  # it is in doubt as it is
            links = reader.links_out(plain_path(effect.operand), through=True)
            if links is None:
                command.doubt(f"where links below {effect.operand} lead")
            for place in dict.fromkeys(real for _, real in links) if links is not None else (None,):
                more = replace(effect, operand=place, resolved=place is not None, below=False, pattern=None)
                command.effects.append(replace(more, recursive=True))


def note_written_through(program: Program, reader: Reader | None) -> None:
    """Add the places outside that programs write to by links that are in the folders they write to.

    Args:
        program: all of an action.
        reader: looks for links; without one that can, nothing is known of them, and nothing added.
    """
    if not isinstance(reader, DiskLooks):
        return
    for command in program.commands:
        name = command.options.get("module", [command.program])[0] or ""
        for effect in list(command.effects):
            if effect.kind != "write" or effect.source != "own" or effect.operand is None or effect.role == "build":
                continue
            if effect.pattern is not None or not (effect.resolved or effect.below):
                continue  # names that wildcards match are looked up, and what is in doubt is asked about
            if name == "cp" or effect.origin.endswith(_PYTHON_COPIES):
                places = _copied_through(program, command, effect, reader)
            elif name in _REWRITERS:
                places = _rewritten_through(effect.operand, reader, into=_REWRITERS[name])
            elif effect.recursive and name not in _REPLACERS:
                links = reader.links_out(plain_path(effect.operand), through=False)
                places = None if links is None else [real for _, real in links]
            else:
                continue
            if places is None:
                command.doubt(f"where links below {effect.operand} lead")
            for place in dict.fromkeys(places) if places is not None else (None,):
                more = replace(effect, operand=place, resolved=place is not None, below=False)
                command.effects.append(more)


def note_brought_along(program: Program, reader: Reader | None) -> None:
    """Add the names that a copied or moved folder brings into a hidden one: `cp -r new/. .github/` writes what is in
    `new` to places that mean something by their names.

    Args:
        program: all of an action.
        reader: lists folders; without one that can, nothing is known of them, and nothing added.
    """
    if not isinstance(reader, DiskLooks):
        return
    for command in program.commands:
        if command.program not in ("cp", "mv"):
            continue
        for effect in [e for e in command.effects if e.kind == "write" and e.source == "own" and e.resolved]:
            into = plain_path(effect.operand or "")
            if _HIDDEN.search(into) is None or not (effect.recursive or command.program == "mv"):
                continue
            names: list[str] | None = []
            for source in command.effects:
                if source.kind in ("read", "move") and source.source == "own" and source.role != "option":
                    found = _brought_names(program, command, source, reader)
                    names = None if found is None or names is None else [*names, *found]
            if names is None or len(names) > _MOST_NAMES:
                command.effects.append(replace(effect, resolved=False, below=True, pattern=None))
                command.doubt(f"the names below {effect.operand}")
                continue
            command.effects += [
                replace(effect, operand=f"{into.rstrip('/')}/{name}", recursive=False) for name in names
            ]


def _brought_names(program: Program, command: SimpleCommand, source: Effect, reader: DiskLooks) -> Sequence[str] | None:
    """What a folder brings; () of a file, which is noted by its own name; None: any."""
    path = plain_path(source.operand or "")
    made = [e for c in program.commands if c is not command for e in c.effects if e.kind in ("write", "move")]
    if not source.resolved or any(plain_path(e.operand or "/").startswith(f"{path}/") for e in made):
        return None
    if reader.names(path, deep=False) is None or not reader.names(path, deep=True):
        return ()
    return _copied_names(program, command, replace(source, recursive=True), reader)


def _rewritten_through(folder: str, reader: DiskLooks, *, into: bool) -> list[str] | None:
    """Where the links lead that have the name of code; in folders of what is installed none is looked at."""
    links = reader.links_out(plain_path(folder), through=into)
    if links is None:
        return None
    return [real for link, real in links if _INSTALLED.isdisjoint(link.split("/")) and (into or _is_code(link))]


def _is_code(path: str) -> bool:
    return posixpath.splitext(path)[1][1:2].isalpha()


def _copied_through(program: Program, command: SimpleCommand, effect: Effect, reader: DiskLooks) -> list[str] | None:
    """Where the links lead that have the names of what is copied into a folder; None where that can't be told."""
    into, places = plain_path(effect.operand or ""), list[str]()
    for source in command.effects:
        if source.kind != "read" or source.source != "own" or source.role == "option":
            continue
        names = _copied_names(program, command, source, reader)
        if names is not None and not source.recursive and source.pattern is None:
            places += [path for path in (f"{into.rstrip('/')}/{name}" for name in names) if reader.has_links(path)]
            continue
        links = reader.links_out(into, through=False)
        if links is None:
            return None
        rest = [(link.removeprefix(into.rstrip("/") + "/"), real) for link, real in links]
        places += [real for link, real in rest if names is None or any(f"{n}/".startswith(f"{link}/") for n in names)]
    return places


def _copied_names(program: Program, command: SimpleCommand, source: Effect, reader: DiskLooks) -> Sequence[str] | None:
    """The paths that what is copied gets in the folder it is copied to; None: any."""
    if source.operand is None or not source.resolved or _is_changed(plain_path(source.operand), program, command):
        return None
    path = plain_path(source.operand)
    if source.pattern is not None:
        above, last = posixpath.split(source.pattern)
        found = reader.names(path, deep=source.recursive) if plain_path(above) == path else None
        return found if found is None else [name for name in found if fnmatchcase(name.partition("/")[0], last)]
    name = posixpath.basename(path)
    if not source.recursive:
        return [name]
    inside = reader.names(path, deep=True)
    if inside is None or not inside:
        return [name] if inside is not None else None
    whole = source.operand.endswith(("/.", "/..")) or "no-target-directory" in command.flags
    return inside if whole or source.origin.endswith(".copytree") else [f"{name}/{each}" for each in inside]


def _is_changed(path: str, program: Program, by: SimpleCommand) -> bool:
    """Does another command of the action change what is at a path, or below it?"""
    return any(
        effect.kind in ("write", "move") and (effect.operand is None or _is_at(plain_path(effect.operand), path))
        for command in program.commands
        if command is not by
        for effect in command.effects
    )


def _is_at(changed: str, path: str) -> bool:
    return changed == path or changed.startswith(f"{path.rstrip('/')}/") or path.startswith(f"{changed.rstrip('/')}/")


def _may_link(commands: Sequence[SimpleCommand]) -> bool:
    for command in commands:
        if command.program in _MAKERS or command.program == "cp":
            return True
        for effect in command.effects:
            if effect.role in _LINKING_ROLES:
                return True
    return False


def _leads_git(command: SimpleCommand) -> bool:
    """May it set a variable that has git keep its files elsewhere, or take other templates?"""
    names = [effect.operand for effect in command.effects if effect.kind == "environment"]
    return not command.resolved or any(name is None or name.startswith("GIT_") for name in names)


def _links(command: SimpleCommand, plain: bool) -> list[tuple[str, bool]]:
    """The paths that `command` may turn into links; whether they are directories that it moves something into.

    Args:
        command: what may make links.
        plain: whether no variable leads git elsewhere.
    """
    copies_links = command.program == "cp" and not _LINKING_COPY.isdisjoint(command.flags)
    maker = command.program in _MAKERS or copies_links
    known = plain and command.flags_complete and command.flags <= _PLAIN_INIT
    below = "/.git" if known and command.program == "git" and command.subcommand == "init" else ""
    return [
        (plain_path(e.operand + below), _moves_into(e, command))
        for e in command.effects
        if e.kind == "write" and e.operand is not None
        # The shell opens what a redirect names, and links nothing.
        if (maker and e.source != "redirect") or e.role in _LINKING_ROLES
    ]


def _carries_none(command: SimpleCommand, made: "_Made", reader: Reader | None) -> bool:
    """Does it move or copy what has no link in it, as the disk shows?"""
    if command.program not in _CARRIERS or command.flags & _LINKING_FLAGS or not isinstance(reader, DiskLooks):
        return False
    given = [e for e in command.effects if e.kind in ("read", "move") and e.source == "own" and e.role != "option"]
    return bool(given) and all(
        effect.operand is not None
        and effect.resolved
        and effect.pattern is None
        and not effect.below
        and not _leads_through(effect, command, made)
        and not made.lie_below(plain_path(effect.operand))
        and not reader.has_links(plain_path(effect.operand))
        for effect in given
    )


def _moves_into(effect: Effect, command: SimpleCommand) -> bool:
    """Is it `mv x dir/`? That makes no link of `dir`, and follows none in it: a link that has the name is replaced."""
    return command.program == "mv" and effect.kind == "write" and (effect.operand or "").endswith("/")


def _leads_through(effect: Effect, command: SimpleCommand, made: "_Made") -> bool:
    if effect.operand is None or not made:
        return False
    return made.lead(plain_path(effect.operand), moves_into=_moves_into(effect, command))


class _Made:
    """Paths that may have been made links, each with whether something can be moved into it that has its name."""

    def __init__(self) -> None:
        self._places: dict[str, set[bool]] = {}
        self._roots: set[str] = set()
        """The same without a `/` at the end: all below them is led elsewhere."""
        self._above: set[str] = set()
        """The folders that these lie in."""
        self._long: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, found: Iterable[tuple[str, bool]]) -> None:
        """Add more of them."""
        for place, into in found:
            known = self._places.setdefault(place, set())
            if not known:
                self._roots.add(place.rstrip("/"))
                if len(place) > _LONGEST_PATH:
                    self._long.append(place)
                else:
                    self._above.update(_ancestors(place))
            known.add(into)

    def lead(self, path: str, *, moves_into: bool) -> bool:
        """Tell whether a path is one of them, or lies below one."""
        if path in self._places and not (moves_into and self._places[path] == {True}):
            return True
        if len(path) > _LONGEST_PATH:
            return any(path.startswith(f"{root}/") for root in self._roots)
        return any(each in self._roots for each in _ancestors(path))

    def lie_below(self, folder: str) -> bool:
        """Tell whether one of them lies below a folder."""
        folder = folder.rstrip("/")
        return folder in self._above or any(place.startswith(f"{folder}/") for place in self._long)


def _ancestors(path: str) -> Iterator[str]:
    """The folders that a path lies in, the nearest first, without a `/` at the end; "" is the root."""
    end = path.rfind("/")
    while end >= 0:
        yield path[:end]
        end = path.rfind("/", 0, end)
