"""Expansion: what a word of the source becomes, as far as that is certain.

The order is bash's: braces, tilde, parameters and substitutions, splitting, wildcards, quote removal
(Bash Reference Manual 5.2, section 3.5). What can't be proven stays dynamic.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from humanlayer_agent.shell.expansion import arithmetic, output, parameters
from humanlayer_agent.shell.expansion.braces import MAX_VARIANTS, Unknown, expand_braces
from humanlayer_agent.shell.expansion.field import (
    PROCESS_SUBSTITUTION,
    WILD,
    WILD_CHARACTER,
    Field,
    Located,
    bare_pattern,
    wildcards,
)
from humanlayer_agent.shell.interpreter.state import MAX_CHOICES, Anything, Glob, Paths, State, Value
from humanlayer_agent.shell.syntax.tree import Arith, Lit, Param, Part, ProcSub, Sub, Word

_HEAD = re.compile(r"(?:[^*?\[\\]|\\.)*", re.DOTALL)
_LATER_TILDE = re.compile(r"[=:]~")
_EMPTY_QUOTES = re.compile(r"''|\"\"")
_COST = 100
"""What the expansion of a word costs besides its text, in code points."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=", re.ASCII)


@dataclass(slots=True)
class _Text:
    """Known text. What is not `quoted` globs, and where it was also `expanded` it splits."""

    text: str
    quoted: bool
    expanded: bool = False


@dataclass(slots=True)
class _Gap:
    """Text that is not known: every value matches `pattern` (None: anything). `many`: it may split into words.

    `names`: wildcards stood here that became one or more words, each of which begins with `head`.
    """

    pattern: str | None = None
    many: bool = False
    names: bool = False
    head: str = ""


class _Break:
    """Where one element of `"$@"` ends and the next begins."""


_SOMEBODYS_HOME = Param("", "translate", None, None, True, "~")
"""Stands for a directory that is not known."""

_Piece = _Text | _Gap | _Break
_BREAK = _Break()


@dataclass(slots=True)
class _Partial:
    """A field under construction. One without pieces exists only where something quoted made it."""

    pieces: list[_Text | _Gap] = field(default_factory=list)
    quoted: bool = False


class _Mode(Enum):
    """How a word is expanded: an ordinary one; `name=value` after export; an assignment's value; a text (`<<<`)."""

    WORD = "word"
    DECLARATION = "declaration"
    VALUE = "value"
    TEXT = "text"


def expand(word: Word, state: State, *, declaration: bool = False) -> list[Field]:
    """The fields that `word` becomes. `declaration`: an assignment after export and its like, which does not split."""
    if not word.dynamic and not word.pattern:
        text = word.text or ""
        return [Field(word, word.start, word.end, text, (), None, text)]
    if bare_pattern(word):
        return [wildcards(word, nullglob=state.nullglob)]
    if not declaration and (name := located(word, state)) is not None and name.since is None:
        return [name.at(word)]
    out: list[Field] = []
    try:
        if state.work.left <= 0:
            raise Unknown
        mode = _Mode.DECLARATION if declaration else _Mode.WORD
        for parts in [_parts(word)] if declaration else _variants(word):
            out += _Expansion(word, state, mode).fields(parts)
            if len(out) > MAX_VARIANTS:
                raise Unknown
    except Unknown:
        return [Field(word, word.start, word.end, many=not declaration)]
    return out


def located(word: Word, state: State) -> Located | None:
    """The name that a program has printed, and that a variable holds which `word` is, and nothing else."""
    if len(word.parts) != 1 or not isinstance(part := word.parts[0], Param) or part.op or part.index is not None:
        return None
    value = state.lookup(part.name)
    if not value or type(value[0]) is not Located or len(value) != 1 or part.name in state.references or state.havoc:
        return None
    return value[0] if part.quoted or (state.default_ifs and not value[0].odd) else None


def literal_values(word: Word, state: State, *, assignment: bool = True) -> Value:
    """The values of `word` where nothing splits (an assignment): known texts, or None."""
    if not assignment and _LATER_TILDE.search(word.raw) and _later_tilde(_parts(word)):
        return None  # bash expands some of these, depending on what stands before them
    if not word.dynamic and not word.pattern:
        return (word.text or "",)
    try:
        found = _Expansion(word, state, _Mode.VALUE if assignment else _Mode.TEXT).fields(_parts(word))
    except Unknown:
        return None
    if not found:
        return ("",)
    return found[0].texts or None if len(found) == 1 else None


def text_of(word: Word, state: State) -> str | None:
    """The one text `word` stands for where nothing splits, or None."""
    values = literal_values(word, state, assignment=False)
    return values[0] if values is not None and len(values) == 1 else None


