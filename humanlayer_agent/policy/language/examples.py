"""The tests that stand in the rules and exceptions of a policy: each example is judged, and decision and rule asserted.

Those of a policy's own rules and exceptions are run when it is loaded: a policy that fails them is broken.

Only the rules of files that do not ship with us are tested here: what a file adds to a shipped list is meant to change
what shipped rules do. `hla policy test` runs all of them, and shows every failure.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.circumstances import UNKNOWN, given
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import VERDICTS, Judged, Rules
from humanlayer_agent.policy.conditions.kleene import NO, YES
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import flow
from humanlayer_agent.policy.language import loader, sources
from humanlayer_agent.policy.language.policy import ExceptionTests, Given, Policy, Rule, RuleException, Tests
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.policy.layers.excuses import is_light
from humanlayer_agent.shell import Program
from humanlayer_agent.tools.calls import written

PROJECT = "/nowhere/project"
HOME = "/nowhere/home"
KINDS = ("match", "maybe", "not_match", "confined")
EXCUSED = ("match", "not_match")
"""The kinds of examples that an exception has."""
_ABOVE = ("default", "strict", "sandbox", "ci")
"""The policies that ship, in the order in which a project's exceptions are tried on them."""


@dataclass(frozen=True, slots=True)
class Example:
    """A command under `match`, `maybe`, `not_match` or `confined` of a rule, or of an `exception` to it, and its
    circumstances (`given`).
    """

    rule: Rule
    kind: str
    command: str
    exception: RuleException | None = None
    given: Given | None = None

    @property
    def confinable(self) -> bool:
        """Tell whether it is judged as where what is allowed can be confined."""
        return self.rule.only_confined or self.kind == "confined"

    @property
    def origin(self) -> str:
        """Where what it is an example of stands: file:line."""
        return self.rule.origin if self.exception is None else self.exception.origin

    @property
    def line(self) -> str:
        """The command with its circumstances, for people."""
        return f"{self.command}{in_brackets(self.given)}"

    @property
    def name(self) -> str:
        """What it is an example of: the rule, or the exception to it."""
        return self.rule.id if self.exception is None else f"exception to {self.rule.id}"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an example. `expected` is "" where it passed."""

    example: Example
    decision: PolicyDecision
    expected: str

    @property
    def passed(self) -> bool:
        return not self.expected

    @property
    def found(self) -> str:
        """The decision, in one line."""
        decision = self.decision
        return f"{decision.verdict} ({', '.join(decision.rules) or 'no rule'})"


def director_for(
    policy: Policy | Sequence[Layer], variables: Iterable[str] = (), *, observe: bool = False, confined: bool = False
) -> Director:
    """A Director over a project and a home that don't exist, so that nothing on this machine decides.

    Args:
        policy: the policy, or layers.
        variables: names of further variables of path patterns; each gets a path of its own.
        observe: decisions say that they are not enforced.
        confined: as where what is allowed can be confined.
    """
    folders = (("CONFIG", ".config"), ("STATE", ".local/state"), ("DATA", ".local/share"))
    own = {f"OWN_{name}": f"{HOME}/{path}/humanlayer-agent" for name, path in folders}
    own_paths = {
        **{name: f"/nowhere/{name}" for name in variables},
        **own,
        "STORE": f"{own['OWN_DATA']}/store.sqlite3",
        "PACKAGE": "/nowhere/package",
        "OWN_PROGRAMS": "/nowhere/bin",
        "TMPDIR": "/tmp",
    }
    return Director(
        policy,
        project=PROJECT,
        environ={"HOME": HOME},
        variables=own_paths,
        observe=observe,
        confined=confined,
        around=UNKNOWN,
    )


def examples(policy: Policy) -> Iterator[Example]:
    """Every example of every rule, also of the extended ones and those that are replaced at present, and of every
    exception, also of those that have ended; its rule is one that it is to.
    """
    for rule in policy.rules:
        yield from examples_of(rule)
    for rule in policy.rules:
        for exception in rule.exceptions:
            yield from examples_of_exception(rule, exception)
    for exception in policy.exceptions:
        if (above := shipped_rule(exception.rule)) is not None:
            yield from examples_of_exception(above, exception)


def examples_of(rule: Rule) -> Iterator[Example]:
    """Every example of a rule, whatever the circumstances; those of exceptions to it are not among them."""
    for kind in KINDS:
        for command in getattr(rule.tests, kind):
            yield Example(rule, kind, command)
    for group in rule.tests.given:
        for kind in KINDS:
            for command in getattr(group, kind):
                yield Example(rule, kind, command, given=group.circumstances)


def examples_of_exception(rule: Rule, exception: RuleException) -> Iterator[Example]:
    """Every example of an exception to a rule, whatever the circumstances."""
    for kind in EXCUSED:
        for command in getattr(exception.tests, kind):
            yield Example(rule, kind, command, exception)
    for group in exception.tests.given:
        for kind in EXCUSED:
            for command in getattr(group, kind):
                yield Example(rule, kind, command, exception, group.circumstances)


def shipped_rule(name: str) -> Rule | None:
    """A rule that ships, and that a project's policy may excuse from; None where there is none of that name."""
    return next((rule for each in _ABOVE for rule in _shipped(each).rules if rule.id == name and is_light(rule)), None)


