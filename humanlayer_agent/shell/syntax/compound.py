"""Reserved words and compound commands, in the forms that `skeleton` lists."""

import re

from humanlayer_agent.shell.syntax.commands import CALL, PROCESS, CommandReader
from humanlayer_agent.shell.syntax.expansions import Mode
from humanlayer_agent.shell.syntax.skeleton import ArithFor, Arm, CaseHead, Elif, Entry, LoopHead
from humanlayer_agent.shell.syntax.tree import ArithCommand, Simple, Test, Word
from humanlayer_agent.shell.syntax.word_builder import Role, WordBuilder

_WORD_END = r"(?=[ \t\n;&|()<>]|\Z)"
_TIME_OPTION = re.compile(rf"(?:-p|--){_WORD_END}")
_IN = re.compile(rf"in{_WORD_END}")
_ESAC = re.compile(rf"esac{_WORD_END}")
_TEST_END = re.compile(rf"\]\]{_WORD_END}")
_TEST_OPERATOR = re.compile(rf"&&|\|\||[()<>]|!{_WORD_END}")


class ScriptReader(CommandReader):
    """Reads a whole script."""

    def is_reserved(self, text: str) -> bool:
        """Whether `text` is a reserved word."""
        return text in _RESERVED

    def reserved_word(self, text: str, start: int) -> bool:
        """Read the construct that the reserved word `text` begins, if it is one; the cursor stands behind it."""
        handler = _RESERVED.get(text)
        if handler is None:
            return False
        handler(self, text, start)
        return True

    # ---- reserved words -----------------------------------------------------------------------------

    def verb(self, text: str, start: int) -> None:
        """A reserved word that bashlex reads as bash does."""
        if text in ("then", "else"):
            self.expect("if", text)
        elif text == "do":
            self.begin_loop_body(text)
        elif text in ("while", "until"):
            self.push("while")
        self.token(text, start)
        self.command_position()

    def expect(self, construct: str, text: str) -> None:
        if self.top() != construct:
            raise self.lexer.fail(f"unexpected {text}")

    def begin_loop_body(self, text: str) -> None:
        """Turn the open loop head into an open body, which ends with `done` or, after `{`, with `}`."""
        if self.top() not in ("while", "for"):
            raise self.lexer.fail(f"unexpected {text}")
        self.open[-1] = "do" if text == "do" else "for {"

    def brace(self, text: str, start: int) -> None:
        if text == "{" and self.top() == "for":
            self.begin_loop_body(text)
            text = "do"
        elif text == "{":
            self.push("{")
        elif self.top() == "for {":
            self.pop("for {", "}")
            text = "done"
        else:
            self.pop("{", "}")
        self.token(text, start)
        self.command_position()

    def done(self, text: str, start: int) -> None:
        self.pop("do", "done")
        self.token(text, start)
        self.command_position()

    def if_(self, text: str, start: int) -> None:
        self.push("if")
        self.elifs.append(0)
        self.token(text, start)
        self.command_position()

    def elif_(self, text: str, start: int) -> None:
        self.expect("if", text)
        self.elifs[-1] += 1
        self.token("else", start)
        self.entry(Elif(), start)
        self.token(";", start)
        self.token("if", start)
        self.command_position()

    def fi(self, text: str, start: int) -> None:
        self.pop("if", "fi")
        self.token(text, start)
        for _ in range(self.elifs.pop()):
            self.token(";", start)
            self.token(text, start)
        self.command_position()

    def negation(self, text: str, start: int) -> None:
        """`!`, which must have a command after it."""
        if self.lexer.peek() == "(":
            raise self.lexer.fail("extended glob, or a negated subshell")
        self.prefix(text)
        self.token(text, start)

    def time(self, text: str, start: int) -> None:
        """`time [-p] [--]`, which changes nothing about what runs; after `|` it is an ordinary command."""
        if self.out.tokens and self.out.tokens[-1] in ("|", "|&"):
            self.lexer.index = start
            self.plain_word()
            return
        self.prefix(text)
        option = self.lexer.match(_TIME_OPTION)
        while option:
            self.lexer.index = option.end()
            self.prefix(text)
            option = self.lexer.match(_TIME_OPTION) if option[0] == "-p" else None

    def prefix(self, text: str) -> None:
        """Check that a command follows on this line."""
        self.lexer.blanks()
        char = self.lexer.peek()
        if not char or (char in "\n;&|)#" and not self.lexer.looking_at("&>")):
            raise self.lexer.fail(f"{text} without a command")
        self.command_position()

    def refused(self, text: str, start: int) -> None:
        raise self.lexer.fail(text)

    def function_keyword(self, text: str, start: int) -> None:
        """`function name` or `function name ()`."""
        lexer = self.lexer
        lexer.blanks()
        start = lexer.index
        name = lexer.operand("a function definition")
        call = lexer.match(CALL)
        if call:
            lexer.index = call.end()
        self.function(name, start)

    # ---- loops --------------------------------------------------------------------------------------

    def loop(self, text: str, start: int) -> None:
        """`for` and `select`, up to their words."""
        lexer = self.lexer
        lexer.blanks()
        self.push("for")
        if lexer.looking_at("(("):
            if text != "for":
                raise lexer.fail("unexpected (")
            self.arithmetic_for(start)
            return
        self.token("for", start)
        start = lexer.index
        self.entry(lexer.operand(text), start)
        lexer.blank_lines()
        listed = lexer.match(_IN)
        if listed:
            lexer.index = listed.end()
        self.token("in", lexer.index)
        self.entry(LoopHead(text, bool(listed)), lexer.index)
        if listed:
            self.reserved = self.assigns = False
            self.seen = Simple([], [], [], 0, 0)  # the words of a loop are no command
            return
        if lexer.peek() == ";":
            lexer.index += 1
        self.token(";", lexer.index)
        self.command_position()

    def arithmetic_for(self, start: int) -> None:
        """`for (( ... ))`, its separator included."""
        lexer = self.lexer
        self.token("while", start)
        start = lexer.index
        self.entry(ArithFor(self.arithmetic_word()), start)
        self.token(";", lexer.index)
        lexer.blanks()
        if lexer.peek() == ";":
            lexer.index += 1
        lexer.blank_lines()
        self.command_position()

    def arithmetic_word(self) -> Word:
        """Read `(( ... ))` as one word."""
        start, out = self.lexer.index, WordBuilder()
        if self.lexer.looking_at("(())"):
            raise self.lexer.fail("empty ((")
        self.lexer.arithmetic(out, 2, ")", Mode.BODY)
        return out.finish(self.lexer.source, start, self.lexer.index, Role.BODY)

    # ---- leaves: (( )) and [[ ]] --------------------------------------------------------------------

    def leaf(self, entry: Entry, start: int) -> None:
        """Add a compound command without commands of its own."""
        self.out.token("{", self.at(start), self.at(start))
        self.entry(entry, start)
        self.out.token(";", self.at(self.lexer.index), self.at(self.lexer.index))
        self.out.token("}", self.at(self.lexer.index), self.at(self.lexer.index))
        self.command_position()

    def arithmetic_command(self) -> None:
        start = self.lexer.index
        word = self.arithmetic_word()
        self.leaf(ArithCommand(word, [], word.start, word.end), start)

    def test(self, text: str, start: int) -> None:
        """`[[ ... ]]`."""
        lexer = self.lexer
        words: list[Word] = []
        while True:
            lexer.blank_lines(comments=False)
            end = lexer.match(_TEST_END)
            if end:
                lexer.index = end.end()
                break
            words.append(self.test_word(words))
        self.leaf(Test(words, [], self.at(start), self.at(lexer.index)), start)

    def test_word(self, words: list[Word]) -> Word:
        """Read one operand or operator of `[[ ]]`; `words` are those before it."""
        lexer, start = self.lexer, self.lexer.index
        before = words[-1].raw if len(words) > 1 else ""
        if before == "=~":
            word = lexer.grouping_word(everywhere=True)
        elif before in ("=", "==", "!="):
            word = lexer.grouping_word(everywhere=False)
        else:
            found = None if lexer.match(PROCESS) else lexer.match(_TEST_OPERATOR)
            if found:
                lexer.index = found.end()
                return Word(found[0], found[0], self.at(start), self.at(lexer.index))
            word = lexer.operand("[[")
        if lexer.index == start:
            raise lexer.fail("no word in [[")
        return word

    # ---- case ---------------------------------------------------------------------------------------

    def case(self, text: str, start: int) -> None:
        """`case subject in`."""
        lexer = self.lexer
        lexer.blanks()
        self.token("{", start)
        head = lexer.index
        subject = lexer.operand(text)
        lexer.blank_lines()
        found = lexer.match(_IN)
        if not found:
            raise lexer.fail("case without in")
        lexer.index = found.end()
        self.entry(CaseHead(subject), head)
        self.token(";", lexer.index)
        self.push("case")

    def case_arm(self) -> None:
        """The patterns of the next arm, or `esac`."""
        lexer = self.lexer
        esac = lexer.match(_ESAC)
        if esac:
            start, lexer.index = lexer.index, esac.end()
            self.end_case(start)
            return
        start = lexer.index
        if lexer.peek() == "(":
            lexer.index += 1
        patterns: list[Word] = []
        while True:
            lexer.blanks()
            patterns.append(lexer.operand("a case pattern"))
            lexer.blanks()
            closing = lexer.peek()
            if closing not in ("|", ")"):
                raise lexer.fail("case pattern not understood")
            lexer.index += 1
            if closing == ")":
                break
        self.token("{", start)
        self.entry(Arm(patterns), start)
        self.token(";", lexer.index)
        self.push("arm")
        self.command_position()

    def end_arm(self, start: int, op: str) -> None:
        """`;;`, `;&` or `;;&`."""
        self.pop("arm", op)
        self.out.separate(self.at(start))
        self.token("}", start)
        self.token(";", start)

    def esac(self, text: str, start: int) -> None:
        """`esac` right after the commands of an arm."""
        self.end_arm(start, text)
        self.end_case(start)

    def end_case(self, start: int) -> None:
        self.pop("case", "esac")
        self.token("}", start)
        self.command_position()


_RESERVED = {
    **dict.fromkeys(("then", "else", "do", "while", "until"), ScriptReader.verb),
    **dict.fromkeys(("{", "}"), ScriptReader.brace),
    "done": ScriptReader.done,
    "if": ScriptReader.if_,
    "elif": ScriptReader.elif_,
    "fi": ScriptReader.fi,
    "for": ScriptReader.loop,
    "select": ScriptReader.loop,
    "case": ScriptReader.case,
    "esac": ScriptReader.esac,
    "[[": ScriptReader.test,
    "!": ScriptReader.negation,
    "time": ScriptReader.time,
    "function": ScriptReader.function_keyword,
    "coproc": ScriptReader.refused,
}
