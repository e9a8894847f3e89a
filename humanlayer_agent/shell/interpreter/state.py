"""What is known of the shell at one point of a script: directory, variables, functions.

States flow through the analysis and are joined where control flow meets. A state is never changed in
place once another node may hold it: `copy` first.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from humanlayer_agent.shell.syntax.tree import Function

MAX_CHOICES = 8
MAX_VALUE = 8_192
"""Longest value that is tracked, in code points: `x=$x$x` doubles it each time."""
MAX_EXPANDED = 2_000_000
"""Most code points that one analysis may produce by expansion."""


class Glob(str):
    """A value that is not one text: every text that matches this pattern (literal wildcards escaped)."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str.__eq__(self, other)

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
    """What one analysis may still spend on expansion, in code points; shared by all its states."""

    __slots__ = ("left", "wondered")

    def __init__(self) -> None:
        self.left = MAX_EXPANDED
        self.wondered = False
        """Whether something was not known that mostly is in one way (see `State.assumed`)."""

    def spend(self, chars: int) -> bool:
        """Take `chars` off the budget; False once it is used up."""
        self.left -= chars
        return self.left > 0


INTEGERS = frozenset({"HISTCMD", "OPTIND", "RANDOM", "SRANDOM"})
"""Variables that bash itself has given the attribute -i: what is assigned to one is evaluated (measured with 5.2)."""


