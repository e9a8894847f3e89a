"""What the rules say of a program: every hit on every command and effect.

The rules of all layers stand in one list: each brings what an uncertain match means (its policy's `maybe`), and the
allow rules of a layer that may not allow are not among them. Rules are found by the program and by the kind of effect,
so that a command meets only rules that can apply to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.clauses import Clause, Compiler, Situation, all_of, names_of
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.model import Defaults, Match, Rule
from humanlayer_agent.policy.values import MAYBE, NO, YES
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.program import Program, SimpleCommand

VERDICTS = {"allow": Verdict.ALLOW, "ask": Verdict.ASK, "deny": Verdict.DENY}
_MAX_FOUND = 4_096

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
    return CompiledRule(
        rule,
        layer,
        VERDICTS[defaults.ask if rule.decision == "ask" else rule.decision],
        VERDICTS[defaults.maybe],
        clauses,
        all_of([clause for _, clause in clauses]),
        compiler.match(rule.unless) if rule.unless is not None else None,
        about_effects(rule.when),
        _about_all(rule.when),
        _needed(rule.when, "program"),
        _needed(rule.when, "effect"),
    )


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule that applies to a command, with the effect it is about. `rule` is None where nothing allows it."""

    verdict: Verdict
    rule: CompiledRule | None
    command: SimpleCommand
    effect: Effect | None
    certain: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """The hits on one command: on itself, and on each of its effects in order."""

    command: SimpleCommand
    own: list[Hit]
    effects: list[list[Hit]]

    def hits(self) -> list[Hit]:
        """All of them."""
        return [*self.own, *(hit for hits in self.effects for hit in hits)]


class Rules:
    """The rules of all layers.

    Args:
        rules: in the order in which they are to be named.
        unmatched: the verdict on what no rule of any layer decides.
    """

    def __init__(self, rules: Sequence[CompiledRule], unmatched: Verdict) -> None:
        self.all = tuple(rules)
        self.unmatched = unmatched
        self._found: dict[tuple[str | None, str | None], tuple[CompiledRule, ...]] = {}

    def judge(self, program: Program, situation: Situation) -> list[Judged]:
        """Every hit, command by command."""
        return [self.command(command, situation) for command in program.commands]

    def unseen(self, text: str, situation: Situation) -> list[Hit]:
        """What rules about the parse and the agent say of an action in which no command could be seen."""
        blank = SimpleCommand(None, [], (0, len(text)), text, known=False, resolved=False)
        found = (self._hit(r, blank, None, situation) for r in self.all if r.about_all and not r.by_effect)
        return [hit for hit in found if hit is not None]

    def command(self, command: SimpleCommand, situation: Situation) -> Judged:
        """Every hit on one command: rules that fire, allows that cover, and what nothing covers."""
        own = self._hits(self.concerning(command.program, None), command, None, situation)
        if not command.effects:
            return Judged(command, own or [self._nothing(command, None)], [])
        covered = any(hit.verdict is Verdict.ALLOW for hit in own)
        effects = []
        for effect in command.effects:
            hits = self._hits(self.concerning(command.program, effect.kind), command, effect, situation)
            # A rule without an effect clause allows the command itself, so of its effects only that it runs.
            itself = covered and effect.kind == "execute" and effect.source == "own" and effect.resolved
            effects.append(hits if hits or itself else [self._nothing(command, effect)])
        return Judged(command, own, effects)

    def _hits(
        self, rules: Iterable[CompiledRule], command: SimpleCommand, effect: Effect | None, situation: Situation
    ) -> list[Hit]:
        found = (self._hit(rule, command, effect, situation) for rule in rules)
        return [hit for hit in found if hit is not None]

    def _hit(
        self, rule: CompiledRule, command: SimpleCommand, effect: Effect | None, situation: Situation
    ) -> Hit | None:
        value = rule.judge(command, effect, situation)
        if value == NO or (value == MAYBE and rule.verdict is Verdict.ALLOW):
            return None
        if value == YES:
            return Hit(rule.verdict, rule, command, effect, certain=True)
        return Hit(rule.maybe, rule, command, effect, certain=False)

    def _nothing(self, command: SimpleCommand, effect: Effect | None) -> Hit:
        return Hit(self.unmatched, None, command, effect, certain=True)

    def concerning(self, program: str | None, kind: str | None) -> tuple[CompiledRule, ...]:
        """The rules that can apply. Names come from commands, so what is remembered of them is bounded."""
        key = (program, kind)
        found = self._found.get(key)
        if found is None:
            found = tuple(rule for rule in self.all if rule.concerns(program, kind))
            if len(self._found) >= _MAX_FOUND:
                self._found.clear()
            self._found[key] = found
        return found


def about_effects(match: Match) -> bool:
    """Is a rule with this condition asked about each effect?"""
    return match.effect is not None or any(about_effects(m) for m in (*(match.any or ()), *(match.all or ())))


def _about_all(match: Match) -> bool:
    inner = (*(match.any or ()), *(match.all or ()), *([match.negated] if match.negated is not None else []))
    return match.parse is not None or match.agent is not None or any(_about_all(m) for m in inner)


def _needed(match: Match, clause: str) -> Set | None:
    """The programs (or the kinds of effect) without which `match` can't hold; None: no such limit."""
    programs = match.program.names if match.program is not None else None
    names = programs if clause == "program" else match.effect
    limits = [] if names is None else [frozenset(names)]
    limits += [limit for m in match.all or () if (limit := _needed(m, clause)) is not None]
    if match.any is not None:
        either = [_needed(m, clause) for m in match.any]
        sets = [limit for limit in either if limit is not None]
        if len(sets) == len(either):
            limits.append(frozenset().union(*sets))
    return frozenset.intersection(*limits) if limits else None
