"""The files in which node looks for a module, and the language that each is in."""

import posixpath

from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader

_TYPED = (".ts", ".mts", ".cts")
_PLAIN = (".js", ".mjs", ".cjs")
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
    there = run.walk.scripts.there
    ending = posixpath.splitext(path)[1]
    names = [path]
    if typed and ending in _PLAIN:
        names.append(posixpath.splitext(path)[0] + ending.replace("j", "t"))
    if ending not in (*_PLAIN, *_TYPED):
        names += [path + each for each in _ENDINGS]
    if ending not in _TYPED and typed:
        names += [path + each for each in _TYPED_ENDINGS]
    found = [name for name in names if there(name)] or [path]
    for name in found:
        word = spec_reader.implied(run.command, name)
        if name.endswith(".json") and not name.endswith("/package.json"):
            run.path("read", word, origin=origin)
        else:
            run.script(word, origin, language="" if name.endswith(".json") else language_of(name))
