"""From the trace of the walk to a graph: where the data of each command can go next.

Every command has two nodes: what enters it (2 * its number) and what leaves it (that + 1). Every variable has one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from humanlayer_agent.shell.program import Program, SimpleCommand, Step
from humanlayer_agent.shell.syntax.tree import (
    Arith,
    ArithCommand,
    ArrayLit,
    Case,
    Loop,
    Param,
    Part,
    ProcSub,
    Redirect,
    Simple,
    Sub,
    Test,
    Word,
)

MAX_ENTRIES = 400_000
"""Beyond this nothing is told apart: everything may reach everything."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_COPY = re.compile(r"-|[0-9]+-?", re.ASCII)
_ASSIGNED = re.compile(r"[\"']?([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=", re.ASCII)
_SETTERS = {
    "read": ("REPLY",), "mapfile": ("MAPFILE",), "readarray": ("MAPFILE",), "getopts": ("OPTARG",), "printf": (),
    "declare": (), "typeset": (), "local": (), "export": (), "readonly": (), "let": (), "set": ("@",),
}  # fmt: skip
"""Builtins that set the variables they are given, and those that they set without being told to."""
_ANY = "*"
"""Stands for every variable: what a sourced file sets, what `${!x}` may be."""
_IN = frozenset({"<", "<<", "<<-", "<<<", "<>", "<&"})
_OUT = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_FED = frozenset({"xargs", "parallel"})


class TooMuch(Exception):
    """The action is too large to be told apart."""


@dataclass(slots=True, eq=False)
class Edge:
    """Data goes to all of `targets`, `how`; "" is no step of its own. Not `sure`: it may."""

    how: str
    targets: Sequence[int]
    sure: bool = True


@dataclass(slots=True)
class Graph:
    """The edges that begin at each node. `heads` are the redirects of compound commands.

    What enters a head goes to its files only, and what comes from its files leaves it; a command passes on everything.
    """

    edges: dict[int, list[Edge]] = field(default_factory=dict)
    heads: set[int] = field(default_factory=set)
    given: dict[str, set[str]] = field(default_factory=dict)
    """For each variable, those whose values it is given: `y=$x`."""


def graph(program: Program) -> Graph:
    """The graph of `program`, but for data that goes through files.

    Raises:
        TooMuch: the program is too large.
    """
    return _Builder(program).build()


def into(start: int, end: int) -> range:
    """The nodes where data enters the commands [start, end)."""
    return range(2 * start, 2 * end, 2)


def out_of(start: int, end: int) -> range:
    """The nodes where data leaves the commands [start, end)."""
    return range(2 * start + 1, 2 * end + 1, 2)


@dataclass(slots=True)
class _Place:
    """Where a word stands: its substitutions are among the commands [start, end); its data goes to `targets`.

    `sources` is what feeds `>( )` in it.
    """

    start: int
    end: int
    targets: Sequence[int] = ()
    sources: Sequence[int] = ()
    how: str = "substitution"


