"""Conditions compiled to closures: (command, effect, situation) -> no, maybe or yes.

`effect` is the one being judged where the rule has an effect clause, else None. A predicate over something that can't
be known is maybe, unless what is known already rules it out.
"""

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from humanlayer_agent.action import FUNCTION, Action
from humanlayer_agent.confine.confinement import Confinement
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions import circumstances, containment, dataflow, linear_regex, tool_calls
from humanlayer_agent.policy.conditions import operand_names as named
from humanlayer_agent.policy.conditions import word_patterns as words
from humanlayer_agent.policy.conditions.circumstances import UNKNOWN, Circumstances, Counter, Tally
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.path_patterns import Links, PathSet
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.policy.language.policy import (
    SQL_KINDS,
    Among,
    Effects,
    Environment,
    Flags,
    Limit,
    Match,
    Operands,
    Paths,
    Program,
    Sql,
    Texts,
)
from humanlayer_agent.shell import Catalog, Checkout, Effect, SimpleCommand, View, absolute_path

FILE_KINDS = frozenset({"read", "write", "append", "delete", "move", "metadata", "execute"})
CONTACTS = frozenset({"network", "listen"})


@dataclass(slots=True)
class Situation:
    """The circumstances of a command: how far the action could be parsed, who proposes it, where links lead.

    `confinable`: the kernel can hold the action to a confinement, should it be allowed. `confinement` is the one that
    it is being judged under, and in the end that it will run in; None where it will run in none. `approved` is the one
    that it will run in where a human approves it. `container` is what everything runs in, whatever is
    decided: then it is both.
    """

    parse: str = "ok"
    agent: str = ""
    links: Links = field(default_factory=Links)
    confinable: bool = False
    confinement: Confinement | None = None
    approved: Confinement | None = None
    container: Confinement | None = None
    commands: Sequence[SimpleCommand] = ()
    """All commands of the action, in order."""
    directories: dict[int, frozenset[str] | None] = field(default_factory=dict)
    """Kept by `named`: from where each command, and those after it, run."""
    answers: "dict[tuple[Clause, int, bool], tuple[SimpleCommand, int]]" = field(default_factory=dict)
    """What was said of the words of commands, kept by `_once`."""
    tracing: dataflow.Tracing = field(default_factory=dataflow.Tracing)
    catalog: Catalog = CATALOG
    """What is known of programs."""
    excusing: bool = True
    """What excuses from rules counts: not where it would have to run as it can't."""
    search_path: str = ""
    """Where programs are looked for (PATH)."""
    tool: str = ""
    """The tool that is called; "" where it is none, or nobody says."""
    arguments: str = ""
    """What it is given (`action.tool_arguments`)."""
    places: tuple[str, ...] = ()
    """From where its paths may go."""
    around: Circumstances = UNKNOWN
    """What surrounds the action: when it is, and so on."""
    checkouts: "dict[tuple[str, bool, bool, View], Checkout]" = field(default_factory=dict)
    """What is checked out where it was looked up."""
    files: dict[str, str] = field(default_factory=dict)
    """The files that it was looked up in, each with the SHA-256 (hex) of its bytes; "" where there is none."""
    tallies: dict[str, Tally] = field(default_factory=dict)
    """How much it adds to each counter."""
    bounds: set[tuple[str, str, int]] = field(default_factory=set)
    """The limits that it was judged to be within: counter, run or time, and how much that is."""
    asked: bool = False
    """A rule has asked what surrounds the action, so that it may be judged otherwise a moment later."""

    @classmethod
    def of(
        cls, action: Action, *, project: str = "", confinable: bool = False, around: Circumstances | None = None
    ) -> "Situation":
        """Return the circumstances that an action brings itself. Where a tool runs only the tool knows, so that paths
        may go from the project as well.

        Args:
            project: where it starts if it does not say so, in the place of the project that it names.
            around: what surrounds it; nothing of that is known where it is None.
        """
        cwd = action.cwd or project
        places = (cwd, project or action.project) if action.type == FUNCTION else (cwd,)
        return cls(
            agent=action.agent,
            tool=action.tool,
            arguments=action.arguments,
            places=tuple(dict.fromkeys(filter(None, places))),
            confinable=confinable,
            around=around or UNKNOWN,
        )


