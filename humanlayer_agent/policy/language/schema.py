"""The form of a policy file, checked strictly: an unknown key is an error with its file, line and column.

Rules and conditions are those of `model`. Here is what only a file has: what it extends, what it adds to lists, and
defaults that may be left out.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.field_types import listed
from humanlayer_agent.policy.language.policy import (
    Identifier,
    Names,
    WrittenConfinement,
    WrittenException,
    WrittenRule,
)
from humanlayer_agent.policy.language.yaml_positions import explained

Stop = Literal["ask", "deny"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WrittenKeep(_Strict):
    """How much of a project is kept before code runs confined that nobody has read."""

    files: Annotated[int, Field(ge=0)] | None = None
    """So many files of a run."""
    megabytes: Annotated[int, Field(ge=0)] | None = None
    """So much of a run."""
    days: Annotated[int, Field(ge=1)] | None = None
    """So long."""


class WrittenDefaults(_Strict):
    """A key that is left out is inherited: the strictest of what the extended files say, `ask` where there are none."""

    unmatched: Literal["allow", "ask", "deny"] | None = None
    """What happens where no rule matches."""
    maybe: Stop | None = None
    """What happens where a rule that asks or denies may match."""
    unparsed: Stop | None = None
    """What happens, at least, where not all was understood."""
    ask: Stop | None = None
    """What becomes of an ask: `deny` where nobody can be asked."""
    locked: bool | None = None
    """No lower layer may allow what this one does not decide."""
    confine: Identifier | None = None
    """The [confinement](#confinements) that allowed commands run in, where the kernel can hold them to it."""
    keep: WrittenKeep = WrittenKeep()
    """How much is [kept](#keep) before code runs confined that nobody has read."""


class Added(_Strict):
    """The additions to a list of an extended file."""

    add: Names
    """What is added to the list of that name in an extended file."""


ListOrAdded = Annotated[
    Annotated[Names, Tag("list")] | Annotated[Added, Tag("added")],
    Discriminator(lambda value: "added" if isinstance(value, dict | Added) else "list"),
]


class PolicyFile(_Strict):
    """One policy file by itself."""

    version: Literal[1]
    """Of this format."""
    policy: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    """Its name."""
    description: Annotated[str, Field(max_length=1000)] = ""
    """What it is for."""
    extends: Annotated[tuple[str, ...], BeforeValidator(listed), Field(max_length=16)] = ()
    """`builtin:NAME` of a shipped policy, or a path relative to this file."""
    observe: bool = False
    """Record what it says, and stop nothing; in the machine's or your policy."""
    defaults: WrittenDefaults = WrittenDefaults()
    """What happens where [no rule decides](#defaults)."""
    lists: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")], ListOrAdded] = {}
    """Names that patterns may have as `$name`; `{add: [...]}` adds to a list of an extended file."""
    confinements: dict[Identifier, WrittenConfinement] = {}
    """What a [confined](#confinements) command can reach, by name."""
    rules: tuple[WrittenRule, ...] = ()
    """The [rules](#rules)."""
    exceptions: tuple[WrittenException, ...] = ()
    """[Exceptions](#exceptions) to rules of this file, of what it extends, or of what ships."""

    @model_validator(mode="after")
    def _decides(self) -> "PolicyFile":
        if not (self.rules or self.extends or self.exceptions):
            raise ValueError("a policy has rules, or extends one that has")
        return self

    def as_data(self, part: Literal["rules", "exceptions"]) -> list[dict[str, Any]]:
        """Return the rules, or the exceptions, as plain data, keys that are left out left out."""
        plain = self.model_dump(mode="json", include={str(part)}, by_alias=True, exclude_none=True)
        found: list[dict[str, Any]] = plain[part]
        return found


def check(document: yaml_positions.Document) -> PolicyFile:
    """Check one document by itself: its form, and what can be said of its rules without the files it extends.

    Raises:
        PolicyError: `file:line:column`, what is wrong, what was expected, and the line itself.
    """
    if not isinstance(document.data, dict):
        raise document.error((), "expected a mapping with the keys version, policy, rules")
    try:
        policy = PolicyFile.model_validate(document.data)
    except ValidationError as error:
        raise explained(document, error, PolicyFile) from None
    from humanlayer_agent.policy.language.rule_checks import check_flows, check_rules

    check_rules(document, policy)
    check_flows(document, policy)
    return policy
