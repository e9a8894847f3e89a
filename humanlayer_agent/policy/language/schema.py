"""The form of a policy file, checked strictly: an unknown key is an error with its file, line and column."""

from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.yaml_positions import explained
from humanlayer_agent.shell.dataflow import Way
from humanlayer_agent.shell.program import EFFECT_KINDS


def _listed(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _text(value: Any) -> Any:
    return {"glob": value} if isinstance(value, str) else value


def _program(value: Any) -> Any:
    return {"in": value} if isinstance(value, str | list) else value


def _day(value: Any) -> Any:
    try:
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError):
        raise ValueError(f"{value!r}: expected a day such as 2030-12-31") from None


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Names = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
if TYPE_CHECKING:
    from humanlayer_agent.shell.program import EffectKind
else:
    EffectKind = Literal[EFFECT_KINDS]  # what stands there is for type checkers alone

Kinds = Annotated[list[EffectKind], BeforeValidator(_listed), Field(min_length=1)]
Stop = Literal["ask", "deny"]
Identifier = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]


class Text(_Strict):
    """A pattern for a word: a glob, or `{regex: ...}`."""

    glob: str | None = None
    regex: str | None = None

    @model_validator(mode="after")
    def _one(self) -> "Text":
        if (self.glob is None) == (self.regex is None):
            raise ValueError("expected a glob, or {regex: ...}")
        if self.regex is not None:
            from humanlayer_agent.policy.conditions.linear_regex import Regex

            Regex(self.regex)
        return self


Texts = Annotated[list[Annotated[Text, BeforeValidator(_text)]], BeforeValidator(_listed), Field(min_length=1)]


class Program(_Strict):
    """The name of the program, as the catalog has it, and where it lies. Several keys mean all of them."""

    in_: Names | None = Field(None, alias="in")
    regex: str | None = None
    resolved: bool | None = None
    path: Names | None = None

    @model_validator(mode="after")
    def _checked(self) -> "Program":
        if not self.model_fields_set:
            raise ValueError("expected a name, a list of names, or one of the keys in, regex, resolved, path")
        if self.regex is not None:
            from humanlayer_agent.policy.conditions.linear_regex import Regex

            Regex(self.regex)
        return self


class Flags(_Strict):
    """Options by their canonical names in the catalog (`recursive`, not `-r`)."""

    any: Names | None = None
    all: Names | None = None
    none: Names | None = None


class Operands(_Strict):
    """The words that are no options."""

    any: Texts | None = None
    all: Texts | None = None
    none: Texts | None = None


class Environment(_Strict):
    """Variables that an `environment` effect is about (set, printed, used): patterns with `*`, or `$name` of a list.

    `value_in`: set to directories that all lie in these; the value is read as a list with colons between.
    """

    any: Names
    value_in: Names | None = None


class Effects(_Strict):
    """The kinds of effects of the whole command."""

    any: Kinds | None = None
    all: Kinds | None = None
    only: list[EffectKind] | None = None


class Paths(_Strict):
    """Where paths lie: patterns, or `$name` of a list. `role` and `resolved` choose which paths are meant.

    `contents_of`: what is touched is all that is in one of these directories (`dir/*`, `dir/.*`), not the directory.
    """

    any_within: Names | None = None
    all_within: Names | None = None
    none_within: Names | None = None
    contents_of: Names | None = None
    role: Names | None = None
    resolved: bool | None = None

    @model_validator(mode="after")
    def _said(self) -> "Paths":
        where = (self.any_within, self.all_within, self.none_within, self.contents_of)
        if all(each is None for each in where):
            raise ValueError("say where: any_within, all_within, none_within or contents_of")
        return self


class Hosts(_Strict):
    """Hosts that are contacted: patterns, or `$name` of a list."""

    any_in: Names | None = None
    none_in: Names | None = None

    @model_validator(mode="after")
    def _said(self) -> "Hosts":
        if self.any_in is None and self.none_in is None:
            raise ValueError("say which: any_in or none_in")
        return self


class Named(Hosts):
    """What an effect names where it is neither path nor host (package, module, variable, unit): patterns with `*`."""


