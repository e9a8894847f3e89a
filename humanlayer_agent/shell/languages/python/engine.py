"""The state of reading one program: units that wait to be read, cells, and what has been found.

Reading does not follow the order of statements. A unit (the module, a function's body) is read as a whole; whatever it
reads from cells is remembered, and when such a cell grows the unit is read again, until nothing grows any more. Values
grow in a bounded way (`widen`), and all work is counted.
"""

import ast
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from humanlayer_agent.shell.languages.behaviour import MOST_STEPS, Act, Behaviour, Text
from humanlayer_agent.shell.languages.python import acts
from humanlayer_agent.shell.languages.python.objects import Cell, Class, Closure, Container, File, Scope, Unit
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    MAX_TEXTS,
    TEXTS,
    Const,
    Module,
    Thing,
    Value,
    join,
    operands,
    simpler,
    widen,
)

MAX_STEPS = 40_000
"""And one more for every two characters."""
MAX_ACTS = 2_000
MAX_GROWTHS = 4
"""A cell that grows in more readings than this loses its texts: something adds to them in a loop."""
MAX_NESTED = 12
"""Functions are read where they are called first, this deep; deeper ones wait for their turn."""

MAX_ATOMS = 48
"""A value that may be more things than this is anything."""

_PATHS = frozenset({"read", "write", "append", "delete", "move", "metadata"})

T = TypeVar("T")


class TooMuch(Exception):
    """The program is larger than what is read."""


