"""The parts inside a word: quotes, escapes and expansions, read as bash reads them."""

import re
from enum import IntEnum

from humanlayer_agent.shell.syntax.ansi import decode
from humanlayer_agent.shell.syntax.cursor import Cursor, Source
from humanlayer_agent.shell.syntax.tree import Arith, Param, Part, ProcSub, Redirect, Script, Simple, Sub, Word
from humanlayer_agent.shell.syntax.word_builder import WordBuilder

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_IN_DOUBLE = re.compile(r"[^\"\\$`]+")
_IN_BODY = re.compile(r"[^\\$`]+")
_IN_BRACE = re.compile(r"[^}'\"\\$`<>]+")
_SIMPLE_PARAMETER = re.compile(rf"\$({NAME}|[0-9@*#?$!-])")
_LENGTH = re.compile(rf"#({NAME}|[0-9]+|[@*?$!#-])(?=[}}\[])")
_INDIRECT = re.compile(rf"!({NAME}|[0-9]+|[@*#](?=}}))")
_PARAMETER = re.compile(rf"{NAME}|[0-9]+|[@*#?$-]|!(?=[}}:])")
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?|@|:")
_PATTERN_OPERATORS = frozenset(["#", "##", "%", "%%", "/", "//", "/#", "/%", "^", "^^", ",", ",,"])
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)


class Mode(IntEnum):
    """How the text around an expansion is quoted."""

    BARE = 0
    DOUBLE = 1
    BODY = 2
    """Inside a here-document or arithmetic: as in double quotes, but `"` is an ordinary character."""