Clause = Callable[[SimpleCommand, Effect | None, Situation], int]
Builder = Callable[["Compiler", Any, bool], Clause]
Finder = Callable[[SimpleCommand, Effect | None], list[Effect]]
Membership = Callable[[Effect, Sequence[str]], int]
Holds = Callable[[PathSet, Effect, Situation], int]


class Compiler:
    """Compiles the conditions of one file: knows its lists and variables.

    A condition that `excuses` is one by which something is let through: of the values that a command gives (of an
    option, of hosts, names and variables) every one must then match, where else one of them suffices.

    Args:
        lists: by name, without `$`.
        variables: by name, as `${NAME}` in path patterns.
        links: where the fixed parts of path patterns lead.
    """

    def __init__(
        self, lists: Mapping[str, Sequence[str]], variables: Mapping[str, str], links: Links | None = None
    ) -> None:
        self.lists, self.variables = lists, variables
        self._links = Links() if links is None else links
        self._sets: dict[tuple[str, ...], PathSet] = {}
        self.counters: list[Counter] = []
        """What is counted for the conditions that were compiled."""

    def match(self, match: Match, *, excuses: bool = False) -> Clause:
        """`match` as one closure."""
        return all_of([clause for _, clause in self.clauses(match, excuses=excuses)])

    def clauses(self, match: Match, *, excuses: bool = False) -> list[tuple[str, Clause]]:
        """The closure of each clause of `match`, with the clause's name, cheap ones first."""
        found: list[tuple[str, Clause]] = []
        for name, build in _BUILDERS.items():
            value = getattr(match, name)
            if value is not None:
                found.append((name, build(self, value, excuses)))
        return found

    def texts(self, names: Sequence[str]) -> list[str]:
        """`names` with every `$list` replaced by its entries."""
        out: list[str] = []
        for name in names:
            if name.startswith("$") and not name.startswith("${"):
                out += self.texts(self.lists[name[1:]])
            else:
                out.append(name)
        return out

    def paths(self, names: Sequence[str]) -> PathSet:
        """The set of paths that `names` describe, made once."""
        texts = tuple(self.texts(names))
        if texts not in self._sets:
            self._sets[texts] = PathSet(texts, self.variables, self._links)
        return self._sets[texts]

    def _program(self, program: Program) -> Clause:
        clauses: list[Clause] = []
        if program.names is not None:
            clauses.append(_named(program.names))
        if program.regex is not None:
            clauses.append(_regex(program.regex))
        if program.resolved is not None:
            known = program.resolved
            clauses.append(lambda c, e, s: YES if (c.program is not None and c.known) is known else NO)
        if program.path is not None:
            clauses.append(_located(self.paths(program.path)))
        return all_of(clauses)

    def _paths(self, paths: Paths) -> Clause:
        clauses: list[Clause] = []
        roles = frozenset(paths.role) if paths.role is not None else None

        def is_touched(effect: Effect) -> bool:
            return is_about_file(effect) and (roles is None or effect.role in roles)

        def touched(command: SimpleCommand, effect: Effect | None) -> list[Effect]:
            return [e for e in ([effect] if effect is not None else command.effects) if is_touched(e)]

        def any_touched(among: PathSet, holds: Holds) -> Clause:
            def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
                if effect is not None:
                    return holds(among, effect, situation) if is_touched(effect) else NO
                unseen = _unseen_in(among, command, effect, situation)
                return max([unseen, *(holds(among, each, situation) for each in touched(command, effect))])

            return judge

        def all_touched(among: PathSet, holds: Holds) -> Clause:
            def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
                if effect is not None:
                    return holds(among, effect, situation) if is_touched(effect) else NO
                return _all_of(
                    (holds(among, each, situation) for each in touched(command, effect)), _unseen(command, effect)
                )

            return judge

        if paths.any is not None:
            clauses.append(any_touched(self.paths(paths.any), _some))
        if paths.all is not None:
            clauses.append(all_touched(self.paths(paths.all), _every))
        if paths.none is not None:
            clauses.append(all_touched(self.paths(paths.none), _not_every))
        if paths.contents_of is not None:
            clauses.append(any_touched(self.paths(paths.contents_of), _contents))
        if paths.resolved is not None:
            wanted = paths.resolved
            clauses.append(lambda c, e, s: YES if all(x.resolved is wanted for x in touched(c, e)) else NO)
        return all_of(clauses)

    def _among(self, group: Among, find: Finder, has: Membership, unseen: Clause, excuses: bool) -> Clause:
        """Of the effects that `find` gives, or that were not seen: is any, is none among the names of `group`?"""
        clauses: list[Clause] = []
        if group.any is not None:
            wanted, of = self.texts(group.any), _all_of if excuses else _any_of
            clauses.append(lambda c, e, s: of((has(x, wanted) for x in find(c, e)), unseen(c, e, s)))
        if group.none is not None:
            unwanted, others = self.texts(group.none), _all_of if excuses else _any_of
            clauses.append(lambda c, e, s: others((YES - has(x, unwanted) for x in find(c, e)), unseen(c, e, s)))
        return all_of(clauses)

    def _env(self, env: Environment, excuses: bool) -> Clause:
        places = self.paths(env.value_in) if env.value_in is not None else None
        return named.variables(self.texts(env.any or ()), places, every=excuses)

    def _sql(self, sql: Sql, excuses: bool) -> Clause:
        kinds = frozenset(sql.kinds) if sql.kinds is not None else None
        some = self.texts(sql.any) if sql.any is not None else None
        none = self.texts(sql.none) if sql.none is not None else None

        def holds(effect: Effect, command: SimpleCommand, situation: Situation) -> int:
            value = YES if kinds is None or _statement_kind(effect) in kinds else NO
            wide = effect.origin in _ON_ALL_IN_IT or _may_be_renamed(effect, situation.commands or [command])
            if some is not None and value != NO:
                found = _table(effect, some, command)
                value = min(value, found if not wide else min(found, MAYBE) if excuses else max(found, MAYBE))
            if none is not None and value != NO:
                value = min(value, MAYBE if wide and excuses else YES - _table(effect, none, command))
            return value

        def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
            speaks = _speaks_sql(command)
            if effect is not None:
                unread = effect.unread or (effect.kind, effect.role) == ("execute", "database")
                known = effect.kind == "database"
                return holds(effect, command, situation) if known else MAYBE if speaks and unread else NO
            said = [holds(each, command, situation) for each in command.effects if each.kind == "database"]
            unread = any(e.unread or (e.kind, e.role) == ("execute", "database") for e in command.effects)
            unread = unread or (speaks and any(map(_starts_otherwise, situation.commands or [command])))
            unseen = MAYBE if speaks and (unread or not command.resolved) else NO
            return _all_of(said, unseen) if excuses else _any_of(said, unseen)

        return judge

    def _limit(self, limit: Limit, excuses: bool) -> Clause:
        # Counted is what may be meant, whatever hangs on it.
        clause, counter = circumstances.limit(limit, self.lists, self.match)
        self.counters.append(counter)
        return clause

    def _every(self, matches: Sequence[Match], excuses: bool) -> Clause:
        return all_of([self.match(m, excuses=excuses) for m in matches])

    def _either(self, matches: Sequence[Match], excuses: bool) -> Clause:
        clauses = [self.match(m, excuses=excuses) for m in matches]
        return lambda c, e, s: max([clause(c, e, s) for clause in clauses])

    def _negated(self, match: Match, excuses: bool) -> Clause:
        clause = self.match(match, excuses=not excuses)
        return lambda c, e, s: YES - clause(c, e, s)


