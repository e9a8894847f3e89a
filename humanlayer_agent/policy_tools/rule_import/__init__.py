"""Allow and deny lists of other tools, read as a policy of ours: what could be carried, and what could not, by line.

Nothing becomes looser without a word. What an allow of theirs lets through and no rule of ours does is asked about; a
deny that can't be said is named, so that somebody writes it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.rule_import.command_patterns import (
    LOOSER,
    CommandPattern,
    Condition,
    NotCarried,
    allowing,
    looser,
    named,
    stopping,
)
from humanlayer_agent.policy_tools.yaml_additions import item
from humanlayer_agent.policy_tools.yaml_layout import formatted
from humanlayer_agent.safe_text import one_line

Decision = Literal["allow", "ask", "deny"]
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
COMMON_NOTES = (
    "Commands are read here, each in a line by itself: what an allow of one lets through says nothing of the others, "
    "of `timeout`, `nice` and the like before it, or of files that it is redirected to.",
    "Whatever a list allows, what lasts or can't be undone asks here: history that is written anew (git push --force), "
    "services, containers, the system, another user, variables that select code. Disasters are denied.",
    "A rule that asks or denies holds behind `sudo`, in a shell in the shell and for any path of the program as well.",
)
MOST_BYTES = 512 * 1024
_MOST_RULES = 1_500
_MOST_EXCUSES = 20
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Line:
    """One entry of a list: where it stands, what it says, and what is made of it.

    `when` are conditions of which one is to hold; those in `effects` allow what the command does. `rank` says which
    counts where several match; of the same rank the strictest does. `surely` are conditions under which it matches
    there without a doubt, so that it goes before a stricter one. `problem` is why it could not be carried.
    """

    number: int
    text: str
    decision: Decision | None = None
    when: tuple[Condition, ...] = ()
    effects: Condition | None = None
    surely: tuple[Condition, ...] = ()
    rank: float = 0
    problem: str = ""
    notes: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    message: str = ""
    of_commands: bool = False
    label: str = ""

    @property
    def is_looser(self) -> bool:
        """Whether something of it is let through here, and not there."""
        return any(note.startswith(LOOSER) for note in self.notes)


@dataclass(frozen=True, slots=True)
class List:
    """A list of another tool: whose it is, its lines, and what is to be known of it as a whole."""

    tool: str
    lines: Sequence[Line]
    notes: Sequence[str] = ()
    other_tools: Sequence[str] = ()
    """Its tools that are judged as commands here (`curl` for the fetch of a page), of which no rule of commands is."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A line and the ids of its rules; none where it could not be carried."""

    line: Line
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """A policy file, and what became of each line."""

    text: str
    lines: tuple[Carried, ...]
    notes: tuple[str, ...]
    tests: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


def command_line(number: int, text: str, decision: Decision, patterns: Iterable[CommandPattern], **more: Any) -> Line:
    """Return the line for commands that match one of some patterns."""
    patterns = list(patterns)
    line = Line(number, text, decision, of_commands=True, **more)
    try:
        if decision != "allow":
            when = tuple(c for each in patterns for c in stopping(each))
            notes = dict.fromkeys(note for each in patterns for note in looser(each))
            surely = tuple(named(each)[0] for each in patterns if each.first is not None)
            line = replace(line, when=when, surely=surely, notes=(*line.notes, *notes))
            return _with_examples(line, patterns)
        made = [allowing(each) for each in patterns]
    except NotCarried as why:
        return replace(line, problem=str(why))
    (base, *_), effects = [conditions[0] for conditions, _ in made], [conditions[1] for conditions, _ in made]
    notes = dict.fromkeys(note for _, notes in made for note in notes)
    bases = tuple(conditions[0] for conditions, _ in made)
    assert base is not None
    joined = effects[0] if len(effects) == 1 else {"any": effects}
    line = replace(line, when=bases, surely=bases, effects=joined, notes=(*line.notes, *notes))
    return _with_examples(line, patterns)


def _with_examples(line: Line, patterns: Sequence[CommandPattern]) -> Line:
    from shlex import quote

    examples = [each.example() for each in patterns[:3]]
    others = [f"echo {quote(example)}" for example in examples]
    return replace(
        line, matches=(*line.matches, *examples), others=(*line.others, *others), label=examples[0] if examples else ""
    )


# ---- the policy -----------------------------------------------------------------------------------------------


