"""The state of the shell at one point of a script, as far as it is known: directory, variables, functions.

States flow through the analysis and are joined where control flow meets. A state is never changed in
place once another node may hold it: `copy` first. Each field of `State` declares with `how` what becomes of it
where ways meet, in a copy, and in a shell that is started from there; `join`, `copy` and `child` follow from that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from humanlayer_agent.shell.syntax.tree import Function

MAX_CHOICES = 8
MAX_VALUE = 8_192
"""Longest value that is tracked, in code points: `x=$x$x` doubles it each time."""
MAX_WORK = 1_200_000
"""What one decision may cost: code points that expansion makes, about a quarter of a microsecond each, and by the same
measure what follows."""
STEP = 25
"""What a step costs of a reader that follows a program (6 to 7 microseconds, measured for Python and JavaScript)."""
CHARACTER = 4
"""What a character costs of the command and of program text, before it is parsed (`ast.parse` takes about a microsecond
for one)."""
COMMAND = 700
"""What a command costs that is followed, and then judged."""
EFFECT = 200
"""What each of its effects costs."""
WILDCARDS = 1_000
"""What it costs besides to hold wildcards against the patterns of a policy."""
RESERVED = 300_000
"""Left to the shell's own text by the programs that it runs: where it ends, not all commands are known."""


class Glob(str):
    """A value that is not one text: every text that matches this pattern (literal wildcards escaped)."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:  # str has its own, by which a pattern would not differ from its text
        return not self == other

    def __hash__(self) -> int:
        return hash(("glob", str(self)))


class Paths(Glob):
    """An element of a list that wildcards became: the names that match, one or more, or else the pattern itself."""


class Anything(Glob):
    """An element of a list that is one text which is not known."""


Value = tuple[str, ...] | None
"""The values a variable may have: one or several known ones; None where it may be anything. () means unset."""


def one(element: str) -> Value:
    """What the element of a list is by itself: of several names the first."""
    if isinstance(element, Anything):
        return None
    return (Glob(element),) if isinstance(element, Glob) else (element,)


class Work:
    """What one analysis may still spend; shared by all its states and by the readers of every language.

    Counted and not timed, so that a decision is the same on every machine.
    """

    __slots__ = ("left", "wondered")

    def __init__(self) -> None:
        self.left = MAX_WORK
        self.wondered = False
        """Whether something was not known that mostly is in one way (see `State.assumed`)."""

    def spend(self, chars: int) -> bool:
        """Take `chars` off the budget; False once it is used up."""
        self.left -= chars
        return self.left > 0

    @property
    def steps(self) -> int:
        """How many steps may still be taken to follow programs."""
        return max(0, self.left - RESERVED) // STEP

    def admit(self, chars: int, steps: int = 0) -> bool:
        """Take so many characters of program text off, and steps; False, and none is taken, where that is too much."""
        cost = CHARACTER * chars + STEP * steps
        if self.left - cost < RESERVED:
            return False
        self.left -= cost
        return True


INTEGERS = frozenset({"HISTCMD", "OPTIND", "RANDOM", "SRANDOM"})
"""Variables that bash itself has given the attribute -i: what is assigned to one is evaluated (measured with 5.2)."""


# ---- how a field is joined, inherited and copied ----------------------------------------------------

Join = Callable[[Any, Any, "State", "State"], Any]
"""What holds where two ways meet: from the field's two values, which differ, and the states that they are from."""


def same_everywhere(a: Any, b: Any, left: "State", right: "State") -> Any:
    """Refuse: nothing changes the field during one analysis, so that two ways that differ in it are a fault of ours."""
    raise AssertionError("two states of different analyses meet")


def either(a: Any, b: Any, left: "State", right: "State") -> Any:
    """Keep one of them: it tells nothing of the shell."""
    return a


def on_all_ways(a: bool, b: bool, left: "State", right: "State") -> bool:
    """Hold where it holds on both ways."""
    return a and b


def on_any_way(a: bool, b: bool, left: "State", right: "State") -> bool:
    """Hold where it holds on one of the ways."""
    return a or b


def common(a: frozenset[str], b: frozenset[str], left: "State", right: "State") -> frozenset[str]:
    """Keep the names that are in it on both ways."""
    return a & b


