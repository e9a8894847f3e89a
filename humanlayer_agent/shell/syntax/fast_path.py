"""The fast path: lists of plain commands in one pass of one regular expression, without bashlex.

It takes what most commands are (words, quotes, `$name`, assignments, `|`, `&&`, `||`, `;`, `&`, redirects,
here-documents) and leaves all else to the slow path. It must never differ from it: what is not sure is refused.
Every class is spelled out in ASCII, because `\\w` and `\\d` match other alphabets, where bash sees no name and no
number; quantifiers are possessive, so the time is linear.
"""

import re

from humanlayer_agent.shell.syntax.cursor import MAX_WORDS, Source, refusal
from humanlayer_agent.shell.syntax.tree import (
    Assign,
    Lit,
    Node,
    Param,
    Pipeline,
    Redirect,
    Script,
    Sequence,
    Simple,
    Sub,
    Word,
)
from humanlayer_agent.shell.syntax.word_builder import Role, WordBuilder, is_pattern

# ---- the expression -------------------------------------------------------------------------------

_NAME = "[A-Za-z_][A-Za-z0-9_]*+"
_BARE = r"[^ \t\n;&|()<>'\"\\$`]"
_PLAIN = r"[^ \t\n;&|()<>'\"\\$`*?\[{~]"
_SINGLE = "'[^']*+'"
_SIMPLE_DOUBLE = r'"[^"$`\\]*+"'
_PARAMETER = rf"\$(?:{_NAME}|[0-9@*#?$!-]|\{{{_NAME}\}})"
_SUBSTITUTION = rf"\$\((?:[ \t]*+(?:(?!\#){_PLAIN}++(?=[ \t|)])|\|(?![|&])))++[ \t]*+\)"
"""`$( )` around what `_line` reads, without quotes."""
_DOUBLE = rf'"(?:[^"$`\\]++|\\(?s:.)|{_PARAMETER}|{_SUBSTITUTION}|\$(?=["\' |/.,:;)]))*+"'
_ESCAPE = r"\\[^\n]"
_LAST_DOLLAR = r"\$(?=[ \t\n]|\Z)"
_MIXED = rf"(?:{_BARE}++|{_SINGLE}|{_DOUBLE}|{_ESCAPE}|{_PARAMETER}|{_SUBSTITUTION}|{_LAST_DOLLAR})++"
_END = r"(?=[ \t\n;&|]|\Z)"
"""What may follow a word. Not `<`, `>` and parentheses: `2>`, `{fd}>`, `a<(b)`, `f()` need a closer look."""

_TOKEN = re.compile(
    rf"""
    # backslash-newline only after a blank: without one it may join two tokens (`&\⏎>` is `&>`)
    (?:[ \t]++ (?:\\\n[ \t]*+)*+ )?+
    (?:
        (?!\#) ({_PLAIN}++) {_END}                      # 1 a bare word
      | ({_SINGLE}) {_END}                              # 2 '...'
      | ({_SIMPLE_DOUBLE}) {_END}                       # 3 "..." without escapes and expansions
      | (&& | \|\| | \|& | \| | ;(?![;&]) | &(?![&>]))  # 4 an operator
      | (\n)                                            # 5
      | ([0-9]{{0,9}}+) (&>>|&>|<<<|<<-|<<|<&|<>|<|>>|>&|>\||>)
        [ \t]*+ (?!\#) ({_MIXED}) {_END}                # 6 descriptor, 7 operator, 8 target
      | (?!\#) ({_MIXED}) {_END}                        # 9 any other word
      | \#[^\n]*+
      | \Z
      | ((?s:.))                                        # 10 anything else is for the slow path
    )
    """,
    re.VERBOSE,
)
_BARE_WORD, _DOUBLE_WORD, _OPERATOR, _NEWLINE, _REDIRECT, _MIXED_WORD = 1, 3, 4, 5, 8, 9

_LITERAL = rf"(?!\#){_PLAIN}++|{_SINGLE}|{_SIMPLE_DOUBLE}"
_LINE_PIECE = re.compile(rf"([ \t]*+)((?:{_LITERAL}){_END}|\|(?![|&]))")
"""What most commands are made of: literal words, and pipes between commands."""

_ANY_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789%+,-./:=@_ "
"""A text of these alone is words and blanks, whichever they are: no expression is needed, and none compiled."""

