"""The values that a condition names, and those just beside them, as words of command lines.

Each kind of clause registers in `VALUES` what it brings: a kind that does not is one that `hla policy lint` and
`hla policy diff` can make no command for, so a test fails for it.
"""

import json
import posixpath
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock
from functools import cache
from itertools import combinations, islice, zip_longest
from pathlib import Path
from typing import Any

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions.circumstances import zone
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.linear_regex import Regex
from humanlayer_agent.policy.conditions.path_patterns import fill
from humanlayer_agent.policy.language.examples import HOME
from humanlayer_agent.policy.language.policy import (
    Among,
    Content,
    Effects,
    Environment,
    Flags,
    Flow,
    Given,
    Limit,
    Match,
    Operands,
    Paths,
    Program,
    Repository,
    Rule,
    Sql,
    Text,
    Texts,
    Time,
    Tool,
)

_MONDAY = date(2030, 1, 7)
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
OTHER = "frobnicate"
"""A word, program, host or name that no condition means."""
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
    shapes: list[str] = field(default_factory=list)
    """Commands with `{path}`, `{host}` and `{name}`, from `clauses.yaml`."""
    calls: list[str] = field(default_factory=list)
    """Calls of tools."""
    circumstances: list[Given] = field(default_factory=list)
    """Under what commands are tried: when it is, who proposes it, what is checked out, how much was done before."""

    def before(self, others: "Named") -> "Named":
        """Return these values, and of each kind the first few of `others` behind as many of these, so that the first
        values have some of both.
        """
        found = {}
        for each in fields(Named):
            own, more = ({repr(v): v for v in getattr(named, each.name)} for named in (self, others))
            new = [value for key, value in more.items() if key not in own]
            new = new if each.name == "calls" else new[: FEW if own else _SOME]
            found[each.name] = [*islice(own.values(), FEW), *new, *islice(own.values(), FEW, None)]
        return Named(**found)

    def against(self, other: "Named") -> "Named":
        """Return the values of both, first what only one of them has, in turns."""
        found = {}
        for each in fields(Named):
            one, two = ({repr(v): v for v in getattr(named, each.name)} for named in (self, other))
            alone = zip_longest(*([key for key in a if key not in b] for a, b in ((one, two), (two, one))))
            values = {**one, **two}
            first = [key for row in alone for key in row if key is not None]
            found[each.name] = [values[key] for key in dict.fromkeys((*first, *values))]
        return Named(**found)


FEW = 3
"""So many values of a kind stand before and among others."""
_SOME = 12


@dataclass(frozen=True, slots=True)
class Values:
    """Where the values of a condition go. `beside`: also those that it just does not mean."""

    compiler: Compiler
    named: Named
    beside: bool

    def add(self, match: Match) -> None:
        """Add the values of every clause of `match`."""
        for name, register in VALUES.items():
            given = getattr(match, name)
            if given is not None:
                register(self, given)

    def paths(self, names: Iterable[str], end: str = "") -> list[str]:
        """Paths that patterns stand for."""
        found = [path_in(fill(p, self.compiler.variables)) for p in self.compiler.texts(list(names))]
        found = [f"{path.rstrip('/')}{end}" for path in found] if end else found
        return [*found, *(each for path in found for each in paths_beside(path) if self.beside)]

    def hosts(self, names: Iterable[str]) -> list[str]:
        """Hosts that patterns stand for."""
        patterns = self.compiler.texts(list(names))
        return [*map(host_in, patterns), *(each for p in patterns for each in hosts_beside(p) if self.beside)]

    def words(self, texts: Iterable[Text]) -> list[str]:
        """Words that patterns stand for."""
        return [word for text in texts for word in (words_in(text) if self.beside else [word_in(text)]) if word]


# ---- one value ----------------------------------------------------------------------------------------------


def path_in(pattern: str) -> str:
    """A path that a pattern of a policy (its variables filled in) stands for, as a command would write it."""
    parts = ["a" if part == "**" else part.replace("*", "a").replace("?", "a") for part in pattern.split("/")]
    text = "/".join(parts[1:] if pattern.startswith("**/") else parts)
    return _word("~" + text[len(HOME) :] if text.startswith(HOME + "/") else text)


def paths_beside(path: str) -> Iterator[str]:
    """Paths just beside a path: below it, around it, and such as begin with the same letters.

    Example:
        >>> list(paths_beside("/srv/data/a"))
        ['/srv/data', '/srv/data-a/a', '/srv/data/../a', '/srv/a', '/srv/data/a-a', '/srv/data/a/a']
    """
    if "'" in path or path.endswith(("*", "~")):
        return
    folder, name = posixpath.split(path.rstrip("/"))
    if folder.strip("/"):
        yield from (folder, f"{folder}-a/{name}", f"{folder}/../{name}")
        yield posixpath.join(posixpath.dirname(folder), name)
    yield from (f"{path}-a", f"{path}/a")


