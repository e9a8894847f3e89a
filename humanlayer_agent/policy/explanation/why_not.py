"""The obstacles to a command: what stands in the way of each part, and what would have to change."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit
from humanlayer_agent.policy.conditions.kleene import MAYBE
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.explanation.explain import CONFINED, Explanation, Finding, Part, Tried, clause_text
from humanlayer_agent.policy.explanation.unknown_programs import teaching, unknown_programs
from humanlayer_agent.policy.language.policy import Among, Environment, Match, Paths
from humanlayer_agent.policy.verdict import attributes_of
from humanlayer_agent.shell import Effect, SimpleCommand

EXCEPTION = "an exception for this (hla policy allow drafts it)"
NEAREST = 3
"""Allow rules that are shown of each part."""

_SHOWN = 6
"""Names and patterns that are shown of a list."""


@dataclass(frozen=True, slots=True)
class Change:
    """Something that would have to be otherwise. `rule` is the ask or deny that it is about, "" for none."""

    rule: str
    what: str


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A command (`effect` None) or an effect of it that is not allowed.

    `standing` are the asks and denials that apply. `allowed` are allows that cover it all the same, `nearest` those
    that nearly do, where none does. `changes` is what would have to change: all of it is needed.
    """

    command: SimpleCommand
    effect: Effect | None
    verdict: Verdict
    standing: tuple[Hit, ...]
    allowed: tuple[str, ...]
    nearest: tuple[Tried, ...]
    changes: tuple[Change, ...]


def obstacles(explanation: Explanation) -> list[Obstacle]:
    """Everything that keeps the command from being allowed, in order."""
    found = [
        _obstacle(part, finding)
        for part in explanation.parts
        for finding in (part.own, *part.effects)
        if finding.verdict is not Verdict.ALLOW
    ]
    return [obstacle for obstacle in found if obstacle.changes]


def changes(explanation: Explanation) -> list[str]:
    """Return what would have to change for the command to be allowed: all of it, each thing once."""
    decision = explanation.decision
    rules: dict[str, dict[str, None]] = {}
    if decision.parse != "ok":
        reasons = "; ".join(decision.parse_reasons)
        rules[f"it would have to be written so that it can be read: {reasons}"] = {}
    for obstacle in obstacles(explanation):
        for change in obstacle.changes:
            rules.setdefault(change.what, {}).update({change.rule: None} if change.rule else {})
    return [f"{_listed(list(names), 'and')} {what}" if names else what for what, names in rules.items()]


def _obstacle(part: Part, finding: Finding) -> Obstacle:
    hits = [hit for hit in finding.hits if hit.rule is not None]
    standing = tuple(hit for hit in hits if hit.verdict is not Verdict.ALLOW)
    allowed = tuple(hit.rule.rule.id for hit in hits if hit.verdict is Verdict.ALLOW and hit.rule is not None)
    nearest = tuple(t for t in finding.missed if _allows(t.rule))[:NEAREST] if not allowed else ()
    wanted = [*(_stand_aside(hit) for hit in standing)]
    # A command with effects needs no allow of its own: each effect needs one.
    if not allowed and (finding.effect is not None or not part.command.effects):
        wanted.append(Change("", _be_covered(part.command, finding.effect, nearest)))
    return Obstacle(part.command, finding.effect, finding.verdict, standing, allowed, nearest, tuple(wanted))


def _allows(rule: CompiledRule) -> bool:
    return rule.verdict is Verdict.ALLOW or rule.confined is not None


# ---- a rule that stands in the way --------------------------------------------------------------------------


def _stand_aside(hit: Hit) -> Change:
    """Return what would have to change for an ask or deny not to apply."""
    rule = hit.rule
    assert rule is not None
    name = f"{rule.rule.id} ({rule.rule.decision})"
    words = ", ".join(hit.command.unresolved)
    taught = teaching(unknown_programs(hit.command.effects))
    if rule.confined is None and (not hit.certain or (rule.rule.when.resolved is False and words)):
        known = f"{words or 'what is not known here'} would have to be known{f' ({taught})' if taught else ''}"
        return Change(name, f"would have to be ruled out: {known}")
    or_known = f"; or {words} would have to be known ({taught})" if taught else ""
    return Change(name, f"would have to leave it alone: {_loosened(rule)}{or_known}")