_PIECE = re.compile(
    rf"({_BARE}++)|'([^']*+)'|\"((?:[^\"\\]++|\\.)*+)\"|\\(.)|({_PARAMETER})|\$\(([^()]++)\)|(\$)",
    re.DOTALL,
)
_DOUBLE_PIECE = re.compile(rf"([^$\\]++)|\\(.)|({_PARAMETER})|\$\(([^()]++)\)|(\$)", re.DOTALL)
_BARE_WORDS = re.compile(rf"{_BARE}++")
_ASSIGNED = re.compile(rf"({_NAME})=")
_OTHER_ASSIGNMENT = re.compile(rf"{_NAME}(?:\[|\+=)")
_DELIMITER = re.compile(r"'[^'\n$`]++'|\"[^\"\n$`\\]++\"|\\?[A-Za-z0-9_]++")
_DESCRIPTOR = re.compile(r"-|[0-9]++")
_PLAIN_WORD = re.compile(rf"({_PLAIN}++)|({_SINGLE})")
_BODY = re.compile(r"(?:[^\\$`]++|\\[^\n]|\$(?![A-Za-z0-9_@*#?$!{(\[\\-]))*+")
"""The body of an unquoted here-document without expansions, and without lines that are joined."""
_BODY_ESCAPE = re.compile(r"\\([\\$`])")

RESERVED = frozenset(
    (
        *("if", "then", "else", "elif", "fi", "while", "until", "do", "done", "for", "select", "in", "case", "esac"),
        *("{", "}", "[[", "!", "time", "coproc", "function"),
    )
)
"""Words that are no commands where a command begins (bash(1), "Reserved words")."""


class _UnsureError(Exception):
    """The slow path must decide."""


# ---- words ----------------------------------------------------------------------------------------


def _mixed(source: Source, start: int, end: int, role: Role = Role.WORD) -> Word:
    """The word at [start, end), which the expression has found to be made of known pieces."""
    raw = source.text[start:end]
    if _BARE_WORDS.fullmatch(raw):
        return Word(raw, raw, start, end, False, is_pattern(raw, role), False, [])
    out = WordBuilder()
    for piece in _PIECE.finditer(source.text, start, end):
        bare, single, double, escaped, parameter, inner, dollar = piece.groups()
        if bare is not None:
            out.literal(bare, False)
        elif single is not None:
            out.literal(single, True)
        elif double is not None:
            _double(out, source, piece.start(3), piece.end(3))
        elif escaped is not None:
            out.literal(escaped, True)
        elif parameter is not None:
            out.part(_parameter(parameter, False))
        elif inner is not None:
            out.part(Sub(_inner(source, *piece.span(6)), False))
        else:
            out.literal(dollar, False)
    return out.finish(source, start, end, role)


def _target(source: Source, start: int, end: int, raw: str) -> Word:
    """The same for the target of a redirect, which mostly is one plain piece."""
    plain = _PLAIN_WORD.fullmatch(raw)
    if plain is None:
        return _mixed(source, start, end)
    bare = plain[1] is not None
    return Word(raw, raw if bare else raw[1:-1], start, end, False, False, not bare, [])


def _double(out: WordBuilder, source: Source, start: int, end: int) -> None:
    """Add the text between double quotes, at [start, end) of `source`."""
    out.quoted = True
    for piece in _DOUBLE_PIECE.finditer(source.text, start, end):
        run, escaped, parameter, inner, dollar = piece.groups()
        if run is not None:
            out.literal(run, True)
        elif escaped is not None:
            if escaped != "\n":  # a newline behind a backslash is deleted
                out.literal(escaped if escaped in '$`"\\' else "\\" + escaped, True)
        elif parameter is not None:
            out.part(_parameter(parameter, True))
        elif inner is not None:
            out.part(Sub(_inner(source, *piece.span(4)), True))
        else:
            out.literal(dollar, True)


def _inner(source: Source, start: int, end: int) -> Script:
    """The script at [start, end), between the parentheses of `$( )`."""
    body = _pipeline(source.text[start:end], start)
    if body is None or len(source.text) > 2 * MAX_WORDS:
        raise _UnsureError
    return Script(body, start, end)


def _parameter(raw: str, quoted: bool) -> Param:
    name = raw[2:-1] if raw[1] == "{" else raw[1:]
    return Param(name, "", None, None, quoted, raw)


