"""Commands made from a rule's own clauses: programs it names, with its options, in and beside the places it names.

They are only tried, never relied on: what is said of them is what the Director says.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from functools import cache
from itertools import islice, product, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.action import FUNCTION
from humanlayer_agent.policy.conditions.circumstances import zone
from humanlayer_agent.policy.language.policy import Given, Match, Rule, Tool
from humanlayer_agent.policy_tools.lint.boundary_values import (
    FEW,
    OTHER,
    Named,
    agents_in,
    combined,
    conditions_of,
    named_by,
    spelled,
    tool_calls,
)

if TYPE_CHECKING:
    from humanlayer_agent.policy_tools.lint.subject import Subject

MAX_COMMANDS = 400
MAX_AROUND = 1_500
"""Most commands on both sides of what one clause names."""
_MONDAY = date(2030, 1, 7)


def commands(subject: "Subject", rule: Rule) -> Iterator[str]:
    """Commands that `rule` may apply to, and some that it nearly applies to; at most `MAX_COMMANDS`."""
    named = named_by(conditions_of(rule), subject.compiler(rule))
    yield from islice(_flowing(named), MAX_COMMANDS)
    yield from islice(_wrapped(_plain(named), named), MAX_COMMANDS)


def around(named: Named) -> Iterator[str]:
    """Commands on both sides of what is named, its first values first: one thing varied at a time, then two of them,
    and what can be given twice given twice; at most `MAX_AROUND`.
    """
    yield from named.calls
    yield from islice(_wrapped(_near(named), named), MAX_AROUND)
    yield from islice(_flowing(named), MAX_COMMANDS)


def about_calls(match: Match) -> bool:
    """Is a condition about calls of functions or tools, which no command line shows?"""
    return match.role == (FUNCTION,) or match.tool is not None or any(about_calls(m) for m in match.all or ())


def calls(subject: "Subject", rule: Rule) -> Iterator[str]:
    """Calls of functions that `rule` may apply to, where it is about such."""
    if about_calls(rule.when):
        compiler = subject.compiler(rule)
        named = named_by([rule.when], compiler)
        yield from (f"{name}(a=1)" for name in [*named.names, *named.programs, OTHER])
        yield from (each for tool in _tools(rule.when) for each in tool_calls(tool, compiler))


def _tools(match: Match) -> Iterator[Tool]:
    if match.tool is not None:
        yield match.tool
    yield from (tool for inner in inner_of(match) for tool in _tools(inner))


def agent_of(match: Match) -> str:
    """An agent that a condition is about; "" where it is about none."""
    found = next(agents_in(match.agent or ()), "")
    return found or next((agent for inner in inner_of(match) if (agent := agent_of(inner))), "")


def circumstances(rule: Rule) -> list[Given]:
    """The circumstances that a rule is tried in: those of its examples, else what its condition is about."""
    told = dict.fromkeys(group.circumstances for group in rule.tests.given)
    first = next(iter(told), Given(agent=agent_of(rule.when) or None))
    used = [replace(first, used=bound, cost=1.0) for bound in _limits(rule.when)]
    return list(dict.fromkeys([*told, first, *(replace(first, time=at) for at in _moments(rule.when)), *used]))


def _limits(match: Match) -> Iterator[int]:
    """So much is within the limits of a condition."""
    if match.limit is not None:
        yield round(match.limit.cost if match.limit.cost is not None else match.limit.count or 0)
    for inner in inner_of(match):
        yield from _limits(inner)


def _moments(match: Match) -> Iterator[str]:
    """Moments on which a condition on the time may hang: by day and by night, in the week and at its end."""
    if match.time is not None and match.time.tz is not None:
        first = date.fromisoformat(match.time.dates[0][:10]) if match.time.dates else _MONDAY
        for days, hour in ((0, 12), (0, 3), (5, 12)):
            at = datetime.combine(first + timedelta(days=days), clock(hour), zone(match.time.tz))
            yield at.astimezone(UTC).isoformat()
    for inner in inner_of(match):
        yield from _moments(inner)


@cache
def samples() -> dict[str, list[str]]:
    """Commands that have an effect, by its kind."""
    import yaml

    found: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("samples.yaml").read_text(encoding="utf-8"))
    return found


def inner_of(match: Match) -> Iterator[Match]:
    """The conditions inside a condition."""
    yield from match.any or ()
    yield from match.all or ()
    if match.negated is not None:
        yield match.negated
    if match.limit is not None and match.limit.of is not None:
        yield match.limit.of
    if match.flow is not None:
        yield match.flow.source
        if match.flow.to is not None:
            yield match.flow.to


# ---- commands ---------------------------------------------------------------------------------------------


def _plain(named: Named) -> Iterator[str]:
    yield from (_UNPARSED[status] for status in named.parse if status in _UNPARSED)
    paths = [*_spread(named.paths, 12), "a", "/srv/elsewhere/a", "~/a", "$X"]
    yield from named.lines
    for program in _spread(named.programs, 12):
        yield from _of_program(program, named, paths)
    kinds = named.kinds or ([] if named.programs or named.lines else list(samples()))
    hosts = [*_spread(named.hosts, 4), "unheard-of.example"]
    names = [*_spread(named.names, 6), "SOME_TOKEN", "PATH"]
    fillings = {"{path}": paths, "{host}": hosts, "{name}": names}
    for kind in dict.fromkeys(kinds):
        for sample in samples()[kind]:
            key = next((k for k in fillings if k in sample), "")
            yield from (sample.replace(key, value) for value in fillings[key]) if key else [sample]


def _of_program(program: str, named: Named, paths: Sequence[str]) -> Iterator[str]:
    """One program with what else the rule names: each sub-command with each option and each operand."""
    for subcommand in [*_spread(named.subcommands, 8), ""]:
        start = f"{program} {subcommand}".strip()
        options = ["", *(o for flag in _spread(named.flags, 4) if (o := spelled(start, flag)))]
        options += [f"{o} {value}" for name, value in named.options[:4] if (o := spelled(start, name))]
        urls = [f"https://{host}/a" for host in _spread(named.hosts, 4)]
        operands = [*named.operands[:6], *_spread(named.names, 6), *urls, *_spread(paths, 6), ""]
        for option, operand in product(options, operands):
            yield " ".join(part for part in (start, option, operand) if part)


# ---- commands on both sides ---------------------------------------------------------------------------------

_KEYS = ("{path}", "{host}", "{name}")


def _near(named: Named) -> Iterator[str]:
    """Commands of each kind that the values allow, taken in turns."""
    paths = [*_first(named.paths, 24), "a", "/srv/elsewhere/a", "~/a", "$X"]
    hosts = [*_first(named.hosts, 12), "unheard-of.example"]
    names = [*_first(named.names, 12), OTHER, "SOME_TOKEN", "PATH"]
    fillings = dict(zip(_KEYS, (paths, hosts, names), strict=True))
    silent = not (named.programs or named.lines or named.shapes or named.kinds or named.calls)
    kinds = dict.fromkeys(named.kinds or (samples() if silent else ()))
    shapes = [*named.shapes, *(sample for kind in kinds for sample in samples()[kind])]
    groups = [
        (_UNPARSED[status] for status in (named.parse and _UNPARSED)),
        iter(named.lines),
        *(_filled(shape, named, fillings) for shape in dict.fromkeys(shapes)),
        *(_graded(program, named, fillings) for program in _first(named.programs, 8)),
    ]
    yield from (each for row in zip_longest(*groups) for each in row if each is not None)


def _filled(shape: str, named: Named, fillings: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A command with each value in it, with two of them, and with the options that are named."""
    key = next((each for each in _KEYS if each in shape), "")
    values = fillings.get(key, [""])
    plain = shape
    for other in _KEYS:
        plain = plain if other in ("", key) else plain.replace(other, fillings[other][0])
    program, _, rest = plain.partition(" ")
    given = [" ".join(words) for words in _given(program, named) if words]
    for n, value in enumerate(values):
        yield plain.replace(key, value) if key else plain
        if n < len(given):
            yield f"{program} {given[n]} {rest}".replace(key or "\0", values[0])
    if key:
        (word,) = [each for each in plain.split(" ") if key in each][:1]
        for first, second in product(values[:6], values[-4:]):
            yield plain.replace(word, f"{word.replace(key, first)} {word.replace(key, second)}", 1)


