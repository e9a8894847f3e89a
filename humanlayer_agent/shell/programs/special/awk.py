"""awk: a program that may only print, or may run commands (system, pipes) and open files (>, >>, getline <).

The grammar follows POSIX awk and the gawk manual (chapters 5, 4.10, 9.1). A small lexer is enough: what matters is
where strings and regular expressions end, and which `>` and `|` stand in a print statement. Where that is doubtful, or
the program uses what is not described here (@include, |&, ARGV, /inet), it counts as code that nobody has read.
"""

import re
from typing import NamedTuple

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r]+|\\\r?\n)|(?P<end>\n|;)|(?P<comment>\#[^\n]*)|(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<op>\+\+|--|>>|\|\||\|&|&&|[-+*/%^!<>=]=|!~|\*\*=?|[-+*%^!<>=~?:,$(){}\[\]|/@])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n\[]|\\.|\[[:.=][^\]\n]*[:.=]\]|\[)*\])*/", re.DOTALL)
_BEFORE_REGEX = frozenset(
    str.split(
        """
        ( , { } ; && || ! ~ !~ = == != <= >= < > += -= *= %= ^= ? : print printf return in case else do
        exit | [
        """
    )
) | {"\n", ""}
_BEFORE_DIVISION = frozenset(str.split(") ] $"))
_KEYWORDS = frozenset(
    str.split(
        """
        print printf return in case else do exit if while for delete next nextfile function func switch
        default BEGIN END
        """
    )
)
_CONTINUES = frozenset(str.split(", && || ? : do else"))
"""What a line may end with without ending the statement."""
_REFUSED = frozenset(str.split("ARGV ARGC ARGIND SYMTAB FUNCTAB PROCINFO"))
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "/": "/"}


class NotUnderstood(Exception):
    """The program does not fit the grammar above."""


_INET = re.compile(r"/inet[46]?/(?:tcp|udp)/[^/\"]*/([A-Za-z0-9.-]+)/", re.ASCII)
"""The host of gawk's files that are connections."""


class Token(NamedTuple):
    """`kind` is string, regex, number, name, op or end."""

    kind: str
    text: str


class Found(NamedTuple):
    """One thing the program does; `operand` is None where it is computed."""

    kind: str
    operand: str | None


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what awk's program does, and the files that it reads."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = list(arguments.operands)
    for use in arguments.options:
        if use.option.name == "source" and use.value is not None:
            _program(run, use.value)
    if not run.command.flags & {"file", "source"} and operands:
        _program(run, operands.pop(0))
    run.command.operands += [o.text for o in operands]
    for n, each in enumerate(operands, 1):
        if each.text is None or not _ASSIGNMENT.match(each.text):
            run.path("read", each, origin=f"{run.command.program} operand {n}")


def _program(run: Run, word: Field) -> None:
    origin = f"{run.command.program} program"
    try:
        if word.text is None:
            raise NotUnderstood
        found = program_effects(word.text)
    except NotUnderstood:
        run.code(word, what=word.text, role="code", origin=origin)
        run.doubt(word.word.raw)
        if "/inet" in (word.text or ""):
            host = _INET.search(word.text or "")
            name = Field(word.word, word.start, word.end, text=host[1] if host is not None else None)
            run.host(name, origin=origin)
        return
    for each in found:
        here = Field(word.word, word.start, word.end, text=each.operand, prefix=each.operand or "")
        if each.kind == "environment":
            run.printed(each.operand or "environment", word, origin=origin)
        elif each.kind == "execute":
            spec_reader.shell_text(run, here, origin)
        else:
            run.path(each.kind, here, role="code", origin=origin)


def program_effects(text: str) -> list[Found]:
    """Files that a program opens and commands that it runs. Raises NotUnderstood."""
    tokens = _tokens(text)
    found: list[Found] = []
    printing: list[int] = []
    """Depth of brackets at which each print statement that is open began."""
    depth = 0
    for i, (kind, token) in enumerate(tokens):
        if kind == "op" and token in "([":
            depth += 1
        elif kind == "op" and token in ")]":
            depth -= 1
        elif token in ("{", "}") or (kind == "end" and _at(tokens, i - 1).text not in _CONTINUES):
            printing.clear()
        elif token in ("print", "printf"):
            printing.append(depth)
        elif kind == "name":
            _name(tokens, i, found)
        elif token in (">", ">>") and printing and depth == printing[-1]:
            found.append(Found("append" if token == ">>" else "write", _literal_after(tokens, i)))
        elif token == "|":
            _pipe(tokens, i, bool(printing) and depth == printing[-1], found)
    return found


