"""Sets of paths written as patterns, and whether what an effect touches lies in them: no, maybe or yes.

`dir/**` is the directory and everything below it; `**/name` a name at any depth; `*` and `?` stay within one component.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.paths import has_wildcard

NO, MAYBE, YES = 0, 1, 2
"""Kleene's three values: `all of` is min, `any of` is max, `not` is YES - x."""

_VARIABLE = re.compile(r"\$\{([A-Z_]+)\}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: its text, its regular expression, and the directory before its first wildcard."""

    text: str
    regex: re.Pattern[str]
    anchor: str
    tree: bool
    """True for `dir/**` without other wildcards: the anchor and everything below."""


class PathSet:
    """Patterns with their variables filled in."""

    def __init__(self, texts: Iterable[str], variables: Mapping[str, str]) -> None:
        self.patterns = [p for text in texts for p in _spellings(fill(text, variables))]

    def has(self, path: str) -> bool:
        """True where `path` (absolute, normalised) matches."""
        return any(p.regex.fullmatch(path) is not None for p in self.patterns)

    def some(self, effect: Effect) -> int:
        """Is anything that `effect` touches in the set?"""
        if effect.operand is None:
            return MAYBE
        if effect.below:
            return MAYBE if self._reaches(effect.operand) else NO
        if effect.pattern is not None:
            return MAYBE if self._may_match(effect.pattern, effect.recursive) else NO
        names = spellings(effect.operand)
        if any(self.has(n) for n in names):
            return YES if effect.resolved or effect.unread else MAYBE
        if effect.recursive and any(self._contains(n) for n in names):
            return MAYBE
        return NO if effect.resolved or effect.unread else MAYBE

    def every(self, effect: Effect) -> int:
        """Is everything that `effect` touches in the set?"""
        if effect.operand is None:
            return MAYBE
        if effect.below:
            return YES if self._holds_tree(effect.operand) else MAYBE
        if effect.pattern is not None:
            if self._holds_tree(effect.operand):
                return YES
            return MAYBE if self._may_match(effect.pattern, effect.recursive) else NO
        names = spellings(effect.operand)
        inside = all(self._holds_tree(n) for n in names) if effect.recursive else all(self.has(n) for n in names)
        if effect.resolved or effect.unread:
            return YES if inside else NO
        return MAYBE

    def _holds_tree(self, directory: str) -> bool:
        """True where everything below `directory` is in the set."""
        for name in spellings(directory):
            trees = (p.anchor.rstrip("/") for p in self.patterns if p.tree)
            if not any(name == tree or name.startswith(tree + "/") for tree in trees):
                return False
        return True

    def _contains(self, directory: str) -> bool:
        """Could something below `directory` be in the set? Patterns for any depth (`**/name`) don't count."""
        base = directory.rstrip("/") + "/"
        return any(p.anchor.startswith(base) or p.anchor == directory for p in self.patterns if p.anchor != "/")

    def _reaches(self, directory: str) -> bool:
        return self._contains(directory) or any(p.anchor == "/" or self.has(directory) for p in self.patterns)

    def _may_match(self, pattern: str, recursive: bool) -> bool:
        """Could a path that `pattern` stands for be in the set?

        A directory name that may turn up anywhere (`**/.git/**`) does not count for what lies below a match, or every
        `rm -rf *` would be doubtful; as for a plain `rm -rf build`.
        """
        deep = "**" in pattern.split("/")
        for p in self.patterns:
            anywhere = p.anchor == "/"
            if anywhere and deep and p.text.endswith("/**"):
                continue
            if overlap(pattern, p.text, recursive and not anywhere):
                return True
        return False


def fill(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `~` and `${NAME}` replaced. Raises PolicyError for a variable that is not known."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise PolicyError(f"{text!r}: the variable {match[1]} is not known; known: {', '.join(sorted(variables))}")
        return variables[match[1]]

    if text == "~" or text.startswith("~/"):
        text = "${HOME}" + text[1:]
    return _VARIABLE.sub(value, text)


def _spellings(text: str) -> list[Pattern]:
    """The pattern, and the same with its fixed part resolved where that leads through a symbolic link."""
    out = [_compile(text)]
    fixed = out[0].anchor
    real = os.path.realpath(fixed) if fixed != "/" else "/"
    if real != fixed and text.startswith(fixed):
        out.append(_compile(real + text[len(fixed) :]))
    return out


def _compile(text: str) -> Pattern:
    if not text.startswith(("/", "**/")):
        raise PolicyError(f"{text!r}: a path pattern begins with /, ~, ${{NAME}} or **/")
    components = text.split("/")
    first = next((n for n, c in enumerate(components) if has_wildcard(c)), len(components))
    anchor = "/".join(components[:first]) or "/"
    tree = first == len(components) - 1 and components[first] == "**"
    return Pattern(text, re.compile(_regex(text), re.DOTALL), anchor, tree)


def _regex(text: str) -> str:
    out = []
    i = 0
    if text.startswith("**/"):
        out.append("/(?:.*/)?")
        i = 3
    while i < len(text):
        if text.startswith("/**/", i):
            out.append("/(?:.*/)?")
            i += 4
        elif text[i:] == "/**":
            out.append("(?:/.*)?")
            i += 3
        elif text[i] == "*":
            out.append("[^/]*")
            i += 1
        elif text[i] == "?":
            out.append("[^/]")
            i += 1
        else:
            out.append(re.escape(text[i]))
            i += 1
    return "".join(out)


@lru_cache(maxsize=8192)
def spellings(operand: str) -> tuple[str, ...]:
    """The names one path has: as written (without `.` and `..`), and where symbolic links lead."""
    plain = "/" + posixpath.normpath(operand).lstrip("/")
    try:
        real = os.path.realpath(operand)
    except (OSError, ValueError):
        return (plain,)
    return (plain,) if real == plain else (plain, real)


def forget_links() -> None:
    """Forget where links lead: called before each decision, because they change."""
    spellings.cache_clear()


# ---- patterns against patterns -----------------------------------------------------------------------


def overlap(wild: str, pattern: str, recursive: bool) -> bool:
    """Could a path that the shell pattern `wild` stands for be matched by the policy pattern `pattern`?

    In `wild`, a component that begins with a wildcard does not match names that begin with a dot, unless it begins with
    two stars (find's -name); a component `**` is any number of components.
    """
    left = [c for c in wild.split("/") if c not in ("", ".")]
    right = [c for c in pattern.split("/") if c != ""]
    if recursive:
        left.append("**")
    return _components(tuple(left), tuple(right))


@lru_cache(maxsize=4096)
def _components(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    if right and right[0] == "**":
        return _components(left, right[1:]) or (bool(left) and _components(left[1:], right))
    if left and left[0] == "**":
        return _components(left[1:], right) or (bool(right) and _components(left, right[1:]))
    if not left or not right:
        return not left and not right
    return _names(left[0], right[0]) and _components(left[1:], right[1:])


def _names(wild: str, pattern: str) -> bool:
    """Could one file name match both? Brackets are taken as any character."""
    hidden = pattern.startswith(".")
    if wild[:1] in ("*", "?", "[") and not wild.startswith("**") and hidden:
        return False
    return _chars(_tokens(wild), _tokens(pattern))


def _tokens(text: str) -> tuple[str, ...]:
    """Characters, with "\0*" for any run and "\0?" for any one character."""
    out: list[str] = []
    i = 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            out.append(text[i + 1])
            i += 2
            continue
        if char == "[" and (end := text.find("]", i + 2)) > 0:
            out.append("\0?")
            i = end + 1
            continue
        out.append("\0" + char if char in "*?" else char)
        i += 1
    return tuple(out)


@lru_cache(maxsize=16384)
def _chars(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    if left and left[0] == "\0*":
        return _chars(left[1:], right) or (bool(right) and _chars(left, right[1:]))
    if right and right[0] == "\0*":
        return _chars(left, right[1:]) or (bool(left) and _chars(left[1:], right))
    if not left or not right:
        return not left and not right
    same = left[0] == right[0] or left[0] == "\0?" or right[0] == "\0?"
    return same and _chars(left[1:], right[1:])
