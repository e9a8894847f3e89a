"""Programs of awk, sed and jq in files of their own: the same that the grammars read on a command line."""

from collections.abc import Callable

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Found, Text
from humanlayer_agent.shell.programs.slot_effects import reaches_out
from humanlayer_agent.shell.programs.special import awk as awk_grammar
from humanlayer_agent.shell.programs.special import sed as sed_grammar

Files = Callable[[str], Found] | None
MAX_ACTS = 400
_STREAMS = frozenset({"/dev/stdin", "/dev/stdout", "/dev/stderr", "-"})


def awk(text: str, path: str | None, files: Files) -> Behaviour | None:
    """What an awk program does; None where it is not understood."""
    try:
        found = awk_grammar.program_effects(text)
    except awk_grammar.NotUnderstood:
        return None
    behaviour = Behaviour()
    for each in found[: MAX_ACTS + 1]:
        operand = Text.of(each.operand) if each.operand is not None else Text()
        if each.kind == "execute":
            behaviour.acts.append(Act("shell", (operand,), origin="awk program"))
        elif each.kind == "environment":
            behaviour.acts.append(Act("environment", (operand,), "printed", "awk program"))
        elif each.operand not in _STREAMS:
            behaviour.acts.append(Act(each.kind, (operand,), origin="awk program"))
    return _bounded(behaviour)


def sed(text: str, path: str | None, files: Files) -> Behaviour | None:
    """What a sed script does; None where it is not understood, or runs commands."""
    try:
        found = sed_grammar.script_effects(text)
    except sed_grammar.NotUnderstood:
        return None
    if any(kind == "execute" for kind, _ in found):
        return None
    named = [(kind, operand) for kind, operand in found[: MAX_ACTS + 1] if operand not in _STREAMS]
    return _bounded(Behaviour([Act(kind, (Text.of(operand),), origin=f"sed {kind}") for kind, operand in named]))


def jq(text: str, path: str | None, files: Files) -> Behaviour | None:
    """A filter of jq: it prints; None where it may show the environment or read other files."""
    return None if reaches_out(text) else Behaviour()


def _bounded(behaviour: Behaviour) -> Behaviour | None:
    return behaviour if len(behaviour.acts) <= MAX_ACTS else None
