"""The policy that is linted: its rules in force, its files with the place of everything, and commands to try it on."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from humanlayer_agent.action import FUNCTION
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples, sources, yaml_positions
from humanlayer_agent.policy.language.policy import Given, Match, Policy, Rule, RuleException, Source, policy_from
from humanlayer_agent.policy_tools.lint import sample_commands, witnesses
from humanlayer_agent.policy_tools.lint.finding import Place
from humanlayer_agent.policy_tools.lint.witnesses import NOTHING, Case, judged, outcome

MAX_EXAMPLES = 2_000
"""Examples of the policy's own that a rule is tried on."""
MAX_MADE = 60
"""Commands made from its clauses that it is tried on in each of the circumstances that its tests tell of."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of a policy. `linted`: findings in it are reported (what ships is only linted as the policy itself)."""

    source: Source
    document: yaml_positions.Document
    linted: bool

    def place(self, path: tuple[str | int, ...]) -> Place:
        """Where the value at `path` stands, or the nearest one around it."""
        found = path
        while found and found not in self.document.positions:
            found = found[:-1]
        at = self.document.positions.get(found, yaml_positions.Position(1, 1))
        return Place(self.source.name, self.source.path, at.line, at.column, path)


@dataclass(frozen=True, slots=True)
class Part:
    """A condition of a rule in force that findings are reported of: `when`, `unless`, or that of an exception to it.

    `excuses`: something is let through by it. `place` says where the value at a path in it stands.
    """

    rule: CompiledRule
    match: Match
    excuses: bool
    place: Callable[..., Place]


