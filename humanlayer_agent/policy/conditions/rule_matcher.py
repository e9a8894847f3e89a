"""A rule with its conditions as closures, and what it can apply to."""

from collections.abc import Sequence
from dataclasses import dataclass

from humanlayer_agent.confine.confinement import Profile
from humanlayer_agent.policy.conditions import private_programs, variable_uses
from humanlayer_agent.policy.conditions.compiler import Clause, Compiler, Situation, all_of, is_about_file, names_of
from humanlayer_agent.policy.conditions.dataflow import about_effects, traces
from humanlayer_agent.policy.conditions.kleene import NO, YES
from humanlayer_agent.policy.decision import SEVERITIES, EffectVerdict, Verdict
from humanlayer_agent.policy.language.policy import Defaults, Match, Rule, RuleException
from humanlayer_agent.shell import Effect, SimpleCommand

VERDICTS = {"allow": Verdict.ALLOW, "ask": Verdict.ASK, "deny": Verdict.DENY}
_BY_SEVERITY = {name: n for n, name in enumerate(SEVERITIES)}

Set = frozenset[str]


@dataclass(frozen=True, slots=True)
class Excuse:
    """Something that excuses from a rule that asks or denies, where it holds for certain: an exception, or (`by` is a
    rule) an allow of a program that nobody knows.
    """

    by: RuleException | Rule
    layer: str
    clause: Clause

    def words(self) -> str:
        """Say what excuses and why, as the end of a sentence."""
        by = self.by
        if isinstance(by, Rule):
            return f"by {by.id}, which allows the program, whatever it does ({by.origin})"
        return f"until {by.expires} by the exception {by.origin}: {by.reason}"


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its conditions as closures.

    `by_effect`: it is asked about each effect, not once a command. `about_all`: it is also asked about an action in
    which no command could be seen. `programs`, `kinds` and `roles`: it can apply to these programs, kinds and roles of
    effect only (None: to any); `about_files`: to effects on files only. `clauses` are those of `when`, by name.
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
    roles: Set | None
    about_files: bool
    allows: EffectVerdict
    """The verdict on an effect that this rule allows."""
    severity: int
    traces: bool = False
    """It asks where data comes from."""
    uses: tuple[Clause, ...] = ()
    """The conditions by which it means uses of variables (see `variable_uses`)."""
    confined: Profile | None = None
    """It allows what runs confined to this."""
    approved: Profile | None = None
    """What it asks about runs confined to this, once it was approved."""
    excuses: tuple[Excuse, ...] = ()
    """What excuses from it, besides its own `unless`."""

    def judge(self, command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        """no, maybe or yes. An exception to ask or deny must be proven; one to an allow must be ruled out."""
        value = self.when(command, effect, situation)
        if value == NO or (situation.confinement is None and self.rule.only_confined):
            return NO
        if self.unless is not None:
            excuse = self.unless(command, effect, situation)
            allows = self.verdict_in(situation) is Verdict.ALLOW
            value = min(value, YES - excuse) if allows else NO if excuse == YES else value
        if value != NO and self.excuses and self.excuse(command, effect, situation) is not None:
            return NO
        return value

    def excuse(self, command: SimpleCommand, effect: Effect | None, situation: Situation) -> Excuse | None:
        """Return what excuses this from the rule, besides its `unless`. What it would allow, because it runs confined,
        needs no excuse.
        """
        if not situation.excusing or self.verdict_in(situation) is Verdict.ALLOW:
            return None
        return next((each for each in self.excuses if each.clause(command, effect, situation) == YES), None)

    def excusing(self, command: SimpleCommand, effect: Effect | None, situation: Situation) -> Excuse | None:
        """Return the excuse but for which it would apply; None where it applies, or would not without it either."""
        if not self.excuses or self.when(command, effect, situation) == NO:
            return None
        if self.unless is not None and self.unless(command, effect, situation) == YES:
            return None
        return self.excuse(command, effect, situation)

    def verdict_in(self, situation: Situation) -> Verdict:
        """Return its verdict: what it would ask about, it allows where it can be confined as the rule says."""
        return Verdict.ALLOW if self.confined is not None and situation.confinement is not None else self.verdict

    def concerns(self, program: str | None, kind: str | None) -> bool:
        """Tell whether it can apply to this program (None: not known), and to an effect of this kind (None: no
        effect).
        """
        if self.by_effect is (kind is None) or (kind is not None and self.kinds is not None and kind not in self.kinds):
            return False
        return self.programs is None or program is None or not self.programs.isdisjoint(names_of(program))

    def fits(self, effect: Effect) -> bool:
        """Tell whether it can apply to an effect of this role, on a file or on something else."""
        return (self.roles is None or effect.role in self.roles) and (not self.about_files or is_about_file(effect))


def compiled(
    rule: Rule,
    layer: str,
    defaults: Defaults,
    compiler: Compiler,
    confined: Profile | None = None,
    approved: Profile | None = None,
    excuses: Sequence[Excuse] = (),
) -> CompiledRule:
    """`rule` of the layer `layer`, ready to judge; `confined`, `approved`: what it names by these keys, where the layer
    may allow; `excuses`: the exceptions to it.
    """
    allows = rule.decision == "allow"
    clauses = tuple(compiler.clauses(rule.when, excuses=allows))
    if private_programs.vouches(rule):
        clauses = tuple(
            (name, private_programs.clause(rule, compiler) if name == "unread" else c) for name, c in clauses
        )
    return CompiledRule(
        rule,
        layer,
        VERDICTS[defaults.ask if rule.decision == "ask" else rule.decision],
        VERDICTS[defaults.maybe],
        clauses,
        all_of([clause for _, clause in clauses]),
        compiler.match(rule.unless, excuses=not allows) if rule.unless is not None else None,
        about_effects(rule.when),
        _about_all(rule.when),
        _needed(rule.when, "program"),
        _needed(rule.when, "effect"),
        _needed(rule.when, "role"),
        _needs_file(rule.when),
        EffectVerdict(Verdict.ALLOW, (rule.id,)),
        _BY_SEVERITY[rule.severity],
        traces(rule.when),
        _uses(rule, compiler, excuses),
        confined,
        approved,
        tuple(excuses),
    )


def _uses(rule: Rule, compiler: Compiler, excuses: Sequence[Excuse]) -> tuple[Clause, ...]:
    if rule.decision == "allow":  # what is only used needs no allow
        return ()
    found = [compiler.match(source) for source in variable_uses.sources(rule.when)]
    naming = variable_uses.naming(rule.when)
    if naming is not None:
        when = compiler.match(naming)
        unless = compiler.match(rule.unless, excuses=True) if rule.unless is not None else None

        def named(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
            if unless is not None and unless(command, effect, situation) == YES:
                return NO
            if situation.excusing and any(each.clause(command, effect, situation) == YES for each in excuses):
                return NO
            return when(command, effect, situation)

        found.append(named)
    return tuple(found)


def _about_all(match: Match) -> bool:
    inner = (*(match.any or ()), *(match.all or ()), *([match.negated] if match.negated is not None else []))
    about = match.parse, match.agent, match.requester, match.tool, match.time, match.limit
    return any(each is not None for each in about) or any(_about_all(m) for m in inner)


def _needed(match: Match, clause: str) -> Set | None:
    """The programs (or the kinds, or the roles, of an effect) without which `match` can't hold; None: no such limit."""
    programs = match.program.names if match.program is not None else None
    names = {"program": programs, "effect": match.effect, "role": match.role}[clause]
    limits = [] if names is None else [frozenset(names)]
    to = [match.flow.to] if match.flow is not None and match.flow.to is not None else []
    limits += [limit for m in (*(match.all or ()), *to) if (limit := _needed(m, clause)) is not None]
    if match.any is not None:
        either = [_needed(m, clause) for m in match.any]
        sets = [limit for limit in either if limit is not None]
        if len(sets) == len(either):
            limits.append(frozenset().union(*sets))
    return frozenset.intersection(*limits) if limits else None


def _needs_file(match: Match) -> bool:
    """Tell whether `match` can hold of no effect but one on a file."""
    paths = match.paths
    if paths is not None and any(each is not None for each in (paths.any, paths.all, paths.none, paths.contents_of)):
        return True
    to = [match.flow.to] if match.flow is not None and match.flow.to is not None else []
    return any(map(_needs_file, (*(match.all or ()), *to))) or bool(match.any and all(map(_needs_file, match.any)))
