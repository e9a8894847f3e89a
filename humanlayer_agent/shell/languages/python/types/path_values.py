"""The values of Python's path functions: os.path and pathlib, over known and half-known texts."""

import posixpath
from collections.abc import Callable

from humanlayer_agent.shell.languages.python.values import (
    ANY,
    DATA,
    WORD,
    Atom,
    Below,
    Const,
    Mark,
    PathAtom,
    Place,
    Prefix,
    Thing,
    Value,
)

HERE = Place("")
HOME = Place("~")
TEMPORARY = Place("/tmp/made-by-tempfile")
"""A fresh file or directory below /tmp: its name is random, and nothing else is in it."""


def path_atom(atom: Atom) -> PathAtom:
    """`atom` as a path."""
    if isinstance(atom, Thing):
        return DATA if atom.payload is None else atom.payload
    if isinstance(atom, Const) and isinstance(atom.value, bytes):
        return atom.value.decode("utf-8", "surrogateescape")
    if isinstance(atom, (str, Place, Below, Prefix)):
        return atom
    return WORD if atom is WORD else DATA


def each(value: Value, change: Callable[[PathAtom], PathAtom]) -> Value:
    """Every path in `value`, changed."""
    return frozenset(change(path_atom(a)) for a in value)


def climbs(text: str) -> bool:
    """May `text` lead out of the directory that it is written in?"""
    return ".." in text.split("/")


def join(first: PathAtom, second: PathAtom) -> PathAtom:
    """os.path.join: a second path that is absolute stands alone."""
    if isinstance(second, Place) or (isinstance(second, str) and second.startswith("/")):
        return second
    if isinstance(second, Below) and (second.anchored or second.directory.startswith("/")):
        return second
    if second is DATA or second is ANY or isinstance(second, Prefix):
        if isinstance(second, Prefix) and second.text.startswith("/"):
            return second
        known = _text(first)
        return Prefix(posixpath.join(known, second.text if isinstance(second, Prefix) else "")) if known else DATA
    if isinstance(first, Prefix) or first is DATA or first is ANY:
        return first if isinstance(first, Prefix) else DATA
    if first is WORD:
        first = Below(".")
    if isinstance(second, Mark):
        second = Below(".")
    return _join_known(first, second)


def _join_known(first: PathAtom, second: PathAtom) -> PathAtom:
    if isinstance(second, str):
        if isinstance(first, str):
            return posixpath.join(first, second)
        if isinstance(first, Place):
            return Place(posixpath.join(first.text, second))
        if isinstance(first, Below):
            plain = second.strip("./") != "" and not climbs(second)
            return DATA if climbs(second) else Below(first.directory, first.strict or plain, first.anchored)
        return DATA
    if not isinstance(second, Below):
        return DATA
    if isinstance(first, Below):
        inner = first.directory
        return Below(inner, first.strict or second.strict, first.anchored)
    text = _text(first)
    if text is None:
        return DATA
    if isinstance(first, Place) and text.startswith("~"):
        return Prefix(text + "/")
    directory = posixpath.join(text, "" if second.directory == "." else second.directory).rstrip("/") or (
        "." if not text else "/"
    )
    return Below(directory, second.strict, isinstance(first, Place))


def _text(path: PathAtom) -> str | None:
    return path if isinstance(path, str) else path.text if isinstance(path, Place) else None


def absolute(path: PathAtom) -> PathAtom:
    """os.path.abspath, Path.resolve: the text stays relative to the working directory, but is known to be absolute."""
    if isinstance(path, str):
        if path.startswith("/"):
            return posixpath.normpath(path) if not climbs(path) else path
        return Place("" if path == "." else path)
    if isinstance(path, Below):
        return Below(path.directory, path.strict, anchored=not path.directory.startswith("/"))
    return Below(".", anchored=True) if path is WORD else path