def host_in(pattern: str) -> str:
    """A host that a pattern stands for."""
    return pattern.replace("*", "a").replace("?", "a")


def hosts_beside(pattern: str) -> Iterator[str]:
    """Hosts just beside those of a pattern.

    Example:
        >>> list(hosts_beside("*.b.org"))
        ['a.b.org:8080', 'A.B.ORG', 'aa.b.org', 'a.b.org.example', 'b.org', 'ab.org']
    """
    host = host_in(pattern)
    yield from (f"{host}:8080", host.upper(), f"a{host}", f"{host}.example")
    if pattern.startswith("*."):
        yield from (pattern[2:], f"a{pattern[2:]}")


def word_in(text: Text) -> str | None:
    """A word that a pattern for words stands for; None where none was found."""
    if text.glob is not None:
        plain = text.glob.replace("*", "").replace("?", "a")
        return _word(plain or "a")
    shortest = Regex(text.regex or "").shortest()
    return None if shortest is None else _word(shortest or "''")


def words_in(text: Text) -> list[str]:
    """Words that a pattern for words stands for, one for each way to match it.

    Example:
        >>> words_in(Text(glob="deploy*")), words_in(Text(regex="v[1-4]"))
        (['deploy', 'deploya'], ['v1', 'v4'])
    """
    if text.glob is not None:
        found = [text.glob.replace("*", filled).replace("?", "a") for filled in ("", "a")]
    else:
        found = Regex(text.regex or "").examples()
    plain = word_in(text)
    return list(dict.fromkeys([*([plain] if plain else []), *(_word(each) for each in found if each)]))


def agents_in(texts: Texts) -> Iterator[str]:
    """Agents that patterns stand for."""
    for text in texts:
        found = Regex(text.regex).examples() if text.regex is not None else [(text.glob or "").replace("*", "a")]
        yield from filter(None, found)


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


def tool_calls(tool: Tool, compiler: Compiler) -> Iterator[str]:
    """Calls of a tool with what a condition wants it to be given, and with nothing."""
    given: dict[str, str] = {}
    for name, argument in (tool.args or {}).items():
        if argument.within:
            given[name] = path_in(fill(compiler.texts(argument.within)[0], compiler.variables))
        elif argument.given is not False:
            given[name] = (argument.texts[0].glob if argument.texts else None) or "a"
    for text in tool.name or (Text(glob=OTHER),):
        name = word_in(text) or OTHER
        yield f"{name}({json.dumps(given)})"
        yield f"{name}({{}})"


def moments_beside(time: Time) -> Iterator[str]:
    """Moments (UTC) on both sides of what a condition on the time means: by the day, and where its spans begin and end.

    Example:
        >>> list(moments_beside(Time(hours=("09:00-10:00",), days=("mon",), tz="UTC")))[:3]
        ['2030-01-07T09:00:00+00:00', '2030-01-07T08:59:00+00:00', '2030-01-07T09:59:00+00:00']
    """
    days = [_MONDAY + timedelta(days=n) for n in range(7)]
    for text in time.dates or ():
        ends = [date.fromisoformat(each) for each in text.split("/")]
        days = [ends[0], ends[0] - timedelta(days=1), ends[-1], ends[-1] + timedelta(days=1), *days]
    clocks = []
    for text in time.hours or ("12:00-03:00",):
        begin, end = (
            datetime.combine(_MONDAY, clock.fromisoformat(each.replace("24:", "00:"))) for each in text.split("-")
        )
        clocks += [each.time() for at in (begin, end) for each in (at, at - timedelta(minutes=1))]
        clocks[-3:] = [clocks[-3], clocks[-1], clocks[-2]]
    for day in days if time.tz is not None else ():
        for hour in clocks:
            yield datetime.combine(day, hour, zone(time.tz or "UTC")).astimezone(UTC).isoformat()


def _word(text: str) -> str:
    """`text` as one word: quoted where it has to be, a leading tilde left to be expanded."""
    if text and set(text.removeprefix("~")) <= _SAFE:
        return text
    return shlex.quote(text)


# ---- the values of a clause ---------------------------------------------------------------------------------


def _program(values: Values, program: Program) -> None:
    found = values.named.programs
    found += program.names or ()
    if program.regex is not None and (shortest := Regex(program.regex).shortest()):
        found.append(shortest)
        found += [each for each in Regex(program.regex).examples() if each and values.beside]
    found += values.paths(program.path or ())
    if values.beside:
        found.append(f"/srv/elsewhere/{(program.names or (OTHER,))[0].rpartition('/')[2]}")
        if program.regex is not None and program.names is None and found:
            found.append(f"{found[0]}a")
        values.named.shapes += _shapes("program")