def _loosened(rule: CompiledRule) -> str:
    """Return how a person could have a rule not apply."""
    if rule.confined is not None:
        return f"another command, or one that runs confined to {rule.confined.name}, where it allows"
    if rule.rule.locked:
        return "it is locked, so only another command helps"
    if rule.rule.origin.startswith("builtin:"):
        excusing = "an `override` with an `unless` for this" if rule.rule.severity == "critical" else EXCEPTION
        return f"another command, or {excusing}"
    whose = {"machine": " in the machine's policy", "user": " in your policy", "project": " in the project's policy"}
    return f"another command, or an `unless` for this{whose.get(rule.layer, '')}"


# ---- an allow that nearly covers ----------------------------------------------------------------------------


def _be_covered(command: SimpleCommand, effect: Effect | None, nearest: Sequence[Tried]) -> str:
    what = f"the effect {effect.kind} {effect.public()['operand'] or 'on something unknown'}" if effect else "it"
    if not nearest:
        kind = f"effects of the kind {effect.kind}" if effect is not None else f"{command.program or 'such'} commands"
        return f"an allow would have to cover {what}: no allow is about {kind}"
    hints = "; or ".join(f"{t.rule.rule.id}, if {' and '.join(_hints(t, command, effect))}" for t in nearest[:1])
    return f"an allow would have to cover {what}: {hints}"


def _hints(tried: Tried, command: SimpleCommand, effect: Effect | None) -> Iterator[str]:
    """Yield what each clause that failed would need."""
    if not tried.failed:
        yield "its `unless` did not hold"
    for name, answer in tried.failed:
        text = _hint(tried.rule.rule.when, name, command, effect) or f"`{clause_text(tried.rule, name)}` held"
        unknown = ", ".join(command.unresolved) or "a part of it"
        yield f"{text} (which can't be told: {unknown} is not known)" if answer == MAYBE else text


def _hint(when: Match, name: str, command: SimpleCommand, effect: Effect | None) -> str:
    """Return what a clause would need to hold, in words; "" where there are none for it."""
    if name == CONFINED:
        return "it could be confined (--confined judges as if it could)"
    value = getattr(when, name)
    operand = str(effect.public()["operand"] or "it") if effect is not None else "its paths"
    if name in ("paths", "hosts", "names", "env"):
        return _places(value, operand, "in" if name == "paths" else "one of")
    if name == "program" and value.names:
        return f"the program were {_listed(value.names, 'or')}"
    if name in ("subcommand", "role"):
        is_now = getattr(effect if name == "role" else command, name, None)
        return f"the {name} were {_listed(value, 'or')}" + (f", not {is_now}" if is_now else "")
    if name == "attributes":
        return (
            " and ".join(
                f"its {each} were {_listed([t.glob or f'/{t.regex}/' for t in texts], 'or')}"
                for each, texts in value.items()
            )
            + f" ({attributes_of(command)})"
        )
    if name == "resolved" and value:
        return f"every word were known ({_listed(command.unresolved, 'and')} is not)" if command.unresolved else ""
    if name == "unread" and not value:
        return "the code could be read"
    if name == "recursive":
        return "it went into directories" if value else "it did not go into directories"
    if name == "effects" and value.only is not None:
        return f"it had no effects but {_listed(value.only, 'and')}" if value.only else "it had no effects"
    return ""


def _places(group: Paths | Among | Environment, operand: str, where: str) -> str:
    wanted = getattr(group, "all", None) or group.any
    if wanted is not None:
        verb = "lay in" if where == "in" else "were one of"
        return f"{operand} {verb} {_listed(wanted, 'or')}"
    if (none := getattr(group, "none", None)) is not None:
        verb = "lay outside of" if where == "in" else "were none of"
        return f"{operand} {verb} {_listed(none, 'and')}"
    return ""


def _listed(items: Sequence[str], last: str) -> str:
    shown = list(items[:_SHOWN])
    if len(items) > _SHOWN:
        shown.append(f"{len(items) - _SHOWN} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"
