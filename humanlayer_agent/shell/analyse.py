"""From syntax tree to Program: which commands can run, in which directory, and what each does.

`analyse` walks the tree the way bash would run it. What it knows of the shell (directory, variables, functions)
flows through a State; where two ways meet, the States are joined. Every limit ends in "partial", never in silence.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace

from humanlayer_agent.shell import builtins, invoke, redirects
from humanlayer_agent.shell.assigned import assigned_names
from humanlayer_agent.shell.links import doubt_links
from humanlayer_agent.shell.parse import Parse, parse
from humanlayer_agent.shell.program import Program, SimpleCommand
from humanlayer_agent.shell.state import MAX_CHOICES, State, Value, join
from humanlayer_agent.shell.syntax import (
    Arith,
    ArithCommand,
    Case,
    Function,
    Group,
    If,
    Loop,
    Node,
    Param,
    Part,
    Pipeline,
    ProcSub,
    Redirect,
    Script,
    Sequence,
    Simple,
    Sub,
    Test,
    Word,
)
from humanlayer_agent.shell.words import Field, expand, literal_values

MAX_DEPTH = 24
MAX_COMMANDS = 2_000

Ends = tuple[State | None, State | None]
"""The states after a command that succeeded and after one that failed; None where it can't end so."""


@dataclass(frozen=True, slots=True)
class Stdin:
    """Where a command's standard input comes from: nothing special, a pipe, or a text (None: not known)."""

    kind: str = "inherit"
    text: str | None = None
    offset: int = 0
    producer: "tuple[SimpleCommand, ...]" = ()


@dataclass(frozen=True, slots=True)
class Context:
    """Where the walk stands: constructs around it, wrappers, nesting, standard input."""

    inside: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    depth: int = 0
    stdin: Stdin = Stdin()
    calls: tuple[str, ...] = ()

    def within(self, construct: str) -> "Context":
        return replace(self, inside=(*self.inside, construct), stdin=Stdin())

    def deeper(self, **changes: object) -> "Context":
        return replace(self, depth=self.depth + 1, **changes)  # type: ignore[arg-type]


def analyse(
    text: str,
    *,
    cwd: str,
    environ: Mapping[str, str] | None = None,
    closed: bool = False,
) -> Program:
    """What running `text` with bash in `cwd` would do.

    Args:
        text: the command line.
        cwd: the absolute directory it starts in.
        environ: variables the command is started with.
        closed: `environ` is complete, so every other variable is unset.

    Example:
        >>> [c.program for c in analyse("ls | head", cwd="/srv").commands]
        ['ls', 'head']
    """
    parsed = parse(text)
    start = State((logical_start(cwd),), dict(environ or {}), closed)
    walk = Walk(text)
    walk.root(parsed, start)
    doubt_links(walk.program)
    return walk.program


def logical_start(cwd: str) -> str:
    return posixpath.normpath(cwd) if cwd.startswith("/") else "/"


