"""The form of a policy file, checked strictly: an unknown key is an error with its file, line and column.

Rules and conditions are those of `policy`. Here is what only a file has: what it extends, what it adds to lists, and
defaults that may be left out. And what holds of the rules of one file by themselves: ids stand once, no allow lets
arbitrary code through, and a `flow` only makes a verdict stricter: that data can come somewhere is over-approximated
(`shell.dataflow`), so that it does is no proof (an attacker adds `echo x |` to have an exception apply); that it can't
come there is.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.field_types import Form, listed
from humanlayer_agent.policy.language.policy import (
    Identifier,
    Match,
    Names,
    WrittenConfinement,
    WrittenException,
    WrittenRule,
)
from humanlayer_agent.policy.language.yaml_positions import Key, explained

Stop = Literal["ask", "deny"]
_ONE_OR_MORE = Form(before=listed, shown=lambda schema: {"anyOf": [schema, schema["items"]]})


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WrittenKeep(_Strict):
    """How much of a project is kept for `hla undo`."""

    files: Annotated[int, Field(ge=0)] | None = None
    """So many files, of a run or of one command."""
    megabytes: Annotated[int, Field(ge=0)] | None = None
    """So much, of a run or of one command."""
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
    """How much is [kept](#keep) for `hla undo`."""
    undo: Literal["run", "none"] | None = None
    """`run`: what each command that runs replaces in the project is [kept](#keep), so that a human can undo it."""


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
    extends: Annotated[tuple[str, ...], _ONE_OR_MORE, Field(max_length=16)] = ()
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
    exceptions: Annotated[tuple[WrittenException, ...], Field(max_length=500)] = ()
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
    check_rules(document, policy)
    check_flows(document, policy)
    return policy


# ---- what can be said of its rules by themselves ------------------------------------------------------------


def check_rules(document: yaml_positions.Document, policy: PolicyFile) -> None:
    """Raises PolicyError (file:line:column) for an id that stands twice, or an allow that is too broad."""
    seen: set[str] = set()
    for n, rule in enumerate(policy.rules):
        if rule.id in seen:
            raise document.error(("rules", n, "id"), f"the rule id {rule.id!r} stands twice")
        seen.add(rule.id)
        if rule.confined is not None and rule.decision == "deny":
            raise document.error(
                ("rules", n, "confined"), f"rule {rule.id}: what a rule denies does not run, not even confined"
            )
        if rule.approved is not None and rule.decision != "ask":
            raise document.error(
                ("rules", n, "approved"),
                f"rule {rule.id}: only what a rule asks about is approved; this does not ask",
            )
        if rule.hold is not None and rule.decision != "ask":
            raise document.error(
                ("rules", n, "hold"),
                f"rule {rule.id}: only what a rule asks about is held until a human has seen it; this does not ask",
            )
        if rule.grant is not None and rule.decision == "allow":
            raise document.error(
                ("rules", n, "grant"), f"rule {rule.id}: what a rule allows needs no approval that could be remembered"
            )
        if rule.decision == "allow" and rule.confined is None and broad(rule.when):
            raise document.error(
                ("rules", n, "when"),
                f"rule {rule.id}: this allow is too broad. Name an effect with its paths or hosts, what the command "
                "may do at most (effects: {only: [...]}), or a program with its sub-command",
            )


_INTERPRETERS = frozenset(
    (
        *("bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby", "node", "php", "lua", "awk"),
        *("gawk", "mawk", "tclsh", "sudo", "doas", "env", "xargs", "find", "git", "ssh", "eval", "make", "busybox"),
        *("nohup", "timeout", "nice", "setsid", "time", "command", "exec", "builtin", "source", ".", "docker", "npx"),
    )
)
_RISKY = frozenset({"execute", "network", "privilege", "container", "system", "persist"})


def broad(when: Match) -> bool:
    """Tell whether an allow on this condition would let arbitrary code through."""
    if when.effect is not None:
        narrowed = when.program or when.hosts or when.role or when.resolved or _narrow(when)
        return bool(_RISKY & set(when.effect)) and not narrowed
    if when.effects is not None and when.effects.only is not None:
        return "execute" in when.effects.only and when.program is None
    if when.program is not None:
        if when.program.names is None:
            return True
        names = {name.rpartition("/")[2] for name in when.program.names}
        return bool(_INTERPRETERS & names) and not (when.subcommand or when.operands or when.argv)
    if when.tool is not None:
        return when.tool.name is None or any(set(each.glob or "*") <= {"*", "?"} for each in when.tool.name)
    if when.all is not None:
        return all(broad(m) for m in when.all)
    if when.any is not None:
        return any(broad(m) for m in when.any)
    return True


def _narrow(when: Match) -> bool:
    if when.paths is not None and when.paths.all is not None:
        return True
    names = when.names.any if when.names is not None else None
    return names is not None and not any(set(name) <= {"*", "?"} for name in names)


def check_flows(document: yaml_positions.Document, policy: PolicyFile) -> None:
    """Raises PolicyError (file:line:column) for a `flow` that lets more through where it holds."""
    for n, exception in enumerate(policy.exceptions):
        at = _loosening(exception.when, ("exceptions", n, "when"), False)
        if at is not None:
            raise document.error(
                at,
                f"exception to {exception.rule}: a flow would let more through here, and that data can come somewhere "
                "is no proof. It may stand below `not`",
            )
    for n, rule in enumerate(policy.rules):
        stops = rule.decision != "allow"
        for name, match, stricter in (("when", rule.when, stops), ("unless", rule.unless, not stops)):
            at = _loosening(match, ("rules", n, name), stricter) if match is not None else None
            if at is not None:
                raise document.error(
                    at,
                    f"rule {rule.id}: a flow would let more through here, and that data can come somewhere is no "
                    "proof. It may stand in `when` of a rule that asks or denies, in `unless` of an allow, and below "
                    "`not` in the other two",
                )


def _loosening(match: Match, path: tuple[Key, ...], stricter: bool) -> tuple[Key, ...] | None:
    """Return where a flow stands that lets more through; `stricter`: where `match` holds, the verdict is stricter."""
    if match.flow is not None:
        if not stricter:
            return (*path, "flow")
        inner = [(match.flow.source, (*path, "flow", "from"), True)]
        if match.flow.to is not None:
            inner.append((match.flow.to, (*path, "flow", "to"), True))
    else:
        inner = []
    inner += [(m, (*path, "any", n), stricter) for n, m in enumerate(match.any or ())]
    inner += [(m, (*path, "all", n), stricter) for n, m in enumerate(match.all or ())]
    if match.negated is not None:
        inner.append((match.negated, (*path, "not"), not stricter))
    return next((found for m, at, way in inner if (found := _loosening(m, at, way)) is not None), None)
