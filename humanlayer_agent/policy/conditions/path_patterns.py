"""Sets of paths written as patterns, and whether what an effect touches lies in them: no, maybe or yes.

`dir/**` is the directory and everything below it; `**/name` a name at any depth; `*` and `?` stay within one component.

All path sets of the rules in force, asked together: one look at a path gives a bit mask of the sets it lies in.

What is looked up is remembered by the path's names alone. Where they lead is asked of the disk each time (`links`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.symlinks import Links, led_to
from humanlayer_agent.policy.conditions.word_patterns import components_match, has_star
from humanlayer_agent.shell.paths import takes_all
from humanlayer_agent.shell.program import Effect

MAX_REMEMBERED = 4_096
MAX_LENGTH = 1_024
"""Longer paths are not remembered."""

_ALL = -1
"""The mask of all sets."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern: its text, its components, and the directory before its first wildcard.

    `tree` is True for `dir/**` without other wildcards: the anchor and everything below.
    """

    text: str
    components: tuple[str, ...]
    anchor: str
    tree: bool


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What is so of everything that an effect touches: masks of the sets for which it is certain, or may be.

    Two effects that no set tells apart have the same Place, so that it can stand for both.
    """

    some: int
    maybe_some: int
    every: int
    maybe_every: int
    contents: int
    maybe_contents: int


def answer(bit: int, certain: int, possible: int) -> int:
    """no, maybe or yes for the set `bit`, out of two masks of a Place."""
    return YES if certain & bit else (MAYBE if possible & bit else NO)


