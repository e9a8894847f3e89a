"""A command's words, read with its Spec: flags, option values, operands, and what is in doubt."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.programs.spec import Option, Slot, Spec

_MAX_WORDS = 16
_MAX_TEXT = 200
_MAX_SHAPES = 256

Shape = tuple[tuple[tuple[Option, int, int, int], ...], tuple[int, ...], tuple[int, ...]]
"""Words that were read, by their places: options (with their value's place and how much of that word goes before it),
operands, and what is not known."""


@dataclass(slots=True, eq=False)
class OptionUse:
    """One option as it was given; `value` is None for a flag."""

    option: Option
    at: Field
    value: Field | None


@dataclass(slots=True, eq=False)
class Arguments:
    """`unknown` are options the Spec does not list; `loose` words of unknown value that may be or add options."""

    options: list[OptionUse] = field(default_factory=list)
    operands: list[Field] = field(default_factory=list)
    unknown: list[Field] = field(default_factory=list)
    loose: list[Field] = field(default_factory=list)

    def flags(self) -> set[str]:
        return {use.option.name for use in self.options}


def read_arguments(spec: Spec, fields: Sequence[Field]) -> Arguments:
    """Split `fields` (without the program's name) the way getopt does, with abbreviation and bundling."""
    # Of other words than options only the place counts here: `grep -n a b` is read as `grep -n c d` is.
    shape = tuple([
        text if (text := word.text) is not None and text[:1] in ("-", "+") else text and "" for word in fields
    ])  # fmt: skip
    read = spec.shapes.get(shape)
    if read is not None:
        return _as_before(read, fields)
    out = _read(spec, fields)
    small = len(shape) <= _MAX_WORDS and sum([len(text or "") for text in shape]) <= _MAX_TEXT
    if small and None not in shape and len(spec.shapes) < _MAX_SHAPES:
        spec.shapes[shape] = _places(out, fields)
    return out


def _places(found: Arguments, fields: Sequence[Field]) -> Shape:
    """`found`, with the places of its words instead of the words."""
    place = {id(word): n for n, word in enumerate(fields)}
    options = []
    for use in found.options:
        value, cut = use.value, 0
        if value is not None and id(value) not in place:  # a part of the option's own word
            value, cut = use.at, len(use.at.text or "") - len(value.text or "")
        options.append((use.option, place[id(use.at)], place[id(value)] if value is not None else -1, cut))
    operands, unknown = ([place[id(word)] for word in words] for words in (found.operands, found.unknown))
    return tuple(options), tuple(operands), tuple(unknown)


def _as_before(shape: Shape, fields: Sequence[Field]) -> Arguments:
    options, operands, unknown = shape
    uses = [
        OptionUse(option, fields[at], (fields[value].tail(cut) if cut else fields[value]) if value >= 0 else None)
        for option, at, value, cut in options
    ]
    at_place = fields.__getitem__
    return Arguments(uses, list(map(at_place, operands)), list(map(at_place, unknown)), [])


def _read(spec: Spec, fields: Sequence[Field]) -> Arguments:
    out = Arguments([], [], [], [])
    options, operands, count = out.options, out.operands, len(fields)
    i = 0
    while i < count:
        word = fields[i]
        i += 1
        text = word.text
        if text is None:
            if word.glob is not None and not word.many and (name := _named_option(spec, word.prefix)) is not None:
                # `--include=*.py`: whatever the pattern matches is this option again.
                out.options.append(OptionUse(name, word, word.tail(word.prefix.index("=") + 1)))
                continue
            if word.glob is not None and not word.many and (uses := _attached(spec, word)):
                out.options += uses
                continue
            if word.may_be_option():
                # `"$f"` in `for f in *.py` is one of those names, as the unquoted pattern would be.
                out.loose.append(word if word.glob is None else replace(word, pathname=True))
            operands.append(word)
            if not spec.permute:
                break
        elif text == "--":
            break
        elif len(text) > 1 and (text[0] == "-" or (text[0] == "+" and text in spec.long)):
            i = _option(spec, text, word, fields, i, out)
            if options and options[-1].option.last:
                break
        else:
            operands.append(word)
            if not spec.permute:
                break
    operands += fields[i:]
    return out


def _named_option(spec: Spec, prefix: str) -> Option | None:
    """The long option that `--name=` at the start of a word gives a value to."""
    name, equals, _ = prefix.partition("=")
    option = _long(spec, name) if equals and name.startswith("--") else None
    return option if option is not None and option.arity else None


def _attached(spec: Spec, word: Field) -> list[OptionUse]:
    """The options in `-j[0-9]*`, whose last one has the rest of the word for its value; none where that isn't so."""
    uses: list[OptionUse] = []
    for at, letter in enumerate(word.prefix[1:], 1) if word.prefix[:1] == "-" else ():
        option = spec.short.get(letter)
        if option is None:
            return []
        value = word.tail(at + 1) if option.arity else None
        uses.append(OptionUse(option, word, value))
        if value is not None:
            # `-o*` may match a file called -o: the value would then be the next word.
            return uses if option.arity == 2 or (value.glob or "").strip("*") else []
    return []


def _option(spec: Spec, text: str, word: Field, fields: Sequence[Field], i: int, out: Arguments) -> int:
    """Read the option word `text`; returns the index after what it used."""
    if text.startswith("--") or text.partition("=")[0] in spec.long:
        name, equals, _ = text.partition("=")
        option = _long(spec, name)
        if option is None:
            out.unknown.append(word)
            return i
        value = word.tail(len(name) + 1) if equals else None
        if option.arity == 1 and not equals:
            if i >= len(fields):
                out.unknown.append(word)
                return i
            value, i = fields[i], i + 1
            if value.many or value.pathname:
                out.loose.append(value)  # none or several words: what follows shifts
        elif equals and option.arity == 0:
            out.unknown.append(word)
        out.options.append(OptionUse(option, word, value))
        return i
    if spec.digits and text[1:].isdigit():
        return i
    return _bundle(spec, text, word, fields, i, out)


def _bundle(spec: Spec, text: str, word: Field, fields: Sequence[Field], i: int, out: Arguments) -> int:
    for at in range(1, len(text)):
        option = spec.short.get(text[at])
        if option is None:
            if not (spec.digits and text[at].isdigit()):
                out.unknown.append(word)
            continue
        if option.arity == 0:
            out.options.append(OptionUse(option, word, None))
            continue
        rest = word.tail(at + 1) if at + 1 < len(text) else None
        if rest is None and option.arity == 1:
            if i >= len(fields):
                out.unknown.append(word)
                return i
            rest, i = fields[i], i + 1
            if rest.many or rest.pathname:
                out.loose.append(rest)
        out.options.append(OptionUse(option, word, rest))
        return i
    return i


def _long(spec: Spec, name: str) -> Option | None:
    """The long option `name`. GNU getopt lets users abbreviate it where that is unambiguous."""
    if name in spec.long:
        return spec.long[name]
    if not spec.abbreviate or not name.startswith("--"):
        return None
    found = {id(o): o for spelled, o in spec.long.items() if spelled.startswith(name)}
    return next(iter(found.values())) if len(found) == 1 else None


def assign_slots(
    slots: Sequence[Slot], operands: Sequence[Field]
) -> tuple[list[tuple[Slot, list[Field]]], list[Field]]:
    """Operands by slot: fixed ones before and after the one that repeats. Also returns what no slot takes.

    A `command` slot takes everything from its place on. From an operand on that may be several words (or none),
    places are uncertain: each of those operands may stand in each slot that is left.
    """
    if len(slots) == 1 and slots[0].repeat in ("*", "+") and slots[0].kind != "command":
        return [(slots[0], list(operands))], []
    many = next((n for n, o in enumerate(operands) if o.many), None)
    if many is not None and len(slots) > 1:
        fixed = 0
        while fixed < many and fixed < len(slots) - 1 and not slots[fixed].repeat and slots[fixed].kind != "command":
            fixed += 1
        head = [(s, [o]) for s, o in zip(slots[:fixed], operands[:fixed], strict=False)]
        return head + [(slot, list(operands[fixed:])) for slot in slots[fixed:]], []
    for n, slot in enumerate(slots):
        if slot.kind == "command":
            before = [(s, [o]) for s, o in zip(slots[:n], operands, strict=False)]
            return [*before, (slot, list(operands[n:]))], []
    repeat = next((n for n, s in enumerate(slots) if s.repeat in ("*", "+")), None)
    if repeat is None:
        pairs = [(s, [o]) for s, o in zip(slots, operands, strict=False)]
        return pairs + _shifted(pairs, slots), list(operands[len(slots) :])
    after = len(slots) - repeat - 1
    middle = max(len(operands) - after, 0)
    head = [(s, [o]) for s, o in zip(slots[:repeat], operands[:middle], strict=False)]
    body = [(slots[repeat], list(operands[repeat:middle]))]
    tail = [(s, [o]) for s, o in zip(slots[repeat + 1 :], operands[middle:], strict=False)]
    return head + body + tail + _shifted(head + body, slots) + _shifted((body + tail)[::-1], slots[repeat:][::-1]), []


def _shifted(pairs: Sequence[tuple[Slot, list[Field]]], slots: Sequence[Slot]) -> list[tuple[Slot, list[Field]]]:
    """Where else operands may come to stand because a wildcard before them may become several words (`mv a*`)."""
    first = next((n for n, (s, words) in enumerate(pairs) if not s.repeat and any(w.pathname for w in words)), None)
    if first is None:
        return []
    return [(slots[n + 1], words) for n, (_, words) in enumerate(pairs) if n >= first and n + 1 < len(slots)]
