"""What the rules say of a program: every hit on every command and effect.

The rules of all layers stand in one list: each brings what an uncertain match means (its policy's `maybe`), and the
allow rules of a layer that may not allow are not among them. Rules are found by the program and by the kind of effect,
so that a command meets only rules that can apply to it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.clauses import Clause, Compiler, Situation, all_of, names_of
from humanlayer_agent.policy.decision import SEVERITIES, EffectVerdict, Verdict
from humanlayer_agent.policy.flows import Source, Tracing, about_effects, traces
from humanlayer_agent.policy.model import Defaults, Match, Rule
from humanlayer_agent.policy.pathindex import PathIndex
from humanlayer_agent.policy.settled import command_key, effect_key, settled
from humanlayer_agent.policy.values import MAYBE, NO, YES
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.program import Program, SimpleCommand

VERDICTS = {"allow": Verdict.ALLOW, "ask": Verdict.ASK, "deny": Verdict.DENY}
_MAX_FOUND = 4_096
_MAX_ANSWERS = 4_096
_BY_SEVERITY = {name: n for n, name in enumerate(SEVERITIES)}

Set = frozenset[str]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its conditions as closures.

    `by_effect`: it is asked about each effect, not once a command. `about_all`: it is also asked about an action in
    which no command could be seen. `programs` and `kinds`: it can apply to these programs and kinds of effect only
    (None: to any). `clauses` are those of `when`, by name.
    """

    rule: Rule
    layer: str
    verdict: Verdict
    maybe: Verdict
    clauses: tuple[tuple[str, Clause], ...]
    when: Clause
    unless: Clause | None
    by_effect: bool
    about_all: bool
    programs: Set | None
    kinds: Set | None
    index: PathIndex
    """Where its path sets are."""
    allows: EffectVerdict
    """The verdict on an effect that this rule allows."""
    severity: int
    traces: bool = False
    """It asks where data comes from."""
    settled: bool = False
    """Its answer follows from a key (see `settled`)."""

    def judge(self, command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        """no, maybe or yes. An exception to ask or deny must be proven; one to an allow must be ruled out."""
        value = self.when(command, effect, situation)
        if value == NO or self.unless is None:
            return value
        excuse = self.unless(command, effect, situation)
        if self.verdict is Verdict.ALLOW:
            return min(value, YES - excuse)
        return NO if excuse == YES else value

    def concerns(self, program: str | None, kind: str | None) -> bool:
        """Can it apply to this program (None: not known), and to an effect of this kind (None: no effect)?"""
        if self.by_effect is (kind is None) or (kind is not None and self.kinds is not None and kind not in self.kinds):
            return False
        return self.programs is None or program is None or not self.programs.isdisjoint(names_of(program))


def compiled(rule: Rule, layer: str, defaults: Defaults, compiler: Compiler) -> CompiledRule:
    """`rule` of the layer `layer`, ready to judge."""
    clauses = tuple(compiler.clauses(rule.when))
    by_effect = about_effects(rule.when)
    return CompiledRule(
        rule,
        layer,
        VERDICTS[defaults.ask if rule.decision == "ask" else rule.decision],
        VERDICTS[defaults.maybe],
        clauses,
        all_of([clause for _, clause in clauses]),
        compiler.match(rule.unless) if rule.unless is not None else None,
        by_effect,
        _about_all(rule.when),
        _needed(rule.when, "program"),
        _needed(rule.when, "effect"),
        compiler.index,
        EffectVerdict(Verdict.ALLOW, (rule.id,)),
        _BY_SEVERITY[rule.severity],
        traces(rule.when),
        settled(rule, by_effect=by_effect),
    )


@dataclass(slots=True, eq=False)
class Hit:
    """One rule that applies to a command, with the effect it is about. `rule` is None where nothing allows it.

    `source` is where the data comes from that the rule is about.
    """

    verdict: Verdict
    rule: CompiledRule | None
    command: SimpleCommand
    effect: Effect | None
    certain: bool
    source: Source = None


@dataclass(slots=True, eq=False)
class Judged:
    """The hits on one command: on itself, and on each of its effects in order; and the strictest of their verdicts."""

    command: SimpleCommand
    own: list[Hit]
    effects: list[list[Hit]]
    worst: Verdict

    def hits(self) -> list[Hit]:
        """All of them."""
        found = [*self.own]
        for hits in self.effects:
            found += hits
        return found


Answers = tuple[tuple[CompiledRule, int | None], ...]
"""The rules that hold or may hold, with what they say; and those that have yet to be asked (None)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """The rules that can apply to one program, or to one kind of its effects. `keeps`: some of them are settled."""

    rules: tuple[CompiledRule, ...]
    keeps: bool
    asked: Answers


class Rules:
    """The rules of all layers.

    Args:
        rules: in the order in which they are to be named.
        unmatched: the verdict on what no rule of any layer decides.
    """

    def __init__(self, rules: Sequence[CompiledRule], unmatched: Verdict) -> None:
        self.all = tuple(rules)
        self.unmatched = unmatched
        self._plans: dict[tuple[str | None, str | None], _Plan] = {}
        self._answers: dict[tuple[_Plan, Hashable], Answers] = {}
        indices = {id(rule.index): rule.index for rule in self.all}
        self._index = next(iter(indices.values())) if len(indices) == 1 else None

    def judge(self, program: Program, situation: Situation) -> list[Judged]:
        """Every hit, command by command."""
        situation.commands, situation.directories = program.commands, {}
        situation.tracing = Tracing(program)
        return [self.command(command, situation) for command in program.commands]

    def unseen(self, text: str, situation: Situation) -> list[Hit]:
        """What rules about the parse and the agent say of an action in which no command could be seen."""
        blank = SimpleCommand(None, [], (0, len(text)), text, known=False, resolved=False)
        asked = tuple((rule, None) for rule in self.all if rule.about_all and not rule.by_effect)
        return self._hits(asked, blank, None, situation)

    def command(self, command: SimpleCommand, situation: Situation) -> Judged:
        """Every hit on one command: rules that fire, allows that cover, and what nothing covers."""
        own = self._hits(self._about_command(command, situation), command, None, situation)
        if not own and not command.effects:
            own = [self._nothing(command, None)]
        worst = _strictest(own, Verdict.ALLOW)
        effects = []
        for effect in command.effects:
            hits = self._hits(self._about_effect(command, effect, situation), command, effect, situation)
            # A rule without an effect clause allows the command itself, so of its effects only that it runs.
            if not hits and not (_runs_itself(effect) and any(hit.verdict is Verdict.ALLOW for hit in own)):
                hits = [self._nothing(command, effect)]
            worst = _strictest(hits, worst)
            effects.append(hits)
        return Judged(command, own, effects, worst)

    def concerning(self, program: str | None, kind: str | None) -> tuple[CompiledRule, ...]:
        """The rules that can apply."""
        return self._plan(program, kind).rules

    # ---- which rules, and what they say -------------------------------------------------------------

    def _plan(self, program: str | None, kind: str | None) -> _Plan:
        # Names come from commands, so what is remembered of them is bounded.
        key = (program, kind)
        found = self._plans.get(key)
        if found is None:
            rules = tuple(rule for rule in self.all if rule.concerns(program, kind))
            keeps = self._index is not None and any(rule.settled for rule in rules)
            found = _Plan(rules, keeps, tuple((rule, None) for rule in rules))
            if len(self._plans) >= _MAX_FOUND:
                self._plans.clear()
            self._plans[key] = found
        return found

    def _about_command(self, command: SimpleCommand, situation: Situation) -> Answers:
        plan = self._plan(command.program, None)
        if not plan.keeps:
            return plan.asked
        return self._kept(plan, command_key(command), command, None, situation)

    def _about_effect(self, command: SimpleCommand, effect: Effect, situation: Situation) -> Answers:
        plan = self._plan(command.program, effect.kind)
        if not plan.keeps or self._index is None:
            return plan.asked
        key = effect_key(effect, situation, self._index)
        return plan.asked if key is None else self._kept(plan, key, command, effect, situation)

    def _kept(
        self, plan: _Plan, key: Hashable, command: SimpleCommand, effect: Effect | None, situation: Situation
    ) -> Answers:
        found = self._answers.get((plan, key))
        if found is None:
            said = ((r, r.judge(command, effect, situation) if r.settled else None) for r in plan.rules)
            found = tuple((rule, value) for rule, value in said if value != NO)
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            self._answers[plan, key] = found
        return found

    def _hits(
        self, answers: Answers, command: SimpleCommand, effect: Effect | None, situation: Situation
    ) -> list[Hit]:
        hits: list[Hit] = []
        for rule, kept in answers:
            value = rule.judge(command, effect, situation) if kept is None else kept
            if value == NO or (value == MAYBE and rule.verdict is Verdict.ALLOW):
                continue
            source = situation.tracing.source if rule.traces else None
            if value == YES:
                hits.append(Hit(rule.verdict, rule, command, effect, True, source))
            else:
                hits.append(Hit(rule.maybe, rule, command, effect, False, source))
        return hits

    def _nothing(self, command: SimpleCommand, effect: Effect | None) -> Hit:
        return Hit(self.unmatched, None, command, effect, certain=True)


def _strictest(hits: list[Hit], worst: Verdict) -> Verdict:
    for hit in hits:
        if hit.verdict > worst:
            worst = hit.verdict
    return worst


def _runs_itself(effect: Effect) -> bool:
    return effect.kind == "execute" and effect.source == "own" and effect.resolved


def _about_all(match: Match) -> bool:
    inner = (*(match.any or ()), *(match.all or ()), *([match.negated] if match.negated is not None else []))
    return match.parse is not None or match.agent is not None or any(_about_all(m) for m in inner)


def _needed(match: Match, clause: str) -> Set | None:
    """The programs (or the kinds of effect) without which `match` can't hold; None: no such limit."""
    programs = match.program.names if match.program is not None else None
    names = programs if clause == "program" else match.effect
    limits = [] if names is None else [frozenset(names)]
    to = [match.flow.to] if match.flow is not None and match.flow.to is not None else []
    limits += [limit for m in (*(match.all or ()), *to) if (limit := _needed(m, clause)) is not None]
    if match.any is not None:
        either = [_needed(m, clause) for m in match.any]
        sets = [limit for limit in either if limit is not None]
        if len(sets) == len(either):
            limits.append(frozenset().union(*sets))
    return frozenset.intersection(*limits) if limits else None