def _subcommand(values: Values, names: Sequence[str]) -> None:
    values.named.subcommands += names
    if values.beside:
        values.named.subcommands.append(OTHER)


def _flags(values: Values, flags: Flags) -> None:
    values.named.flags += everything(flags)


def _given_options(values: Values, given: Mapping[str, Texts]) -> None:
    for name, texts in given.items():
        values.named.options += [(name, word) for word in values.words(texts)]
        if values.beside:
            values.named.options.append((name, OTHER))


def _operands(values: Values, operands: Operands) -> None:
    texts = [t for group in (operands.any, operands.all, operands.none) for t in group or ()]
    values.named.operands += values.words(texts)
    if values.beside:
        values.named.operands.append(OTHER)


def _argv(values: Values, texts: Texts) -> None:
    words = [("a" if text.glob == "..." else word_in(text)) or "" for text in texts]
    values.named.lines.append(" ".join(filter(None, words)))
    if values.beside:
        for number, text in enumerate(texts):
            without, other = [*words], [*words]
            without[number], other[number] = "", OTHER if text.glob != "..." else "a b"
            values.named.lines += [" ".join(filter(None, each)) for each in (without, other) if any(each)]
            more = words_in(text) if text.glob != "..." else []
            values.named.lines += [" ".join((*words[:number], each, *words[number + 1 :])) for each in more]
        values.named.lines.append(" ".join(filter(None, [*words, OTHER])))


def _env(values: Values, env: Environment) -> None:
    variables = values.compiler.texts(env.any or ())
    values.named.names += [host_in(name) for name in variables if not name.startswith("!")]
    if values.beside:
        values.named.names += [host_in(name[1:]) for name in variables if name.startswith("!")]
    values.named.paths += values.paths(env.value_in or ())
    if values.beside and env.value_in:
        values.named.shapes += _shapes("value_in")


def _effect(values: Values, kinds: Sequence[str]) -> None:
    values.named.kinds += kinds


def _effects(values: Values, effects: Effects) -> None:
    values.named.kinds += everything(effects)
    if values.beside:
        values.named.shapes += _shapes("effects")


def _paths(values: Values, paths: Paths) -> None:
    values.named.paths += values.paths(everything(paths))
    values.named.paths += values.paths(paths.contents_of or (), "/*")
    if values.beside:
        values.named.shapes += [
            s for key in ("role", "resolved") if getattr(paths, key) is not None for s in _shapes(key)
        ]


def _hosts(values: Values, hosts: Among) -> None:
    values.named.hosts += values.hosts(everything(hosts))


def _names(values: Values, names: Among) -> None:
    found = values.compiler.texts(everything(names))
    values.named.names += [each for name in found for each in (host_in(name), *([f"a{host_in(name)}"] * values.beside))]


def _agent(values: Values, texts: Texts) -> None:
    if values.beside:
        values.named.circumstances += [Given(agent=agent) for agent in (*agents_in(texts), OTHER)]


def _requester(values: Values, texts: Texts) -> None:
    if values.beside:
        values.named.circumstances += [Given(requester=who) for who in (*agents_in(texts), OTHER)]


def _time(values: Values, time: Time) -> None:
    if values.beside:
        values.named.circumstances += [Given(time=at) for at in moments_beside(time)]


def _repository(values: Values, there: Repository) -> None:
    if not values.beside:
        return
    found = values.named.circumstances
    if there.branch is not None:
        found += [Given(branch=branch) for branch in (*agents_in(there.branch), OTHER, "")]
    if there.remote is not None:
        found += [Given(remotes=(address,)) for address in (*agents_in(there.remote), OTHER)]
    if there.clean is not None:
        found += [Given(clean=clean) for clean in (True, False)]


def _sql(values: Values, sql: Sql) -> None:
    tables = [host_in(name) for name in values.compiler.texts((*(sql.any or ()), *(sql.none or ())))] or ["t"]
    if values.beside:
        tables += [f"{tables[0]}a", OTHER]
    shapes = [_STATEMENTS.get(kind, _STATEMENTS["select"]) for kind in sql.kinds or _STATEMENTS]
    shapes += list(_STATEMENTS.values()) if values.beside else []
    values.named.lines += [f"psql app -c '{shape.format(t)}'" for shape in dict.fromkeys(shapes) for t in tables[:6]]


