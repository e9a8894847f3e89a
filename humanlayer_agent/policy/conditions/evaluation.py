"""Judges a program by the rules: each rule that can concern a command or an effect is asked, no, maybe or yes.

- A deny or an ask fires on yes. On maybe it becomes what its policy says of doubt (`maybe`).
- An allow covers what it is asked about on yes only.
- What no rule says anything about gets the verdict `unmatched`.
- The strictest verdict wins: over the rules, the effects and the commands.

The rules of all layers stand in one list; the allow rules of a layer that may not allow are not among them. Nothing
that is said here is remembered: every action is judged by what it does, and by where links lead, at that moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from humanlayer_agent.action import FUNCTION
from humanlayer_agent.confine.confinement import Bounds, Confinement, Profile
from humanlayer_agent.policy.conditions import containment, private_programs, tool_calls, variable_uses
from humanlayer_agent.policy.conditions.circumstances import Counter
from humanlayer_agent.policy.conditions.compiler import Situation, is_about_file, names_of
from humanlayer_agent.policy.conditions.dataflow import Source, Tracing
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.rule_matcher import VERDICTS, CompiledRule, Excuse, compiled
from humanlayer_agent.policy.decision import SEVERITIES, Count, Verdict
from humanlayer_agent.shell import Effect, Program, SimpleCommand

__all__ = ["VERDICTS", "CompiledRule", "Hit", "Judged", "Rules", "compiled", "strictest"]

_USUAL = Bounds()


@dataclass(slots=True, eq=False)
class Hit:
    """One rule that applies to a command, with the effect it is about. `rule` is None where nothing allows it.

    `source` is where the data comes from that the rule is about; `excuse`, what keeps it from applying.
    """

    verdict: Verdict
    rule: CompiledRule | None
    command: SimpleCommand
    effect: Effect | None
    certain: bool
    source: Source = None
    excuse: Excuse | None = None


@dataclass(slots=True, eq=False)
class Judged:
    """The hits on one command: on itself, and on each of its effects in order.

    `excused` are those that there would be without an exception.
    """

    command: SimpleCommand
    own: list[Hit]
    effects: list[list[Hit]]
    excused: list[Hit] = field(default_factory=list)

    def hits(self) -> list[Hit]:
        """All of them."""
        found = [*self.own]
        for hits in self.effects:
            found += hits
        return found


class Rules:
    """The rules of all layers.

    Args:
        rules: in the order in which they are to be named.
        unmatched: the verdict on what no rule of any layer decides.
        confine: what allowed commands are confined to where the rules that allow them name nothing else; None where
            nothing is.
        keep: how much of a project is kept before what nobody knows runs confined.
        counters: what is counted for the limits of the rules.
        undo: what every command replaces is kept.
    """

    def __init__(
        self,
        rules: Sequence[CompiledRule],
        unmatched: Verdict,
        confine: Profile | None = None,
        keep: Bounds = _USUAL,
        counters: Sequence[Counter] = (),
        undo: bool = False,
    ) -> None:
        self.all = tuple(rules)
        self.unmatched = unmatched
        self.confine = confine
        self.keep = keep
        self.undo = undo
        self.counters = tuple({each.name: each for each in counters}.values())
        self._named = frozenset[str]().union(*(rule.programs for rule in self.all if rule.programs is not None))
        self._concerning: dict[tuple[str | None, tuple[str, ...] | None], tuple[CompiledRule, ...]] = {}
        self._fitting: dict[tuple[tuple[str, ...] | None, str, str, bool], tuple[CompiledRule, ...]] = {}
        git = (rule.confined for rule in self.concerning("git", "metadata") if rule.confined is not None)
        self.protection = containment.Protection(list(dict.fromkeys(git)) or ([confine] if confine is not None else []))
        """What no command of git's can change that runs confined."""
        self._uses = [clause for rule in self.all for clause in rule.uses]

    def judge(self, program: Program, situation: Situation) -> list[Judged]:
        """Every hit, command by command; what is only the head of a loop counts where it has an effect.

        Where what is allowed will be confined, `situation.confinement` says afterwards to what, and
        `situation.approved` says it of what a human approves.
        """
        situation.excusing = True
        if not situation.confinable or self.confine is None:
            return self._judge(program, situation)
        if situation.container is not None:
            situation.confinement = situation.container
            judged = self._judge(program, situation)
            situation.approved = situation.container
            return judged
        return self._judge_confined(program, situation, self.confine)

    def _judge(self, program: Program, situation: Situation) -> list[Judged]:
        held = containment.impossible(program, situation.confinement, situation.approved)
        program = containment.without(program, held)
        situation.commands, situation.directories, situation.tallies = program.commands, {}, {}
        if situation.tracing.program is not None:
            situation.tracing = Tracing()
        program = variable_uses.with_effects(program, self._uses, situation)
        situation.commands, situation.directories, situation.tallies = program.commands, {}, {}
        situation.tracing.program = program
        return [
            self.command(command, situation, effects)
            for command, effects in zip(program.commands, held, strict=True)
            if command.effects or not command.head
        ]

    def _judge_confined(self, program: Program, situation: Situation, confine: Profile) -> list[Judged]:
        """All commands of an action run in one confinement: what one of them opens, the others reach too. So they are
        judged until the confinement is one that holds all that they were judged by.
        """
        held = [default := containment.situated(confine)]
        while True:
            situation.confinement, situation.approved, situation.tracing = Confinement(tuple(held)), None, Tracing()
            judged = self._judge(program, situation)
            wanted = list(dict.fromkeys(each for command in judged for each in _confined(command) or [default]))
            if all(each in held for each in wanted):
                situation.confinement = Confinement(tuple(wanted or [default]))
                judged = self._with_hosts(program, situation, situation.confinement, judged)
                if any(each.excused for each in judged):
                    return self._judge_excused(program, situation, judged, confine)
                situation.approved = containment.widened(
                    situation.confinement, judged, situation.links.view, situation.catalog
                )
                return self._judge_approved(program, situation, judged)
            held += [each for each in wanted if each not in held]

    def _with_hosts(
        self, program: Program, situation: Situation, held: Confinement, judged: list[Judged]
    ) -> list[Judged]:
        """Open the hosts that are allowed by name, where everything is allowed then still: what one command can reach,
        the others can too. Where it is not, none is opened.
        """
        hosts = containment.allowed_hosts(judged)
        if hosts is None or not _allowed(judged):
            return judged
        before = situation.tracing
        situation.confinement, situation.tracing = Confinement((*held.profiles, hosts)), Tracing()
        again = self._judge(program, situation)
        wanted = {each for command in again for each in _confined(command)}
        if _allowed(again) and wanted <= set(held.profiles):
            return again
        situation.confinement, situation.tracing = held, before
        return judged

    def _judge_excused(
        self, program: Program, situation: Situation, judged: list[Judged], confine: Profile
    ) -> list[Judged]:
        """What exceptions excuse runs as if a human had approved it: in what the rules say by `approved`, with what
        they ask about open, or unconfined. Everything has to be known, and allowed then too, for what one command can
        reach, the others can. Where it is not, nothing is excused: a human is told of all that would be opened.
        """
        held = situation.confinement
        assert held is not None
        asked = [Judged(each.command, each.excused, each.effects) for each in judged]
        opened = containment.widened(held, asked, situation.links.view, situation.catalog)
        if opened == held and _allowed(judged):
            situation.approved = held
            return judged
        if containment.is_known(judged) and _allowed(judged):
            situation.confinement = situation.approved = opened
            situation.tracing = Tracing()
            again = self._judge(program, situation)
            wanted = {each for command in again for each in _confined(command)}
            if _allowed(again) and wanted <= set(opened.profiles if opened is not None else ()):
                return again
        situation.excusing = False
        return self._judge_confined(program, situation, confine)

    def _judge_approved(self, program: Program, situation: Situation, judged: list[Judged]) -> list[Judged]:
        """What a human is asked to open, they are told of wherever it is known that it may be used."""
        held, approved = situation.confinement, situation.approved
        asked = strictest([hit for each in judged for hit in each.hits()]) is Verdict.ASK
        if not asked or held is None or approved is None or approved.network == held.network:
            return judged
        again = self._judge(program, situation)
        situation.approved = containment.widened(held, again, situation.links.view, situation.catalog)
        return again

    def counts(self, situation: Situation) -> tuple[Count, ...]:
        """Return what an action that was judged in this situation adds to what is counted."""
        added = [Count(c.name, c.tally(situation).seen, _bounds(c.name, situation)) for c in self.counters]
        return tuple([each for each in added if each.amount or each.within])

    def command(self, command: SimpleCommand, situation: Situation, held: Sequence[Effect] = ()) -> Judged:
        """Every hit on one command: rules that fire, allows that cover, and what nothing covers.

        Args:
            held: effects that it can't have. Where nothing else is left of it, what allows all of them allows it.
        """
        excused: list[Hit] = []
        own = self._hits(self.concerning(command.program, None), command, None, situation, excused)
        if not own and not command.effects:
            own = self._allowing(held, command, situation) or [Hit(self.unmatched, None, command, None, certain=True)]
        # A rule without an effect clause allows the command itself, so of its effects only that it runs; one that names
        # a tool allows its call, since what runs by it is known by other effects, or not at all.
        allowing = [hit.rule.rule for hit in own if hit.rule is not None and hit.verdict is Verdict.ALLOW]
        by_tool = [tool_calls.is_needed(rule.when) for rule in allowing]
        calls, runs = any(by_tool), not all(by_tool)
        unread = private_programs.own(command) if any(private_programs.vouches(rule) for rule in allowing) else None
        effects = []
        for effect in command.effects:
            hits = self._hits(self.fitting(command.program, effect), command, effect, situation, excused)
            covered = (runs and (effect is unread or _runs_itself(effect))) or (calls and effect.role == FUNCTION)
            if not hits and not covered:
                hits = [Hit(self.unmatched, None, command, effect, certain=True)]
            effects.append(hits)
        return Judged(command, own, effects, excused)

    def _allowing(self, effects: Sequence[Effect], command: SimpleCommand, situation: Situation) -> list[Hit]:
        """The allows that cover all of `effects`; none where one of them is not covered."""
        found: list[Hit] = []
        for effect in effects:
            hits = self._hits(self.fitting(command.program, effect), command, effect, situation)
            allowing = [hit for hit in hits if hit.verdict is Verdict.ALLOW]
            if not allowing:
                return []
            found += allowing
        return found

    def unseen(self, text: str, situation: Situation) -> list[Hit]:
        """Return the hits of rules about the parse and the agent on an action in which no command could be seen."""
        blank = SimpleCommand(None, [], (0, len(text)), text, known=False, resolved=False)
        asked = [rule for rule in self.all if rule.about_all and not rule.by_effect]
        return self._hits(asked, blank, None, situation)

    def concerning(self, program: str | None, kind: str | None) -> tuple[CompiledRule, ...]:
        """The rules that can apply to a program (None: not known), or to effects of this kind that it has."""
        names = self._names(program)
        found = self._concerning.get((kind, names))
        if found is None:
            found = tuple([rule for rule in self.all if rule.concerns(program, kind)])
            self._concerning[kind, names] = found
        return found

    def fitting(self, program: str | None, effect: Effect) -> tuple[CompiledRule, ...]:
        """Those of them that can apply to an effect of this role, on a file or on something else."""
        key = self._names(program), effect.kind, effect.role, is_about_file(effect)
        found = self._fitting.get(key)
        if found is None:
            found = tuple([rule for rule in self.concerning(program, effect.kind) if rule.fits(effect)])
            self._fitting[key] = found
        return found

    def _names(self, program: str | None) -> tuple[str, ...] | None:
        """No rule tells programs apart that none names, so that there are few sets of rules."""
        return None if program is None else tuple([name for name in names_of(program) if name in self._named])

    def _hits(
        self,
        rules: Sequence[CompiledRule],
        command: SimpleCommand,
        effect: Effect | None,
        situation: Situation,
        excused: list[Hit] | None = None,
    ) -> list[Hit]:
        hits: list[Hit] = []
        for rule in rules:
            value = rule.judge(command, effect, situation)
            if value == NO and not rule.excuses:
                continue
            verdict = rule.verdict_in(situation)
            if value == NO or (value == MAYBE and verdict is Verdict.ALLOW):
                if excused is not None and (excuse := rule.excusing(command, effect, situation)) is not None:
                    excused.append(Hit(Verdict.ASK, rule, command, effect, certain=True, excuse=excuse))
                continue
            source = situation.tracing.source if rule.traces else None
            hits.append(Hit(verdict if value == YES else rule.maybe, rule, command, effect, value == YES, source))
        return hits


def _bounds(counter: str, situation: Situation) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((per, most) for name, per, most in situation.bounds if name == counter))


def _confined(judged: Judged) -> list[Profile]:
    """What the rules that allow a command confine it to."""
    rules = [hit.rule for hit in judged.hits() if hit.rule is not None and hit.verdict is Verdict.ALLOW]
    return [containment.situated(rule.confined) for rule in rules if rule.confined is not None]


def _allowed(judged: Sequence[Judged]) -> bool:
    return strictest([hit for each in judged for hit in each.hits()]) is Verdict.ALLOW


def strictest(hits: Sequence[Hit]) -> Verdict:
    """Return the strictest verdict of `hits`; an allow where there are none."""
    return max([hit.verdict for hit in hits], default=Verdict.ALLOW)


def severest(hits: Sequence[Hit]) -> str:
    """Return the highest severity of `hits`, of which there is one; that no rule allows something is "medium"."""
    medium = SEVERITIES.index("medium")
    return SEVERITIES[max(hit.rule.severity if hit.rule is not None else medium for hit in hits)]


def _runs_itself(effect: Effect) -> bool:
    return effect.kind == "execute" and effect.source == "own" and effect.resolved
