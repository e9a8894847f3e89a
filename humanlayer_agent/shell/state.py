"""What is known of the shell at one point of a script: directory, variables, functions.

States flow through the analysis and are joined where control flow meets. A state is never changed in
place once another node may hold it: `copy` first.
"""

from dataclasses import dataclass, field

from humanlayer_agent.shell.syntax import Function

MAX_CHOICES = 8

Value = tuple[str, ...] | None
"""The values a variable may have: one or several known ones; None where it may be anything. () means unset."""


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
    functions: dict[str, tuple[Function, ...]] = field(default_factory=dict)
    positional: tuple[str, ...] | None = None
    default_ifs: bool = True
    exported: frozenset[str] = frozenset()
    havoc: bool = False
    """True once anything may have been assigned: variables that are not in `variables` are unknown."""

    def copy(self) -> "State":
        return State(
            self.cwd,
            self.environ,
            self.closed,
            dict(self.variables),
            dict(self.functions),
            self.positional,
            self.default_ifs,
            self.exported,
            self.havoc,
        )

    def child(self, positional: tuple[str, ...] | None) -> "State":
        """The state of a shell that is started from here: it inherits what is exported, and no functions."""
        inherited = {n: v for n, v in self.variables.items() if n in self.exported or n in self.environ}
        return State(self.cwd, self.environ, self.closed, inherited, {}, positional, True, self.exported, self.havoc)

    def lookup(self, name: str) -> Value:
        """The values `name` may have; None where unknown, () where it is certainly unset."""
        if name in self.variables:
            return self.variables[name]
        if self.havoc:
            return None
        if name in self.environ:
            return (self.environ[name],)
        return () if self.closed and name not in BASH_VARIABLES else None

    def assign(self, name: str, value: Value) -> None:
        """Set `name`; a change of IFS makes word splitting unknown."""
        self.variables[name] = value
        if name == "IFS":
            self.default_ifs = False

    def forget(self, names: set[str] | None) -> None:
        """Make `names` unknown; None means every variable."""
        if names is None:
            self.variables = {}
            self.havoc = True
            self.default_ifs = False
            self.positional = None
            return
        for name in names:
            self.assign(name, None)


BASH_VARIABLES = frozenset(
    """BASH BASHOPTS BASHPID BASH_ALIASES BASH_ARGC BASH_ARGV BASH_ARGV0 BASH_CMDS BASH_COMMAND BASH_EXECUTION_STRING
    BASH_LINENO BASH_LOADABLES_PATH BASH_REMATCH BASH_SOURCE BASH_SUBSHELL BASH_VERSINFO BASH_VERSION COMP_CWORD
    COMP_KEY COMP_LINE COMP_POINT COMP_TYPE COMP_WORDBREAKS COMP_WORDS COPROC DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID
    FUNCNAME GROUPS HISTCMD HOSTNAME HOSTTYPE IFS LINENO MACHTYPE MAPFILE OLDPWD OPTARG OPTERR OPTIND OSTYPE PATH
    PIPESTATUS PPID PS4 PWD RANDOM READLINE_ARGUMENT READLINE_LINE READLINE_MARK READLINE_POINT REPLY SECONDS SHELL
    SHELLOPTS SHLVL SRANDOM TERM UID _""".split()
)
"""Variables that bash sets by itself (Bash Reference Manual 5.2, section 5.2): never certainly unset."""


def join(left: State | None, right: State | None) -> State | None:
    """The state where two ways meet; None is a way that never arrives (after `exit`)."""
    if left is right or right is None:
        return left
    if left is None:
        return right
    out = left.copy()
    out.cwd = _union(left.cwd, right.cwd)
    for name in left.variables.keys() | right.variables.keys():
        out.variables[name] = _union(left.lookup(name), right.lookup(name))
    for name in left.functions.keys() | right.functions.keys():
        known = left.functions.get(name, ())
        out.functions[name] = known + tuple(f for f in right.functions.get(name, ()) if f not in known)
    out.positional = left.positional if left.positional == right.positional else None
    out.default_ifs = left.default_ifs and right.default_ifs
    out.exported = left.exported | right.exported
    out.havoc = left.havoc or right.havoc
    return out


def _union(left: Value, right: Value) -> Value:
    if left == right:
        return left
    # One way unset, the other set: no value covers both.
    if not left or not right:
        return None
    both = tuple(dict.fromkeys((*left, *right)))
    return both if len(both) <= MAX_CHOICES else None