@cache
def _shipped(name: str) -> Policy:
    return loader.load(loader.named(name), tested=False)


def run(policy: Policy) -> Iterator[Result]:
    """Judge every example of the rules and exceptions that hold now."""
    bench = Bench(policy)
    for example in examples(policy):
        if bench.holds(example):
            yield bench.judge(example)


class Bench:
    """Where the examples of a policy are judged."""

    def __init__(self, policy: Policy, variables: Sequence[str] = ()) -> None:
        self.policy, self.variables = policy, variables
        self.director = director_for(policy, variables)
        self._in_force = {id(rule.rule) for rule in self.director.in_force().rules.all}

    def holds(self, example: Example) -> bool:
        """Tell whether the rule holds now, and the exception."""
        if example.exception is not None and not example.exception.holds(self.director.in_force().now):
            return False
        return id(example.rule) in self._in_force or self._is_above(example)

    def judge(self, example: Example, program: Program | None = None) -> Result:
        """Judge one example (`program`: what it would run, where that is known)."""
        director = self.director
        if self._is_above(example):
            # What the project's policy excuses from stands in the policy above it.
            above = next(each for name in _ABOVE if example.rule in (each := _shipped(name)).rules)
            director = director_for([Layer(above, "builtin"), Layer(self.policy, "project")], self.variables)
        return judge(director, example, program)

    def _is_above(self, example: Example) -> bool:
        return any(each is example.exception for each in self.policy.exceptions)


def written_in(command: str, said: Given | None) -> Action:
    """Return the action that an example stands for, in its circumstances."""
    action = written(command, cwd=PROJECT)
    return action if said is None or said.agent is None else replace(action, agent=said.agent)


def in_brackets(said: Given | None) -> str:
    """Return the circumstances of an example for people, as the end of a line; "" where there are none."""
    told = {} if said is None else {name: value for name, value in asdict(said).items() if value is not None}
    return f"  [given {flow(told)}]" if told else ""


def program_of(director: Director, example: Example) -> Program:
    """Return what an example would run."""
    return director.program(written(example.command, cwd=PROJECT))


def judge(director: Director, example: Example, program: Program | None = None) -> Result:
    """Judge one example (`program`: what it would run, where that is known).

    `match`: the rule applies for certain, and the decision is at least as strict as it (an allow: exactly). `maybe`: it
    may apply. `not_match`: it does not apply. `confined`: it applies, and allows. What extended rules allow, the
    extending file may forbid. A rule that only allows what is confined is judged as where that can be done. An
    exception excuses its `match` from the rule, as a whole, and its `not_match` not.
    """
    action = written_in(example.command, example.given)
    program = program or director.program(action)
    situation = Situation.of(action, confinable=example.confinable, around=given(example.given))
    decision, judged = director.judge_with_hits(program, situation, example.command)
    rules = director.in_force().rules
    hits = [hit for each in judged for hit in each.hits()]
    hits += [] if judged else rules.unseen(example.command, situation)
    mine = [hit for hit in hits if hit.rule is not None and hit.rule.rule is example.rule]
    if example.exception is not None:
        return Result(
            example, decision, _expected_excuse(example, _is_excused(example, rules, judged, situation), mine)
        )
    return Result(example, decision, _expected(example, decision.verdict, [hit.certain for hit in mine]))


def _is_excused(example: Example, rules: Rules, judged: Sequence[Judged], situation: Situation) -> bool:
    """Tell whether the exception excuses any part of an example from its rule."""
    rule = next(each for each in rules.all if each.rule is example.rule)
    excuse = next((each for each in rule.excuses if each.by is example.exception), None)
    units = [
        (each.command, effect) for each in judged for effect in (each.command.effects if rule.by_effect else [None])
    ]
    return excuse is not None and any(
        rule.when(command, effect, situation) != NO and excuse.clause(command, effect, situation) == YES
        for command, effect in units
    )


def _expected_excuse(example: Example, excused: bool, hits: Sequence[object]) -> str:
    whole = excused and not hits
    if whole is (example.kind == "match"):
        return ""
    return f"it is {'' if example.kind == 'match' else 'not '}excused from {example.rule.id}, as a whole"


def _expected(example: Example, verdict: Verdict, certain: list[bool]) -> str:
    rule = example.rule
    wanted = Verdict.ALLOW if example.kind == "confined" else VERDICTS[rule.decision]
    if example.kind == "not_match":
        return f"{rule.id} does not apply" if certain else ""
    if example.kind == "maybe":
        if not certain or True in certain:
            return f"{rule.id} may apply, uncertainly"
        return "" if verdict is not Verdict.ALLOW else "ask or deny"
    if True not in certain:
        return f"{rule.id} applies"
    if wanted is Verdict.ALLOW:
        return "" if verdict is Verdict.ALLOW or rule.inherited else "allow"
    return "" if verdict >= wanted else f"{wanted} or stricter"


