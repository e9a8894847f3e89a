"""The coverage of a policy by the tests in its rules: which rules decide in an example, which clauses one holds in
place.

A clause is shown where a test fails without it: each is taken out in turn, each alternative and each `unless` is made
never to hold, and the examples are judged again. What can be changed without any test noticing is what nobody would
notice being broken.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Literal, cast

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.circumstances import UNKNOWN, Circumstances, given
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit, Rules
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import flow
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.examples import Example
from humanlayer_agent.policy.language.policy import Given, Policy, Rule, RuleException, policy_from
from humanlayer_agent.policy_tools.lint import sample_commands
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case
from humanlayer_agent.shell import EFFECT_KINDS, Program, Reader

MAX_CHANGES = 2_000
"""Clauses that are taken out, one after the other."""

Change = Literal["without", "never"]
_GROUPS = (
    *("program", "flags", "operands", "effects", "paths", "hosts", "names", "env", "options", "attributes"),
    *("time", "repo", "limit", "sql", "content"),
)
_NEEDED = frozenset(
    {("time", "tz"), ("content", "role"), *(("limit", part) for part in ("count", "cost", "per", "of"))}
)
"""Parts without which a clause is none."""
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause of a rule: where it stands in the rule, and as the policy has it.

    `change` is what was done to it: taken out, or made never to hold. `shown` is an example that fails then; where none
    does, `proposed` is one that would (its kind and the command). Where no command was found that would, the clause is
    idle: as far as is known it makes no difference, so no test can show it.
    """

    path: Path
    text: str
    change: Change
    shown: str = ""
    proposed: tuple[str, str] | None = None

    @property
    def idle(self) -> bool:
        return not self.shown and self.proposed is None

    @property
    def name(self) -> str:
        """Where it stands, in one word: `when.paths`, `when.any[1].effect`."""
        return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path).lstrip(".")


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """A rule: the number of examples that it applies to, and in which it decides. Of an exception to it: the number of
    its examples that it excuses, as both.
    """

    rule: Rule
    matched: int
    decided: int
    clauses: tuple[Clause, ...]
    exception: RuleException | None = None

    @property
    def name(self) -> str:
        """The rule, or what is an exception to it."""
        return self.rule.id if self.exception is None else f"exception to {self.rule.id}"

    @property
    def origin(self) -> str:
        """Where it stands: file:line."""
        return (self.exception or self.rule).origin

    @property
    def points(self) -> tuple[int, int]:
        """(shown, all): that it decides, and each of its clauses that is not idle."""
        clauses = [clause for clause in self.clauses if not clause.idle]
        return (self.decided > 0) + sum(bool(c.shown) for c in clauses), 1 + len(clauses)


@dataclass(frozen=True, slots=True)
class Coverage:
    """A policy with the coverage of its own rules; those that ship count only in the policy that holds them.

    Rules about calls of functions are left out: examples are commands.
    """

    policy: Policy
    rules: tuple[RuleCoverage, ...]

    @property
    def points(self) -> tuple[int, int]:
        """(shown, all) over all rules."""
        return sum(r.points[0] for r in self.rules), sum(r.points[1] for r in self.rules)

    @property
    def idle(self) -> int:
        """The number of clauses for which no command was found that tells them from their absence."""
        return sum(clause.idle for rule in self.rules for clause in rule.clauses)

    @property
    def percent(self) -> float:
        """What is shown, of all that could be; 100 where there is nothing."""
        shown, of = self.points
        return 100.0 if of == 0 else 100.0 * shown / of


def coverage(policy: Policy, progress: Callable[[int, int], None] = lambda done, of: None) -> Coverage:
    """What the tests of `policy` show of its rules in force.

    Args:
        progress: is told how many of how many changes have been tried.

    Raises:
        PolicyError: a file of it has changed since it was loaded, or it is too large.
    """
    subject = Subject(policy)
    holding = {id(each) for compiled in subject.rules for each in (compiled.rule, *(x.by for x in compiled.excuses))}
    tests = [e for e in examples.examples(policy) if {id(e.rule), id(e.exception or e.rule)} <= holding]
    tests = [example for example in tests if examples.judge(subject.director, example).passed]
    commands = dict.fromkeys((e.command, e.given) for e in examples.examples(policy))
    counted = count(
        subject.director,
        ((examples.written_in(*each), None) for each in commands),
        [given(said) for _, said in commands],
    )
    own: list[tuple[CompiledRule, RuleException | None]] = [
        (c, None)
        for c in subject.linted
        if not sample_commands.about_calls(c.rule.when)  # the examples are commands
    ]
    own += [(c, each) for c, each in subject.exceptions if id(each) in holding]
    changes = {id(e or c): list(_changes(c.rule.written) if e is None else _changes_of(c.rule, e)) for c, e in own}
    of, done = sum(map(len, changes.values())), 0
    if of > MAX_CHANGES:
        raise PolicyError(f"{policy.name}: too large: its rules have {of} clauses, and at most {MAX_CHANGES} are tried")
    found = []
    for compiled, exception in own:
        clauses = []
        unchanged: dict[_Key, list[_Said]] = {}
        for clause, body in changes[id(exception or compiled)]:
            clauses.append(_Mutant(subject, compiled, body, unchanged).judged(clause, tests))
            done += 1
            progress(done, of)
        matched, decided = counted[key(compiled.rule)]
        if exception is not None:
            matched = decided = sum(e.exception is exception and e.kind == "match" for e in tests)
        found.append(RuleCoverage(compiled.rule, matched, decided, tuple(clauses), exception))
    return Coverage(policy, tuple(found))