def all_of(clauses: Sequence[Clause]) -> Clause:
    """Holds where all of `clauses` do."""
    if len(clauses) == 1:
        return clauses[0]

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        value = YES
        for clause in clauses:
            found = clause(command, effect, situation)
            if found == NO:
                return NO
            if found < value:
                value = found
        return value

    return judge


# ---- what is run --------------------------------------------------------------------------------------


def names_of(program: str) -> tuple[str, ...]:
    """The names that a program goes by: as given, and without its directory."""
    return (program, program.rpartition("/")[2]) if "/" in program else (program,)


def _perhaps(situation: Situation) -> int:
    """Tell how surely a program of which nobody knows the name is a certain one. Confined, it is like code that nobody
    has read: whichever it is, what it does stays within.
    """
    return MAYBE if situation.confinement is None else NO


def _named(names: Sequence[str]) -> Clause:
    wanted = frozenset(names)

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        if command.program is None:
            return _perhaps(situation)
        return YES if not wanted.isdisjoint(names_of(command.program)) else NO

    return judge


def _regex(pattern: str) -> Clause:

    wanted = linear_regex.Regex(pattern)

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        if command.program is None:
            return _perhaps(situation)
        answers = [wanted.matches(name) for name in names_of(command.program)]
        return YES if True in answers else (MAYBE if None in answers else NO)

    return judge


