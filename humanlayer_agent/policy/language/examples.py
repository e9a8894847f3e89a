"""The tests that stand in the rules of a policy: each example is judged, and decision and rule are asserted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import VERDICTS
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.policy import Policy, Rule
from humanlayer_agent.shell.program import Program

PROJECT = "/nowhere/project"
HOME = "/nowhere/home"
KINDS = ("match", "maybe", "not_match")


@dataclass(frozen=True, slots=True)
class Example:
    """A command under `match`, `maybe` or `not_match` of a rule."""

    rule: Rule
    kind: str
    command: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an example. `expected` is "" where it passed."""

    example: Example
    decision: PolicyDecision
    expected: str

    @property
    def passed(self) -> bool:
        return not self.expected

    @property
    def found(self) -> str:
        """What was decided, in one line."""
        decision = self.decision
        return f"{decision.verdict} ({', '.join(decision.rules) or 'no rule'})"


def director_for(policy: Policy, variables: Iterable[str] = (), *, observe: bool = False) -> Director:
    """A Director over a project and a home that don't exist, so that nothing on this machine decides.

    Args:
        policy: the policy.
        variables: names of further variables of path patterns; each gets a path of its own.
        observe: decisions say that they are not enforced.
    """
    folders = (("CONFIG", ".config"), ("STATE", ".local/state"), ("DATA", ".local/share"))
    own = {f"OWN_{name}": f"{HOME}/{path}/humanlayer-agent" for name, path in folders}
    given = {
        **{name: f"/nowhere/{name}" for name in variables},
        **own,
        "STORE": f"{own['OWN_DATA']}/store.sqlite3",
        "PACKAGE": "/nowhere/package",
        "TMPDIR": "/tmp",
    }
    return Director(policy, project=PROJECT, environ={"HOME": HOME}, variables=given, observe=observe)


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
    """What an example would run."""
    return director.program(Action(example.command, cwd=PROJECT))


def judge(director: Director, example: Example, program: Program | None = None) -> Result:
    """Judge one example (`program`: what it would run, where that is known).

    `match`: the rule applies for certain, and the decision is at least as strict as it (an allow: exactly). `maybe`: it
    may apply. `not_match`: it does not apply. What extended rules allow, the extending file may forbid.
    """
    program, situation = program or program_of(director, example), Situation()
    decision = director.judge(program, situation, example.command)
    rules = director.in_force().rules
    hits = [hit for each in rules.judge(program, situation) for hit in each.hits()]
    hits += [] if program.commands else rules.unseen(example.command, situation)
    mine = [hit for hit in hits if hit.rule is not None and hit.rule.rule is example.rule]
    return Result(example, decision, _expected(example, decision.verdict, [hit.certain for hit in mine]))


def _expected(example: Example, verdict: Verdict, certain: list[bool]) -> str:
    rule, wanted = example.rule, VERDICTS[example.rule.decision]
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
