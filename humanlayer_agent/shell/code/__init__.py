"""Code in other languages than bash: which language a file is in, and what its code does."""

import posixpath
import re
from collections.abc import Sequence

from humanlayer_agent.shell.code.behaviour import Behaviour, Text

__all__ = ["Behaviour", "Text", "language_of", "read"]

SHELLS = {"sh": "sh", "bash": "bash", "dash": "sh", "ash": "sh", "ksh": "sh"}
_SHEBANG = re.compile(r"#![ \t]*([^\s]+)(?:[ \t]+([^\n]*))?")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")
_ENDINGS = {".py": "python", ".pyw": "python", ".sh": "bash", ".bash": "bash", ".ipynb": "notebook", ".mk": "make"}
_NAMES = {"Makefile": "make", "makefile": "make", "GNUmakefile": "make", "package.json": "npm"}
_HOOKS = "/.git/hooks/", "/.husky/"


def language_of(path: str, text: str) -> str | None:
    """The language that the file at `path` is run in: by its first line, else by its name; None where neither tells."""
    return interpreter(text) or by_name(path)


def by_name(path: str) -> str | None:
    """The language that a file's name tells; None where it is no code."""
    name = posixpath.basename(path)
    if name in _NAMES:
        return _NAMES[name]
    if any(part in path for part in _HOOKS) and "." not in name:
        return "sh"
    return _ENDINGS.get(posixpath.splitext(name)[1])


def interpreter(text: str) -> str | None:
    """The language of a `#!` line: "python", "bash", "sh", or the name of another program; None without one."""
    found = _SHEBANG.match(text)
    if found is None:
        return None
    words = [found[1], *(found[2] or "").split()]
    if posixpath.basename(words[0]) == "env":
        words = [w for w in words[1:] if not w.startswith("-") and "=" not in w] or [""]
    name = posixpath.basename(words[0])
    return "python" if _PYTHON.fullmatch(name) else SHELLS.get(name, name)


def read(language: str, text: str, *, argv: Sequence[Text] | None = None, path: str | None = None) -> Behaviour | None:
    """What `text` does when it is run; None where nobody here reads this language.

    Args:
        language: as `language_of` gives it, but no shell: a shell's text is analysed as commands are.
        argv: the words it is started with, the script's own name first, where they are known.
        path: the absolute path of the file, where it is one.
    """
    if language == "python":
        from humanlayer_agent.shell.code import python

        return python.read(text, argv=argv, path=path)
    return None