def _located(paths: PathSet) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        path = command.path
        if path is None or (not path.startswith("/") and command.cwd is None):
            return MAYBE  # whatever PATH leads to
        places = [path] if path.startswith("/") else [absolute_path(path, cwd) for cwd in command.cwd or ()]
        found = [paths.some(Effect("execute", "program", p, True, command.span), situation.links) for p in places]
        return found[0] if len(set(found)) == 1 else MAYBE

    return judge


def _subcommand(names: Sequence[str]) -> Clause:
    wanted = frozenset(names)

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        if command.subcommand is None:
            return NO if command.resolved else MAYBE
        return YES if command.subcommand in wanted or command.subcommand.partition(" ")[0] in wanted else NO

    return judge


def _member(attribute: str, wanted: frozenset[str]) -> Clause:
    return lambda c, e, s: YES if not wanted.isdisjoint(getattr(c, attribute)) else NO


def _parse(states: frozenset[str]) -> Clause:
    return lambda c, e, s: YES if s.parse in states else NO


def _agent(texts: Texts) -> Clause:
    wanted = TextSet(texts)
    return lambda c, e, s: wanted.has(s.agent) if s.agent else MAYBE


def _resolved(value: bool) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        known = command.resolved if effect is None else effect.resolved
        return YES if known is value else NO

    return judge


# ---- its words ----------------------------------------------------------------------------------------


def _once(clause: Clause) -> Clause:
    """Ask `clause` once for all effects of a command. It must be about nothing but the command, and whether it runs
    confined.
    """

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        if len(command.effects) < _FEW:
            return clause(command, effect, situation)
        key = clause, id(command), situation.confinement is None
        found = situation.answers.get(key)
        if found is None:  # the command is kept, so that no other one can have its identity
            found = situation.answers[key] = command, clause(command, effect, situation)
        return found[1]

    return judge


_FEW = 8


def _absent(command: SimpleCommand, situation: Situation) -> int:
    """The answer for an option that was not seen: a word that is not understood may be it, or add it."""
    return NO if command.flags_complete and _worded(command, situation) else MAYBE


_OFF = frozenset({"false", "no", "none", "off", "null", "f", "n", "0"})
"""Values by which a flag is taken back: `--dry-run=false`."""


def _given(command: SimpleCommand) -> frozenset[str]:
    """The flags that were certainly not taken back."""
    values = command.options.items()
    return frozenset(command.flags) - {n for n, given in values if any(v is None or v.lower() in _OFF for v in given)}


def _flags(flags: Flags, excuses: bool) -> Clause:
    some = frozenset(flags.any) if flags.any is not None else None
    every = frozenset(flags.all) if flags.all is not None else None
    none = frozenset(flags.none) if flags.none is not None else None
    only = frozenset(flags.only) if flags.only is not None else None

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        # A word of unknown value may add a flag; it can't take one away.
        absent = _absent(command, situation)
        given = _given(command) if excuses and command.options else command.flags
        value = YES
        if some is not None and some.isdisjoint(given):
            value = min(value, absent)
        if every is not None and not every <= given:
            value = min(value, absent)
        if none is not None:
            value = min(value, NO if not none.isdisjoint(command.flags) else YES - absent)
        if only is not None:
            value = min(value, YES - absent if command.flags <= only else NO)
        return value

    return judge