def united(a: frozenset[str], b: frozenset[str], left: "State", right: "State") -> frozenset[str]:
    """Keep the names that are in it on one of the ways."""
    return a | b


def agreed(a: dict[str, Any], b: dict[str, Any], left: "State", right: "State") -> dict[str, Any]:
    """Keep the entries that are equal on both ways."""
    return {name: value for name, value in a.items() if name in b and b[name] == value}


def unknown(a: Any, b: Any, left: "State", right: "State") -> None:
    """Give the value up."""
    return


def choices(a: Value, b: Value, left: "State", right: "State") -> Value:
    """Keep what is possible on either way, as long as there are few and each way has some."""
    if not a or not b:
        return None  # one way unset, the other set: no value covers both
    both = tuple(dict.fromkeys((*a, *b)))
    return both if len(both) <= MAX_CHOICES else None


def choices_of_each(a: dict[str, Value], b: dict[str, Value], left: "State", right: "State") -> dict[str, Value]:
    """Keep for each variable what it may hold on either way, be it set there or not."""
    out = dict(a)
    for name in a.keys() | b.keys():
        first, second = left.lookup(name), right.lookup(name)
        out[name] = first if first == second else choices(first, second, left, right)
    return out


def meanings(
    a: dict[str, tuple[Any, ...]], b: dict[str, tuple[Any, ...]], left: "State", right: "State"
) -> dict[str, tuple[Any, ...]]:
    """Keep for each name all that it may mean; where a way says nothing of a name, it perhaps means nothing (None)."""
    out = dict(a)
    for name in a.keys() | b.keys():
        known = a.get(name, (None,))
        out[name] = known + tuple(each for each in b.get(name, (None,)) if each not in known)
    return out


def integers(a: frozenset[str], b: frozenset[str], left: "State", right: "State") -> frozenset[str]:
    """Keep the names whose value is an integer on both ways, be it known there or not."""
    return frozenset(name for name in a | b if left.is_number(name) and right.is_number(name))


Inherit = Callable[["State", str], Any]
"""What a shell that is started from a state has at first in a field."""


def _kept(parent: "State", name: str) -> Any:
    return getattr(parent, name)


def _exported_values(parent: "State", name: str) -> dict[str, Value]:
    """The variables that the child gets, or where that is not certain may get."""
    certain = {n: v for n, v in parent.variables.items() if n in parent.exported or n in parent.environ}
    return certain | dict.fromkeys(parent.maybe_exported - parent.exported)


def _exported_numbers(parent: "State", name: str) -> frozenset[str]:
    return frozenset(n for n in parent.numbers if n in parent.exported)


def _exported_functions(parent: "State", name: str) -> dict[str, tuple[Function | None, ...]]:
    return {n: (*f, None) for n, f in parent.functions.items() if n in parent.exported_functions}


def how(join: Join, *, child: Inherit | None = None, copy: Callable[[Any], Any] | None = None) -> Any:
    """Declare what becomes of a field.

    Args:
        join: what holds of it where two ways meet that differ in it.
        child: what a shell that is started from here has of it; None: what any shell has at first.
        copy: makes a copy of the value for a copy of the state; None: the value is never changed, and both have it.
    """
    return MappingProxyType({"join": join, "child": child, "copy": copy})


