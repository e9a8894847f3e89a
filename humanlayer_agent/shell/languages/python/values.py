"""The values of Python expressions: a Value is a set of atoms, each one thing that the expression may stand for.

A known text is a `str` atom; everything else is one of the classes below. There is no order of statements: a name
has the union of all that is bound to it anywhere, so values only grow, and every kind of atom is bounded by the
program's text (texts by `MAX_TEXTS`, see `widen`).
"""

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, Union

from humanlayer_agent.shell.languages.behaviour import UNKNOWN, Text

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.objects import Class, Closure, Container, File, Partial

MAX_TEXTS = 32
MAX_LENGTH = 300_000
"""A text longer than this is not kept."""


class Mark:
    """A value that is not known, and what is known about it all the same."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


ANY = Mark("ANY")
"""An object of a library or the project; its methods are their code."""
DATA = Mark("DATA")
"""Plain data (a text, a number) that nobody knows."""
WORD = Mark("WORD")
"""A text that is not known, but is not empty and holds no slash or dot: a number, a random name."""
ENVIRON = Mark("ENVIRON")
"""os.environ, or what a copy of it holds."""
PICKLED = Mark("PICKLED")
"""What pickle.dumps gave here."""
SHOWN = Mark("SHOWN")
"""What repr() gave of an object that is not the program's."""
SYS_PATH = Mark("SYS_PATH")
SYS_MODULES = Mark("SYS_MODULES")
SELF = Mark("SELF")
"""The module that is read."""


@dataclass(frozen=True, slots=True)
class Const:
    """A number, bytes, None, True or False. `kind` keeps 1 and True apart."""

    kind: str
    value: bytes | int | None


@dataclass(frozen=True, slots=True)
class Place:
    """An absolute path that is known from the home directory ("~/x") or from the working directory ("x") only."""

    text: str


@dataclass(frozen=True, slots=True)
class Below:
    """A path in a directory, without `..`. `strict`: not the directory itself.

    `anchored`: the path is absolute although `directory` is written from the working directory.
    """

    directory: str
    strict: bool = True
    anchored: bool = False


@dataclass(frozen=True, slots=True)
class Prefix:
    """A text of which the beginning is known."""

    text: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module that the tables know, or of the standard library; "?" is one that nobody can tell."""

    name: str


@dataclass(frozen=True, slots=True)
class Lib:
    """A module of a library or the project, or something in it, by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a known module, by its dotted name ("os.remove", "builtins.open")."""

    module: str
    name: str

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Type:
    """A class of a known module."""

    module: str
    name: str

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True)
class Thing:
    """An instance of a class of a known module. `payload` is what it stands for: the path of a Path."""

    module: str
    name: str
    payload: "str | Place | Below | Prefix | Mark | None" = None


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance of a class in the program."""

    cls: "Class"


@dataclass(frozen=True, slots=True)
class Super:
    """`super()` in a method of `cls`."""

    cls: "Class"


@dataclass(frozen=True, slots=True)
class Method:
    """A function of the program that was taken from an object, with that object."""

    closure: "Closure"
    receiver: "Atom"


@dataclass(frozen=True, slots=True)
class Bound:
    """A method, by name, of something that is no object of the program."""

    receiver: "Atom"
    name: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """The dict of names of a module, class or object: vars(x), x.__dict__, globals()."""

    owner: "Atom"


@dataclass(frozen=True, slots=True)
class Code:
    """Compiled code of which the text is known."""

    text: str


Atom: TypeAlias = Union[
    str, Mark, Const, Place, Below, Prefix, Module, Lib, Function, Type, Thing, Instance, Super, Method, Bound,
    Namespace, Code, "Closure", "Class", "Container", "File", "Partial",
]  # fmt: skip
Value: TypeAlias = frozenset[Atom]
PathAtom: TypeAlias = str | Place | Below | Prefix | Mark

EMPTY: Value = frozenset()
ANYTHING: Value = frozenset({ANY})
PLAIN: Value = frozenset({DATA})
WORDS: Value = frozenset({WORD})
NONE: Value = frozenset({Const("NoneType", None)})
TEXTS = (str, Place, Below, Prefix, Const)


def const(value: object) -> Value:
    """The value of a literal."""
    if isinstance(value, str):
        return frozenset((value,)) if len(value) <= MAX_LENGTH else PLAIN
    if value is None:
        return NONE
    if isinstance(value, (int, bytes)):
        return frozenset((Const(type(value).__name__, value),))
    return WORDS if isinstance(value, float) else PLAIN


def join(values: Iterable[Value]) -> Value:
    """The union of `values`."""
    return EMPTY.union(*values)


