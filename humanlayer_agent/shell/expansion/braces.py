"""Brace expansion, as bash 5.2 does it: `{a,b}`, `{1..3}`, nested and repeated.

Text that bash leaves alone (`stash@{0}`, `{}`) stays; forms whose result differs between versions are unknown.
"""

import re
from collections.abc import Sequence

from humanlayer_agent.shell.syntax.tree import Lit, Part

MAX_VARIANTS = 256
MAX_STEPS = 20_000
_MAX_DEPTH = 40

_SPECIAL = re.compile(r"([{},])")
_RANGE = re.compile(
    r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})(?:\.\.(-?[0-9]{1,9}))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?[0-9]{1,9}))?"
)


class Unknown(Exception):
    """What these braces become can't be told, or is too much."""


def expand_braces(parts: Sequence[Part]) -> list[list[Part]]:
    """Every variant of a word given as its parts, in order.

    Raises:
        Unknown: the variants can't be told, or they are too many.
    """
    tokens: list[Part] = []
    for part in parts:
        if isinstance(part, Lit) and not part.quoted:
            tokens += [Lit(t, False) for t in _SPECIAL.split(part.text) if t]
        else:
            tokens.append(part)
    return _Expansion().variants(tokens, 0)


def _is(token: Part, char: str) -> bool:
    return isinstance(token, Lit) and not token.quoted and token.text == char


class _Expansion:
    """One expansion, with the steps it may still take."""

    def __init__(self) -> None:
        self.steps = MAX_STEPS

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0:
            raise Unknown

    def variants(self, tokens: list[Part], depth: int) -> list[list[Part]]:
        if depth > _MAX_DEPTH:
            raise Unknown
        for start, token in enumerate(tokens):
            # bash passes over a word's `{` that is followed by `}`: find's {} needs no quotes.
            if not _is(token, "{") or (start == 0 and (len(tokens) == 1 or _is(tokens[1], "}"))):
                continue
            found = self.closing(tokens, start)
            if found is None:
                continue
            end, commas = found
            middles = self.middles(tokens[start + 1 : end], [c - start - 1 for c in commas], depth)
            tails = self.variants(tokens[end + 1 :], depth + 1)
            if len(middles) * len(tails) > MAX_VARIANTS:
                raise Unknown
            self.step(len(middles) * len(tails) * (start + 1))
            return [tokens[:start] + middle + tail for middle in middles for tail in tails]
        return [tokens]

    def closing(self, tokens: list[Part], start: int) -> tuple[int, list[int]] | None:
        """Where the brace at `start` ends, and the commas between its alternatives; None: it is only text.

        A `}` before any comma or `..` is text: `{a},b}` is a} and b.
        """
        level, ranges = 0, False
        commas: list[int] = []
        for i in range(start + 1, len(tokens)):
            self.step()
            token = tokens[i]
            if not isinstance(token, Lit) or token.quoted:
                continue
            if token.text == "{":
                level += 1
            elif token.text == "}" and level:
                level -= 1
            elif level:
                continue
            elif token.text == "}":
                if commas or ranges:
                    return i, commas
            elif token.text == ",":
                commas.append(i)
            elif ".." in token.text:
                last = token.text.find("..") == len(token.text) - 2
                ranges |= not (last and i + 1 < len(tokens) and _is(tokens[i + 1], "}"))
        return None

    def middles(self, body: list[Part], commas: list[int], depth: int) -> list[list[Part]]:
        """What stands for the braces around `body`."""
        if not commas:
            return self.sequence(body)
        out: list[list[Part]] = []
        for first, last in zip([0, *(c + 1 for c in commas)], [*commas, len(body)], strict=True):
            out += self.variants(body[first:last], depth + 1)
            if len(out) > MAX_VARIANTS:
                raise Unknown
        return out

    def sequence(self, body: list[Part]) -> list[list[Part]]:
        """`{1..5}`, `{a..e}`, also with a step."""
        only = body[0] if len(body) == 1 else None
        match = _RANGE.fullmatch(only.text) if isinstance(only, Lit) and not only.quoted else None
        if match is None:
            raise Unknown
        if match[1] is not None:
            first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
            padded = any(re.match(r"-?0[0-9]", end) for end in (match[1], match[2]))
            width = max(len(match[1]), len(match[2])) if padded else 0
        else:
            first, last, step, width = ord(match[4]), ord(match[5]), abs(int(match[6] or 1)) or 1, 0
        if abs(last - first) // step >= MAX_VARIANTS:
            raise Unknown
        values = range(first, last + (1 if first <= last else -1), step if first <= last else -step)
        if match[1] is not None:
            return [[Lit(str(v).zfill(width), False)] for v in values]
        if any(not chr(v).isalpha() for v in values):
            raise Unknown  # {A..z} passes through quotes, backslash and backtick
        return [[Lit(chr(v), False)] for v in values]