# ---- commands -------------------------------------------------------------------------------------


def _line(text: str) -> Script | None:
    """The tree of a pipeline (or one command) of literal words; None where it may be something else."""
    if len(text) > 2 * MAX_WORDS or "<<" in text:
        return None
    if "\n" in text or "&&" in text or ">" in text:  # mostly it is something else then, and `_Reader` sees what it is
        return None
    body = _pipeline(text, 0)
    return Script(body, 0, len(text)) if body is not None else None


_by_hand = iter(range(40))
"""Counts the texts that are split without the expression: to compile it takes as long as these."""


def _pieces(text: str) -> list[tuple[str, str]]:
    """What `_LINE_PIECE` finds: the blanks before each piece, and the piece."""
    if next(_by_hand, None) is None or text.strip(_ANY_WORD):
        return _LINE_PIECE.findall(text)
    found, blanks = [], ""
    for raw in text.split(" "):
        if raw:
            found.append((blanks, raw))
            blanks = ""
        blanks += " "
    return found


def _pipeline(text: str, end: int) -> Node | None:
    """The same for a text that begins at `end`."""
    last = end + len(text.rstrip(" \t"))
    commands: list[Node] = []
    words: list[Word] = []
    for blanks, raw in _pieces(text):
        start = end + len(blanks)
        end = start + len(raw)
        if raw == "|":
            if not words:
                return None
            commands.append(Simple(words, [], [], words[0].start, words[-1].end))
            words = []
        elif raw[0] == "'" or raw[0] == '"':
            words.append(Word(raw, raw[1:-1], start, end, False, False, True, []))
        elif words or not (raw in RESERVED or "=" in raw):
            words.append(Word(raw, raw, start, end, False, False, False, []))
        else:
            return None
    if not words or end != last:  # something between the pieces is none
        return None
    command = Simple(words, [], [], words[0].start, end)
    if not commands:
        return command
    return Pipeline([*commands, command], ["|"] * len(commands), commands[0].start, end)


class _Reader:
    """The commands read so far: the list, the pipeline and the simple command that are open."""

    __slots__ = ("command", "needed", "ops", "parts", "pending", "pipe_ops", "piped", "source")

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.parts: list[Node] = []
        self.ops: list[str] = []
        self.piped: list[Node] = []
        self.pipe_ops: list[str] = []
        self.command: Simple | None = None
        self.needed = False
        """An operator wants a command after it."""
        self.pending: list[Redirect] = []

    def at_command(self, start: int) -> Simple:
        """The open simple command, or a new one that begins at `start`."""
        if self.command is None:
            self.command = Simple([], [], [], start, start)
            self.needed = False
        return self.command

    def word(self, word: Word) -> None:
        """Add a word, which is no assignment."""
        command = self.command
        if command is None:
            if word.raw in RESERVED:
                raise _UnsureError
            self.command = Simple([word], [], [], word.start, word.end)
            self.needed = False
        else:
            if not command.words and word.raw in RESERVED:
                raise _UnsureError
            command.words.append(word)
            command.end = word.end

    def assignment(self, start: int, end: int) -> bool:
        """Add an assignment, if one stands at [start, end) where no command name has been."""
        if self.command is not None and self.command.words:
            return False
        text = self.source.text
        found = _ASSIGNED.match(text, start, end)
        if not found:
            if _OTHER_ASSIGNMENT.match(text, start, end):
                raise _UnsureError
            return False
        value = _mixed(self.source, found.end(), end, Role.VALUE)
        command = self.at_command(start)
        command.assigns.append(Assign(found[1], value, False, None, start, end))
        command.end = end
        return True

    def redirect(self, token: re.Match[str]) -> None:
        """Add a redirect."""
        fd, op, raw = token.group(6, 7, 8)
        start, end = token.start(6), token.end(8)
        if op == "<<-" or (op in ("<&", ">&") and not _DESCRIPTOR.fullmatch(raw)):
            raise _UnsureError
        redirect = Redirect(op, fd, _target(self.source, token.start(8), end, raw), start, end)
        if op == "<<":
            if not _DELIMITER.fullmatch(raw):
                raise _UnsureError
            self.pending.append(redirect)
        command = self.at_command(start)
        command.redirects.append(redirect)
        command.end = end

    def operator(self, op: str) -> None:
        """End the open command with a control operator."""
        if self.command is None:
            raise _UnsureError
        if op in ("|", "|&"):
            self.piped.append(self.command)
            self.pipe_ops.append(op)
            self.command = None
            self.needed = True
        else:
            self.end_pipeline(op)
            self.needed = op in ("&&", "||")

    def end_pipeline(self, op: str) -> None:
        """Put the open pipeline, which may be of one command, into the list, with `op` after it."""
        command = self.command
        if command is None:
            return
        self.command = None
        self.ops.append(op)
        if self.piped:
            piped = [*self.piped, command]
            self.parts.append(Pipeline(piped, self.pipe_ops, piped[0].start, command.end))
            self.piped, self.pipe_ops = [], []
        else:
            self.parts.append(command)

    def bodies(self, start: int) -> int:
        """Read the bodies of the pending here-documents, the first of which begins at `start`; where they end."""
        text = self.source.text
        for redirect in self.pending:
            delimiter = f"\n{redirect.target.text}"
            last = text.find(delimiter, start - 1)
            while last >= 0 and text[last + len(delimiter) : last + len(delimiter) + 1] not in ("", "\n"):
                last = text.find(delimiter, last + 1)
            if last < 0:
                raise _UnsureError
            body = known = text[start : last + 1]
            if not redirect.target.quoted:
                if not _BODY.fullmatch(body):
                    raise _UnsureError
                known = _BODY_ESCAPE.sub(r"\1", body)
            parts: list[Lit] = [Lit(known, True)] if known else []
            redirect.body = Word(body, known, start, last + 1, False, False, True, [*parts])
            start = min(last + len(delimiter) + 1, len(text))
        self.pending = []
        return start

    def script(self) -> Script:
        """The tree of all that was read."""
        if self.pending or self.needed:
            raise _UnsureError
        self.end_pipeline(";")
        parts, ops = self.parts, self.ops
        if len(self.source.text) > 2 * MAX_WORDS and _words(parts) > MAX_WORDS:
            raise _UnsureError
        body: Node | None = None
        if parts:
            if ops[-1] == ";":
                ops.pop()
            body = Sequence(parts, ops, parts[0].start, parts[-1].end) if ops else parts[0]
        return Script(body, 0, len(self.source.text))