def texts(value: Value) -> list[str]:
    """The known texts in `value`; bytes as the text that the system takes them for."""
    out = [a for a in value if type(a) is str]
    for atom in value:
        if type(atom) is Const and isinstance(atom.value, bytes):
            out.append(atom.value.decode("utf-8", "surrogateescape"))
    return sorted(out) if len(out) > 1 else out


def only_texts(value: Value) -> list[str] | None:
    """The texts that `value` is one of; None where it may be something else."""
    found = texts(value)
    return found if found and len(found) == len(value) else None


def one_text(value: Value) -> str | None:
    """The text that `value` is."""
    return next(iter(found)) if (found := only_texts(value)) and len(found) == 1 else None


def numbers(value: Value) -> list[int] | None:
    """The integers that `value` is one of; None where it may be something else."""
    out = [a.value for a in value if type(a) is Const and isinstance(a.value, int)]
    return out if out and len(out) == len(value) else None


def truth(value: Value) -> bool | None:
    """True or False where `value` is that constant."""
    found = {bool(a.value) if type(a) is Const else bool(a) if type(a) is str else None for a in value}
    return found.pop() if len(found) == 1 else None


def widen(value: Value) -> Value:
    """`value` with its texts replaced by what they have in common; the rest stays."""
    kept = frozenset(a for a in value if not isinstance(a, (*TEXTS, Thing)) or _few(a))
    things: dict[tuple[str, str], set[Atom]] = {}
    for atom in value:
        if isinstance(atom, Thing) and atom.payload is not None:
            things.setdefault((atom.module, atom.name), set()).add(atom.payload)
    widened = [Thing(*t, p) for t, payloads in things.items() for p in _places(frozenset(payloads))]
    numeric = any(isinstance(a, Const) and a.kind == "int" for a in value)
    return kept.union(_places(value), widened, WORDS if numeric else ())


def simpler(value: Value) -> Value:
    """`value` with all that belongs to libraries, and methods of plain data, as one thing."""
    plain = (str, Mark, Const, Place, Below, Prefix, Lib)
    kept = frozenset(
        a for a in value if not isinstance(a, Lib) and not (isinstance(a, Bound) and isinstance(a.receiver, plain))
    )
    return kept | ANYTHING


def _few(atom: Atom) -> bool:
    """Is it of a kind of which there are few in any program?"""
    if isinstance(atom, Thing):
        return atom.payload is None
    return isinstance(atom, Const) and atom.kind in ("NoneType", "bool")


def _places(value: Value) -> list[PathAtom]:
    known = texts(value)
    belows = [a for a in value if isinstance(a, Below)]
    loose = any(isinstance(a, (Place, Prefix)) for a in value)
    if not known and not belows and not loose:
        return [a for a in value if isinstance(a, Mark)]
    anchored = {b.anchored for b in belows} | ({False} if known else set())
    if loose or DATA in value or len(anchored) > 1:
        return [DATA]
    found = common([*known, *(b.directory for b in belows)])
    if isinstance(found, Below) and anchored == {True}:
        return [Below(found.directory, strict=False, anchored=True)]
    return [found]


def common(paths: list[str]) -> PathAtom:
    """What any of `paths`, as a path, is."""
    if any(".." in p.split("/") or p.startswith("~") or "\n" in p for p in paths) or not all(paths):
        return DATA
    if not any(p.startswith("/") for p in paths):
        return Below(".", strict=False)
    if not all(p.startswith("/") for p in paths):
        return DATA
    directory = posixpath.commonpath([posixpath.normpath(p).lstrip("/") for p in paths])
    return Below("/" + directory, strict=False) if directory else DATA


def operands(value: Value) -> list[Text]:
    """`value` as the operands of acts: the known texts as one, and one for each thing that is less than known."""
    out = [Text.of(*_choices(value))] if any(True for _ in _choices(value)) else []
    for atom in value:
        place = atom.payload if isinstance(atom, Thing) else atom
        if isinstance(place, Below):
            out.append(Text(below=place.directory))
        elif isinstance(place, Prefix):
            out.append(Text(prefix=place.text))
        elif place is WORD:
            out.append(Text(below="."))
        elif not isinstance(place, (str, Place, Const)):
            out.append(UNKNOWN)
    first = 1 if out and out[0].choices else 0
    return [*out[:first], *sorted(set(out[first:]), key=_order)] or [UNKNOWN]


def _order(text: Text) -> tuple[str, str]:
    return text.below or "", text.prefix


def _choices(value: Value) -> Iterator[str]:
    found = []
    for atom in value:
        place = atom.payload if isinstance(atom, Thing) else atom
        if isinstance(place, str):
            found.append(place)
        elif isinstance(place, Place):
            found.append(place.text or ".")
        elif isinstance(place, Const) and isinstance(place.value, bytes):
            found.append(place.value.decode("utf-8", "surrogateescape"))
    return iter(sorted(found))
