"""The Director: judges an action by the rules of one policy.

The semantics (each has a test): three values, strictest wins, an allow must be proven and covers only what it names,
deny rules also run over what could be seen of a command that can't be parsed, and nothing that goes wrong here ends in
an allow.
"""

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from humanlayer_agent.actions import BASH, Action, canonical
from humanlayer_agent.places import own_places
from humanlayer_agent.policy import load as loading
from humanlayer_agent.policy.clauses import Clause, Compiler
from humanlayer_agent.policy.decision import SEVERITIES, PartVerdict, PolicyDecision, Verdict
from humanlayer_agent.policy.model import Match, Policy, Rule
from humanlayer_agent.policy.pathset import MAYBE, NO, YES, forget_links
from humanlayer_agent.shell.analyse import analyse
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.program import Program, SimpleCommand

_PLACEHOLDER = re.compile(r"\{\{ ([a-z]+) \}\}")
_PLAIN_BASH_OPTIONS = frozenset({"-l", "-c", "-lc", "--norc", "--noprofile"})
_VERDICTS = {"allow": Verdict.ALLOW, "ask": Verdict.ASK, "deny": Verdict.DENY}


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its conditions as closures. `by_effect`: it is asked about each effect, not once a command."""

    rule: Rule
    verdict: Verdict
    when: Clause
    unless: Clause | None
    by_effect: bool

    def judge(self, command: SimpleCommand, effect: Effect | None) -> int:
        """no, maybe or yes. An exception to ask or deny must be proven; one to an allow must be ruled out."""
        value = self.when(command, effect)
        if value == NO or self.unless is None:
            return value
        excuse = self.unless(command, effect)
        if self.verdict is Verdict.ALLOW:
            return min(value, YES - excuse)
        return NO if excuse == YES else value


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule that applies to a command, with the effect it is about. `rule` is None where nothing allows it."""

    verdict: Verdict
    rule: Rule | None
    command: SimpleCommand
    effect: Effect | None
    certain: bool


