"""From syntax tree to Program: which commands can run, in which directory, and what each does.

`analyse` walks the tree the way bash would run it. What it knows of the shell (directory, variables, functions)
flows through a State; where two ways meet, the States are joined. Every limit ends in "partial", never in silence.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter import literal_command as plain
from humanlayer_agent.shell.interpreter.code_cache import Remembered
from humanlayer_agent.shell.interpreter.context import MAX_DEPTH, MAX_FOLLOWED, Context, Ends, Stdin
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import CHARACTER, COMMAND, READONLY, State, Value, join
from humanlayer_agent.shell.paths import logical
from humanlayer_agent.shell.program import Program, SimpleCommand
from humanlayer_agent.shell.programs.catalog import SHIPPED, Catalog
from humanlayer_agent.shell.programs.special.git import note_attributes, note_elsewhere, note_settings
from humanlayer_agent.shell.reader import Reader
from humanlayer_agent.shell.script_files import implicit_imports
from humanlayer_agent.shell.script_files.git_hooks import note_hooks
from humanlayer_agent.shell.script_files.link_creation import (
    brought_by_git,
    doubt_links,
    note_brought_along,
    note_followed,
    note_hard_links,
    note_written_through,
)
from humanlayer_agent.shell.syntax.parse import Parse, parse
from humanlayer_agent.shell.syntax.tree import (
    ArithCommand,
    Case,
    Function,
    Group,
    If,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Script,
    Sequence,
    Simple,
    Test,
    words_of,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages import Behaviour, Found, Text
    from humanlayer_agent.shell.script_files.scripts import Scripts

_READ_AGAIN = 10
"""What it costs to read a text within a text (`bash -c`, eval), for each of its code points."""
_REFUSED = 100
"""What it costs besides where it is refused: then it is looked for commands in other ways."""
_OUTERMOST = Context()
_FED = frozenset({"heredoc", "here-string", "pipe", "file", "script"})
_KEPT = frozenset({"python", "javascript", "typescript"})
"""Languages whose readers look at nothing but the text, its path and its words."""
_NEVER_DEFINED = frozenset({"command_not_found_handle"})


def analyse(
    text: str,
    *,
    cwd: str,
    environ: Mapping[str, str] | None = None,
    closed: bool = False,
    reader: Reader | None = None,
    memory: Remembered | None = None,
    catalog: Catalog = SHIPPED,
) -> Program:
    """Return what running `text` with bash in `cwd` would do. Never raises; its work is bounded.

    Args:
        text: the command line.
        cwd: the absolute directory it starts in, without symbolic links (`cd ..` goes by name).
        environ: variables the command is started with.
        closed: `environ` is complete, so every other variable is unset.
        reader: gives the files that the action runs; without one they stay unread.
        memory: what code was found to do when it was read before; it changes no answer.
        catalog: what is known of programs.

    Example:
        >>> [c.program for c in analyse("ls | head", cwd="/srv").commands]
        ['ls', 'head']
        >>> [(e.kind, e.operand) for e in analyse("rm -r old", cwd="/srv").commands[0].effects]
        [('delete', '/srv/old')]
        >>> analyse("echo 'abc", cwd="/srv").status
        'failed'
    """
    place = logical(cwd, "/") if cwd.startswith("/") else "/"
    start = State((place,), dict(environ or {}), closed, fresh=True)
    walk = Interpreter(text, start, reader, memory, catalog)
    walk.root(parse(text))
    note_hard_links(walk.program)
    brought = brought_by_git(walk.program, reader)
    doubt_links(walk.program, reader, brought)
    note_followed(walk.program, reader)
    note_brought_along(walk.program, reader)
    note_written_through(walk.program, reader)
    note_elsewhere(walk.program.commands, place)
    note_settings(walk.program, reader, brought)
    if "scripts" in vars(walk):  # they hold each other: what is left would wait for the garbage collector
        vars(vars(walk).pop("scripts")).clear()
    return walk.program


class Interpreter:
    """One analysis: collects the commands of `program` while it follows the tree."""

    frozen_span: tuple[int, int] | None = None
    fails_on_globs = False
    unit: Node | None = None
    """The list of the text being read, whose lines bash reads one by one."""
    beside: tuple[str, ...] | None = ()
    """The names of files that are written at the same time, by later parts of a pipeline; None where these may do
    more."""
    goes_on = False
    """Whether something comes after the list that is being followed, however that ends."""
    may_be_read_only = False
    """Whether a variable of the shell's own may have been marked, so that it can't be set any more."""
    lists = 0
    """How often the disk was asked which names wildcards stand for, or whether a folder is there."""
    aborted: State | None = None
    """Where an error may have ended the current line: bash goes on with the next one."""

    def __init__(
        self,
        text: str,
        start: State,
        reader: Reader | None = None,
        memory: Remembered | None = None,
        catalog: Catalog = SHIPPED,
    ) -> None:
        self.text = text
        self.start, self.environ, self.work = start, start.environ, start.work
        self.program = Program([])
        self.reader = reader
        self.memory = memory
        self.catalog = catalog
        self.frames: list[builtins.Frame] = []
        self.rounds = MAX_FOLLOWED
        """How many rounds of loops may still be followed one by one."""
        self.functions_called: set[int] = set()
        self.functions_defined: dict[int, Function] = {}
        self.heard: list[str] = []
        """Texts that `exec` has put on descriptors: what reads one from then on may read these."""
        self.expanded: list[tuple[str | None, str]] = []
        """Variables from outside whose values are used, each with the expansion: what the next command is given."""

    @cached_property
    def scripts(self) -> "Scripts":
        """The files that are run or written: most actions have none."""
        from humanlayer_agent.shell.script_files.scripts import Scripts

        return Scripts(self, self.reader)

    # ---- entry points -------------------------------------------------------------------------------

    def root(self, parsed: Parse) -> None:
        """Analyse a whole action."""
        state = self.start
        state.work.spend(CHARACTER * len(self.text))
        self.program.status = parsed.status
        self.program.reasons = list(parsed.reasons)
        try:
            if parsed.script is not None:
                self.script(parsed.script, state, _OUTERMOST)
                if state.work.wondered:
                    self.script(parsed.script, state.assumed(), Context(inside=("usually",)))
                self.uncalled(state)
            if parsed.guess is not None or parsed.witnesses:
                self.witnesses(parsed, state, Context(inside=("witness",)))
            note_hooks(self.program, self.reader)
            if "scripts" in self.__dict__ or (self.reader is not None and implicit_imports.loads(self.program)):
                while self.scripts.finish():
                    self.uncalled(state)
                self.scripts.doubt_changed()
                self.scripts.name_builds()
                self.program.written = self.scripts.written
            known = self.scripts.written.effects if "scripts" in self.__dict__ else ()
            implicit_imports.doubt(self.program, known)
            note_attributes(self.program, known)
        except RecursionError:
            self.program.doubt("nested too deep")
        except Exception as error:  # a fault of ours must end as a question to a human, never as a crash or an allow
            self.program.doubt(f"internal error: {type(error).__name__}")
        if state.work.left <= 0:
            self.program.doubt("too much work")

    def witnesses(self, parsed: Parse, state: State, context: Context) -> None:
        """Analyse what was seen of a text that was refused."""
        if parsed.guess is not None:
            self.script(parsed.guess, state.copy(), context)
        for simple in parsed.witnesses:
            self.simple(simple, state.copy(), context)

    def uncalled(self, state: State) -> None:
        """Functions that nothing here calls by name may still be called: by bash itself, a trap, a child shell."""
        if not self.functions_defined:
            return
        while waiting := [f for key, f in self.functions_defined.items() if key not in self.functions_called]:
            unknown = state.lost()
            for function in self.functions_defined.values():
                unknown.define(function.name.text or "", function, certain=False)
            for function in waiting:
                self.functions_called.add(id(function))
                inner = self.redirected(function.redirects, unknown, Context(inside=("function",)))
                self.frames.append(builtins.Frame())
                self.node(function.body, unknown.copy(), inner)
                self.frames.pop()

    def script(self, script: Script, state: State, context: Context) -> Ends:
        """Follow a whole script."""
        if context.depth > MAX_DEPTH:
            self.program.doubt("nested too deep")
            return state, state
        if script.body is None:
            return state, state
        unit, aborted = self.unit, self.aborted
        self.unit, self.aborted = script.body, None
        ends = self.node(script.body, state, context)
        if self.aborted is not None:
            # What ended the last line ends the script, but not what runs after it.
            ends = ends[0], join(ends[1], self.aborted)
        self.unit, self.aborted = unit, aborted
        return ends

    def source(self, text: str, word: Field, state: State, context: Context, construct: str) -> Ends:
        """Analyse `text` (the value of `word`) as a script of its own: `bash -c`, eval, trap, a fed shell."""
        if context.depth > MAX_DEPTH or not state.work.spend(_READ_AGAIN * len(text)):
            self.program.doubt("nested too deep")
            return state.lost(), state.lost()
        from humanlayer_agent.shell.syntax import dialects

        parsed = parse(text)
        if parsed.status != "ok":
            self.program.doubt(f"{construct}: {'; '.join(parsed.reasons)}")
            state.work.spend(_REFUSED * len(text))
        if parsed.script is not None and not dialects.read_by_bash(context.via):
            why = dialects.unportable(parsed.script)
            if why is not None:
                self.program.doubt(f"{context.via[-1]} may not read this as bash does: {why}")
        outer, span = self.text, self.frozen_span
        self.text = text
        self.frozen_span = span or (word.start, word.end)
        fed = construct in _FED and (not context.via or context.via[-1] not in ("trap", "eval"))
        stdin = Stdin("script") if fed else context.stdin.shared()
        inner = replace(
            context, depth=context.depth + 1, inside=(*context.inside, construct), stdin=stdin, descriptors=()
        )
        try:
            ends: Ends = (state.lost(), state.lost())
            if parsed.script is not None:
                ends = self.script(parsed.script, state.copy(), inner)
            self.witnesses(parsed, state, inner)
        finally:
            self.text, self.frozen_span = outer, span
        return ends

    def span(self, start: int, end: int) -> tuple[int, int]:
        """[start, end) in the action's own text: inside a nested text, the span of the word that held it."""
        return self.frozen_span or (start, end)

    def quote(self, start: int, end: int) -> str:
        """The source text between two offsets."""
        return self.text[start:end]

    def plain(self, start: int, end: int, state: State, context: Context, program: str = "") -> SimpleCommand:
        """A command for something that is not a program: assignments, redirects of a loop, `[[ ]]`."""
        text = self.quote(start, end)
        argv = [text] if program else []
        return SimpleCommand(program, argv, self.span(start, end), text, context.via, context.inside, state.cwd)

    def code(
        self,
        language: str,
        text: str,
        *,
        argv: "list[Text] | None" = None,
        path: str | None = None,
        files: "Callable[[str], Found] | None" = None,
    ) -> "Behaviour | None":
        """See `languages.read`. What is more than may still be read is opaque."""
        from humanlayer_agent.shell import languages
        from humanlayer_agent.shell.languages.behaviour import too_much

        if not self.work.admit(len(text)):
            return too_much()
        memory = self.memory if language in _KEPT else None
        place = path, None if argv is None else tuple(argv)
        found = memory.code(language, text, place) if memory is not None else None
        if found is None or found.steps > self.work.steps:  # what is remembered costs what reading it did
            found = languages.read(language, text, argv=argv, path=path, files=files, steps=self.work.steps)
            if memory is not None and found is not None:
                memory.put_code(language, text, place, found)
        if found is not None:
            self.work.admit(0, min(found.steps, self.work.steps))
        return found

    # ---- what happens on the way ----------------------------------------------------------------------

    def may_abort(self, state: State) -> None:
        """Something here may end in an error, with which bash drops the rest of the line."""
        self.aborted = join(self.aborted, state.copy())

    def local(self, program: str, letters: str, name: str) -> bool | None:
        """`program` declares `name`: inside a function it has that value only until the function returns.

        Returns True where that makes a new variable; None where another way through the function has made one, so that
        it may be there on this way too.
        """
        if self.frames and (program == "local" or (program in ("declare", "typeset") and "g" not in letters)):
            names = self.frames[-1].locals
            new = name not in names
            names.add(name)
            return new or None
        return False

    def implicit(
        self, name: str, value: Value, state: State, context: Context, written: str, *, number: bool = False
    ) -> None:
        """`name` is set by something that is no command: a loop, an expansion, arithmetic."""
        from humanlayer_agent.shell.environment import code_variables
        from humanlayer_agent.shell.expansion import arithmetic
        from humanlayer_agent.shell.interpreter import assignments

        if name in state.odd and not number and (why := arithmetic.values_risk(name, value, state)) is not None:
            self.program.doubt(why)
        state.assign(name, value, number=number)
        if name in state.odd or name in READONLY:
            self.may_abort(state)
        given = assignments.is_given(name, state)
        if code_variables.steers(name, None) if given else code_variables.selects_code(name, None):
            command = SimpleCommand("", [], (0, 0), written, context.via, context.inside, state.cwd)
            command.span = self.span(*(self.frozen_span or (0, len(self.text))))
            assignments.note_effect(Run(self, command, state, context), name, None, *command.span, given=given)
            self.program.commands.append(command)

    def subshell(self, node: Node, state: State, context: Context) -> None:
        """Follow `node` in a shell of its own: nothing comes back from it, errors neither."""
        aborted, frames = self.aborted, self.frames
        self.frames = [*frames]
        self.node(node, state, context)
        self.aborted, self.frames = aborted, frames

    # ---- nodes --------------------------------------------------------------------------------------

    def node(self, node: Node, state: State, context: Context) -> Ends:
        """Follow one node from `state`; returns the states after its success and its failure.

        `state` stays as it is: what may change it is given a copy.
        """
        if isinstance(node, Simple):
            return self.simple(node, state, context)
        if not isinstance(node, Sequence | Pipeline):
            state = state.copy()
        start, mark = len(self.program.commands), len(self.expanded)
        ends = self.compound(node, state, context.fed(context.stdin.shared()))
        if len(self.expanded) > mark:  # in the head of a loop, or what a case looks at
            from humanlayer_agent.shell.environment import outside_variables

            command = self.plain(node.start, node.end, state, context)
            outside_variables.note(Run(self, command, state, context), list(words_of(node)), mark)
            command.head = True
            self.program.commands.append(command)
        self.program.trace.append(("node", node, start, start, len(self.program.commands)))
        return ends

    def compound(self, node: Node, state: State, context: Context) -> Ends:
        """Follow a node that is no simple command."""
        from humanlayer_agent.shell.interpreter import control_flow

        match node:
            case Sequence():
                return control_flow.sequence(self, node, state, context)
            case Pipeline():
                return control_flow.pipeline(self, node, state, context)
            case Group():
                return control_flow.group(self, node, state, context)
            case If():
                return control_flow.conditional(self, node, state, context)
            case Loop():
                return control_flow.loop(self, node, state, context)
            case Case():
                return control_flow.case(self, node, state, context)
            case Function():
                return self.define(node, state, context)
            case Test() | ArithCommand():
                return self.expression(node, state, context)
            case Simple():
                return self.simple(node, state, context)

    def define(self, node: Function, state: State, context: Context) -> Ends:
        name = node.name.text
        if name is None or name in _NEVER_DEFINED:
            self.program.doubt(f"function {node.name.raw}")
        out = state.copy()
        out.define(name or "", node, certain=True)
        self.functions_defined[id(node)] = node
        return out, out

    def expression(self, node: Test | ArithCommand, state: State, context: Context) -> Ends:
        """`[[ ]]` and `(( ))`: their substitutions run, and arithmetic evaluates strings as code."""
        from humanlayer_agent.shell.environment import outside_variables
        from humanlayer_agent.shell.expansion import arithmetic, substitutions
        from humanlayer_agent.shell.interpreter import redirects

        out = state.copy()
        words = node.words if isinstance(node, Test) else [node.word]
        command = self.plain(node.start, node.end, state, context, "[[" if isinstance(node, Test) else "((")
        self.program.commands.append(command)
        mark = len(self.expanded)
        for word in words:
            substitutions.word(self, word, out, context)
        if isinstance(node, Test):
            builtins.conditional(self, words, out)
            outside_variables.comparison(self, words, out)
            for word in words:
                out.forget(arithmetic.assigned(word.raw))
        redirects.assign_descriptors(self, node.redirects, out, context, certain=False)
        redirects.add(Run(self, command, state, context), node.redirects)
        if len(self.expanded) > mark:
            outside_variables.note(Run(self, command, state, context), words, mark)
        return out, out

    def redirected(self, redirections: list[Redirect], state: State, context: Context) -> Context:
        """The effects of a compound command's redirects, as a command of their own; and the input they give it."""
        if not redirections:
            return context
        from humanlayer_agent.shell.environment import outside_variables
        from humanlayer_agent.shell.interpreter import redirects

        command = self.plain(redirections[0].start, redirections[-1].end, state, context)
        start, mark = len(self.program.commands), len(self.expanded)
        redirects.add(Run(self, command, state, context), redirections)
        if len(self.expanded) > mark:
            outside_variables.note(Run(self, command, state, context), [r.body or r.target for r in redirections], mark)
        here = len(self.program.commands)
        self.program.trace.append(("redirects", redirections, start, here, here + 1))
        self.program.commands.append(command)
        redirects.assign_descriptors(self, redirections, state, context, certain=False)
        return context.fed(redirects.stdin_of(self, redirections, state, context).shared())

    # ---- simple commands ----------------------------------------------------------------------------

    def simple(self, node: Simple, state: State, context: Context) -> Ends:
        """Follow a simple command."""
        if not self.work.spend(COMMAND):
            self.program.doubt("too many commands")
            return state, state
        if plain.run(self, node, state, context):
            return state, state
        from humanlayer_agent.shell.interpreter import general_command

        return general_command.run(self, node, state, context)
