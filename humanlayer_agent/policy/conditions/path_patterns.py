"""Sets of paths written as patterns, and whether what an effect touches lies in them: no, maybe or yes.

`dir/**` is the directory and everything below it; `**/name` a name at any depth; `*` and `?` stay within one component.

Where the disk takes `.ENV` for `.env`, a path that is in a set but for its case may be in it: that is enough to ask,
and proves nothing.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.link_targets import Links, led_to
from humanlayer_agent.policy.conditions.word_patterns import components_match, has_star
from humanlayer_agent.shell import Effect, View, takes_all

__all__ = ["MAX_PATTERN", "Links", "PathSet", "Pattern", "fill"]

MAX_PATTERN = 1_000
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"
_WILDCARD = re.compile(r"[*?]")
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_LEADING_ELSEWHERE = frozenset({"**", "..", ".", ""})
"""Parts of a shell's pattern by which it has not as many levels as parts."""


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
    """Patterns with their variables filled in.

    Args:
        texts: the patterns.
        variables: their values.
        links: where the fixed parts of the patterns lead; looked up now where they are not given.

    Raises:
        PolicyError: a variable that is not known, a pattern that is not absolute or too long.
    """

    def __init__(self, texts: Iterable[str], variables: Mapping[str, str], links: Links | None = None) -> None:
        links = Links() if links is None else links
        self.patterns = [p for text in texts for p in _spellings(fill(text, variables), links)]
        # Most patterns are of one of four kinds, all of which are asked at once.
        trees, exact, endings, folders, others = [], [], [], [], []
        for pattern in self.patterns:
            match pattern.components:
                case _ if pattern.tree:
                    trees.append(f"{pattern.anchor.rstrip('/')}/")
                case _ if not has_star(pattern.text):
                    exact.append(pattern.text)
                case ("**", *names, "**") if names and not has_star("".join(names)):
                    folders.append(f"/{'/'.join(names)}/")
                case ("**", *names) if names and not has_star("".join(names)):
                    endings.append(f"/{'/'.join(names)}")
                case ("**", name) if name[0] == "*" and not has_star(name[1:]):
                    endings.append(name[1:])
                case _:
                    others.append(pattern)
        self._trees, self._endings = tuple(trees), tuple(endings)
        self._folders = tuple(folder for folder in folders if folder.count("/") > 2)
        self._names = frozenset(folder[1:-1] for folder in folders if folder.count("/") == 2)
        self._exact = frozenset(exact)
        self._others = tuple((_fixed(pattern.components), pattern) for pattern in others)
        anchors = [p.anchor for p in self.patterns if p.anchor != "/"]
        self._ways = frozenset([way for anchor in anchors for way in _ways_to(anchor)])
        self._anywhere = len(anchors) < len(self.patterns)
        # What begins with a dot no wildcard stands for, and most patterns for any depth have such a name.
        self._visible = [p for p in self.patterns if p.anchor != "/" or not any(c[0] == "." for c in p.components)]
        # Of a shell's pattern, each path is one of these only where they have as many parts.
        levels = [p.components for p in self.patterns if "**" not in p.components[:-1]]
        self._levels = tuple((each[:-1], True) if each[-1:] == ("**",) else (each, False) for each in levels)

    def has(self, path: str) -> bool:
        """Return True where `path` (absolute, normalised) matches."""
        if path in self._exact or self.has_all(path):
            return True
        plain = path.rstrip("/") if path[:1] == "/" and "//" not in path else f"/{'/'.join(_parts(path))}"
        if plain.endswith(self._endings) or not self._names.isdisjoint(plain.split("/")):
            return True
        slashed = f"{plain}/"
        for folder in self._folders:
            if folder in slashed:
                return True
        for fixed, pattern in self._others:
            if (
                fixed in plain
                and path.startswith(pattern.anchor)
                and components_match(pattern.components, _parts(plain))
            ):
                return True
        return False

    def some(self, effect: Effect, links: Links) -> int:
        """Tell how surely anything that `effect` touches is in the set."""
        found = self._some(effect, links)
        if found != NO or not links.folds:
            return found
        return MAYBE if any(self._folded._some(each, _SAME) != NO for each in _folded(effect, links)) else NO

    def _some(self, effect: Effect, links: Links) -> int:
        operand = effect.operand
        if operand is None:
            return MAYBE
        if effect.below:
            return MAYBE if self._reached_below(operand) else NO
        if effect.pattern is not None:
            if not self._may_match(effect.pattern, effect.recursive):
                others = led_to(effect, links)
                may = others is None or any(self._may_match(other, effect.recursive) for other in others)
                return MAYBE if may else NO
            return YES if self._covers(effect.pattern.split("/")[1:]) else MAYBE
        if not _certain(effect):
            return MAYBE
        names = links.names(operand)
        for name in names:
            if self.has(name):
                return YES
        return MAYBE if effect.recursive and any(self._leads_into(name) for name in names) else NO

    def every(self, effect: Effect, links: Links) -> int:
        """Tell how surely everything that `effect` touches is in the set."""
        operand = effect.operand
        if operand is None:
            return MAYBE
        names = links.names(operand)
        if effect.below:
            return YES if all(self.has_all(name) for name in names) else MAYBE
        if effect.pattern is not None:
            if all(self.has_all(name) for name in names):
                others = led_to(effect, links)
                held = others is not None and all(self._holds(other, effect.recursive) for other in others)
                return YES if held else MAYBE
            return MAYBE if self._may_match(effect.pattern, effect.recursive) else NO
        if not _certain(effect):
            return MAYBE
        return YES if all(self.has_all(name) if effect.recursive else self.has(name) for name in names) else NO

    def contents(self, effect: Effect, links: Links) -> int:
        """Tell how surely `effect` touches all that is in a directory of the set, by a pattern such as `dir/*`."""
        found = self._contents(effect, links)
        if found != NO or not links.folds:
            return found
        return MAYBE if any(self._folded._contents(each, _SAME) != NO for each in _folded(effect, links)) else NO

    @cached_property
    def _folded(self) -> "PathSet":
        """The same set in small letters."""
        return PathSet([folded(pattern.text) for pattern in self.patterns], {}, _SAME)

    def _contents(self, effect: Effect, links: Links) -> int:
        operand = effect.operand
        if operand is None:
            return MAYBE
        if effect.below:
            return MAYBE if self._reached_below(operand) else NO
        if effect.contents:
            return YES if any(self.has(name) for name in links.names(operand)) else NO
        if effect.pattern is not None:
            directory, _, names = effect.pattern.rstrip("/").rpartition("/")
            return MAYBE if takes_all(names) and self._may_match(directory, False) else NO
        return NO if _certain(effect) else MAYBE

    def has_all(self, path: str) -> bool:
        """Tell whether all that is at `path` and below it lies in a tree of the set."""
        return f"{path.rstrip('/')}/".startswith(self._trees)

    def _leads_into(self, directory: str) -> bool:
        """Could something below `directory` be in the set? Patterns for any depth (`**/name`) don't count."""
        return directory.rstrip("/") in self._ways

    def _reached_below(self, directory: str) -> bool:
        """Tell whether something below `directory`, nobody knows what, could be in the set."""
        return self._anywhere or self._leads_into(directory) or self.has(directory)

    def _holds(self, pattern: str, recursive: bool) -> bool:
        """Tell whether everything that a path or pattern stands for lies in the set."""
        fixed = pattern[: wild.start()].rpartition("/")[0] or "/" if (wild := _WILDCARD.search(pattern)) else pattern
        return self.has_all(fixed) if recursive or fixed != pattern else self.has(fixed)

    def _covers(self, wild: Sequence[str]) -> bool:
        """Tell whether each path that a shell's pattern stands for is one of these: `/proc/[0-9]*/mem` is, of
        `/proc/*/mem`.
        """
        if not _LEADING_ELSEWHERE.isdisjoint(wild):
            return False
        for components, below in self._levels:
            if (len(components) <= len(wild) if below else len(components) == len(wild)) and all(
                each in ("*", part) for each, part in zip(components, wild, strict=False)
            ):
                return True
        return False

    def _may_match(self, pattern: str, recursive: bool) -> bool:
        """Tell whether a path that `pattern` stands for could be in the set.

        A directory name that may turn up anywhere (`**/.git/**`) does not count for what lies below a match, or every
        `rm -rf *` would be doubtful; as for a plain `rm -rf build`.
        """
        from humanlayer_agent.policy.conditions.pattern_overlap import MAX_STEPS, components, components_overlap, head

        deep = "**" in pattern.split("/")
        itself = components(pattern)
        below = (*itself, "**") if recursive else itself
        fixed = "" if "/." in pattern or "//" in pattern else head(pattern)  # ".." could lead anywhere
        dotted = any(part.startswith((".", "\\", "**")) for part in itself)
        for p in self.patterns if dotted else self._visible:
            anywhere = p.anchor == "/"
            if anywhere and deep and p.text.endswith("/**"):
                continue
            if not (anywhere or fixed.startswith(p.anchor) or p.anchor.startswith(fixed) or "//" in p.anchor):
                continue
            if len(pattern) * len(p.text) > MAX_STEPS:
                return True
            if components_overlap(itself if anywhere else below, p.components):
                return True
        return False