class Walk:
    """One analysis: collects the commands of `program` while it follows the tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.program = Program([])
        self.functions_called: set[int] = set()
        self.functions_defined: dict[int, Function] = {}
        self.frozen_span: tuple[int, int] | None = None

    # ---- entry points -------------------------------------------------------------------------------

    def root(self, parsed: Parse, state: State) -> None:
        self.program.status = parsed.status
        self.program.reasons = list(parsed.reasons)
        try:
            if parsed.script is not None:
                self.script(parsed.script, state, Context())
                self.uncalled(state)
            for simple in parsed.witnesses:
                self.simple(simple, state.copy(), Context(inside=("witness",)))
        except RecursionError:
            self.program.doubt("nested too deep")

    def uncalled(self, state: State) -> None:
        """Functions that nothing here calls by name may still be called: by bash itself, a trap, a child shell."""
        for key, function in list(self.functions_defined.items()):
            if key not in self.functions_called:
                unknown = state.copy()
                unknown.forget(None)
                self.functions_called.add(key)
                self.node(function.body, unknown, Context(inside=("function",)))

    def script(self, script: Script, state: State, context: Context) -> Ends:
        if context.depth > MAX_DEPTH:
            self.program.doubt("nested too deep")
            return state, state
        return (state, state) if script.body is None else self.node(script.body, state, context)

    def source(self, text: str, word: Field, state: State, context: Context, construct: str) -> Ends:
        """Analyse `text` (the value of `word`) as a script of its own: `bash -c`, eval, trap, a fed shell."""
        if context.depth > MAX_DEPTH or len(self.program.commands) > MAX_COMMANDS:
            self.program.doubt("nested too deep")
            return state, state
        parsed = parse(text)
        if parsed.status != "ok":
            self.program.doubt(f"{construct}: {'; '.join(parsed.reasons)}")
        outer, span = self.text, self.frozen_span
        self.text = text
        self.frozen_span = span or (word.start, word.end)
        inner = replace(context, depth=context.depth + 1, inside=(*context.inside, construct))
        try:
            ends: Ends = (state, state)
            if parsed.script is not None:
                ends = self.script(parsed.script, state, inner)
            for simple in parsed.witnesses:
                self.simple(simple, state.copy(), inner)
        finally:
            self.text, self.frozen_span = outer, span
        return ends

    def span(self, start: int, end: int) -> tuple[int, int]:
        """[start, end) in the action's own text: inside a nested text, the span of the word that held it."""
        return self.frozen_span or (start, end)

    def quote(self, start: int, end: int) -> str:
        return self.text[start:end]

    # ---- nodes --------------------------------------------------------------------------------------

    def node(self, node: Node, state: State, context: Context) -> Ends:
        """Follow one node from `state`; returns the states after its success and its failure."""
        match node:
            case Simple():
                return self.simple(node, state, context)
            case Sequence():
                return self.sequence(node, state, context)
            case Pipeline():
                return self.pipeline(node, state, context)
            case Group():
                inner = state.copy() if node.subshell else state
                redirected = self.redirected(node.redirects, state, context)
                ends = self.node(node.body, inner, redirected)
                return (state, state) if node.subshell else ends
            case If():
                return self.conditional(node, state, context)
            case Loop():
                return self.loop(node, state, context)
            case Case():
                return self.case(node, state, context)
            case Function():
                return self.define(node, state, context)
            case Test() | ArithCommand():
                return self.expression(node, state, context)

    def sequence(self, node: Sequence, state: State, context: Context) -> Ends:
        """A list of and-or lists; one that ends in `&` runs beside, in a shell of its own."""
        ends: Ends = (state, None)
        current: State | None = state
        for chain, terminator in _and_or_lists(node):
            entry = current or _lost(state)
            if terminator == "&":
                self.chain(chain, entry.copy(), context.within("background"))
                ends = (entry, None)
            else:
                ends = self.chain(chain, entry, context)
            # After `exit` nothing runs, but it is listed all the same.
            current = join(*ends) if current is not None else None
        return ends if current is not None else (None, None)

    def chain(self, chain: list[tuple[str, Node]], state: State, context: Context) -> Ends:
        """`a && b || c`: each part starts from the success or the failure of what stands before it."""
        success, failure = self.node(chain[0][1], state, context)
        for op, part in chain[1:]:
            entry = success if op == "&&" else failure
            won, lost = self.node(part, entry or _lost(state), context)
            if entry is None:
                continue
            if op == "&&":
                success, failure = won, join(failure, lost)
            else:
                success, failure = join(success, won), lost
        return success, failure

    def pipeline(self, node: Pipeline, state: State, context: Context) -> Ends:
        """Each part runs in a subshell of its own; the output of one is the input of the next."""
        stdin = context.stdin
        for part in node.parts:
            before = len(self.program.commands)
            self.node(part, state.copy(), replace(context, stdin=stdin))
            stdin = Stdin("pipe", producer=tuple(self.program.commands[before:]))
        return state, state

    def conditional(self, node: If, state: State, context: Context) -> Ends:
        after: State | None = None
        entry: State | None = state
        for condition, body in node.branches:
            inner = self.redirected(node.redirects, entry or state, context)
            won, lost = self.node(condition, entry or _lost(state), replace(inner, inside=(*inner.inside, "condition")))
            after = join(after, join(*self.node(body, won or _lost(state), inner)))
            entry = lost
        if node.orelse is not None:
            inner = self.redirected(node.redirects, entry or state, context)
            after = join(after, join(*self.node(node.orelse, entry or _lost(state), inner)))
        else:
            after = join(after, entry)
        return after, after

    def loop(self, node: Loop, state: State, context: Context) -> Ends:
        """The body may run any number of times: what it assigns is unknown at its start."""
        redirected = self.redirected(node.redirects, state, context)
        inner = replace(redirected, inside=(*redirected.inside, "loop"))
        values: Value = None
        if node.words is not None:
            fields = [f for w in node.words for f in self.expand(w, state, context)]
            values = _loop_values(fields)
        if node.head is not None:
            self.nested(node.head, state, context)
        entry = state.copy()
        names, moves = assigned_names(node)
        entry.forget(names)
        if moves:
            entry.cwd = None
        if node.name is not None and node.name.text is not None:
            entry.assign(node.name.text, values)
        won: State | None = entry
        if node.condition is not None:
            won, _ = self.node(node.condition, entry, replace(inner, inside=(*inner.inside, "condition")))
        after = join(*self.node(node.body, (won or _lost(state)).copy(), inner))
        out = join(join(state, entry), after)
        return out, out

    def case(self, node: Case, state: State, context: Context) -> Ends:
        self.nested(node.subject, state, context)
        inner = self.redirected(node.redirects, state, context)
        after: State | None = state
        for arm in node.arms:
            for pattern in arm.patterns:
                self.nested(pattern, state, context)
            if arm.body is not None:
                # `;&` falls through: the arms before may have run.
                after = join(after, join(*self.node(arm.body, (after or state).copy(), inner)))
        return after, after

    def define(self, node: Function, state: State, context: Context) -> Ends:
        name = node.name.text
        if name is None:
            self.program.doubt("function with a name that is not known")
            return state, state
        out = state.copy()
        out.functions[name] = (node,)
        self.functions_defined[id(node)] = node
        return out, out

    def expression(self, node: Test | ArithCommand, state: State, context: Context) -> Ends:
        """`[[ ]]` and `(( ))`: their substitutions run, and arithmetic evaluates strings as code."""
        words = node.words if isinstance(node, Test) else [node.word]
        out = state.copy()
        for word in words:
            self.nested(word, state, context)
        names, _ = assigned_names(node)
        out.forget(names)
        command = SimpleCommand(
            "[[" if isinstance(node, Test) else "((",
            [self.quote(node.start, node.end)],
            self.span(node.start, node.end),
            self.quote(node.start, node.end),
            context.via,
            context.inside,
            state.cwd,
        )
        builtins.arithmetic(self, command, words, isinstance(node, ArithCommand))
        redirects.add(self, command, node.redirects, state, context)
        self.program.commands.append(command)
        return out, out

    def redirected(self, redirections: list[Redirect], state: State, context: Context) -> Context:
        """The effects of a compound command's redirects, as a command of their own; and the input they give it."""
        if not redirections:
            return context
        start, end = redirections[0].start, redirections[-1].end
        command = SimpleCommand(
            "", [], self.span(start, end), self.quote(start, end), context.via, context.inside, state.cwd
        )
        redirects.add(self, command, redirections, state, context)
        self.program.commands.append(command)
        return replace(context, stdin=redirects.stdin_of(self, redirections, state, context))

    # ---- simple commands ----------------------------------------------------------------------------

    def simple(self, node: Simple, state: State, context: Context) -> Ends:
        """Expand the words, then hand them to what they name: a function, a builtin, or a program."""
        if len(self.program.commands) > MAX_COMMANDS:
            self.program.doubt("too many commands")
            return state, state
        for assign in node.assigns:
            self.nested(assign.value, state, context)
            self.nested_parts(assign.index_parts, state, context)
        fields = [f for word in node.words for f in self.expand(word, state, context)]
        stdin = redirects.stdin_of(self, node.redirects, state, context)
        inner = replace(context, stdin=stdin)
        if not node.words:
            return self.assignments_only(node, state, inner)
        if not fields:
            # `$X` that is empty: the assignments are persistent then, and nothing runs.
            return self.assignments_only(node, state, inner)
        scoped = state
        if node.assigns:
            scoped = state.copy()
            builtins.assign(self, node.assigns, scoped, exported=True)
        span, text = self.span(node.start, node.end), self.quote(node.start, node.end)
        first = len(self.program.commands)
        ends = invoke.run(self, fields, scoped, inner, span, text)
        command = self.program.commands[first] if first < len(self.program.commands) else None
        if command is None:
            command = SimpleCommand(fields[0].text, [f.shown for f in fields], span, text, context.via, context.inside, state.cwd)
            self.program.commands.append(command)
        builtins.assignment_effects(self, command, node.assigns, state)
        redirects.add(self, command, node.redirects, state, context)
        if node.assigns:
            ends = tuple(_without_prefix(e, state, node) for e in ends)  # type: ignore[assignment]
        return ends

    def assignments_only(self, node: Simple, state: State, context: Context) -> Ends:
        out = state.copy()
        builtins.assign(self, node.assigns, out, exported=False)
        command = SimpleCommand(
            "", [], self.span(node.start, node.end), self.quote(node.start, node.end), context.via, context.inside, state.cwd
        )
        builtins.assignment_effects(self, command, node.assigns, state)
        redirects.add(self, command, node.redirects, state, context)
        self.program.commands.append(command)
        return out, out

    # ---- words --------------------------------------------------------------------------------------

    def expand(self, word: Word, state: State, context: Context) -> list[Field]:
        """The fields of `word`; what it runs on the way (substitutions) is analysed as well."""
        if word.dynamic:
            self.nested(word, state, context)
        return expand(word, state)

    def nested(self, word: Word, state: State, context: Context) -> None:
        self.nested_parts(word.parts, state, context)

    def nested_parts(self, parts: list[Part], state: State, context: Context) -> None:
        """Analyse every script inside `parts`, and note assignments that an expansion makes."""
        for part in parts:
            match part:
                case Sub():
                    self.script(part.script, state.copy(), context.within("substitution").deeper())
                case ProcSub():
                    self.script(part.script, state.copy(), context.within("process-substitution").deeper())
                case Param():
                    builtins.expansion(self, part, state)
                    if part.arg is not None:
                        self.nested(part.arg, state, context)
                case Arith():
                    self.nested_parts(part.parts, state, context)
                    builtins.arithmetic_text(self, part, state)
                case _:
                    for word in getattr(part, "words", ()):
                        self.nested(word, state, context)

    def text_of(self, word: Word, state: State) -> str | None:
        """The one text `word` stands for where nothing splits, or None."""
        values = literal_values(word, state)
        return values[0] if values is not None and len(values) == 1 else None


