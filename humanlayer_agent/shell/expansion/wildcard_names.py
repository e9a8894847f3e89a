"""Wildcards as the names that they stand for: the disk is asked, and what it says becomes part of what was judged.

bash lists names after all words of a command are expanded, and before its redirects. So a list holds where nothing in
the action may have changed the folder until then, nor changes it at the same time. A name that comes or goes before
the command starts is noticed there (see `processes.file_swaps`), as for a script that was read.
"""

import posixpath
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.dataflow import name_lists
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.state import RESERVED, State
from humanlayer_agent.shell.paths import absolute_path, plain_path, takes_all
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.reader import DiskLooks
from humanlayer_agent.shell.syntax.tree import Node, children
from humanlayer_agent.shell.wildcards import FOLDER, Listing

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

MAX_LISTED = 100
"""Most names that become words, each by itself."""
_MOST_LISTS = 20
"""Most lists in one analysis: each looks at a folder, three times until the command starts."""
_COST = 1_000
"""What a name costs that becomes a word, in code points, besides its own."""
MAX_MADE = 100
"""Most names that are known to be made by later parts of a pipeline."""
_AT_ONCE = frozenset({"condition", "substitution", "string"})
"""Constructs whose commands run once, where they stand."""
_SAME_SHELL = frozenset({"eval"})
"""Wrappers whose text this shell reads. Another one may be told to list other names (`bash -O dotglob -c`)."""
_MAKE_NO_LINKS = frozenset(str.split("touch mkdir tee rm rmdir"))
"""Programs that change what they are told, and make no link."""
_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})
_C_ORDER = frozenset({"C", "POSIX", "C.UTF-8", "C.utf8"})


def list_names(
    walk: "Interpreter", fields: list[Field], state: State, context: Context, *, most: int = MAX_LISTED
) -> list[Field]:
    """Return the words of a command with the names that their wildcards stand for in their places.

    Args:
        walk: the analysis.
        fields: all words of the command, or of the head of a loop.
        state: what the shell knows where it runs.
        context: what stands around it.
        most: how many names may become words; beyond, the wildcards stay, and it is known whether an option is among
            them.
    """
    if not any(field.pathname for field in fields) or not _is_told(walk, state, context):
        return fields
    out: list[Field] = []
    for field in fields:
        found = _listing(walk, field, state) if field.pathname else None
        out += [field] if found is None else _words(walk, field, found, state, most)
    return out