class _Builder:
    def __init__(self, program: Program) -> None:
        self.commands, self.trace = program.commands, program.trace
        self.graph = Graph()
        self.left = MAX_ENTRIES
        self.numbers = {id(command): n for n, command in enumerate(self.commands)}
        self.variables: dict[str, int] = {}
        self.indirect: list[Sequence[int]] = []
        self.substitutions: dict[int, list[tuple[int, int]]] = {}

    def build(self) -> Graph:
        for kind, what, start, _, end in self.trace:
            if kind == "substitution":
                self.substitutions.setdefault(id(what), []).append((start, end))
        for n, step in enumerate(self.trace):
            self.step(n, step)
        for n, command in enumerate(self.commands):
            self.sets(n, command)
        for targets in self.indirect:
            for node in list(self.variables.values()):
                self.edge("variable", [node], targets)
        seen_only = [n for n, command in enumerate(self.commands) if "witness" in command.inside]
        if seen_only:  # how they hang together could not be read
            self.edge("pipe", [2 * n + 1 for n in seen_only], [2 * n for n in seen_only], sure=False)
        return self.graph

    def edge(self, how: str, sources: Sequence[int], targets: Sequence[int], *, sure: bool = True) -> None:
        """Data goes from each of `sources` to each of `targets`."""
        if not sources or not targets:
            return
        self.left -= len(sources) + len(targets)
        if self.left < 0:
            raise TooMuch
        edge = Edge(how, targets, sure)
        for node in sources:
            self.graph.edges.setdefault(node, []).append(edge)

    def variable(self, name: str) -> int:
        """The node of a variable; the parameters of a script or function are one."""
        return self.variables.setdefault(name, 2 * len(self.commands) + len(self.variables))

    # ---- constructs ---------------------------------------------------------------------------------------

    def step(self, number: int, step: Step) -> None:
        kind, what, start, middle, end = step
        match kind, what:
            case "simple", Simple():
                self.simple(what, start, middle, end)
            case "pipeline", tuple():
                parts = [*what, end]
                for a, b, c in zip(parts, parts[1:], parts[2:], strict=False):
                    self.edge("pipe", out_of(a, b), into(b, c))
            case "redirects", list():
                self.redirects(number, what, start, middle)
            case "script", SimpleCommand() if id(what) in self.numbers:
                # What a script does that was read after the rest of the action.
                runner = self.numbers[id(what)]
                self.edge("", into(runner, runner + 1), into(start, end))
                self.edge("", out_of(start, end), out_of(runner, runner + 1))
            case "node", Loop():
                self.loop(what, start, end)
            case "node", Test() | ArithCommand():
                words = what.words if isinstance(what, Test) else [what.word]
                self.words(words, _Place(start, end, into(start, start + 1)))
                self.edge("", out_of(start, start + 1), [self.variable("BASH_REMATCH")])
                self.targets_of(what.redirects, _Place(start, end, into(start, start + 1), out_of(start, start + 1)))
            case "node", Case():
                self.words([what.subject, *(p for arm in what.arms for p in arm.patterns)], _Place(start, end))

    def simple(self, node: Simple, start: int, middle: int, end: int) -> None:
        place = _Place(start, end, into(middle, end), out_of(middle, end))
        self.words(node.words, place)
        for assign in node.assigns:
            self.parts(assign.value.parts, place)
            self.parts(assign.index_parts, place)
            self.gives(assign.name, assign.value.parts)
            if assign.value.dynamic and middle < end:
                self.edge("", [2 * middle, 2 * middle + 1], [self.variable(assign.name)])
        self.targets_of(node.redirects, place)
        if end > middle + 1:
            # A wrapper or a function, and what it runs.
            run = self.commands[middle:end]
            self.left -= len(run)
            fed = run[0].program in _FED or any(c.via[-1:] == ("xargs",) for c in run)
            self.edge("argument" if fed else "redirect", into(middle, middle + 1), into(middle + 1, end))
            self.edge("redirect", out_of(middle + 1, end), out_of(middle, middle + 1))
            if any(e.role == "expanded" or e.source == "redirect" for e in self.commands[middle].effects):
                # Its words and its input are theirs.
                self.edge("redirect", out_of(middle, middle + 1), into(middle + 1, end))
        if node.words:
            self.edge("", out_of(middle, end), [self.variable("_")])
        if node.redirects and any(c.program == "exec" for c in self.commands[middle:end]):
            self.shell_wide(node.redirects, middle)

    def shell_wide(self, redirects: list[Redirect], number: int) -> None:
        """`exec < f`: the descriptors of everything that runs after it. Which ones are used is not looked at."""
        everything = len(self.commands)
        if any(r.op in _OUT and not _is_copy(r) for r in redirects):
            self.edge("redirect", out_of(0, everything), into(number, number + 1))
        if any(r.op in _IN and not _is_copy(r) for r in redirects):
            self.edge("redirect", out_of(number, number + 1), into(0, everything))

    def redirects(self, number: int, redirects: list[Redirect], start: int, head: int) -> None:
        """The redirects of a compound command or function, which stand at `head`, just before what they are for."""
        end = self.around(number, head)
        self.graph.heads.add(head)
        inner, outer = into(head + 1, end), out_of(head + 1, end)
        if any(r.op in _IN for r in redirects):
            self.edge("redirect", [2 * head + 1], inner)
        if any(r.op in _OUT for r in redirects):
            self.edge("redirect", outer, [2 * head])
        self.targets_of(redirects, _Place(start, head, inner, outer))

    def around(self, number: int, head: int) -> int:
        """Where the construct that holds the command `head` ends; constructs are noted from the inside out."""
        for n in range(number + 1, len(self.trace)):
            self.left -= 1
            if self.trace[n][2] <= head < self.trace[n][4]:
                return self.trace[n][4]
        return len(self.commands)

    def targets_of(self, redirects: list[Redirect], place: _Place) -> None:
        """What stands in the targets and texts of redirects."""
        here = _Place(place.start, place.end, place.targets, place.sources, "here-string")
        for redirect in redirects:
            self.words([redirect.target], here if redirect.op == "<<<" else place)
            if redirect.body is not None:
                self.words([redirect.body], here)

    def loop(self, node: Loop, start: int, end: int) -> None:
        target = [self.variable(node.name.text or _ANY)] if node.name is not None else []
        self.words(node.words or (), _Place(start, end, target))
        for word in node.words or ():
            self.gives((node.name.text if node.name is not None else None) or _ANY, word.parts)
        if start < end and any(e.role == "expanded" for e in self.commands[end - 1].effects):
            self.edge("", out_of(end - 1, end), target)  # secrets that its words name
        if node.words is None and node.kind in ("for", "select"):
            self.edge("", [self.variable("@")], target)
        if node.head is not None:
            self.words([node.head], _Place(start, end))

    # ---- words --------------------------------------------------------------------------------------------

    def words(self, words: Iterable[Word], place: _Place) -> None:
        for word in words:
            if word.dynamic:
                self.parts(word.parts, place)

    def parts(self, parts: Sequence[Part], place: _Place) -> None:
        for part in parts:
            match part:
                case Sub():
                    for start, end in self.ran(part, place):
                        self.edge(place.how, out_of(start, end), place.targets)
                case ProcSub(direction="<"):
                    for start, end in self.ran(part, place):
                        self.edge("substitution", out_of(start, end), place.targets)
                case ProcSub():
                    for start, end in self.ran(part, place):
                        self.edge("substitution", place.sources, into(start, end))
                case Param():
                    self.parameter(part, place)
                case Arith():
                    self.parts(part.parts, place)
                case ArrayLit():
                    self.words(part.words, place)

    def ran(self, part: Sub | ProcSub, place: _Place) -> list[tuple[int, int]]:
        """Where the commands of a substitution stand, as often as it was followed here."""
        found = self.substitutions.get(id(part), [])
        self.left -= len(found)
        return [(a, b) for a, b in found if place.start <= a and b <= place.end]

    def parameter(self, part: Param, place: _Place) -> None:
        self.parts(part.index_parts, place)
        if part.arg is not None:
            self.words([part.arg], place)
        if part.op in ("=", ":=") and part.arg is not None:
            self.words([part.arg], _Place(place.start, place.end, [self.variable(part.name)]))
            self.gives(part.name, part.arg.parts)
        if part.op == "!":
            self.indirect.append(place.targets)
        if part.op == "length":
            return
        name = "@" if part.name.isdigit() or part.name in ("@", "*") else part.name
        self.edge("variable", [self.variable(name)], place.targets)
        self.edge("variable", [self.variable(_ANY)], place.targets)

    def gives(self, name: str, parts: Sequence[Part]) -> None:
        """The variable `name` is given the values that stand in `parts` themselves, not what commands make of them."""
        for part in parts:
            if isinstance(part, Param):
                self.graph.given.setdefault(name, set()).add(part.name)
                self.gives(name, part.arg.parts if part.arg is not None else ())
            elif isinstance(part, ArrayLit):
                for word in part.words:
                    self.gives(name, word.parts)

    # ---- commands that set variables ----------------------------------------------------------------------

    def sets(self, number: int, command: SimpleCommand) -> None:
        """The variables that a command sets, by its words."""
        names: set[str] = set()
        if _sets_anything(command):
            names = {_ANY, "@"}
        elif command.program in _SETTERS:
            names |= {*_SETTERS[command.program]}
            for word in command.words[1:] if _takes_names(command) else ():
                unknown = word.text is None and not _ASSIGNED.match(word.word.raw)
                names |= {_ANY} if unknown else set(_NAME.findall(word.shown)[:8])
                if word.shown[:1] == "-":
                    names |= set(_NAME.findall(word.shown[2:])[:1])  # `read -aname`
        for word in command.words[1:]:
            if word.word.dynamic and (assigned := _ASSIGNED.match(word.word.raw)):
                names.add(assigned[1])
                self.gives(assigned[1], word.word.parts)
        for name in names:
            self.edge("", out_of(number, number + 1), [self.variable(name)])


def _sets_anything(command: SimpleCommand) -> bool:
    if command.program is None or command.program in ("source", "."):
        return True
    return command.program == "eval" and any(e.kind == "execute" and e.operand is None for e in command.effects)


def _takes_names(command: SimpleCommand) -> bool:
    """Are its words names of variables? Those of `set` are values; those of printf only after -v."""
    first = command.argv[1] if len(command.argv) > 1 else ""
    return command.program != "set" and (command.program != "printf" or "-" in first[:2] or "$" in first)


def _is_copy(redirect: Redirect) -> bool:
    """`2>&1`, `3>&-`: no file."""
    return redirect.op in (">&", "<&") and _COPY.fullmatch(redirect.target.static or "") is not None
