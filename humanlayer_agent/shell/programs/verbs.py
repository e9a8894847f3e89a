"""Verbs: what a command asks of a service (a cloud, a cluster, a code host), and in which account or place.

A command that only reads contacts the service (`network`, role `service-read`). Any other changes what the service
holds, has it run code or hand out secrets: a `system` effect with the role `service-change`, `service-delete`,
`service-execute` or `service-secrets`. Where no service is named, a daemon of this machine does it: a `container`
effect with that role.
"""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from humanlayer_agent.shell.programs.spec import Spec

if TYPE_CHECKING:
    from humanlayer_agent.shell.interpreter.run import Run

_NAMED, _SHOWN = 3, 80
"""So many operands are named, in so many characters."""
_ASIDE = frozenset({"read", "local", "unknown"})


def note(run: "Run", spec: Spec, *more: str) -> None:
    """Note what the command asks of the service of `spec`: what `spec` says, what options said, and `more`."""
    command = run.command
    command.verbs |= {*more} or {spec.verb}
    asked = sorted(command.verbs - _ASIDE)
    if "unknown" in command.verbs and not asked:
        asked = ["change"]
    if spec.service and (asked or "read" in command.verbs):
        role = "service" if asked else "service-read"
        run.effect("network", role, spec.service, True, command.span, command.program or "")
    named = [command.program or spec.service, command.subcommand or "", *(o or "?" for o in command.operands[:_NAMED])]
    words = " ".join(filter(None, named))[:_SHOWN]
    for verb in asked:
        certain = verb in command.verbs
        kind = "system" if spec.service else "container"
        run.effect(kind, f"service-{verb}", words, certain, command.span, command.program or "")


def note_attributes(run: "Run", attributes: dict[str, tuple[str, ...]]) -> None:
    """Note the account, cluster or place that the command names, by its options or by variables that it sets itself.

    What the environment and the tool's own settings say is not known.
    """
    command = run.command
    for name, by in attributes.items():
        if name in command.attributes:  # whoever reads its words by a grammar has noted it
            continue
        values = [*command.options.get(name, ())] or _from_variables(run, [v[1:] for v in by if v[0] == "$"])
        rivals = [each for each in by if each[0] != "$"]
        if "unknown" in command.verbs or _rivalled(run, rivals, values):
            values.append(None)
        command.attributes[name] = values


def _from_variables(run: "Run", names: Sequence[str]) -> list[str | None]:
    """The values that the first of these variables has which the command sets; None among them: or another one."""
    for place, name in enumerate(names):
        if name in run.state.exported and name in run.state.variables:
            value = run.state.variables[name]
            texts: list[str | None] = [None] if value is None else [t if type(t) is str else None for t in value]
            return [*texts, *([None] if place or not texts else [])]
    return [None]


def _rivalled(run: "Run", rivals: Iterable[str], values: Sequence[str | None]) -> bool:
    """Tell whether an option is given, or may a word be, that says otherwise where the command goes."""
    command = run.command
    for rival in rivals:
        if rival.startswith("--"):
            if rival[2:] in command.flags:
                return True
        elif any(w.text is None or (w.text not in values and fnmatchcase(w.text, rival)) for w in command.words[1:]):
            return True
    return False