def _options(options: Mapping[str, Texts], excuses: bool) -> Clause:
    wanted = {name: TextSet(texts) for name, texts in options.items()}

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        value, absent = YES, _absent(command, situation)
        for name, texts in wanted.items():
            answers = [texts.has(text) for text in command.options.get(name, ())]
            if excuses:
                value = min(value, min(answers, default=absent), YES - absent)
            else:
                value = min(value, max([*answers, absent]))
        return value

    return judge


def _attributes(attributes: Mapping[str, Texts], excuses: bool) -> Clause:
    wanted = {name: TextSet(texts) for name, texts in attributes.items()}
    of = min if excuses else max

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        absent = NO if command.known and _worded(command, situation) else MAYBE
        value = YES
        for name, texts in wanted.items():
            value = min(value, of([texts.has(text) for text in command.attributes.get(name, ())], default=absent))
        return value

    return judge


def _worded(command: SimpleCommand, situation: Situation) -> bool:
    """Tell whether all words of a command are known. Where it is confined, files that nobody can read are no doubt of
    that: what they have it do stays within.
    """
    if command.resolved or situation.confinement is None:
        return command.resolved
    written = {command.text, *(word.word.raw for word in command.words)}
    return bool(command.unresolved) and all(
        doubt.startswith("/") and doubt not in written for doubt in command.unresolved
    )


def _operands(operands: Operands) -> Clause:
    some = TextSet(operands.any) if operands.any is not None else None
    every = TextSet(operands.all) if operands.all is not None else None
    none = TextSet(operands.none) if operands.none is not None else None

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        # Some programs have their words read by a grammar of their own, which does not say what the operands are.
        apart = command.known and (
            command.listed or bool(command.operands) or all(w.startswith("-") for w in command.argv[1:])
        )
        words = command.operands
        unseen = NO if apart and _worded(command, situation) else MAYBE
        value = YES
        if some is not None:
            value = min(value, max(max((some.has(w) for w in words), default=NO), unseen))
        if every is not None:
            value = min(value, min((every.has(w) for w in words), default=NO if apart else MAYBE), YES - unseen)
        if none is not None:
            value = min(value, min((YES - none.has(w) for w in words), default=YES), YES - unseen)
        return value

    return judge


def _argv(texts: Texts) -> Clause:

    items = [None if text.glob == "..." else TextSet([text]) for text in texts]

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        value = words.argv_matches(items, command.argv, command.words)
        # Confined, code that nobody has read does no more with a word that nobody knows than it may do without it.
        held = situation.confinement is not None and effect is not None and effect.unread
        return NO if value == MAYBE and held else value

    return judge


# ---- what it does -------------------------------------------------------------------------------------


def _effect(kinds: frozenset[str]) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        if effect is not None:
            return YES if effect.kind in kinds else NO
        if any(e.kind in kinds for e in command.effects):
            return YES
        return NO if command.resolved or not containment.unseen(kinds, situation.confinement) else MAYBE

    return judge


def _about(attribute: str, wanted: frozenset[object]) -> Clause:
    """An attribute of the effect that is judged; without one, of any effect of the command."""

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        if effect is not None:
            return YES if getattr(effect, attribute) in wanted else NO
        if any(getattr(e, attribute) in wanted for e in command.effects):
            return YES
        return NO if command.resolved else MAYBE

    return judge