def _words(parts: list[Node]) -> int:
    """How many words the slow path would count."""
    count = 0
    for part in parts:
        for command in part.parts if isinstance(part, Pipeline) else [part]:
            if isinstance(command, Simple):
                count += len(command.words) + len(command.assigns) + len(command.redirects)
    return count


def read(text: str) -> Script | None:
    """The tree of `text`, or None where the slow path must decide."""
    if refusal(text):
        return None
    script = _line(text)
    if script is not None:
        return script
    first = text[:16].split(None, 1)
    if first and first[0] in RESERVED:  # what comes is known, and to compile the expression takes 2 ms
        return None
    reader = _Reader(text)
    position: int | None = 0
    try:
        while position is not None:
            position = _read_lines(reader, text, position)
        return reader.script()
    except _UnsureError:
        return None


def _read_lines(reader: _Reader, text: str, position: int) -> int | None:
    """Read from `position` to the next here-document bodies; where they end, or None at the end of the text."""
    for token in _TOKEN.finditer(text, position):
        kind = token.lastindex
        if kind is None:
            continue  # a comment, or the end
        if kind <= _DOUBLE_WORD:
            raw = token[kind]
            start, end = token.span(kind)
            command = reader.command
            first = command is None or not command.words
            if kind != _BARE_WORD:
                word = Word(raw, raw[1:-1], start, end, False, False, True, [])
            elif first and "=" in raw and reader.assignment(start, end):
                continue
            else:
                word = Word(raw, raw, start, end, False, False, False, [])
            if first or command is None:
                reader.word(word)
            else:
                command.words.append(word)
                command.end = end
        elif kind == _OPERATOR:
            reader.operator(token[_OPERATOR])
        elif kind == _NEWLINE:
            reader.end_pipeline(";")
            if reader.pending:
                return reader.bodies(token.end())
        elif kind == _REDIRECT:
            reader.redirect(token)
        elif kind == _MIXED_WORD:
            start, end = token.span(_MIXED_WORD)
            if not reader.assignment(start, end):
                reader.word(_mixed(reader.source, start, end))
        else:
            raise _UnsureError
    return None
