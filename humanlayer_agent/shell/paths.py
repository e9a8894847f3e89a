"""Path texts: absolute forms, and what a wildcard pattern may stand for."""

import fnmatch
import posixpath
import re
from collections.abc import Iterable

_ALL_NAMES = re.compile(r"\.{0,2}(?:\[[!^]\.\])?\?{0,3}\*[*?]{0,3}")
"""Patterns that nearly every name (or every hidden name) in a directory matches."""
_BRACKET = re.compile(r"\[[!^]?\]?(?:\[[:.=][^\]]*[:.=]\]|[^\]])*\]")


def absolute_path(text: str, cwd: str) -> str:
    """Return `text` as an absolute path from `cwd`. `..` stays: only the kernel knows where it leads through a link."""
    return text if text.startswith("/") else (cwd.rstrip("/") + "/" + text if text else cwd)


def logical(text: str, cwd: str) -> str:
    """Where `cd text` leads by name, as bash computes PWD (not resolving symbolic links)."""
    return plain_path(absolute_path(text, cwd))


def plain_path(path: str) -> str:
    """Return `path`, which is absolute, without `.`, `..` and doubled slashes, by name alone."""
    if path[:1] == "/" and "/." not in path and "//" not in path and path[-1] != "/":
        return path
    return "/" + posixpath.normpath(path).lstrip("/")


def shortest(text: str) -> str:
    """`text` without empty components and `.`, which lead nowhere; `..` stays."""
    kept = [part for part in text.split("/") if part not in ("", ".")]
    return ("/" if text.startswith("/") else "") + "/".join(kept)


def split_pattern(pattern: str) -> tuple[str, bool]:
    """The directory before the first component with a wildcard, and whether what matches stays below it.

    A component that begins with a dot and holds a wildcard may match `..` before bash 5.2, and a later `..` climbs out
    again.
    """
    components = pattern.split("/")
    first = _first_wildcard(components)
    if first == len(components):
        return pattern, True
    safe = "." not in pattern or not any(c == ".." or _may_be_parent(c) for c in components[first:])
    return "/".join(components[:first]) or "/", safe


def takes_all(pattern: str) -> bool:
    """Tell whether `pattern` stands for all that is in a directory (`dir/*`, `dir/.*`, `dir/*/*`), hidden or not."""
    components = pattern.rstrip("/").split("/")
    first = _first_wildcard(components)
    rest = [component for component in components[first:] if component not in ("", ".")]
    return bool(rest) and all(_ALL_NAMES.fullmatch(component) for component in rest)


def _first_wildcard(components: list[str]) -> int:
    """The place of the first component with a wildcard."""
    for n, component in enumerate(components):
        if ("*" in component or "?" in component or "[" in component) and has_wildcard(component):
            return n
    return len(components)


def _may_be_parent(component: str) -> bool:
    """Could this pattern match `..`? Only one whose dot is written out can, in the shell."""
    if not component.startswith((".", "\\.")) or not has_wildcard(component):
        return False
    # Any bracket may match the second dot, whatever is in it.
    loose = _BRACKET.sub("?", component.replace("\\", ""))
    return fnmatch.fnmatchcase("..", loose)


def has_wildcard(text: str) -> bool:
    """True where an unescaped `*`, `?` or `[` stands in `text`."""
    if "\\" not in text:
        return "*" in text or "?" in text or "[" in text
    i = 0
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        if text[i] in "*?[":
            return True
        i += 1
    return False


def unescape(text: str) -> str:
    """`text` without the backslashes that keep wildcards literal."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text


def escape(text: str) -> str:
    """`text` with the backslashes that keep its wildcards literal: a pattern that only `text` matches."""
    return re.sub(r"([*?\[\\])", r"\\\1", text)


def dedupe(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