def count(
    director: Director, actions: Iterable[tuple[Action, Reader | None]], around: Iterable[Circumstances] | None = None
) -> Mapping[str, tuple[int, int]]:
    """To how many of `actions` each rule (see `key`) applies, and in how many it decides.

    Args:
        actions: each with what gives the files that it runs (None: the Director's own).
        around: what surrounds each; nothing of that is known where it is None.
    """
    matched: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    rules = director.in_force().rules
    ways = (False, True) if any(compiled.rule.only_confined for compiled in rules.all) else (False,)
    for (action, reader), so in zip(actions, around or repeat(UNKNOWN), strict=False):
        program = director.program(action, reader)
        for confinable in ways:
            situation = Situation.of(action, confinable=confinable, around=so)
            decision = director.judge(program, situation, action.content)
            hits = [
                (hit.rule.rule, hit.verdict)
                for hit in _hits(rules, program, action, confinable, so)
                if hit.rule is not None and hit.rule.rule.only_confined is confinable
            ]
            matched.update({key(rule) for rule, _ in hits})
            decided.update({key(rule) for rule, verdict in hits if verdict is decision.verdict})
    return {name: (matched[name], decided[name]) for name in (key(compiled.rule) for compiled in rules.all)}


def key(rule: Rule) -> str:
    """Names a rule in a policy."""
    return f"{rule.origin} {rule.id}"


def _hits(
    rules: Rules,
    program: Program,
    action: Action,
    confinable: bool = False,
    around: Circumstances | None = None,
) -> list[Hit]:
    situation, text = Situation.of(action, confinable=confinable, around=around), action.content
    situation.parse = program.status
    judged = rules.judge(program, situation)
    hits = [hit for each in judged for hit in each.hits()]
    return hits + ([] if judged else rules.unseen(text, situation))


# ---- one change -------------------------------------------------------------------------------------------

_Said = tuple[tuple[int, int], int, bool]
"""One hit: of which command, by which effect, and whether it is certain."""
_Key = tuple[str, Given | None, bool]
"""A command, its circumstances, and whether it can be confined."""


class _Mutant:
    """A policy in which one rule is changed.

    Args:
        subject: the policy.
        compiled: the rule.
        body: the rule as data, changed.
        unchanged: what the rule itself says of each command that was asked about, confined or not; every change of it
            shares this.
    """

    def __init__(
        self,
        subject: Subject,
        compiled: CompiledRule,
        body: Mapping[str, Any],
        unchanged: dict[_Key, list[_Said]],
    ) -> None:
        self.subject, self.compiled, self.unchanged = subject, compiled, unchanged
        self.touched: dict[_Key, bool] = {}
        before = subject.policy.body["rules"]
        places = {id(rule): n for n, rule in enumerate(subject.policy.rules)}
        self.index = places[id(compiled.rule)]
        after = [*before[: self.index], dict(body), *before[self.index + 1 :]]
        self.policy = policy_from({**subject.policy.body, "rules": after})
        self.director = examples.director_for(self.policy)
        self.twin = {
            id(rule): self.policy.rules[n] for rule, n in zip(subject.policy.rules, places.values(), strict=True)
        }
        changed = self.policy.rules[self.index]
        mutant = next(c for c in self.director.in_force().rules.all if c.rule is changed)
        confine = self.director.in_force().rules.confine
        self.old, self.new = (Rules((rule,), Verdict.ASK, confine) for rule in (compiled, mutant))

    def judged(self, clause: Clause, tests: Sequence[Example]) -> Clause:
        """`clause` with an example that fails now, or one that would."""
        # The rule's own examples first: they are the ones that were written for it.
        ordered = sorted(tests, key=lambda example: example.rule is not self.compiled.rule)
        shown = next((e.line for e in ordered if self.touches(e) and self.fails(e)), "")
        proposed = None if shown else self.proposal()
        if not shown and proposed is None and clause.path[-1] == "effect":
            # The other clauses imply it. It is there to have the rule asked about effects, which a match shows.
            shown = next((e.line for e in ordered if e.rule is self.compiled.rule and e.kind != "not_match"), "")
        return replace(clause, shown=shown, proposed=proposed)

    def touches(self, example: Example) -> bool:
        """Does the changed rule say something else of the command than the rule?"""
        key = (example.command, example.given, example.confinable)
        if key not in self.touched:
            case = self.subject.case(example.command, given=example.given)
            if key not in self.unchanged:
                self.unchanged[key] = self.said(self.old, case, example.confinable)
            self.touched[key] = self.unchanged[key] != self.said(self.new, case, example.confinable)
        return self.touched[key]

    def said(self, rules: Rules, case: Case, confinable: bool) -> list[_Said]:
        action = examples.written_in(case.command, case.given)
        found = _hits(rules, case.program, action, confinable, given(case.given))
        hits = (hit for hit in found if hit.rule is not None)
        return [(hit.command.span, id(hit.effect), hit.certain) for hit in hits]  # the subject keeps the case

    def fails(self, example: Example) -> bool:
        """Does the example fail with the change?"""
        rule = self.twin[id(example.rule)]
        exception = example.exception
        if exception is not None:
            exception = rule.exceptions[next(n for n, e in enumerate(example.rule.exceptions) if e is exception)]
        return not examples.judge(self.director, replace(example, rule=rule, exception=exception)).passed

    def proposal(self) -> tuple[str, str] | None:
        """The plainest example of the rule that passes without the change and fails with it; None: none was found."""
        found = []
        for case in self.subject.cases(self.compiled):
            if case.decision.parse == "ok":
                for kind in examples.KINDS:
                    example = Example(self.compiled.rule, kind, case.command, given=case.given)
                    if (
                        self.touches(example)
                        and examples.judge(self.subject.director, example).passed
                        and self.fails(example)
                    ):
                        found.append((kind, example.line))
        return min(found, key=lambda each: (each[0] == "maybe", "$" in each[1], len(each[1])), default=None)


