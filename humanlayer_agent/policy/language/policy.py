"""A policy after it was checked and merged: plain data, quick to load from its compiled form."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from humanlayer_agent.canonical_json import canonical

Names = tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Text:
    """A pattern for a word: a glob, or a regular expression (see `word_patterns`, `regex`)."""

    glob: str | None = None
    regex: str | None = None


Texts = tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """The `program` clause: every key that is not None must hold."""

    names: Names = None
    regex: str | None = None
    resolved: bool | None = None
    path: Names = None


@dataclass(frozen=True, slots=True)
class Group:
    """The keys of `flags`, `effects`, `paths`, `hosts`, `names` or `env`, as written (see `schema`)."""

    any: Names = None
    all: Names = None
    none: Names = None
    only: Names = None
    role: Names = None
    resolved: bool | None = None
    contents_of: Names = None
    value_in: Names = None


@dataclass(frozen=True, slots=True)
class Operands:
    """The keys of `operands`."""

    any: Texts | None = None
    all: Texts | None = None
    none: Texts | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A condition; every key that is not None must hold."""

    program: Program | None = None
    subcommand: Names = None
    flags: Group | None = None
    options: Mapping[str, Texts] | None = None
    operands: Operands | None = None
    argv: Texts | None = None
    env: Group | None = None
    effect: Names = None
    role: Names = None
    recursive: bool | None = None
    effects: Group | None = None
    paths: Group | None = None
    hosts: Group | None = None
    names: Group | None = None
    via: Names = None
    inside: Names = None
    resolved: bool | None = None
    unread: bool | None = None
    parse: Names = None
    agent: Texts | None = None
    any: "tuple[Match, ...] | None" = None
    all: "tuple[Match, ...] | None" = None
    negated: "Match | None" = None
    flow: "Flow | None" = None


@dataclass(frozen=True, slots=True)
class Flow:
    """The keys of `flow`, as written (see `schema`); `source` is `from`."""

    source: Match
    to: Match | None = None
    through: Names = None


@dataclass(frozen=True, slots=True)
class Tests:
    """Commands that a rule must match, be unsure about, or leave alone."""

    __test__ = False
    match: tuple[str, ...] = ()
    maybe: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Override:
    """One rule replaces another up to and including the day `expires` (UTC, ISO 8601).

    On the rule that replaces, `rule` is the replaced one; on the replaced rule, it is the one that replaces it.
    """

    rule: str
    reason: str
    expires: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`scope` numbers the lists it sees; `origin` is file:line; `inherited` says that an extended file holds it;
    `written` is the rule as data."""

    id: str
    decision: str
    severity: str
    reason: str
    suggestion: str
    when: Match
    unless: Match | None
    route: str | dict[str, Any]
    remember: tuple[str, ...]
    tests: Tests
    locked: bool = False
    scope: int = 0
    origin: str = ""
    inherited: bool = False
    override: Override | None = None
    overridden: Override | None = None
    written: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, today: str) -> bool:
        """Does it hold on the day `today` (UTC, ISO 8601)? When a replacement expires, the original holds again."""
        if self.override is not None and self.override.expires < today:
            return False
        return self.overridden is None or self.overridden.expires < today


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where no rule does: nothing matched, a rule may match, the command can't be parsed.

    `ask` is what becomes of an ask (deny, where there is nobody to ask). `locked`: no lower layer may allow what this
    one does not decide.
    """

    unmatched: str = "ask"
    maybe: str = "ask"
    unparsed: str = "ask"
    ask: str = "ask"
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A file that takes part: its name (`builtin:default`, or a path), where it is, SHA-256 of its bytes."""

    name: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Policy:
    """One file and what it extends. `body` is the whole as plain data: what its digest is over.

    `scopes` are the lists of each file; a rule sees those of its own. `rules` are in the order of the files.
    """

    name: str
    description: str
    observe: bool
    defaults: Defaults
    scopes: tuple[Mapping[str, tuple[str, ...]], ...]
    sources: tuple[Source, ...]
    body: Mapping[str, Any]
    rules: tuple[Rule, ...] = field(repr=False, compare=False)

    def deciding(self, rules: Iterable[Rule]) -> str:
        """What decides where `rules` hold, as canonical JSON: the digest of a Director is over this. Rules are without
        the place where they stand."""
        bodies = [{key: value for key, value in rule.written.items() if key != "origin"} for rule in rules]
        body = {"defaults": self.body["defaults"], "rules": bodies, "scopes": self.body["scopes"]}
        return canonical(body).decode()

    def on(self, today: str) -> tuple[Rule, ...]:
        """The rules that hold on a day (UTC, ISO 8601)."""
        return tuple(rule for rule in self.rules if rule.holds(today))


def policy_from(body: Mapping[str, Any]) -> Policy:
    """The policy in `body`, which `merge` has made."""
    return Policy(
        body["policy"],
        body["description"],
        body["observe"],
        Defaults(**body["defaults"]),
        tuple({name: tuple(entries) for name, entries in scope.items()} for scope in body["scopes"]),
        tuple(Source(**source) for source in body["sources"]),
        body,
        tuple([_rule(rule) for rule in body["rules"]]),
    )


_PLAIN = ("id", "decision", "severity", "reason", "suggestion", "route", "locked", "scope", "origin", "inherited")


def _rule(body: Mapping[str, Any]) -> Rule:
    return Rule(
        **{key: body[key] for key in _PLAIN if key in body},
        when=_match(body["when"]),
        unless=_match(body["unless"]) if "unless" in body else None,
        remember=tuple(body["remember"]),
        tests=Tests(**{kind: tuple(commands) for kind, commands in body["tests"].items()}),
        override=Override(**body["override"]) if "override" in body else None,
        overridden=Override(**body["overridden"]) if "overridden" in body else None,
        written=body,
    )


_GROUP_KEYS = {"any_within": "any", "all_within": "all", "none_within": "none", "any_in": "any", "none_in": "none"}


def _match(body: Mapping[str, Any]) -> Match:
    keys: dict[str, Any] = {}
    for key, value in body.items():
        if key in ("flags", "effects", "paths", "hosts", "names", "env"):
            keys[key] = Group(**{_GROUP_KEYS.get(k, k): _plain(v) for k, v in value.items()})
        elif key == "program":
            keys[key] = Program(**{"names" if k == "in" else k: _plain(v) for k, v in value.items()})
        elif key in ("argv", "agent"):
            keys[key] = _texts(value)
        elif key == "options":
            keys[key] = {name: _texts(patterns) for name, patterns in value.items()}
        elif key == "operands":
            keys[key] = Operands(**{k: _texts(v) for k, v in value.items()})
        elif key in ("any", "all"):
            keys[key] = tuple(_match(m) for m in value)
        elif key == "not":
            keys["negated"] = _match(value)
        elif key == "flow":
            to = _match(value["to"]) if "to" in value else None
            keys[key] = Flow(_match(value["from"]), to, _plain(value.get("through")))
        else:
            keys[key] = _plain(value)
    return Match(**keys)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _texts(value: list[Mapping[str, str]]) -> Texts:
    return tuple(Text(**text) for text in value)
