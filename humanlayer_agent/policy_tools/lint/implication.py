"""Proofs about conditions: one covers another; one can never hold.

A proof looks at how conditions are written, never at commands, so it holds for every command there is. What it can't
show may still be so: "no" means "not shown". Conditions are three-valued, so `a` covers `b` where `a` is never less
sure than `b`. Every comparison below keeps to that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from humanlayer_agent.policy.conditions.compiler import FILE_KINDS, Compiler
from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.conditions.operand_names import OF_VALUES
from humanlayer_agent.policy.conditions.path_patterns import fill
from humanlayer_agent.policy.conditions.word_patterns import has_star
from humanlayer_agent.policy.decision import SEVERITIES, Verdict
from humanlayer_agent.policy.language.policy import (
    Among,
    Effects,
    Environment,
    Flags,
    Flow,
    Limit,
    Match,
    Operands,
    Paths,
    Program,
    Sql,
    Texts,
    Tool,
)

MAX_STEPS = 2_000
"""Beyond this nothing is shown."""

_COMMAND_CLAUSES = frozenset(
    str.split(
        "program subcommand flags options attributes operands argv effects via inside parse agent tool "
        "time requester repo limit"
    )
)
"""Clauses that say the same of a command and of each of its effects."""

_OF_ANY = frozenset({"paths", "hosts", "names", "env", "role", "recursive", "unread"})
"""Clauses that hold of a command where they hold of any of its effects (of the first three: their `any` keys)."""


Expand = Callable[[Sequence[str]], Sequence[str]]


class Exhausted(Exception):
    """Too many cases: nothing is shown."""


@dataclass(frozen=True, slots=True)
class Side:
    """A condition, with what its lists and variables stand for. `by_effect`: it is asked of each effect."""

    matches: tuple[Match, ...]
    compiler: Compiler
    by_effect: bool

    def paths(self, names: Sequence[str]) -> list[str]:
        """The path patterns that `names` stand for."""
        return [fill(text, self.compiler.variables) for text in self.compiler.texts(names)]


@dataclass(frozen=True, slots=True)
class Condition:
    """`when` and `unless` of a rule, ready to be compared."""

    rule: CompiledRule
    when: Side
    unless: Side | None


def condition(rule: CompiledRule, compiler: Compiler) -> Condition:
    """The condition of `rule`, which sees the lists that `compiler` knows."""
    when = Side(_flat(rule.rule.when), compiler, rule.by_effect)
    unless = rule.rule.unless
    return Condition(rule, when, replace(when, matches=_flat(unless)) if unless is not None else None)


class Prover:
    """Shows that one rule covers another, in a bounded number of steps."""

    def __init__(self) -> None:
        self.steps = 0

    def stops(self, allow: Condition, other: Condition) -> bool:
        """Wherever `allow` holds, does the ask or deny `other` fire?"""
        return self._shown(lambda: self._covers(allow, other))

    def covers(self, one: Condition, other: Condition) -> bool:
        """Does `other` decide at least as strictly wherever `one` applies, so that `one` adds nothing?"""
        return _as_strict(one.rule, other.rule) and self._shown(lambda: self._covers(one, other))

    def excused(self, one: Condition) -> bool:
        """Does `unless` hold wherever `when` does?"""
        unless = one.unless
        if unless is None or (one.rule.rule.decision != "allow" and _of_values(unless)):
            return False  # `when` holds by one value, and `unless` only by every one
        return self._shown(lambda: self._entails(one.when, unless))

    def _shown(self, proof: Callable[[], bool]) -> bool:
        self.steps = 0
        try:
            return proof()
        except Exhausted:
            return False

    def _covers(self, one: Condition, other: Condition) -> bool:
        if other.rule.excuses or not self._entails(one.when, other.when):
            return False  # nothing is shown of what an exception excuses
        if other.unless is None:
            return True
        # What excuses the other must excuse this one too, or never meet it.
        same = one.when.by_effect == other.when.by_effect
        if same and one.unless is not None and self._entails(other.unless, one.unless):
            return True
        return same and _apart(one.when, other.unless)

    def _entails(self, a: Side, b: Side) -> bool:
        """Is `b` at least as sure as `a`, of whatever they are asked?"""
        if b.by_effect and not a.by_effect:
            return False
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Exhausted
        for n, match in enumerate(a.matches):
            if match.any is not None:
                rest = (*a.matches[:n], replace(match, any=None), *a.matches[n + 1 :])
                return all(self._entails(replace(a, matches=(*rest, *_flat(m))), b) for m in match.any)
        return all(self._follows(a, b, match) for match in b.matches)

    def _follows(self, a: Side, b: Side, match: Match) -> bool:
        for name, value in clauses_of(match):
            if name == "any":
                shown = any(self._entails(a, replace(b, matches=_flat(m))) for m in value)
            elif name == "negated":
                shown = self._negation_follows(a, replace(b, matches=_flat(value)))
            else:
                given = [v for m in a.matches if (v := getattr(m, name)) is not None]
                shown = any(_clause(name, v, a, value, b) for v in given)
            if not shown:
                return False
        return True

    def _negation_follows(self, a: Side, negated: Side) -> bool:
        if a.by_effect != negated.by_effect:
            return False
        inner = [replace(a, matches=_flat(m.negated)) for m in a.matches if m.negated is not None]
        return any(self._entails(negated, each) for each in inner) or _apart(a, negated)


def _of_values(side: Side) -> bool:
    """Does anything in a condition hang on whether one value matches, or every one?"""
    for name, value in (clause for match in side.matches for clause in clauses_of(match)):
        inner = value if name == "any" else [value] if name == "negated" else []
        more = name in OF_VALUES and not (side.by_effect and name not in _COMMAND_CLAUSES)
        if more or any(_of_values(replace(side, matches=_flat(each))) for each in inner):
            return True
    return False


def _as_strict(one: CompiledRule, other: CompiledRule) -> bool:
    if Verdict.ALLOW in (one.verdict, other.verdict):
        return one.verdict is other.verdict and one.by_effect == other.by_effect
    if other.verdict < one.verdict or other.verdict < one.maybe:
        return False
    if other.verdict > one.verdict:
        return True
    mine, theirs = (SEVERITIES.index(r.rule.severity) for r in (one, other))
    same_way = (one.rule.route, one.rule.grant) == (other.rule.route, other.rule.grant)
    return theirs > mine or (theirs == mine and same_way)


# ---- clause by clause ---------------------------------------------------------------------------------


def _clause(name: str, given: object, a: Side, wanted: object, b: Side) -> bool:
    """Is the clause `wanted` of `b` at least as sure as the clause `given` of `a`, which has the same name?"""
    if a.by_effect is not b.by_effect and name not in _COMMAND_CLAUSES | _OF_ANY:
        return False
    match given, wanted:
        case Program(), Program():
            return _program(given, a, wanted, b)
        case Operands(), Operands():
            return _operands(given, wanted)
        case Paths(), Paths():
            return _paths(given, a, wanted, b)
        case Among(), Among():
            alike = a.by_effect is b.by_effect
            return _places(given, wanted, ("any",), a.compiler.texts, b.compiler.texts, alike=alike)
        case Environment(), Environment():
            return _variables(given, a, wanted, b)
        case Flags(), Flags():
            only = given.only is not None and set(given.only) <= set(wanted.only or ())
            none = set(wanted.none or ()) <= set(given.none or ())
            return _sets(given, wanted) and none and (wanted.only is None or only)
        case Effects(), Effects():
            only = given.only is not None and set(given.only) <= set(wanted.only or ())
            return _sets(given, wanted) and (wanted.only is None or only)
        case tuple(), tuple() if name == "subcommand":
            return all(each in wanted or each.partition(" ")[0] in wanted for each in given)
        case tuple(), tuple() if name != "argv":
            return set(given) <= set(wanted)
        case (Flow(), Flow()) | (Tool(), Tool()) | (Limit(), Limit()) | (Sql(), Sql()):  # it may name lists
            return given == wanted and a.compiler.lists == b.compiler.lists
    return given == wanted


def _program(given: Program, a: Side, wanted: Program, b: Side) -> bool:
    if wanted.names is not None and not (given.names is not None and set(given.names) <= set(wanted.names)):
        return False
    if wanted.path is not None and (given.path is None or a.paths(given.path) != b.paths(wanted.path)):
        return False
    return wanted.regex in (None, given.regex) and wanted.resolved in (None, given.resolved)


def _operands(given: Operands, wanted: Operands) -> bool:
    none = given.none is not None and _texts(wanted.none, given.none)
    return (
        (wanted.any is None or (given.any is not None and _texts(given.any, wanted.any)))
        and (wanted.all is None or (given.all is not None and _texts(given.all, wanted.all)))
        and (wanted.none is None or none)
    )


def _variables(given: Environment, a: Side, wanted: Environment, b: Side) -> bool:
    mine, theirs = a.compiler.texts(given.any or ()), b.compiler.texts(wanted.any or ())
    if mine != theirs and (not set(mine) <= set(theirs) or any(name.startswith("!") for name in theirs)):
        return False
    if wanted.value_in is None:
        return True
    return given.value_in is not None and a.paths(given.value_in) == b.paths(wanted.value_in)


def _texts(part: Texts | None, whole: Texts) -> bool:
    return set(part or ()) <= set(whole)


def _sets(given: Flags | Effects, wanted: Flags | Effects) -> bool:
    """What `flags` and `effects` have in common."""
    some, every = set(given.any or ()), set(given.all or ())
    known = wanted.any is None or (given.any is not None and some <= set(wanted.any))
    if not known and every.isdisjoint(wanted.any or ()):
        return False
    return wanted.all is None or set(wanted.all) <= every


def _paths(given: Paths, a: Side, wanted: Paths, b: Side) -> bool:
    """`paths`. Another choice of paths (`role`, `resolved`) can't be compared."""
    if (given.role, given.resolved) != (wanted.role, wanted.resolved):
        return False
    alike = a.by_effect is b.by_effect
    if not alike and wanted.all is not None:
        return False
    return _places(given, wanted, ("any", "all", "contents_of"), a.paths, b.paths, alike=alike)