class Engine:
    """Everything that is known while a program is read."""

    def __init__(
        self,
        source: str,
        tree: ast.Module,
        argv: Sequence[Text] | None,
        path: str | None,
        give_up: Callable[["Engine", Value], None],
        steps: int = MOST_STEPS,
    ) -> None:
        self.source = source
        self._held: dict[str, bool] = {}
        self.placed = False
        """Whether the program looks at its path or at its words."""
        self._argv = argv
        self._path = path
        self.steps = 0
        self.limit = min(steps, MAX_STEPS + len(source) // 2)
        self.tick = 0
        self.depth = 0
        self.loop = 0
        self.line = 0
        self.give_up = give_up
        self.queue: deque[Unit] = deque()
        self.units: list[Unit] = []
        self.closures: list[Closure] = []
        self.classes: list[Class] = []
        self.files: list[File] = []
        self.decodes = 0
        """The line where a text that is not known is decoded: what comes of it, nobody can read."""
        self.attributes: dict[str, Cell] = {}
        """By name: all that is stored under it, in whatever object."""
        self.unnamed = Cell()
        """What is stored under a name that is not known."""
        self.members: dict[str, Cell] = {}
        """By name: what the bodies of all classes bind."""
        self.patched: dict[tuple[str, str], Cell] = {}
        self.raised = Cell()
        self.given: dict[str, Cell] = {}
        """By name: what code that is executed with names of its own gets."""
        self.injected = Cell()
        """What a name that is bound nowhere may be, where code is executed with names of its own."""
        self.stars: list[Module] = []
        self.configured: frozenset[str] = frozenset()
        """The settings of a library that the program itself has made what they are."""
        self.sites: dict[tuple[int, str], object] = {}
        self.scopes: dict[int, Scope] = {}
        self.trees: list[ast.AST] = [tree]
        """Kept, as places in the source are told apart by their nodes' identity."""
        self.parsed: dict[str, ast.Module] = {}
        self.leaving: set[object] = set()
        """Calls that are being followed and may lead to themselves."""
        self.outside: dict[tuple[object, bool], Unit] = {}
        """Objects that code which is not read here has got, and whether it may change them."""
        self.executing: set[str] = set()
        """Texts that are being executed."""
        self.fixed = 0
        """The line that all of an executed text counts as."""
        self.module = Scope("module", None)
        self.scope = self.module
        self.unit = Unit(tree.body, self.module)

    @property
    def argv(self) -> Sequence[Text] | None:
        """sys.argv, where it is known."""
        self.placed = True
        return self._argv

    @property
    def path(self) -> str | None:
        """The absolute path of the script, where it is a file."""
        self.placed = True
        return self._path

    def may_hold(self, words: str) -> bool:
        """Can `words` be in what is read? Texts that are executed may have been put together of others."""
        return bool(self.parsed) or self.holds(words)

    def holds(self, words: str) -> bool:
        """Are `words` in the text itself?"""
        if words not in self._held:
            self._held[words] = words in self.source
        return self._held[words]

    # ---- reading until nothing grows ----------------------------------------------------------------

    def wait(self, unit: Unit) -> None:
        """Read `unit` once its turn comes."""
        if not unit.queued:
            unit.queued = True
            self.queue.append(unit)

    def drain(self, read: Callable[["Engine", Unit], None]) -> None:
        """Read the units that wait, and those that have to be read again."""
        while self.queue:
            unit = self.queue.popleft()
            if unit.queued:
                self.enter(unit, read)

    def enter(self, unit: Unit, read: Callable[["Engine", Unit], None]) -> None:
        """Read `unit` now."""
        if unit.runs == 0:
            self.units.append(unit)
        before = self.unit, self.scope, self.loop, self.line, self.tick
        unit.queued, unit.active = False, True
        unit.runs += 1
        unit.acts, unit.doubts, unit.directories = [], [], []
        self.unit, self.scope, self.loop = unit, unit.scope, 0
        self.steps += 1
        self.tick = self.steps
        self.depth += 1
        try:
            read(self, unit)
        finally:
            self.depth -= 1
            unit.active = False
            self.unit, self.scope, self.loop, self.line, self.tick = before

    def step(self, cost: int = 1) -> None:
        """Count work. Raises TooMuch."""
        self.steps += cost
        if self.steps > self.limit:
            raise TooMuch

    # ---- cells --------------------------------------------------------------------------------------

    def read(self, cell: Cell) -> Value:
        """What is in `cell`; the unit that is read now is read again when that grows."""
        cell.readers.add(self.unit)
        return cell.value

    def add(self, cell: Cell, value: Value) -> None:
        """Put `value` into `cell` as well."""
        old = cell.value
        if value <= old:
            return
        self._count(cell)
        new = self.bounded(old, value, cell.growths)
        if new != old:
            cell.value = new
            if cell.readers:
                self._grown(cell)

    def inherit(self, cls: Class, bases: Value) -> None:
        """`cls` has these `bases` as well."""
        self.add(cls.bases, bases)
        for base in bases:
            if isinstance(base, Class) and cls not in base.heirs:
                base.heirs.add(cls)
                for unit in base.watchers:
                    self.wait(unit)
                base.watchers.clear()

    def descendants(self, cls: Class) -> set[Class]:
        """`cls` and all that inherit from it; the unit that is read now is read again when that are more."""
        found, pending = {cls}, [cls]
        while pending:
            each = pending.pop()
            each.watchers.add(self.unit)
            pending += each.heirs - found
            found |= each.heirs
        self.step(len(found) // 8)
        return found

    def bounded(self, old: Value, new: Value, growths: int = 0) -> Value:
        """The union of both. Where it is too much, whatever it holds is handed to code that is not read, as it were."""
        both = old | new
        if len(both) <= MAX_TEXTS and growths <= MAX_GROWTHS:
            return both
        both = bounded(old, new, growths)
        if len(old) > MAX_TEXTS:
            self.step(len(old) // 4)
        if len(both) > MAX_ATOMS or growths > MAX_GROWTHS * 2:
            both = simpler(both)
            if len(both) > MAX_ATOMS or growths > MAX_GROWTHS * 8:
                self.give_up(self, new)
                return old | ANYTHING
        return both

    def union(self, values: Iterable[Value]) -> Value:
        """The union of `values`."""
        out = EMPTY.union(*values)
        return out if len(out) <= MAX_ATOMS else self.bounded(EMPTY, out)

    def element(self, container: Container, value: Value, key: int | str | None = None) -> None:
        """`value` becomes an element of `container`, at the position or key `key` where that is known."""
        if isinstance(key, str):
            old = container.named.get(key)
            new = self.bounded(old or EMPTY, value, container.growths)
            if old is None or new != old:
                container.named[key] = new
                self._touched(container)
        elif (
            isinstance(key, int)
            and container.items is not None
            and key < len(container.items) + self._growable(container)
        ):
            if key == len(container.items):
                container.items.append(value)
                self._touched(container)
            elif not value <= container.items[key]:
                new = self.bounded(container.items[key], value, container.growths)
                if new != container.items[key]:
                    container.items[key] = new
                    self._touched(container)
        elif not value <= container.rest:
            new = self.bounded(container.rest, value, container.growths)
            if new != container.rest:
                container.rest = new
                self._touched(container)

    def fill(self, container: Container, values: Sequence[Value], rest: Value | None = None) -> None:
        """`container` has `values` in this order, then perhaps `rest`. `items` are what it has in any case."""
        items = container.items
        if items is None:
            for value in values:
                self.element(container, value)
        elif not container.known:
            items.extend(values)
            self._touched(container)
        else:
            surely = min(len(items), len(values))
            if surely < len(items):
                lost, items[surely:] = EMPTY.union(*items[surely:]), []
                container.rest = self.bounded(container.rest, lost, container.growths)
                self._touched(container)
            for n, value in enumerate(values):
                self.element(container, value, n if n < surely else None)
        container.known = True
        if rest is not None:
            self.element(container, rest)

    def _growable(self, container: Container) -> bool:
        """May it get longer? What passes its arguments on to itself makes them longer each time."""
        return container.growths <= MAX_GROWTHS

    def key(self, container: Container, value: Value) -> None:
        """`value` becomes a key of `container`."""
        if not value <= container.keys:
            new = self.bounded(container.keys, value, container.growths)
            if new != container.keys:
                container.keys = new
                self._touched(container)

    def shuffle(self, container: Container) -> None:
        """The positions of `container`'s elements are lost."""
        if container.items is not None:
            lost, container.items = join(container.items), None
            container.rest = self.bounded(container.rest, lost, container.growths)
            self._touched(container)

    def look(self, container: Container) -> None:
        """The unit that is read now depends on what is in `container`."""
        container.readers.add(self.unit)

    def _touched(self, container: Container) -> None:
        self._count(container)
        self._grown(container)

    def _count(self, cell: Cell | Container) -> None:
        if cell.tick != self.tick:
            cell.tick = self.tick
            cell.growths += 1

    def _grown(self, cell: Cell | Container) -> None:
        for unit in cell.readers:
            self.wait(unit)
        cell.readers.clear()

    def let_go(self) -> None:
        """Forget how units, scopes and objects hold each other: what is left would wait for the garbage collector, with
        the whole tree.
        """
        for unit in (*self.units, *self.outside.values(), *(closure.unit for closure in self.closures)):
            unit.body, unit.closure = (), None
        for scope in (
            self.module,
            *self.scopes.values(),
            *(closure.scope for closure in self.closures),
            *(cls.scope for cls in self.classes),
        ):
            scope.cells, scope.declared, scope.exact = {}, {}, {}
            scope.closure = scope.cls = scope.reader = None
        for cls in self.classes:
            cls.heirs, cls.watchers = set(), set()

    # ---- places -------------------------------------------------------------------------------------

    def site(self, node: ast.AST, kind: str, make: Callable[[], T]) -> T:
        """The one object for what `node` makes."""
        key = (id(node), kind)
        found = self.sites.get(key)
        if found is None:
            found = self.sites[key] = make()
        return found  # type: ignore[return-value]

    def container(self, node: ast.AST, kind: str, role: str = "") -> Container:
        """The container that `node` makes; `role` tells apart several of one node."""
        return self.site(node, kind + role, lambda: Container(kind))

    def attribute(self, name: str) -> Cell:
        """All that is stored under the attribute `name`."""
        found = self.attributes.get(name)
        if found is None:
            found = self.attributes[name] = Cell()
        return found

    def member(self, name: str) -> Cell:
        """What the bodies of all classes bind to `name`."""
        found = self.members.get(name)
        if found is None:
            found = self.members[name] = Cell()
        return found

    def patch(self, owner: str, name: str) -> Cell:
        """What the program stores in the module `owner` under `name`."""
        found = self.patched.get((owner, name))
        if found is None:
            found = self.patched[owner, name] = Cell()
        return found

    def store(self, cls: Class, name: str, value: Value) -> None:
        """`value` is stored in an instance of `cls`."""
        if name not in cls.stored:
            cls.stored.add(name)
            for unit in cls.readers:
                self.wait(unit)
        self.add(self.attribute(name), value)

    def bind(self, scope: Scope, name: str, value: Value) -> None:
        """`name` stands for `value` as well."""
        scope = scope.declared.get(name, scope)
        self.add(scope.cell(name), value)
        if scope.kind == "class":
            self.add(self.member(name), value)

    # ---- what is found ------------------------------------------------------------------------------

    def act(self, kind: str, value: Value, origin: str, *, role: str = "", recursive: bool = False) -> None:
        """The unit that is read now does `kind` to `value`."""
        path = kind in _PATHS or role in ("script", "import-path")
        for operand in operands(value):
            known = operand if path or operand.below is None else Text()
            self.note(Act(kind, (known,), role or "code", origin, self.line, recursive))

    def note(self, act: Act) -> None:
        """The unit that is read now does `act`."""
        self.unit.acts.append(act)
        if len(self.unit.acts) > MAX_ACTS:
            raise TooMuch

    def merge(self, start: int) -> None:
        """Make one of the acts since `start` that differ in the text of their operand only."""
        recent, self.unit.acts[start:] = self.unit.acts[start:], []
        alike: dict[Act, list[str]] = {}
        for act in recent:
            if len(act.operands) == 1 and act.operands[0].known:
                alike.setdefault(replace(act, operands=()), []).extend(act.operands[0].choices)
            else:
                self.unit.acts.append(act)
        self.unit.acts += [replace(act, operands=(Text.of(*found),)) for act, found in alike.items()]

    def doubt(self, reason: str) -> None:
        """Something in the line that is read now can't be told."""
        self.unit.doubts.append(f"line {self.line}: {reason}" if self.line else reason)

    def behaviour(self) -> Behaviour:
        """All that was found, in the order of lines."""
        found = Behaviour()
        done = dict.fromkeys(act for unit in self.units for act in unit.acts)
        found.acts = sorted(done, key=lambda a: a.line)
        if acts.misleading(found.acts):
            found.doubt("a link leads out of the directory, and files are changed")
        for unit in self.units:
            for reason in unit.doubts:
                found.doubt(reason)
            found.directories += [d for d in unit.directories if d not in found.directories]
        return found


def bounded(old: Value, new: Value, growths: int) -> Value:
    """The union of both, with fewer texts where there are too many or they keep growing."""
    both = old | new
    if len(both) <= MAX_TEXTS and growths <= MAX_GROWTHS:
        return both
    if len(both) <= MAX_TEXTS and not any(isinstance(a, (*TEXTS, Thing)) and _growing(a) for a in new - old):
        return both
    return widen(both)


def _growing(atom: object) -> bool:
    return not (isinstance(atom, Const) and not isinstance(atom.value, bytes) and atom.kind in ("NoneType", "bool"))
