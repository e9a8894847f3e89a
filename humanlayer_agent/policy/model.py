"""A policy after it was checked: plain data, quick to load from its compiled form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Names = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Group:
    """The keys of `flags`, `effects`, `paths` or `hosts`, as written (see `schema`)."""

    any: Names = None
    all: Names = None
    none: Names = None
    only: Names = None


@dataclass(frozen=True, slots=True)
class Match:
    """A condition; every key that is not None must hold."""

    program: Names = None
    subcommand: Names = None
    flags: Group | None = None
    effect: Names = None
    role: Names = None
    recursive: bool | None = None
    effects: Group | None = None
    paths: Group | None = None
    hosts: Group | None = None
    via: Names = None
    inside: Names = None
    resolved: bool | None = None
    unread: bool | None = None
    any: "tuple[Match, ...] | None" = None
    all: "tuple[Match, ...] | None" = None
    negated: "Match | None" = None


@dataclass(frozen=True, slots=True)
class Tests:
    """Commands that a rule must match, be unsure about, or leave alone."""

    __test__ = False
    match: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    id: str
    decision: str
    severity: str
    reason: str
    suggestion: str
    when: Match
    unless: Match | None
    route: str
    remember: tuple[str, ...]
    tests: Tests


@dataclass(frozen=True, slots=True)
class Defaults:
    unmatched: str
    maybe: str
    unparsed: str


@dataclass(frozen=True, slots=True)
class Policy:
    """`body` is the whole policy as canonical data: what its digest is over."""

    name: str
    description: str
    defaults: Defaults
    lists: Mapping[str, tuple[str, ...]]
    rules: tuple[Rule, ...]
    body: Mapping[str, Any]


def policy_from(body: Mapping[str, Any]) -> Policy:
    """The policy in `body`, which `schema` has checked."""
    return Policy(
        body["policy"],
        body["description"],
        Defaults(**body["defaults"]),
        {name: tuple(entries) for name, entries in body["lists"].items()},
        tuple(_rule(rule) for rule in body["rules"]),
        body,
    )


def _rule(body: Mapping[str, Any]) -> Rule:
    plain = {k: body[k] for k in ("id", "decision", "severity", "reason", "suggestion", "route")}
    return Rule(
        **plain,
        when=_match(body["when"]),
        unless=_match(body["unless"]) if "unless" in body else None,
        remember=tuple(body["remember"]),
        tests=Tests(**{kind: tuple(commands) for kind, commands in body["tests"].items()}),
    )


_GROUP_KEYS = {"any_within": "any", "all_within": "all", "none_within": "none", "any_in": "any", "none_in": "none"}


def _match(body: Mapping[str, Any]) -> Match:
    keys: dict[str, Any] = {}
    for key, value in body.items():
        if key in ("flags", "effects", "paths", "hosts"):
            keys[key] = Group(**{_GROUP_KEYS.get(k, k): tuple(v) for k, v in value.items()})
        elif key in ("any", "all"):
            keys[key] = tuple(_match(m) for m in value)
        elif key == "not":
            keys["negated"] = _match(value)
        else:
            keys[key] = tuple(value) if isinstance(value, list) else value
    return Match(**keys)
