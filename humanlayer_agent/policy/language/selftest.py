"""The tests that stand in a policy's own rules, run when it is loaded: a policy that fails them is broken.

Only the rules of files that do not ship with us are tested here: what a file adds to a shipped list is meant to change
what shipped rules do. `hla policy test` runs all of them, and shows every failure.
"""

import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.language.policy import Policy, Rule

if TYPE_CHECKING:
    from humanlayer_agent.policy.language.examples import Result

MAX_EXAMPLES = 2_000
MAX_TEXT = 50_000
"""Most characters of all examples together: a repository's policy must not take our time."""
MAX_FOUND = 20_000
"""Most commands and effects that all examples together may have."""
_SHOWN = 200


def identity(policy: Policy, variables: Iterable[str] = (), today: str | None = None) -> list[str] | None:
    """What a pass of these tests holds for, beside the policy's files; None where there is nothing to test.

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
    from humanlayer_agent.policy.language import examples

    chosen = [each for each in examples.examples(policy) if _tested(each.rule)]
    if len(chosen) > MAX_EXAMPLES or sum(len(each.command) for each in chosen) > MAX_TEXT:
        raise PolicyError(
            f"{_file(chosen[0].rule)}: too many tests: at most {MAX_EXAMPLES}, of {MAX_TEXT} characters together"
        )
    director = examples.director_for(policy, variables)
    in_force = {id(rule.rule) for rule in director.in_force().rules.all}
    failed: list[Result] = []
    found = 0
    for example in chosen:
        if id(example.rule) not in in_force:
            continue
        program = examples.program_of(director, example)
        found += sum(1 + len(command.effects) for command in program.commands)
        if found > MAX_FOUND:
            raise PolicyError(f"{_file(example.rule)}: the tests of its rules hold too many commands")
        result = examples.judge(director, example, program)
        if not result.passed:
            failed.append(result)
    if failed:
        raise _error(policy, failed)


def _tested(rule: Rule) -> bool:
    tests = rule.tests
    return bool(tests.match or tests.maybe or tests.not_match) and not rule.origin.startswith(sources.BUILTIN)


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
