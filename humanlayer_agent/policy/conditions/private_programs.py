"""Programs of one's own: an allow that names a program which nobody knows, and says so, is its author's word for it.

    when: {program: frob, unread: true}

It covers that this one program runs, whatever its words are, and takes back what is asked only because nobody knows
what the program does. What else the command does is judged as ever: what its redirects write, what stands in its
substitutions, who runs it (`sudo`), which variables it gets. It is no word for a program of that name that lies where
an agent writes without being asked: in the project, and in the folders for temporary files.
"""

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.policy.conditions.kleene import NO, YES
from humanlayer_agent.policy.language.policy import Rule
from humanlayer_agent.shell import Effect, SimpleCommand

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Clause, Compiler, Situation

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
_ROLES = {False: "program", True: "script"}
"""The role of what is run, by whether it is called by a path."""


def vouches(rule: Rule) -> bool:
    """Tell whether a rule is such an allow: it names programs, says that they are unread, and is about no effect."""
    named = rule.when.program is not None and rule.when.program.names is not None
    return rule.decision == "allow" and named and rule.when.unread is True and rule.when.effect is None


def own(command: SimpleCommand) -> Effect | None:
    """Return the effect that a command runs a program which nobody knows; None where there is anything else about it
    that is not known.
    """
    program = command.program
    if program is None or command.known or command.unresolved != [program]:
        return None
    unknown = [e for e in command.effects if e.kind == "execute" and (e.unread or not e.resolved)]
    found = unknown[0] if len(unknown) == 1 else None
    role = _ROLES["/" in program]
    return found if found is not None and (found.role, found.operand, found.source) == (role, program, "own") else None


def clause(rule: Rule, compiler: "Compiler") -> "Clause":
    """The condition `unread: true` of such a rule."""
    names = frozenset(rule.when.program.names or ()) if rule.when.program is not None else frozenset()
    variables = (compiler.variables.get(name, "") for name in ("PROJECT", "REPOSITORY", "TMPDIR"))
    writable = tuple({os.path.realpath(folder) for folder in (*variables, *_TEMPORARY) if folder})

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        # `frob` is not `./frob`: the name has to be the whole one.
        if command.program not in names or own(command) is None or situation.container is not None:
            return NO
        if any(_changes_search(each) for part in situation.commands for each in part.effects):
            return NO
        return YES if _lies_elsewhere(command.program, situation.search_path, writable) else NO

    return judge


def _changes_search(effect: Effect) -> bool:
    """Tell whether programs may be looked for elsewhere then."""
    changes = effect.kind == "environment" and effect.role not in ("printed", "expanded")
    return changes and effect.operand in (None, "PATH")


def known(command: SimpleCommand) -> SimpleCommand:
    """The same command, as if it were known that the program does nothing but run."""
    effect = own(command)
    effects = [known_effect(each) if each is effect else each for each in command.effects]
    return replace(command, known=True, resolved=True, unresolved=[], effects=effects)


def known_effect(effect: Effect) -> Effect:
    """The same effect, as if the program had been read."""
    return replace(effect, resolved=True, unread=False)


def _lies_elsewhere(program: str, search_path: str, writable: tuple[str, ...]) -> bool:
    """Tell whether a program does not lie where agents write; one that is not on this machine lies nowhere."""
    folders = [""] if "/" in program else search_path.split(":") if search_path else []
    for folder in folders:
        place = os.path.join(folder, program)
        if not place.startswith("/"):
            return False
        if os.path.lexists(place):
            real = os.path.realpath(place)
            return not any(real == each or real.startswith(each.rstrip("/") + "/") for each in writable)
    return True