def _is_told(walk: "Interpreter", state: State, context: Context) -> bool:
    """Tell whether the shell would list names now, and as it always does."""
    if not isinstance(walk.reader, DiskLooks) or walk.fails_on_globs or state.havoc or walk.beside is None:
        return False
    if not _AT_ONCE.issuperset(context.inside) or not _SAME_SHELL.issuperset(context.via):
        return False
    others = ("GLOBIGNORE", "GLOBSORT", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT")
    return all(state.untouched(name) and name not in state.environ for name in others)


def _listing(walk: "Interpreter", field: Field, state: State) -> Listing | None:
    """What the wildcards of a word stand for; None where the action may have made something else of it."""
    glob = field.glob or ""
    here = "/" if glob.startswith("/") else state.cwd[0] if state.cwd is not None and len(state.cwd) == 1 else ""
    if not here or not field.exact:
        return None
    above = {here, plain_path(absolute_path(posixpath.dirname(field.prefix), here))}
    return _kept(walk, here, glob[1:] if glob.startswith("/") else glob, above)


def is_folder(walk: "Interpreter", path: str, state: State, context: Context) -> bool:
    """Tell whether `cd` certainly gets into a folder (absolute): the disk shows it, and nothing in the action may have
    changed that.
    """
    reader = walk.reader
    if not isinstance(reader, DiskLooks) or not _is_told(walk, state, context):
        return False
    changes = (each for command in walk.program.commands for each in command.effects if each.kind in _CHANGES)
    if reader.real(path) != path and next(changes, None) is not None:
        return False  # what its links lead through may have changed
    pattern = "".join(f"\\{c}" if c != "/" and not c.isalnum() else c for c in path.strip("/"))
    found = _kept(walk, "/", f"{pattern}{FOLDER}".lstrip("/"), {path})
    return found is not None and len(found.names) == 1


def _kept(walk: "Interpreter", here: str, pattern: str, above: Collection[str]) -> Listing | None:
    """What a pattern stands for in a folder; None where the action may have made something else of it.

    Args:
        above: the folders that lead there.
    """
    reader = walk.reader
    if not isinstance(reader, DiskLooks) or walk.lists >= _MOST_LISTS:
        return None
    walk.lists += 1
    found = reader.listing(here, pattern)
    if found is None or any(found.may_match(name) for name in walk.beside or ()):
        return None
    known = dict(walk.program.files).get(found.path)
    if known not in (None, found.sha256):
        return None  # it has changed since the action was looked at first
    folders = {*above, *found.looked}
    if not all(_keeps(each, found, folders, reader) for each in walk.program.commands):
        return None
    if known is None:
        walk.program.files.append((found.path, found.sha256))
    return found


def _words(walk: "Interpreter", field: Field, found: Listing, state: State, most: int) -> list[Field]:
    """The words that a word with wildcards becomes. Where nothing matches it stays, or vanishes, as it is written."""
    start = "/" if (field.glob or "").startswith("/") else ""
    texts = tuple(start + name for name in found.names)
    option = any(text.startswith("-") for text in texts or [field.prefix])
    if not 0 < len(texts) <= most or (len(texts) > 1 and not _is_in_c_order(state)):
        # Where an option would stand is not known; nor, of names that are no options, which comes first.
        return [field if option else replace(field, no_option=True, listed=texts if len(texts) <= MAX_LISTED else ())]
    cost = sum(_COST + len(text) for text in texts)
    if state.work.left - cost < RESERVED:
        return [field]
    state.work.spend(cost)
    whole = field.glob if takes_all(field.glob or "") else None
    word = Field(field.word, field.start, field.end)
    return [
        replace(word, text=text, prefix=text, whole=whole if n == 0 or whole is None else "")
        for n, text in enumerate(texts)
    ]


def _is_in_c_order(state: State) -> bool:
    """Tell whether bash sorts names by the codes of their letters: in another locale it does not."""
    for name in ("LC_ALL", "LC_COLLATE", "LANG"):
        value = state.lookup(name)
        if value is None or value not in ((), ("",)):
            return value is not None and _C_ORDER.issuperset(value)
    return True


def _keeps(command: SimpleCommand, found: Listing, above: Collection[str], reader: DiskLooks) -> bool:
    """Tell whether a command leaves what was listed as it is: it makes and removes no name that matches, and does not
    touch the folders that lead there.
    """
    if not command.known or not command.resolved:
        return False
    for effect in command.effects:
        if effect.kind in ("read", "environment"):
            continue
        if effect.kind not in _CHANGES or not (effect.source == "redirect" or command.program in _MAKE_NO_LINKS):
            return False
        if not _is_elsewhere(effect, found, above, reader):
            return False
    return True


def _is_elsewhere(effect: Effect, found: Listing, above: Collection[str], reader: DiskLooks) -> bool:
    path = effect.operand or ""
    if not path.startswith("/") or not effect.resolved or effect.below or effect.pattern is not None:
        return False
    for place in {plain_path(path), reader.real(path)}:
        for folder in above:
            if f"{folder.rstrip('/')}/".startswith(f"{place.rstrip('/')}/"):
                return False
            below = place.removeprefix(f"{folder.rstrip('/')}/")
            if below != place and any(map(found.may_match, below.split("/"))):
                return False
    return True


def made_beside(parts: Sequence[Node]) -> list[tuple[str, ...] | None]:
    """Return for each part of a pipeline the last components of the files that the later parts write: they run at the
    same time as those before. None where they may do more than that, or make more than `MAX_MADE`.
    """
    found: list[tuple[str, ...] | None] = [()]
    for part in reversed(parts[1:]):
        later = found[-1]
        made = None if later is None else _made(part)
        both = None if later is None or made is None else (*made, *later)
        found.append(both if both is not None and len(both) <= MAX_MADE else None)
    return found[::-1]


def _made(part: Node) -> tuple[str, ...] | None:
    """Return the last components of the files that a part of a pipeline writes; None where it may do more."""
    if not name_lists.use_names(part, meanwhile=True):
        return None
    found: list[str] = []
    pending = [part]
    while pending:
        each = pending.pop()
        pending += children(each)
        for redirect in getattr(each, "redirects", ()):
            if redirect.op.startswith("<") and redirect.op != "<>":
                continue
            target = redirect.target.static
            if target is None:
                return None
            found.append(posixpath.basename(target))
    return tuple(found)