def _places(
    given: Paths | Among, wanted: Paths | Among, keys: Sequence[str], left: Expand, right: Expand, *, alike: bool
) -> bool:
    """What stands under `keys`, and what is ruled out. `alike`: both rules are asked about effects, or both are not."""
    if not alike and wanted.none is not None:
        return False
    for key in keys:
        theirs, mine = getattr(wanted, key), getattr(given, key)
        if theirs is not None and (mine is None or not _within(left(mine), right(theirs))):
            return False
    return wanted.none is None or (given.none is not None and _within(right(wanted.none), left(given.none)))


def _within(inner: Sequence[str], outer: Sequence[str]) -> bool:
    trees = [text[:-3] for text in outer if text.endswith("/**") and len(text) > 3 and not has_star(text[:-3])]
    known = set(outer)
    return all(text in known or any(text == t or text.startswith(t + "/") for t in trees) for text in inner)


def _apart(a: Side, b: Side) -> bool:
    """Does b's holding rule a out?"""
    names = ("effect", "role", "recursive", "unread", "resolved", "parse") if a.by_effect else ("parse", "resolved")
    for mine in a.matches:
        for theirs in b.matches:
            if any(_exclude(getattr(mine, n), getattr(theirs, n)) for n in names):
                return True
            if _other_program(mine.program, theirs.program):
                return True
    return False


