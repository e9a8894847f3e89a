"""Programs, and builtins without an effect, that are given literal words and wildcards: most commands are no more.

They take a short way. Such a command changes nothing that the shell knows.
"""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.builtins import SILENT
from humanlayer_agent.shell.expansion.field import Field, bare_pattern, wildcards
from humanlayer_agent.shell.expansion.substitutions import unmatched
from humanlayer_agent.shell.expansion.wildcard_names import list_names
from humanlayer_agent.shell.interpreter import command_lookup
from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import WRITERS, SimpleCommand
from humanlayer_agent.shell.syntax.tree import Redirect, Simple

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter


def run(walk: "Interpreter", node: Simple, state: State, context: Context) -> bool:
    """Note what `node` does; False where it is more than that."""
    commands, redirections = walk.program.commands, node.redirects
    if redirections and any(map(_expands, redirections)):
        return False
    start = len(commands)
    fields = _fields(walk, node, state, context)
    if fields is None:
        return False
    if redirections:
        from humanlayer_agent.shell.interpreter import redirects

        context = redirects.fed(walk, redirections, state, context)
    argv = [field.text if field.text is not None else field.word.raw for field in fields]
    span, text = walk.frozen_span or (node.start, node.end), walk.text[node.start : node.end]
    command = SimpleCommand(argv[0], argv, span, text, context.via, context.inside, state.cwd)
    command.words = fields
    commands.append(command)
    if command.program not in SILENT:
        command_lookup.outside(Run(walk, command, state, context), fields)
    if context.stdin.kind == "script":
        command_lookup.doubt_input(Run(walk, command, state, context))
    if redirections:
        redirects.add(Run(walk, command, state, context), redirections)
    if command.effects and (redirections or command.program in WRITERS):
        from humanlayer_agent.shell.script_files import file_texts

        file_texts.note(Run(walk, command, state, context), command.words, redirections, context.stdin)
    walk.program.trace.append(("simple", node, start, start, len(commands)))
    return True


def _fields(walk: "Interpreter", node: Simple, state: State, context: Context) -> list[Field] | None:
    words = node.words
    if not words or node.assigns:
        return None
    name = words[0].static
    if name is None or (command_lookup.is_builtin(name, state) and (name not in SILENT or name in state.functions)):
        return None
    found = []
    wild = False
    for word in words:
        if word.dynamic:
            return None
        if not word.pattern:
            text = word.text or ""
            found.append(Field(word, word.start, word.end, text, (), None, text))
        elif bare_pattern(word) and not walk.fails_on_globs:
            field = wildcards(word, nullglob=state.nullglob)
            found.append(unmatched(walk, field, state) if ":" in field.prefix else field)
            wild = True
        else:
            return None
    return list_names(walk, found, state, context) if wild else found


def _expands(redirect: Redirect) -> bool:
    """Does `redirect` run or set anything, or depend on what the shell knows?"""
    body = redirect.body
    return redirect.target.static is None or redirect.fd.startswith("{") or (body is not None and body.dynamic)
