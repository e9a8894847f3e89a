"""Data flow: which commands of an action the data of other commands can reach.

The walk leaves a trace of the constructs that it passed (`Program.trace`). Commands are listed in the order in which
they are met: what stands inside a construct is a range of `Program.commands`. Nothing is computed before a rule asks.

Flows are over-approximated: all that stands inside one part of a pipeline reaches all inside the next; what enters a
command leaves it in every way; and in which order variables and files are set and used is not looked at (loops, traps
and named pipes turn it around). So "no" is certain as far as the action was understood, "yes" means that data can come
there, and "maybe" that a file may be another one.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Literal, get_args

from humanlayer_agent.shell.dataflow.graph import Edge, Graph, TooMuch, graph
from humanlayer_agent.shell.dataflow.through_files import Names, meet, plain_names, runs_file, taken, written
from humanlayer_agent.shell.program import Effect, Program, SimpleCommand

Way = Literal["pipe", "substitution", "redirect", "here-string", "variable", "argument", "file"]
WAYS: tuple[str, ...] = get_args(Way)
"""The ways by which data comes from one command to another."""

MAX_MEETINGS = 20_000
"""Most pairs of a written and a taken file that are compared for one action; any other may be the same file."""

_LITERAL = frozenset(
    str.split("python python3 pypy pypy3 perl ruby node nodejs deno bun php lua Rscript groovy osascript tclsh")
)
"""Interpreters: of a program text that stands in the command, what runs is that text, not what it is fed with."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Data of the command number `origin` comes here. Not `sure`: it may."""

    origin: int
    sure: bool


Arrivals = tuple[Arrival, ...]
"""The surest first, and one more of another origin where there is one."""


class Reached:
    """The places where the data of some commands can come."""

    def __init__(self, flows: "Flows", found: Mapping[int, Arrivals], ways: frozenset[str] | None) -> None:
        self._flows, self._found, self._ways = flows, found, ways

    def at(self, command: SimpleCommand, effect: Effect | None) -> Arrivals:
        """Return what comes to an effect of `command` (None: to the command).

        Code is reached where the data is what runs: a text from outside, a file that was written, an input that is
        read as a program. To be given to a program that runs other code is no way into that code.
        """
        number = self._flows.numbers.get(id(command))
        if number is None:
            return ()
        entry = self._found.get(2 * number, ())
        if effect is None or effect.kind != "execute":
            # What a wrapper or function runs prints where its own redirects lead.
            leaving = self._found.get(2 * number + 1, ())
            return _best([*entry, *(each for each in leaving if each.origin != number)])
        if effect.operand is None or _reads_input(effect):
            return _best([*entry, *self._file(effect)])
        if runs_file(effect):
            return _best(self._file(effect))
        literal = effect.role != "code" or (effect.unread and _is_interpreter(command))
        return () if effect.operand and literal else entry

    def _file(self, effect: Effect) -> list[Arrival]:
        if not runs_file(effect) or (self._ways is not None and "file" not in self._ways):
            return []
        out: list[Arrival] = []
        for node, effects in self._flows.written.items():
            if self._flows.left < 0:
                return [*out, *(Arrival(a.origin, False) for a in next(iter(self._found.values()), ()))]
            for arrival in self._found.get(node, ()):
                said = [self._flows.meet(each, effect) for each in effects]
                if True in said or False in said:
                    out.append(Arrival(arrival.origin, arrival.sure and True in said))
        return out


def _best(arrivals: Iterable[Arrival]) -> Arrivals:
    found: dict[int, Arrival] = {}
    for each in sorted(arrivals, key=lambda a: not a.sure):
        found.setdefault(each.origin, each)
    return tuple(found.values())[:2]


def _reads_input(effect: Effect) -> bool:
    """Is the file that runs its input, or `<( )`?"""
    return (effect.operand or "").startswith(("/dev/", "/proc/")) or (effect.operand or "").endswith("/-")


def _is_interpreter(command: SimpleCommand) -> bool:
    name = (command.program or "").rpartition("/")[2]
    return name in _LITERAL or name.startswith(("python", "perl", "ruby"))


