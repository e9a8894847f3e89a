"""What the rules say of a program: every hit on every command and effect.

The rules of all layers stand in one list: each brings what an uncertain match means (its policy's `maybe`), and the
allow rules of a layer that may not allow are not among them. Rules are found by the program and by the kind of effect,
so that a command meets only rules that can apply to it; and where their answers follow from a key, they are kept by it
(see `settled`), for each effect, and as a whole for the commands that are allowed, which most are.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.conditions import variable_uses
from humanlayer_agent.policy.conditions.answer_cache import command_key, effect_key
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.dataflow import Source, Tracing
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.rule_matcher import VERDICTS, CompiledRule, compiled
from humanlayer_agent.policy.decision import EffectVerdict, Verdict
from humanlayer_agent.shell.program import Effect, Program, SimpleCommand

__all__ = ["VERDICTS", "Cleared", "CompiledRule", "Hit", "Judged", "Rules", "compiled"]

_MAX_FOUND = 4_096
_MAX_ANSWERS = 4_096
_MAX_EFFECTS = 64
"""A command with more effects is judged effect by effect."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Cleared:
    """A command that rules allow as a whole, whichever it is: those about it, and those about each of its effects.

    `named` are the ids of all of them, `verdicts` what is said of each effect. All that holds as long as the rules in
    `asked`, which have to be asked each time, say no: each with the number of the effect (-1: the command itself).
    """

    own: tuple[CompiledRule, ...]
    effects: tuple[tuple[CompiledRule, ...], ...]
    named: tuple[str, ...]
    verdicts: tuple[EffectVerdict, ...]
    asked: tuple[tuple[CompiledRule, int], ...]

    def rules(self) -> list[CompiledRule]:
        """All of them, in the order of the hits."""
        found = [*self.own]
        for rules in self.effects:
            found += rules
        return found


class Judged:
    """The hits on one command: on itself, and on each of its effects in order; and the strictest of their verdicts.

    Where the command was `cleared`, the hits are made when somebody asks for them.
    """

    __slots__ = ("_effects", "_own", "cleared", "command", "worst")

    def __init__(
        self,
        command: SimpleCommand,
        worst: Verdict,
        cleared: Cleared | None,
        own: list[Hit] | None = None,
        effects: list[list[Hit]] | None = None,
    ) -> None:
        self.command, self.worst, self.cleared = command, worst, cleared
        self._own, self._effects = own, effects

    @property
    def own(self) -> list[Hit]:
        """On the command itself."""
        if self._own is None:
            self._own = self._allowing(self.cleared.own if self.cleared is not None else (), None)
        return self._own

    @property
    def effects(self) -> list[list[Hit]]:
        """On each effect."""
        if self._effects is None:
            rules = self.cleared.effects if self.cleared is not None else ()
            self._effects = [self._allowing(*pair) for pair in zip(rules, self.command.effects, strict=True)]
        return self._effects

    def hits(self) -> list[Hit]:
        """All of them."""
        found = [*self.own]
        for hits in self.effects:
            found += hits
        return found

    def _allowing(self, rules: Sequence[CompiledRule], effect: Effect | None) -> list[Hit]:
        return [Hit(Verdict.ALLOW, rule, self.command, effect, certain=True) for rule in rules]


