"""Paths that an action makes lead elsewhere before it uses them.

`ln -s / x; rm -rf x/etc`: when the action is judged, x does not exist, so where x/etc leads can't be looked up. A path
at or below what an earlier command of the same action may have linked, moved or unpacked is therefore uncertain, but
where the disk shows that there was no link in what was moved or copied. So is what git brings that is a link in the
version it goes to.

Links that are there already lead out of what is named where a program follows them: `grep -R`, `find -L`, `tar -h`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, Program, SimpleCommand
from humanlayer_agent.shell.reader import DiskLooks, Reader

_MAKERS = frozenset(
    ("ln", "link", "mv", "rsync", "tar", "bsdtar", "unzip", "cpio", "mount", "7z", "unsquashfs", "busybox", "git")
)
"""Programs that can leave a symbolic link behind at the path they write."""

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
    made = [path for at in again for path in (*_links(program.commands[at]), *_paths(brought, at))]
    for at, command in enumerate(program.commands):
        led = [e for e in command.effects if e.kind in _FILE_KINDS and _leads_through(e, command, made)]
        for effect in led:
            command.effects.append(replace(effect, operand=None, resolved=False, below=False, pattern=None))
        if led:
            command.doubt(command.text)
        if not _carries_none(command, made, reader):
            made += _links(command)
        made += _paths(brought, at)


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


def _may_link(commands: Sequence[SimpleCommand]) -> bool:
    for command in commands:
        if command.program in _MAKERS or command.program == "cp":
            return True
        for effect in command.effects:
            if effect.role in _LINKING_ROLES:
                return True
    return False


def _links(command: SimpleCommand) -> list[tuple[str, bool]]:
    """The paths that `command` may turn into links; whether they are directories that it moves something into."""
    copies_links = command.program == "cp" and not _LINKING_COPY.isdisjoint(command.flags)
    maker = command.program in _MAKERS or copies_links
    return [
        (plain_path(e.operand), _moves_into(e, command))
        for e in command.effects
        if e.kind == "write" and e.operand is not None
        # The shell opens what a redirect names, and links nothing.
        if (maker and e.source != "redirect") or e.role in _LINKING_ROLES
    ]


def _carries_none(command: SimpleCommand, made: list[tuple[str, bool]], reader: Reader | None) -> bool:
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
        and not any(place.startswith(plain_path(effect.operand).rstrip("/") + "/") for place, _ in made)
        and not reader.has_links(plain_path(effect.operand))
        for effect in given
    )


def _moves_into(effect: Effect, command: SimpleCommand) -> bool:
    """Is it `mv x dir/`? That makes no link of `dir`, and follows none in it: a link that has the name is replaced."""
    return command.program == "mv" and effect.kind == "write" and (effect.operand or "").endswith("/")


def _leads_through(effect: Effect, command: SimpleCommand, made: list[tuple[str, bool]]) -> bool:
    if effect.operand is None or not made:
        return False
    path = plain_path(effect.operand)
    again = _moves_into(effect, command)
    return any(
        not (into and again) if path == place else path.startswith(place.rstrip("/") + "/") for place, into in made
    )
