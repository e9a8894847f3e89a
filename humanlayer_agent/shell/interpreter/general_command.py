"""Simple commands the full way: words are expanded, variables set, and what the first word names is run.

Most are plainer than that (see `plain`).
"""

from typing import TYPE_CHECKING

from humanlayer_agent.shell import builtins
from humanlayer_agent.shell.environment import outside_variables
from humanlayer_agent.shell.expansion import substitutions, wildcard_names
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.expansion.words import expand
from humanlayer_agent.shell.interpreter import assignments, command_lookup, redirects
from humanlayer_agent.shell.interpreter.context import Context, Ends
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State, join
from humanlayer_agent.shell.program import WRITERS
from humanlayer_agent.shell.script_files import file_texts
from humanlayer_agent.shell.syntax.tree import Simple, Word, words_of

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter


def run(walk: "Interpreter", node: Simple, state: State, context: Context) -> Ends:
    """Expand the words, then hand them to what they name: a function, a builtin, or a program."""
    before = state
    if not command_lookup.leaves_state(node, state):
        state = state.copy()
    start, mark = len(walk.program.commands), len(walk.expanded)
    fields = _fields(walk, node.words, state, context)
    for assign in node.assigns:
        if assign.value.parts:
            substitutions.word(walk, assign.value, state, context)
        if assign.index_parts:
            substitutions.parts(walk, assign.index_parts, state, context)
    given = context
    if node.redirects:
        given = redirects.fed(walk, node.redirects, state, context)
        before = state.copy() if before is state else before
        redirects.assign_descriptors(walk, node.redirects, state, context, certain=_runs_here(fields, state))
    # No words, or only ones that vanish: the assignments stay then, and nothing runs.
    go = _command if fields else _assignments_only
    middle = len(walk.program.commands)
    ends = go(walk, node, fields, state, given)
    walk.program.trace.append(("simple", node, start, middle, len(walk.program.commands)))
    if len(walk.expanded) > mark:
        outside_variables.note(Run(walk, walk.program.commands[middle], state, context), list(words_of(node)), mark)
    if node.redirects and redirects.may_fail(node.redirects):
        ends = ends[0], join(ends[1], before)
    return ends


def _runs_here(fields: list[Field], state: State) -> bool:
    """Is it certain that this shell itself opens the redirects: for a builtin, or a function?"""
    name = fields[0].text if fields else None
    return name is not None and name in (builtins.BUILTINS | {"exec"} | state.functions.keys())


def _fields(walk: "Interpreter", words: list[Word], state: State, context: Context) -> list[Field]:
    """The fields of a command's words; values of a declaration's assignments don't split."""
    out: list[Field] = []
    declares = bool(words) and words[0].static in assignments.DECLARERS and not words[0].quoted
    for word in words:
        if declares and word.dynamic and assignments.is_assignment(word):
            substitutions.word(walk, word, state, context)
            braces = word.pattern and "{" in word.raw  # `export x={$a,b}` is two assignments
            out += [Field(word, word.start, word.end, many=True)] if braces else expand(word, state, declaration=True)
        else:
            out += substitutions.expand(walk, word, state, context)
    return wildcard_names.list_names(walk, out, state, context)


def _command(walk: "Interpreter", node: Simple, fields: list[Field], state: State, context: Context) -> Ends:
    """Run `fields` with the assignments and redirects of `node`."""
    scoped = state
    if node.assigns:
        scoped = state.copy()
        assignments.assign(walk, node.assigns, scoped, exported=True)
    span, text = walk.span(node.start, node.end), walk.quote(node.start, node.end)
    first = len(walk.program.commands)
    ends = command_lookup.run_words(walk, fields, scoped, context, span, text)
    command = walk.program.commands[first]
    if node.assigns:
        given = first if command.program else None
        assignments.assignment_effects(Run(walk, command, state, context), node.assigns, given)
    if node.redirects:
        redirects.add(Run(walk, command, state, context), node.redirects)
        if fields[0].text == "exec" and len(fields) == 1:
            inputs = [context.stdin, *(each for _, each in context.descriptors)]
            walk.heard += [each.text for each in inputs if each.text is not None]
    if command.effects and (node.redirects or command.program in WRITERS):
        file_texts.note(Run(walk, command, state, context), fields, node.redirects, context.stdin)
    if not node.assigns:
        return ends
    keeps = fields[0].many or fields[0].text is None or fields[0].text in builtins.KEEPS_PREFIX
    keeps |= any(f.text in builtins.KEEPS_PREFIX for f in fields[1:3]) or fields[0].text in state.functions
    runs_program = ends == (scoped, scoped) and not command_lookup.is_builtin(fields[0].text or "", scoped)
    if runs_program and not (keeps or state.references):
        return state, state  # bash puts back what the program was given
    return _without_prefix(ends[0], state, node, keeps), _without_prefix(ends[1], state, node, keeps)


def _assignments_only(walk: "Interpreter", node: Simple, fields: list[Field], state: State, context: Context) -> Ends:
    """Assignments that stay, and redirects."""
    out = state.copy()
    assignments.assign(walk, node.assigns, out, exported=False)
    command = walk.plain(node.start, node.end, state, context)
    assignments.assignment_effects(Run(walk, command, state, context), node.assigns)
    redirects.add(Run(walk, command, state, context), node.redirects)
    walk.program.commands.append(command)
    if len(node.assigns) == 1 and not node.redirects:
        substitutions.keep_name(walk, node.assigns[0], out)
    return out, out


def _without_prefix(end: State | None, before: State, node: Simple, keeps: bool) -> State | None:
    """`x=1 cmd` gives x to cmd only: afterwards it has the value it had, unless cmd `keeps` what it finds."""
    if end is None:
        return None
    out = end.copy()
    for name in {a.name for a in node.assigns}:
        if keeps:
            out.forget([name])
            out.unexport([name])
            continue
        if name in before.variables:
            out.assign(name, before.variables[name], number=name in before.numbers)
        else:
            out.assign(name, None)
            del out.variables[name]
        if name in before.arrays:
            out.arrays[name] = before.arrays[name]
        out.own = (out.own - {name}) | (before.own & {name})
        out.exported = (out.exported - {name}) | (before.exported & {name})
        out.maybe_exported = (out.maybe_exported - {name}) | (before.maybe_exported & {name})
        if name == "IFS":
            out.default_ifs = before.default_ifs
    return out