def _parts(word: Word) -> list[Part]:
    return word.parts or [Lit(word.text or "", word.quoted)]


def _variants(word: Word) -> list[list[Part]]:
    parts = _parts(word)
    if not any(isinstance(p, Lit) and not p.quoted and "{" in p.text for p in parts):
        return [parts]
    hidden = _EMPTY_QUOTES.search(word.raw) is not None
    if hidden and any(isinstance(p, Lit) and not p.quoted and ("{}" in p.text or ".." in p.text) for p in parts):
        raise Unknown  # `""{}a,/}` is }a and /, `{1..""3}` is no range: what keeps them from it is not among the parts
    variants = expand_braces(parts)
    if len(variants) == 1:
        return variants
    if any(isinstance(p, Param) and p.raw.count("{") != p.raw.count("}") for p in parts):
        raise Unknown  # `${x:-{a}{b,c}}`: where the parameter ends differs between braces and parameters
    if hidden and not all(map(_certain, variants)):
        raise Unknown  # which variant the empty quotes are in is not known
    if any(_later_tilde(v) or _longer_name(v) for v in variants):
        raise Unknown  # `{a,b}=~` differs between versions
    return variants


def _certain(parts: list[Part]) -> bool:
    """Whether a field exists with and without empty quotes in it."""
    return any(isinstance(p, Lit) and p.text for p in parts)


def _later_tilde(parts: list[Part]) -> bool:
    return any(isinstance(p, Lit) and not p.quoted and _LATER_TILDE.search(p.text) is not None for p in parts)


def _longer_name(parts: list[Part]) -> bool:
    """Braces are expanded as text, before names are read: `$x{a,b}` is `$xa $xb`."""
    for part, after in itertools.pairwise(parts):
        named = (
            isinstance(part, Param)
            and not part.raw.startswith("${")
            and (part.name[:1].isalpha() or part.name[:1] == "_")
        )
        if named and isinstance(after, Lit) and not after.quoted and re.match(r"[A-Za-z0-9_\[]", after.text):
            return True
    return False