def _content(values: Values, content: Content) -> None:
    if not values.beside:
        return
    files = [f"a={digest}" for digest in (*(content.sha256 or ()), "0" * 64)]
    values.named.circumstances += [*(Given(files=(each,)) for each in files), Given(files=())]
    values.named.shapes += _shapes("content")


def _limit(values: Values, limit: Limit) -> None:
    if limit.of is not None:
        values.add(limit.of)
    if values.beside:
        bound = limit.count if limit.count is not None else int(limit.cost or 0)
        used = [n for n in (bound - 1, bound, bound + 1, 0) if n >= 0]
        values.named.circumstances += [Given(used=n, cost=cost) for n in used for cost in (1.0, 0.0, 2.0)]
        values.named.circumstances += [Given(used=n, per=limit.per, cost=1.0) for n in used[:3]]


def _tool(values: Values, tool: Tool) -> None:
    if not values.beside:
        return
    found = values.named.calls
    found += tool_calls(tool, values.compiler)
    names = [word_in(text) or OTHER for text in tool.name or (Text(glob=OTHER),)]
    found += [f"{name}a({{}})" for name in names]
    for name, argument in (tool.args or {}).items():
        inside = [each for t in argument.texts or () for each in (t.glob, *Regex(t.regex or "").examples()) if each]
        inside += values.paths(argument.within or ())
        found += [f"{each}({json.dumps({name: value})})" for each in names for value in (*inside, OTHER)]


def _of_inner(values: Values, matches: Sequence[Match]) -> None:
    for match in matches:
        values.add(match)


def _flow(values: Values, flow: Flow) -> None:
    source = Named()
    Values(values.compiler, source, values.beside).add(flow.source)
    values.named.sources.append(source)
    if flow.to is not None:
        values.add(flow.to)


def _shown(clause: str) -> Callable[[Values, Any], None]:
    """Of a clause that names no values: commands on both sides of it, from `clauses.yaml`."""

    def register(values: Values, given: Any) -> None:
        if values.beside:
            values.named.shapes += _shapes(clause)

    return register


def _words(kind: str) -> Callable[[Values, Any], None]:
    """The words of a clause as they are."""

    def register(values: Values, given: Sequence[str]) -> None:
        getattr(values.named, kind).extend(given)

    return register


VALUES: dict[str, Callable[[Values, Any], None]] = {
    "program": _program,
    "subcommand": _subcommand,
    "flags": _flags,
    "options": _given_options,
    "attributes": _given_options,
    "operands": _operands,
    "argv": _argv,
    "effect": _effect,
    "role": _shown("role"),
    "recursive": _shown("recursive"),
    "effects": _effects,
    "paths": _paths,
    "hosts": _hosts,
    "names": _names,
    "env": _env,
    "via": _words("via"),
    "inside": _words("inside"),
    "resolved": _shown("resolved"),
    "unread": _shown("unread"),
    "parse": _words("parse"),
    "agent": _agent,
    "requester": _requester,
    "time": _time,
    "repo": _repository,
    "limit": _limit,
    "sql": _sql,
    "content": _content,
    "tool": _tool,
    "any": _of_inner,
    "all": _of_inner,
    "negated": lambda values, match: values.add(match),
    "flow": _flow,
}
"""The function by which each clause of a condition says what it brings."""


def named_by(matches: Iterable[Match | None], compiler: Compiler, *, beside: bool = False) -> Named:
    """Return what conditions name; `beside`: also what they just don't mean."""
    values = Values(compiler, Named(), beside)
    for match in matches:
        if match is not None:
            values.add(match)
    return values.named


def conditions_of(rule: Rule) -> list[Match]:
    """The conditions of a rule: `when`, `unless`, and those of its exceptions."""
    return [rule.when, *([rule.unless] if rule.unless is not None else []), *(each.when for each in rule.exceptions)]


def everything(group: Flags | Effects | Paths | Among | None) -> list[str]:
    """Everything that a group names, whichever key it stands under."""
    return [name for key in ("any", "all", "none", "only") for name in getattr(group, key, None) or ()]


def combined(items: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Some of the combinations of a few items: none, each, all, all but one, pairs.

    Example:
        >>> list(combined("ab"))
        [(), ('a',), ('b',), ('a', 'b')]
    """
    count = len(items)
    sizes = dict.fromkeys(n for n in (0, 1, count, count - 1, 2) if 0 <= n <= count)
    for size in sizes:
        yield from combinations(items, size)


@cache
def _by_clause() -> dict[str, list[str]]:
    import yaml

    found: dict[str, list[str]] = yaml.safe_load(Path(__file__).with_name("clauses.yaml").read_text(encoding="utf-8"))
    return found


def _shapes(clause: str) -> list[str]:
    return _by_clause()[clause]