def _exclude(one: object, other: object) -> bool:
    if one is None or other is None:
        return False
    if isinstance(one, tuple) and isinstance(other, tuple):
        return set(one).isdisjoint(other)
    return one != other


def _other_program(one: Program | None, other: Program | None) -> bool:
    if one is None or other is None or one.names is None or other.names is None:
        return False
    names = (*one.names, *other.names)
    return set(one.names).isdisjoint(other.names) and not any("/" in name for name in names)


# ---- what can never hold --------------------------------------------------------------------------------


def impossible(side: Side) -> str:
    """Why the condition can never hold for certain, in words; "" where that is not shown."""
    for n, match in enumerate(side.matches):
        if match.any is not None:
            rest = (*side.matches[:n], replace(match, any=None), *side.matches[n + 1 :])
            reasons = [impossible(replace(side, matches=(*rest, *_flat(m)))) for m in match.any]
            if all(reasons):
                return reasons[0] if len(set(reasons)) == 1 else "; ".join(dict.fromkeys(reasons))
            return ""
    return next(_contradictions(side), "")


def _contradictions(side: Side) -> Iterator[str]:
    kinds = _kinds(side)
    if kinds is not None:
        yield from _about_kinds(side, kinds)
    for name in ("effect", "role", "parse", "recursive", "unread", "resolved"):
        if name in ("parse", "resolved") or side.by_effect:
            values = [v for m in side.matches if (v := getattr(m, name)) is not None]
            if any(_exclude(one, other) for one in values for other in values):
                yield f"`{name}` can't be two things at once"
    programs = [m.program for m in side.matches if m.program is not None]
    if any(_other_program(one, other) for one in programs for other in programs):
        yield "`program` can't be two programs at once"
    for match in side.matches:
        yield from _about_groups(match, side)
        if match.negated is not None and (name := _denied(side, replace(side, matches=_flat(match.negated)))):
            yield f"`not` rules out what {name} asks for"