MAX_EXAMPLES = 2_000
MAX_TEXT = 50_000
"""Most characters of all examples together: a repository's policy must not take our time."""
MAX_FOUND = 20_000
"""Most commands and effects that all examples together may have."""
_SHOWN = 200


def identity(policy: Policy, variables: Iterable[str] = (), now: str | None = None) -> list[str] | None:
    """Return what a pass of these tests holds for, beside the policy's files; None where there is nothing to test.

    Which overrides and exceptions hold now decides which rules do; where the project and the home are does not count,
    because the tests have their own.
    """
    exceptions = policy.all_exceptions()
    if not (any(map(_tested, policy.rules)) or any(map(_tested, exceptions))):
        return None
    moment = now if now is not None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    changes = [f"{rule.origin} {rule.id}" for rule in policy.on(moment) if rule.override is not None]
    changes += [f"{each.origin} {each.rule}" for each in exceptions if each.holds(moment)]
    return [*sorted(variables), *sorted(changes)]


def check(policy: Policy, variables: Sequence[str] = ()) -> None:
    """Run the tests.

    Args:
        policy: the policy, as it was merged.
        variables: names of path variables that whoever loads it will give.

    Raises:
        PolicyError: one fails, or they are too many: file:line:column, the rule, the example, expected and got.
    """

    chosen = [each for each in examples(policy) if _tested(each.exception or each.rule)]
    if len(chosen) > MAX_EXAMPLES or sum(len(each.command) for each in chosen) > MAX_TEXT:
        raise PolicyError(
            f"{_file(chosen[0])}: too many tests: at most {MAX_EXAMPLES}, of {MAX_TEXT} characters together"
        )
    bench = Bench(policy, variables)
    failed: list[Result] = []
    size = 0
    for example in chosen:
        if not bench.holds(example):
            continue
        program = program_of(bench.director, example)
        size += sum(1 + len(command.effects) for command in program.commands)
        if size > MAX_FOUND:
            raise PolicyError(f"{_file(example)}: the tests of its rules hold too many commands")
        result = bench.judge(example, program)
        if not result.passed:
            failed.append(result)
    if failed:
        raise _error(policy, failed)


def _tested(part: Rule | RuleException) -> bool:
    return part.tests not in (Tests(), ExceptionTests()) and not part.origin.startswith(sources.BUILTIN)


def _file(example: Example) -> str:
    return example.origin.rpartition(":")[0]


def _error(policy: Policy, failed: "Sequence[Result]") -> PolicyError:
    """The first failure, at its place in the file."""
    result, more = failed[0], len(failed) - 1
    example = result.example
    shown = example.command if len(example.command) <= _SHOWN else example.command[:_SHOWN] + "..."
    shown = f"{shown!r}{in_brackets(example.given)}"
    name = example.name if example.exception is not None else f"rule {example.name}"
    message = f"{name}: {example.kind}: {shown}: expected {result.expected}, got {result.found}"
    if more:
        message += f" (and {more} more: hla policy test shows all)"
    source = next((each for each in policy.sources if each.name == _file(example)), None)
    if source is not None:
        raw = b""
        with suppress(PolicyError):  # a draft need not be in its file
            raw = sources.read(source.path)
        if sha256(raw).hexdigest() == source.sha256:
            return _located(raw, example, message)
    return PolicyError(f"{example.origin}: {message}")


def _located(raw: bytes, example: Example, message: str) -> PolicyError:
    from humanlayer_agent.policy.language import yaml_positions

    document = yaml_positions.decode(raw, _file(example))
    if example.exception is None:
        number = next(n for n, each in enumerate(document.data["rules"]) if each["id"] == example.rule.id)
        return document.error(("rules", number, *place_of(example)), message)
    number = exception_number(document.data, example.exception)
    return document.error(("exceptions", number, *place_of(example)), message)


def place_of(example: Example) -> tuple[str | int, ...]:
    """Where an example stands in its rule or exception."""
    kind, command = example.kind, example.command
    tests = (example.exception or example.rule).tests
    for n, group in enumerate(tests.given if example.given is not None else ()):
        if group.circumstances == example.given and command in getattr(group, kind):
            return ("tests", "given", n, kind, getattr(group, kind).index(command))
    return ("tests", kind, getattr(tests, kind).index(command))


def exception_number(data: Mapping[str, Any], exception: RuleException) -> int:
    """Where an exception stands among those of its file, given as data."""
    said = exception.rule, exception.reason, list(exception.tests.match), list(exception.tests.not_match)
    for number, each in enumerate(data["exceptions"]):
        tests = each.get("tests") or {}
        if said == (each["rule"], each["reason"], tests.get("match", []), tests.get("not_match", [])):
            return number
    raise ValueError("it stands in another file")
