"""The objects that a program makes: names, functions, classes, containers, files. Each stands for all that one place
makes.

They are compared by identity: there is one for each place in the source, however often it runs.
"""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from humanlayer_agent.shell.languages.python.values import EMPTY, Value

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.behaviour import Act, Text

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Unit:
    """A piece that is read as a whole: the module, a function's body, what other code does with an object.

    What it does is noted anew each time that it is read; it is read again when a cell that it has read grows.
    """

    __slots__ = ("active", "acts", "body", "closure", "directories", "doubts", "queued", "runs", "scope")

    def __init__(
        self, body: "Sequence[ast.stmt] | ast.expr | Outside", scope: "Scope", closure: "Closure | None" = None
    ) -> None:
        self.body = body
        self.scope = scope
        self.closure = closure
        self.acts: list[Act] = []
        self.doubts: list[str] = []
        self.directories: list[Text] = []
        self.runs = 0
        self.queued = False
        self.active = False


class Outside:
    """An object that code which is not read here has got."""

    __slots__ = ("atom", "changes", "line", "whither")

    def __init__(self, atom: Any, whither: str, changes: bool, line: int) -> None:
        self.atom = atom
        self.whither = whither
        self.changes = changes
        """That code may put something into it."""
        self.line = line


class Cell:
    """Something that holds a value which only grows: a name, an attribute, what a function returns."""

    __slots__ = ("growths", "readers", "tick", "value")

    def __init__(self, value: Value = EMPTY) -> None:
        self.value = value
        self.readers: set[Unit] = set()
        self.growths = 0
        """In how many readings of a unit it grew."""
        self.tick = -1


class Scope:
    """The names of a module, function, class or comprehension."""

    __slots__ = ("cells", "closure", "cls", "declared", "exact", "kind", "local", "parent", "reader")

    def __init__(self, kind: str, parent: "Scope | None", local: frozenset[str] | None = None) -> None:
        self.kind = kind
        self.parent = parent
        self.local = local
        """The names that are bound here; None: whatever is bound while it is read."""
        self.declared: dict[str, Scope] = {}
        """Names that `global` and `nonlocal` send elsewhere."""
        self.cells: dict[str, Cell] = {}
        self.exact: dict[str, Value] = {}
        """What a name stands for while `reader` looks at one element of a comprehension's source."""
        self.reader: Unit | None = None
        self.closure: Closure | None = None
        self.cls: Class | None = None

    def cell(self, name: str) -> Cell:
        found = self.cells.get(name)
        if found is None:
            found = self.cells[name] = Cell()
        return found


class Closure:
    """A function of the program."""

    __slots__ = (
        "called", "cls", "computed", "defaults", "escaped", "given", "kind", "name", "node", "returns", "scope", "unit",
    )  # fmt: skip

    def __init__(self, node: FunctionNode, scope: Scope, name: str) -> None:
        self.node = node
        self.scope = scope
        self.name = name
        self.cls: Class | None = None
        """The class in whose body it stands."""
        self.kind = "function"
        """Or "static" or "class"."""
        self.computed = False
        """A property: reading the attribute calls it."""
        self.escaped = False
        """It may be called by code that is not read here."""
        self.called = False
        self.returns = Cell()
        """For a generator, the container of what it yields."""
        self.defaults = Cell()
        self.given: dict[str, Value] = {}
        """The defaults by parameter."""
        self.unit = Unit(node.body, scope, self)


class Class:
    """A class of the program."""

    __slots__ = ("bases", "definite", "fields", "heirs", "name", "readers", "scope", "stored", "watchers")

    def __init__(self, name: str, scope: Scope) -> None:
        self.name = name
        self.scope = scope
        self.bases = Cell()
        self.heirs: set[Class] = set()
        """The classes that have it among their bases."""
        self.watchers: set[Unit] = set()
        """Who is read again when that are more."""
        self.definite: frozenset[str] = frozenset()
        """Names that its body binds in any case: they hide those of its ancestors."""
        self.stored: set[str] = set()
        """Attributes that are stored in its instances."""
        self.readers: set[Unit] = set()
        self.fields: list[str] = []
        """Names that the body annotates, in order: a dataclass takes them as arguments."""


class Container:
    """A list, tuple, dict, set or generator. `items` are elements at a known position, None once that is lost."""

    __slots__ = ("growths", "handed", "items", "keys", "kind", "known", "named", "readers", "rest", "shared", "tick")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.items: list[Value] | None = []
        self.named: dict[str, Value] = {}
        """By key that is a known text."""
        self.rest: Value = EMPTY
        """Elements of which the position or key is not known."""
        self.keys: Value = EMPTY
        """Keys that are no known text."""
        self.known = False
        """Has it been filled for the first time?"""
        self.readers: set[Unit] = set()
        self.growths = 0
        self.tick = -1
        self.shared = False
        """Code that is not read here may change it."""
        self.handed: list[Value] = []
        """What such code has got in it, each by itself, however many they are."""


class File:
    """An open file: its path, and what is written to it."""

    __slots__ = ("loop", "modes", "paths", "unclear", "unit", "writes")

    def __init__(self, unit: Unit, loop: int) -> None:
        self.paths: Value = EMPTY
        self.modes: set[str] = set()
        self.writes: dict[int, Value] = {}
        """By place in the source."""
        self.unclear = False
        """Something else than a write of a text fills it."""
        self.unit = unit
        self.loop = loop
        """The loop that it is opened in: a write in another may happen many times."""


class Partial:
    """functools.partial: a function with its first arguments."""

    __slots__ = ("function", "keywords", "positional")

    def __init__(self) -> None:
        self.function = Cell()
        self.positional: list[Cell] = []
        self.keywords: dict[str, Cell] = {}