class Match(_Strict):
    """A condition. Several keys mean all of them."""

    program: Annotated[Program, BeforeValidator(_program)] | None = None
    subcommand: Names | None = None
    flags: Flags | None = None
    options: Annotated[dict[str, Texts], Field(min_length=1)] | None = None
    operands: Operands | None = None
    argv: Texts | None = None
    env: Environment | None = None
    effect: Kinds | None = None
    role: Names | None = None
    recursive: bool | None = None
    effects: Effects | None = None
    paths: Paths | None = None
    hosts: Hosts | None = None
    names: Named | None = None
    via: Names | None = None
    inside: Names | None = None
    resolved: bool | None = None
    unread: bool | None = None
    parse: Annotated[list[Literal["ok", "partial", "failed"]], BeforeValidator(_listed), Field(min_length=1)] | None = (
        None
    )
    agent: Texts | None = None
    any: "Annotated[list[Match], Field(min_length=1)] | None" = None
    all: "Annotated[list[Match], Field(min_length=1)] | None" = None
    not_: "Match | None" = Field(None, alias="not")
    flow: "Flow | None" = None

    @model_validator(mode="after")
    def _not_empty(self) -> "Match":
        if not self.model_fields_set:
            raise ValueError("an empty condition would match everything: name at least one clause")
        return self


class Flow(_Strict):
    """Data of what `from` matches can come to the effect or command that is judged, and that matches `to`.

    `through`: by these ways only.
    """

    from_: Match = Field(alias="from")
    to: Match | None = None
    through: Annotated[list[Way], BeforeValidator(_listed), Field(min_length=1)] | None = None


Match.model_rebuild()


class Tests(_Strict):
    """Commands the rule must decide (`match`), must ask about because it can't tell (`maybe`), must leave alone."""

    __test__ = False
    match: list[str] = []
    maybe: list[str] = []
    not_match: list[str] = []


class Override(_Strict):
    """The rule that holds this replaces the extended rule `rule`, up to and including the day `expires` (UTC)."""

    rule: Identifier
    reason: Annotated[str, Field(min_length=1, max_length=400)]
    expires: Annotated[str, BeforeValidator(_day)]


RouteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class RaisedRoute(_Strict):
    """A route of the channels files, of which this rule asks more: a larger quorum, a greater assurance, never less."""

    name: RouteName = "default"
    quorum: Annotated[int, Field(ge=1, le=32)] = 1
    min_assurance: Literal["os", "mail-reply", "chat", "mail-link", "login", "terminal"] = "os"


class Rule(_Strict):
    id: Identifier
    decision: Literal["allow", "ask", "deny"]
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    reason: Annotated[str, Field(max_length=400)] = ""
    suggestion: Annotated[str, Field(max_length=400)] = ""
    when: Match
    unless: Match | None = None
    override: Override | None = None
    locked: bool = False
    route: RouteName | RaisedRoute = "default"
    remember: list[Literal["once", "run"]] = ["once"]
    tests: Tests = Tests()


class Defaults(_Strict):
    """A key that is left out is inherited: the strictest of what the extended files say, `ask` where there are none."""

    unmatched: Literal["allow", "ask", "deny"] | None = None
    maybe: Stop | None = None
    unparsed: Stop | None = None
    ask: Stop | None = None
    locked: bool | None = None


class Added(_Strict):
    """What is added to a list of an extended file."""

    add: Names


ListOrAdded = Annotated[
    Annotated[Names, Tag("list")] | Annotated[Added, Tag("added")],
    Discriminator(lambda value: "added" if isinstance(value, dict | Added) else "list"),
]


class Policy(_Strict):
    version: Literal[1]
    policy: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    description: Annotated[str, Field(max_length=1000)] = ""
    extends: Annotated[list[str], BeforeValidator(_listed), Field(max_length=16)] = []
    observe: bool = False
    defaults: Defaults = Defaults()
    lists: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")], ListOrAdded] = {}
    rules: list[Rule] = []

    @model_validator(mode="after")
    def _decides(self) -> "Policy":
        if not self.rules and not self.extends:
            raise ValueError("a policy has rules, or extends one that has")
        return self


def check(document: yaml_positions.Document) -> Policy:
    """Check one document by itself: its form, and what can be said of its rules without the files it extends.

    Raises:
        PolicyError: `file:line:column`, what is wrong, what was expected, and the line itself.
    """
    if not isinstance(document.data, dict):
        raise document.error((), "expected a mapping with the keys version, policy, rules")
    try:
        policy = Policy.model_validate(document.data)
    except ValidationError as error:
        raise explained(document, error, Policy) from None
    from humanlayer_agent.policy.language.restrictions import check_flows, check_rules

    check_rules(document, policy)
    check_flows(document, policy)
    return policy
