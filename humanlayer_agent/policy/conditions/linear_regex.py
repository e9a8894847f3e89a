"""Regular expressions that are matched in linear time, whoever wrote them.

Python's own engine tries alternatives one after the other: `(a+)+b` takes it exponential time on a text an agent may
choose. Here a pattern becomes an automaton that reads each character once, so no pattern can burn time. What can't be
matched so (back references, look-around) is refused, and so is a pattern that would need a large automaton.

Understood: literals, `.`, `[a-z]`, `[^a-z]`, `\\d \\w \\s \\D \\W \\S`, `( )`, `(?: )`, `|`, `* + ? {m} {m,} {m,n}`,
and `(?i)` at the beginning.
A pattern matches the whole text; `.` is any character.
"""

from collections.abc import Callable
from dataclasses import dataclass

MAX_PATTERN = 200
MAX_STATES = 1_000
MAX_TEXT = 20_000
MAX_MEMO = 4_000

Test = Callable[[str], bool]

_CLASSES: dict[str, Test] = {
    "d": str.isdecimal,
    "w": lambda c: c.isalnum() or c == "_",
    "s": str.isspace,
    "D": lambda c: not c.isdecimal(),
    "W": lambda c: not (c.isalnum() or c == "_"),
    "S": lambda c: not c.isspace(),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class _One:
    """One character."""

    test: Test


@dataclass(frozen=True, slots=True)
class _Many:
    """`parts` one after the other, or (`either`) one of them."""

    parts: "tuple[_Node, ...]"
    either: bool = False


@dataclass(frozen=True, slots=True)
class _Repeat:
    """`part` at least `low` and at most `high` times (None: any number)."""

    part: "_Node"
    low: int
    high: int | None


_Node = _One | _Many | _Repeat


class Regex:
    """A pattern, ready to match.

    Raises:
        ValueError: it is too long, too large, or uses what is not understood here.

    Example:
        >>> Regex("(a+)+b").matches("a" * 1000)
        False
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > MAX_PATTERN:
            raise ValueError(
                f"a regular expression has at most {MAX_PATTERN} characters, this has {len(pattern)}: write several "
                "patterns, of which one has to match"
            )
        self.pattern = pattern
        # A state has a test and where it leads, or (without a test) leads on at once.
        self._tests: list[Test | None] = []
        self._next: list[list[int]] = []
        self._end = self._state(None)
        start = self._build(_Parser(pattern).read(), self._end)
        self._start = self._closure([start])
        self._memo: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, text: str) -> bool | None:
        """Tell whether the whole of `text` matches; None where it is too long to be read."""
        if len(text) > MAX_TEXT:
            return None
        states = self._start
        for char in text:
            states = self._step(states, char)
            if not states:
                return False
        return self._end in states

    def may_begin(self, prefix: str) -> bool:
        """Tell whether a text that matches could begin with `prefix`."""
        states = self._start
        for char in prefix[:MAX_TEXT]:
            states = self._step(states, char)
        return bool(states)

    @property
    def size(self) -> int:
        """The number of states: matching takes at most so many steps for each character."""
        return len(self._tests)

    def shortest(self) -> str | None:
        """A shortest text of printable characters that matches; None where there is none."""
        printable = sorted(map(chr, range(32, 127)), key=lambda c: (not c.isalpha(), not c.isalnum(), c == " "))
        texts = dict.fromkeys(self._start, "")
        from collections import deque

        open_states = deque(sorted(self._start))
        while open_states:
            state = open_states.popleft()
            if state == self._end:
                return texts[state]
            test = self._tests[state]
            char = next((c for c in printable if test is not None and test(c)), None)
            for led in sorted(self._closure(self._next[state])) if char is not None else ():
                if led not in texts:
                    texts[led] = texts[state] + (char or "")
                    open_states.append(led)
        return None

    def examples(self) -> list[str]:
        """Return some texts that match, one for each way to: each alternative, both ends of each range, the fewest and
        the most repetitions.

        Example:
            >>> Regex("git|v[0-9]{1,2}").examples()
            ['git', 'v0', 'v9', 'v00']
        """
        return _examples(_Parser(self.pattern).read())

    def _step(self, states: frozenset[int], char: str) -> frozenset[int]:
        key = (states, char)
        found = self._memo.get(key)
        if found is None:
            led = [n for s in states if (test := self._tests[s]) is not None and test(char) for n in self._next[s]]
            found = self._closure(led)
            if len(self._memo) >= MAX_MEMO:
                self._memo.clear()
            self._memo[key] = found
        return found

    def _closure(self, states: list[int]) -> frozenset[int]:
        seen: set[int] = set()
        open_states = list(states)
        while open_states:
            state = open_states.pop()
            if state not in seen:
                seen.add(state)
                if self._tests[state] is None:
                    open_states += self._next[state]
        return frozenset(seen)

    def _state(self, test: Test | None, *leads: int) -> int:
        if len(self._tests) >= MAX_STATES:
            raise ValueError(
                "this regular expression is too large: it repeats too much. Write * or + where the count does not "
                "matter"
            )
        self._tests.append(test)
        self._next.append(list(leads))
        return len(self._tests) - 1

    def _build(self, node: _Node, then: int) -> int:
        """The state that matches `node` and leads to `then`."""
        if isinstance(node, _One):
            return self._state(node.test, then)
        if isinstance(node, _Many):
            if node.either:
                return self._state(None, *(self._build(part, then) for part in node.parts))
            for part in reversed(node.parts):
                then = self._build(part, then)
            return then
        if node.high is None:
            loop = self._state(None, then)
            self._next[loop].append(self._build(node.part, loop))
            then = loop
        else:
            for _ in range(node.high - node.low):
                then = self._state(None, then, self._build(node.part, then))
        for _ in range(node.low):
            then = self._build(node.part, then)
        return then


_GROUPS = ("abcdefghijklmnopqrstuvwxyz", "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_OTHERS = "".join(c for c in map(chr, range(126, 31, -1)) if not c.isalnum())
_MOST_EXAMPLES, _MOST_REPEATED = 48, 20


def _examples(node: _Node) -> list[str]:
    """Some texts that `node` matches; [] where none is printable."""
    if isinstance(node, _One):
        meant = ["".join(filter(node.test, group)) for group in _GROUPS]
        found = [end for group in meant if group for end in (group[0], group[-1])]
        found = found or list(filter(node.test, _OTHERS))[:4]
    elif isinstance(node, _Repeat):
        most = min(_MOST_REPEATED, node.low + 1 if node.high is None else node.high)
        inner = _examples(node.part)
        found = [each * count for count in (node.low, max(node.low, 1)) if count <= most for each in inner or [""]]
        found += [inner[0] * most] if inner else []
    else:
        parts = [_examples(part) for part in node.parts]
        if node.either:
            found = [each for part in parts for each in part]
        elif all(parts):
            plain = [part[0] for part in parts]
            found = ["".join((*plain[:n], each, *plain[n + 1 :])) for n, part in enumerate(parts) for each in part]
            found = found or [""]
        else:
            found = []
    return list(dict.fromkeys(found))[:_MOST_EXAMPLES]


class _Parser:
    """Reads a pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.folds = False

    def read(self) -> _Node:
        if self.text.startswith("(?i)"):
            self.at, self.folds = 4, True
        node = self.alternatives()
        if self.at < len(self.text):
            raise ValueError(f"unexpected {self.text[self.at]!r} at character {self.at + 1}")
        return node

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        if self.at >= len(self.text):
            raise ValueError("the regular expression ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self) -> _Node:
        self.depth += 1
        if self.depth > 20:
            raise ValueError("groups are nested too deep")
        found = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            found.append(self.sequence())
        self.depth -= 1
        return found[0] if len(found) == 1 else _Many(tuple(found), either=True)

    def sequence(self) -> _Node:
        parts: list[_Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated())
        return _Many(tuple(parts))

    def repeated(self) -> _Node:
        node = self.atom()
        while (char := self.peek()) in ("*", "+", "?", "{") and char:
            self.at += 1
            if char == "{":
                node = _Repeat(node, *self.bounds())
            else:
                node = _Repeat(node, int(char == "+"), 1 if char == "?" else None)
            if self.peek() in ("*", "+", "?", "{") and self.peek():
                instead = {"?": "a lazy repetition matches the same: leave the ? out", "+": "leave the + out"}
                hint = f"; {instead[self.peek()]}" if self.peek() in instead else ""
                raise ValueError(f"a repetition of a repetition at character {self.at + 1}{hint}")
        return node

    def bounds(self) -> tuple[int, int | None]:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at : max(end, self.at)].partition(",")
        if end > 0 and low.isdecimal() and (not high or high.isdecimal()) and max(len(low), len(high)) > 3:
            raise ValueError("a repetition of at most 999 times: write + or * for any number")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()) or len(low) > 3 or len(high) > 3:
            raise ValueError(f"{{ at character {self.at} is no repetition; write \\{{ for the character")
        self.at = end + 1
        least = int(low)
        most = int(high) if high else (None if comma else least)
        if most is not None and most < least:
            raise ValueError(f"a repetition of at least {least} and at most {most}")
        return least, most

    def atom(self) -> _Node:
        char = self.take()
        if char == "(":
            if self.text.startswith("?:", self.at):
                self.at += 2
            elif self.peek() == "?":
                raise ValueError(_instead_of_group(self.text[self.at - 1 :]))
            node = self.alternatives()
            if self.peek() != ")":
                raise ValueError("a ( without its )")
            self.at += 1
            return node
        if char == "[":
            return _One(self.bracket())
        if char == "\\":
            return _One(self.escape())
        if char == ".":
            return _One(lambda c: True)
        if char in "^$":
            raise ValueError(
                f"{char} is not needed, a pattern matches the whole text; write \\{char} for the character"
            )
        if char in "*+?{":
            raise ValueError(f"nothing to repeat before {char!r} at character {self.at}")
        return _One(self.same(char))

    def same(self, char: str) -> Test:
        """A test for one character."""
        return self.folded(char.__eq__)

    def folded(self, test: Test) -> Test:
        """The test, in whichever case a character is, where the pattern wants that."""
        if not self.folds:
            return test
        return lambda c: test(c) or test(c.lower()) or test(c.upper())

    def escape(self) -> Test:
        char = self.take()
        if char in _CLASSES:
            return _CLASSES[char]
        return self.same(self.literal(char))

    def literal(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isalnum():
            raise ValueError(
                f"\\{char} is not understood{_INSTEAD_OF_ESCAPE.get(char, _NO_REFERENCE * char.isdecimal())}"
            )
        return char

    def bracket(self) -> Test:
        if self.text.startswith("[:", self.at):
            raise ValueError("[:...:] is not understood: write the range, as [A-Za-z], or \\d, \\w, \\s")
        negated = self.peek() == "^"
        self.at += negated
        tests: list[Test] = []
        first = True
        while first or self.peek() != "]":
            first = False
            char = self.take()
            if char == "[" and self.peek() == ":":
                raise ValueError("[:...:] is not understood: write the range, as [A-Za-z], or \\d, \\w, \\s")
            if char == "\\":
                char = self.take()
                if char in _CLASSES:
                    tests.append(_CLASSES[char])
                    continue
                char = self.literal(char)
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                last = self.take()
                tests.append(self.folded(_range(char, self.literal(self.take()) if last == "\\" else last)))
            else:
                tests.append(self.same(char))
        self.at += 1
        found = tuple(tests)
        if negated:
            return lambda c: not any(test(c) for test in found)
        return lambda c: any(test(c) for test in found)


_WITHIN = r"a pattern matches the whole text, so write (.*\W)?word(\W.*)? for a word within it"
_INSTEAD_OF_ESCAPE = {
    "b": f": {_WITHIN}",
    "B": f": {_WITHIN}",
    "A": " and not needed: a pattern matches the whole text",
    "Z": " and not needed: a pattern matches the whole text",
    "z": " and not needed: a pattern matches the whole text",
    "p": r": write \w, or the range of letters",
    "P": r": write \W, or [^...] with the range of letters",
    "h": r": write \s",
    "R": r": write \n",
}
"""What to write in the place of an escape."""
_NO_REFERENCE = ": what a group has matched can't be compared in linear time. Write the alternatives out"


def _instead_of_group(text: str) -> str:
    """Say what to write in the place of a group that begins so."""
    said = "groups that begin with (? are not understood, but for (?: and, as the first of all, (?i)"
    if text.startswith(("(?=", "(?!", "(?<=", "(?<!")):
        return f"{said}: what stands before or behind is not looked at. Say what must not match below `not`"
    if text.startswith("(?P="):
        return f"{said}{_NO_REFERENCE}"
    if text.startswith(("(?P<", "(?<", "(?'")):
        return f"{said}: a group needs no name here. Write (?:"
    if text.startswith("(?>"):
        return f"{said}: nothing is tried a second time here anyway. Write (?:"
    if text.startswith("(?("):
        return f"{said}: what follows can't depend on a group. Write the alternatives out"
    if text.startswith("(?#"):
        return f"{said}. Write a comment of YAML beside the pattern"
    if text.startswith("(?x"):
        return f"{said}: each blank counts. Leave out those that do not belong to the text"
    if text.startswith("(?-"):
        return f"{said}: without (?i) the case matters. Leave it out"
    if text.startswith("(?i"):
        return f"{said}: the case matters in all of a pattern, or nowhere in it"
    if text.startswith(("(?s", "(?m")):
        return f"{said}: `.` is any character, and a pattern matches the whole text"
    return said


def _range(low: str, high: str) -> Test:
    if high < low:
        raise ValueError(f"the range {low}-{high} is empty")
    return lambda c: low <= c <= high
