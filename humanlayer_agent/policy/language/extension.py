"""Reads a policy file and everything it extends, as a tree.

A file may extend `builtin:NAME` or a path relative to its own folder. The tree is bounded in depth and in files; a file
that extends itself is an error.

Makes one policy of a file and what it extends.

Depth first, the extending file last. Lists and rules keep the scope of their file. What was extended is changed in
three ways only: `override` in a rule, `{add: [...]}` in a list, and `exceptions`.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from humanlayer_agent.confine.hosts import Allowed
from humanlayer_agent.errors import PolicyError, did_you_mean
from humanlayer_agent.policy.language import schema, yaml_positions
from humanlayer_agent.policy.language.field_types import keys_of
from humanlayer_agent.policy.language.policy import (
    Among,
    Environment,
    Match,
    Paths,
    WrittenException,
    WrittenRule,
)
from humanlayer_agent.policy.language.schema import Added
from humanlayer_agent.policy.language.sources import BUILTIN, read, shipped, shipped_names
from humanlayer_agent.policy.language.yaml_positions import Key
from humanlayer_agent.redaction.secret_names import secret_variables

MAX_DEPTH = 8
MAX_FILES = 32


@dataclass(slots=True)
class Unit:
    """One file at one place of the tree: a file that is extended twice is two units. `lists` are its own lists."""

    name: str
    path: Path
    sha256: str
    document: yaml_positions.Document
    policy: schema.PolicyFile
    extended: "list[Unit]" = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def units(self) -> "Iterator[Unit]":
        """This unit and all below it, depth first, this one last."""
        for unit in self.extended:
            yield from unit.units()
        yield self


def tree(
    path: Path, *, name: str | None = None, within: Path | str | None = None, content: bytes | None = None
) -> Unit:
    """The file at `path` with what it extends.

    Args:
        path: the file.
        name: what it is called in messages; the path where it is None.
        within: the folder that no file of the tree may lie outside of (where the policy is a repository's, which must
            not make us read, and quote in a message, any file on the machine).
        content: stands in the place of what is in the file, which need not be there.

    Raises:
        PolicyError: a file can't be read or has a mistake; the tree is too deep, too large, or has a cycle.
    """
    return _Reader(within).unit(path, name or str(path), (), content)


class _Reader:
    def __init__(self, within: Path | str | None) -> None:
        self.within = Path(os.path.realpath(within)) if within is not None else None
        self.files = 0

    def unit(self, path: Path, name: str, above: tuple[str, ...], content: bytes | None = None) -> Unit:
        self.files += 1
        real = os.path.realpath(path)
        if not name.startswith(BUILTIN) and self.within is not None and not Path(real).is_relative_to(self.within):
            raise PolicyError(f"{name}: lies outside {self.within}; a project's policy may use only its own files")
        raw = read(path) if content is None else content
        document = yaml_positions.decode(raw, name)
        unit = Unit(name, path, hashlib.sha256(raw).hexdigest(), document, schema.check(document))
        for n, extended in enumerate(unit.policy.extends):
            where = ("extends", n)
            found, called = self._found(unit, extended, where)
            if os.path.realpath(found) in (*above, real):
                raise document.error(where, f"{extended} extends this file: a cycle")
            if len(above) + 1 >= MAX_DEPTH or self.files >= MAX_FILES:
                raise document.error(where, f"too much is extended: at most {MAX_DEPTH} deep and {MAX_FILES} files")
            unit.extended.append(self.unit(found, called, (*above, real)))
        return unit

    def _found(self, unit: Unit, extended: str, where: tuple[str, int]) -> tuple[Path, str]:
        if extended.startswith(BUILTIN):
            name = extended.removeprefix(BUILTIN)
            found = shipped(name)
            if found is None:
                known = did_you_mean(name, shipped_names(), "shipped:")
                raise unit.document.error(where, f"no policy is called {name!r}; {known}")
            return Path(found), extended
        if unit.name.startswith(BUILTIN) or extended.startswith(("/", "~")) or "\0" in extended or not extended:
            raise unit.document.error(where, f"{extended!r}: expected builtin:NAME, or a path relative to this file")
        path = Path(os.path.normpath(unit.path.parent / extended))
        return path, str(path)


MAX_RULES = 2_000
MAX_ENTRIES = 5_000
GIVEN_LISTS = frozenset({"policies"})
"""Lists that every file sees without defining them: `policies` are the files of the policies in force."""

KNOWN_LISTS = {"secret-variables": secret_variables}
"""Lists that every file sees, with what stands in them: a file may add to one, or have its own of the same name."""

_STRICTEST = {"allow": 0, "ask": 1, "deny": 2}
_DEFAULTS = ("unmatched", "maybe", "unparsed", "ask")


def merged(unit: Unit) -> dict[str, Any]:
    """The policy as plain data (for `policy.policy_from`).

    Raises:
        PolicyError: a list or rule is named that is not there, is locked, is ambiguous, or stands there already.
    """
    _add_to_lists(unit)
    units = list(unit.units())
    numbers = {id(u): n for n, u in enumerate(units)}
    lists = [_visible_lists(u) for u in units]
    confinements = _confinements(unit)
    above: list[dict[str, Any]] = []
    rules = _rules(unit, numbers, lists, above)
    for rule in rules:
        rule["inherited"] = rule["scope"] != len(units) - 1
    kept = _without_copies(rules, lists)
    if len(kept) > MAX_RULES:
        raise unit.document.error(("rules",), f"{len(kept)} rules with those of extended files; at most {MAX_RULES}")
    return {
        "policy": unit.policy.policy,
        "description": unit.policy.description,
        "observe": unit.policy.observe,
        "defaults": _defaults(unit),
        "confinements": confinements,
        "scopes": lists,
        "rules": kept,
        "exceptions": above,
        "sources": [{"name": u.name, "path": str(u.path), "sha256": u.sha256} for u in units],
    }


def _defaults(unit: Unit) -> dict[str, Any]:
    own = unit.policy.defaults
    extended = [_defaults(u) for u in unit.extended]
    found: dict[str, Any] = {}
    for key in _DEFAULTS:
        inherited = max((d[key] for d in extended), key=_STRICTEST.__getitem__, default="ask")
        found[key] = getattr(own, key) or inherited
    found["locked"] = own.locked if own.locked is not None else any(d["locked"] for d in extended)
    found["confine"] = own.confine or next((d["confine"] for d in extended if d["confine"]), "")
    inherited_keep: dict[str, int] = next((d["keep"] for d in extended if d["keep"]), {})
    found["keep"] = {**inherited_keep, **own.keep.model_dump(exclude_none=True)}
    found["undo"] = own.undo or next((d["undo"] for d in extended if d["undo"]), "")
    return found


# ---- confinements -----------------------------------------------------------------------------------

_SETS = ("read", "write", "protect", "hide", "hosts")


def _confinements(unit: Unit) -> dict[str, dict[str, Any]]:
    """The confinements of `unit` and of what it extends, by name: a given one takes the place of an extended one.

    Every name that a rule or a default of this file says is among them.
    """
    found: dict[str, dict[str, Any]] = {}
    for each in unit.extended:
        found.update(_confinements(each))
    for name, written in unit.policy.confinements.items():
        where = ("confinements", name)
        made: dict[str, Any] = {**dict.fromkeys(_SETS, ()), "network": "none"}
        if written.extends is not None:
            made = dict(_known(unit, found, written.extends, (*where, "extends")))
        for key in _SETS:
            if (entries := getattr(written, key)) is not None:
                made[key] = _flat(unit, entries, (*where, key), ())
        if written.network is not None:
            made["network"] = written.network
        _check_hosts(unit, written.hosts, made, where)
        found[name] = {key: list(value) if key in _SETS else value for key, value in made.items()}
    if unit.policy.defaults.confine is not None:
        _known(unit, found, unit.policy.defaults.confine, ("defaults", "confine"))
    for n, rule in enumerate(unit.policy.rules):
        for key in ("confined", "approved"):
            if (name := getattr(rule, key)) is not None:
                _known(unit, found, name, ("rules", n, key))
    return found


def _check_hosts(unit: Unit, written: Sequence[str] | None, made: Mapping[str, Any], where: tuple[Key, ...]) -> None:
    if written is not None and made["network"] != "forwarded":
        raise unit.document.error((*where, "hosts"), "hosts are what `network: forwarded` leads to, and no other")
    try:
        Allowed.of(made["hosts"])
    except ValueError as error:
        raise unit.document.error((*where, "hosts"), str(error)) from None


def _known(unit: Unit, found: dict[str, dict[str, Any]], name: str, where: tuple[Key, ...]) -> dict[str, Any]:
    if name not in found:
        known = did_you_mean(name, found, "defined above:")
        raise unit.document.error(where, f"no confinement is called {name}; {known}")
    return found[name]


# ---- lists ------------------------------------------------------------------------------------------


def _add_to_lists(unit: Unit) -> None:
    """Give every unit its own lists, and what the files that extend it add to them."""
    for each in unit.extended:
        _add_to_lists(each)
    own = {n: list(v) for n, v in unit.policy.lists.items() if not isinstance(v, Added)}
    known = {n: list(entries()) for n, entries in KNOWN_LISTS.items()} if not unit.extended else {}
    unit.lists = {**known, **own}
    for name, value in unit.policy.lists.items():
        if isinstance(value, Added):
            added = _flat(unit, value.add, ("lists", name, "add"), ())
            below = [u for u in unit.units() if name in u.lists and (u is not unit or name in KNOWN_LISTS)]
            if not below:
                raise unit.document.error(("lists", name), f"no extended file has a list {name}: nothing to add to")
            for each in below:
                each.lists[name] += added


def _visible_lists(unit: Unit) -> dict[str, list[str]]:
    """The lists that the rules of `unit` name, without `$`: its own, else those of what it extends."""
    named: dict[str, list[str]] = {}
    for n, rule in enumerate(unit.policy.rules):
        for clause in ("when", "unless"):
            match = getattr(rule, clause)
            if match is not None:
                _name_lists(unit, match, ("rules", n, clause), named)
    for name in unit.lists:
        if name not in KNOWN_LISTS or name in unit.policy.lists:
            named.setdefault(name, _list(unit, name, ("lists", name), ()))
    return named


def _name_lists(unit: Unit, match: Match, path: tuple[Key, ...], named: dict[str, list[str]]) -> None:
    groups = {"paths": match.paths, "hosts": match.hosts, "names": match.names, "env": match.env, "sql": match.sql}
    for key, group in groups.items():
        for part, name_of_it in keys_of(type(group)).items() if group is not None else ():
            entries = getattr(group, name_of_it)
            for entry in entries if isinstance(entries, tuple) else ():
                found = [entry]
                if (name := _name(entry)) is not None and name not in GIVEN_LISTS:
                    found = named[name] = _list(unit, name, (*path, key, part), ())
                if (key, part) != ("env", "any") and any(each.startswith("!") for each in found):
                    message = (
                        f"{entry}: an entry with ! takes out names of variables, so only `env: {{any: ...}}` has one"
                    )
                    raise unit.document.error((*path, key, part), message)
    for entry in (match.program.path or ()) if match.program is not None else ():
        if (name := _name(entry)) is not None and name not in GIVEN_LISTS:
            named[name] = _list(unit, name, (*path, "program", "path"), ())
    for n, inner in enumerate(match.any or ()):
        _name_lists(unit, inner, (*path, "any", n), named)
    for n, inner in enumerate(match.all or ()):
        _name_lists(unit, inner, (*path, "all", n), named)
    if match.negated is not None:
        _name_lists(unit, match.negated, (*path, "not"), named)
    if match.limit is not None and match.limit.of is not None:
        _name_lists(unit, match.limit.of, (*path, "limit", "of"), named)
    if match.flow is not None:
        _name_lists(unit, match.flow.source, (*path, "flow", "from"), named)
        if match.flow.to is not None:
            _name_lists(unit, match.flow.to, (*path, "flow", "to"), named)


def _list(unit: Unit, name: str, where: tuple[Key, ...], open_names: tuple[str, ...]) -> list[str]:
    """The entries of the list `name` as `unit` sees it."""
    if name in open_names:
        raise unit.document.error(where, f"the list ${name} contains itself")
    if name in unit.lists:
        return _flat(unit, unit.lists[name], where, (*open_names, name))
    found = [_list(u, name, ("lists", name), ()) for u in unit.extended if _sees(u, name)]
    if not found:
        known = ", ".join(sorted({n for u in unit.units() for n in u.lists} | GIVEN_LISTS))
        raise unit.document.error(where, f"the list ${name} is not defined; defined here: {known}")
    if any(each != found[0] for each in found):
        raise unit.document.error(where, f"the list ${name} is another one in each of several extended files")
    return found[0]


def _sees(unit: Unit, name: str) -> bool:
    return any(name in u.lists for u in unit.units())


def _flat(unit: Unit, entries: Sequence[str], where: tuple[Key, ...], open_names: tuple[str, ...]) -> list[str]:
    out: dict[str, None] = {}
    for entry in entries:
        name = _name(entry)
        found = [entry] if name is None or name in GIVEN_LISTS else _list(unit, name, where, open_names)
        out.update(dict.fromkeys(found))
        if len(out) > MAX_ENTRIES or len(open_names) > 8:
            raise unit.document.error(where, f"a list of lists that is too large or too deep (at most {MAX_ENTRIES})")
    return list(out)


def _name(entry: str) -> str | None:
    return entry[1:] if entry.startswith("$") and not entry.startswith("${") else None


# ---- rules ------------------------------------------------------------------------------------------


def _rules(
    unit: Unit, numbers: dict[int, int], lists: list[dict[str, list[str]]], above: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rules of `unit` and of what it extends, with the exceptions to them; those to rules of none of these files
    are added to `above`.
    """
    inherited = [rule for each in unit.extended for rule in _rules(each, numbers, lists, above)]
    own = []
    for n, (rule, plain) in enumerate(zip(unit.policy.rules, unit.policy.as_data("rules"), strict=True)):
        _replace(unit, n, rule, inherited)
        line = unit.document.positions[("rules", n)].line
        own.append({**plain, "scope": numbers[id(unit)], "origin": f"{unit.name}:{line}"})
    rules = inherited + own
    for n, (exception, plain) in enumerate(zip(unit.policy.exceptions, unit.policy.as_data("exceptions"), strict=True)):
        where = ("exceptions", n, "when")
        _name_lists(unit, exception.when, where, {})
        line = unit.document.positions[("exceptions", n)].line
        made = {**plain, "when": _filled(unit, plain["when"], where), "origin": f"{unit.name}:{line}"}
        excused = [each for each in rules if each["id"] == exception.rule]
        for each in excused or _shipped_rules(unit, n, exception, rules):
            if why := not_excused(each):
                raise unit.document.error(("exceptions", n, "rule"), why)
        for each in excused:
            each["exceptions"] = [*each.get("exceptions", ()), made]
        if not excused:
            above.append(made)
    return rules


