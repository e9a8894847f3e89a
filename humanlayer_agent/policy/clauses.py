"""Conditions compiled to closures: (command, effect) -> no, maybe or yes.

`effect` is the one being judged where the rule has an effect clause, else None. A predicate over something that can't
be known is maybe, unless what is known already rules it out.
"""

import fnmatch
from collections.abc import Callable, Mapping, Sequence

from humanlayer_agent.policy.model import Group, Match
from humanlayer_agent.policy.pathset import MAYBE, NO, YES, PathSet
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.program import SimpleCommand

Clause = Callable[[SimpleCommand, Effect | None], int]
FILE_KINDS = frozenset({"read", "write", "append", "delete", "move", "metadata", "execute"})


class Compiler:
    """Compiles the conditions of one policy: knows its lists and variables."""

    def __init__(self, lists: Mapping[str, Sequence[str]], variables: Mapping[str, str]) -> None:
        self.lists, self.variables = lists, variables

    def match(self, match: Match) -> Clause:
        """`match` as one closure."""
        clauses: list[Clause] = []
        if match.program is not None:
            clauses.append(_program(match.program))
        if match.subcommand is not None:
            clauses.append(_subcommand(match.subcommand))
        if match.via is not None:
            clauses.append(_member("via", frozenset(match.via)))
        if match.inside is not None:
            clauses.append(_member("inside", frozenset(match.inside)))
        if match.resolved is not None:
            clauses.append(_resolved(match.resolved))
        if match.unread is not None:
            clauses.append(_unread(match.unread))
        if match.flags is not None:
            clauses.append(_flags(match.flags))
        if match.effect is not None:
            clauses.append(_effect(frozenset(match.effect)))
        if match.role is not None:
            clauses.append(_role(frozenset(match.role)))
        if match.recursive is not None:
            clauses.append(_recursive(match.recursive))
        if match.effects is not None:
            clauses.append(_effects(match.effects))
        if match.paths is not None:
            clauses += self._paths(match.paths)
        if match.hosts is not None:
            clauses += self._hosts(match.hosts)
        if match.all is not None:
            clauses += [self.match(m) for m in match.all]
        if match.any is not None:
            clauses.append(_any([self.match(m) for m in match.any]))
        if match.negated is not None:
            clauses.append(_not(self.match(match.negated)))
        return clauses[0] if len(clauses) == 1 else _all(clauses)

    def texts(self, names: Sequence[str]) -> list[str]:
        """`names` with every `$list` replaced by its entries."""
        out: list[str] = []
        for name in names:
            if name.startswith("$") and not name.startswith("${"):
                out += self.texts(self.lists[name[1:]])
            else:
                out.append(name)
        return out

    def _paths(self, paths: Group) -> list[Clause]:
        out: list[Clause] = []
        if paths.any is not None:
            some = PathSet(self.texts(paths.any), self.variables).some
            out.append(lambda c, e: max((some(x) for x in _files(c, e)), default=NO))
        if paths.all is not None:
            every = PathSet(self.texts(paths.all), self.variables).every
            out.append(lambda c, e: min((every(x) for x in _files(c, e)), default=NO))
        if paths.none is not None:
            outside = PathSet(self.texts(paths.none), self.variables).every
            # Not "all of it inside": a path that is only partly outside is outside.
            out.append(lambda c, e: min((YES - outside(x) for x in _files(c, e)), default=NO))
        return out

    def _hosts(self, hosts: Group) -> list[Clause]:
        out: list[Clause] = []
        if hosts.any is not None:
            wanted = self.texts(hosts.any)
            out.append(lambda c, e: max((_host(x, wanted) for x in _contacts(c, e)), default=NO))
        if hosts.none is not None:
            unwanted = self.texts(hosts.none)
            out.append(lambda c, e: min((YES - _host(x, unwanted) for x in _contacts(c, e)), default=NO))
        return out


def _all(clauses: Sequence[Clause]) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        value = YES
        for clause in clauses:
            value = min(value, clause(command, effect))
            if value == NO:
                return NO
        return value

    return judge


