"""The files in which node looks for a module, and the language that each is in."""

import posixpath

from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader

_TYPED = (".ts", ".mts", ".cts")
_PLAIN = (".js", ".mjs", ".cjs")
MODULE_ENDINGS = (*_PLAIN, *_TYPED)
"""How the names of modules end."""
_ENDINGS = (".js", ".json", ".node", "/package.json", "/index.js", "/index.json", "/index.node")
"""What node puts behind the name of a module that it looks for."""
_TYPED_ENDINGS = (".ts", ".tsx", ".mts", ".cts", "/index.ts", "/index.tsx")


def language_of(path: str) -> str:
    """The language in which node, or tsx, reads the file at `path`; "" where nobody here knows."""
    ending = posixpath.splitext(path)[1]
    if ending in _TYPED:
        return "typescript"
    return "javascript" if ending in (*_PLAIN, "") else ""


def load(run: Run, path: str, origin: str, *, typed: bool) -> None:
    """Code loads the module at `path`, as node looks for it: whatever is there is run. Call it when all is known that
    the action writes.
    """
    _load(run, _found(run, path, typed=typed) or [path], origin)


def load_named(run: Run, path: str, origin: str, *, sure: bool) -> None:
    """Settings of a tool name the module at `path`. Where nothing is there yet, it is code of the project's that comes
    later; `sure`: unless it is the name of a package.
    """
    run.walk.scripts.named.add(posixpath.basename(path))
    if found := _found(run, path, typed=True):
        _load(run, found, origin)
    elif sure:
        run.path("execute", spec_reader.implied(run.command, path), role="project", origin=origin)


def _found(run: Run, path: str, *, typed: bool) -> list[str]:
    """The files that node may take for the module at `path`."""
    there = run.walk.scripts.there
    ending = posixpath.splitext(path)[1]
    names = [path]
    if typed and ending in _PLAIN:
        names.append(posixpath.splitext(path)[0] + ending.replace("j", "t"))
    if ending not in MODULE_ENDINGS:
        names += [path + each for each in _ENDINGS]
    if ending not in _TYPED and typed:
        names += [path + each for each in _TYPED_ENDINGS]
    return [name for name in names if there(name)]


def _load(run: Run, names: list[str], origin: str) -> None:
    for name in names:
        word = spec_reader.implied(run.command, name)
        if name.endswith(".json") and not name.endswith("/package.json"):
            run.path("read", word, origin=origin)
        else:
            run.script(word, origin, language="" if name.endswith(".json") else language_of(name))
