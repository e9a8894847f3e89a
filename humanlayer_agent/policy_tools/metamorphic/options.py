"""Transformations of options: bundled and split, long and short, before and after the operands.

The catalog says which spellings belong together; only programs that read their words as GNU's getopt does are
rewritten.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy_tools.metamorphic.line import Edit, Line
from humanlayer_agent.policy_tools.metamorphic.quotes import bare
from humanlayer_agent.policy_tools.metamorphic.transformation import Apply, Transformation
from humanlayer_agent.shell import Field, catalog, syntax_tree

_FAMILIES = frozenset({"files", "text", "list", "search"})
"""Files of the catalog whose programs are GNU's, or read their words as those do."""

_NOT_GETOPT = frozenset({"tr", "seq", "printf", "echo", "test", "[", "true", "false"})
"""Programs of those families that end their options at the first operand, or have another way of their own."""

_AS_DESCRIBED = frozenset({"", "download"})
"""Grammars of programs whose options are read as the catalog describes them."""

_LAST_COUNTS = frozenset({"network"})
"""Files of the catalog whose programs take the last value of an option that is given twice (curl, wget)."""

_OTHER_VALUE = "GET"
"""What an option is given before its own value, so that nothing comes of it."""

_CONFLICTS = frozenset({"i", "I", "interactive", "no-clobber"})
"""Options of which the last one given counts."""


