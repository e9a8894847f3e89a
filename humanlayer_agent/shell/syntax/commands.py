"""Simple commands, operators and newlines: what most of a script is made of.

Reserved words and compound commands, in the forms that `skeleton` lists.

Whole scripts: the lexer that makes a skeleton of each, and has it parsed.
"""

import re

from humanlayer_agent.shell.syntax.cursor import Budget, Source
from humanlayer_agent.shell.syntax.expansions import NAME, Mode
from humanlayer_agent.shell.syntax.heredocs import check_delimiter, read_body
from humanlayer_agent.shell.syntax.skeleton import (
    ArithFor,
    Arm,
    CaseHead,
    Elif,
    Entry,
    FunctionName,
    LoopHead,
    Skeleton,
    build,
)
from humanlayer_agent.shell.syntax.tree import ArithCommand, Assign, Part, Redirect, Script, Simple, Test, Word
from humanlayer_agent.shell.syntax.word_builder import Role, WordBuilder
from humanlayer_agent.shell.syntax.word_reader import WordLexer

_REDIRECTS = ("&>>", "&>", "<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">&", ">|", ">")
_CONTROL = ("&&", "||", "|&", ";;&", ";;", ";&", "&", "|", ";", "(", ")")
_OPERATOR = re.compile("|".join(map(re.escape, sorted((*_REDIRECTS, *_CONTROL), key=len, reverse=True))))
PROCESS = re.compile(r"[<>]\(")
_DESCRIPTOR = re.compile(rf"([0-9]+|\{{{NAME}\}})(?=[<>])")
_ARRAY_DESCRIPTOR = re.compile(rf"\{{{NAME}\[[^\s]*\]\}}[<>]")
_ASSIGNED = re.compile(rf"({NAME})(\+?)=")
_SUBSCRIPTED = re.compile(rf"({NAME})\[")
_ARRAY_ARGUMENT = re.compile(rf"{NAME}\+?=(?=\()")
_AFTER_SUBSCRIPT = re.compile(r"(\+?)=")
_PLAIN_SUBSCRIPT = re.compile(rf"{NAME}\[[^\s\[\]<>|&;()$`'\"\\]*\]")
CALL = re.compile(r"[ \t]*\([ \t]*\)")
_NUMBER = re.compile(rf"[0-9]+|\{{{NAME}\}}")
_DECLARING = frozenset(["declare", "typeset", "local", "export", "readonly"])
_DUPLICATE = ("<&", ">&")
_WORD_END = r"(?=[ \t\n;&|()<>]|\Z)"
_TIME_OPTION = re.compile(rf"(?:-p|--){_WORD_END}")
_IN = re.compile(rf"in{_WORD_END}")
_ESAC = re.compile(rf"esac{_WORD_END}")
_TEST_END = re.compile(rf"\]\]{_WORD_END}")
_TEST_OPERATOR = re.compile(rf"&&|\|\||[()<>]|!{_WORD_END}")


class ScriptReader:
    """Reads one script: its skeleton, the constructs that are open, and what may come next."""

    def __init__(self, lexer: WordLexer, closer: str | None) -> None:
        self.lexer = lexer
        self.closer = closer
        self.out = Skeleton()
        self.open: list[str] = []
        self.elifs: list[int] = []
        self.reserved = True
        """A reserved word is one here."""
        self.assigns = True
        """`a=b` is an assignment here."""
        self.seen: Simple | None = None

    # ---- helpers ------------------------------------------------------------------------------------

    def at(self, index: int) -> int:
        return self.lexer.source.at(index)

    def token(self, token: str, start: int) -> None:
        """Add the token that stands between `start` and the cursor."""
        self.out.token(token, self.at(start), self.at(self.lexer.index))

    def entry(self, entry: Entry, start: int) -> None:
        """Add the W for what stands between `start` and the cursor."""
        self.out.entry(entry, self.at(start), self.at(self.lexer.index))

    def command_position(self) -> None:
        """A command may begin here."""
        self.reserved = self.assigns = True
        self.seen = None

    def push(self, construct: str) -> None:
        self.open.append(construct)
        self.lexer.enter()

    def pop(self, construct: str, what: str) -> None:
        """Close the innermost open construct, which must be `construct`."""
        if not self.open or self.open[-1] != construct:
            raise self.lexer.fail(f"unexpected {what}")
        self.open.pop()
        self.lexer.depth -= 1

    def top(self) -> str:
        return self.open[-1] if self.open else ""

    def witness(self, item: Word | Assign | Redirect) -> None:
        """Note that `item` is part of the simple command that is being read."""
        if self.seen is None:
            self.seen = Simple([], [], [], item.start, item.end)
            self.lexer.witnesses.append(self.seen)
        if isinstance(item, Word):
            self.seen.words.append(item)
        elif isinstance(item, Assign):
            self.seen.assigns.append(item)
        else:
            self.seen.redirects.append(item)
        self.seen.end = item.end

    # ---- the loop -----------------------------------------------------------------------------------

    def read(self) -> Skeleton:
        """Read to the end of the script."""
        lexer = self.lexer
        while True:
            lexer.budget.step()
            if self.top() == "case":
                lexer.blank_lines()
                if lexer.index < lexer.length:
                    self.case_arm()
                    continue
            lexer.blanks()
            if lexer.index >= lexer.length:
                break
            char = lexer.peek()
            if char == "#":
                lexer.comment()
            elif char == "\n":
                self.newline()
            elif lexer.match(PROCESS):
                self.plain_word()
            elif self.redirect() or self.assignment() or self.array_argument():
                continue
            elif not lexer.match(_OPERATOR):
                self.word()
            elif self.operator():
                return self.out
        if self.closer:
            raise lexer.fail("unterminated substitution")
        self.finished()
        return self.out

    def finished(self) -> None:
        """Check that nothing is open at the end of the script."""
        if self.lexer.pending:
            raise self.lexer.fail("unterminated here-document")
        if self.open:
            raise self.lexer.fail(f"unterminated {self.open[-1]}")

    def newline(self) -> None:
        lexer = self.lexer
        self.out.separate(self.at(lexer.index))
        lexer.index += 1
        while lexer.pending:
            redirect = lexer.pending.pop(0)
            redirect.body = read_body(lexer, redirect)
        self.command_position()

    def operator(self) -> bool:
        """Read a control operator; True where it closes the script."""
        lexer, start = self.lexer, self.lexer.index
        found = lexer.match(_OPERATOR)
        op = found[0] if found else ""
        if op == "(" and not self.reserved:
            raise lexer.fail("unexpected (")
        if op == "(" and lexer.looking_at("(("):
            self.arithmetic_command()
            return False
        lexer.index += len(op)
        if op == ")" and self.closer and not self.open:
            self.finished()
            return True
        if op in (";;", ";&", ";;&"):
            self.end_arm(start, op)
        elif op == "(":
            self.push("(")
            self.token(op, start)
        else:
            if op == ")":
                self.pop("(", ")")
            self.token(op, start)
        self.command_position()
        return False

    # ---- redirects and assignments ------------------------------------------------------------------

    def redirect(self) -> bool:
        """Read a redirect, if one stands here."""
        lexer, start = self.lexer, self.lexer.index
        if lexer.match(_ARRAY_DESCRIPTOR):
            raise lexer.fail("array element as a file descriptor")
        descriptor = lexer.match(_DESCRIPTOR)
        fd = descriptor[1] if descriptor else ""
        if fd and PROCESS.match(lexer.text, lexer.index + len(fd)):
            return False  # `2>(cmd)` is a word
        if len(fd) > 9 and fd[0] != "{":
            raise lexer.fail("file descriptor out of range")
        lexer.index += len(fd)
        found = lexer.match(_OPERATOR)
        op = found[0] if found else ""
        if op not in _REDIRECTS or (not fd and lexer.match(PROCESS)):
            lexer.index = start
            return False
        lexer.index += len(op)
        lexer.blanks()
        if op in _DUPLICATE and lexer.peek() == "-":
            # bash ends the token at this `-`: in `>&-rm x` the rest is a command
            lexer.index += 1
            end = lexer.index
            target = Word("-", "-", self.at(end - 1), self.at(end))
        else:
            target = lexer.operand("a redirect")
            number = _NUMBER.fullmatch(target.raw) and not (op in _DUPLICATE and target.raw[0] != "{")
            if number and lexer.peek() in ("<", ">"):
                raise lexer.fail("number as a redirect's target")
        redirect = Redirect(op, fd, target, self.at(start), self.at(lexer.index))
        if op in ("<<", "<<-"):
            if self.open and lexer.substitutions:
                # bash 5.2 runs a substitution from its own print of it, which misplaces such bodies
                raise lexer.fail("here-document in a compound command in a substitution")
            check_delimiter(lexer, target)
            lexer.pending.append(redirect)
        self.out.token(">", redirect.start, redirect.start)
        self.entry(redirect, start)
        self.witness(redirect)
        self.reserved = False
        return True

    def assignment(self) -> bool:
        """Read `name=value`, `name+=value` or `name[index]=value`, if one stands here."""
        lexer, start = self.lexer, self.lexer.index
        if not self.assigns:
            return False
        index: str | None = None
        index_parts: list[Part] = []
        found = lexer.match(_ASSIGNED)
        if found:
            name, plus = found.groups()
            lexer.index = found.end()
        else:
            subscripted = lexer.match(_SUBSCRIPTED)
            if not subscripted:
                return False
            name = subscripted[1]
            plain = lexer.match(_PLAIN_SUBSCRIPT)
            lexer.index = subscripted.end() - 1
            if plain:
                lexer.index = plain.end()
                index = lexer.source.slice(subscripted.end(), plain.end() - 1)
            else:
                index, index_parts = lexer.subscript(Mode.BARE)
            after = lexer.match(_AFTER_SUBSCRIPT)
            if not after:
                if not plain:
                    raise lexer.fail("subscript not understood")
                lexer.index = start
                return False
            plus = after[1]
            lexer.index = after.end()
        value = self.value()
        assign = Assign(name, value, bool(plus), index, self.at(start), self.at(lexer.index), index_parts)
        self.entry(assign, start)
        self.witness(assign)
        self.reserved = False
        return True

    def value(self) -> Word:
        """Read the value of an assignment."""
        lexer = self.lexer
        if lexer.peek() != "(":
            return lexer.word(Role.VALUE)
        start, out = lexer.index, WordBuilder()
        lexer.array(out)
        return out.finish(lexer.source, start, lexer.index, Role.VALUE)

    def array_argument(self) -> bool:
        """Read `name=( ... )` after a command name (`declare a=(1 2)`), if it stands here."""
        lexer, start = self.lexer, self.lexer.index
        found = not self.assigns and lexer.match(_ARRAY_ARGUMENT)
        if not found or not (self.seen and self.seen.words and self.seen.words[0].raw in _DECLARING):
            return False
        out = WordBuilder()
        out.literal(found[0], False)
        lexer.index = found.end()
        lexer.array(out)
        self.argument(out.finish(lexer.source, start, lexer.index), start)
        return True

    # ---- words --------------------------------------------------------------------------------------

    def argument(self, word: Word, start: int) -> None:
        """Add an ordinary word."""
        self.entry(word, start)
        self.witness(word)
        self.reserved = self.assigns = False

    def plain_word(self) -> None:
        start = self.lexer.index
        self.argument(self.lexer.operand("a command"), start)

    def word(self) -> None:
        """Read a word: a reserved word, a function's name, or an ordinary one."""
        lexer, start = self.lexer, self.lexer.index
        word = lexer.operand("a command")
        reserved = self.reserved and not word.quoted and not word.dynamic
        if self.assigns and not self.reserved and self.is_reserved(word.raw):
            # `$(2>&1 ! rm)`: here `!` is a program, but in a substitution bash 5.2 prints the redirect to the end
            # and reads that again
            raise lexer.fail("reserved word as a program's name")
        if reserved and self.reserved_word(word.raw, start):
            return
        call = lexer.match(CALL) if self.reserved else None
        if call:
            lexer.index = call.end()
            self.function(word, start)
        else:
            self.argument(word, start)

    def function(self, name: Word, start: int) -> None:
        """Add `name ( )`."""
        if name.static is None or name.quoted:
            raise self.lexer.fail("function name not understood")
        self.entry(FunctionName(name), start)
        self.token("( )", start)
        self.command_position()

    # ---- reserved words -----------------------------------------------------------------------------

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


class CommandLexer(WordLexer):
    """Reads scripts.

    Args:
        source: the text.
        budget: what may be spent on it.
        witnesses: gets every simple command that is seen, also when the text is refused later.
        depth: how deeply nested the text is.
    """

    def __init__(self, source: Source, budget: Budget, witnesses: list[Simple], depth: int = 0) -> None:
        super().__init__(source, budget, depth)
        self.pending: list[Redirect] = []
        self.witnesses = witnesses

    def nested(self, source: Source) -> "CommandLexer":
        """A lexer for another text inside this one, one level deeper."""
        inner = CommandLexer(source, self.budget, self.witnesses, self.depth)
        inner.substitutions = self.substitutions
        inner.enter()
        return inner

    def script(self, closer: str | None) -> Script:
        """Read commands up to `closer`, which is passed, or to the end of the text."""
        outer, self.pending = self.pending, []
        start = self.index
        skeleton = ScriptReader(self, closer).read()
        end = self.index - len(closer or "")
        self.pending = outer
        return Script(build(skeleton), self.source.at(start), self.source.at(min(end, self.length)))