class _NoLinks(Links):
    """Every path is what it is called."""

    def names(self, path: str) -> tuple[str, ...]:
        return ("/" + posixpath.normpath(path).lstrip("/"),)


_SAME = _NoLinks(View(""))


def folded(path: str) -> str:
    """Return a path as a volume compares it that takes capitals for small letters, as those of macOS do: composed
    letters as their parts, and none that can't be seen.
    """
    if path.isascii():
        return path.lower()
    parts = unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())
    return "".join(letter for letter in parts if unicodedata.category(letter) != "Cf")


def _folded(effect: Effect, links: Links) -> Iterator[Effect]:
    for name in links.names(effect.operand or "/"):
        yield replace(effect, operand=folded(name), pattern=effect.pattern and folded(effect.pattern))


def _certain(effect: Effect) -> bool:
    """Tell whether it is certain which path the operand of `effect` is."""
    return effect.resolved or effect.unread


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _fixed(pattern: Sequence[str]) -> str:
    """The longest text without wildcards that is in each path which matches the components `pattern`."""
    return max((part.strip("/") for part in _WILDCARD.split("/".join(pattern))), key=len)


def _ways_to(anchor: str) -> Iterator[str]:
    """`anchor` and every directory above it, without a `/` at the end."""
    way = anchor.rstrip("/")
    while way:
        yield way
        way = way.rpartition("/")[0].rstrip("/")
    yield way


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


@lru_cache(maxsize=4096)
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
