"""Sets of paths written as patterns, and whether what an effect touches lies in them: no, maybe or yes.

`dir/**` is the directory and everything below it; `**/name` a name at any depth; `*` and `?` stay within one component.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.overlap import overlap
from humanlayer_agent.policy.texts import components_match, has_star
from humanlayer_agent.policy.values import MAYBE, NO, YES
from humanlayer_agent.shell.effects import Effect

MAX_PATTERN = 1_000
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


class Links:
    """Where symbolic links lead, looked up once: everything that is judged together sees one state of the disk."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[str, ...]] = {}

    def names(self, path: str) -> tuple[str, ...]:
        """The names one path has: as written (without `.` and `..`), and where symbolic links lead."""
        found = self._names.get(path)
        if found is None:
            found = self._names[path] = _names(path)
        return found

    def unchanged(self) -> bool:
        """Do all paths that were looked up still lead where they did?"""
        return all(_names(path) == names for path, names in self._names.items())


def _names(path: str) -> tuple[str, ...]:
    plain = "/" + posixpath.normpath(path).lstrip("/")
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return (plain,)
    return (plain,) if real == plain else (plain, real)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: its text, its components, and the directory before its first wildcard.

    `tree` is True for `dir/**` without other wildcards: the anchor and everything below.
    """

    text: str
    components: tuple[str, ...]
    anchor: str
    tree: bool


class PathSet:
    """Patterns with their variables filled in. What can be looked up is: most patterns cost nothing each.

    Raises:
        PolicyError: a variable that is not known, a pattern that is not absolute or too long.
    """

    def __init__(self, texts: Iterable[str], variables: Mapping[str, str]) -> None:
        self.patterns = [p for text in texts for p in _spellings(fill(text, variables))]
        self._exact: set[str] = set()
        self._trees: set[str] = set()
        self._named: set[str] = set()
        self._named_trees: set[str] = set()
        self._endings: tuple[str, ...] = ()
        self._others: list[Pattern] = []
        for pattern in self.patterns:
            self._sort(pattern)

    def _sort(self, pattern: Pattern) -> None:
        parts = pattern.components
        if pattern.tree:
            self._trees.add(pattern.anchor.rstrip("/"))
        elif not any(has_star(part) for part in parts):
            self._exact.add(pattern.text)
        elif len(parts) >= 2 and parts[0] == "**" and not has_star(parts[1]) and parts[2:] in ((), ("**",)):
            (self._named_trees if parts[2:] else self._named).add(parts[1])
        elif len(parts) == 2 and parts[0] == "**" and parts[1][0] == "*" and not has_star(parts[1][1:]):
            self._endings += (parts[1][1:],)
        else:
            self._others.append(pattern)

    def has(self, path: str) -> bool:
        """True where `path` (absolute, normalised) matches."""
        if path in self._exact or self._in_tree(path):
            return True
        if path[path.rfind("/") + 1 :] in self._named or path.endswith(self._endings):
            return True
        if not self._named_trees and not self._others:
            return False
        components = [part for part in path.split("/") if part]
        if not self._named_trees.isdisjoint(components):
            return True
        return any(path.startswith(p.anchor) and components_match(p.components, components) for p in self._others)

    def _in_tree(self, path: str) -> bool:
        trees = self._trees
        if not trees:
            return False
        above = path.rstrip("/")
        while above:
            if above in trees:
                return True
            above = above[: above.rfind("/")]
        return "" in trees

    def some(self, effect: Effect, links: Links) -> int:
        """Is anything that `effect` touches in the set?"""
        if effect.operand is None:
            return MAYBE
        if effect.below:
            return MAYBE if self._reaches(effect.operand) else NO
        if effect.pattern is not None:
            return MAYBE if self._may_match(effect.pattern, effect.recursive) else NO
        names = links.names(effect.operand)
        certain = effect.resolved or effect.unread
        if any(self.has(n) for n in names):
            return YES if certain else MAYBE
        if effect.recursive and any(self._contains(n) for n in names):
            return MAYBE
        return NO if certain else MAYBE

    def every(self, effect: Effect, links: Links) -> int:
        """Is everything that `effect` touches in the set?"""
        if effect.operand is None:
            return MAYBE
        if effect.below:
            return YES if self._holds_tree(effect.operand, links) else MAYBE
        if effect.pattern is not None:
            if self._holds_tree(effect.operand, links):
                return YES
            return MAYBE if self._may_match(effect.pattern, effect.recursive) else NO
        names = links.names(effect.operand)
        inside = all(self._in_tree(n) if effect.recursive else self.has(n) for n in names)
        if effect.resolved or effect.unread:
            return YES if inside else NO
        return MAYBE

    def _holds_tree(self, directory: str, links: Links) -> bool:
        """True where everything below `directory` is in the set."""
        return all(self._in_tree(name) for name in links.names(directory))

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
    if len(text) > MAX_PATTERN or "\0" in text:
        raise PolicyError(f"{text[:60]!r}...: a path pattern has at most {MAX_PATTERN} characters, and no NUL")
    written = text.split("/")
    first = next((n for n, part in enumerate(written) if has_star(part)), len(written))
    anchor = "/".join(written[:first]) or "/"
    tree = first == len(written) - 1 and written[first] == "**"
    return Pattern(text, tuple(part for part in written if part), anchor, tree)
