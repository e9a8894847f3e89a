"""A policy: its rules and their conditions, as a file writes them and as the evaluator reads them.

The same classes serve both. A file is checked against them once (`schema.check`), and merged with what it extends;
after that a policy is read from its compiled form by `policy_from`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Annotated, Any, Literal

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.policy.language.field_types import (
    DURATION_SCHEMA,
    LISTED,
    SOME,
    Form,
    Written,
    keys_of,
    listed,
    milliseconds,
    no_glob,
    spelled,
)
from humanlayer_agent.shell import EFFECT_KINDS


def _regex(text: str) -> str:
    from humanlayer_agent.policy.conditions.linear_regex import Regex

    Regex(text)
    return text


def expiry(value: Any) -> Any:
    """Return a day as it is, or a moment in UTC. Raises ValueError: it is neither, or has no time zone."""
    from datetime import UTC, date, datetime

    try:
        if isinstance(value, str) and len(value) > len("2030-12-31"):
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is None:
                raise ValueError(f"{value!r}: a moment needs its time zone, as 2030-12-31T18:00:00+01:00 has")
            return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return date.fromisoformat(value).isoformat()
    except (TypeError, ValueError, OverflowError) as error:
        if "time zone" in str(error):
            raise
        raise ValueError(
            f"{value!r}: expected a day such as 2030-12-31, or a moment such as 2030-12-31T18:00:00Z"
        ) from None


def end_of(expires: str) -> str:
    """Return the first moment (UTC, ISO 8601) at which what expires so does not hold any more.

    Example:
        >>> end_of("2030-12-31"), end_of("2030-12-31T18:00:00Z")
        ('2030-12-31T24:00:00Z', '2030-12-31T18:00:00Z')
    """
    return expires if "T" in expires else f"{expires}T24:00:00Z"


DAYS = "mon|tue|wed|thu|fri|sat|sun"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9]"
_CLOCK = f"({_CLOCK}|24:00)"
_MOMENT = rf"^{_DATE}T[0-9:.]+(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$"


def _hours(text: str) -> str:
    start, _, end = text.partition("-")
    if start == end or start == "24:00":
        raise ValueError(f"{text!r}: it ends when it begins; 00:00-24:00 is all day")
    return text


def _dates(value: Any) -> Any:
    from datetime import date

    text = value.isoformat() if isinstance(value, date) else value
    try:
        days = [date.fromisoformat(each) for each in text.split("/")]
    except (AttributeError, ValueError):
        days = []
    if not 1 <= len(days) <= 2 or days[0] > days[-1]:
        raise ValueError(f"{value!r}: expected a day such as 2030-12-24, or two: 2030-12-20/2031-01-06")
    return "/".join(each.isoformat() for each in days)


def _zone(name: str) -> str:
    from humanlayer_agent.policy.conditions.circumstances import zone

    zone(name)
    return name


def _moment(value: Any) -> Any:
    """A moment of a test, in UTC."""
    return expiry(value) if isinstance(value, str) and "T" in value else _no_moment(value)


def _no_moment(value: Any) -> Any:
    raise ValueError(f"{value!r}: expected a moment with its time zone, such as 2030-12-31T18:00:00+01:00")


def _ways() -> Any:
    from humanlayer_agent.shell import Way

    return Way


Names = Annotated[tuple[str, ...], LISTED]
Listed = Annotated[tuple[str, ...], Form(before=listed, shown=lambda schema: {"anyOf": [schema, schema["items"]]})]
Kind = Annotated[str, Form(of=lambda: Literal[EFFECT_KINDS])]
Kinds = Annotated[tuple[Kind, ...], LISTED]
RegexText = Annotated[str, Form(after=_regex, shown=lambda schema: {**schema, "format": "regex"})]
Identifier = Annotated[str, Form(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
RouteName = Annotated[str, Form(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Sentence = Annotated[str, Form(max_length=400)]
_DAY_OR_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]+(Z|[+-][0-9]{2}:?[0-9]{2}))?$"
Expiry = Annotated[str, Form(before=expiry, shown=lambda schema: {**schema, "pattern": _DAY_OR_MOMENT})]
SQL_KINDS = (
    *("select", "insert", "update", "delete", "merge", "replace", "truncate", "drop", "create", "alter", "rename"),
    *("copy", "grant", "revoke", "other"),
)
SqlKind = Annotated[str, Form(of=lambda: Literal[SQL_KINDS])]
Digest = Annotated[str, Form(pattern="^[0-9a-f]{64}$")]
DayText = Annotated[str, Form(pattern=f"^({DAYS})(-({DAYS}))?$")]
HoursText = Annotated[str, Form(pattern=f"^{_CLOCK}-{_CLOCK}$", after=_hours)]
DatesText = Annotated[str, Form(before=_dates, shown=lambda schema: {**schema, "pattern": f"^{_DATE}(/{_DATE})?$"})]
ZoneName = Annotated[str, Form(pattern=r"^[A-Za-z][A-Za-z0-9_+/-]{0,63}$", after=_zone)]
Moment = Annotated[str, Form(before=_moment, shown=lambda schema: {**schema, "pattern": _MOMENT})]
_TEXT_OR_TEXTS = ({"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1})


@dataclass(frozen=True, slots=True)
class Text(Written):
    """A pattern for a word: a glob, or a regular expression (see `word_patterns`, `linear_regex`)."""

    SHORT = ({"type": "string"},)
    FEWEST = 1
    glob: str | None = None
    """A glob: `*` any text, `?` one character."""
    regex: RegexText | None = None
    """A regular expression that matches the whole word, in linear time."""

    @staticmethod
    def long_form(value: Any) -> Any:
        """Take a text as a glob."""
        return {"glob": value} if isinstance(value, str) else value

    def mistake(self) -> str:
        """Say where it is not exactly one of the two."""
        if (self.glob is None) == (self.regex is None):
            return "expected a glob, or {regex: ...}"
        mistake = no_glob(self.glob or "")
        return f"{mistake}. Write {{regex: {self.glob!r}}}" if mistake else ""


Texts = Annotated[tuple[Text, ...], LISTED]


@dataclass(frozen=True, slots=True)
class Program(Written):
    """The name of the program, as the catalog has it, and where it lies. Several keys mean all of them."""

    __pydantic_config__ = spelled(names="in")
    SHORT = _TEXT_OR_TEXTS
    FEWEST = 1
    names: Names | None = None
    """One of these names; a name or a list in the place of the mapping means this."""
    regex: RegexText | None = None
    """The whole name matches."""
    resolved: bool | None = None
    """The name is certain, or is not."""
    path: Names | None = None
    """The program lies there."""

    @staticmethod
    def long_form(value: Any) -> Any:
        """Take a text, or a list of them, as names."""
        return {"in": value} if isinstance(value, str | list) else value

    def mistake(self) -> str:
        """Say where it asks nothing."""
        wanted = "expected a name, a list of names, or one of the keys in, regex, resolved, path"
        return wanted if self == Program() else ""


@dataclass(frozen=True, slots=True)
class Flags(Written):
    """Options by their canonical names in the catalog (`recursive`, not `-r`)."""

    any: Names | None = None
    """One of these is given."""
    all: Names | None = None
    """All of these are given."""
    none: Names | None = None
    """None of these is given."""
    only: tuple[str, ...] | None = None
    """No others are given; `[]` means none at all."""


@dataclass(frozen=True, slots=True)
class Operands(Written):
    """The words that are no options."""

    any: Texts | None = None
    """One word matches one of these."""
    all: Texts | None = None
    """Every word matches one of these, and there is one."""
    none: Texts | None = None
    """No word matches any of these."""


@dataclass(frozen=True, slots=True)
class Environment(Written):
    """Variables that an `environment` effect is about (set, printed, used): patterns with `*`, or `$name` of a list."""

    any: Names | None = None
    """One of these variables; `!` before a name takes it out."""
    value_in: Names | None = None
    """It is set to directories (separated by `:`) that all lie in these."""

    def mistake(self) -> str:
        """Say where no variable is named."""
        return "the key 'any' is missing" if self.any is None else ""


@dataclass(frozen=True, slots=True)
class Effects(Written):
    """The kinds of effects of the whole command."""

    any: Kinds | None = None
    """One of these is there."""
    all: Kinds | None = None
    """All of these are there."""
    only: tuple[Kind, ...] | None = None
    """No others are there; `[]` means none at all."""


@dataclass(frozen=True, slots=True)
class Paths(Written):
    """The condition on paths: patterns, or `$name` of a list. `role` and `resolved` choose which paths are meant."""

    __pydantic_config__ = spelled(any="any_within", all="all_within", none="none_within")
    FEWEST = 1
    any: Names | None = None
    """Something that is touched lies in one of these."""
    all: Names | None = None
    """Every path lies in one of these, and there is one."""
    none: Names | None = None
    """No path lies wholly in these, and there is one."""
    contents_of: Names | None = None
    """One of these directories is emptied as a whole: `rm -rf dir/*`, `dir/.*`."""
    role: Names | None = None
    """Only paths of these roles are meant."""
    resolved: bool | None = None
    """Only paths that are certain, or only those that are not."""

    def mistake(self) -> str:
        """Say where no place is named."""
        where = (self.any, self.all, self.none, self.contents_of)
        missing = all(each is None for each in where)
        return "say where: any_within, all_within, none_within or contents_of" if missing else ""


@dataclass(frozen=True, slots=True)
class Among(Written):
    """Hosts that are contacted, or what else an effect names (a package, a module): patterns, or `$name` of a list.
    Which packages a file or the project names, and not the command, is unknown.
    """

    __pydantic_config__ = spelled(any="any_in", none="none_in")
    FEWEST = 1
    any: Names | None = None
    """One is among these; where that lets something through, every one."""
    none: Names | None = None
    """One is not among these; where that lets something through, none is among them, and there is one."""

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "say which: any_in or none_in" if self == Among() else ""


@dataclass(frozen=True, slots=True)
class Argument(Written):
    """What a tool is given under one name. Texts count as they are, anything else as JSON; what is not given matches
    nothing.
    """

    __pydantic_config__ = spelled(texts="in")
    SHORT = (
        *_TEXT_OR_TEXTS,
        {"$ref": "#/$defs/Text"},
        {"type": "array", "items": {"$ref": "#/$defs/Text"}, "minItems": 1},
    )
    FEWEST = 1
    texts: Texts | None = None
    """It is one of these; a text or a list in the place of the mapping means this."""
    within: Names | None = None
    """It is a path that lies in one of these, after `..` and symbolic links."""
    given: bool | None = None
    """It is given, or is not."""

    @staticmethod
    def long_form(value: Any) -> Any:
        """Take a pattern, or a list of them, as texts."""
        short = isinstance(value, str | list) or (isinstance(value, dict) and value.keys() <= {"glob", "regex"})
        return {"in": value} if short and value else value

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "expected a text, a list of texts, or one of the keys in, within, given" if self == Argument() else ""


@dataclass(frozen=True, slots=True)
class Tool(Written):
    """The call of a tool: as a coding agent, an MCP server or a program in Python names it. Several keys mean all."""

    SHORT = (*_TEXT_OR_TEXTS, {"type": "array", "items": {"$ref": "#/$defs/Text"}, "minItems": 1})
    FEWEST = 1
    name: Texts | None = None
    """Its name, as `Write` or `mcp__forge__get_*`; a text or a list in the place of the mapping means this."""
    args: Annotated[Mapping[str, Argument], SOME] | None = None
    """[What it is given](#tool-arguments), by name."""

    @staticmethod
    def long_form(value: Any) -> Any:
        """Take a text, or a list of them, as the name."""
        return {"name": value} if isinstance(value, str | list) else value

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "expected the name of a tool, or one of the keys name, args" if self == Tool() else ""


@dataclass(frozen=True, slots=True)
class Time(Written):
    """When it is, by the clock of a time zone, whatever the machine is set to. Several keys mean all of them."""

    FEWEST = 2
    days: Annotated[tuple[DayText, ...], LISTED] | None = None
    """One of these days: `mon`, or `mon-fri`. Hours over midnight belong to the day on which they begin."""
    hours: Annotated[tuple[HoursText, ...], LISTED] | None = None
    """In one of these spans: `09:00-17:30`, or `22:00-06:00` over midnight. The end is not in it."""
    dates: Annotated[tuple[DatesText, ...], LISTED] | None = None
    """On one of these days of the calendar: `2030-12-24`, or `2030-12-20/2031-01-06` with both."""
    tz: ZoneName | None = None
    """The time zone, as `Europe/Berlin` or `UTC`. It has to be given."""

    def mistake(self) -> str:
        """Say where it asks nothing, or of nobody's clock."""
        if self.tz is None:
            return "the key 'tz' is missing: name the time zone, as Europe/Berlin or UTC"
        asks = any(each is not None for each in (self.days, self.hours, self.dates))
        return "" if asks else "say when: days, hours or dates"


@dataclass(frozen=True, slots=True)
class Repository(Written):
    """The git repository in which a command works, as its own files say. Several keys mean all of them."""

    FEWEST = 1
    branch: Texts | None = None
    """The branch that is checked out; where none is, nothing matches."""
    remote: Texts | None = None
    """The address of one of its remotes; where that lets something through, of every one. `git push URL` minds none."""
    clean: bool | None = None
    """Nothing that git tracks differs from the last commit, or something does."""

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "expected one of the keys branch, remote, clean" if self == Repository() else ""


@dataclass(frozen=True, slots=True)
class Sql(Written):
    """A statement of SQL that a client sends, as far as it is read (sqlite3, psql, mysql): of one of these kinds, on
    one of these tables. Tables are patterns, or `$name` of a list; `orders` is also `shop.orders`.
    """

    __pydantic_config__ = spelled(any="any_in", none="none_in")
    FEWEST = 1
    kinds: Annotated[tuple[SqlKind, ...], LISTED] | None = None
    """What the statement does; what only reads is `select`, what is none of the others `other`."""
    any: Names | None = None
    """The table is among these; where that lets something through, that of every statement."""
    none: Names | None = None
    """The table is not among these."""

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "expected one of the keys kinds, any_in, none_in" if self == Sql() else ""


@dataclass(frozen=True, slots=True)
class Content(Written):
    """What stands in the files that a command reads, as far as options and operands name them: the plan that is
    applied, the manifest. Where a rule asks for it, what is decided is decided of this content: it is part of what a
    human approves, an approval is not remembered for any other, and no other starts.
    """

    FEWEST = 1
    known: bool | None = None
    """Every file that it reads is there and can be read, and there is one; or not."""
    sha256: Annotated[tuple[Digest, ...], LISTED] | None = None
    """The file's SHA-256 (hex) is one of these; where that lets something through, that of every one."""
    role: Names | None = None
    """Only files of these roles are meant."""

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "expected one of the keys known, sha256" if self.known is None and self.sha256 is None else ""


@dataclass(frozen=True, slots=True)
class Limit(Written):
    """More than so much would be done, with this action and what the store knows to have started before it. What runs
    counts, also what a human approved; what is counted is the same wherever `of` says the same. Of loops, program text
    and operands that are not known nobody can tell how many they are.
    """

    FEWEST = 3
    count: Annotated[int, Form(ge=0, le=1_000_000)] | None = None
    """So many commands, or effects where `of` is about effects, are within the limit."""
    cost: Annotated[float, Form(ge=0, le=1_000_000_000)] | None = None
    """What such actions may cost together, as whoever has them judged says of each (`Action.cost`)."""
    per: Literal["run", "hour", "day"] | None = None
    """In one run; or in the last hour, or the last 24 hours, of all runs in the store."""
    of: "Match | None" = None
    """What is counted."""

    def mistake(self) -> str:
        """Say where it is not exactly one limit."""
        if (self.count is None) == (self.cost is None):
            return "expected one of the keys count, cost"
        missing = "per" if self.per is None else "of" if self.of is None else ""
        if missing:
            return f"the key {missing!r} is missing"
        return "what is counted can't hang on a limit, or on a flow" if self.of is not None and _hangs(self.of) else ""


def _hangs(match: "Match") -> bool:
    inner = (*(match.any or ()), *(match.all or ()), *([match.negated] if match.negated is not None else []))
    return match.limit is not None or match.flow is not None or any(map(_hangs, inner))


@dataclass(frozen=True, slots=True)
class Match(Written):
    """A condition; every key that is given must hold."""

    __pydantic_config__ = spelled(negated="not")
    FEWEST = 1
    program: Program | None = None
    """The program: a name, names, or a [mapping](#program)."""
    subcommand: Names | None = None
    """Its sub-command, as the catalog names it."""
    flags: Flags | None = None
    """[Options](#flags) as the catalog names them: `recursive`, not `-r`."""
    options: Annotated[Mapping[str, Texts], SOME] | None = None
    """Values of options, by the names that the catalog has for them."""
    attributes: Annotated[Mapping[str, Texts], SOME] | None = None
    """[Which account, cluster or place](policies.md#clouds-clusters-and-code-hosts) is meant: profile, context ..."""
    operands: Operands | None = None
    """The [words](#operands) that are no options."""
    argv: Texts | None = None
    """All words from the program on; `...` is any number of them."""
    env: Environment | None = None
    """[Variables](#env) that are set, printed or used."""
    effect: Kinds | None = None
    """The kind of the effect that is judged."""
    role: Names | None = None
    """The role of its operand: operand, redirect, code, list and so on."""
    recursive: bool | None = None
    """It goes into all that is below."""
    effects: Effects | None = None
    """The [kinds of all effects](#effects) of the command."""
    paths: Paths | None = None
    """[Where paths lie](#paths), after `cd`, `..` and symbolic links."""
    hosts: Among | None = None
    """[Hosts](#hosts-and-names) that are contacted."""
    names: Among | None = None
    """[What an effect names](#hosts-and-names) that is no path and no host: a package, module, unit, variable."""
    via: Names | None = None
    """Wrappers around the command, such as `sudo` and `xargs`."""
    inside: Names | None = None
    """Constructs around it, such as `substitution` and `loop`."""
    resolved: bool | None = None
    """Everything that it does is certain, or is not."""
    unread: bool | None = None
    """It runs code that nobody has read."""
    parse: Annotated[tuple[Literal["ok", "partial", "failed"], ...], LISTED] | None = None
    """How much of the whole command line was understood."""
    agent: Texts | None = None
    """Who proposes it."""
    tool: Tool | None = None
    """[The tool](#tool) that the agent calls, and what it gives it."""
    time: Time | None = None
    """[When it is](#time), by the clock of a time zone."""
    requester: Texts | None = None
    """Who started the run, as the log names them: `os:1000:alice`."""
    repo: Repository | None = None
    """[The repository](#repository) in which it works, and what is checked out there."""
    content: Content | None = None
    """[What stands in the files](#content) that it reads."""
    limit: Limit | None = None
    """[More than so much](#limit) would be done in this run, hour or day."""
    sql: Sql | None = None
    """[A statement](#sql) of SQL: its kind, and its tables."""
    any: "Annotated[tuple[Match, ...], SOME] | None" = None
    """One of these conditions holds."""
    all: "Annotated[tuple[Match, ...], SOME] | None" = None
    """All of these conditions hold."""
    negated: "Match | None" = None
    """This condition does not hold."""
    flow: "Flow | None" = None
    """[Data](#flow) of what matches elsewhere can come here."""

    def mistake(self) -> str:
        """Say where it asks nothing."""
        return "an empty condition would match everything: name at least one clause" if self == Match() else ""


@dataclass(frozen=True, slots=True)
class Flow(Written):
    """Data of what `from` matches can come to the effect or command that is judged, and that matches `to`."""

    __pydantic_config__ = spelled(source="from")
    source: Match
    """Where the data comes from."""
    to: Match | None = None
    """What it comes to, besides what is judged."""
    through: Annotated[tuple[Annotated[str, Form(of=_ways)], ...], LISTED] | None = None
    """By these ways only."""


@dataclass(frozen=True, slots=True)
class Given(Written):
    """The circumstances of examples. What is not said is not known."""

    time: Moment | None = None
    """The moment, with its time zone: `2030-12-31T18:00:00+01:00`."""
    agent: str | None = None
    """Who proposes it."""
    requester: str | None = None
    """Who started the run."""
    branch: str | None = None
    """What is checked out; `""` where it is no branch."""
    remotes: Listed | None = None
    """The addresses of the repository's remotes."""
    clean: bool | None = None
    """Nothing that git tracks differs from the last commit, or something does."""
    files: Listed | None = None
    """The files that are there, by their paths in the project, each alone or with its SHA-256: `a.plan=4f6c...`."""
    used: Annotated[int, Form(ge=0, le=1_000_000)] | None = None
    """So much of each [limit](#limit) was used before; of one on the cost, in whole units."""
    per: Literal["run", "hour", "day"] | None = None
    """In this span, and nothing in a shorter or another one; without it, in each."""
    cost: Annotated[float, Form(ge=0, le=1_000_000_000)] | None = None
    """What the action costs."""

    @property
    def circumstances(self) -> "Given":
        """Return the circumstances alone."""
        return Given(**{each.name: getattr(self, each.name) for each in fields(Given)})


@dataclass(frozen=True, slots=True)
class GivenTests(Given):
    """Examples under circumstances. Beside these keys stand those of [circumstances](#circumstances)."""

    __test__ = False
    match: tuple[str, ...] = ()
    """The rule decides these then."""
    maybe: tuple[str, ...] = ()
    """It can't tell of these then, and asks."""
    not_match: tuple[str, ...] = ()
    """It leaves these alone then."""
    confined: tuple[str, ...] = ()
    """It allows these then where they can be confined."""


@dataclass(frozen=True, slots=True)
class GivenExceptionTests(Given):
    """Examples of an exception under circumstances. Beside these keys stand those of
    [circumstances](#circumstances).
    """

    __test__ = False
    match: tuple[str, ...] = ()
    """It excuses these then, as a whole."""
    not_match: tuple[str, ...] = ()
    """It does not excuse these then."""


@dataclass(frozen=True, slots=True)
class Tests(Written):
    """Commands that show what the rule decides: a policy that fails one of them is broken."""

    __test__ = False
    match: tuple[str, ...] = ()
    """The rule decides these."""
    maybe: tuple[str, ...] = ()
    """It can't tell of these, and asks."""
    not_match: tuple[str, ...] = ()
    """It leaves these alone."""
    confined: tuple[str, ...] = ()
    """It allows these where they can be confined."""
    given: tuple[GivenTests, ...] = ()
    """The same [under circumstances](#given) that the condition asks about: at a time, by an agent, and so on."""


@dataclass(frozen=True, slots=True)
class Override(Written):
    """One rule replaces another until `expires` (UTC, ISO 8601): through that day, or up to that moment.

    On the rule that replaces, `rule` is the replaced one; on the replaced rule, it is the one that replaces it.
    """

    rule: Identifier
    """The rule that is replaced."""
    reason: Annotated[str, Form(min_length=1, max_length=400)]
    """Why, in at most 400 characters."""
    expires: Expiry
    """The last day on which it holds (UTC), or the moment at which it ends; then the original holds again."""


@dataclass(frozen=True, slots=True)
class ExceptionTests(Written):
    """Commands that show what an exception excuses: a policy that fails one of them is broken."""

    __test__ = False
    match: tuple[str, ...] = ()
    """It excuses these, as a whole: without it the rule would apply, with it the rule says nothing of them."""
    not_match: tuple[str, ...] = ()
    """It does not: the rule is about them all the same, or never was."""
    given: tuple[GivenExceptionTests, ...] = ()
    """The same under [circumstances](#circumstances)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenException(Written):
    """An exception to a rule that asks or denies: where its condition holds for certain, the rule says nothing.

    It adds to the rule's `unless`, and leaves all else of the rule as it is.
    """

    rule: Identifier
    """The rule that it excuses from."""
    when: Match
    """The [condition](#conditions); it must hold for certain."""
    reason: Annotated[str, Form(min_length=1, max_length=400)]
    """Why, in at most 400 characters."""
    expires: Expiry
    """The last day on which it holds (UTC), or the moment at which it ends; then the rule holds without it."""
    tests: ExceptionTests = ExceptionTests()
    """Commands that [show](#tests-of-exceptions) what it excuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleException(WrittenException):
    """An exception of a policy. `origin` is file:line; `written` is the exception as data, its lists filled in."""

    origin: str = ""
    written: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, now: str) -> bool:
        """Tell whether it holds at the moment, or on the day, `now` (UTC, ISO 8601)."""
        return now < end_of(self.expires)


@dataclass(frozen=True, slots=True)
class RaisedRoute(Written):
    """A route of the channels files, of which this rule asks more: a larger quorum, a greater assurance, never less."""

    name: RouteName = "default"
    """The route."""
    quorum: Annotated[int, Form(ge=1, le=32)] = 1
    """So many different people, where that is more than the route says."""
    min_assurance: Literal["os", "mail-reply", "chat", "mail-link", "login", "terminal"] = "os"
    """How sure it must be who answered, where that is more than the route says."""


@dataclass(frozen=True, slots=True)
class Grantable(Written):
    """The bounds within which an approval may be remembered as a [grant](grants.md); `never`: it may not."""

    SHORT = ({"const": "never"},)
    scopes: tuple[Literal["action", "operand", "directory", "any"], ...] = ("action", "operand", "directory", "any")
    """For this exact command, for this path, host or name, for all below a directory, for any of them."""
    max_age: Annotated[int, Form(before=milliseconds, shown=lambda schema: dict(DURATION_SCHEMA))] = 28_800_000
    """At most for so long: `30m`, `2h`; never for more than 8 hours."""
    max_uses: Annotated[int, Form(ge=1, le=10_000)] = 50
    """At most for so many commands; never for more than 50."""

    @staticmethod
    def long_form(value: Any) -> Any:
        """Take `never` as no scope at all."""
        return {"scopes": []} if value == "never" else value


@dataclass(frozen=True, slots=True)
class WrittenConfinement(Written):
    """What a confined command can reach: path patterns, or `$name` of a list (see `confine.confinement.Profile`)."""

    extends: Identifier | None = None
    """Another one, of which the keys that are not given here are taken."""
    read: Names | None = None
    """What can be read besides: directories with all below (`dir/**`) or files."""
    write: Names | None = None
    """What can be written."""
    protect: Names | None = None
    """What is read-only, although inside `write`."""
    hide: Names | None = None
    """What can't even be read."""
    network: Literal["none", "forwarded", "host"] | None = None
    """None, by a forwarder to `hosts`, or that of the machine."""
    hosts: Names | None = None
    """What a forwarded network leads to: `name`, `name:port`, or `"*"` for all web servers, the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRule(Written):
    """A rule as its file has it.

    `confined` names the confinement in which a command may run that this rule would ask about, or that it allows: where
    the kernel can hold the command to it, the rule allows; elsewhere one that asks asks, and one that allows does not
    match. `approved` names the one in which a command runs that this rule asks about, once a human has approved it; the
    paths that it is asked about are opened as well.
    """

    id: Identifier
    """Names it; lower case, digits and hyphens."""
    decision: Literal["allow", "ask", "deny"]
    """What the rule says."""
    severity: Literal["low", "medium", "high", "critical"] = "medium"
    """How bad it would be; the worse, the surer it must be who answers."""
    reason: Sentence = ""
    """For people and the model; may have placeholders."""
    suggestion: Sentence = ""
    """What to do instead."""
    when: Match
    """The [condition](#conditions)."""
    unless: Match | None = None
    """A condition that excuses."""
    override: Override | None = None
    """This rule [replaces](#override) another one."""
    locked: bool = False
    """Nobody may override it, or make an exception to it."""
    route: RouteName | RaisedRoute = "default"
    """A route of the channels files, or one of which [more](#route) is asked."""
    grant: Grantable | None = None
    """How far an approval may be [remembered](#grant): `never`, or the scopes, `max_age` and `max_uses`."""
    confined: Identifier | None = None
    """A [confinement](#confinements): an ask allows in it, an allow allows only in it."""
    approved: Identifier | None = None
    """A confinement: what a human lets through of this ask runs in it."""
    hold: bool | None = None
    """Of an ask: the command runs [held](confinement.md#held-runs) first, and a human sees what it changed."""
    tests: Tests = Tests()
    """Commands that [show](#tests) what it decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(WrittenRule):
    """A rule of a policy, which is one file and what it extends.

    `scope` numbers the lists it sees; `origin` is file:line; `inherited` says that an extended file holds it;
    `exceptions` are those of all files of the policy to it; `written` is the rule as data.
    """

    scope: int = 0
    origin: str = ""
    inherited: bool = False
    overridden: Override | None = None
    exceptions: tuple[RuleException, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict)

    @property
    def only_confined(self) -> bool:
        """Tell whether it applies only where commands can be held to its confinement."""
        return self.confined is not None and self.decision == "allow"

    @property
    def route_data(self) -> str | dict[str, Any]:
        """The route as plain data, which a decision has."""
        return self.route if isinstance(self.route, str) else asdict(self.route)

    def holds(self, now: str) -> bool:
        """Tell whether it holds at the moment, or on the day, `now` (UTC, ISO 8601). When a replacement expires, the
        original holds again.
        """
        if self.override is not None and now >= end_of(self.override.expires):
            return False
        return self.overridden is None or now >= end_of(self.overridden.expires)


@dataclass(frozen=True, slots=True)
class Defaults:
    """The verdicts where no rule decides: nothing matched, a rule may match, the command can't be parsed.

    `ask` is what becomes of an ask (deny, where there is nobody to ask). `locked`: no lower layer may allow what this
    one does not decide. `confine` names the confinement that allowed commands run in, where the kernel can hold them to
    it; "" where there is none. `keep` says how much of a project is kept before code runs confined that nobody has read
    (`files`, `megabytes`, `days`), where it is not what `confine.confinement.Bounds` says. `undo` is "run" where what
    each command replaces is kept, "none" where it is not; "" where nothing is said.
    """

    unmatched: str = "ask"
    maybe: str = "ask"
    unparsed: str = "ask"
    ask: str = "ask"
    locked: bool = False
    confine: str = ""
    keep: Mapping[str, int] = field(default_factory=dict, hash=False)
    undo: str = ""


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
    `confinements` are those of all files, by name. `exceptions` are those to rules that no file of it has: they count
    in a project's policy, for what ships (see `layers.excuses`).
    """

    name: str
    description: str
    observe: bool
    defaults: Defaults
    scopes: tuple[Mapping[str, tuple[str, ...]], ...]
    sources: tuple[Source, ...]
    confinements: Mapping[str, Mapping[str, Any]]
    body: Mapping[str, Any]
    rules: tuple[Rule, ...] = field(repr=False, compare=False)
    exceptions: tuple[RuleException, ...] = ()

    def deciding(self, now: str) -> str:
        """What decides at a moment (UTC, ISO 8601), as canonical JSON: the digest of a Director is over this. Rules and
        exceptions are without the place where they stand."""
        body = {key: self.body[key] for key in ("confinements", "defaults", "scopes")}
        body["rules"] = [_deciding(rule.written) | _holding(rule.exceptions, now) for rule in self.on(now)]
        return canonical(body | _holding(self.exceptions, now)).decode()

    def on(self, now: str) -> tuple[Rule, ...]:
        """The rules that hold at a moment, or on a day (UTC, ISO 8601)."""
        return tuple(rule for rule in self.rules if rule.holds(now))

    def ends(self) -> set[str]:
        """The moments (UTC, ISO 8601) at which something of it ends."""
        expiries = [rule.override.expires for rule in self.rules if rule.override is not None]
        return {end_of(each) for each in (*expiries, *(each.expires for each in self.all_exceptions()))}

    def all_exceptions(self) -> list[RuleException]:
        """The exceptions to its own rules, and to those above."""
        return [*(each for rule in self.rules for each in rule.exceptions), *self.exceptions]


def _deciding(written: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in written.items() if key not in ("origin", "exceptions")}


def _holding(exceptions: Iterable[RuleException], now: str) -> dict[str, Any]:
    found = [_deciding(each.written) for each in exceptions if each.holds(now)]
    return {"exceptions": found} if found else {}


def policy_from(body: Mapping[str, Any]) -> Policy:
    """The policy in `body`, which `merge` has made."""
    return Policy(
        body["policy"],
        body["description"],
        body["observe"],
        Defaults(**body["defaults"]),
        tuple({name: tuple(entries) for name, entries in scope.items()} for scope in body["scopes"]),
        tuple(Source(**source) for source in body["sources"]),
        body["confinements"],
        body,
        tuple([_rule(rule) for rule in body["rules"]]),
        _exceptions(body),
    )


def match_from(body: Mapping[str, Any]) -> Match:
    """The condition in `body`, as the body of a policy has it."""
    return _match(body)


_PLAIN = (
    *("id", "decision", "severity", "reason", "suggestion", "locked", "confined", "approved", "scope", "origin"),
    *("inherited", "hold"),
)


def _rule(body: Mapping[str, Any]) -> Rule:
    return Rule(
        **{key: body[key] for key in _PLAIN if key in body},
        when=_match(body["when"]),
        unless=_match(body["unless"]) if "unless" in body else None,
        route=body["route"] if isinstance(body["route"], str) else RaisedRoute(**body["route"]),
        grant=Grantable(**{key: _plain(value) for key, value in body["grant"].items()}) if "grant" in body else None,
        tests=_tests(body["tests"]),
        override=Override(**body["override"]) if "override" in body else None,
        overridden=Override(**body["overridden"]) if "overridden" in body else None,
        exceptions=_exceptions(body),
        written=body,
    )


def _exceptions(body: Mapping[str, Any]) -> tuple[RuleException, ...]:
    return tuple(
        [
            RuleException(
                rule=each["rule"],
                when=_match(each["when"]),
                reason=each["reason"],
                expires=each["expires"],
                tests=_exception_tests(each["tests"]),
                origin=each["origin"],
                written=each,
            )
            for each in body.get("exceptions", ())
        ]
    )


def _tests(body: Mapping[str, Any]) -> Tests:
    return Tests(**_examples(body), given=tuple(GivenTests(**_examples(each)) for each in body.get("given", ())))


def _exception_tests(body: Mapping[str, Any]) -> ExceptionTests:
    given = tuple(GivenExceptionTests(**_examples(each)) for each in body.get("given", ()))
    return ExceptionTests(**_examples(body), given=given)


def _examples(body: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in body.items() if key != "given"}


_PARTS: dict[str, type[Written]] = {
    "program": Program,
    "flags": Flags,
    "env": Environment,
    "effects": Effects,
    "paths": Paths,
    "hosts": Among,
    "names": Among,
    "time": Time,
    "sql": Sql,
    "content": Content,
}
_FIELDS = {kind: keys_of(kind) for kind in _PARTS.values()}


def _match(body: Mapping[str, Any]) -> Match:
    keys: dict[str, Any] = {}
    for key, value in body.items():
        if (kind := _PARTS.get(key)) is not None:
            named = _FIELDS[kind]
            keys[key] = kind(**{named[k]: _plain(v) for k, v in value.items()})
        elif key in ("argv", "agent", "requester"):
            keys[key] = _texts(value)
        elif key in ("options", "attributes"):
            keys[key] = {name: _texts(patterns) for name, patterns in value.items()}
        elif key == "tool":
            keys[key] = _tool(value)
        elif key == "repo":
            said: dict[str, Any] = {k: _texts(v) if isinstance(v, list) else v for k, v in value.items()}
            keys[key] = Repository(**said)
        elif key == "operands":
            keys[key] = Operands(**{k: _texts(v) for k, v in value.items()})
        elif key in ("any", "all"):
            keys[key] = tuple(_match(m) for m in value)
        elif key == "not":
            keys["negated"] = _match(value)
        elif key == "limit":
            counted: dict[str, Any] = {**value, "of": _match(value["of"])}
            keys[key] = Limit(**counted)
        elif key == "flow":
            to = _match(value["to"]) if "to" in value else None
            keys[key] = Flow(_match(value["from"]), to, _plain(value.get("through")))
        else:
            keys[key] = _plain(value)
    return Match(**keys)


def _tool(body: Mapping[str, Any]) -> Tool:
    name = _texts(body["name"]) if "name" in body else None
    if "args" not in body:
        return Tool(name)
    arguments = {
        each: Argument(_texts(said["in"]) if "in" in said else None, _plain(said.get("within")), said.get("given"))
        for each, said in body["args"].items()
    }
    return Tool(name, arguments)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _texts(value: list[Mapping[str, str]]) -> Texts:
    return tuple(Text(**text) for text in value)
