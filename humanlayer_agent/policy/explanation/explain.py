"""The explanation of a decision: every part and effect with its verdict, and the rules that were tried."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.rule_matcher import Excuse
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.verdict import reason_of
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Effect, SimpleCommand

NEAR = 3
"""Rules that missed which are shown of each finding."""
CONFINED = "confined"
"""Stands among the clauses of a rule that applies only to what can be confined."""
ANSWERS = {NO: "no", MAYBE: "maybe", YES: "yes"}


@dataclass(frozen=True, slots=True)
class Tried:
    """A rule that could have applied. `answer` is no or maybe; `because` names the clauses that kept it from yes.

    `failed` are the names of those clauses, each with its own answer; empty where `unless` kept it from yes, or an
    exception (`excuse`).
    """

    rule: CompiledRule
    answer: str
    because: tuple[str, ...]
    failed: tuple[tuple[str, int], ...] = ()
    excuse: Excuse | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """The findings about a command (`effect` None) or one of its effects: verdict, hits, and rules that missed."""

    effect: Effect | None
    verdict: Verdict
    reason: str
    hits: tuple[Hit, ...]
    missed: tuple[Tried, ...]

    @property
    def near(self) -> list[Tried]:
        """The rules that nearly applied, and those that an exception excuses from.

        Where it is allowed there is nothing to mend; what asks or denies by a rule tells why by itself.
        """
        excused = [tried for tried in self.missed if tried.excuse is not None]
        one_off = [tried for tried in self.missed if len(tried.because) == 1 and tried.excuse is None]
        near = [] if self.verdict is Verdict.ALLOW else one_off
        return [*excused, *sorted(near, key=lambda tried: tried.rule.rule.decision != "allow")[:NEAR]]


@dataclass(frozen=True, slots=True)
class Part:
    """A simple command with its findings: on itself, then on each effect."""

    command: SimpleCommand
    verdict: Verdict
    own: Finding
    effects: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision with all that led to it."""

    decision: PolicyDecision
    parts: tuple[Part, ...]


def explain(director: Director, action: Action) -> Explanation:
    """Judge `action`, keeping what each rule said."""
    program = director.program(action)
    situation = director.situation(action)
    decision = director.judge(program, situation, action.content)
    rules = director.in_force().rules
    parts = []
    for judged, part in zip(rules.judge(program, situation), decision.parts, strict=True):
        command = judged.command

        def finding(
            effect: Effect | None, hits: list[Hit], verdict: Verdict, command: SimpleCommand = command
        ) -> Finding:
            stopped = [h for h in hits if h.verdict is verdict and verdict is not Verdict.ALLOW]
            kind = effect.kind if effect is not None else None
            tried = rules.concerning(command.program, kind)
            missed = tuple(_missed(tried, command, effect, situation))
            return Finding(effect, verdict, reason_of(stopped[0]) if stopped else "", tuple(hits), missed)

        worst = max((h.verdict for h in judged.own), default=Verdict.ALLOW)
        effects = zip(command.effects, judged.effects, part.judged, strict=True)
        parts.append(
            Part(
                command,
                part.verdict,
                finding(None, judged.own, worst),
                tuple(finding(effect, hits, said.verdict) for effect, hits, said in effects),
            )
        )
    return Explanation(decision, tuple(parts))


def _missed(
    tried: tuple[CompiledRule, ...], command: SimpleCommand, effect: Effect | None, situation: Situation
) -> Iterator[Tried]:
    """The rules that do not apply, with the clauses that failed; fewest first."""
    found = []
    for rule in tried:
        value = rule.judge(command, effect, situation)
        if value == YES or (value == MAYBE and rule.verdict_in(situation) is not Verdict.ALLOW):
            continue
        answers = tuple((name, clause(command, effect, situation)) for name, clause in rule.clauses)
        if rule.rule.only_confined and situation.confinement is None:
            answers = (*answers, (CONFINED, NO))
        failed = tuple((name, answer) for name, answer in answers if answer != YES)
        excuse = rule.excuse(command, effect, situation) if rule.when(command, effect, situation) != NO else None
        if excuse is not None:
            found.append(Tried(rule, ANSWERS[value], (f"excused {excuse.words()}",), (), excuse))
            continue
        because = tuple(f"{clause_text(rule, name)} ({ANSWERS[answer]})" for name, answer in failed)
        found.append(Tried(rule, ANSWERS[value], because or ("unless: excused",), failed))
    yield from sorted(found, key=lambda t: len(t.because))


def described(effect: Effect) -> str:
    """Return an effect in a few words."""
    public = effect.public()
    doubts = [name for name, so in (("not certain", not effect.resolved), ("unread", effect.unread)) if so]
    more = f" ({', '.join([effect.role, *doubts])})" if effect.role != "operand" or doubts else ""
    return f"{effect.kind} {one_line(str(public['operand'] or 'something unknown'))}{more}"


def origin_of(rule: CompiledRule) -> str:
    """Return where a rule stands: the layer, where there are several, and the line of its file."""
    layer = "" if rule.layer == "given" else f"{rule.layer}, "
    return f"{layer}{one_line(rule.rule.origin)}"


def clause_text(rule: CompiledRule, name: str) -> str:
    """A clause as the policy has it, in one line."""
    if name == CONFINED:
        return f"{name}: {rule.rule.confined}"
    key = {"negated": "not"}.get(name, name)
    return f"{key}: {flow(rule.rule.written['when'].get(key))}"


def flow(value: object) -> str:
    """Data in YAML's flow style."""
    if isinstance(value, dict):
        if value.keys() == {"glob"}:
            return flow(value["glob"])
        return "{" + ", ".join(f"{k}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    if isinstance(value, str) and value and not set(value) & set("{}[],:#&*!|>'\"%@` "):
        return value
    return json.dumps(value, ensure_ascii=False)
