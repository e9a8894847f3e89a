"""Drafts of exceptions: what a policy would have to say not to ask about a command, as narrow as can be said.

Each thing that is asked about gives one condition, of the program, its sub-command, and what the effect is about: a
path, a host, a package. An exception to each rule that asks has it, and so has an allow where none covers the effect.
What is denied, severe, locked, unread or not certain gives none.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from humanlayer_agent.policy.conditions import private_programs
from humanlayer_agent.policy.conditions.compiler import CONTACTS, FILE_KINDS
from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.explanation.explain import Explanation
from humanlayer_agent.policy.explanation.why_not import Obstacle, obstacles
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.examples import Bench, Example
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.yaml_layout import flow
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Effect, SimpleCommand

SERVICE = "service-"
_NAMED = frozenset({"package", "database"})
"""Kinds of effects that are about something with a name."""
_SETS = {"paths": "all_within", "hosts": "any_in", "names": "any_in", "operands": "all"}
"""What of a condition is a set that grows with what it is to cover."""
_MOST_TESTS = 6
_LEFT_ALONE = 2

Condition = dict[str, Any]


@dataclass(slots=True)
class Part:
    """An exception to `rule`, or ("" for the rule) an allow, with its condition and the commands that it is for."""

    rule: str
    when: Condition
    commands: list[str] = field(default_factory=list)

    @property
    def shape(self) -> str:
        """What two parts have in common that become one: all but the sets."""
        rest = {key: value for key, value in self.when.items() if key not in _SETS}
        return f"{self.rule} {flow(rest)} {sorted(self.when.keys() & _SETS.keys())}"


@dataclass(slots=True)
class Draft:
    """Exceptions and allows; and why there is none for what stays (`problems`)."""

    parts: list[Part] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, rule: str, when: Condition, command: str) -> None:
        """Add a part, or join it with one of its shape."""
        new = Part(rule, when, [command])
        old = next((each for each in self.parts if each.shape == new.shape), None)
        if old is None:
            self.parts.append(new)
            return
        old.commands += [each for each in new.commands if each not in old.commands]
        for key, inner in _SETS.items():
            if key in when:
                both = (*old.when[key][inner], *when[key][inner])
                old.when[key] = {inner: [each for n, each in enumerate(both) if each not in both[:n]]}

    def exceptions(self, reason: str, expires: str) -> list[dict[str, Any]]:
        """The exceptions, as a policy file has them."""
        return [
            {"rule": each.rule, "when": each.when, "reason": reason, "expires": expires, "tests": {}}
            for each in self.parts
            if each.rule
        ]

    def rules(self, reason: str, taken: Iterable[str]) -> list[dict[str, Any]]:
        """The allows, as a policy file has them; `taken`: the ids that there are."""
        found: list[dict[str, Any]] = []
        ids = set(taken)
        for each in self.parts:
            if not each.rule:
                name = _free_id(each.when, ids)
                ids.add(name)
                found.append({"id": name, "decision": "allow", "reason": reason, "when": each.when, "tests": {}})
        return found


def draft(
    explanation: Explanation,
    command: str,
    variables: Mapping[str, str],
    out_of_reach: Callable[[CompiledRule], str] = lambda rule: "",
) -> Draft:
    """What would have to be said for a command to be allowed.

    Args:
        explanation: of the decision on it.
        command: its text.
        variables: HOME and PROJECT, which paths are written by.
        out_of_reach: says why a rule can't be excused from where the draft will stand; "" where it can.
    """
    made = Draft()
    decision = explanation.decision
    problems = [] if decision.parse == "ok" else [f"not all of it is understood: {'; '.join(decision.parse_reasons)}"]
    found: list[tuple[str, Condition]] = []
    for obstacle in obstacles(explanation):
        try:
            found += _parts(obstacle, variables, out_of_reach)
        except Undrafted as why:
            problems.append(str(why))
    if not (problems or found) and decision.verdict is not Verdict.ALLOW:
        problems.append(decision.reason or "nothing of it can be excused")
    made.problems += dict.fromkeys(problems)
    for rule, when in found if not problems else ():
        made.add(rule, when, command)
    return made


class Undrafted(Exception):
    """Nothing can be drafted: why."""


def _parts(
    obstacle: Obstacle, variables: Mapping[str, str], out_of_reach: Callable[[CompiledRule], str]
) -> Iterator[tuple[str, Condition]]:
    """The rules to be excused from ("": an allow is needed), each with the condition."""
    command, effect = obstacle.command, obstacle.effect
    own = private_programs.own(command)
    for hit in obstacle.standing:
        assert hit.rule is not None
        if why := _kept(hit) or out_of_reach(hit.rule):
            raise Undrafted(f"{hit.rule.rule.id}: {why}")
    if own is not None and effect in (None, own):
        yield "", {"program": command.program, "unread": True}
        return
    if effect is None:
        rules = ", ".join(hit.rule.rule.id for hit in obstacle.standing if hit.rule is not None) or "no rule allows it"
        raise Undrafted(f"`{one_line(command.text)}` is asked about as a whole ({rules}): write an exception by hand")
    when = condition(command, effect, variables)
    yield from ((hit.rule.rule.id, when) for hit in obstacle.standing if hit.rule is not None)
    if not obstacle.allowed:
        yield "", when


def _kept(hit: Hit) -> str:
    """Why nothing may be drafted that excuses from a rule; "" where it may."""
    assert hit.rule is not None
    rule = hit.rule.rule
    if rule.locked:
        return "it is locked"
    if rule.decision != "ask" or hit.verdict is Verdict.DENY:
        return "it denies"
    if rule.severity in ("high", "critical"):
        return f"it is of {rule.severity} severity"
    if not hit.certain:
        unknown = ", ".join(hit.command.unresolved) or "a part of it"
        return f"it is not certain that it applies: {one_line(unknown)} is not known"
    return ""


# ---- conditions ---------------------------------------------------------------------------------------------


def condition(command: SimpleCommand, effect: Effect, variables: Mapping[str, str]) -> Condition:
    """The narrowest condition under which a policy would know this effect again.

    Raises:
        Undrafted: there is none that could be relied on.
    """
    what = f"{effect.kind} {one_line(str(effect.public()['operand'] or 'of something unknown'))}"
    if effect.unread:
        raise Undrafted(f"{what}: nobody has read that code")
    if not effect.resolved or effect.operand is None or effect.pattern is not None:
        raise Undrafted(f"{what}: it is not certain what that is")
    found: Condition = {}
    if effect.source != "redirect":
        if command.program is None or "/" in command.program:
            raise Undrafted(f"{what}: the program has no name of its own")
        found["program"] = command.program
        if command.subcommand is not None:
            found["subcommand"] = [command.subcommand]
    found |= {"effect": effect.kind} | ({} if effect.kind in _NAMED else {"role": effect.role})
    if effect.kind in FILE_KINDS - {"execute"}:
        return found | {"paths": {"all_within": [_place(effect, variables)]}}
    if effect.kind in CONTACTS and effect.role.startswith(SERVICE):
        # Where nothing says which account or cluster is meant, it is the usual one: no option may name another.
        said = {name: values for name, values in command.attributes.items() if values and None not in values}
        named = {name: [_word(str(value)) for value in values] for name, values in said.items()}
        only = {"flags": _options(command, what)["flags"]}
        return found | only | ({"attributes": named} if named else {})
    if effect.kind in CONTACTS and effect.role not in ("operand", "redirect"):
        raise Undrafted(f"{what}: nothing says which host that is")
    if effect.kind in CONTACTS:
        host = effect.operand.rpartition(":")[0] if effect.operand.count(":") == 1 else effect.operand
        return found | {"hosts": {"any_in": [host]}} | _options(command, what) | {"not": _with_data()}
    if effect.kind in _NAMED:
        if None in command.operands:
            raise Undrafted(f"{what}: not all of its words are known")
        words = {"operands": {"all": [_word(str(word)) for word in command.operands]}} if command.operands else {}
        return found | {"names": {"any_in": [effect.operand]}} | words | _options(command, what)
    raise Undrafted(f"{what}: write an exception by hand")


def _place(effect: Effect, variables: Mapping[str, str]) -> str:
    path = posixpath.normpath(effect.operand or "")  # where a link makes this another one, nothing is excused
    if not path.startswith("/") or set(path) & set("*?$"):
        raise Undrafted(f"{effect.kind} {one_line(path)}: a pattern can't stand for that path alone")
    for name, short in (("PROJECT", "${PROJECT}"), ("HOME", "~")):
        base = variables[name].rstrip("/")
        if base and (path == base or path.startswith(f"{base}/")):
            path = short + path[len(base) :]
            break
    return f"{path.rstrip('/')}/**" if effect.recursive else path


def _options(command: SimpleCommand, what: str) -> Condition:
    """No options but those that are given, each with the value that it has."""
    if not command.flags_complete or any(None in values for values in command.options.values()):
        raise Undrafted(f"{what}: not all of its options are known")
    valued = {name: [_word(str(v)) for v in values] for name, values in command.options.items() if values}
    return {"flags": {"only": sorted(command.flags)}} | ({"options": valued} if valued else {})


def _with_data() -> Condition:
    """Something that is read here goes there."""
    return {"flow": {"from": {"effect": ["read", "environment", "database", "system"]}}}


def _word(value: str) -> str | dict[str, str]:
    """A pattern that stands for one word alone."""
    return {"regex": re.escape(value)} if set(value) & set("*?") else value


def _free_id(when: Mapping[str, Any], taken: set[str]) -> str:
    words = [
        str(when.get("program", "redirects")),
        *when.get("subcommand", ()),
        "" if "unread" in when else when["effect"],
    ]
    name = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:50] or "allowed"
    return next(each for n in range(1, 10_000) if (each := name if n == 1 else f"{name}-{n}") not in taken)


# ---- tests --------------------------------------------------------------------------------------------------


def add_tests(policy: Policy, made: Draft, exceptions: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
    """Give every exception and allow of a draft the examples that hold for it.

    Args:
        policy: has them already, without tests; each exception with a reason of its own.
        made: the draft.
        exceptions, rules: what of it stands in the policy, in its order.
    """
    bench = Bench(policy)
    pairs = [(rule, each) for rule in policy.rules for each in rule.exceptions]
    pairs += [(above, each) for each in policy.exceptions if (above := examples.shipped_rule(each.rule)) is not None]
    for part, written in zip((p for p in made.parts if p.rule), exceptions, strict=True):
        rule, exception = next((rule, each) for rule, each in pairs if each.reason == written["reason"])
        others = _alike((*rule.tests.match, *rule.tests.maybe), part.commands)
        tried = partial(Example, rule, exception=exception)
        written["tests"] = _passing(bench, part.commands, others, tried)
    asked = [command for rule in policy.rules if rule.decision == "ask" for command in rule.tests.match]
    for part, written in zip((p for p in made.parts if not p.rule), rules, strict=True):
        allow = next(rule for rule in policy.rules if rule.id == written["id"])
        written["tests"] = _passing(bench, part.commands, _alike(asked, part.commands), partial(Example, allow))


def _passing(
    bench: Bench, own: Sequence[str], others: Sequence[str], example: Callable[..., Example]
) -> dict[str, list[str]]:
    """The examples that pass: of those that it was made for, and of others that it leaves alone."""
    match = (each for each in own if bench.judge(example(kind="match", command=each)).passed)
    rest = (each for each in others if bench.judge(example(kind="not_match", command=each)).passed)
    found = {"match": list(islice(match, _MOST_TESTS)), "not_match": list(islice(rest, _LEFT_ALONE))}
    return {kind: commands for kind, commands in found.items() if commands}


def _alike(commands: Iterable[str], own: Sequence[str]) -> list[str]:
    """Other commands, first those that begin with the same word."""
    first = {each.split(" ")[0] for each in own}
    return sorted((c for c in commands if c not in own), key=lambda each: each.split(" ")[0] not in first)