class PathIndex:
    """The patterns of many sets. Thread-safe once all sets were added."""

    def __init__(self) -> None:
        self.links = Links()
        """Where the fixed parts of patterns led when they were read."""
        self._count = 0
        self._exact: dict[str, int] = {}
        self._trees: dict[str, int] = {}
        self._deepest = 0
        self._named: dict[str, int] = {}
        self._named_trees: dict[str, int] = {}
        self._endings: dict[str, int] = {}
        self._with_part: dict[str, list[tuple[Pattern, int]]] = {}
        """Patterns of several parts, by one that every path must have."""
        self._others: list[tuple[Pattern, int]] = []
        self._anchors: dict[str, int] = {}
        self._anchors_below: dict[str, int] = {}
        self._anywhere = 0
        self._masks: dict[str, tuple[int, int]] = {}
        self._places: dict[tuple[object, ...], Place] = {}
        self._distinct: dict[tuple[int, ...], Place] = {}

    def add(self, patterns: Iterable[Pattern]) -> int:
        """Add a set; returns its bit."""
        bit = 1 << self._count
        self._count += 1
        for pattern in patterns:
            self._add(pattern, bit)
        self._masks, self._places, self._distinct = {}, {}, {}
        return bit

    def masks(self, path: str) -> tuple[int, int]:
        """The sets that `path` (absolute, normalised) lies in, and those in which all that is below it lies."""
        found = self._masks.get(path)
        if found is None:
            trees = self._holding_trees(path)
            found = trees | self._matching(path), trees
            if len(self._masks) >= MAX_REMEMBERED:
                self._masks.clear()
            if len(path) <= MAX_LENGTH:
                self._masks[path] = found
        return found

    def place(self, effect: Effect, links: Links) -> Place:
        """Where what `effect` touches lies; it must not come from a pattern."""
        operand = effect.operand
        if operand is None:
            return self._same(0, _ALL, 0, _ALL, 0, _ALL)
        names = links.names(operand)
        certain = effect.resolved or effect.unread
        below = operand if effect.below else None
        key = (names, certain, effect.recursive, effect.contents, below)
        found = self._places.get(key)
        if found is None:
            found = self._below(operand, names) if effect.below else self._at(names, effect, certain)
            if len(self._places) >= MAX_REMEMBERED:
                self._places.clear()
            if len(operand) <= MAX_LENGTH:
                self._places[key] = found
        return found

    # ---- adding -------------------------------------------------------------------------------------

    def _add(self, pattern: Pattern, bit: int) -> None:
        parts, anchor = pattern.components, pattern.anchor
        if anchor == "/":
            self._anywhere |= bit
        else:
            _set(self._anchors, anchor, bit)
            end = anchor.find("/")
            while end >= 0:
                if end == 0 or anchor[end - 1] != "/":
                    _set(self._anchors_below, anchor[: end + 1], bit)
                end = anchor.find("/", end + 1)
        if pattern.tree:
            _set(self._trees, anchor.rstrip("/"), bit)
            self._deepest = max(self._deepest, len(anchor))
        elif not has_star(pattern.text):
            _set(self._exact, pattern.text, bit)
        elif len(parts) >= 2 and parts[0] == "**" and not has_star(parts[1]) and parts[2:] in ((), ("**",)):
            _set(self._named_trees if parts[2:] else self._named, parts[1], bit)
        elif len(parts) == 2 and parts[0] == "**" and parts[1][0] == "*" and not has_star(parts[1][1:]):
            _set(self._endings, parts[1][1:], bit)
        else:
            fixed = [part for part in parts if not has_star(part)]
            (self._with_part.setdefault(fixed[-1], []) if fixed else self._others).append((pattern, bit))

    # ---- looking up ---------------------------------------------------------------------------------

    def _holding_trees(self, path: str) -> int:
        trees = self._trees
        found = trees.get("", 0)
        whole = path.rstrip("/")
        end = 0
        while 0 <= end <= self._deepest:
            end = whole.find("/", end + 1)
            found |= trees.get(whole if end < 0 else whole[:end], 0)
        return found

    def _matching(self, path: str) -> int:
        """The sets that `path` lies in, but for those that hold all below it."""
        components = [part for part in path.split("/") if part]
        last = path[path.rfind("/") + 1 :]
        found = self._exact.get(path, 0) | self._named.get(last, 0)
        for part in components:
            found |= self._named_trees.get(part, 0)
        if self._endings and path.endswith(tuple(self._endings)):
            for ending, bit in self._endings.items():
                if path.endswith(ending):
                    found |= bit
        candidates = [*self._others]
        for part in dict.fromkeys(components):
            candidates += self._with_part.get(part, ())
        for pattern, bit in candidates:
            if not found & bit and path.startswith(pattern.anchor) and components_match(pattern.components, components):
                found |= bit
        return found

    def _leading_into(self, directory: str) -> int:
        """The sets in which something below `directory` could be. Patterns for any depth (`**/name`) don't count."""
        return self._anchors_below.get(directory.rstrip("/") + "/", 0) | self._anchors.get(directory, 0)

    def _at(self, names: tuple[str, ...], effect: Effect, certain: bool) -> Place:
        masks = [self.masks(name) for name in names]
        some, every = 0, _ALL
        for inside, holding in masks:
            some |= inside
            every &= holding if effect.recursive else inside
        if not certain:
            return self._same(0, _ALL, 0, _ALL, some if effect.contents else 0, 0 if effect.contents else _ALL)
        below = 0
        if effect.recursive:
            for name in names:
                below |= self._leading_into(name)
        return self._same(some, below, every, 0, some if effect.contents else 0, 0)

    def _below(self, directory: str, names: tuple[str, ...]) -> Place:
        """For something below `directory`, nobody knows what."""
        reached = self._leading_into(directory) | self._anywhere | self.masks(directory)[0]
        every = _ALL
        for name in names:
            every &= self.masks(name)[1]
        return self._same(0, reached, every, _ALL, 0, reached)

    def _same(self, *masks: int) -> Place:
        found = self._distinct.get(masks)
        if found is None:
            if len(self._distinct) >= MAX_REMEMBERED:
                self._distinct.clear()
            found = self._distinct[masks] = Place(*masks)
        return found


def _set(masks: dict[str, int], key: str, bit: int) -> None:
    masks[key] = masks.get(key, 0) | bit


MAX_PATTERN = 1_000
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")