# ---- what can be changed ----------------------------------------------------------------------------------


def _changes(body: Mapping[str, Any]) -> Iterator[tuple[Clause, Mapping[str, Any]]]:
    """Every change to a rule, and the rule as data with it done."""
    for field in ("when", "unless"):
        for path, text, match in _without(body.get(field, {}), (field,)):
            yield Clause(path, text, "without"), {**body, field: match}
        for path, text, match in _never(body.get(field, {}), (field,)):
            yield Clause(path, text, "never"), {**body, field: match}
    if "unless" in body:
        plain = {name: value for name, value in body.items() if name != "unless"}
        yield Clause(("unless",), f"unless: {flow(body['unless'])}", "never"), plain


def _changes_of(rule: Rule, exception: RuleException) -> Iterator[tuple[Clause, Mapping[str, Any]]]:
    """Every change to an exception, and the rule as data with it done."""
    number = next(n for n, each in enumerate(rule.exceptions) if each is exception)
    written = [each.written for each in rule.exceptions]
    for change, ways in (("without", _without), ("never", _never)):
        for path, text, match in ways(exception.written["when"], ("when",)):
            changed = [*written[:number], {**exception.written, "when": match}, *written[number + 1 :]]
            yield Clause(path, text, cast("Change", change)), {**rule.written, "exceptions": changed}


def _without(match: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str, Any]]:
    """`match` without one clause, or one key of a clause with several, at any depth."""
    for name, value in match.items():
        rest = {k: v for k, v in match.items() if k != name}
        here = (*path, name)
        if name in ("any", "all"):
            for n, inner in enumerate(value):
                for at, text, new in _without(inner, (*here, n)):
                    yield at, text, {**match, name: [*value[:n], new, *value[n + 1 :]]}
        elif name == "not":
            yield here, f"not: {flow(value)}", rest
            for at, text, new in _without(value, here):
                yield at, text, {**match, name: new}
        elif name == "flow":
            yield here, f"flow: {flow(value)}", rest
            for side in ("from", "to"):
                for at, text, new in _without(value.get(side, {}), (*here, side)):
                    yield at, text, {**match, name: {**value, side: new}}
        elif name in _GROUPS and sum((name, part) not in _NEEDED for part in value) > 1:
            for part, inner in value.items():
                if (name, part) in _NEEDED:  # without it, it is no condition
                    continue
                yield (
                    (*here, part),
                    f"{name}: {flow({part: inner})}",
                    {
                        **match,
                        name: {k: v for k, v in value.items() if k != part},
                    },
                )
        else:
            # A rule about effects stays one: it is then about effects of every kind.
            yield here, f"{name}: {flow(value)}", {**rest, name: list(EFFECT_KINDS)} if name == "effect" else rest


def _never(match: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, str, Any]]:
    """`match` without one of several alternatives, at any depth."""
    for name in ("any", "all"):
        value = match.get(name, [])
        for n, inner in enumerate(value):
            if name == "any" and len(value) > 1:
                rest = [*value[:n], *value[n + 1 :]]
                yield (*path, name, n), flow(inner), {**match, name: rest}
            for at, text, new in _never(inner, (*path, name, n)):
                yield at, text, {**match, name: [*value[:n], new, *value[n + 1 :]]}
    if "not" in match:
        for at, text, new in _never(match["not"], (*path, "not")):
            yield at, text, {**match, "not": new}