def _lost(state: State) -> State:
    """A state for code that nothing seems to reach: nothing is known there."""
    out = state.copy()
    out.cwd = None
    return out


def _and_or_lists(node: Sequence) -> list[tuple[list[tuple[str, Node]], str]]:
    """The and-or lists of `node`, each as (operator before it, part) pairs, with what ends it: `;` or `&`."""
    out: list[tuple[list[tuple[str, Node]], str]] = []
    chain: list[tuple[str, Node]] = []
    before = ""
    for n, part in enumerate(node.parts):
        chain.append((before, part))
        before = node.ops[n] if n < len(node.ops) else ";"
        if before not in ("&&", "||"):
            out.append((chain, before))
            chain = []
    if chain:
        out.append((chain, ";"))
    return out


def _loop_values(fields: list[Field]) -> Value:
    values: list[str] = []
    for f in fields:
        if f.text is not None:
            values.append(f.text)
        elif f.choices:
            values += f.choices
        else:
            return None
    unique = tuple(dict.fromkeys(values))
    return unique if 0 < len(unique) <= MAX_CHOICES else None


def _without_prefix(end: State | None, before: State, node: Simple) -> State | None:
    """`x=1 cmd` gives x to cmd only: afterwards it has the value it had."""
    if end is None:
        return None
    out = end.copy()
    for assign in node.assigns:
        if assign.name in before.variables:
            out.variables[assign.name] = before.variables[assign.name]
        else:
            out.variables.pop(assign.name, None)
    out.default_ifs = before.default_ifs
    return out