class PathSet:
    """Patterns with their variables filled in.

    Args:
        texts: the patterns.
        variables: their values.
        index: that of all sets which are asked together; one of its own where there is none.

    Raises:
        PolicyError: a variable that is not known, a pattern that is not absolute or too long.
    """

    def __init__(self, texts: Iterable[str], variables: Mapping[str, str], index: PathIndex | None = None) -> None:
        self._index = PathIndex() if index is None else index
        self.patterns = [p for text in texts for p in _spellings(fill(text, variables), self._index.links)]
        self._bit = self._index.add(self.patterns)

    def has(self, path: str) -> bool:
        """True where `path` (absolute, normalised) matches."""
        return bool(self._index.masks(path)[0] & self._bit)

    def some(self, effect: Effect, links: Links) -> int:
        """Is anything that `effect` touches in the set?"""
        if effect.pattern is not None and effect.operand is not None and not effect.below:
            if not self._may_match(effect.pattern, effect.recursive):
                others = led_to(effect, links)
                may = others is None or any(self._may_match(other, effect.recursive) for other in others)
                return MAYBE if may else NO
            wild = effect.pattern.split("/")[1:]
            return YES if any(_covers(p.components, wild) for p in self.patterns) else MAYBE
        place = self._index.place(effect, links)
        return answer(self._bit, place.some, place.maybe_some)

    def every(self, effect: Effect, links: Links) -> int:
        """Is everything that `effect` touches in the set?"""
        if effect.pattern is not None and effect.operand is not None and not effect.below:
            if all(self._index.masks(name)[1] & self._bit for name in links.names(effect.operand)):
                others = led_to(effect, links)
                held = others is not None and all(self._holds(other, effect.recursive) for other in others)
                return YES if held else MAYBE
            return MAYBE if self._may_match(effect.pattern, effect.recursive) else NO
        place = self._index.place(effect, links)
        return answer(self._bit, place.every, place.maybe_every)

    def contents(self, effect: Effect, links: Links) -> int:
        """Does `effect` touch all that is in a directory of the set, by a pattern such as `dir/*`?"""
        if effect.pattern is not None and effect.operand is not None and not effect.below and not effect.contents:
            directory, _, names = effect.pattern.rstrip("/").rpartition("/")
            return MAYBE if takes_all(names) and self._may_match(directory, False) else NO
        place = self._index.place(effect, links)
        return answer(self._bit, place.contents, place.maybe_contents)

    def _holds(self, pattern: str, recursive: bool) -> bool:
        """Does everything that a path or pattern stands for lie in the set?"""
        fixed = _compile(pattern).anchor
        return bool(self._index.masks(fixed)[recursive or fixed != pattern] & self._bit)

    def _may_match(self, pattern: str, recursive: bool) -> bool:
        """Could a path that `pattern` stands for be in the set?

        A directory name that may turn up anywhere (`**/.git/**`) does not count for what lies below a match, or every
        `rm -rf *` would be doubtful; as for a plain `rm -rf build`.
        """
        from humanlayer_agent.policy.conditions.pattern_overlap import overlap

        deep = "**" in pattern.split("/")
        for p in self.patterns:
            anywhere = p.anchor == "/"
            if anywhere and deep and p.text.endswith("/**"):
                continue
            if overlap(pattern, p.text, recursive and not anywhere):
                return True
        return False


def _covers(components: Sequence[str], wild: Sequence[str]) -> bool:
    """Is each path that a shell's pattern stands for one of these? `/proc/[0-9]*/mem` is, of `/proc/*/mem`."""
    if "**" in wild or ".." in wild or "." in wild or "" in wild:
        return False
    if components[-1:] == ("**",) and "**" not in components[:-1]:
        components, wild = components[:-1], wild[: len(components) - 1]
    return len(components) == len(wild) and all(
        each != "**" and (each == "*" or each == part) for each, part in zip(components, wild, strict=True)
    )


def fill(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `~` and `${NAME}` replaced. Raises PolicyError for a variable that is not known."""

    if text == "~" or text.startswith("~/"):
        text = "${HOME}" + text[1:]
    if "$" not in text:
        return text
    if text.startswith("${"):  # mostly that is all, and needs no expression
        name, end, rest = text[2:].partition("}")
        if end and name in variables and not name.strip(_LETTERS) and "$" not in rest:
            return variables[name] + rest

    def value(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise PolicyError(f"{text!r}: the variable {match[1]} is not known; known: {', '.join(sorted(variables))}")
        return variables[match[1]]

    return _VARIABLE.sub(value, text)


def _spellings(text: str, links: Links) -> list[Pattern]:
    """The pattern, and the same with its fixed part resolved where that leads through a symbolic link."""
    out = [_compile(text)]
    fixed = out[0].anchor
    real = links.names(fixed)[-1] if fixed != "/" else "/"
    if real != fixed and text.startswith(fixed):
        out.append(_compile(real + text[len(fixed) :]))
    return out


def _compile(text: str) -> Pattern:
    if not text.startswith(("/", "**/")):
        raise PolicyError(f"{text!r}: a path pattern begins with /, ~, ${{NAME}} or **/")
    if len(text) > MAX_PATTERN or "\0" in text:
        raise PolicyError(f"{text[:60]!r}...: a path pattern has at most {MAX_PATTERN} characters, and no NUL")
    written = text.split("/")
    first = len(written)
    if has_star(text):
        wild = min(at for at in (text.find("*"), text.find("?")) if at >= 0)
        first = text.count("/", 0, wild)
    anchor = "/".join(written[:first]) or "/"
    tree = first == len(written) - 1 and written[first] == "**"
    return Pattern(text, tuple(part for part in written if part), anchor, tree)


__all__ = ["MAX_PATTERN", "Links", "PathSet", "Pattern", "fill"]