Keys = tuple[tuple[str, str, Hashable], ...]
"""Of each effect of a command: its kind, its source, and its `effect_key`."""
Answers = tuple[tuple[CompiledRule, int | None], ...]
"""The rules that hold or may hold, with what they say; and those that have yet to be asked (None)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """The rules that can apply to one program, or to one kind of its effects.

    `keeps`: a key tells something of some of them.
    """

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
        self._cleared: dict[Hashable, Cleared | None] = {}
        indices = {id(rule.index): rule.index for rule in self.all}
        self._uses = [clause for rule in self.all for clause in rule.uses]
        self._index = next(iter(indices.values())) if len(indices) == 1 else None

    def judge(self, program: Program, situation: Situation) -> list[Judged]:
        """Every hit, command by command; what is only the head of a loop counts where it has an effect."""
        situation.commands, situation.directories = program.commands, {}
        if situation.tracing.program is not None:
            situation.tracing = Tracing()
        program = variable_uses.with_effects(program, self._uses, situation)
        situation.commands, situation.directories = program.commands, {}
        situation.tracing.program = program
        commands = [command for command in program.commands if command.effects or not command.head]
        return [self.command(command, situation) for command in commands]

    def unseen(self, text: str, situation: Situation) -> list[Hit]:
        """What rules about the parse and the agent say of an action in which no command could be seen."""
        blank = SimpleCommand(None, [], (0, len(text)), text, known=False, resolved=False)
        asked = tuple((rule, None) for rule in self.all if rule.about_all and not rule.by_effect)
        return self._hits(asked, blank, None, situation)

    def command(self, command: SimpleCommand, situation: Situation) -> Judged:
        """Every hit on one command: rules that fire, allows that cover, and what nothing covers."""
        keys = self._keys(command, situation)
        if keys is None:
            return self._each(command, situation)
        key = command.program, command.resolved, keys
        try:
            cleared = self._cleared[key]
        except KeyError:
            cleared = self._clear(command, situation, keys)
            if len(self._cleared) >= _MAX_ANSWERS:
                self._cleared.clear()
            self._cleared[key] = cleared
        if cleared is None or (cleared.asked and _any_says(cleared.asked, command, situation)):
            return self._each(command, situation, keys)
        return Judged(command, Verdict.ALLOW, cleared)

    def _each(self, command: SimpleCommand, situation: Situation, keys: Keys | None = None) -> Judged:
        own = self._hits(self._about_command(command, situation), command, None, situation)
        if not own and not command.effects:
            own = [self._nothing(command, None)]
        worst = _strictest(own, Verdict.ALLOW)
        effects = []
        for n, effect in enumerate(command.effects):
            asked = self._about_effect(command, effect, situation, keys[n][2] if keys is not None else None)
            hits = self._hits(asked, command, effect, situation)
            # A rule without an effect clause allows the command itself, so of its effects only that it runs.
            if not hits and not (_runs_itself(effect) and any(hit.verdict is Verdict.ALLOW for hit in own)):
                hits = [self._nothing(command, effect)]
            worst = _strictest(hits, worst)
            effects.append(hits)
        return Judged(command, worst, None, own, effects)

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
            keeps = self._index is not None and any(rule.settled or rule.ahead is not None for rule in rules)
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

    def _about_effect(
        self, command: SimpleCommand, effect: Effect, situation: Situation, key: Hashable | None = None
    ) -> Answers:
        """`key`: what `effect_key` gives, where that was asked before."""
        plan = self._plan(command.program, effect.kind)
        if not plan.keeps or self._index is None:
            return plan.asked
        if key is None:
            key = effect_key(effect, situation, self._index)
        return plan.asked if key is None else self._kept(plan, key, command, effect, situation)

    def _keys(self, command: SimpleCommand, situation: Situation) -> Keys | None:
        """All that the settled rules about the effects of `command` ask; None where it can't be kept."""
        effects = command.effects
        if self._index is None or len(effects) > _MAX_EFFECTS:
            return None
        keys = []
        for effect in effects:
            key = effect_key(effect, situation, self._index)
            if key is None:
                return None
            keys.append((effect.kind, effect.source, key))
        return tuple(keys)

    def _clear(self, command: SimpleCommand, situation: Situation, keys: Keys) -> Cleared | None:
        """How settled rules allow all of `command`; None where others say anything, or something is not allowed."""
        answers = [self._about_command(command, situation)]
        pairs = zip(command.effects, keys, strict=True)
        answers += [self._about_effect(command, effect, situation, key) for effect, (_, _, key) in pairs]
        asked = tuple([(rule, n) for n, each in enumerate(answers, -1) for rule, value in each if value is None])
        judged = self._each(command, situation, keys)
        if judged.worst is not Verdict.ALLOW or any(hit.rule is None for hit in judged.hits()):
            return None
        if _any_says(asked, command, situation):
            return None
        own, *effects = (tuple(h.rule for h in hits if h.rule is not None) for hits in (judged.own, *judged.effects))
        verdicts = (EffectVerdict(Verdict.ALLOW, _ids(rules or own)) for rules in effects)
        named = _ids([*own, *(r for rules in effects for r in rules)])
        return Cleared(own, tuple(effects), named, tuple(verdicts), asked)

    def _kept(
        self, plan: _Plan, key: Hashable, command: SimpleCommand, effect: Effect | None, situation: Situation
    ) -> Answers:
        found = self._answers.get((plan, key))
        if found is None:
            said = [(rule, rule.beforehand(command, effect, situation)) for rule in plan.rules]
            found = tuple([(rule, value) for rule, value in said if value != NO])
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            self._answers[plan, key] = found
        return found

    def _hits(self, answers: Answers, command: SimpleCommand, effect: Effect | None, situation: Situation) -> list[Hit]:
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


def _any_says(asked: tuple[tuple[CompiledRule, int], ...], command: SimpleCommand, situation: Situation) -> bool:
    """Does any of these rules say anything but no?"""
    return any(rule.judge(command, command.effects[n] if n >= 0 else None, situation) != NO for rule, n in asked)


def _ids(rules: Sequence[CompiledRule]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rule.rule.id for rule in rules))


def _runs_itself(effect: Effect) -> bool:
    return effect.kind == "execute" and effect.source == "own" and effect.resolved