def _any(clauses: Sequence[Clause]) -> Clause:
    return lambda c, e: max(clause(c, e) for clause in clauses)


def _not(clause: Clause) -> Clause:
    return lambda c, e: YES - clause(c, e)


def _program(names: Sequence[str]) -> Clause:
    wanted = frozenset(names)

    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        if command.program is None:
            return MAYBE
        if command.program in wanted:
            return YES
        return YES if "/" in command.program and command.program.rpartition("/")[2] in wanted else NO

    return judge


def _subcommand(names: Sequence[str]) -> Clause:
    wanted = frozenset(names)

    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        if command.subcommand is None:
            return NO if command.resolved else MAYBE
        return YES if command.subcommand in wanted or command.subcommand.partition(" ")[0] in wanted else NO

    return judge


def _member(attribute: str, wanted: frozenset[str]) -> Clause:
    return lambda c, e: YES if not wanted.isdisjoint(getattr(c, attribute)) else NO


def _resolved(value: bool) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        known = command.resolved if effect is None else effect.resolved
        return YES if known is value else NO

    return judge


def _unread(value: bool) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        effects = command.effects if effect is None else [effect]
        return YES if any(e.unread for e in effects) is value else NO

    return judge


def _flags(flags: Group) -> Clause:
    some = frozenset(flags.any) if flags.any is not None else None
    every = frozenset(flags.all) if flags.all is not None else None
    none = frozenset(flags.none) if flags.none is not None else None

    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        # A word of unknown value may add a flag; it can't take one away.
        absent = NO if command.flags_complete else MAYBE
        value = YES
        if some is not None and some.isdisjoint(command.flags):
            value = min(value, absent)
        if every is not None and not every <= command.flags:
            value = min(value, absent)
        if none is not None:
            value = min(value, NO if not none.isdisjoint(command.flags) else YES - absent)
        return value

    return judge


def _effect(kinds: frozenset[str]) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        if effect is not None:
            return YES if effect.kind in kinds else NO
        return YES if any(e.kind in kinds for e in command.effects) else NO

    return judge


def _role(roles: frozenset[str]) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        effects = command.effects if effect is None else [effect]
        return YES if any(e.role in roles for e in effects) else NO

    return judge


def _recursive(value: bool) -> Clause:
    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        effects = command.effects if effect is None else [effect]
        return YES if any(e.recursive is value for e in effects) else NO

    return judge


def _effects(effects: Group) -> Clause:
    some = frozenset(effects.any) if effects.any is not None else None
    every = frozenset(effects.all) if effects.all is not None else None
    only = frozenset(effects.only) if effects.only is not None else None

    def judge(command: SimpleCommand, effect: Effect | None) -> int:
        kinds = {e.kind for e in command.effects}
        unknown = MAYBE if not command.resolved else NO
        value = YES
        if some is not None and some.isdisjoint(kinds):
            value = min(value, unknown)
        if every is not None and not every <= kinds:
            value = min(value, unknown)
        if only is not None:
            value = min(value, NO if not kinds <= only else YES - unknown)
        return value

    return judge


def _files(command: SimpleCommand, effect: Effect | None) -> list[Effect]:
    if effect is not None:
        return [effect] if effect.kind in FILE_KINDS and _is_path(effect) else []
    return [e for e in command.effects if e.kind in FILE_KINDS and _is_path(e)]


def _is_path(effect: Effect) -> bool:
    """An execute effect is about a file only where its operand is one."""
    return effect.kind != "execute" or (effect.operand or "").startswith("/")


def _contacts(command: SimpleCommand, effect: Effect | None) -> list[Effect]:
    return [e for e in ([effect] if effect is not None else command.effects) if e.kind in ("network", "listen")]


def _host(effect: Effect, patterns: Sequence[str]) -> int:
    if effect.operand is None:
        return MAYBE
    host = effect.operand.rpartition(":")[0] if effect.operand.count(":") == 1 else effect.operand
    return YES if any(fnmatch.fnmatchcase(host.lower(), p.lower()) for p in patterns) else NO
