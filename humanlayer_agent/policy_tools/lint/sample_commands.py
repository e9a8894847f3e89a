"""Commands made from a rule's own clauses: programs it names, with its options, in and beside the places it names.

They are only tried, never relied on: what is said of them is what the Director says.
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.action import FUNCTION
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions.circumstances import zone
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.linear_regex import Regex
from humanlayer_agent.policy.conditions.path_patterns import fill
from humanlayer_agent.policy.language.examples import HOME
from humanlayer_agent.policy.language.policy import Among, Effects, Flags, Given, Match, Paths, Rule, Text, Tool

if TYPE_CHECKING:
    from humanlayer_agent.policy_tools.lint.subject import Subject

MAX_COMMANDS = 400
_MONDAY = date(2030, 1, 7)
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./%+=:,@-")


@dataclass(slots=True)
class Named:
    """What a condition names, each as words of a command line."""

    programs: list[str] = field(default_factory=list)
    subcommands: list[str] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    via: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    parse: list[str] = field(default_factory=list)
    sources: "list[Named]" = field(default_factory=list)
    """What data may come from (`flow`)."""


def commands(subject: "Subject", rule: Rule) -> Iterator[str]:
    """Commands that `rule` may apply to, and some that it nearly applies to; at most `MAX_COMMANDS`."""
    named = Named()
    _collect(subject, rule, rule.when, named)
    if rule.unless is not None:
        _collect(subject, rule, rule.unless, named)
    for exception in rule.exceptions:
        _collect(subject, rule, exception.when, named)
    yield from islice(_flowing(named), MAX_COMMANDS)
    yield from islice(_wrapped(_plain(named), named), MAX_COMMANDS)


def about_calls(match: Match) -> bool:
    """Is a condition about calls of functions or tools, which no command line shows?"""
    return match.role == (FUNCTION,) or match.tool is not None or any(about_calls(m) for m in match.all or ())


def calls(subject: "Subject", rule: Rule) -> Iterator[str]:
    """Calls of functions that `rule` may apply to, where it is about such."""
    if about_calls(rule.when):
        named = Named()
        _collect(subject, rule, rule.when, named)
        yield from (f"{name}(a=1)" for name in [*named.names, *named.programs, "frobnicate"])
        yield from (each for tool in _tools(rule.when) for each in _tool_calls(tool, subject.compiler(rule)))


def _tools(match: Match) -> Iterator[Tool]:
    if match.tool is not None:
        yield match.tool
    yield from (tool for inner in inner_of(match) for tool in _tools(inner))


def _tool_calls(tool: Tool, compiler: Compiler) -> Iterator[str]:
    """Calls of a tool with what a condition wants it to be given, and with nothing."""
    given: dict[str, str] = {}
    for name, argument in (tool.args or {}).items():
        if argument.within:
            given[name] = path_in(fill(compiler.texts(argument.within)[0], compiler.variables))
        elif argument.given is not False:
            given[name] = (argument.texts[0].glob if argument.texts else None) or "a"
    for text in tool.name or (Text(glob="frobnicate"),):
        name = word_in(text) or "frobnicate"
        yield f"{name}({json.dumps(given)})"
        yield f"{name}({{}})"


def agent_of(match: Match) -> str:
    """An agent that a condition is about; "" where it is about none."""
    for text in match.agent or ():
        found = Regex(text.regex).shortest() if text.regex is not None else (text.glob or "").replace("*", "a")
        if found:
            return found
    return next((agent for inner in inner_of(match) if (agent := agent_of(inner))), "")


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


def path_in(pattern: str) -> str:
    """A path that a pattern of a policy (its variables filled in) stands for, as a command would write it."""
    parts = ["a" if part == "**" else part.replace("*", "a").replace("?", "a") for part in pattern.split("/")]
    text = "/".join(parts[1:] if pattern.startswith("**/") else parts)
    return _word("~" + text[len(HOME) :] if text.startswith(HOME + "/") else text)


def host_in(pattern: str) -> str:
    """A host that a pattern stands for."""
    return pattern.replace("*", "a").replace("?", "a")


def word_in(text: Text) -> str | None:
    """A word that a pattern for words stands for; None where none was found."""
    if text.glob is not None:
        plain = text.glob.replace("*", "").replace("?", "a")
        return _word(plain or "a")
    shortest = Regex(text.regex or "").shortest()
    return None if shortest is None else _word(shortest or "''")


@cache
def samples() -> dict[str, list[str]]:
    """Commands that have an effect, by its kind."""
    import yaml

    found: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("samples.yaml").read_text(encoding="utf-8"))
    return found


def spelled(program: str, flag: str) -> str | None:
    """How the option with the canonical name `flag` is written; None where the catalog does not know it."""
    words = program.split(" ")
    spec = CATALOG.lookup(program) or CATALOG.lookup(words[0])
    for word in words[1:]:
        if spec is not None:
            spec = spec.subcommands.get(word, spec)
    if spec is None:
        return None
    short = next((f"-{key}" for key, option in spec.short.items() if option.name == flag), None)
    return short or next((key for key, option in spec.long.items() if option.name == flag), None)


# ---- what a condition names -------------------------------------------------------------------------------


def _collect(subject: "Subject", rule: Rule, match: Match, named: Named) -> None:
    compiler = subject.compiler(rule)
    if match.program is not None:
        named.programs += match.program.names or ()
        if match.program.regex is not None and (found := Regex(match.program.regex).shortest()):
            named.programs.append(found)
        named.programs += [path_in(fill(p, compiler.variables)) for p in compiler.texts(match.program.path or ())]
    named.subcommands += match.subcommand or ()
    named.kinds += [*(match.effect or ()), *_all(match.effects)]
    named.flags += _all(match.flags)
    for given in (match.options, match.attributes):
        named.options += [(n, w) for n, texts in (given or {}).items() for t in texts if (w := word_in(t))]
    if match.operands is not None:
        texts = [t for group in (match.operands.any, match.operands.all, match.operands.none) for t in group or ()]
        named.operands += [word for text in texts if (word := word_in(text))]
    if match.argv is not None:
        words = ["a" if text.glob == "..." else word_in(text) for text in match.argv]
        named.lines.append(" ".join(word for word in words if word))
    named.paths += [path_in(fill(p, compiler.variables)) for p in compiler.texts(_all(match.paths))]
    emptied = match.paths.contents_of if match.paths is not None else None
    named.paths += [f"{path_in(fill(p, compiler.variables)).rstrip('/')}/*" for p in compiler.texts(emptied or ())]
    named.names += [host_in(name) for name in compiler.texts(_all(match.names))]
    named.hosts += [host_in(host) for host in compiler.texts(_all(match.hosts))]
    variables = compiler.texts(match.env.any or () if match.env is not None else ())
    named.names += [host_in(name) for name in variables if not name.startswith("!")]
    values = match.env.value_in if match.env is not None else None
    named.paths += [path_in(fill(p, compiler.variables)) for p in compiler.texts(values or ())]
    if match.sql is not None:
        tables = [host_in(name) for name in compiler.texts(match.sql.any or ())] or ["t"]
        shapes = [_STATEMENTS.get(kind, _STATEMENTS["select"]) for kind in match.sql.kinds or _STATEMENTS]
        named.lines += [f"psql app -c '{shape.format(t)}'" for shape in shapes for t in tables[:4]]
    named.via += match.via or ()
    named.inside += match.inside or ()
    named.parse += match.parse or ()
    for each in inner_of(match):
        source = match.flow is not None and each is match.flow.source
        into = Named() if source else named
        _collect(subject, rule, each, into)
        if source:
            named.sources.append(into)


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


def _all(group: Flags | Effects | Paths | Among | None) -> list[str]:
    """Everything that a group names, whichever key it stands under."""
    return [name for key in ("any", "all", "none", "only") for name in getattr(group, key, None) or ()]


def _word(text: str) -> str:
    """`text` as one word: quoted where it has to be, a leading tilde left to be expanded."""
    if text and set(text.removeprefix("~")) <= _SAFE:
        return text
    return shlex.quote(text)


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


_UNPARSED = {"partial": "coproc ls", "failed": "ls 'a"}
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


_STATEMENTS = {
    "select": "select * from {}",
    "insert": "insert into {} values (1)",
    "update": "update {} set a = 1",
    "delete": "delete from {}",
    "truncate": "truncate {}",
    "drop": "drop table {}",
    "create": "create table {} (a int)",
    "alter": "alter table {} add a int",
    "grant": "grant select on {} to a",
}
"""A statement of most kinds."""


def _spread(items: Sequence[str], most: int) -> list[str]:
    """At most `most` different items, from all over the list."""
    unique = list(dict.fromkeys(items))
    step = max(1, -(-len(unique) // most))
    return unique[::step]
