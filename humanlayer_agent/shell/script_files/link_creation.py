"""Paths that an action makes lead elsewhere before it uses them.

`ln -s / x; rm -rf x/etc`: when the action is judged, x does not exist, so where x/etc leads can't be looked up. A path
at or below what an earlier command of the same action may have linked, moved or unpacked is therefore uncertain.
"""

from collections.abc import Sequence
from dataclasses import replace

from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, Program, SimpleCommand

_MAKERS = frozenset(
    ("ln", "link", "mv", "rsync", "tar", "bsdtar", "unzip", "cpio", "mount", "7z", "unsquashfs", "busybox", "git")
)
"""Programs that can leave a symbolic link behind at the path they write."""

_LINKING_COPY = frozenset(("archive", "recursive", "no-dereference", "symbolic-link", "link"))
_LINKING_ROLES = frozenset(("link", "moved", "unpacked"))
"""Roles of what code (a Python script) writes so that it may lead elsewhere."""
_AGAIN = frozenset(("loop", "function", "trap", "background"))
_FILE_KINDS = frozenset(("read", "write", "append", "delete", "move", "metadata", "execute"))


def doubt_links(program: Program) -> None:
    """Add an uncertain effect for every path at or below one that an earlier command may have turned into a link.

    The effect by name stays: a rule that denies the path as written still does.
    """
    if not _may_link(program.commands):
        return
    # What repeats, or runs beside, may have run before everything else.
    made = [path for c in program.commands if not _AGAIN.isdisjoint(c.inside) for path in _links(c)]
    for command in program.commands:
        led = [e for e in command.effects if e.kind in _FILE_KINDS and _leads_through(e, command, made)]
        for effect in led:
            command.effects.append(replace(effect, operand=None, resolved=False, below=False, pattern=None))
        if led:
            command.doubt(command.text)
        made += _links(command)


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