def not_excused(rule: Mapping[str, Any]) -> str:
    """Return why no exception can be made to a rule, given as data; "" where one can."""
    name = f"the rule {rule['id']} of {rule['origin']}"
    if rule["locked"]:
        return f"{name} is locked: nothing is excused from it"
    if rule["decision"] == "allow":
        return f"{name} allows; an exception excuses from a rule that asks or denies"
    if rule["severity"] == "critical":
        return f"{name} is of critical severity: nothing is excused from it; override it, and say what you mean"
    return ""


def _shipped_rules(
    unit: Unit, n: int, exception: WrittenException, rules: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The rules of that name in the policies that ship, which a layer above may have in force: of those, it is enough
    that one can be excused.
    """
    found = _all_shipped()
    named = [each for each in found if each["id"] == exception.rule]
    if not named:
        near = did_you_mean(exception.rule, [each["id"] for each in (*rules, *found)], "")
        message = f"neither this file, nor what it extends, nor what ships has a rule {exception.rule}"
        raise unit.document.error(("exceptions", n, "rule"), f"{message}; {near}" if near else message)
    return [each for each in named if not not_excused(each)] or named


@cache
def _all_shipped() -> list[dict[str, Any]]:
    """The rules of every policy that ships."""
    found: list[dict[str, Any]] = []
    for name in shipped_names():
        ships = _Reader(None).unit(Path(shipped(name) or ""), f"{BUILTIN}{name}", ())
        found += _rules(ships, {id(each): 0 for each in ships.units()}, [], [])
    return found


_LISTS = {
    "paths": keys_of(Paths),
    "hosts": keys_of(Among),
    "names": keys_of(Among),
    "env": keys_of(Environment),
    "sql": {"any_in": "any", "none_in": "none"},
    "program": {"path": "path"},
}
"""The keys of a condition below which `$name` stands for a list."""


def _filled(unit: Unit, match: Mapping[str, Any], where: tuple[Key, ...]) -> dict[str, Any]:
    """A condition with the entries of lists in the place of their names: it is asked among rules of other files."""
    found: dict[str, Any] = {}
    for key, value in match.items():
        at = (*where, key)
        if key in _LISTS:
            found[key] = {
                k: _flat(unit, v, (*at, k), ()) if k in _LISTS[key] and isinstance(v, list) else v
                for k, v in value.items()
            }
        elif key in ("any", "all"):
            found[key] = [_filled(unit, each, (*at, i)) for i, each in enumerate(value)]
        elif key == "not":
            found[key] = _filled(unit, value, at)
        elif key == "limit":
            found[key] = {k: _filled(unit, v, (*at, k)) if k == "of" else v for k, v in value.items()}
        elif key == "flow":
            found[key] = {k: _filled(unit, v, (*at, k)) if k != "through" else v for k, v in value.items()}
        else:
            found[key] = value
    return found


def _replace(unit: Unit, n: int, rule: WrittenRule, inherited: list[dict[str, Any]]) -> None:
    """Mark what `rule` overrides; refuse an id that an extended rule has."""
    override = rule.override
    if override is None or override.rule != rule.id:
        same = next((r for r in inherited if r["id"] == rule.id), None)
        if same is not None:
            message = (
                f"{same['origin']} has a rule {rule.id} already: choose another id, or say override: {{rule: ...}}"
            )
            raise unit.document.error(("rules", n, "id"), message)
    if override is None:
        return
    where = ("rules", n, "override", "rule")
    targets = [r for r in inherited if r["id"] == override.rule]
    if not targets:
        near = did_you_mean(override.rule, [r["id"] for r in inherited], "")
        hint = f"; {near}" if near else ""
        raise unit.document.error(where, f"no extended file has a rule {override.rule}{hint}")
    for target in targets:
        if target["locked"]:
            raise unit.document.error(where, f"the rule {override.rule} of {target['origin']} is locked")
        if "overridden" in target:
            raise unit.document.error(where, f"{target['overridden']['rule']} overrides {override.rule} already")
        target["overridden"] = {"rule": rule.id, "reason": override.reason, "expires": override.expires}


def _without_copies(rules: list[dict[str, Any]], lists: list[dict[str, list[str]]]) -> list[dict[str, Any]]:
    """A file that is reached in two ways has each rule once, where nothing changed it on one of them."""
    seen: set[str] = set()
    out = []
    for rule in rules:
        key = json.dumps([{k: v for k, v in rule.items() if k != "scope"}, lists[rule["scope"]]], sort_keys=True)
        if key not in seen:
            seen.add(key)
            out.append(rule)
    return out