@dataclass(slots=True, eq=False)
class State:
    """`cwd` holds the directories the shell may be in (after `cd a; ...` the change may have failed), None if unknown.

    `variables` holds what the script itself set; `environ` what the command is started with. `closed` says that
    `environ` is everything, so that a variable in neither is unset rather than unknown.
    """

    cwd: tuple[str, ...] | None = field(metadata=how(choices, child=_kept))
    environ: dict[str, str] = field(metadata=how(same_everywhere, child=_kept))
    closed: bool = field(default=False, metadata=how(on_all_ways, child=_kept))
    variables: dict[str, Value] = field(
        default_factory=dict, metadata=how(choices_of_each, child=_exported_values, copy=dict)
    )
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict, metadata=how(agreed, copy=dict))
    """Indexed arrays whose elements are all known."""
    functions: dict[str, tuple[Function | None, ...]] = field(
        default_factory=dict, metadata=how(meanings, child=_exported_functions, copy=dict)
    )
    """What a name may be defined as; None among them: perhaps it is not defined."""
    positional: tuple[str, ...] | None = field(default=None, metadata=how(unknown))
    default_ifs: bool = field(default=True, metadata=how(on_all_ways))
    exported: frozenset[str] = field(default=frozenset(), metadata=how(common, child=_kept))
    """Names that child processes get, as far as they are set."""
    maybe_exported: frozenset[str] = field(default=frozenset(), metadata=how(united, child=_kept))
    """Names that child processes may get: those, and others (`unset x; x=1`, an export on one way only)."""
    odd: frozenset[str] = field(default=INTEGERS, metadata=how(united))
    """Names with an attribute that may change or refuse what is assigned to them (-i, -l, -u, -n, readonly)."""
    maps: frozenset[str] = field(default=frozenset(), metadata=how(common))
    """Names that are certainly associative arrays: their subscripts are not arithmetic."""
    maybe_maps: frozenset[str] = field(default=frozenset(), metadata=how(united))
    """Names that may be associative arrays: those, and others. A list that is assigned to one is read as keys, too."""
    numbers: frozenset[str] = field(default=frozenset(), metadata=how(integers, child=_exported_numbers))
    """Names whose value is not known but certainly an integer."""
    havoc: bool = field(default=False, metadata=how(on_any_way, child=_kept))
    """True once anything may have been assigned: variables that are not in `variables` are unknown."""
    nullglob: bool = field(default=False, metadata=how(on_any_way))
    """True where a wildcard without a match may vanish."""
    work: Work = field(default_factory=Work, metadata=how(either, child=_kept))
    own: frozenset[str] = field(default=frozenset(), metadata=how(common, child=_kept))
    """Names that certainly do not hold what the shell was started with: the script has set or removed them."""
    zero: str | None = field(default=None, metadata=how(unknown))
    """`$0`, where it is known."""
    entries: dict[str, dict[str, str]] = field(default_factory=dict, metadata=how(agreed))
    """The elements of associative arrays of which all are known. Neither dictionary is ever changed in place."""
    references: dict[str, tuple[str | None, ...]] = field(default_factory=dict, metadata=how(meanings))
    """The variables that names with the attribute -n may stand for; None among them: perhaps for none.

    As long as there are any, a human is asked. The dictionary is never changed in place.
    """
    exported_functions: frozenset[str] = field(default=frozenset(), metadata=how(united, child=_kept))
    """Names of functions that child shells may get."""
    fresh: bool = field(default=False, metadata=how(on_all_ways))
    """True where unknown parameters are those that the shell was started with: mostly there are none."""
    usual: bool = field(default=False, metadata=how(same_everywhere, child=_kept))
    """True where it is assumed that what is not known is as it mostly is (see `assumed`)."""
    jobs: frozenset[str] = field(default=frozenset(), metadata=how(common))
    """Names that certainly hold the number of a process that this shell has started (`x=$!`), or nothing."""

    def copy(self) -> "State":
        out = State(*_VALUES(self))
        for name, copied in _COPIED:
            setattr(out, name, copied(getattr(out, name)))
        return out

    def child(self, positional: tuple[str, ...] | None, zero: str | None = None) -> "State":
        """The state of a shell that is started from here: it inherits what is exported."""
        inherited = {name: inherit(self, name) for name, inherit in _INHERITED}
        return State(**inherited, positional=positional, zero=zero)

    def assumed(self) -> "State":
        """This state where what is not known is as it mostly is.

        There are no parameters at first, texts are not translated, and what is looked for is where programs are.
        """
        out = self.copy()
        out.usual = True
        if out.fresh and out.positional is None:
            out.positional = ()
        return out

    def lookup(self, name: str) -> Value:
        """The values `name` may have; None where unknown, () where it is certainly unset."""
        if name in DYNAMIC:
            return None
        if name in self.variables:
            return self.variables[name]
        if self.havoc:
            return None
        if name in self.environ:
            return (self.environ[name],)
        return () if self.closed and name not in BASH_VARIABLES else None

    def is_number(self, name: str) -> bool:
        """True where the value of `name` is certainly an integer (or `name` is one of bash's own counters)."""
        if name in self.numbers or (name in COUNTERS and name not in self.variables and not self.havoc):
            return True
        value = self.lookup(name)
        return bool(value) and all(v.isascii() and v.removeprefix("-").isdigit() for v in value or ())

    def unused(self, name: str) -> bool:
        """Is `name` unset for certain, or as far as may be assumed?"""
        if self.lookup(name) == ():
            return True
        if not self.untouched(name) or name in self.environ or name in BASH_VARIABLES:
            return False
        self.work.wondered = True
        return self.usual

    def untouched(self, name: str) -> bool:
        """True where the script has not assigned `name`: its value comes from the environment, or it is unset."""
        return name not in self.variables and not self.havoc

    def inherits(self, name: str) -> bool:
        """May `name` hold what the shell was started with, or what a file that nobody read has set it to?"""
        if name in self.own:
            return False
        return self.havoc or not self.closed or name in self.environ

    def assign(self, name: str, value: Value, *, number: bool = False) -> None:
        """Set `name`; a change of IFS makes word splitting unknown. `number`: an integer, where `value` is None."""
        if value is not None and (name in self.odd or sum(map(len, value)) > MAX_VALUE):
            value = None
        number = number and value is None and name not in self.odd
        if number or name in self.numbers:
            self.numbers = self.numbers | {name} if number else self.numbers - {name}
        if name not in self.own and not (name in self.odd and self.inherits(name)):  # it may be readonly
            self.own |= {name}
        self.variables[name] = value
        if name in self.jobs:
            self.jobs -= {name}
        self.arrays.pop(name, None)
        if self.entries and name in self.entries:
            self.entries = {n: e for n, e in self.entries.items() if n != name}
        if self.references and name in self.references:
            references = self.references
            self.references = {n: t for n, t in references.items() if n != name}  # they may stand for each other
            self.forget(target for target in references[name] if target is not None)
            self.references = references
        if name == "IFS":
            self.default_ifs = value == (" \t\n",)
        elif name == "BASH_ARGV0":
            self.zero = None

    def assign_map(self, name: str, entries: dict[str, str] | None) -> None:
        """Set `name` to an associative array; None where its elements are not known."""
        self.assign(name, None)
        if entries is not None and name not in self.odd and sum(map(len, entries.values())) <= MAX_VALUE:
            self.entries = {**self.entries, name: entries}

    def assign_array(self, name: str, elements: tuple[str, ...] | None) -> None:
        """Set `name` to an indexed array; None where its elements are not known."""
        if name in self.maybe_maps:
            elements = None
        # One without elements is not unset: it stays an indexed array.
        self.assign(name, one(elements[0]) if elements else None)
        if elements is not None and name not in self.odd and sum(map(len, elements)) <= MAX_VALUE:
            self.arrays[name] = elements

    def set_parameters(self, positional: tuple[str, ...] | None) -> None:
        """Set `$1` and those after it; None where they are not known."""
        self.positional = positional
        self.fresh = False

    def export(self, names: Iterable[str]) -> None:
        """Child processes get `names` from here on."""
        new = frozenset(names)
        self.exported |= new
        self.maybe_exported |= new

    def unexport(self, names: Iterable[str]) -> None:
        """Child processes may not get `names` any more (`unset`, `export -n`)."""
        gone = frozenset(names)
        self.exported -= gone
        self.maybe_exported |= gone

    def define(self, name: str, function: Function | None, *, certain: bool) -> None:
        """Define (or with None remove) a function; where that is not certain, what it was before stays possible."""
        before = self.functions.get(name, (None,)) if not certain else ()
        self.functions[name] = (*(f for f in before if f is not function), function)

    def learn(self, other: "State") -> bool:
        """Take over what functions and references mean in `other`, as possible; True where any was new."""
        functions, references = self.functions, self.references
        self.functions = meanings(functions, other.functions, self, other)
        self.references = meanings(references, other.references, self, other)
        return self.functions != functions or self.references != references

    def uncover(self, names: Iterable[str], before: "State") -> None:
        """Perhaps `names` stand again for the variables that they stood for in `before`, where they were not local."""
        if covered := {name: before.references[name] for name in names if name in before.references}:
            own = {name: self.references.get(name, (None,)) for name in covered}
            self.references = {**self.references, **meanings(own, covered, self, before)}

    def forget(self, names: Iterable[str] | None) -> None:
        """Make `names` unknown; None means every variable, function and parameter.

        Attributes and options are taken to stay: code that sets them and that nobody has read is asked about by itself.
        """
        if names is not None:
            gone = frozenset(names)
            for name in gone:
                self.assign(name, None)
            self.own -= gone
            self.maps -= gone
            self.loosen(gone)
            return
        self.variables = {}
        self.arrays = {}
        self.numbers = self.maps = self.jobs = self.own = self.exported = frozenset()
        self.havoc = True
        self.default_ifs = False
        self.positional = self.zero = None
        self.entries = {}
        self.references = {n: each if None in each else (*each, None) for n, each in self.references.items()}
        self.fresh = False
        self.functions = {n: f if None in f else (*f, None) for n, f in self.functions.items()}

    def loosen(self, names: Iterable[str]) -> None:
        """Perhaps `names` stand for no other variables any more."""
        if self.references:
            loose = {n: (*self.references[n], None) for n in names if n in self.references}
            self.references = {**self.references, **loose}

    def lost(self) -> "State":
        """A state in which nothing is known, for code that is reached in no way that can be seen."""
        out = self.copy()
        out.forget(None)
        out.cwd = None
        return out