def _kinds(side: Side) -> set[str] | None:
    """The kinds that the effect may have; None where nothing limits them, or where it is asked of the command."""
    named = [set(m.effect) for m in side.matches if m.effect is not None]
    return set.intersection(*named) if named and side.by_effect else None


def _about_kinds(side: Side, kinds: set[str]) -> Iterator[str]:
    shown = ", ".join(sorted(kinds))
    for clause, about, what in (
        ("paths", FILE_KINDS, "paths"),
        ("hosts", frozenset({"network", "listen"}), "hosts"),
        ("env", frozenset({"environment"}), "variables"),
    ):
        if kinds and kinds.isdisjoint(about) and any(getattr(m, clause) is not None for m in side.matches):
            yield f"`{clause}`: an effect of the kind {shown} has no {what}"
    for match in side.matches:
        only = match.effects.only if match.effects is not None else None
        if kinds and only is not None and kinds.isdisjoint(only):
            yield f"`effects: {{only: [{', '.join(only)}]}}` rules out the effect {shown}"


def _about_groups(match: Match, side: Side) -> Iterator[str]:
    for name in ("flags", "effects"):
        group: Flags | Effects | None = getattr(match, name)
        if group is None:
            continue
        none = set(group.none or ()) if isinstance(group, Flags) else set()
        only = group.only
        if (group.all is not None and none & set(group.all)) or (group.any is not None and set(group.any) <= none):
            yield f"`{name}`: what `none` rules out is asked for beside it"
        if only is not None and not set(group.all or ()) <= set(only):
            yield f"`{name}`: `all` asks for what `only` rules out"
        if only is not None and group.any is not None and set(group.any).isdisjoint(only):
            yield f"`{name}`: `any` asks for what `only` rules out"
    if match.paths is not None and match.paths.none is not None and match.paths.resolved is None:
        within = match.paths.all or (match.paths.any if side.by_effect else None)
        if within is not None and _within(side.paths(within), side.paths(match.paths.none)):
            yield "`paths`: everything inside is what `none_within` rules out"


def _denied(side: Side, negated: Side) -> str:
    """The clause that `not` rules out, where it is one clause that stands beside it just so."""
    if len(negated.matches) != 1:
        return ""
    inner = list(clauses_of(negated.matches[0]))
    if len(inner) != 1:
        return ""
    name, value = inner[0]
    given = [v for m in side.matches if (v := getattr(m, name)) is not None]
    known = name not in ("any", "negated") and any(_clause(name, v, side, value, negated) for v in given)
    return f"`{name}`" if known else ""


# ---- the parts of a condition ---------------------------------------------------------------------------


def clauses_of(match: Match) -> Iterator[tuple[str, Any]]:
    """The clauses of one condition with their names, but for `all`, which is taken apart beforehand."""
    for each in fields(match):
        value = getattr(match, each.name)
        if value is not None and each.name != "all":
            yield each.name, value


def _flat(match: Match) -> tuple[Match, ...]:
    """`match` as conditions that must all hold, without `all`."""
    return (replace(match, all=None), *(inner for m in match.all or () for inner in _flat(m)))