def expand_user(path: PathAtom) -> PathAtom:
    """os.path.expanduser."""
    if isinstance(path, str) and path.startswith("~"):
        return Place(path)
    return path


def parent(path: PathAtom) -> PathAtom:
    """os.path.dirname."""
    if isinstance(path, str):
        return posixpath.dirname(path)
    if isinstance(path, Place):
        if path.text in ("", ".", "~") or posixpath.basename(path.text) in ("..", "."):
            return Place(posixpath.join(path.text, ".."))
        return Place(posixpath.dirname(path.text))
    if isinstance(path, Below):
        if path.strict:
            return Below(path.directory, strict=False, anchored=path.anchored)
        if path.directory in (".", "/") or climbs(path.directory):
            return DATA
        return Below(posixpath.dirname(path.directory) or ".", strict=False, anchored=path.anchored)
    return "" if path is WORD else DATA


def pure_parent(path: PathAtom) -> PathAtom:
    """Path.parent: that of a name alone is `.`."""
    up = parent(path.rstrip("/") or "/" if isinstance(path, str) else path)
    return "." if up == "" else up


def name(path: PathAtom) -> PathAtom:
    """os.path.basename."""
    if isinstance(path, str):
        return posixpath.basename(path)
    if isinstance(path, Place):
        last = posixpath.basename(path.text)
        return last if last and not last.startswith("~") and last not in (".", "..") else DATA
    if isinstance(path, Below) and path.strict:
        return Below(".")
    return WORD if path is WORD else DATA


def split_extension(path: PathAtom) -> tuple[PathAtom, PathAtom]:
    """os.path.splitext."""
    if isinstance(path, str):
        return posixpath.splitext(path)
    if isinstance(path, Place) and path.text:
        root, ending = posixpath.splitext(path.text)
        return Place(root), ending
    return (path, DATA) if isinstance(path, Below) and path.strict else (DATA, DATA)


def with_name(path: PathAtom, new: PathAtom) -> PathAtom:
    """Path.with_name."""
    if isinstance(new, str) and "/" in new:
        return DATA
    return join(pure_parent(path), new)


def with_suffix(path: PathAtom, ending: PathAtom) -> PathAtom:
    """Path.with_suffix."""
    if not isinstance(ending, str) or "/" in ending:
        return DATA
    if isinstance(path, str):
        return posixpath.splitext(path)[0] + ending
    return path if isinstance(path, Below) and path.strict else DATA


def relative(path: PathAtom) -> PathAtom:
    """os.path.relpath, with no start: the same file, as long as the path is not absolute."""
    if isinstance(path, str) and not path.startswith("/"):
        return path
    if isinstance(path, Place) and not path.text.startswith("~"):
        return path.text or "."
    if isinstance(path, Below) and not path.directory.startswith("/"):
        return Below(path.directory, path.strict)
    return DATA


def matches(pattern: PathAtom) -> PathAtom:
    """What glob.glob(pattern) finds."""
    if not isinstance(pattern, str):
        if isinstance(pattern, Place):
            found = matches(pattern.text)
            return absolute(found) if not pattern.text.startswith("~") else Prefix(pattern.text)
        return Below(pattern.directory, pattern.strict, pattern.anchored) if isinstance(pattern, Below) else DATA
    parts = pattern.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(c in part for c in "*?[")), None)
    if fixed is None:
        return pattern
    if ".." in parts[fixed:]:
        return DATA
    return Below("/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else "."))


def inside(directory: PathAtom, *, strict: bool = True) -> PathAtom:
    """Any path in `directory`."""
    if isinstance(directory, str):
        return Below(directory or ".", strict)
    if isinstance(directory, Place):
        return Prefix(directory.text) if directory.text.startswith("~") else Below(directory.text or ".", strict, True)
    if isinstance(directory, Below):
        return Below(directory.directory, directory.strict or strict, directory.anchored)
    return Below(".", strict) if directory is WORD else DATA