COUNTERS = frozenset({"UID", "EUID", "PPID", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "BASHPID", "EPOCHSECONDS"})
"""Variables that bash keeps as integers, until a script unsets or assigns them."""

READONLY = frozenset({"BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"})
"""Variables that bash makes readonly: an assignment to one ends the line."""

DYNAMIC = COUNTERS | frozenset(
    [
        "BASHOPTS", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_COMMAND", "BASH_LINENO", "BASH_REMATCH",
        "BASH_SOURCE", "BASH_SUBSHELL", "BASH_VERSINFO", "COLUMNS", "COMP_CWORD", "COMP_LINE", "COMP_POINT",
        "COMP_TYPE", "COMP_WORDS", "DIRSTACK", "EPOCHREALTIME", "FUNCNAME", "GROUPS", "HISTCMD", "LINES",
        "OLDPWD", "PIPESTATUS", "PWD", "SHELLOPTS", "_",
    ]
)  # fmt: skip
"""Variables that change by themselves, or that refuse an assignment: what a script assigns to them proves nothing."""

BASH_VARIABLES = DYNAMIC | frozenset(
    [
        "BASH", "BASH_ALIASES", "BASH_CMDS", "BASH_EXECUTION_STRING", "BASH_LOADABLES_PATH", "BASH_VERSION",
        "COMP_KEY", "COMP_WORDBREAKS", "COPROC", "HOSTNAME", "HOSTTYPE", "IFS", "MACHTYPE", "MAPFILE", "OPTARG",
        "OPTERR", "OPTIND", "OSTYPE", "PATH", "PS4", "READLINE_ARGUMENT", "READLINE_LINE", "READLINE_MARK",
        "READLINE_POINT", "REPLY", "SHELL", "SHLVL", "TERM",
    ]
)  # fmt: skip
"""Variables that bash sets by itself (Bash Reference Manual 5.2, section 5.2): never certainly unset."""


def join(left: State | None, right: State | None) -> State | None:
    """The state where two ways meet; None is a way that never arrives (after `exit`)."""
    if left is right or right is None:
        return left
    if left is None:
        return right
    out = left.copy()
    for name, joined in JOINED:
        a, b = getattr(left, name), getattr(right, name)
        if a is not b and a != b:
            setattr(out, name, joined(a, b, left, right))
    return out


def _declared(key: str) -> list[tuple[str, Any]]:
    """Each field with what it declares as `key`, where it declares something."""
    for each in fields(State):
        if "join" not in each.metadata:
            raise TypeError(f"State.{each.name} does not declare how it is joined: field(metadata=how(...))")
    return [(each.name, each.metadata[key]) for each in fields(State) if each.metadata[key] is not None]


JOINED: list[tuple[str, Join]] = _declared("join")
_COPIED, _INHERITED = _declared("copy"), _declared("child")
_VALUES = attrgetter(*(each.name for each in fields(State)))