def imported(found: List, name: str, *, tests: Mapping[str, Mapping[str, Sequence[str]]] | None = None) -> Imported:
    """Return a list as a policy file.

    Args:
        found: the list.
        name: of the policy.
        tests: those of each rule; None: all that can be thought of, of which some may not hold.

    Raises:
        ConfigError: it is too long for a policy.
    """
    if len(found.lines) > _MOST_RULES:
        raise ConfigError(f"{len(found.lines)} lines are more than fit into one policy: at most {_MOST_RULES} rules")
    rules: list[dict[str, Any]] = []
    lines: list[Carried] = []
    comments: list[list[str]] = []
    wanted: dict[str, dict[str, Sequence[str]]] = {}
    for line in found.lines:
        if line.problem or line.decision is None or not line.when:
            lines.append(Carried(replace(line, problem=line.problem or "it names nothing")))
            continue
        line, unless = _with_precedence(line, found)
        first = _id(line, len(rules))
        made = [_rule(first, line, list(line.when), unless, found.tool)]
        wanted[first] = {"match": line.matches, "not_match": line.others}
        kept = {kind: list(each) for kind, each in (wanted if tests is None else tests).get(first, {}).items() if each}
        if kept:
            made[0]["tests"] = kept
        if line.effects is not None:
            redirect: Condition = {"role": "redirect"}
            not_this = redirect if unless is None else {"any": [redirect, unless]}
            made.append(_rule(f"{first}-does", line, [line.effects], not_this, found.tool))
        comments.append([f"line {line.number}: {_shown(line.text)}", *line.notes])
        comments += [[] for _ in made[1:]]
        rules += made
        lines.append(Carried(line, tuple(str(each["id"]) for each in made)))
    if len(rules) > _MOST_RULES:
        raise ConfigError(f"{len(rules)} rules are more than fit into one policy: at most {_MOST_RULES}")
    text = _text(found, name, rules, comments, [each for each in lines if not each.rules])
    return Imported(formatted(text, name), tuple(lines), tuple(found.notes), wanted)


def summary(carried: Carried) -> str:
    """Return what became of a line, in one line."""
    line = carried.line
    said = f"line {line.number}: {_shown(line.text)}: "
    if carried.rules:
        return said + "; ".join([f"rule {carried.rules[0]}", *line.notes])
    looser = "not carried, which is looser here: " if line.decision in ("ask", "deny") else "not carried: "
    return said + looser + one_line(line.problem)


def _with_precedence(line: Line, found: List) -> tuple[Line, Condition | None]:
    """What goes before a line and is looser excuses from it: here the strictest of all that match would count."""
    assert line.decision is not None
    conditions: list[Condition] = []
    if line.of_commands and _may_stand_for_tools(line):
        if line.decision == "allow":
            conditions.append({"all": [{"tool": "*"}, {"not": {"tool": _shells()}}]})
        elif found.other_tools:
            conditions.append({"tool": list(found.other_tools)})
    for each in found.lines:
        if each.rank <= line.rank or each.problem or each.of_commands != line.of_commands or each.decision is None:
            continue
        if _STRICTNESS[each.decision] < _STRICTNESS[line.decision] and _may_meet(line, each):
            conditions += each.surely
    if len(conditions) > _MOST_EXCUSES:
        return replace(line, notes=(*line.notes, "what goes before it there does not here: the strictest counts")), None
    if not conditions:
        return line, None
    return line, conditions[0] if len(conditions) == 1 else {"any": conditions}


_STAND_INS = frozenset({"", "cat", "cp", "curl", "find", "grep", "ls", "mkdir", "mv", "patch", "rm", "tee", "touch"})
"""Programs as which calls of tools are judged; "": any."""


@cache
def _shells() -> list[str]:
    """The tools of coding agents that run commands: an allow of a command is for them, and for no other tool."""
    from humanlayer_agent.tools.catalog import load

    return sorted({name for agent in load().agents.values() for name, tool in agent.tools.items() if tool.runs})


def _may_stand_for_tools(line: Line) -> bool:
    return any(condition.get("program", "") in _STAND_INS for condition in line.when)


def _may_meet(one: Line, other: Line) -> bool:
    programs = [{str(condition.get("program", "")) for condition in each.when} for each in (one, other)]
    return "" in programs[0] or "" in programs[1] or bool(programs[0] & programs[1])


def _rule(name: str, line: Line, when: Sequence[Condition], unless: Condition | None, tool: str) -> dict[str, Any]:
    verbs = {"allow": "allows", "ask": "asks about", "deny": "denies"}
    said = line.message or f"{tool} {verbs[str(line.decision)]} this: {_shown(line.text)}"
    return {
        "id": name,
        "decision": line.decision,
        "reason": re.sub(r"([{}])(?=\1)", r"\1 ", one_line(said))[: _LONGEST * 2],
        "when": when[0] if len(when) == 1 else {"any": list(when)},
        **({"unless": unless} if unless is not None else {}),
    }


def _id(line: Line, number: int) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", (line.label or line.text).lower()).strip("-")[:40].strip("-")
    return f"{line.decision}-{number}-{words}".strip("-")


def _shown(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


def _text(
    found: List, name: str, rules: Sequence[dict[str, Any]], comments: Sequence[Sequence[str]], left: Sequence[Carried]
) -> str:
    head = [
        f"# Imported from {found.tool}. Read it before you use it: hla policy test, hla policy lint.",
        *(f"# {one_line(note)}" for note in found.notes),
    ]
    if left:
        head += ["#", "# Not carried:"]
        head += [f"#   {summary(each)}" for each in left]
    lines = [*head, "version: 1", f"policy: {name}", "extends: [builtin:guard]"]
    lines += ["defaults: {unmatched: ask, maybe: ask, unparsed: ask}", *(["rules:"] if rules else [])]
    for rule, said in zip(rules, comments, strict=True):
        lines += [f"  # {one_line(each)}" for each in said]
        lines += [f"  {each}" for each in item(rule)]
    return "\n".join(lines) + "\n"
