"""Whole words: ordinary ones, the elements of arrays, the patterns of `[[ ]]`.

`WordLexer` knows everything that may stand inside one word. What stands between words is the business of
`commands.CommandLexer`, which also reads the scripts inside substitutions.
"""

import re

from humanlayer_agent.shell.syntax.expansions import NAME, ExpansionLexer, Mode
from humanlayer_agent.shell.syntax.tree import ArrayLit, Word
from humanlayer_agent.shell.syntax.word_builder import Role, WordBuilder

META = " \t\n;&|()<>"
"""What ends an unquoted word."""

_BARE = re.compile(r"[^ \t\n;&|()<>'\"\\$`]+")
_PROCESS = re.compile(r"[<>]\(")
_ELEMENT_SUBSCRIPT = re.compile(rf"""\[(?:[^\s\[\]<>|&;()$`'"\\]+|\${NAME}|'[^']*'|"[^"$`\\]*")\]""")
_EXTENDED_GLOB = re.compile(r"[?*+@!]\(")


class WordLexer(ExpansionLexer):
    """A cursor that reads words."""

    # ---- whole words --------------------------------------------------------------------------------

    def word(self, role: Role = Role.WORD) -> Word:
        """Read one word; it is empty (start == end) where none stands here."""
        start, out = self.index, WordBuilder()
        self.bare(out)
        self.budget.word()
        return out.finish(self.source, start, self.index, role)

    def operand(self, what: str) -> Word:
        """Read a word that must be there.

        Raises:
            Unparsed: an operator, a comment or the end stands here instead.
        """
        start = self.index
        if self.peek() == "#":
            raise self.fail(f"no word in {what}")
        word = self.word()
        if self.index == start:
            raise self.fail(f"no word in {what}")
        return word

    def bare(self, out: WordBuilder) -> None:
        """Read the pieces of an unquoted word up to what ends it."""
        while self.index < self.length:
            run = self.match(_BARE)
            if run:
                out.literal(run[0], False)
                self.index = run.end()
                self.budget.step()
            elif self.peek() in "<>" and self.peek(1) == "(":
                self.process_substitution(out)
            elif self.peek() in META or (self.looking_at("\\\n") and self.peek(2) in " \t\n"):
                return
            else:
                self.piece(out, Mode.BARE)

    # ---- arrays and [[ ]] ---------------------------------------------------------------------------

    def blank_lines(self, comments: bool = True) -> None:
        """Pass blanks, newlines and comments, where bash allows a newline inside a construct.

        Raises:
            Unparsed: a here-document waits for its body at that newline.
        """
        start = self.index
        while True:
            self.blanks()
            if self.peek() == "\n":
                self.index += 1
            elif comments and self.peek() == "#":
                self.comment()
            else:
                break
        self.crossed(start, "construct")

    def array(self, out: WordBuilder) -> None:
        """Read `( ... )` after `name=`."""
        words: list[Word] = []
        self.index += 1
        while True:
            self.blank_lines()
            if self.peek() == ")":
                self.index += 1
                self.check_end()
                out.part(ArrayLit(words))
                return
            start = self.index
            if self.peek() == "[" and not self.match(_ELEMENT_SUBSCRIPT):
                raise self.fail("subscript in an array not understood")
            words.append(self.operand("an array"))
            if self.substitutions and "\\" in self.text[start : self.index]:
                # bash 5.2 loses such a backslash: `$(v=(\;))` is a syntax error
                raise self.fail("backslash in an array in a substitution")

    def check_end(self) -> None:
        """Refuse text right after an array: in `a=(b)c d` bash takes `(b)c` for a plain value, and runs `d`.

        Raises:
            Unparsed: there is some.
        """
        after = self.peek()
        if after and (after not in META or after == "(" or self.match(_PROCESS)):
            raise self.fail("text right after an array")

    def grouping_word(self, everywhere: bool) -> Word:
        """Read a word of `[[ ]]` that may contain groups in parentheses.

        Args:
            everywhere: it is a regular expression, where each `(` groups and `|` is plain; else an extended
                glob, where only `@(`, `!(`, `?(`, `*(` and `+(` do.
        """
        start, out, depth = self.index, WordBuilder(), 0
        plain = "(|" if everywhere else ""
        if self.peek() == "#":
            raise self.fail("no word in [[")
        while self.index < self.length:
            char = self.peek()
            if not depth and char in META and char not in plain:
                break
            if char == "\n" or (char == "\\" and self.peek(1) == "\n"):
                raise self.fail("newline in a pattern of [[")
            if char in "<>" and self.peek(1) == "(":
                raise self.fail("process substitution in a pattern of [[")
            if not depth and not everywhere and self.match(_EXTENDED_GLOB):
                out.literal(self.text[self.index : self.index + 2], False)
                self.index += 2
                depth = 1
            elif char in "'\"\\$`":
                if depth and (char == "`" or (char == "$" and self.peek(1) in ("(", "{", "["))):
                    # bash finds the closing parenthesis without reading what these contain
                    raise self.fail("substitution in a group of [[")
                self.piece(out, Mode.BARE)
            else:
                self.budget.step()
                out.literal(char, False)
                self.index += 1
                depth += (char == "(") - (char == ")")
        if depth:
            raise self.fail("unterminated ( in [[")
        self.budget.word()
        return out.finish(self.source, start, self.index)