class _Expansion:
    """The expansion of one word (after braces) in one state."""

    def __init__(self, word: Word, state: State, mode: _Mode) -> None:
        self.word, self.state, self.mode = word, state, mode
        self.split = mode is _Mode.WORD
        self.splits = False
        """Whether an expansion has split the word, or could have."""

    def fields(self, parts: list[Part]) -> list[Field]:
        """The fields that `parts` become.

        Raises:
            Unknown: not even a shape is known.
        """
        if not self.state.work.spend(_COST):
            raise Unknown  # `{1..9}$(echo {1..9}$( ... ))`: what stands within is expanded for each around it
        ways: list[list[_Partial]] = [[_Partial()]]
        for part in self._tilde(parts):
            values = self._values(part)
            if len(values) * len(ways) > MAX_CHOICES:
                raise Unknown
            if len(values) > 1:
                ways = [self._copied(way) for way in ways for _ in values]
            for n, way in enumerate(ways):
                self._append(way, values[n % len(values)])
        if _EMPTY_QUOTES.search(self.word.raw):
            self._empty_quotes(ways, parts)
        found = [[self._field(p) for p in way if p.pieces or p.quoted] for way in ways]
        if len(found) == 1:
            return found[0]
        # Several possible values: one field each way becomes one field with choices, anything else is dynamic.
        if all(len(each) == 1 and each[0].text is not None for each in found):
            texts = tuple(dict.fromkeys(each[0].text or "" for each in found))
            return [Field(self.word, self.word.start, self.word.end, choices=texts)]
        raise Unknown

    def _empty_quotes(self, ways: list[list[_Partial]], parts: list[Part]) -> None:
        """An empty pair of quotes makes a field, or not, depending on where it stands: `parts` do not say."""
        if self.splits:
            raise Unknown
        for way in ways:
            if not way[0].pieces and any(isinstance(p, Param) and p.arg is not None and p.arg.quoted for p in parts):
                raise Unknown
            way[0].quoted = True

    @staticmethod
    def _copied(way: list[_Partial]) -> list[_Partial]:
        return [_Partial(list(p.pieces), p.quoted) for p in way]

    # ---- the pieces of one part -----------------------------------------------------------------------

    def _values(self, part: Part) -> list[list[_Piece]]:
        """The texts a part may stand for, each as pieces."""
        match part:
            case Lit():
                return [[_Text(part.text, part.quoted)]]
            case ProcSub():
                return [[_Text(PROCESS_SUBSTITUTION, True)]]
            case Param():
                return self._parameter(part)
            case Arith():
                return [[_Gap("*", many=not part.quoted and not self.state.default_ifs)]]
            case Sub():
                if output.is_pwd(part.script, self.state):
                    return [[self._expanded(cwd, part.quoted)] for cwd in self.state.cwd or ()]
                text = output.substituted(part.script, self.state, expand)
                if text is None and (name := output.located(part.script, self.state)) is not None:
                    self.state.work.wondered = True
                    text = name if self.state.usual else None
                if text is None and arithmetic.prints_digits(part.script, self.state):
                    return [[_Gap("[0-9]*", many=not part.quoted and not self.state.default_ifs)]]
                return [[self._expanded(text, part.quoted)]] if text is not None else [[_Gap(many=not part.quoted)]]
            case _:
                return [[_Gap(many=True)]]

    def _parameter(self, part: Param) -> list[list[_Piece]]:
        listed = parameters.elements(part, self.state)
        if listed is not None:
            return [self._list(part, listed)]
        known = parameters.values(part, self.state, _plain)
        if known is not None:
            return [[self._expanded(text, part.quoted)] for text in known]
        if (pattern := parameters.number_pattern(part, self.state)) is not None:
            return [[_Gap(pattern, many=not part.quoted and not self.state.default_ifs)]]
        several = part.name == "@" or part.index == "@" or part.op == "!"
        return [[_Gap(many=not part.quoted or several)]]

    def _expanded(self, text: str, quoted: bool) -> _Text | _Gap:
        if not self.state.work.spend(len(text)):
            raise Unknown
        if isinstance(text, Anything | Located):
            return _Gap(many=not quoted)
        if isinstance(text, Paths):
            known = quoted and self.split and not self.state.nullglob
            return _Gap(str(text), names=True, head=split_head(text)) if known else _Gap(many=True)
        if isinstance(text, Glob):
            return _Gap(str(text)) if quoted or not self.split else _Gap(many=True)
        if not quoted and self.split and text and (self._separators() is None or "\\" in text):
            return _Gap(many=True)  # how a backslash from a variable globs differs between versions
        return _Text(text, quoted, expanded=True)

    def _list(self, part: Param, listed: tuple[str, ...]) -> list[_Piece]:
        """The pieces of `$@`, `$*` and their like."""
        if not self.split or not self.state.default_ifs:
            raise Unknown
        if part.quoted and (part.name == "*" or part.index == "*"):
            if any(isinstance(each, Glob) for each in listed):
                raise Unknown
            return [self._expanded(" ".join(listed), True)]
        if len(listed) > MAX_VARIANTS:
            raise Unknown
        self.splits = True
        pieces: list[_Piece] = []
        for text in listed:
            pieces += [_BREAK, self._expanded(text, part.quoted)] if pieces else [self._expanded(text, part.quoted)]
        return pieces

    def _tilde(self, parts: list[Part]) -> list[Part]:
        """`parts` with unquoted tildes that stand for a directory replaced by it (or by what is not known)."""
        if not any(isinstance(p, Lit) and not p.quoted and "~" in p.text for p in parts):
            return parts
        if _EMPTY_QUOTES.search(self.word.raw):
            raise Unknown  # `~""` is no tilde prefix
        first = parts[0]
        value = None
        if isinstance(first, Lit) and not first.quoted and self.mode in (_Mode.WORD, _Mode.DECLARATION):
            # bash expands a tilde in every word that looks like an assignment: `make prefix=~/x`.
            assigned = _ASSIGNMENT.match(first.text)
            value = assigned.end() if assigned else None
        colons = value is not None or self.mode is _Mode.VALUE
        out: list[Part] = []
        for n, part in enumerate(parts):
            if isinstance(part, Lit) and not part.quoted and "~" in part.text:
                starts = {0, value} if n == 0 else set()
                out += self._tildes(part.text, starts, colons, last=n + 1 == len(parts))
            else:
                out.append(part)
        return out

    def _tildes(self, text: str, starts: set[int | None], colons: bool, *, last: bool) -> Iterator[Part]:
        """The parts of one unquoted text, in which a tilde at one of `starts` (and after colons) may be a prefix."""
        done = 0
        for at in range(len(text)):
            if text[at] != "~" or at < done or not (at in starts or (colons and at > 0 and text[at - 1] == ":")):
                continue
            end = at + 1
            while end < len(text) and text[end] != "/" and not (colons and text[end] == ":"):
                end += 1
            if end == len(text) and not last:
                raise Unknown  # `~$x` and `~"x"` are no tilde prefixes, but `~x:$y` is
            yield Lit(text[done:at], False)
            if text[at + 1 : end] == "+" and self.state.cwd is not None and self.state.untouched("PWD"):
                home: Value = self.state.cwd
            else:
                home = self.state.lookup("HOME") if end == at + 1 else None
            if home is not None and len(home) == 1 and home[0] and not isinstance(home[0], Glob):
                yield Lit(home[0], True)
            else:
                yield _SOMEBODYS_HOME
            done = end
        yield Lit(text[done:], False)

    # ---- splitting --------------------------------------------------------------------------------------

    def _append(self, way: list[_Partial], pieces: Sequence[_Piece]) -> None:
        """Add `pieces` to the last field of `way`; text from an unquoted expansion splits at blanks."""
        for piece in pieces:
            last = way[-1]
            if isinstance(piece, _Break):
                way.append(_Partial())
            elif isinstance(piece, _Gap):
                last.pieces.append(piece)
            elif piece.quoted or not piece.expanded or not self.split:
                last.quoted |= piece.quoted
                if piece.text:
                    last.pieces.append(piece)
            else:
                self._split(way, piece.text)

    def _separators(self) -> str | None:
        """The characters at which text splits (IFS), or None where they are not known."""
        if self.state.default_ifs:
            return " \t\n"
        value = self.state.lookup("IFS")
        return value[0] if value is not None and len(value) == 1 and not isinstance(value[0], Glob) else None

    def _split(self, way: list[_Partial], text: str) -> None:
        done = 0
        for found in _separator(self._separators() or "").finditer(text):
            self.splits = True
            if found.start() > done:
                way[-1].pieces.append(_Text(text[done : found.start()], False))
            way[-1].quoted |= found["mark"] is not None  # between two of them a field exists even when it is empty
            if way[-1].pieces or way[-1].quoted:
                way.append(_Partial())
            done = found.end()
        if text[done:]:
            way[-1].pieces.append(_Text(text[done:], False))

    # ---- fields -----------------------------------------------------------------------------------------

    def _field(self, partial: _Partial) -> Field:
        word, pieces = self.word, partial.pieces
        loose = "".join(p.text if isinstance(p, _Text) and not p.quoted else "\0" for p in pieces)
        wild = self.split and WILD.search(loose) is not None
        head = self._head(pieces, wild)
        gaps = [p for p in pieces if isinstance(p, _Gap)]
        many = self.split and (any(g.many for g in gaps) or (wild and self.state.nullglob))
        if any(g.names for g in gaps):
            if len(pieces) > 1:
                return Field(word, word.start, word.end, many=True)
            wild = True
        if any(g.pattern is None or g.many for g in gaps):
            return Field(word, word.start, word.end, prefix=head, many=many)
        if gaps or wild:
            glob = "".join(p.pattern or "" if isinstance(p, _Gap) else _escaped(p, wild) for p in pieces)
            return Field(
                word, word.start, word.end, glob=glob, prefix=head, many=many, pathname=wild, exact=wild and not gaps
            )
        return Field(word, word.start, word.end, text=head, prefix=head)

    @staticmethod
    def _head(pieces: Sequence[_Text | _Gap], wild: bool) -> str:
        """The literal text that the field certainly begins with."""
        head = ""
        for piece in pieces:
            if isinstance(piece, _Gap):
                head += piece.head
                break
            stop = WILD_CHARACTER.search(piece.text) if wild and not piece.quoted else None
            if stop is not None:
                return head + piece.text[: stop.start()]
            head += piece.text
        return head


def _separator(ifs: str) -> re.Pattern[str]:
    """What stands between two fields: one character of IFS that is no blank (`mark`), with blanks of IFS around it."""
    blanks = "".join(c for c in ifs if c in " \t\n")
    marks = "".join(re.escape(c) for c in ifs if c not in " \t\n")
    some = f"[{blanks}]" if blanks else "(?!)"
    return re.compile(f"{some}*(?P<mark>{f'[{marks}]' if marks else '(?!)'}){some}*|{some}+")


def split_head(pattern: str) -> str:
    """The text before the first wildcard of `pattern`."""
    found = _HEAD.match(pattern)
    return re.sub(r"\\(.)", r"\1", found[0], flags=re.DOTALL) if found else ""


def _plain(word: Word, state: State) -> Value:
    return literal_values(word, state, assignment=False)


def _escaped(piece: _Text, wild: bool) -> str:
    if piece.quoted or not wild:
        return re.sub(r"([*?\[\]\\])", r"\\\1", piece.text)
    return piece.text


__all__ = ["PROCESS_SUBSTITUTION", "Field", "expand", "literal_values"]
