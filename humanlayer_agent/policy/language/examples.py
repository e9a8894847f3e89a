"""The tests that stand in the rules of a policy: each example is judged, and decision and rule are asserted.

The tests that stand in a policy's own rules, run when it is loaded: a policy that fails them is broken.

Only the rules of files that do not ship with us are tested here: what a file adds to a shipped list is meant to change
what shipped rules do. `hla policy test` runs all of them, and shows every failure.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import VERDICTS
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.language.policy import Policy, Rule, Tests
from humanlayer_agent.shell import Program

PROJECT = "/nowhere/project"
HOME = "/nowhere/home"
KINDS = ("match", "maybe", "not_match", "confined")


@dataclass(frozen=True, slots=True)
class Example:
    """A command under `match`, `maybe`, `not_match` or `confined` of a rule."""

    rule: Rule
    kind: str
    command: str

    @property
    def confinable(self) -> bool:
        """Tell whether it is judged as where what is allowed can be confined."""
        return self.rule.only_confined or self.kind == "confined"


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
    policy: Policy, variables: Iterable[str] = (), *, observe: bool = False, confined: bool = False
) -> Director:
    """A Director over a project and a home that don't exist, so that nothing on this machine decides.

    Args:
        policy: the policy.
        variables: names of further variables of path patterns; each gets a path of its own.
        observe: decisions say that they are not enforced.
        confined: as where what is allowed can be confined.
    """
    folders = (("CONFIG", ".config"), ("STATE", ".local/state"), ("DATA", ".local/share"))
    own = {f"OWN_{name}": f"{HOME}/{path}/humanlayer-agent" for name, path in folders}
    given = {
        **{name: f"/nowhere/{name}" for name in variables},
        **own,
        "STORE": f"{own['OWN_DATA']}/store.sqlite3",
        "PACKAGE": "/nowhere/package",
        "OWN_PROGRAMS": "/nowhere/bin",
        "TMPDIR": "/tmp",
    }
    return Director(
        policy, project=PROJECT, environ={"HOME": HOME}, variables=given, observe=observe, confined=confined
    )


def examples(policy: Policy) -> Iterator[Example]:
    """Every example of every rule, also of the extended ones and those that are replaced at present."""
    for rule in policy.rules:
        for kind in KINDS:
            for command in getattr(rule.tests, kind):
                yield Example(rule, kind, command)


def run(policy: Policy) -> Iterator[Result]:
    """Judge every example of the rules that hold today."""
    director = director_for(policy)
    in_force = {id(rule.rule) for rule in director.in_force().rules.all}
    for example in examples(policy):
        if id(example.rule) in in_force:
            yield judge(director, example)


def program_of(director: Director, example: Example) -> Program:
    """Return what an example would run."""
    return director.program(Action(example.command, cwd=PROJECT))


def judge(director: Director, example: Example, program: Program | None = None) -> Result:
    """Judge one example (`program`: what it would run, where that is known).

    `match`: the rule applies for certain, and the decision is at least as strict as it (an allow: exactly). `maybe`: it
    may apply. `not_match`: it does not apply. `confined`: it applies, and allows. What extended rules allow, the
    extending file may forbid. A rule that only allows what is confined is judged as where that can be done.
    """
    program, situation = program or program_of(director, example), Situation(confinable=example.confinable)
    decision = director.judge(program, situation, example.command)
    rules = director.in_force().rules
    judged = rules.judge(program, situation)
    hits = [hit for each in judged for hit in each.hits()]
    hits += [] if judged else rules.unseen(example.command, situation)
    mine = [hit for hit in hits if hit.rule is not None and hit.rule.rule is example.rule]
    return Result(example, decision, _expected(example, decision.verdict, [hit.certain for hit in mine]))


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


def identity(policy: Policy, variables: Iterable[str] = (), today: str | None = None) -> list[str] | None:
    """Return what a pass of these tests holds for, beside the policy's files; None where there is nothing to test.

    Which overrides hold today decides which rules do; where the project and the home are does not count, because the
    tests have their own.
    """
    if not any(_tested(rule) for rule in policy.rules):
        return None
    day = today if today is not None else time.strftime("%Y-%m-%d", time.gmtime())
    overrides = [f"{rule.origin} {rule.id}" for rule in policy.on(day) if rule.override is not None]
    return [*sorted(variables), *sorted(overrides)]


def check(policy: Policy, variables: Sequence[str] = ()) -> None:
    """Run the tests.

    Args:
        policy: the policy, as it was merged.
        variables: names of path variables that whoever loads it will give.

    Raises:
        PolicyError: one fails, or they are too many: file:line:column, the rule, the example, expected and got.
    """

    chosen = [each for each in examples(policy) if _tested(each.rule)]
    if len(chosen) > MAX_EXAMPLES or sum(len(each.command) for each in chosen) > MAX_TEXT:
        raise PolicyError(
            f"{_file(chosen[0].rule)}: too many tests: at most {MAX_EXAMPLES}, of {MAX_TEXT} characters together"
        )
    director = director_for(policy, variables)
    in_force = {id(rule.rule) for rule in director.in_force().rules.all}
    failed: list[Result] = []
    found = 0
    for example in chosen:
        if id(example.rule) not in in_force:
            continue
        program = program_of(director, example)
        found += sum(1 + len(command.effects) for command in program.commands)
        if found > MAX_FOUND:
            raise PolicyError(f"{_file(example.rule)}: the tests of its rules hold too many commands")
        result = judge(director, example, program)
        if not result.passed:
            failed.append(result)
    if failed:
        raise _error(policy, failed)


def _tested(rule: Rule) -> bool:
    return rule.tests != Tests() and not rule.origin.startswith(sources.BUILTIN)


def _file(rule: Rule) -> str:
    return rule.origin.rpartition(":")[0]


def _error(policy: Policy, failed: "Sequence[Result]") -> PolicyError:
    """The first failure, at its place in the file."""
    result, more = failed[0], len(failed) - 1
    example, rule = result.example, result.example.rule
    shown = example.command if len(example.command) <= _SHOWN else example.command[:_SHOWN] + "..."
    message = f"rule {rule.id}: {example.kind}: {shown!r}: expected {result.expected}, got {result.found}"
    if more:
        message += f" (and {more} more: hla policy test shows all)"
    source = next((each for each in policy.sources if each.name == _file(rule)), None)
    if source is not None:
        raw = sources.read(source.path)
        if sha256(raw).hexdigest() == source.sha256:
            return _located(raw, result, message)
    return PolicyError(f"{rule.origin}: {message}")


def _located(raw: bytes, result: "Result", message: str) -> PolicyError:
    from humanlayer_agent.policy.language import yaml_positions

    example, rule = result.example, result.example.rule
    document = yaml_positions.decode(raw, _file(rule))
    number = next(n for n, written in enumerate(document.data["rules"]) if written["id"] == rule.id)
    place = getattr(rule.tests, example.kind).index(example.command)
    return document.error(("rules", number, "tests", example.kind, place), message)
