"""The state of reading one program of JavaScript: what names and members may be, and what has been found.

Order does not count: the whole text, with the body of every function, is read again and again until no name, member or
parameter may be anything more. What is done and what is doubted is taken from the last reading.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Text
from humanlayer_agent.shell.languages.javascript.api_tables import Tables, tables
from humanlayer_agent.shell.languages.javascript.lexical_scopes import Scope
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    Array,
    Atom,
    Cell,
    Foreign,
    Function,
    Here,
    Mark,
    Native,
    Record,
    Value,
    bounded,
    fewer,
    operands,
)
from humanlayer_agent.shell.languages.javascript.source_tree import Node

MAX_PASSES = 40
MAX_STEPS = 400_000
MAX_ACTS = 1_000
MAX_GROWTHS = 6
"""A cell that grows in more readings than this loses its texts."""
MAX_ATOMS = 400

T = TypeVar("T")


class TooMuch(Exception):
    """The program is larger than what is read."""


class Evaluator:
    """Everything that is known while a program is read.

    Args:
        root: the tree of the program.
        argv: process.argv from the script's name on, where it is known.
        path: the absolute path of the script; None: it is no file.
        steps: how many may be taken to follow it.
    """

    def __init__(self, root: Node, argv: Sequence[Text] | None, path: str | None, steps: int = MAX_STEPS) -> None:
        self.root, self.argv, self.path = root, argv, path
        self.tables: Tables = tables()
        self.scope = Scope(None, function=True)
        self.function: Function | None = None
        self.receivers: list[Value] = []
        """What `this` is, innermost last."""
        self.bases: list[Value] = []
        """What `super` is."""
        self.returning: list[Cell] = []
        """What the functions that are read give, innermost last."""
        self.members: dict[str, Cell] = {}
        """By name: all that is stored under it, in whatever object."""
        self.unnamed = Cell()
        """What is stored under names that are not known."""
        self.kept = Cell()
        """What objects of the language were given, and may give back."""
        self.free: dict[str, Cell] = {}
        """What is assigned to names that are declared nowhere."""
        self.functions: list[Function] = []
        self.scopes: dict[int, Scope] = {}
        self.sites: dict[tuple[int, str], Any] = {}
        self.steps, self.limit = 0, min(steps, MAX_STEPS)
        self.line = 0
        self.changed = False
        self.moved = False
        """Whether the program changes its directory."""
        self.bent = ""
        """What the program may have changed of all objects."""
        self.acts: dict[Act, None] = {}
        self.doubts: dict[str, None] = {}
        self.directories: list[Text] = []
        self.written: dict[tuple[Text, str | None], None] = {}
        """The files that are filled, and with what, where that is known."""

    # ---- reading until nothing grows ----------------------------------------------------------------

    def run(self, read: Callable[["Evaluator"], None]) -> None:
        """Read the program until nothing is new. Raises TooMuch."""
        for _ in range(MAX_PASSES):
            self.changed = False
            self.acts, self.doubts, self.directories, self.written = {}, {}, [], {}
            read(self)
            if self.changed:
                continue
            waiting = [each for each in self.functions if not each.called and not each.assumed]
            if not waiting:
                self._settle()
                return
            for each in waiting:
                each.assumed = True
        raise TooMuch

    def _settle(self) -> None:
        """Doubt what only the whole program shows."""
        for each in self.functions:
            if each.assumed and (name := self.capability(each.returns.value)):
                self.doubt(f"a function gives {name} to whoever calls it")
        if self.bent and any(act.kind not in ("environment", "read") for act in self.acts):
            self.doubt(self.bent)

    def step(self, node: Node) -> None:
        """Count work, and remember the line. Raises TooMuch."""
        self.line = node.line
        self.count()

    def count(self) -> None:
        """Count work. Raises TooMuch."""
        self.steps += 1
        if self.steps > self.limit:
            raise TooMuch

    # ---- cells --------------------------------------------------------------------------------------

    def add(self, cell: Cell, value: Value) -> None:
        """`cell` may hold `value` as well."""
        if value <= cell.value:
            return
        new = bounded(cell.value | value)
        if cell.growths >= MAX_GROWTHS:
            new = fewer(new)
        if new == cell.value:
            return
        if len(new) > MAX_ATOMS:
            raise TooMuch
        cell.growths += 1
        cell.value = new
        self.changed = True

    def member(self, name: str) -> Cell:
        """All that is stored under the member `name`."""
        found = self.members.get(name)
        if found is None:
            found = self.members[name] = Cell()
        return found

    def site(self, node: Node, kind: str, make: Callable[[], T]) -> T:
        """The one object for what `node` makes."""
        found: T | None = self.sites.get((id(node), kind))
        if found is None:
            found = self.sites[id(node), kind] = make()
            if isinstance(found, Function):
                self.functions.append(found)
        return found

    def array(self, node: Node, kind: str, items: Value, *, words: list[Value] | None = None) -> Value:
        """The array that `node` makes, of `items`."""
        made = self.site(node, kind, Array)
        self.add(made.items, items)
        if words is None:
            if made.words is not None:
                made.words, self.changed = None, True
        elif made.words is not None and made.words != words:
            made.words, self.changed = words, True
        return frozenset({made})

    def everything(self) -> Value:
        """All that any object may hold."""
        return EMPTY.union(self.kept.value, self.unnamed.value, *(c.value for c in self.members.values()))

    def elements(self, value: Value) -> Value:
        """What iterating over `value` gives."""
        out: Value = EMPTY
        for atom in value:
            if isinstance(atom, Array):
                out |= atom.items.value
            elif isinstance(atom, str) or atom is Mark.TEXT:
                out |= frozenset({Mark.TEXT})
            else:
                out |= DATA | self.kept.value | (frozenset({atom}) if _spreads(atom) else EMPTY)
        return out

    # ---- names --------------------------------------------------------------------------------------

    def declared(self, name: str) -> list[Cell]:
        """The cells that `name` may stand for here, innermost first; and None of them may be where it is soft."""
        out: list[Cell] = []
        scope: Scope | None = self.scope
        while scope is not None:
            cell = scope.cells.get(name)
            if cell is not None:
                out.append(cell)
                if name not in scope.soft:
                    return out
            scope = scope.parent
        cell = self.free.get(name)
        if cell is None:
            cell = self.free[name] = Cell()
        out.append(cell)
        return out

    def is_free(self, name: str) -> bool:
        """May `name` stand for one of node's own?"""
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.cells and name not in scope.soft:
                return False
            scope = scope.parent
        return True

    # ---- what can do something ----------------------------------------------------------------------

    def harmless(self, atom: Native) -> bool:
        """May `atom` be handed around, as what it does is seen where it is called, or is nothing?"""
        if atom.name.startswith("@"):
            return True
        entry = self.tables.members.get(atom.name)
        return entry is not None and entry.harmless and atom.name not in ("module", "exports")

    def capability(self, value: Iterable[Atom]) -> str:
        """The name of something in `value` that must not be lost sight of; "" where there is none."""
        for atom in value:
            if isinstance(atom, Native) and not self.harmless(atom):
                return atom.name
        return ""

    def keep(self, value: Value, whither: str) -> None:
        """`value` goes where any object may get it from."""
        if name := self.capability(value):
            self.doubt(f"{name} is put into {whither}, and can't be followed there")
            value = frozenset(a for a in value if not isinstance(a, Native) or self.harmless(a))
        self.add(self.kept, value)

    def hand_over(self, value: Value, whither: str) -> None:
        """`value` goes to code that is not read here, which may call what is in it."""
        ahead, seen = list(value), set(value)
        while ahead:
            atom = ahead.pop()
            held: Iterable[Atom] = ()
            if isinstance(atom, Function) and not atom.assumed:
                atom.assumed, self.changed = True, True
            elif isinstance(atom, Array):
                held = atom.items.value
            elif isinstance(atom, Record):
                if not atom.open:
                    atom.open, self.changed = True, True
                held = [a for cell in atom.fields.values() for a in cell.value]
            elif isinstance(atom, Native) and not self.harmless(atom):
                self.doubt(f"{atom.name} is handed to {whither}")
            ahead += [a for a in held if a not in seen]
            seen.update(held)

    # ---- what is found ------------------------------------------------------------------------------

    def act(
        self, kind: str, value: Value, origin: str, *, role: str = "code", recursive: bool = False,
        filled: str | None = None,
    ) -> None:  # fmt: skip
        """The program does `kind` to `value`; `filled` is the text that it writes there, where that is known."""
        for operand in operands(value, moved=self.moved and any(isinstance(a, Here) for a in value)):
            self.note(Act(kind, (operand,), role, origin, self.line, recursive))
            if kind in ("write", "append"):
                self.written[operand, filled] = None

    def note(self, act: Act) -> None:
        """The program does `act`."""
        self.acts[act] = None
        if len(self.acts) > MAX_ACTS:
            raise TooMuch

    def doubt(self, reason: str) -> None:
        """Something in the line that is read now can't be told."""
        self.doubts[f"line {self.line}: {reason}"] = None

    def behaviour(self) -> Behaviour:
        """All that was found."""
        acts = sorted(self.acts, key=lambda a: a.line)
        unknown = {each for target, text in self.written if text is None for each in target.choices}
        files = [(target, text) for target, text in self.written if unknown.isdisjoint(target.choices)]
        return Behaviour(
            acts, list(self.doubts), list(self.directories), files if all(self._names()) else [], unread=True
        )

    def _names(self) -> list[bool]:
        """Whether it is known, of each file that is filled, which one it is."""
        return [target.known for target, _ in self.written]


def _spreads(atom: Atom) -> bool:
    """Is what it holds as little known as it is itself?"""
    return isinstance(atom, Foreign) or atom in (Mark.PICKED, Mark.CHOSEN)
