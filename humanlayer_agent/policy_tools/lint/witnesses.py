"""Commands that a policy is tried on, judged: what each rule says of them.

Commands that no allow should let through unnoticed, from `dangers.yaml`, and those that the catalog shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions.circumstances import given
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit
from humanlayer_agent.policy.conditions.kleene import YES
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.examples import PROJECT, in_brackets, written_in
from humanlayer_agent.policy.language.policy import Given
from humanlayer_agent.policy_tools.lint.finding import Witness
from humanlayer_agent.shell import Effect, Program, SimpleCommand, analyse

NOTHING = Given()
"""Nothing is known of what surrounds a command."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A command with the decision on it and every hit."""

    command: str
    program: Program
    situation: Situation
    decision: PolicyDecision
    hits: tuple[Hit, ...]
    given: Given = NOTHING

    @property
    def allowed(self) -> bool:
        return self.decision.verdict is Verdict.ALLOW

    @property
    def witness(self) -> Witness:
        """The command as a witness, with its circumstances."""
        return Witness(f"{self.command}{in_brackets(self.given)}", str(self.decision.verdict), self.decision.rules)

    def hits_of(self, rule: CompiledRule) -> list[Hit]:
        """What `rule` hits."""
        return [hit for hit in self.hits if hit.rule is rule]

    def units(self, rule: CompiledRule) -> Iterator[tuple[SimpleCommand, Effect | None]]:
        """What `rule` is asked about: each effect (and what may be one), or each command."""
        for command in self.program.commands:
            if rule.by_effect:
                for effect in (*command.effects, *command.uses):
                    yield command, effect
            else:
                yield command, None

    def failed(self, rule: CompiledRule) -> list[str] | None:
        """The clauses of `when` that are not certain where it comes nearest to holding; None: nothing to ask about."""
        answers = [
            [name for name, clause in rule.clauses if clause(command, effect, self.situation) != YES]
            for command, effect in self.units(rule)
        ]
        return min(answers, key=len, default=None)


def judged(
    director: Director,
    command: str,
    said: Given = NOTHING,
    type: str = "bash",
    confinable: bool = False,
) -> Case:
    """Judge `command`, an action of this type, which starts in the project.

    Args:
        said: the circumstances.
        confinable: as where the kernel can hold it to a confinement.
    """
    action = written_in(command, said)
    if type == "bash":
        program = read(command, director.environ["HOME"])
    else:
        program = director.program(replace(action, type=type))
    situation = Situation.of(action, confinable=confinable, around=given(said))
    decision, judged = director.judge_with_hits(program, situation, command)
    hits = [hit for each in judged for hit in each.hits()]
    if not judged and program.status != "ok":
        hits += director.in_force().rules.unseen(command, situation)
    return Case(command, program, situation, decision, tuple(hits), said)


@lru_cache(maxsize=8192)
def read(command: str, home: str) -> Program:
    """What running `command` would do, whatever the policy: each is tried on much the same commands."""
    return analyse(command, cwd=PROJECT, environ={"HOME": home}, catalog=CATALOG)


def outcome(decision: PolicyDecision) -> tuple[object, ...]:
    """What a decision comes to, whichever rules it is by."""
    stopped = decision.verdict is not Verdict.ALLOW
    more = (decision.severity, decision.default_hit, decision.route, decision.limits) if stopped else ()
    return decision.verdict, *more


@dataclass(frozen=True, slots=True)
class Danger:
    """A command, what it does that an allow may not have meant, and the kinds of its effects that do it."""

    command: str
    does: str
    by: frozenset[str]


@cache
def shown_by_catalog() -> tuple[str, ...]:
    """The examples of the command catalog, of every program that it describes."""
    return tuple(example.command for example in CATALOG.examples())


@cache
def all_dangers() -> tuple[Danger, ...]:
    """Every dangerous command, in the order of the file."""
    import yaml

    groups = yaml.safe_load(Path(__file__).with_name("dangers.yaml").read_text(encoding="utf-8"))
    return tuple(Danger(c, group["does"], frozenset(group["by"])) for group in groups for c in group["commands"])