def _name(tokens: list[Token], i: int, found: list[Found]) -> None:
    name = tokens[i].text
    if name in _REFUSED:
        raise NotUnderstood
    if name == "ENVIRON":
        one = _at(tokens, i + 1).text == "[" and _at(tokens, i + 2).kind == "string" and _at(tokens, i + 3).text == "]"
        found.append(Found("environment", _value(tokens[i + 2].text) if one else "environment"))
    elif name == "system":
        closed = _at(tokens, i + 1).text == "(" and _at(tokens, i + 3).text == ")"
        found.append(
            Found("execute", _value(tokens[i + 2].text) if closed and tokens[i + 2].kind == "string" else None)
        )
    elif name == "getline":
        j = i + 1
        while _at(tokens, j).kind in ("name", "number") or _at(tokens, j).text in ("$", "["):
            j += 1
            if _at(tokens, j - 1).text == "[":
                while j < len(tokens) and tokens[j].text != "]":
                    j += 1
                j += 1
        if _at(tokens, j).text == "<":
            found.append(Found("read", _literal_after(tokens, j)))


def _pipe(tokens: list[Token], i: int, printing: bool, found: list[Found]) -> None:
    if printing:
        found.append(Found("execute", _literal_after(tokens, i)))
        return
    before, earlier = _at(tokens, i - 1), _at(tokens, i - 2)
    single = before.kind == "string" and (earlier.kind == "end" or earlier.text in ("{", "(", "}", ")", "!"))
    found.append(Found("execute", _value(before.text) if single else None))


def _literal_after(tokens: list[Token], i: int) -> str | None:
    """The string after the operator at `i`, where it is one literal and nothing is joined to it."""
    value, after = _at(tokens, i + 1), _at(tokens, i + 2)
    if value.kind == "string" and (after.kind == "end" or after.text in ("}", ")", "&&", "||", "")):
        return _value(value.text)
    return None


def _at(tokens: list[Token], i: int) -> Token:
    return tokens[i] if 0 <= i < len(tokens) else Token("end", "")


def _value(literal: str) -> str:
    """The text of a string literal. Raises NotUnderstood for escapes that awks read differently."""
    out, i, body = "", 0, literal[1:-1]
    while i < len(body):
        if body[i] == "\\":
            if body[i + 1 : i + 2] not in _ESCAPES:
                raise NotUnderstood
            out += _ESCAPES[body[i + 1]]
            i += 2
        else:
            out += body[i]
            i += 1
    return out


def _tokens(text: str) -> list[Token]:
    out: list[Token] = []
    i = 0
    while i < len(text):
        if text[i] == "/" and (regex := _regex(text, i, out)):
            out.append(Token("regex", regex))
            i += len(regex)
            continue
        match = _TOKEN.match(text, i)
        if match is None or match[0] in ("@", "|&"):
            raise NotUnderstood
        i = match.end()
        kind = match.lastgroup or ""
        if kind == "string" and match[0].startswith('"/inet'):
            raise NotUnderstood
        if kind not in ("blank", "comment"):
            out.append(Token(kind, match[0]))
    return out


def _regex(text: str, i: int, before: list[Token]) -> str:
    """The regular expression at `i`, or "" where the slash divides. Raises NotUnderstood where neither is sure."""
    kind, last = before[-1] if before else Token("end", "")
    if kind in ("number", "string", "regex") or last in _BEFORE_DIVISION or (kind == "name" and last not in _KEYWORDS):
        if last == ")" and "/" in text[i + 1 :].partition("\n")[0]:
            raise NotUnderstood  # `if (x) /re/ ...` or `(a) / b / c`
        return ""
    if kind != "end" and last not in _BEFORE_REGEX:
        raise NotUnderstood
    match = _REGEX.match(text, i)
    if match is None:
        raise NotUnderstood
    plain = re.match(r"/(?:[^/\\\n]|\\.)*/", text[i:], re.DOTALL)
    if plain is None or plain[0] != match[0]:
        raise NotUnderstood  # a slash within brackets ends it in some awks
    return match[0]
