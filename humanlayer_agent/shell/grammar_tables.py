"""bashlex with the tables of its grammar from a file.

bashlex 0.18 has PLY make its parser anew each time it is imported, which takes a tenth of a second, most of what a
short command on the slow path takes. The tables, and the rules of the grammar, follow from its source alone, so they
are kept in the user's state directory, readable by the user alone. They are for that source as long as Python takes its
compiled modules for the same: by time and size. Where anything is not as it is in 0.18, it is imported as it is.
"""

import builtins
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType

from humanlayer_agent.light.digests import sha256
from humanlayer_agent.light.later import Later
from humanlayer_agent.light.typed import TYPE_CHECKING, Any
from humanlayer_agent.places import read_own_json, state_path, write_own_json

if TYPE_CHECKING:
    from importlib.abc import Loader  # whose import takes a while, and these need nothing of it

_FORM = 3
"""Of the file."""
_SOURCES = ("parser.py", "tokenizer.py", "yacc.py")
"""The modules of bashlex that its tables follow from: the grammar, its tokens, and PLY."""


def import_bashlex() -> ModuleType:
    """The module `bashlex`."""
    if "bashlex" not in sys.modules:
        try:
            _import_with(_Finder())
        except Exception:  # our file, or what we know of its inside: import it as it is
            for name in [name for name in sys.modules if name.partition(".")[0] == "bashlex"]:
                del sys.modules[name]
    return import_module("bashlex")


def _import_with(finder: "_Finder") -> None:
    sys.meta_path.insert(0, finder)
    try:
        import_module("bashlex")
    finally:
        sys.meta_path.remove(finder)


def kept() -> str | None:
    """Where the tables of the bashlex that is installed are kept; None where it has no source."""
    spec = find_spec("bashlex")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    try:
        about = [os.stat(os.path.join(folder, name)) for name in _SOURCES]
    except OSError:
        return None
    seen = [_FORM, sys.hexversion, folder, *((each.st_mtime_ns, each.st_size) for each in about)]
    return state_path("bashlex", f"{sha256(repr(seen).encode()).hexdigest()}.json")


class _Finder:
    """Finds `bashlex.yacc` only, and makes it take its tables from the file."""

    def __init__(self) -> None:
        self.file = kept()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "bashlex.yacc" or self.file is None:
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.file)  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, loader: "Loader", file: str) -> None:
        self.loader, self.file = loader, file

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        self.loader.exec_module(module)
        vars(module)["yacc"] = _remembering(module, self.file)


def _import(name: str, *how: Any) -> Any:
    """`__import__` for PLY, which needs `inspect` only to make tables; its import takes as long as all of bashlex's."""
    return Later(name) if name == "inspect" else __import__(name, *how)


def _remembering(ply: Any, file: str) -> Any:
    """`ply.yacc`, which makes the parser of the module that calls it: from `file`, or else it writes that."""
    make, name = ply.yacc, os.path.basename(file)

    def yacc(**options: Any) -> Any:
        names = ply.get_caller_module_dict(2)
        content = read_own_json(file)
        if content is not None and content.get("for") == name:
            return _parser(ply, names, content)
        made = make(module=sys.modules[names["__name__"]], **options)
        write_own_json(file, {"for": name, **_content(made)})
        return made

    return yacc


def _content(parser: Any) -> dict[str, Any]:
    """What `_parser` makes the same parser of."""
    return {
        "productions": [(each.name, each.prod, each.func) for each in parser.productions],
        "defaulted": list(parser.defaulted_states.items()),
        "action": _packed(parser.action),
        "goto": _packed(parser.goto),
    }


def _parser(ply: Any, names: dict[str, Any], content: dict[str, Any]) -> Any:
    table = ply.LRTable.__new__(ply.LRTable)
    rules = enumerate(content["productions"])
    table.lr_productions = [ply.Production(n, rule, to, func=f) for n, (rule, to, f) in rules]
    table.lr_action, table.lr_goto = {}, {}
    table.bind_callables(names)
    made = ply.LRParser(table, names["p_error"])
    made.action, made.goto = _Table(content["action"]), _Table(content["goto"])
    made.defaulted_states = dict(content["defaulted"])
    return made


def _packed(table: Any) -> dict[str, list[str]]:
    """`table` for the file: each set of symbols once; a row is the number of its set, and a value for each symbol.

    One value stands for all where they are the same.
    """
    sets: dict[tuple[str, ...], int] = {}
    rows = []
    for state in range(len(table)):
        row = table[state]
        values = set(row.values()) if len(set(row.values())) == 1 else row.values()
        rows.append(" ".join(map(str, [sets.setdefault(tuple(row), len(sets)), *values])))
    return {"symbols": [" ".join(each) for each in sets], "rows": rows}


class _Table(dict[int, dict[str, int]]):
    """What to do by state and symbol. A row is read when it is first asked for: a command needs one in ten."""

    def __init__(self, content: dict[str, list[str]]) -> None:
        self.symbols, self.rows = content["symbols"], content["rows"]

    def __missing__(self, state: int) -> dict[str, int]:
        n, *values = map(int, self.rows[state].split())
        symbols = self.symbols[n].split()
        row = dict(zip(symbols, values * len(symbols) if len(values) == 1 else values, strict=True))
        return self.setdefault(state, row)