class ExpansionLexer(Cursor):
    """A cursor that reads the pieces of words."""

    pending: list[Redirect]
    """Here-documents whose bodies begin after the next newline."""
    witnesses: list[Simple]
    """Every simple command seen so far. When a text is refused they are all that is known of it."""
    substitutions = 0
    """How many substitutions are open around the cursor."""

    # ---- what the command lexer adds ----------------------------------------------------------------

    def script(self, closer: str | None) -> Script:
        """Read commands up to `closer` (")"), which is passed, or to the end of the text."""
        raise NotImplementedError

    def nested(self, source: Source) -> "ExpansionLexer":
        """A lexer for another text inside this one, one level deeper."""
        raise NotImplementedError

    # ---- quotes and escapes ----------------------------------------------------------------------------

    def piece(self, out: WordBuilder, mode: Mode) -> None:
        """Read one escape, quoted string or expansion, which must stand here."""
        self.budget.step()
        char = self.peek()
        if char == "$":
            self.dollar(out, mode)
        elif char == "`":
            self.backticks(out, mode)
        elif char == '"':
            self.index += 1
            self.double(out)
        elif char == "'":
            end = self.text.find("'", self.index + 1)
            if end < 0:
                raise self.fail("unterminated '")
            out.literal(self.text[self.index + 1 : end], True)
            self.index = end + 1
        else:
            if self.index + 1 >= self.length:
                raise self.fail("backslash at the end")
            if self.peek(1) == "\n":
                raise self.fail("line continuation inside a token")
            out.literal(self.peek(1), True)
            self.index += 2

    def double(self, out: WordBuilder) -> None:
        """Read up to the closing `"`; the opening one is passed."""
        out.literal("", True)
        while self.index < self.length:
            run = self.match(_IN_DOUBLE)
            if run:
                out.literal(run[0], True)
                self.index = run.end()
                self.budget.step()
            elif self.peek() == '"':
                self.index += 1
                return
            else:
                self.escape_or_expansion(out, Mode.DOUBLE, '$`"\\')
        raise self.fail('unterminated "')

    def body(self, out: WordBuilder) -> None:
        """Read the whole text as the body of an unquoted here-document."""
        out.literal("", True)
        while self.index < self.length:
            run = self.match(_IN_BODY)
            if run:
                out.literal(run[0], True)
                self.index = run.end()
                self.budget.step()
            else:
                self.escape_or_expansion(out, Mode.BODY, "$`\\")

    def escape_or_expansion(self, out: WordBuilder, mode: Mode, escapable: str) -> None:
        """Read a backslash pair as double quotes have it, or an expansion."""
        if self.peek() != "\\":
            self.piece(out, mode)
            return
        self.budget.step()
        after = self.peek(1)
        if after != "\n":  # backslash-newline is deleted
            out.literal(after if after and after in escapable else "\\" + after, True)
        self.index += 2

    # ---- expansions ---------------------------------------------------------------------------------

    def dollar(self, out: WordBuilder, mode: Mode) -> None:
        """Read what begins with `$`."""
        after = self.peek(1)
        if self.text.startswith("\\\n", self.index + 1):
            raise self.fail("line continuation inside a token")
        if after == "(":
            if self.peek(2) == "(":
                self.arithmetic(out, 3, ")", mode)
            else:
                self.substitution(out, mode)
        elif after == "{":
            self.parameter(out, mode)
        elif after == "[":
            self.arithmetic(out, 2, "]", mode)
        elif after == "'" and mode is Mode.BARE:
            quoted = self.match(_ANSI_C)
            if not quoted:
                raise self.fail("unterminated $'")
            out.literal(decode(quoted[1]), True)
            self.index = quoted.end()
        elif after == '"' and mode is Mode.BARE:
            self.translated(out)
        else:
            simple = self.match(_SIMPLE_PARAMETER)
            if simple:
                out.part(Param(simple[1], "", None, None, mode is not Mode.BARE, simple[0]))
                self.index = simple.end()
            else:
                out.literal("$", mode is not Mode.BARE)
                self.index += 1

    def translated(self, out: WordBuilder) -> None:
        """Read `$"..."`: its value depends on the locale and on message catalogs, so it is dynamic."""
        start, inner = self.index, WordBuilder()
        self.index += 2
        self.double(inner)
        out.quoted = True
        word = inner.finish(self.source, start + 1, self.index)
        out.part(Param("", "translate", word, None, True, self.source.slice(start, self.index)))

    def substitution(self, out: WordBuilder, mode: Mode) -> None:
        """Read `$( ... )`."""
        start = self.index
        self.index += 2
        script = self.inner_script()
        self.crossed(start, "substitution")
        out.part(Sub(script, mode is not Mode.BARE))

    def process_substitution(self, out: WordBuilder) -> None:
        """Read `<( ... )` or `>( ... )`."""
        start, direction = self.index, self.peek()
        self.index += 2
        script = self.inner_script()
        self.crossed(start, "substitution")
        out.part(ProcSub(script, direction))

    def inner_script(self) -> Script:
        """Read the commands of a substitution and its closing parenthesis."""
        self.enter()
        self.substitutions += 1
        script = self.script(")")
        self.substitutions -= 1
        self.depth -= 1
        return script

    def crossed(self, start: int, what: str) -> None:
        """Refuse a newline since `start` while a here-document waits: versions of bash differ on where its body is.

        Raises:
            Unparsed: that is so.
        """
        if self.pending and "\n" in self.text[start : self.index]:
            raise self.fail(f"{what} spans lines before a here-document body")

    def backticks(self, out: WordBuilder, mode: Mode) -> None:
        """Read `` `...` ``: the text between, with one level of backslashes removed, is a script."""
        found = self.match(_BACKTICKS)
        if not found:
            raise self.fail("unterminated `")
        if "\\\n" in found[1]:
            raise self.fail("line continuation inside backticks")
        escapable = '$`\\"' if mode is Mode.DOUBLE else "$`\\"
        chars, offsets = [], []
        index, end = found.span(1)
        while index < end:
            offsets.append(self.source.at(index))
            if self.text[index] == "\\" and self.text[index + 1] in escapable:
                index += 1
            chars.append(self.text[index])
            index += 1
        offsets.append(self.source.at(end))
        lexer = self.nested(Source("".join(chars), self.source.original, offsets))
        start, self.index = self.index, found.end()
        self.crossed(start, "substitution")
        out.part(Sub(lexer.script(None), mode is not Mode.BARE))

    def arithmetic(self, out: WordBuilder, opening: int, closer: str, mode: Mode) -> None:
        """Read `$(( ))`, `$[ ]` or `(( ))`.

        Args:
            out: the word it is part of.
            opening: the length of what opens it.
            closer: ")" or "]".
            mode: how the text around it is quoted.

        Raises:
            Unparsed: what bash might read as nested subshells instead.
        """
        start, inner = self.index, WordBuilder()
        self.enter()
        self.index += opening
        opener, depth = {")": "(", "]": "["}[closer], 1
        while depth:
            char = self.peek()
            if not char:
                raise self.fail("unterminated arithmetic")
            if char in "'\"\\":
                raise self.fail("quote or backslash in arithmetic")
            if char in "$`":
                self.piece(inner, Mode.BODY)
                continue
            self.budget.step()
            self.index += 1
            depth += (char == opener) - (char == closer)
        if closer == ")":
            if self.peek() != ")":
                raise self.fail("ambiguous ((")
            self.index += 1
        self.crossed(start, "arithmetic")
        self.depth -= 1
        out.part(Arith(self.source.slice(start, self.index), inner.expansions(), mode is not Mode.BARE))

    # ---- ${ } ---------------------------------------------------------------------------------------

    def parameter(self, out: WordBuilder, mode: Mode) -> None:
        """Read `${ ... }`."""
        start = self.index
        self.enter()
        self.index += 2
        if self.peek() and self.peek() in " \t\n|(":
            raise self.fail("function substitution ${ }")
        name, op = self.parameter_name()
        index: str | None = None
        index_parts: list[Part] = []
        if self.peek() == "[" and (name[0].isalpha() or name[0] == "_"):
            index, index_parts = self.subscript(mode, "}")
        arg = None
        if self.peek() != "}":
            operator = self.match(_OPERATOR)
            indirect = op == "!"
            if op == "length" or (not operator and not (indirect and self.peek() == "*")):
                raise self.fail("parameter expansion not understood")
            if not indirect and operator:
                op = operator[0]
                self.index = operator.end()
            arg = self.brace_argument(mode, op)
        self.index += 1
        self.depth -= 1
        raw = self.source.slice(start, self.index)
        out.part(Param(name, op, arg, index, mode is not Mode.BARE, raw, index_parts))

    def parameter_name(self) -> tuple[str, str]:
        """Read the name in `${ }` and a prefix operator before it ("!", "length" or "")."""
        for pattern, op in ((_LENGTH, "length"), (_INDIRECT, "!"), (_PARAMETER, "")):
            found = self.match(pattern)
            if found:
                self.index = found.end()
                return found[found.lastindex or 0], op
        raise self.fail("parameter expansion not understood")

    def brace_argument(self, mode: Mode, op: str) -> Word:
        """Read the word after the operator of `${ }`, up to its closing brace, which is not passed."""
        start, out = self.index, WordBuilder()
        quoted = mode is not Mode.BARE and op not in _PATTERN_OPERATORS
        while True:
            char = self.peek()
            if not char:
                raise self.fail("unterminated ${")
            if char == "}":
                return out.finish(self.source, start, self.index)
            run = self.match(_IN_BRACE)
            if run:
                out.literal(run[0], quoted)
                self.index = run.end()
                self.budget.step()
            elif char in "<>":
                if self.peek(1) == "(":
                    raise self.fail("process substitution in ${ }")
                out.literal(char, quoted)
                self.index += 1
            elif char == "'" and mode is not Mode.BARE:
                raise self.fail("' in quoted ${ }")
            elif char == '"' and mode is Mode.BODY:
                raise self.fail('" in ${ } of a here-document or arithmetic')
            elif char == "\\" and self.peek(1) == "\n":
                raise self.fail("line continuation inside a token")
            elif char == "\\" and mode is not Mode.BARE:
                self.escape_or_expansion(out, mode, '$`"\\}')
            else:
                self.piece(out, mode)

    def subscript(self, mode: Mode, forbidden: str = "") -> tuple[str, list[Part]]:
        """Read `[ ... ]`: the raw text between, and the expansions in it.

        Args:
            mode: how the text around it is quoted.
            forbidden: characters that may not stand in it, because what is outside would end there.
        """
        start, out, depth = self.index + 1, WordBuilder(), 0
        while True:
            char = self.peek()
            if not char or char == "\n":
                raise self.fail("unterminated subscript")
            if char == "\\" or char in forbidden or (char in "'\"" and mode is not Mode.BARE):
                raise self.fail("subscript not understood")
            if char in "<>" and self.peek(1) == "(":
                raise self.fail("process substitution in a subscript")
            if char in "'\"$`":
                self.piece(out, mode)
                continue
            self.budget.step()
            self.index += 1
            depth += (char == "[") - (char == "]")
            if not depth:
                return self.source.slice(start, self.index - 1), out.expansions()
