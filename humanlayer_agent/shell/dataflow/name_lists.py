"""File names that one command prints and another takes: `find src -name '*.py' | grep -v test | xargs wc -l`.

Printed one a line, a name with a blank in it becomes several words, and a file that is called `x /etc` names another
one. So they count as names only where the disk shows that no name there is split, and nothing in the action may have
made one.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import Stdin
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.reader import DiskLooks, Reader
from humanlayer_agent.shell.syntax.tree import (
    Arith,
    ArrayLit,
    Function,
    Node,
    Param,
    ProcSub,
    Redirect,
    Simple,
    Sub,
    Word,
    children,
    words_of,
)
from humanlayer_agent.shell.view import ODD

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_FILTERS: dict[str, frozenset[str]] = {
    "cat": frozenset(),
    "tac": frozenset(),
    "head": frozenset({"lines", "quiet"}),
    "tail": frozenset({"lines", "quiet"}),
    "sort": frozenset(
        {"unique", "reverse", "numeric-sort", "version-sort", "human-numeric-sort", "ignore-case", "key"}
        | {"field-separator", "stable", "general-numeric-sort", "dictionary-order"}
    ),
    "uniq": frozenset({"repeated", "unique", "ignore-case"}),
    **dict.fromkeys(
        ("grep", "egrep", "fgrep"),
        frozenset({"invert-match", "ignore-case", "extended-regexp", "fixed-strings", "basic-regexp", "perl-regexp"})
        | {"word-regexp", "line-regexp", "max-count", "regexp", "no-messages"},
    ),
}
"""Programs that print some of the lines they are given, as they are, and the options with which they do."""
MAX_BEFORE = 200
"""Most commands that are looked through for one that makes a name: each that prints names asks anew."""
_READS_ONLY = frozenset(
    str.split(
        """
        basename cat cksum column comm cut diff dirname du echo egrep fgrep fold grep head jq ls md5sum nl od paste
        realpath rev rg sha1sum sha256sum shasum stat strings tac tail test tr wc
        """
    )
)
"""Programs that make no file, whatever words they are given."""
_PLAIN_CHANGES = frozenset(str.split("black chmod cp dos2unix gofmt isort mv prettier rm rmdir ruff sed touch"))
"""Programs that make no file but under the names that they are given, and these with something after them."""
PLAIN = _READS_ONLY | _PLAIN_CHANGES
"""Programs that use the names that they are given themselves, from where they are started."""
_IN_PLACE = _PLAIN_CHANGES - {"cp", "mv"}
"""Programs that make no link either."""
_XARGS_OPTION = re.compile(
    r"-[0rtx]+|-[nLPsI].+|--(?:null|no-run-if-empty|verbose|max-(?:args|lines|procs)=.*)", re.ASCII
)
_XARGS_TAKES = frozenset(("-n", "-L", "-P", "-s", "-I"))
"""Options of xargs that take the word after them."""
_BUILTINS = frozenset((":", "[", "break", "continue", "printf", "true", "read"))
_LOOKS = frozenset((*_READS_ONLY, *_FILTERS, "cd", "pwd", "true", "xargs"))
"""Programs that change nothing, not even with an option, but where their output goes."""
_GIT_LOOKS = frozenset(("ls-files", "grep", "status", "diff", "log", "show", "rev-parse"))
"""Sub-commands of git that add nothing to the index."""
_MAKES = frozenset(("write", "append", "move"))
_AGAIN = frozenset(("loop", "function", "trap", "background"))


def pass_on(part: Node, stdin: Stdin, commands: tuple[SimpleCommand, ...]) -> None:
    """Note what a part of a pipeline prints that has `stdin` and consists of `commands`, where it only leaves out names
    or sorts them.
    """
    if not isinstance(part, Simple) or not all(map(_only_hides_errors, part.redirects)):
        for command in commands:  # it may have another input, or print what goes wrong as well
            command.prints = []
        return
    if len(commands) != 1 or len(stdin.producer) != 1 or stdin.producer[0].prints_end != "\n":
        return
    command, flags = commands[0], _FILTERS.get(commands[0].program or "")
    if flags is None or not command.resolved or not command.flags_complete or not command.flags <= flags:
        return
    if not any(effect.kind == "read" and effect.source in ("own", "redirect") for effect in command.effects):
        command.prints, command.prints_end = stdin.producer[0].prints, "\n"


def _only_hides_errors(redirect: Redirect) -> bool:
    """Tell whether it is `2>/dev/null`. Elsewhere, what goes wrong may come where the names do (`2>/dev/stdout`)."""
    return redirect.fd == "2" and redirect.op in (">", ">>") and redirect.target.static == "/dev/null"


def are_known(walk: "Interpreter", command: SimpleCommand) -> bool:
    """Tell whether the action has made no name, before `command` prints names, that the disk does not show."""
    commands = walk.program.commands
    if not once(command.inside) or len(commands) > MAX_BEFORE:
        return False
    return all(each is command or _adds_no_name(each) for each in commands)


def add_no_names(commands: Sequence[SimpleCommand]) -> bool:
    """Tell whether these commands make no file or folder at all; False where there are too many to say."""
    return len(commands) <= MAX_BEFORE and all(
        _adds_no_name(each) and all(effect.kind not in _MAKES for effect in each.effects) for each in commands
    )


def are_only_looked_at(walk: "Interpreter", command: SimpleCommand) -> bool:
    """Tell whether all that the action has done before `command` prints names is to look at files."""
    commands = walk.program.commands
    if not once(command.inside) or len(commands) > MAX_BEFORE:
        return False
    return all(map(_only_looks, itertools.takewhile(lambda each: each is not command, commands)))


def once(inside: Sequence[str]) -> bool:
    """Tell whether what stands inside these constructs runs once, at its place."""
    return _AGAIN.isdisjoint(inside)


def leaves_names(command: SimpleCommand) -> bool:
    """Tell whether names that were printed before a command stand for the same after it."""
    if not command.argv:
        return not command.effects
    return _only_looks(command) or (
        command.program in _IN_PLACE and command.known and command.resolved and command.path is None
    )


def _only_looks(command: SimpleCommand) -> bool:
    """Tell whether a command changes neither a file, nor what git has of them, nor what the shell knows."""
    if not command.known or not command.resolved or command.path is not None or not once(command.inside):
        return False
    git = command.program == "git" and command.subcommand in _GIT_LOOKS
    return (git or command.program in _LOOKS) and all(effect.kind == "read" for effect in command.effects)


def _adds_no_name(command: SimpleCommand) -> bool:
    if not command.known or not command.resolved or not once(command.inside):
        return False
    for effect in command.effects:
        if effect.kind == "execute":
            return False
        if effect.kind in _MAKES and (
            effect.operand is None
            or not effect.resolved
            or effect.below
            or effect.recursive
            or effect.pattern is not None
            or _is_odd(effect.operand)
        ):
            return False
    return True


def use_names(node: Node, *, meanwhile: bool = False) -> bool:
    """Tell whether a loop's body does nothing by which names that were printed before could come to stand for something
    else: it may change these files, but makes no link.

    Args:
        meanwhile: the names are still being printed, so that it may make no file either whose name would be split.
    """
    pending: list[Node] = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, Function) or (isinstance(each, Simple) and not _is_harmless(each, meanwhile)):
            return False
        for redirect in getattr(each, "redirects", ()):
            written = redirect.target.text if not redirect.op.startswith("<") else ""
            if meanwhile and (written is None or ODD.search(written)):
                return False
        pending += children(each)
        for word in words_of(each):
            if (found := _substituted(word)) is None:
                return False
            pending += found
    return True


def _is_harmless(command: Simple, meanwhile: bool) -> bool:
    if not command.words:
        return True
    first, second = (word.text for word in [*command.words, *command.words][:2])
    if first is None or (first == "git" and second in _GIT_LOOKS):
        return first is not None
    if first in ("sort", "uniq"):  # `sort -o FILE`, `uniq IN OUT`
        texts = [word.static or "-o" for word in command.words[1:]]
        return all(text[0] == "-" and "o" not in text for text in texts)
    if first == "xargs":
        return _started_by_xargs(command) in _READS_ONLY
    return first in _READS_ONLY or first in _BUILTINS or (first in _IN_PLACE and not meanwhile)


def _started_by_xargs(command: Simple) -> str:
    """The program that xargs starts; "" where that is not plain."""
    words = iter(word.static or "" for word in command.words[1:])
    for word in words:
        if word in _XARGS_TAKES:
            next(words, "")
        elif _XARGS_OPTION.fullmatch(word) is None:
            return word
    return "echo"


def _substituted(word: Word) -> list[Node] | None:
    """The scripts of the substitutions in a word; None where there may be others deeper in it."""
    found: list[Node] = []
    for part in word.parts:
        match part:
            case Sub() | ProcSub():
                found += [part.script.body] if part.script.body is not None else []
            case Param():
                if part.index_parts or (part.arg is not None and part.arg.dynamic):
                    return None
            case Arith():
                if part.parts:
                    return None
            case ArrayLit():
                return None
    return found


def doubt_made(commands: Sequence[SimpleCommand]) -> None:
    """Note that the names that the commands of a pipeline are given are not known, where a part of it may make one that
    is split, or any where they are told one by one: all parts run at the same time.
    """
    told = any(field.names for each in commands for field in each.prints)
    if not told and not any(each.prints and each.prints_end == "\n" for each in commands):
        return
    if all(_uses_names(each) or (_adds_no_name(each) and (not told or _only_looks(each))) for each in commands):
        return
    for each in commands:
        if each.via[-1:] == ("xargs",):
            each.doubt("names that are made while they are read")
            each.effects += [
                replace(effect, operand=None, resolved=False, below=False, pattern=None)
                for effect in each.effects
                if effect.operand is not None and effect.source == "own"
            ][:1]


def _uses_names(command: SimpleCommand) -> bool:
    """Tell whether a command makes no name but those that it is given, or where its output goes, which is not split."""
    known = [word for word in command.words if word.text is not None]  # the others are names that are there
    if command.program != "xargs" and (not known or not makes_none(known)):
        return False  # what xargs runs stands beside it
    made = [each for each in command.effects if each.kind in _MAKES and each.source == "redirect"]
    return all(each.resolved and not _is_odd(each.operand or " ") for each in made)


def _is_odd(path: str) -> bool:
    """Tell whether a path would be split, or a name in it taken for an option."""
    return "/-" in path or ODD.search(path) is not None


def makes_none(words: Sequence[Field]) -> bool:
    """Tell whether a command that begins with these words makes no file, or none whose name would be split."""
    name = words[0].text
    if name in _READS_ONLY:
        return True
    plain = all(word.text is not None and not ODD.search(word.text) for word in words)
    return name in _PLAIN_CHANGES and (plain or name == "sed")


def are_whole(reader: Reader | None, folder: str, name: str | None) -> bool:
    """Tell whether each path below a folder is one word, as the disk shows. `name`: wildcards for its last part."""
    return isinstance(reader, DiskLooks) and not reader.has_odd_names(folder, name)


def taken(stdin: Stdin, end: str) -> list[Field]:
    """Return what the names on the input may be, where each ends with `end`; empty where that is not known."""
    return printed_by(stdin.producer, end)


def printed_by(producer: Sequence[SimpleCommand], end: str) -> list[Field]:
    """The same for what these commands print."""
    if len(producer) != 1 or producer[0].prints_end != end:
        return []
    return [replace(each, many=False) for each in producer[0].prints]
