"""Sets of paths written as patterns, and whether what an effect touches lies in them: no, maybe or yes.

`dir/**` is the directory and everything below it; `**/name` a name at any depth; `*` and `?` stay within one component.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.globlinks import led_to
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.pathindex import PathIndex, Pattern, answer
from humanlayer_agent.policy.conditions.symlinks import Links
from humanlayer_agent.policy.conditions.word_patterns import has_star
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.paths import takes_all

__all__ = ["MAX_PATTERN", "Links", "PathSet", "Pattern", "fill"]

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
