"""The form of a policy file, checked strictly: an unknown key is an error with its file, line and column."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy import yamlfile
from humanlayer_agent.shell.effects import EffectKind


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
Kinds = Annotated[list[EffectKind], BeforeValidator(_listed), Field(min_length=1)]
Stop = Literal["ask", "deny"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Flags(_Strict):
    """Options by their canonical names in the catalog (`recursive`, not `-r`)."""

    any: Names | None = None
    all: Names | None = None
    none: Names | None = None


class Effects(_Strict):
    """The kinds of effects of the whole command."""

    any: Kinds | None = None
    all: Kinds | None = None
    only: list[EffectKind] | None = None


class Paths(_Strict):
    """Where paths lie: patterns, or `$name` of a list."""

    any_within: Names | None = None
    all_within: Names | None = None
    none_within: Names | None = None


class Hosts(_Strict):
    any_in: Names | None = None
    none_in: Names | None = None


class Match(_Strict):
    """A condition. Several keys mean all of them."""

    program: Names | None = None
    subcommand: Names | None = None
    flags: Flags | None = None
    effect: Kinds | None = None
    role: Names | None = None
    recursive: bool | None = None
    effects: Effects | None = None
    paths: Paths | None = None
    hosts: Hosts | None = None
    via: Names | None = None
    inside: Names | None = None
    resolved: bool | None = None
    unread: bool | None = None
    any: "list[Match] | None" = None
    all: "list[Match] | None" = None
    not_: "Match | None" = Field(None, alias="not")

    @model_validator(mode="after")
    def _not_empty(self) -> "Match":
        if not self.model_fields_set:
            raise ValueError("an empty condition would match everything: name at least one clause")
        return self


class Tests(_Strict):
    """Commands the rule must decide (`match`), must ask about because it can't tell (`maybe`), must leave alone."""

    __test__ = False
    match: list[str] = []
    maybe: list[str] = []
    not_match: list[str] = []


class Rule(_Strict):
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
    decision: Literal["allow", "ask", "deny"]
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    reason: Annotated[str, Field(max_length=400)] = ""
    suggestion: Annotated[str, Field(max_length=400)] = ""
    when: Match
    unless: Match | None = None
    route: str = "default"
    remember: list[Literal["once", "run"]] = ["once"]
    tests: Tests = Tests()


class Defaults(_Strict):
    unmatched: Literal["allow", "ask", "deny"] = "ask"
    maybe: Stop = "ask"
    unparsed: Stop = "ask"


class Policy(_Strict):
    version: Literal[1]
    policy: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    description: str = ""
    defaults: Defaults = Defaults()
    lists: dict[str, Names] = {}
    rules: Annotated[list[Rule], Field(min_length=1)]


def check(document: yamlfile.Document) -> dict[str, Any]:
    """Check a document; returns the policy as plain data with every default filled in (for `model.policy_from`).

    Raises:
        PolicyError: `file:line:column`, what is wrong, what was expected, and the line itself.
    """
    if not isinstance(document.data, dict):
        raise document.error((), "expected a mapping with the keys version, policy, rules")
    try:
        policy = Policy.model_validate(document.data)
    except ValidationError as error:
        raise _explained(document, error) from None
    _check_rules(document, policy)
    return policy.model_dump(mode="json", by_alias=True, exclude_none=True)


def _check_rules(document: yamlfile.Document, policy: Policy) -> None:
    seen: set[str] = set()
    for n, rule in enumerate(policy.rules):
        if rule.id in seen:
            raise document.error(("rules", n, "id"), f"the rule id {rule.id!r} stands twice")
        seen.add(rule.id)
        for field in ("when", "unless"):
            match = getattr(rule, field)
            if match is not None:
                _check_lists(document, policy, match, ("rules", n, field))
        if rule.decision == "allow" and _broad(rule.when):
            raise document.error(
                ("rules", n, "when"),
                f"rule {rule.id}: this allow is too broad. Name an effect with its paths or hosts, what the command "
                "may do at most (effects: {only: [...]}), or a program with its sub-command",
            )


def _check_lists(document: yamlfile.Document, policy: Policy, match: Match, path: tuple[yamlfile.Key, ...]) -> None:
    for group in (match.paths, match.hosts):
        for key in group.model_fields_set if group is not None else ():
            for name in getattr(group, key) or ():
                if name.startswith("$") and not name.startswith("${") and name[1:] not in policy.lists:
                    where = (*path, "paths" if group is match.paths else "hosts", key)
                    known = ", ".join(sorted(policy.lists)) or "none"
                    raise document.error(where, f"the list {name} is not defined; defined here: {known}")
    for n, inner in enumerate(match.any or ()):
        _check_lists(document, policy, inner, (*path, "any", n))
    for n, inner in enumerate(match.all or ()):
        _check_lists(document, policy, inner, (*path, "all", n))
    if match.not_ is not None:
        _check_lists(document, policy, match.not_, (*path, "not"))


_INTERPRETERS = frozenset(
    (
        *("bash", "sh", "dash", "zsh", "ksh", "python", "python3", "perl", "ruby", "node", "awk"),
        *("sudo", "env", "xargs", "find", "git", "ssh", "eval"),
    )
)


def _broad(when: Match) -> bool:
    """Would this allow let arbitrary code through?"""
    if when.effect is not None:
        risky = {"execute", "network", "privilege"} & set(when.effect)
        return bool(risky) and not (when.program or when.hosts or when.role or when.resolved)
    if when.effects is not None and when.effects.only is not None:
        return "execute" in when.effects.only and when.program is None
    if when.program is not None:
        return bool(_INTERPRETERS & set(when.program)) and when.subcommand is None
    if when.all is not None:
        return all(_broad(m) for m in when.all)
    if when.any is not None:
        return any(_broad(m) for m in when.any)
    return True


def _explained(document: yamlfile.Document, error: ValidationError) -> PolicyError:
    """The first mistake, at its place in the file."""
    first = error.errors()[0]
    path = tuple(p for p in first["loc"] if isinstance(p, int) or not str(p).startswith(("function-", "list[")))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        key = str(path[-1])
        path = (*path, "\0key")
        message = f"unknown key {key!r}; known here: {', '.join(_known_keys(first['loc']))}"
    elif first["type"] == "missing":
        message = f"the key {path[-1]!r} is missing"
        path = path[:-1]
    elif "literal" in first["type"]:
        message = f"{first['input']!r}: expected {first['ctx']['expected']}"
    return document.error(path, message)


def _known_keys(location: tuple[Any, ...]) -> list[str]:
    model: type[BaseModel] = Policy
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        field = next((f for name, f in model.model_fields.items() if part in (name, f.alias)), None)
        inner = _model_in(field.annotation) if field is not None else None
        model = inner or model
    return sorted(f.alias or name for name, f in model.model_fields.items())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _model_in(inner)) is not None:
            return found
    return None