@dataclass(frozen=True, slots=True)
class Given:
    """One option as it was given: `name` with its dashes, `value` as it is written in the source (None: none)."""

    option: catalog.Option
    name: str
    value: str | None

    @property
    def joined(self) -> str:
        """In one word."""
        return self.name if self.value is None else f"{self.name}{'=' * self.long}{self.value}"

    @property
    def apart(self) -> str:
        """With the value in a word of its own, where the program takes it from there."""
        return self.joined if self.value is None or self.option.arity == 2 else f"{self.name} {self.value}"

    @property
    def long(self) -> bool:
        """Whether it is a name, and no letter."""
        return len(self.name) > 2


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one command. `dashes`: a `--` stands between options and operands."""

    spec: catalog.Spec
    items: Sequence[Given | str]
    dashes: bool

    @property
    def options(self) -> list[Given]:
        return [item for item in self.items if isinstance(item, Given)]

    @property
    def operands(self) -> list[str]:
        return [item for item in self.items if isinstance(item, str)]


Write = Callable[[Call], list[str] | None]
"""The arguments in another way, or None."""


def transformations() -> Iterator[Transformation]:
    """All of this module."""
    for name, write in _WRITERS.items():
        yield Transformation(name, _rewriter(write))
    yield Transformation("another-value-before", _rewriter(_with_another_value, _LAST_COUNTS))


def _rewriter(write: Write, families: frozenset[str] = _FAMILIES) -> Apply:
    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for command in line.commands:
            span = line.span(command) if len(command.words) > 1 else None
            call = read_call(command, families) if span is not None else None
            written = write(call) if call is not None else None
            if span is not None and written is not None:
                edits.append((command.words[1].start, span[1], " ".join(written)))
        return line.edit(edits)

    return apply


def read_call(command: syntax_tree.Simple, families: frozenset[str] = _FAMILIES) -> Call | None:
    """The arguments of `command`, where the program is known and each word is understood."""
    name = command.words[0].static
    if not name or name in _NOT_GETOPT or CATALOG.family(name) not in families:
        return None
    spec, words = CATALOG.lookup(name), command.words[1:]
    if spec is None or spec.grammar not in _AS_DESCRIBED or spec.subcommands or not spec.permute:
        return None
    arguments = catalog.read_arguments(spec, [_field(word) for word in words])
    if arguments.unknown or arguments.loose:
        return None
    items: list[Given | str] = []
    values = {id(u.value.word) for u in arguments.options if u.value is not None and u.value.word is not u.at.word}
    dashes = False
    for word in words:
        uses = [use for use in arguments.options if use.at.word is word]
        if word.static == "--" and not dashes and not uses and id(word) not in values:
            dashes = True
        elif uses:
            items += _given(spec, word, uses)
        elif id(word) not in values:
            if not dashes and word.static is not None and word.static.startswith("-") and word.static != "-":
                return None  # `head -5`
            items.append(word.raw)
    return Call(spec, items, dashes)


def _field(word: syntax_tree.Word) -> Field:
    """A word for `read_arguments`. What begins like a path is no option, whatever its wildcards stand for."""
    text = word.text if word.raw[:1] in ("~", "/", ".") and not word.dynamic else word.static
    return Field(word, word.start, word.end, text=text, prefix=text or "")


def _given(spec: catalog.Spec, word: syntax_tree.Word, uses: Sequence[catalog.OptionUse]) -> Iterator[Given]:
    text = word.static or ""
    whole = text.startswith("--") or text in spec.long  # chmod -rwx
    for n, use in enumerate(uses):
        name = text.partition("=")[0] if whole else f"-{text[n + 1]}"
        if use.value is None:
            value = None
        elif use.value.word is word:
            value = bare(use.value.text or "")
        else:
            value = use.value.word.raw
        yield Given(use.option, name, value)


# ---- other ways ---------------------------------------------------------------------------------------


def _ordered(call: Call, options: Sequence[str]) -> list[str]:
    """`options` in place of the options; each operand stays behind those that were before it."""
    left, out = list(options), list[str]()
    for item in call.items:
        out.append(item if isinstance(item, str) else left.pop(0))
    return [*out[: len(call.items) - len(call.operands)], "--", *call.operands] if call.dashes else out


def _split(call: Call) -> list[str]:
    return _ordered(call, [given.apart for given in call.options])


def _bundled(call: Call) -> list[str] | None:
    """Only options before the first operand: those behind it stay."""
    out: list[str] = []
    open_ = False
    for given in call.options:
        if open_ and not given.long:
            out[-1] += given.joined[1:]
        else:
            out.append(given.joined)
        open_ = not given.long and given.option.arity == 0
    return [*out, *(["--"] if call.dashes else []), *call.operands]


def _long(call: Call) -> list[str]:
    return _ordered(call, [lengthened(given, call.spec).joined for given in call.options])


def _short(call: Call) -> list[str]:
    return _ordered(call, [_renamed(given, call.spec.short, "-").apart for given in call.options])


def lengthened(given: Given, spec: catalog.Spec) -> Given:
    """By its long name. The catalog may put letters together that it need not tell apart: those have none."""
    letters = sum(option is given.option for option in spec.short.values())
    return _renamed(given, spec.long, "") if letters == 1 or given.option.name == "recursive" else given


def _renamed(given: Given, names: dict[str, catalog.Option], dash: str) -> Given:
    """`given` by the first of its `names`; as it is where it has none, or is of that kind already."""
    if given.long is not bool(dash):
        return given
    found = next((dash + name for name, option in names.items() if option is given.option), None)
    return given if found is None or not found.startswith(dash or "--") else replace(given, name=found)


def _abbreviated(call: Call) -> list[str] | None:
    """Long options cut off, as far as getopt takes them (to half of their length: the catalog may lack a name)."""
    if not call.spec.abbreviate:
        return None
    names = list(call.spec.long)

    def shortest(name: str) -> str:
        heads = (name[:n] for n in range(3 + len(name) // 3, len(name)))
        return next((head for head in heads if sum(other.startswith(head) for other in names) == 1), name)

    longer = [lengthened(given, call.spec) for given in call.options]
    return _ordered(call, [replace(g, name=shortest(g.name)).joined if g.long else g.joined for g in longer])


def _last(call: Call) -> list[str] | None:
    return [*call.operands, *(given.joined for given in call.options)] if not call.dashes else None


def _first(call: Call) -> list[str]:
    return [*(given.joined for given in call.options), *(["--"] if call.dashes else []), *call.operands]


def _between(call: Call) -> list[str] | None:
    """The options after the first operand."""
    if call.dashes or len(call.operands) < 2:
        return None
    return [call.operands[0], *(given.apart for given in call.options), *call.operands[1:]]


def _dashes(call: Call) -> list[str]:
    return [*(given.joined for given in call.options), "--", *call.operands]


def _reversed(call: Call) -> list[str] | None:
    names = [given.option.name for given in call.options]
    if call.dashes or len(set(names)) < len(names) or _CONFLICTS & set(names):
        return None
    return [*(given.joined for given in reversed(call.options)), *call.operands]


def _repeated(call: Call) -> list[str] | None:
    if call.dashes or any(given.value is not None for given in call.options):
        return None
    return [*(given.joined for given in (*call.options, *call.options)), *call.operands]


def _with_another_value(call: Call) -> list[str]:
    """Each option whose value is only text is given another one first."""
    twice = [
        f"{replace(given, value=_OTHER_VALUE).apart} {given.apart}"
        if given.option.kind == "text" and given.value is not None
        else given.joined
        for given in call.options
    ]
    return _ordered(call, twice)


_WRITERS: dict[str, Write] = {
    "split-options": _split,
    "bundled-options": _bundled,
    "long-options": _long,
    "short-options": _short,
    "abbreviated-options": _abbreviated,
    "options-last": _last,
    "options-first": _first,
    "options-between": _between,
    "double-dash": _dashes,
    "reversed-options": _reversed,
    "repeated-options": _repeated,
}
