"""Expansion: what a word of the source becomes, as far as that is certain.

The order is bash's: braces, tilde, parameters and substitutions, splitting, wildcards, quote removal
(Bash Reference Manual 5.2, section 3.5). What can't be proven stays dynamic.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from humanlayer_agent.shell.state import MAX_CHOICES, State, Value
from humanlayer_agent.shell.syntax import Lit, Param, Part, ProcSub, Word

MAX_FIELDS = 256
_WILD = frozenset("*?[")
_NUMERIC = frozenset("$?#!") | {"UID", "EUID", "PPID", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "BASHPID", "EPOCHSECONDS"}
PROCESS_SUBSTITUTION = "/dev/fd/63"
"""What bash puts in the place of `<( )`: a path of this form."""


@dataclass(slots=True, eq=False)
class Field:
    """One word after expansion (or, where `many`, any number of words).

    Exactly one of these holds: `text` is the literal; `choices` are the literals it may be; `glob` is a pattern
    (literal wildcards escaped with a backslash) that every value matches; none of them: the value is dynamic.
    `prefix` is the literal text it certainly starts with. `below`: every value is a path below this directory.
    """

    word: Word
    start: int
    end: int
    text: str | None = None
    choices: tuple[str, ...] = ()
    glob: str | None = None
    prefix: str = ""
    many: bool = False
    below: str | None = None
    pathname: bool = False
    """`glob` comes from wildcards in the command (not from digits): it may become several words, or stay itself."""

    @property
    def shown(self) -> str:
        """The word for argv: its value where it is known, else as it was written."""
        return self.text if self.text is not None else self.word.raw

    @property
    def dynamic(self) -> bool:
        return self.text is None and not self.choices and self.glob is None

    def may_be_option(self) -> bool:
        """True unless the value certainly does not begin with a dash."""
        if self.text is not None:
            return self.text.startswith("-")
        if self.choices:
            return any(c.startswith("-") for c in self.choices)
        if self.below is not None:
            return False
        head = self.prefix[:1]
        if head:
            return head == "-"
        return True

    def tail(self, count: int) -> "Field":
        """The value without its first `count` characters (an option's attached value)."""
        assert self.text is not None
        return Field(self.word, min(self.start + count, self.end), self.end, text=self.text[count:])


@dataclass(slots=True)
class _Char:
    """A literal character, and whether quoting makes it inert."""

    char: str
    quoted: bool


@dataclass(slots=True)
class _Hole:
    """A piece of unknown text; `numeric` where it can only be digits; `many` where it may split into words."""

    numeric: bool = False
    many: bool = False
    join: bool = False


_Atom = _Char | _Hole | Param
_Piece = _Char | _Hole


@dataclass(slots=True)
class _Partial:
    """Fields under construction: the pieces of each so far."""

    pieces: list[_Piece] = field(default_factory=list)
    quoted: bool = False


def expand(word: Word, state: State, *, split: bool = True) -> list[Field]:
    """The fields that `word` becomes. `split` is False where bash neither splits nor globs (assignments, redirects)."""
    if not word.dynamic and not word.pattern:
        text = word.text or ""
        return [Field(word, word.start, word.end, text=text, prefix=text)]
    atoms = _atoms(word)
    variants = _braces(atoms) if split and word.pattern else [atoms]
    if variants is None or len(variants) > MAX_FIELDS:
        return [Field(word, word.start, word.end, many=True)]
    out: list[Field] = []
    for variant in variants:
        out += _expand_variant(word, variant, state, split)
        if len(out) > MAX_FIELDS:
            return [Field(word, word.start, word.end, many=True)]
    return out


def literal_values(word: Word, state: State) -> Value:
    """The values of `word` where nothing splits (an assignment): known texts, or None."""
    if word.dynamic and any(not isinstance(p, Lit | Param) for p in word.parts):
        return None
    fields = expand(word, state, split=False)
    if len(fields) != 1:
        return None
    only = fields[0]
    if only.text is not None:
        return (only.text,)
    return only.choices or None


# ---- atoms ----------------------------------------------------------------------------------------


def _atoms(word: Word) -> list[_Atom]:
    parts: list[Part] = word.parts or [Lit(word.text or "", word.quoted)]
    out: list[_Atom] = []
    for part in parts:
        if isinstance(part, Lit):
            if part.quoted and not part.text:
                out.append(_Char("", True))  # '' makes an empty word
            out += (_Char(c, part.quoted) for c in part.text)
        elif isinstance(part, Param):
            out.append(part)
        elif isinstance(part, ProcSub):
            out += (_Char(c, True) for c in PROCESS_SUBSTITUTION)
        else:
            numeric = type(part).__name__ == "Arith"
            quoted = getattr(part, "quoted", False)
            out.append(_Hole(numeric=numeric, many=not quoted and not numeric))
    return out


# ---- braces ---------------------------------------------------------------------------------------


def _plain(atom: _Atom, char: str) -> bool:
    return isinstance(atom, _Char) and not atom.quoted and atom.char == char


def _braces(atoms: list[_Atom], depth: int = 0) -> list[list[_Atom]] | None:
    """Every variant after brace expansion; None where there are too many or they nest too deep."""
    if depth > 16:
        return None
    for start, atom in enumerate(atoms):
        if not _plain(atom, "{"):
            continue
        found = _brace_body(atoms, start)
        if found is None:
            continue
        alternatives, end = found
        out: list[list[_Atom]] = []
        rest = _braces(atoms[end:], depth + 1)
        if rest is None:
            return None
        for alternative in alternatives:
            inner = _braces(alternative, depth + 1)
            if inner is None or len(out) + len(inner) * len(rest) > MAX_FIELDS:
                return None
            out += [atoms[:start] + middle + tail for middle in inner for tail in rest]
        return out
    return [atoms]


def _brace_body(atoms: list[_Atom], start: int) -> tuple[list[list[_Atom]], int] | None:
    """The alternatives of the brace at `start` and the index after it, or None where bash leaves it as text."""
    depth, alternatives, current = 0, [], []
    for i in range(start, len(atoms)):
        atom = atoms[i]
        if _plain(atom, "{"):
            depth += 1
            if depth == 1:
                continue
        elif _plain(atom, "}"):
            depth -= 1
            if depth == 0:
                alternatives.append(current)
                if len(alternatives) > 1:
                    return alternatives, i + 1
                sequence = _sequence(current)
                return (sequence, i + 1) if sequence is not None else None
        elif _plain(atom, ",") and depth == 1:
            alternatives.append(current)
            current = []
            continue
        current.append(atom)
    return None


_RANGE = re.compile(r"(-?[0-9]{1,9})\.\.(-?[0-9]{1,9})(?:\.\.(-?[0-9]{1,9}))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?[0-9]{1,9}))?")


def _sequence(atoms: list[_Atom]) -> list[list[_Atom]] | None:
    """`{1..5}`, `{a..e}`, with a step; None where it is not a sequence. Too long ones come out as one hole."""
    if not all(isinstance(a, _Char) and not a.quoted for a in atoms):
        return None
    text = "".join(a.char for a in atoms if isinstance(a, _Char))
    match = _RANGE.fullmatch(text)
    if not match:
        return None
    if match[1] is not None:
        first, last, step = int(match[1]), int(match[2]), abs(int(match[3] or 1)) or 1
        width = max((len(x) for x in (match[1], match[2]) if re.match(r"-?0[0-9]", x)), default=0)
    else:
        first, last, step, width = ord(match[4]), ord(match[5]), abs(int(match[6] or 1)) or 1, 0
    if abs(last - first) // step >= MAX_FIELDS:
        return [[_Hole(numeric=match[1] is not None, many=True)]]
    values = range(first, last + (1 if first <= last else -1), step if first <= last else -step)
    if match[1] is None and any(not chr(v).isalpha() for v in values):
        return [[_Hole(many=True)]]  # {A..z} passes through quotes, backslash and backtick
    texts = [str(v).zfill(width) if match[1] is not None else chr(v) for v in values]
    return [[_Char(c, True) for c in t] for t in texts]


# ---- parameters, tilde, splitting -------------------------------------------------------------------


def _expand_variant(word: Word, atoms: list[_Atom], state: State, split: bool) -> list[Field]:
    tilde = _tilde(atoms, state, assignment=not split)
    alternatives: list[list[_Partial]] = [[_Partial()]]
    for atom in tilde:
        values = _values(atom, state)
        if len(values) * len(alternatives) > MAX_CHOICES:
            values = [[_Hole(many=split and isinstance(atom, Param) and not atom.quoted)]]
            alternatives = alternatives[:1]
            if len(alternatives) * len(values) > MAX_CHOICES:
                return [Field(word, word.start, word.end, many=True)]
        quoted = not isinstance(atom, Param) or atom.quoted
        alternatives = [
            grown for fields in alternatives for value in values for grown in [_append(fields, value, split and not quoted, state)]
        ]
    lists = [[_field(word, partial, split) for partial in fields if partial.pieces or partial.quoted] for fields in alternatives]
    if len(lists) == 1:
        return lists[0]
    # Several possible values: one field each way becomes one field with choices, anything else is dynamic.
    if all(len(fields) == 1 and fields[0].text is not None for fields in lists):
        texts = tuple(dict.fromkeys(fields[0].text or "" for fields in lists))
        return [Field(word, word.start, word.end, choices=texts)]
    return [Field(word, word.start, word.end, many=split)]


def _values(atom: _Atom, state: State) -> list[list[_Piece]]:
    """The texts an atom may stand for, each as pieces."""
    if isinstance(atom, _Char | _Hole):
        return [[atom]]
    known = parameter(atom, state)
    if known is None:
        if atom.op == "length" or atom.name in _NUMERIC and not atom.op:
            return [[_Hole(numeric=True)]]
        return [[_Hole(many=not atom.quoted or atom.name == "@" or atom.index == "@")]]
    out: list[list[_Piece]] = []
    for text in known:
        pieces: list[_Piece] = [_Char(c, atom.quoted) for c in text]
        if not text and atom.quoted:
            pieces = [_Char("", True)]
        out.append(pieces)
    return out


def parameter(part: Param, state: State) -> Value:
    """The values of a parameter expansion, or None where they can't be known. An unset variable is ("",)."""
    if part.index is not None or part.op in ("!", "length", "@"):
        return None
    name = part.name
    if name.isdigit():
        if name == "0" or state.positional is None:
            return None
        position = int(name) - 1
        value: Value = (state.positional[position],) if position < len(state.positional) else ()
    elif not (name[:1].isalpha() or name[:1] == "_"):
        return None
    else:
        value = (state.cwd if state.cwd else None) if name == "PWD" and name not in state.variables else state.lookup(name)
    if not part.op:
        return value if value is None else value or ("",)
    return _operate(part, value, state)


def _operate(part: Param, value: Value, state: State) -> Value:
    """`${x:-y}` and its family, where both x and y are known."""
    base = part.op.lstrip(":")
    if base not in ("-", "=", "+", "?") or value is None:
        return None
    unset = value == () or (part.op.startswith(":") and value == ("",))
    if not unset and part.op.startswith(":") and "" in value:
        return None
    if base == "+":
        return ("",) if unset else _argument(part, state)
    if base == "?" and unset:
        return None
    if unset:
        # `=` also assigns: the caller forgets the name before the command runs.
        return _argument(part, state)
    return value


def _argument(part: Param, state: State) -> Value:
    return ("",) if part.arg is None else literal_values(part.arg, state)


_IFS_BLANK = " \t\n"


def _append(fields: list[_Partial], value: list[_Piece], split: bool, state: State) -> list[_Partial]:
    """`fields` with `value` added; unquoted values split into further fields at blanks."""
    out = [*fields[:-1], _Partial(list(fields[-1].pieces), fields[-1].quoted)]
    for piece in value:
        if isinstance(piece, _Char):
            if split and not piece.quoted:
                if not state.default_ifs:
                    out[-1].pieces.append(_Hole(many=True))
                    continue
                if piece.char in _IFS_BLANK:
                    if out[-1].pieces or out[-1].quoted:
                        out.append(_Partial())
                    continue
            out[-1].quoted |= piece.quoted
            if piece.char:
                out[-1].pieces.append(piece)
        else:
            out[-1].pieces.append(piece)
    return out


def _tilde(atoms: list[_Atom], state: State, *, assignment: bool) -> list[_Atom]:
    """`atoms` with a leading unquoted tilde replaced by the home directory (or by a hole for other users)."""
    out: list[_Atom] = []
    i, start = 0, True
    while i < len(atoms):
        atom = atoms[i]
        if start and _plain(atom, "~"):
            end = i + 1
            while end < len(atoms) and not _plain(atoms[end], "/") and not (assignment and _plain(atoms[end], ":")):
                end += 1
            prefix = atoms[i + 1 : end]
            if not prefix:
                home = state.lookup("HOME")
                if home is not None and len(home) == 1:
                    out += [_Char(c, True) for c in home[0]]
                else:
                    out.append(_Hole())
            elif all(isinstance(a, _Char) and not a.quoted for a in prefix):
                out.append(_Hole())  # ~user, ~+, ~-
            else:
                out += atoms[i:end]
            i, start = end, False
            continue
        start = assignment and _plain(atom, ":")
        out.append(atom)
        i += 1
    return out


# ---- fields ---------------------------------------------------------------------------------------


def _field(word: Word, partial: _Partial, split: bool) -> Field:
    pieces = partial.pieces
    prefix = "".join(p.char for p in _leading(pieces))
    holes = [p for p in pieces if isinstance(p, _Hole)]
    wild = split and any(isinstance(p, _Char) and not p.quoted and p.char in _WILD for p in pieces)
    if wild:
        first = next(i for i, p in enumerate(pieces) if not isinstance(p, _Char) or (not p.quoted and p.char in _WILD))
        prefix = "".join(p.char for p in _leading(pieces[:first]))
    if any(not h.numeric for h in holes):
        return Field(word, word.start, word.end, prefix=prefix, many=split and any(h.many for h in holes))
    if holes or wild:
        text = "".join("[0-9]*" if isinstance(p, _Hole) else _escaped(p, wild) for p in pieces)
        return Field(word, word.start, word.end, glob=text, prefix=prefix, pathname=wild)
    return Field(word, word.start, word.end, text=prefix, prefix=prefix)


def _leading(pieces: list[_Piece]) -> Iterator[_Char]:
    for piece in pieces:
        if not isinstance(piece, _Char):
            return
        yield piece


def _escaped(piece: _Char, wild: bool) -> str:
    if piece.char in "*?[]\\" and (piece.quoted or not wild):
        return "\\" + piece.char
    return piece.char