def _effects(effects: Effects) -> Clause:
    some = frozenset(effects.any) if effects.any is not None else None
    every = frozenset(effects.all) if effects.all is not None else None
    only = frozenset(effects.only) if effects.only is not None else None

    def judge(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
        kinds = {e.kind for e in command.effects}
        unknown = MAYBE if not command.resolved else NO
        value = YES
        if some is not None and some.isdisjoint(kinds):
            value = min(value, unknown if containment.unseen(some, situation.confinement) else NO)
        if every is not None and not every <= kinds:
            value = min(value, unknown if containment.unseen(every - kinds, situation.confinement) else NO)
        if only is not None:
            value = min(value, NO if not kinds <= only else YES - unknown)
        return value

    return judge


def _some(paths: PathSet, effect: Effect, situation: Situation) -> int:
    """Tell how surely anything that `effect` touches is in the set."""
    value = _possibly(paths.some(effect, situation.links), paths, effect, situation)
    if value == MAYBE and situation.confinement and containment.hidden(paths, effect, situation.confinement):
        return NO
    return value


def _contents(paths: PathSet, effect: Effect, situation: Situation) -> int:
    """Tell how surely `effect` touches all that is in a directory of the set."""
    return _possibly(paths.contents(effect, situation.links), paths, effect, situation)


def _possibly(value: int, paths: PathSet, effect: Effect, situation: Situation) -> int:
    """Settle by the confinement what can't be known of where; which files a known operand means is judged as ever."""
    if value != MAYBE or effect.resolved or situation.confinement is None:
        return value
    return MAYBE if containment.some(paths, effect, situation.confinement) else NO


def _every(paths: PathSet, effect: Effect, situation: Situation) -> int:
    """Tell how surely everything that `effect` touches is in the set."""
    value = paths.every(effect, situation.links)
    if value != MAYBE or effect.resolved or situation.confinement is None:
        return value
    if containment.every(paths, situation.confinement):
        return YES
    return _possibly(value, paths, effect, situation)


def _not_every(paths: PathSet, effect: Effect, situation: Situation) -> int:
    """Tell how surely not everything that `effect` touches is in the set: a path that is only partly outside is
    outside.
    """
    return YES - _every(paths, effect, situation)


def _any_of(values: Iterable[int], unseen: int) -> int:
    """Tell how surely it is so of any effect, or (`unseen`) of one that a command has which is not understood."""
    return max(max(values, default=NO), unseen)


def _all_of(values: Iterable[int], unseen: int) -> int:
    """Tell how surely it is so of every effect, and there is one."""
    return min(min(values, default=unseen), YES - unseen)


def _unseen(command: SimpleCommand, effect: Effect | None) -> int:
    return NO if effect is not None or command.resolved else MAYBE


def _unseen_in(paths: PathSet, command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
    """Tell how surely a command touches something in the set that was not seen."""
    possible = situation.confinement is None or containment.any_of(paths, situation.confinement)
    return _unseen(command, effect) if possible else NO


def _unseen_contact(command: SimpleCommand, effect: Effect | None, situation: Situation) -> int:
    return _unseen(command, effect) if containment.unseen(CONTACTS, situation.confinement) else NO


def is_about_file(effect: Effect) -> bool:
    """Tell whether conditions about paths can hold of an effect; of what is executed only where it is a file."""
    return effect.kind in FILE_KINDS and (effect.kind != "execute" or (effect.operand or "").startswith("/"))


def _contacts(command: SimpleCommand, effect: Effect | None) -> list[Effect]:
    return [e for e in ([effect] if effect is not None else command.effects) if e.kind in CONTACTS]


def _speaks_sql(command: SimpleCommand) -> bool:
    return command.program in _SQL_CLIENTS or any("database" in (e.kind, e.role) for e in command.effects)


def _starts_otherwise(command: SimpleCommand) -> bool:
    """Tell whether a command may set what a client of a database reads its first statements, or its settings, from."""
    return any(e.kind == "environment" and (e.operand is None or e.operand in _STARTS) for e in command.effects)


_STARTS = frozenset({"PSQLRC", "PGSYSCONFDIR", "MYSQL_HOME", "HOME", "XDG_CONFIG_HOME"})
_ON_ALL_IN_IT = frozenset({"drop schema", "drop database", "drop owned", "truncate cascade"})
"""Statements that reach tables which they don't name."""
_RENAMES = frozenset({"rename", "alter rename"})
"""Statements after which a table has another name."""
_SQL_CLIENTS = frozenset({"sqlite3", "psql", "mysql", "mariadb"})


def _statement_kind(effect: Effect) -> str:
    if effect.role in ("read", "secret"):
        return "select"
    verb = effect.origin.partition(" ")[0]
    return verb if verb in SQL_KINDS else "create" if verb == "into" else "other"


def _may_be_renamed(effect: Effect, commands: Sequence[SimpleCommand]) -> bool:
    """Tell whether a statement may name a table by what the same action calls it."""
    if effect.origin in _RENAMES:
        return False
    return any(each.origin in _RENAMES for command in commands for each in command.effects if each.kind == "database")


def _table(effect: Effect, patterns: Sequence[str], command: SimpleCommand) -> int:
    """Tell whether the table of a statement is among some. A name that nothing qualifies is of the schema, or of the
    database, that the client begins in; of what else a pattern says, nobody knows.
    """
    if effect.operand is None:
        return MAYBE
    best = NO
    for schema in _BEGINS_IN.get(command.program or "") or command.attributes.get("database", [None]):
        name = effect.operand.lower().split(".")
        if len(name) == 1 and schema is not None:
            name = [schema.lower(), *name]
        for pattern in patterns:
            parts = pattern.lower().split(".")
            if all(fnmatch.fnmatchcase(n, p) for n, p in zip(reversed(name), reversed(parts), strict=False)):
                best = max(best, YES if len(parts) <= len(name) else MAYBE)
    return best if effect.resolved else min(best, MAYBE)


_BEGINS_IN = {"psql": ("public",), "sqlite3": ("main",)}
"""Schemas of names that nothing qualifies; where a client has been told others, not all of it was read."""


def _host(effect: Effect, patterns: Sequence[str]) -> int:
    if effect.operand is None:
        return MAYBE
    host = effect.operand.rpartition(":")[0] if effect.operand.count(":") == 1 else effect.operand
    if any(fnmatch.fnmatchcase(host.lower(), p.lower()) for p in patterns):
        return YES if effect.resolved else MAYBE
    return NO if effect.resolved else MAYBE


_BUILDERS: dict[str, Builder] = {
    "program": lambda c, v, _: c._program(v),
    "effect": lambda _c, v, _: _effect(frozenset(v)),
    "role": lambda _c, v, _: _about("role", frozenset(v)),
    "unread": lambda _c, v, _: _about("unread", frozenset({v})),
    "recursive": lambda _c, v, _: _about("recursive", frozenset({v})),
    "resolved": lambda _c, v, _: _resolved(v),
    "subcommand": lambda _c, v, _: _subcommand(v),
    "parse": lambda _c, v, _: _parse(frozenset(v)),
    "via": lambda _c, v, _: _member("via", frozenset(v)),
    "inside": lambda _c, v, _: _member("inside", frozenset(v)),
    "flags": lambda _c, v, excuses: _flags(v, excuses),
    "effects": lambda _c, v, _: _effects(v),
    "env": Compiler._env,
    "options": lambda _c, v, excuses: _once(_options(v, excuses)),
    "attributes": lambda _c, v, excuses: _attributes(v, excuses),
    "operands": lambda _c, v, _: _once(_operands(v)),
    "argv": lambda _c, v, _: _argv(v),
    "agent": lambda _c, v, _: _agent(v),
    "time": lambda _c, v, _: circumstances.time(v),
    "requester": lambda _c, v, _: circumstances.requester(v),
    "repo": lambda _c, v, excuses: circumstances.repository(v, excuses),
    "tool": lambda c, v, excuses: tool_calls.tool(v, c.paths, c.variables.get("HOME", "/"), excuses),
    "paths": lambda c, v, _: c._paths(v),
    "hosts": lambda c, v, excuses: c._among(v, _contacts, _host, _unseen_contact, excuses),
    "names": lambda c, v, excuses: c._among(v, named.named, named.name_in, lambda x, e, s: _unseen(x, e), excuses),
    "sql": Compiler._sql,
    "content": lambda _c, v, excuses: circumstances.content(v, excuses),
    "limit": Compiler._limit,
    "all": Compiler._every,
    "any": Compiler._either,
    "negated": Compiler._negated,
    "flow": lambda c, v, excuses: dataflow.flow(v, partial(c.match, excuses=excuses)),
}
"""How each clause is compiled; they are tried in this order, cheap ones first."""
