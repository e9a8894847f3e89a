"""sed: its script can read and write files (r, w) and run commands (e, s///e).

The grammar follows the GNU sed 4.9 manual, chapters 3 to 5. What does not fit it is unresolved.
"""

import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_LINE = r"[0-9]+(?:~[0-9]+)?|\$"
_ADDRESS = re.compile(rf"(?:{_LINE})|[+~][0-9]+", re.ASCII)
_PRINTS = re.compile(r"[0-9]+(?:,(?:[0-9]+|\$))?[pd]", re.ASCII)
"""What most scripts are: lines that are printed or left out."""
_RESULT = "the result of s///e"
_STREAMS = frozenset({"/dev/stdout", "/dev/stderr", "/dev/stdin"})


class NotUnderstood(Exception):
    """The script does not fit the grammar above."""


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what sed does: its scripts, and its files, which -i rewrites."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = list(arguments.operands)
    if not run.command.flags & {"expression", "file"} and operands:
        note_script(run, operands.pop(0))
    run.command.operands += [o.text for o in operands]
    in_place = "in-place" in run.command.flags
    for n, each in enumerate(operands, 1):
        run.path("write" if in_place else "read", each, origin=f"sed operand {n}")
    if in_place:
        for suffix in run.command.options.get("in-place", ()):
            if suffix is None or "/" in suffix:
                run.doubt("--in-place with a directory in its suffix")


def note_script(run: Run, word: Field) -> None:
    """Note what the script in `word` reads, writes and runs."""
    if word.text is None:
        run.code(word, what=None, role="code", origin="sed script")
        run.doubt(word.word.raw)
        return
    try:
        found = script_effects(word.text)
    except NotUnderstood:
        run.code(word, what=word.text, role="code", origin="sed script")
        run.doubt(word.word.raw)
        return
    for kind, operand in found:
        if kind == "execute":
            run.code(word, what=operand, role="code", origin="sed e")
            run.doubt(word.word.raw)
            if operand not in ("", _RESULT):
                here = Field(word.word, word.start, word.end, text=operand, prefix=operand)
                spec_reader.shell_text(run, here, "sed e")
        elif operand not in _STREAMS:
            name = Field(word.word, word.start, word.end, text=operand, prefix=operand)
            run.path(kind, name, role="script", origin=f"sed {kind}")


def script_effects(text: str) -> list[tuple[str, str]]:
    """(kind, operand) for every file or command in a sed script. Raises where it does not fit the grammar."""
    out: list[tuple[str, str]] = []
    i = len(text) if _PRINTS.fullmatch(text) else 0
    while i < len(text):
        if text[i] in " \t\n;{}":
            i += 1
            continue
        if text[i] == "#":
            i = _line_end(text, i)
            continue
        i = _addresses(text, i)
        i = _command(text, i, out)
    return out


def _addresses(text: str, i: int) -> int:
    for _ in range(2):
        i = _address(text, i)
        i = _blanks(text, i)
        if i < len(text) and text[i] == ",":
            i = _blanks(text, i + 1)
            continue
        break
    while i < len(text) and text[i] in "! \t":
        i += 1
    if i >= len(text):
        raise NotUnderstood
    return i


def _address(text: str, i: int) -> int:
    if match := _ADDRESS.match(text, i):
        return match.end()
    if i < len(text) and text[i] == "/":
        i = _delimited(text, i + 1, "/")
    elif i < len(text) and text[i] == "\\" and i + 1 < len(text):
        i = _delimited(text, i + 2, text[i + 1])
    else:
        return i
    while i < len(text) and text[i] in "IM":
        i += 1
    return i


def _delimited(text: str, i: int, delimiter: str, *, regex: bool = True) -> int:
    """The index after the next `delimiter` that no backslash protects.

    Releases of sed differ on a delimiter inside a bracket expression, so such a script is not understood.
    """
    if delimiter in "\n\\":
        raise NotUnderstood
    start, end = i, text.find(delimiter, i)
    while end >= 0:
        escape = text.find("\\", i, end)
        if escape < 0:
            if regex and _bracket_open(text[start:end]):
                raise NotUnderstood
            return end + 1
        i = escape + 2
        if i > end:
            end = text.find(delimiter, i)
    raise NotUnderstood


def _bracket_open(regex: str) -> bool:
    """True where `regex` ends inside a bracket expression."""
    i = 0 if "[" in regex else len(regex)
    while i < len(regex):
        if regex[i] == "\\":
            i += 2
            continue
        if regex[i] == "[":
            close = regex.find("]", i + (3 if regex[i + 1 : i + 2] == "^" else 2))
            while close > 0 and regex[close - 1] in ":.=" and close - 1 > i:
                close = regex.find("]", close + 1)  # [:alpha:]
            if close < 0:
                return True
            i = close
        i += 1
    return False


def _blanks(text: str, i: int) -> int:
    while i < len(text) and text[i] in " \t":
        i += 1
    return i


def _line_end(text: str, i: int) -> int:
    end = text.find("\n", i)
    return len(text) if end < 0 else end


def _command(text: str, i: int, out: list[tuple[str, str]]) -> int:
    """Read the command at `i`; returns the index after it."""
    name = text[i]
    i += 1
    if name in "{}":
        return i
    if name in "=dDgGhHnNpPxzF":
        return _end(text, i)
    if name in "qQlL":
        while i < len(text) and text[i] in " \t0123456789":
            i += 1
        return _end(text, i)
    if name in "btT:v":
        while i < len(text) and text[i] not in "\n;":
            i += 1
        return i
    if name in "aic":
        return _text_end(text, i)
    if name in "rRwW":
        end = _line_end(text, i)
        file = text[_blanks(text, i) : end]
        if not file:
            raise NotUnderstood
        out.append(("read" if name in "rR" else "write", file))
        return end
    if name == "e":
        end = _line_end(text, i)
        out.append(("execute", text[i:end].strip()))
        return end
    if name == "y":
        delimiter = text[i : i + 1] or "\n"
        return _end(text, _delimited(text, _delimited(text, i + 1, delimiter, regex=False), delimiter, regex=False))
    if name == "s":
        return _substitute(text, i, out)
    raise NotUnderstood


def _substitute(text: str, i: int, out: list[tuple[str, str]]) -> int:
    delimiter = text[i : i + 1] or "\n"
    i = _delimited(text, _delimited(text, i + 1, delimiter), delimiter, regex=False)
    while i < len(text):
        flag = text[i]
        if flag in "gpiImM0123456789":
            i += 1
        elif flag == "e":
            out.append(("execute", _RESULT))
            i += 1
        elif flag == "w":
            end = _line_end(text, i)
            out.append(("write", text[i + 1 : end].strip(" \t")))
            return end
        else:
            break
    return _end(text, i)


def _text_end(text: str, i: int) -> int:
    """The text of a, i, c: to the end of the line, and over lines that end in a backslash."""
    while True:
        end = _line_end(text, i)
        if end >= len(text) or (end - len(text[:end].rstrip("\\"))) % 2 == 0:
            return end
        i = end + 1


def _end(text: str, i: int) -> int:
    i = _blanks(text, i)
    if i < len(text) and text[i] not in "\n;}#":
        raise NotUnderstood
    return i