def _graded(program: str, named: Named, fillings: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """One program with what else is named, the first values first, and as few that are no first ones as can be."""
    urls = [f"https://{host}/a" for host in fillings["{host}"][:8]] if named.hosts else []
    words = [*named.operands[:12], *(fillings["{name}"][:8] if named.names else ()), *urls, *fillings["{path}"][:12]]
    pairs = [" ".join(each) for each in product(words[:4], [*words[1:6], OTHER])]
    operands = [*words, *pairs, ""]
    for grade in range(5):
        for subcommand in [*_first(named.subcommands, 12), ""] if grade % 2 == 0 else named.subcommands[:1] or [""]:
            start = f"{program} {subcommand}".strip()
            options = [" ".join(each) for each in _given(start, named)]
            chosen = {
                0: product(options[:1], operands[:1]),
                1: product(options, operands[:1]),
                2: product(options[:2], operands[:4]),
                3: product(options[:2], operands),
                4: product(options, operands),
            }[grade]
            for option, operand in chosen:
                yield " ".join(part for part in (start, option, operand) if part)


def _given(start: str, named: Named) -> list[tuple[str, ...]]:
    """The options that a command is given: none; combinations of flags; each value, and several values of one option:
    two of the first ones, and one of those that stand before others with these.
    """
    flags = [o for flag in _first(named.flags, 6) if (o := spelled(start, flag))]
    out = list(combined(flags))
    if named.flags:
        out += [(*flags, "--frobnicate"), ("--frobnicate",)]
    values: dict[str, list[str]] = {}
    for name, value in dict.fromkeys(named.options):
        if option := spelled(start, name):
            values.setdefault(option, []).append(value)
    for option, found in values.items():
        out += [(option, value) for value in found[:8]]
    for option, found in values.items():
        out += [(option, a, option, b) for a, b in product(found[: 2 * FEW], found[: 2 * FEW]) if a != b]
        others = [each for value in found[FEW : 2 * FEW] for each in (option, value)]
        out += [(option, value, *others) for value in found[:FEW] if len(others) > 2]
    if len(values) > 1:
        out.append(tuple(each for option, found in values.items() for each in (option, found[0])))
    return list(dict.fromkeys(out))


def _flowing(named: Named) -> Iterator[str]:
    """What data comes from, joined in several ways to what it may come to."""
    for source in named.sources:
        begins = list(islice(_plain(source), 60))
        for begin, end in product(_spread(begins, 12), _spread(list(islice(_plain(named), 60)), 8)):
            yield from (shape.format(begin, end) for shape in ("{0} | {1}", "x=$({0}); {1} $x", "{0} > a; {1}"))
        yield from begins


def _wrapped(plain: Iterator[str], named: Named) -> Iterator[str]:
    """Each command as it is, and under the wrappers and in the constructs that the rule names."""
    wrappers = [f"{name} {{}}" for name in named.via]
    constructs = [_CONSTRUCTS[name] for name in named.inside if name in _CONSTRUCTS]
    around = [*wrappers, *constructs, *(c.replace("{}", w) for c, w in product(constructs, wrappers))]
    for command in plain:
        yield from (shape.replace("{}", command) for shape in around if "'" not in command or "'{}'" not in shape)
        yield command


_UNPARSED = {"partial": "f() { f; }; f", "failed": "ls 'a"}
"""A command for each way in which one may not be understood."""

_CONSTRUCTS = {
    "substitution": "echo $({})",
    "string": "bash -c '{}'",
    "loop": "for x in 1; do {}; done",
    "function": "f() { {}; }; f",
    "pipe": "echo '{}' | bash",
    "condition": "if {}; then true; fi",
    "background": "{} &",
    "trap": "trap '{}' EXIT",
    "process-substitution": "cat <({})",
    "heredoc": "bash <<'EOF'\n{}\nEOF",
}


def _spread(items: Sequence[str], most: int) -> list[str]:
    """At most `most` different items, from all over the list."""
    unique = list(dict.fromkeys(items))
    step = max(1, -(-len(unique) // most))
    return unique[::step]


def _first(items: Sequence[str], most: int) -> list[str]:
    """At most `most` different items: the first ones, and as many from all over the rest."""
    unique = list(dict.fromkeys(items))
    return [*unique[: most // 2], *_spread(unique[most // 2 :], most - most // 2)]
