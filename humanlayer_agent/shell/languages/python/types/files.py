"""Files: opening them, and what is written to them."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages import by_name
from humanlayer_agent.shell.languages.behaviour import Text
from humanlayer_agent.shell.languages.python.library import effects
from humanlayer_agent.shell.languages.python.library.tables import Effect
from humanlayer_agent.shell.languages.python.objects import File
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANYTHING,
    EMPTY,
    NONE,
    PLAIN,
    WORDS,
    Bound,
    Const,
    Value,
    numbers,
    only_texts,
    operands,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_MODE = re.compile(r"[rwaxbtU+]{1,4}(?:[:|][a-z0-9*]*)?")
_WRITE, _READ_WRITE, _APPEND = 1, 2, 1024


def opened(engine: "Engine", effect: Effect, value: Value, args: Args, origin: str) -> File:
    """A file is opened; what may be done to it is what its mode says."""
    value = names_file(effects.path_like(engine, value))
    kinds = _flags(args, effect) if effect.flags is not None else _modes(args, effect)
    if kinds is None:
        engine.doubt("a file is opened in a mode that is not known")
        kinds = {"read", "write"}
    file = engine.site(args.node, "file", lambda: File(engine.unit, engine.loop))
    file.paths |= value
    file.modes |= kinds
    if file not in engine.files:
        engine.files.append(file)
    for kind in sorted(kinds):
        touched(engine, kind, value, origin, role=effect.role)
    return file


def names_file(value: Value) -> Value:
    """Without the numbers of files that are open already."""
    return frozenset(
        a for a in value if not (isinstance(a, Const) and not isinstance(a.value, bytes)) and not isinstance(a, File)
    )


def touched(engine: "Engine", kind: str, value: Value, origin: str, *, role: str = "", recursive: bool = False) -> None:
    """`kind` is done to the files that `value` names."""
    named = names_file(value)
    if named or not value:
        engine.act(kind, named, origin, role=role, recursive=recursive)


def kinds_of(mode: str) -> set[str] | None:
    """What a mode of open() allows; None where it is none."""
    if not _MODE.fullmatch(mode):
        return None
    letters = re.split(r"[:|]", mode)[0]
    if "a" in letters:
        return {"append"}
    if "w" in letters or "x" in letters:
        return {"write"}
    return {"read", "write"} if "+" in letters else {"read"}


def _modes(args: Args, effect: Effect) -> set[str] | None:
    value = args.operand(effect.mode) if effect.mode is not None else None
    if value is None:
        return kinds_of(effect.assume)
    known = only_texts(value - NONE)
    if known is None:
        return kinds_of(effect.assume) if value == NONE else None
    out: set[str] = set() if not value & NONE else set(kinds_of(effect.assume) or ())
    for each in known:
        kinds = kinds_of(each)
        if kinds is None:
            return None
        out |= kinds
    return out


def _flags(args: Args, effect: Effect) -> set[str] | None:
    """What the flags of os.open allow."""
    value = args.operand(effect.flags) if effect.flags is not None else None
    known = numbers(value) if value is not None else None
    if known is None:
        return None
    out: set[str] = set()
    for flags in known:
        if flags & _APPEND:
            out.add("append")
        elif flags & (_WRITE | _READ_WRITE | 64 | 512):
            out |= {"write", "read"} if flags & _READ_WRITE else {"write"}
        else:
            out.add("read")
    return out


def method(engine: "Engine", file: File, name: str, args: Args) -> Value:
    """`file.name(...)`."""
    if name == "write":
        _written(engine, file, args)
        return WORDS
    if name in ("writelines", "seek", "truncate", "reconfigure", "__setattr__"):
        file.unclear = file.unclear or name != "seek"
        for value in args.every():
            capability_leaks.escape(engine, value, f".{name}")
        return WORDS
    if name in ("__enter__", "__aenter__", "__iter__", "detach"):
        return frozenset({file})
    if name in ("read", "readline", "readlines", "readinto", "read1", "__next__", "readall", "peek"):
        return PLAIN
    if name in ("close", "flush", "__exit__", "fileno", "isatty", "readable", "writable", "seekable", "tell"):
        return WORDS
    for value in args.every():
        capability_leaks.escape(engine, value, f".{name}", changes=True)
    return ANYTHING


def attribute(engine: "Engine", file: File, name: str) -> Value:
    """`file.name`."""
    if name == "name":
        return file.paths or PLAIN
    if name in ("buffer", "raw", "file"):
        return frozenset({file})
    if name in ("closed", "mode", "encoding", "newlines", "errors"):
        return PLAIN
    return frozenset({Bound(file, name)}) | attributes.stored(engine, name)


def _written(engine: "Engine", file: File, args: Args) -> None:
    value = args.at(0) or EMPTY
    file.writes[id(args.node)] = file.writes.get(id(args.node), EMPTY) | value
    if engine.loop != file.loop or engine.unit is not file.unit:
        file.unclear = True


def whole(engine: "Engine", value: Value, text: Value | None, args: Args) -> None:
    """A file's whole text is written at once (Path.write_text)."""
    file = engine.site(args.node, "whole", lambda: File(engine.unit, engine.loop))
    file.paths |= value
    file.modes.add("write")
    if text is not None:
        file.writes[id(args.node)] = file.writes.get(id(args.node), EMPTY) | text
    if file not in engine.files:
        engine.files.append(file)


def hidden_code(engine: "Engine") -> str | None:
    """A file that is code by its name, and that is written with a text that is not known; None where there is none."""
    for file in engine.files:
        if not file.modes & {"write", "append"}:
            continue
        if file.writes and not file.unclear and all(only_texts(text) is not None for text in file.writes.values()):
            continue
        for path in operands(file.paths):
            for name in path.choices:
                if by_name(name) not in (None, "notebook"):
                    return name
    return None


def result(engine: "Engine") -> list[tuple[Text, str | None]]:
    """The files that are written, with their texts where they are known."""
    out: list[tuple[Text, str | None]] = []
    for file in engine.files:
        if not file.modes & {"write", "append"}:
            continue
        content: list[str | None] = [None]
        if not file.unclear and len(file.writes) == 1 and "append" not in file.modes and "read" not in file.modes:
            known = only_texts(next(iter(file.writes.values())))
            content = list(known) if known else [None]
        for path in operands(file.paths):
            out += [(path, text) for text in content]
    return list(dict.fromkeys(out))