class Flows:
    """The data flow of one action.

    Args:
        program: the action.
        names: all names of a path (see `through_files`).
    """

    def __init__(self, program: Program, names: Names = plain_names) -> None:
        self.program, self.names = program, names
        self.numbers = {id(command): n for n, command in enumerate(program.commands)}
        self.left = MAX_MEETINGS
        self._met: dict[tuple[int, int], bool | None] = {}
        self._links: dict[int, list[Edge]] = {}
        self.graph: Graph | None = None
        try:
            self.graph = graph(program)
        except TooMuch:
            self.graph = None
        heads = self.graph.heads if self.graph is not None else set()
        # The files of a redirect of a compound command: what enters it goes there, what is there leaves it.
        self.written = {
            2 * n + (n not in heads): found for n, c in enumerate(program.commands) if (found := written(c))
        }
        self.taken = {2 * n + (n in heads): found for n, c in enumerate(program.commands) if (found := taken(c))}
        self._anywhere = Edge("file", tuple(self.taken), False)

    def reached(self, origins: Mapping[int, bool], ways: frozenset[str] | None = None) -> Reached:
        """Return where the data of the commands `origins` can come (by number; False: one that may be meant).

        Args:
            ways: only by these ways (None: by any).
        """
        if self.graph is None:
            anywhere = tuple(Arrival(n, False) for n in [*origins][:2])
            return Reached(self, dict.fromkeys(range(2 * len(self.program.commands)), anywhere), ways)
        found: dict[int, Arrivals] = {}
        sure = deque((2 * n + 1, Arrival(n, True)) for n, certain in origins.items() if certain)
        unsure = deque((2 * n + 1, Arrival(n, False)) for n, certain in origins.items() if not certain)
        used: dict[int, set[int]] = {}
        # All that is certain first, so that the first arrivals at a node are the best.
        while sure or unsure:
            node, arrival = sure.popleft() if sure else unsure.popleft()
            before = found.get(node, ())
            if len(before) > 1 or any(arrival.origin == each.origin for each in before):
                continue
            found[node] = (*before, arrival)
            if self._passes_on(node):
                (sure if arrival.sure else unsure).append((node + 1, arrival))
            for edge in self._from(node, ways):
                origins_seen = used.setdefault(id(edge), set())
                if arrival.origin in origins_seen or len(origins_seen) > 1:
                    continue
                origins_seen.add(arrival.origin)
                certain = arrival.sure and edge.sure
                onward = arrival if certain else Arrival(arrival.origin, False)
                (sure if certain else unsure).extend((target, onward) for target in edge.targets)
        return Reached(self, found, ways)

    @property
    def given(self) -> Mapping[str, Set[str]] | None:
        """For each variable, those whose values it is given as they are: x for y of `y=$x`. None: it can't be told."""
        return self.graph.given if self.graph is not None and self.program.status == "ok" else None

    def _from(self, node: int, ways: frozenset[str] | None) -> list[Edge]:
        edges = self.graph.edges.get(node, []) if self.graph is not None else []
        if ways is not None:
            edges = [e for e in edges if not e.how or e.how in ways]
        return edges + self._files(node) if node in self.written and (ways is None or "file" in ways) else edges

    def _passes_on(self, node: int) -> bool:
        """Is `node` where data enters a command, which lets it out again?"""
        commands = 2 * len(self.program.commands)
        return node < commands and node % 2 == 0 and (self.graph is None or node // 2 not in self.graph.heads)

    def _files(self, node: int) -> list[Edge]:
        """Where what `node` leaves in files is taken."""
        found = self._links.get(node)
        if found is None:
            if self.left < 0:
                return [self._anywhere]
            found = self._links[node] = []
            for target, effects in self.taken.items():
                said = [self.meet(out, into) for out in self.written[node] for into in effects if out is not into]
                if True in said or False in said:
                    found.append(Edge("file", (target,), True in said))
        return found

    def meet(self, out: Effect, into: Effect) -> bool | None:
        """Tell whether what `out` leaves is what `into` takes: True, False where that may be, None where it is
        not so.
        """
        self.left -= 1
        if self.left < 0:
            return False
        key = (id(out), id(into))
        if key not in self._met:
            self._met[key] = meet(out, into, self.names)
        return self._met[key]