class Director:
    """Judges actions.

    Example:
        >>> from humanlayer_agent import Action
        >>> director = Director.load("default", project="/srv/app")
        >>> director.should_allow(Action("ls -la", cwd="/srv/app"))[0]
        True
    """

    def __init__(
        self,
        policy: Policy,
        *,
        project: Path | str,
        environ: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self.policy = policy
        self.project = str(project)
        self.variables = {
            "PROJECT": self.project,
            "HOME": environ.get("HOME") or str(Path.home()),
            "TMPDIR": environ.get("TMPDIR") or tempfile.gettempdir(),
            **own_places(),
            **(variables or {}),
        }
        self.environ = {name: self.variables[name] for name in ("HOME", "TMPDIR") if name == "HOME" or name in environ}
        compiler = Compiler(policy.lists, self.variables)
        self.rules = [_compiled(rule, compiler) for rule in policy.rules]
        self.digest = _digest(policy, self.variables)

    @classmethod
    def load(
        cls,
        policy: str | Path = "default",
        *,
        project: Path | str,
        environ: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> "Director":
        """Read a policy (a file, or a shipped policy's name). Raises PolicyError with file:line:column."""
        return cls(loading.load(loading.find(policy)), project=project, environ=environ, variables=variables)

    # ---- judging ------------------------------------------------------------------------------------

    def should_allow(self, action: Action) -> tuple[bool, str]:
        """(allowed, reason): the simplest form of `evaluate`."""
        decision = self.evaluate(action)
        return decision.verdict is Verdict.ALLOW, decision.reason

    def evaluate(self, action: Action) -> PolicyDecision:
        """What the policy says of `action`. Runs nothing; reads nothing but where symbolic links lead."""
        begin = time.perf_counter_ns()
        forget_links()
        program = self.program(action)
        return self.judge(program, microseconds=begin)

    def program(self, action: Action) -> Program:
        """What `action` would run, as far as it can be seen."""
        environ = dict(action.env) if action.env else self.environ
        program = analyse(action.content, cwd=action.cwd or self.project, environ=environ, closed=bool(action.env))
        if action.type != "bash":
            program.doubt(f"actions of type {action.type!r} are not understood")
        if action.interpreter[:1] not in (("bash",), ("/bin/bash",), ("/usr/bin/bash",)):
            program.doubt(f"run by {' '.join(action.interpreter) or 'an unknown shell'}, not by bash")
        elif action.interpreter != BASH and not set(action.interpreter[1:]) <= _PLAIN_BASH_OPTIONS:
            program.doubt(f"run by {' '.join(action.interpreter)}")
        return program

    def judge(self, program: Program, *, microseconds: int) -> PolicyDecision:
        """Combine what the rules say of every command and effect: the strictest wins."""
        hits: list[Hit] = []
        parts: list[PartVerdict] = []
        for command in program.commands:
            found = self._command(command)
            hits += found
            parts.append(self._part(command, found))
        worst = max((h.verdict for h in hits), default=Verdict.ALLOW)
        unparsed = program.status != "ok"
        if unparsed:
            worst = max(worst, _VERDICTS[self.policy.defaults.unparsed])
        if not program.commands and not unparsed:
            worst = Verdict.ALLOW  # blank, or only comments
        deciding = [h for h in hits if h.verdict is worst and (worst is not Verdict.ALLOW or h.rule is not None)]
        return self._decision(program, worst, deciding, hits, parts, (time.perf_counter_ns() - microseconds) // 1000)

    def _command(self, command: SimpleCommand) -> list[Hit]:
        """Every hit on one command: rules that fire, allows that cover, and what nothing covers."""
        hits: list[Hit] = []
        covered = False
        for rule in self.rules:
            if rule.by_effect:
                continue
            value = rule.judge(command, None)
            if (hit := self._hit(rule, value, command, None)) is not None:
                hits.append(hit)
                covered |= hit.verdict is Verdict.ALLOW
        if not command.effects:
            return hits if hits else [self._unmatched(command, None)]
        for effect in command.effects:
            hits += self._effect(command, effect, covered)
        return hits

    def _effect(self, command: SimpleCommand, effect: Effect, covered: bool) -> list[Hit]:
        hits: list[Hit] = []
        for rule in self.rules:
            if rule.by_effect and (hit := self._hit(rule, rule.judge(command, effect), command, effect)) is not None:
                hits.append(hit)
        # A rule without an effect clause allows the command itself, so of its effects only that it runs.
        itself = covered and effect.kind == "execute" and effect.source == "own" and effect.resolved
        return hits if hits or itself else [self._unmatched(command, effect)]

    def _hit(self, rule: CompiledRule, value: int, command: SimpleCommand, effect: Effect | None) -> Hit | None:
        if value == NO or (value == MAYBE and rule.verdict is Verdict.ALLOW):
            return None
        if value == YES:
            return Hit(rule.verdict, rule.rule, command, effect, certain=True)
        return Hit(_VERDICTS[self.policy.defaults.maybe], rule.rule, command, effect, certain=False)

    def _unmatched(self, command: SimpleCommand, effect: Effect | None) -> Hit:
        return Hit(_VERDICTS[self.policy.defaults.unmatched], None, command, effect, certain=True)

    # ---- telling ------------------------------------------------------------------------------------

    def _part(self, command: SimpleCommand, hits: Sequence[Hit]) -> PartVerdict:
        worst = max((h.verdict for h in hits), default=Verdict.ALLOW)
        deciding = [h for h in hits if h.verdict is worst]
        return PartVerdict(
            command.text,
            command.program,
            worst,
            _rule_ids(deciding),
            _reason(deciding[0]) if deciding and worst is not Verdict.ALLOW else "",
            command.span,
            command.via,
            command.inside,
            tuple(command.effects),
        )

    def _decision(
        self,
        program: Program,
        worst: Verdict,
        deciding: Sequence[Hit],
        hits: Sequence[Hit],
        parts: Sequence[PartVerdict],
        microseconds: int,
    ) -> PolicyDecision:
        # A rule says more than "nothing allows this", and one that is certain more than one that can't be ruled out.
        ordered = sorted(deciding, key=lambda h: (h.rule is None, not h.certain, _decides_more(h), -_severity(h)))
        first = ordered[0] if ordered else None
        reason, severity, suggestion, route = "", "medium", "", "default"
        remember: tuple[str, ...] = ("once",)
        if worst is not Verdict.ALLOW and first is not None:
            reason = _reason(first)
            if first.rule is not None:
                rule = first.rule
                severity, suggestion, route = rule.severity, _render(rule.suggestion, first), rule.route
                remember = rule.remember
        if program.status != "ok" and (first is None or first.rule is None) and worst is not Verdict.ALLOW:
            reason = f"not fully understood: {'; '.join(program.reasons)}"
        return PolicyDecision(
            verdict=worst,
            reason=reason,
            policy=self.policy.name,
            policy_digest=self.digest,
            rules=_rule_ids([*ordered, *(h for h in hits if h.verdict is not Verdict.ALLOW)]),
            severity=severity,
            suggestion=suggestion,
            parse=program.status,
            parse_reasons=tuple(program.reasons),
            default_hit=worst is not Verdict.ALLOW and (first is None or first.rule is None),
            unresolved=tuple(dict.fromkeys(u for c in program.commands for u in c.unresolved)),
            spans=_spans(ordered) if worst is not Verdict.ALLOW else (),
            parts=tuple(parts),
            effects=tuple(e for c in program.commands for e in c.effects),
            route=route,
            remember=remember,
            microseconds=microseconds,
        )


def _compiled(rule: Rule, compiler: Compiler) -> CompiledRule:
    unless = compiler.match(rule.unless) if rule.unless is not None else None
    return CompiledRule(rule, _VERDICTS[rule.decision], compiler.match(rule.when), unless, _about_effects(rule.when))


def _about_effects(match: Match) -> bool:
    inner = [*(match.any or ()), *(match.all or ())]
    return match.effect is not None or any(_about_effects(m) for m in inner)


def _digest(policy: Policy, variables: Mapping[str, str]) -> str:
    """SHA-256 over the canonical form of everything that decides: the policy and the values of its variables."""
    body = {"policy": policy.body, "variables": dict(sorted(variables.items()))}
    return hashlib.sha256(canonical(body)).hexdigest()


def _decides_more(hit: Hit) -> bool:
    """A deny rule that only asks, because it can't tell: it comes after the rules that were made to ask."""
    return hit.rule is not None and _VERDICTS[hit.rule.decision] is not hit.verdict


def _severity(hit: Hit) -> int:
    return SEVERITIES.index(hit.rule.severity) if hit.rule is not None else -1


def _rule_ids(hits: Sequence[Hit]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(h.rule.id for h in hits if h.rule is not None))


def _spans(hits: Sequence[Hit]) -> tuple[tuple[int, int], ...]:
    return tuple(dict.fromkeys(h.effect.span if h.effect else h.command.span for h in hits))


def _reason(hit: Hit) -> str:
    if hit.rule is None:
        what = hit.command.program or "a program that is not known"
        if hit.effect is not None:
            what = f"{hit.effect.kind} {hit.effect.public()['operand'] or 'something unknown'}"
        return f"no rule allows this: {what}"
    text = _render(hit.rule.reason or hit.rule.id, hit)
    return text if hit.certain else f"can't be ruled out: {text}"


def _render(template: str, hit: Hit) -> str:
    """Plain substitution of `{{ name }}`; nothing else is evaluated (a policy may come from a repository)."""
    shown = hit.effect.public()["operand"] if hit.effect else None
    facts = {
        "program": hit.command.program or "an unknown program",
        "command": hit.command.text,
        "paths": shown or "an unknown path",
        "hosts": shown or "an unknown host",
        "operand": shown or "something unknown",
        "effect": hit.effect.kind if hit.effect else "",
        "unresolved": ", ".join(hit.command.unresolved) or "nothing",
    }
    # One pass: a value that looks like a placeholder stays what it is.
    return _PLACEHOLDER.sub(lambda m: str(facts.get(m[1], m[0]))[:200], template)