@dataclass(slots=True, eq=False)
class State:
    """`cwd` holds the directories the shell may be in (after `cd a; ...` the change may have failed), None if unknown.

    `variables` holds what the script itself set; `environ` what the command is started with. `closed` says that
    `environ` is everything, so that a variable in neither is unset rather than unknown.
    """

    cwd: tuple[str, ...] | None
    environ: dict[str, str]
    closed: bool = False
    variables: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Indexed arrays whose elements are all known."""
    functions: dict[str, tuple[Function | None, ...]] = field(default_factory=dict)
    """What a name may be defined as; None among them: perhaps it is not defined."""
    positional: tuple[str, ...] | None = None
    default_ifs: bool = True
    exported: frozenset[str] = frozenset()
    maybe_exported: frozenset[str] = frozenset()
    """Names of which it is not certain that a child process gets them (`unset x; x=1`, an export on one way only)."""
    odd: frozenset[str] = INTEGERS
    """Names with an attribute that may change or refuse what is assigned to them (-i, -l, -u, -n, readonly)."""
    maps: frozenset[str] = frozenset()
    """Names that are certainly associative arrays: their subscripts are not arithmetic."""
    numbers: frozenset[str] = frozenset()
    """Names whose value is not known but certainly an integer."""
    havoc: bool = False
    """True once anything may have been assigned: variables that are not in `variables` are unknown."""
    nullglob: bool = False
    """True where a wildcard without a match may vanish."""
    work: Work = field(default_factory=Work)
    outside: frozenset[str] = frozenset()
    """Names among `variables` that may still hold what the shell was started with: set on some ways, or restored."""
    zero: str | None = None
    """`$0`, where it is known."""
    entries: dict[str, dict[str, str]] = field(default_factory=dict)
    """The elements of associative arrays of which all are known. Neither dictionary is ever changed in place."""
    references: dict[str, str] = field(default_factory=dict)
    """The variables that names with the attribute -n stand for. As long as there are any, a human is asked."""
    exported_functions: frozenset[str] = frozenset()
    """Names of functions that child shells may get."""
    fresh: bool = False
    """True where unknown parameters are those that the shell was started with: mostly there are none."""
    usual: bool = False
    """True where it is assumed that what is not known is as it mostly is (see `assumed`)."""
    jobs: frozenset[str] = frozenset()
    """Names that certainly hold the number of a process that this shell has started (`x=$!`), or nothing."""

    def copy(self) -> "State":
        return State(
            self.cwd,
            self.environ,
            self.closed,
            dict(self.variables),
            dict(self.arrays),
            dict(self.functions),
            self.positional,
            self.default_ifs,
            self.exported,
            self.maybe_exported,
            self.odd,
            self.maps,
            self.numbers,
            self.havoc,
            self.nullglob,
            self.work,
            self.outside,
            self.zero,
            self.entries,
            self.references,
            self.exported_functions,
            self.fresh,
            self.usual,
            self.jobs,
        )

    def child(self, positional: tuple[str, ...] | None, zero: str | None = None) -> "State":
        """The state of a shell that is started from here: it inherits what is exported."""
        inherited = {n: v for n, v in self.variables.items() if n in self.exported or n in self.environ}
        inherited |= dict.fromkeys(self.maybe_exported)
        return State(
            self.cwd,
            self.environ,
            self.closed,
            inherited,
            positional=positional,
            exported=self.exported,
            numbers=self.numbers & inherited.keys() - self.maybe_exported,
            havoc=self.havoc,
            work=self.work,
            outside=self.outside,
            zero=zero,
            functions={n: (*f, None) for n, f in self.functions.items() if n in self.exported_functions},
            exported_functions=self.exported_functions,
            usual=self.usual,
        )

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
        if name in self.variables and name not in self.outside:
            return False
        return self.havoc or not self.closed or name in self.environ

    def assign(self, name: str, value: Value, *, number: bool = False) -> None:
        """Set `name`; a change of IFS makes word splitting unknown. `number`: an integer, where `value` is None."""
        if value is not None and (name in self.odd or sum(map(len, value)) > MAX_VALUE):
            value = None
        number = number and value is None and name not in self.odd
        if number or name in self.numbers:
            self.numbers = self.numbers | {name} if number else self.numbers - {name}
        if name in self.odd and self.inherits(name):
            self.outside |= {name}  # it may be readonly
        elif name in self.outside:
            self.outside -= {name}
        self.variables[name] = value
        if name in self.jobs:
            self.jobs -= {name}
        self.arrays.pop(name, None)
        if self.entries and name in self.entries:
            self.entries = {n: e for n, e in self.entries.items() if n != name}
        if self.references and name in self.references:
            target = self.references[name]
            self.references = {n: t for n, t in self.references.items() if n != name}
            self.forget([target])
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
        first = None if elements is None else elements[:1]
        self.assign(name, one(first[0]) if first else first)
        if elements is not None and name not in self.odd and sum(map(len, elements)) <= MAX_VALUE:
            self.arrays[name] = elements

    def set_parameters(self, positional: tuple[str, ...] | None) -> None:
        """Set `$1` and those after it; None where they are not known."""
        self.positional = positional
        self.fresh = False

    def export(self, names: Iterable[str]) -> None:
        """Child processes get `names` from here on."""
        self.exported |= frozenset(names)
        self.maybe_exported -= frozenset(names)

    def unexport(self, names: Iterable[str]) -> None:
        """Child processes may not get `names` any more (`unset`, `export -n`)."""
        gone = frozenset(names)
        self.exported -= gone
        self.maybe_exported |= gone

    def define(self, name: str, function: Function | None, *, certain: bool) -> None:
        """Define (or with None remove) a function; where that is not certain, what it was before stays possible."""
        before = self.functions.get(name, (None,)) if not certain else ()
        self.functions[name] = (*(f for f in before if f is not function), function)

    def learn_functions(self, other: "State") -> bool:
        """Take over what functions `other` defines, as possible; True where any was new."""
        known = self.functions
        new = [(n, f) for n, fs in other.functions.items() for f in fs if f is not None and f not in known.get(n, ())]
        for name, function in new:
            self.define(name, function, certain=False)
        return bool(new)

    def forget(self, names: Iterable[str] | None) -> None:
        """Make `names` unknown; None means every variable, function and parameter."""
        if names is not None:
            for name in names:
                self.assign(name, None)
                self.outside |= {name}
            return
        self.variables = {}
        self.arrays = {}
        self.numbers = self.maps = self.jobs = frozenset()
        self.havoc = True
        self.default_ifs = False
        self.positional = self.zero = None
        self.entries, self.references = {}, {}
        self.fresh = False
        self.functions = {n: f if None in f else (*f, None) for n, f in self.functions.items()}

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
    # Most of it is the same object on both ways, or empty: only what is not is joined.
    if left.cwd is not right.cwd:
        out.cwd = _union(left.cwd, right.cwd)
    if left.variables or right.variables:
        for name in left.variables.keys() | right.variables.keys():
            out.variables[name] = _union(left.lookup(name), right.lookup(name))
        out.outside = left.outside | right.outside | (left.variables.keys() ^ right.variables.keys())
    elif left.outside is not right.outside:
        out.outside = left.outside | right.outside
    if left.arrays:
        out.arrays = {n: a for n, a in left.arrays.items() if right.arrays.get(n) == a}
    if left.functions or right.functions:
        for name in left.functions.keys() | right.functions.keys():
            known = left.functions.get(name, (None,))
            out.functions[name] = known + tuple(f for f in right.functions.get(name, (None,)) if f not in known)
    if left.positional is not right.positional:
        out.positional = left.positional if left.positional == right.positional else None
    out.default_ifs = left.default_ifs and right.default_ifs
    if left.exported is not right.exported or left.maybe_exported is not right.maybe_exported:
        out.exported = left.exported & right.exported
        out.maybe_exported = left.maybe_exported | right.maybe_exported | (left.exported ^ right.exported)
    if left.odd is not right.odd:
        out.odd = left.odd | right.odd
    if left.maps is not right.maps:
        out.maps = left.maps & right.maps
    if left.numbers or right.numbers:
        out.numbers = frozenset(n for n in left.numbers | right.numbers if left.is_number(n) and right.is_number(n))
    out.havoc = left.havoc or right.havoc
    out.nullglob = left.nullglob or right.nullglob
    out.zero = left.zero if left.zero == right.zero else None
    if left.entries is not right.entries:
        out.entries = {n: e for n, e in left.entries.items() if right.entries.get(n) == e}
    if left.references is not right.references:
        out.references = {n: t for n, t in left.references.items() if right.references.get(n) == t}
    if left.exported_functions is not right.exported_functions:
        out.exported_functions = left.exported_functions | right.exported_functions
    out.fresh = left.fresh and right.fresh
    out.usual = left.usual and right.usual
    if left.jobs is not right.jobs:
        out.jobs = left.jobs & right.jobs
    return out


def _union(left: Value, right: Value) -> Value:
    if left == right:
        return left
    # One way unset, the other set: no value covers both.
    if not left or not right:
        return None
    both = tuple(dict.fromkeys((*left, *right)))
    return both if len(both) <= MAX_CHOICES else None
