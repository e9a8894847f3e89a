"""find: start points, then an expression that can delete, write and run commands.

Source: the manual of GNU findutils 4.9. A primary that is not listed makes the command unresolved.
"""

import fnmatch
import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from humanlayer_agent.shell.dataflow import name_lists
from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path, escape
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.reader import DiskLooks
from humanlayer_agent.shell.syntax.tree import Word
from humanlayer_agent.shell.view import ODD

_PLAIN = frozenset(
    str.split(
        """
        -daystart -depth -d -follow -ignore_readdir_race -noignore_readdir_race -mount -noleaf -xdev
        -warn -nowarn -empty -executable -false -nogroup -nouser -readable -writable -true -print -print0
        -ls -prune -quit -not -a -and -o -or ! ( ) , -help --help -version --version
        """
    )
)
_ONE = frozenset(
    str.split(
        """
        -maxdepth -mindepth -regextype -amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid
        -group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -mmin -mtime -name -newer
        -path -perm -printf -regex -samefile -size -type -uid -used -user -wholename -xtype
        """
    )
)
_FILES = {"-fprint": 1, "-fprint0": 1, "-fls": 1, "-fprintf": 2}
_ACTS = frozenset(("-print", "-print0", "-printf", "-ls", "-delete", *_FILES, "-exec", "-execdir", "-ok", "-okdir"))
_PRINTS_OTHERWISE = frozenset(("-exec", "-execdir", "-ok", "-okdir", "-ls", "-printf", "-help", "--help", "--version"))
_EXEC = frozenset(("-exec", "-execdir", "-ok", "-okdir"))
_TELLING = re.compile(r"[A-Za-z0-9]{3}", re.ASCII)
"""What a pattern of names has in it that looks for something, and does not list all that there is."""


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what this find reads, deletes, writes and runs."""
    i = 0
    while i < len(fields) and (fields[i].text or "") in ("-H", "-L", "-P"):
        if fields[i].text == "-L":
            run.command.flags.add("follow")
        i += 1
    starts: list[Field] = []
    while i < len(fields) and not _expression(fields[i]):
        starts.append(fields[i])
        i += 1
    if not starts:
        from humanlayer_agent.shell.programs.spec_reader import implied

        starts = [implied(run.command, ".")]
    run.command.operands += [s.text for s in starts]
    for n, start in enumerate(starts, 1):
        run.path("read", start, role="list", origin=f"find start {n}", recursive=True)
    if any(f.text == "-follow" for f in fields[i:]):
        run.command.flags.add("follow")
    if _looks_for_names(fields[i:]):
        run.command.flags.add("by-name")
    places = starts
    if "follow" in run.command.flags:
        places = [place for start in starts for place in _followed(run, start)]
    names: list[str] | list[None] = _names(fields[i:]) or [None]
    found = [_found_below(place, name, run.state) for place in places for name in names]
    end = _end(run, starts, fields[i:])
    given = found
    if "follow" in run.command.flags:  # what is given a link changes what that leads to, whatever it is called
        given = [_found_below(place, None, run.state) for place in places]
    elif end or any(f.text in _EXEC for f in fields[i:]):
        given = [*found, *(link for start in starts for link in _links(run, start, fields[i:]))]
    if end:
        run.command.prints, run.command.prints_end = given, end
    while i < len(fields):
        i = _primary(run, fields, i, given if fields[i].text in _EXEC else found)


def _end(run: Run, starts: list[Field], expression: list[Field]) -> str:
    """What each name that is printed ends with; "" where it prints none, or other things too, or names may be split."""
    texts = [f.text for f in expression]
    if "-print0" in texts:
        return "\0"
    if any(text is None or text in _PRINTS_OTHERWISE for text in texts) or "follow" in run.command.flags:
        return ""
    folders = [_directory(start, run.state) for start in starts]
    if not name_lists.are_known(run.walk, run.command):
        return ""
    for start, folder in zip(starts, folders, strict=True):
        if start.text is None or folder is None or not folder.startswith("/") or ODD.search(start.text):
            return ""
        names: list[str] | list[None] = _names(expression) or [None]
        if any("[" in (name or "") for name in names):
            names = [None]  # a class may mean something else there
        if not all(name_lists.are_whole(run.walk.reader, folder, name) for name in names):
            return ""
    return "\n"


def _names(expression: list[Field]) -> list[str] | None:
    """The wildcards of which everything that is found must match one, by its last component; None where that is not
    known.
    """
    texts = [f.text for f in expression]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts) or "," in known:
        return None
    acts = any(text in _ACTS for text in known)
    names, rest = _alternatives(known, acts=acts)
    return names if not rest and names and all(name.strip("*") for name in names) else None


def _looks_for_names(expression: list[Field]) -> bool:
    """Tell whether nothing is found but what is called so as it is asked for by some letters of its name."""
    asked = [after.text or "" for word, after in pairwise(expression) if word.text in ("-name", "-iname")]
    return _names(expression) is not None and all(_TELLING.search(each) and "[" not in each for each in asked)


def _alternatives(texts: list[str], *, acts: bool) -> tuple[list[str] | None, list[str]]:
    """The names of what `a -o b -o ...` lets through, and what stands behind it. `acts`: what is let through is dealt
    with by an action, so that an alternative that has none lets nothing through.
    """
    found: list[str] | None = []
    while True:
        names, acted, texts = _conjunction(texts, acts=acts)
        if acted or not acts:
            found = [*found, *names] if found is not None and names is not None else None
        if texts[:1] not in (["-o"], ["-or"]):
            return found, texts
        texts = texts[1:]


def _conjunction(texts: list[str], *, acts: bool) -> tuple[list[str] | None, bool, list[str]]:
    """The same for `a b c`, of which each must be true; whether there is an action among them."""
    found: list[str] | None = None
    acted = negated = False
    while texts and texts[0] not in ("-o", "-or", ")"):
        text, names = texts[0], None
        if text in ("!", "-not"):
            negated, texts = not negated, texts[1:]
            continue
        if text == "(":
            inner = texts[1:]
            names, texts = _alternatives(inner, acts=False)
            acted |= any(each in _ACTS for each in inner[: len(inner) - len(texts)])
            texts = texts[1:]
        else:
            acted |= text in _ACTS
            value = texts[1] if len(texts) > 1 else ""
            if text in ("-name", "-iname") and "/" not in value and "\\" not in value:
                names = [value if text == "-name" else _any_case(value)]
            texts = texts[_length(texts) :]
        if names is not None and not negated and not acted and found is None:
            found = names  # what comes too late for an action does not narrow it: `-delete -name x` deletes all
        negated = False
    return found, acted, texts


def _length(texts: list[str]) -> int:
    """How many words a primary has."""
    if texts[0] in _EXEC:
        ends = [n for n, text in enumerate(texts) if text == ";" or (text == "+" and texts[n - 1] == "{}")]
        return ends[0] + 1 if ends else len(texts)
    return 1 + _FILES.get(texts[0], int(texts[0] in _ONE or texts[0].startswith("-newer")))


def _any_case(pattern: str) -> str:
    if "[" in pattern:
        return "*"
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in pattern)


def _found_below(start: Field, name: str | None, state: State) -> Field:
    """What find may find below `start`: any path there, or those with a name that matches."""
    directory = _directory(start, state)
    shown = Word("{}", None, start.start, start.end, dynamic=True)
    named = start.text or ""
    if directory is None:
        return Field(shown, start.start, start.end, prefix="/" if named.startswith("/") else "")
    if name is not None and directory.startswith("/"):
        # Unlike the shell's, find's wildcards match a leading dot: written with two stars (see policy.pathset). What
        # find was told by a relative path comes out so, and is another file to a command in another directory.
        spelled = "**" + name if name[:1] in ("*", "?", "[") else name
        glob = f"{escape(named.rstrip('/'))}/**/{spelled}"
        return Field(shown, start.start, start.end, glob=glob, prefix=f"{named}/")
    seen_from = None if named.startswith("/") or state.cwd is None else state.cwd[0]
    return Field(shown, start.start, start.end, below=directory, prefix="/", seen_from=seen_from)


def _followed(run: Run, start: Field) -> list[Field]:
    """Where find looks that follows links: where it starts, and where the links lead that it comes by; anywhere, if
    that is not known, or is no longer true when it runs and nothing holds it.
    """
    reader, directory = run.walk.reader, _directory(start, run.state)
    if not isinstance(reader, DiskLooks) or directory is None or not directory.startswith("/"):
        return [_anywhere(start)]
    led = reader.followed(directory)
    if led is None:
        return [_anywhere(start)]
    return [start, *(replace(start, text=path, prefix=path, glob=None, below=None) for path in led)]


def _anywhere(start: Field) -> Field:
    return Field(Word("{}", None, start.start, start.end, dynamic=True), start.start, start.end, prefix="/")


def _links(run: Run, start: Field, expression: list[Field]) -> Iterator[Field]:
    """The links that find may find which lead out of where it looks: whatever is given one follows it."""
    reader, directory = run.walk.reader, _directory(start, run.state)
    texts, names = [field.text for field in expression], _names(expression)
    if not isinstance(reader, DiskLooks) or directory is None or not directory.startswith("/") or _only_files(texts):
        return
    links = reader.links_out(directory, through=False)
    if links is None:
        yield _anywhere(start)
        return
    for path, _ in links:
        if names is None or any(fnmatch.fnmatchcase(posixpath.basename(path), name) for name in names):
            yield replace(start, text=path, prefix=path, glob=None, below=None)


def _only_files(texts: list[str | None]) -> bool:
    """Is all that is found a regular file?"""
    if any(text in ("-o", "-or", ",", "!", "-not", "(", ")") or text is None for text in texts):
        return False
    return "-type" in texts and texts[texts.index("-type") + 1 :][:1] == ["f"]


def _expression(word: Field) -> bool:
    if word.text is None:
        return word.may_be_option()
    return word.text.startswith("-") or word.text in ("(", "!", ",", ")")


def _primary(run: Run, fields: list[Field], i: int, found: list[Field]) -> int:
    """Note one primary of the expression; returns the index after it."""
    word = fields[i]
    text = word.text
    if text is None:
        run.command.flags_complete = False
        run.doubt(word.word.raw)
        return i + 1
    run.command.flags.add(text.lstrip("-"))
    if text in _PLAIN:
        return i + 1
    if text in _ONE or text.startswith("-newer"):
        return i + 2
    if text == "-delete":
        for each in found:
            run.path("delete", each, role="found", origin="find -delete")
            if each.below is not None:
                run.effect("delete", "found", each.below, True, run.command.span, "find -delete", recursive=True)
        return i + 1
    if text in _FILES:
        if i + 1 < len(fields):
            run.path("write", fields[i + 1], role="option", origin=f"find {text}")
        return i + 1 + _FILES[text]
    if text in _EXEC:
        return _exec(run, fields, i, found)
    run.doubt(text)
    return i + 1


def _exec(run: Run, fields: list[Field], i: int, found: list[Field]) -> int:
    """`-exec cmd {} ;`: the command runs with what was found, which lies below the start points."""
    end = i + 1
    while end < len(fields) and not (
        fields[end].text == ";" or (fields[end].text == "+" and end > i + 1 and fields[end - 1].text == "{}")
    ):
        end += 1
    if end >= len(fields):
        run.doubt(fields[i].text or "-exec")
    words = fields[i + 1 : end]
    if (fields[i].text or "").endswith("dir"):
        plain = bool(words) and words[0].text in name_lists.PLAIN  # others may go elsewhere before they use the name
        found = [_absolute(each, run.state) if plain else replace(each, glob=None, below=None) for each in found]
        state = run.state.copy()
        state.cwd = None
        run = run.having(state=state)
    run = run.having(context=run.context.fed(run.context.stdin.shared()))  # of the input each gets what others left
    for each in found:
        replaced = [_replaced(w, each) for w in words]
        if replaced:
            first = len(run.walk.program.commands)
            run.program(replaced, "find")
            for ran in run.walk.program.commands[first:]:
                for effect in ran.effects:
                    if effect.role == "operand" and (effect.below or effect.pattern):
                        effect.role = "found"
    return end + 1


def _absolute(found: Field, state: State) -> Field:
    """The same for whatever runs where it was found."""
    if found.glob is None or state.cwd is None:
        return replace(found, seen_from=None)
    return replace(found, glob=absolute_path(found.glob, state.cwd[0]))


def _directory(start: Field, state: State) -> str | None:
    """The absolute directory that `start` names, where there is exactly one."""
    if start.text is None:
        return None
    if start.text.startswith("/"):
        return start.text
    return absolute_path(start.text, state.cwd[0]) if state.cwd is not None and len(state.cwd) == 1 else None


def _replaced(word: Field, found: Field) -> Field:
    """`word` with `{}` standing for what was found."""
    if word.text is None or "{}" not in word.text:
        return word
    if word.text == "{}":
        # What starts at `.` comes out as ./name: never an option.
        return replace(found, start=word.start, end=word.end)
    shown = Word(word.word.raw, None, word.word.start, word.word.end, dynamic=True)
    return Field(shown, word.start, word.end, prefix=word.text.partition("{}")[0])