class Subject:
    """A policy to be linted.

    Args:
        routes: the names of those that there are; None where that is not known.

    Raises:
        PolicyError: a file of it has changed since it was loaded.
    """

    def __init__(self, policy: Policy, *, routes: Collection[str] | None = None) -> None:
        self.policy = policy
        self.routes = routes
        self.director = examples.director_for(policy)
        self.now = self.director.in_force().now
        self.rules = self.director.in_force().rules.all
        top = len(policy.sources) - 1
        self.files = tuple(_file(source, n == top) for n, source in enumerate(policy.sources))
        self._index = {id(rule): n for n, rule in enumerate(policy.rules)}
        self._cases: dict[tuple[str, Given, str, bool], Case] = {}

    @cached_property
    def linted(self) -> tuple[CompiledRule, ...]:
        """The rules in force that findings are reported of."""
        return tuple(rule for rule in self.rules if self.files[rule.rule.scope].linted)

    @cached_property
    def written(self) -> tuple[Rule, ...]:
        """The rules that findings are reported of, also those that don't hold today."""
        return tuple(rule for rule in self.policy.rules if self.files[rule.scope].linted)

    @cached_property
    def exceptions(self) -> tuple[tuple[CompiledRule, RuleException], ...]:
        """The exceptions that findings are reported of, also those that have ended, each with the rule in force that it
        is to.
        """
        linted = {file.source.name for file in self.files if file.linted}
        pairs = ((rule, each) for rule in self.rules for each in rule.rule.exceptions)
        return tuple((rule, each) for rule, each in pairs if each.origin.rpartition(":")[0] in linted)

    def parts(self) -> Iterator[Part]:
        """Every condition of the rules in force, and of the exceptions, that findings are reported of."""
        for rule in self.linted:
            allows = rule.rule.decision == "allow"
            for field, match in (("when", rule.rule.when), ("unless", rule.rule.unless)):
                if match is not None:
                    yield Part(rule, match, allows is (field == "when"), partial(self.place, rule.rule, field))
        for rule, exception in self.exceptions:
            yield Part(rule, exception.when, True, partial(self.place_of, exception, "when"))

    def place_of(self, exception: RuleException, *path: str | int) -> Place:
        """Where the value at `path` of an exception stands."""
        name = exception.origin.rpartition(":")[0]
        file = next(file for file in self.files if file.source.name == name)
        return file.place(("exceptions", examples.exception_number(file.document.data, exception), *path))

    def place(self, rule: Rule, *path: str | int) -> Place:
        """Where the value at `path` of a rule stands."""
        file = self.files[rule.scope]
        ids = [each["id"] for each in file.document.data["rules"]]
        return file.place(("rules", ids.index(rule.id), *path))

    def compiler(self, rule: Rule) -> Compiler:
        """Knows the lists and variables that a rule sees."""
        given = {"policies": tuple(f"${{{n}}}" for n in self.director.variables if n.startswith("POLICY_FILE_"))}
        return Compiler({**self.policy.scopes[rule.scope], **given}, self.director.variables)

    # ---- commands -------------------------------------------------------------------------------------

    def case(
        self, command: str, rule: CompiledRule | None = None, type: str = "bash", given: Given | None = None
    ) -> Case:
        """`command`, judged; in circumstances that `rule` is about, and confined where it applies only then.

        Args:
            given: other circumstances.
        """
        if given is None:
            given = sample_commands.circumstances(rule.rule)[0] if rule is not None else NOTHING
        confinable = rule is not None and rule.rule.only_confined
        key = (command, given, type, confinable)
        if key not in self._cases:
            self._cases[key] = judged(self.director, *key)
        return self._cases[key]

    def cases(self, rule: CompiledRule) -> Iterator[Case]:
        """Everything that `rule` is tried on, likely hits first."""
        own = (e for e in examples.examples_of(rule.rule) if e.exception is None)
        shown = (self.case(e.command, rule, given=e.given) for e in islice(own, MAX_EXAMPLES))
        others = (example.command for example in islice(examples.examples(self.policy), MAX_EXAMPLES))
        made = list(sample_commands.commands(self, rule.rule))
        calls = (self.case(call, rule, FUNCTION) for call in sample_commands.calls(self, rule.rule))
        everybodys = (c for source in (_dangerous, witnesses.shown_by_catalog) for c in source())
        ways = sample_commands.circumstances(rule.rule)
        elsewhere = (self.case(command, rule, given=way) for way in ways[1:] for command in made[:MAX_MADE])
        return chain(calls, shown, self._each(rule, made, others, everybodys), elsewhere)

    def hit_by(self, rule: CompiledRule) -> Iterator[Case]:
        """Those of them that it hits."""
        return (case for case in self.cases(rule) if case.hits_of(rule))

    def any_hit(self, rule: CompiledRule) -> Case | None:
        """One that it hits; None where none was found."""
        return next(self.hit_by(rule), None)

    def _each(self, rule: CompiledRule, *groups: Iterable[str]) -> Iterator[Case]:
        seen: set[str] = set()
        for group in groups:
            for command in group:
                if command not in seen:
                    seen.add(command)
                    yield self.case(command, rule)

    # ---- the same policy without something --------------------------------------------------------------

    def without(self, rule: Rule) -> Director:
        """A Director over the same policy, in which `rule` never applies."""
        index = self._index[id(rule)]
        return self.changed([body for n, body in enumerate(self._bodies) if n != index])

    def changed(self, rules: list[dict[str, Any]]) -> Director:
        """A Director over the same policy with other rules (as `Policy.body` has them)."""
        return examples.director_for(policy_from({**self.policy.body, "rules": rules}))

    def differs(self, case: Case, other: Director) -> bool:
        """Does `other` come to something else on the same command?"""
        decision = other.judge(case.program, case.situation, case.command)
        return outcome(decision) != outcome(case.decision)

    @property
    def _bodies(self) -> list[dict[str, Any]]:
        bodies: list[dict[str, Any]] = self.policy.body["rules"]
        return bodies


def _dangerous() -> list[str]:
    return [danger.command for danger in witnesses.all_dangers()]


def _file(source: Source, top: bool) -> File:
    raw = sources.read(Path(source.path))
    if hashlib.sha256(raw).hexdigest() != source.sha256:
        raise PolicyError(f"{source.name}: has changed since it was loaded: try again")
    linted = top or not source.name.startswith(sources.BUILTIN)
    return File(source, yaml_positions.decode(raw, source.name), linted)
