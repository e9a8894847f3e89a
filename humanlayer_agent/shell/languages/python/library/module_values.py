"""Modules that the tables know, and what is in them."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import process_environment, tables
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    ENVIRON,
    PLAIN,
    SELF,
    SYS_MODULES,
    SYS_PATH,
    Function,
    Lib,
    Module,
    Type,
    Value,
    const,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


_SEPARATORS = {"sep": "/", "curdir": ".", "pardir": "..", "extsep": ".", "devnull": "/dev/null", "pathsep": ":"}
CONSTANTS = {
    "os": {**_SEPARATORS, "linesep": "\n", "name": "posix"},
    "os.path": _SEPARATORS,
    "sys": {"executable": "python3", "platform": "linux"},
    "string": {
        "ascii_lowercase": "abcdefghijklmnopqrstuvwxyz",
        "ascii_uppercase": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "ascii_letters": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        "digits": "0123456789",
    },
}
FLAGS = {"O_RDONLY": 0, "O_WRONLY": 1, "O_RDWR": 2, "O_CREAT": 64, "O_EXCL": 128, "O_TRUNC": 512, "O_APPEND": 1024}
MARKED = {
    ("os", "environ"): ENVIRON,
    ("os", "environb"): ENVIRON,
    ("sys", "path"): SYS_PATH,
    ("sys", "modules"): SYS_MODULES,
}


def module(dotted: str) -> Value:
    """The module `dotted`, as an import gives it."""
    if dotted == "__main__":
        return frozenset({SELF})
    table = tables.module(dotted)
    if table is not None:
        return frozenset({Module(table.name)})
    return frozenset({Module(dotted) if tables.standard(dotted) else Lib(dotted)})


def of_module(engine: "Engine", atom: Module, name: str) -> Value:
    """An attribute of a module that the tables know."""
    return engine.read(engine.patch(atom.name, name)) | _of_module(engine, atom.name, name)


def _of_module(engine: "Engine", owner: str, name: str) -> Value:
    if (mark := MARKED.get((owner, name))) is not None:
        return frozenset({mark})
    if (text := CONSTANTS.get(owner, {}).get(name)) is not None:
        return const(text)
    if owner == "os" and name in FLAGS:
        return const(FLAGS[name])
    if (owner, name) == ("sys", "argv"):
        return process_environment.argv(engine)
    if owner == "builtins" and name in names.BUILTIN_TYPES:
        return frozenset({Type(owner, name)})
    table = tables.module(owner)
    if owner == "?" or table is None:
        return module(name) if name in names.REACHED else frozenset({Function(owner, name)})
    if (inner := tables.module(f"{owner}.{name}")) is not None:
        return frozenset({Module(inner.name)})
    if name in table.obscure:
        engine.doubt(f"{owner}.{name} can't be followed")
        return ANYTHING
    if table.function(name) is not None:
        return frozenset({Function(owner, name)})
    if (kind := table.type(name)) is not None:
        return frozenset({Type(owner, kind.name)})
    if table.value(name):
        return PLAIN if not name.startswith(("std", "__std")) else frozenset({process_environment.stream(engine)})
    return _unlisted(owner, name)


def _unlisted(owner: str, name: str) -> Value:
    inner = tables.module(f"{owner.rpartition('.')[0]}.{name}") or tables.module(names.ALIASES.get(name, ""))
    if inner is not None and tables.standard(owner):
        return frozenset({Module(inner.name)})
    bare = name if name in tables.STANDARD else name.lstrip("_")
    reached = tables.module(bare) if bare in tables.STANDARD or bare in names.REACHED else None
    if reached is not None and reached.dangerous and bare != owner.rpartition(".")[2]:
        return frozenset({Module(reached.name)})
    if tables.standard(owner) or (table := tables.module(owner)) is None or table.others:
        return frozenset({Function(owner, name)})
    return frozenset({Lib(f"{owner}.{name}")})
