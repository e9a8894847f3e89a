"""find: start points, then an expression that can delete, write and run commands.

Source: the manual of GNU findutils 4.9. A primary that is not listed makes the command unresolved.
"""

from dataclasses import replace

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.syntax.tree import Word

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
_EXEC = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what this find reads, deletes, writes and runs."""
    i = 0
    while i < len(fields) and (fields[i].text or "") in ("-H", "-L", "-P"):
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
    found = [_found_below(start, _only_name(fields[i:]), run.state) for start in starts]
    if any(f.text == "-print0" for f in fields[i:]):
        run.command.prints = found
    while i < len(fields):
        i = _primary(run, fields, i, found)


def _only_name(expression: list[Field]) -> str | None:
    """The pattern of -name where everything that is found must match it, else None."""
    texts = [f.text for f in expression]
    if any(t in ("-o", "-or", ",", "!", "-not", "(", ")") or t is None for t in texts) or texts.count("-name") != 1:
        return None
    at = texts.index("-name")
    name = texts[at + 1] if at + 1 < len(texts) else None
    return name if name is not None and name.strip("*") else None


def _found_below(start: Field, name: str | None, state: State) -> Field:
    """What find may find below `start`: any path there, or those with a matching name."""
    directory = _directory(start, state)
    shown = Word("{}", None, start.start, start.end, dynamic=True)
    if directory is None:
        return Field(shown, start.start, start.end, prefix="/" if (start.text or "").startswith("/") else "")
    if name is not None and "/" not in name and "\\" not in name and directory.startswith("/"):
        # Unlike the shell's, find's wildcards match a leading dot: written with two stars (see policy.pathset).
        spelled = "**" + name if name[:1] in ("*", "?", "[") else name
        return Field(shown, start.start, start.end, glob=f"{directory.rstrip('/')}/**/{spelled}", prefix="/")
    return Field(shown, start.start, start.end, below=directory, prefix="/")


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
        state = run.state.copy()
        state.cwd = None
        run = run.having(state=state)
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
