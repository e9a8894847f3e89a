"""The sentence that says what an effect does, for people and for models: made here, and nowhere else.

The words stand in `effect_phrases.yaml`. What comes from a command is made safe to show on one line and is shortened in
the middle where it is long, with its length; what is not known is said to be unknown.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Effect, SimpleCommand

MAX_COMPARED = 4_000
"""Most effects that are looked at, beyond `MAX_TOLD`, to tell of them with others."""
NAMED = 3
"""Operands that a sentence names; it counts the others."""
MAX_TOLD = 100
"""Most effects of one command, and most hits of one action, that are told of one by one."""
LONGEST = 160
"""Characters of an operand or a command that a sentence shows."""
_SHOWN_OF = 2_048
"""Characters at either end of a text of which those are that are shown."""
_KEPT = 20
"""Characters kept at either end of one long word: too few to tell a secret by."""
_CLAUSES = 2
_MANY = 20
"""So many operands are told apart by how they are shown; more of them by what they are, which takes less."""
_WORD = re.compile(r"(?<!\S)/\S*\s?|\S*\s|\S+")
_FOLDER = re.compile(r"[^/]*/|[^/]+")
_ODD = re.compile(r'[\s"`]')
_STARS = re.compile(r"\*{3,}")

Found = tuple[SimpleCommand | None, Effect]
"""An effect, and the command that has it; None where only the effect was kept."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: what an effect must have (None: anything), and what is said of it."""

    kind: str
    say: str
    role: frozenset[str] | None = None
    program: frozenset[str] | None = None
    subcommand: frozenset[str] | None = None
    word: frozenset[str] | None = None
    operand: frozenset[str] | None = None
    origin: frozenset[str] | None = None
    unread: bool | None = None
    resolved: bool | None = None
    recursive: bool | None = None
    flag: frozenset[str] | None = None
    option: frozenset[str] | None = None
    beside: tuple[str, str] | None = None

    @property
    def verb(self) -> str:
        """The words before what it is done to: "deletes" of "deletes {}"."""
        return self.say.partition("{")[0].rstrip(" (`")

    def fits(self, command: SimpleCommand | None, effect: Effect) -> bool:
        """Tell whether this row is about the effect, and has all that it says."""
        program = command.program if command is not None else effect.origin.partition(" ")[0]
        if (
            (self.role is not None and effect.role not in self.role)
            or (self.program is not None and program not in self.program)
            or (self.operand is not None and effect.operand not in self.operand)
            or (self.origin is not None and effect.origin not in self.origin)
            or (self.unread is not None and effect.unread is not self.unread)
            or (self.resolved is not None and effect.resolved is not self.resolved)
            or (self.recursive is not None and effect.recursive is not self.recursive)
        ):
            return False
        if command is None:
            asked = self.subcommand or self.word or self.flag or self.option or self.beside
            return not asked and not _needs(self.say)
        return (
            (self.subcommand is None or command.subcommand in self.subcommand)
            and (self.word is None or _word(command) in self.word)
            and (self.flag is None or not self.flag.isdisjoint(command.flags))
            and (self.option is None or bool(_option(self.option, command)))
            and (self.beside is None or any(_is(self.beside, each) for each in _first_and_last(command.effects)))
            and ("{words}" not in self.say or bool(_words(command)))
        )


def sentence(found: Sequence[Found]) -> str:
    """Return what the effects do, in one sentence without its full stop: "Deletes a, b and 3 more".

    Args:
        found: effects that are told of together, the most important first.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> command = analyse("rm -rf build /srv/old", cwd="/srv/app").commands[0]
        >>> sentence([(command, effect) for effect in command.effects])
        'Deletes /srv/app/build and /srv/old and everything below'
    """
    clauses: dict[str, list[Found]] = {}
    alike: dict[object, list[Found]] = {}
    there = {id(effect) for _, effect in found}
    more, work = 0, 0
    for n, (command, effect) in enumerate(found):
        key = kin(command, effect)
        if n >= MAX_TOLD:
            if key in alike:
                alike[key].append((command, effect))
                continue
            work += len(command.effects) if command is not None else 1
            if work > MAX_COMPARED:
                more += 1
                continue
        if any(id(other) in there for _, other in told_by(command, effect)):
            alike.setdefault(key, [])
            continue
        clause = clauses.setdefault(_filled(_row(command, effect), command), [])
        clause.append((command, effect))
        alike.setdefault(key, clause)
    said = list(dict.fromkeys(say.replace("{}", _named(pairs)) for say, pairs in clauses.items()))
    text = ", and ".join(said[:_CLAUSES])
    if len(said) > _CLAUSES:
        text += f", and {len(said) - _CLAUSES} more"
    if more:
        text += f", and has {more} more effects"
    return text[:1].upper() + text[1:]


def kin(command: SimpleCommand | None, effect: Effect) -> object:
    """Return what effects have in common of which much the same is said: what each is done to is left out."""
    origin = effect.origin.rstrip("0123456789")  # "curl operand 7"
    return id(command), effect.kind, effect.role, origin, effect.unread, effect.resolved, effect.recursive


def whole(command: SimpleCommand) -> str:
    """Return what a command does, the worst first, in one sentence.

    Example:
        >>> from humanlayer_agent.shell import analyse
        >>> whole(analyse("cp a b && echo done", cwd="/srv").commands[0])
        'Copies /srv/a to /srv/b.'
    """
    order = kinds()
    known = [effect for effect in command.effects if effect.kind in order]
    worst_first = sorted(known, key=lambda effect: order.index(effect.kind))
    if not worst_first:
        what = "Changes nothing" if command.resolved else "Can't tell what this does"
        return f"{what}: `{_text(command)}`."
    return f"{sentence([(command, effect) for effect in worst_first])}."


def told_by(command: SimpleCommand | None, effect: Effect) -> list[Found]:
    """Return the effects of the same command whose sentence tells of this one too: "copies a to b" of reading a."""
    silent = _fitting(command, effect)
    if command is None or silent is None or silent.say:
        return []
    tellers = islice((each for each in command.effects if _is(silent.beside or ("", ""), each)), MAX_TOLD)
    others = [each for each in tellers if each is not effect]
    return [(command, each) for each in others if (row := _fitting(command, each)) is None or row.say]


def phrase(command: SimpleCommand, effect: Effect) -> str:
    """Return what is said of an effect, without what it is done to ("deletes {}"): what has the same is told of
    together.
    """
    tellers = told_by(command, effect)
    owner, told = tellers[0] if tellers else (command, effect)
    return _filled(_row(owner, told), command)


def verb(effect: Effect) -> tuple[str, bool]:
    """Return the verb of an effect of which no more is known than itself, for a list of operands ("deletes"), and
    whether it needs one.
    """
    row = _row(None, effect)
    return row.verb, "{}" in row.say


def kinds() -> tuple[str, ...]:
    """Return the kinds of effects, the worst first."""
    return tuple(_table())


def operand(effect: Effect, command: SimpleCommand | None = None) -> str:
    """Return what an effect is done to, safe to show; that it is not known, where it is not."""
    shown = str(effect.public()["operand"] or "")
    if effect.pattern:
        return f"whatever matches {quoted(_STARS.sub('*', shown))}"
    if effect.below:
        return f"something below {quoted(shown)}"
    if shown and effect.kind == "execute" and effect.value is not None:
        return f"{quoted(shown)}, which this command builds from {quoted(effect.value) or 'the sources here'}"
    if shown and effect.kind == "environment" and effect.value and effect.role not in ("printed", "expanded"):
        return f"{short(shown)} ({short(effect.value)})"
    if shown:
        return quoted(shown) if _is_from_outside(shown, command) else short(shown)
    unknown = _unknown().get(effect.kind, "something unknown")
    words = unknown_words(command) if command is not None else ""
    return f"{unknown} ({words})" if words else unknown


def unknown_words(command: SimpleCommand) -> str:
    """Return the words of a command whose value is not known, as they were written."""
    read = command.via[-1:] == ("xargs",)
    words = ["the words that xargs reads" if read and word == "{}" else short(word) for word in command.unresolved]
    return names(words)


def names(texts: Iterable[str]) -> str:
    """Return a list for people: "a, b and c", and beyond `NAMED` "a, b, c and 4 more".

    Example:
        >>> names(["a", "b", "c", "d", "e"])
        'a, b, c and 2 more'
    """
    each = list(dict.fromkeys(texts))
    if len(each) > NAMED + 1:
        return f"{', '.join(each[:NAMED])} and {len(each) - NAMED} more"
    return f"{', '.join(each[:-1])} and {each[-1]}" if len(each) > 1 else "".join(each)


def quoted(text: str) -> str:
    """Return `short(text)`, in quotes where it has blanks: what a command names must not read as words of ours.

    Example:
        >>> quoted("/srv/x, which nobody needs")
        '"/srv/x, which nobody needs"'
    """
    if _ODD.search(text) is None:
        return short(text)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{short(escaped)}"'


def short(text: str) -> str:
    """Return `text` on one line, safe to show; the middle of a long one is left out, between words or parts of a path,
    and its length is told.

    Of one long word little is kept: half a secret would not be found by whoever hides secrets in what is said.

    Example:
        >>> short("echo " + "x" * 500)
        'echo xxxxxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxxxx (505 characters)'
    """
    if len(text) <= LONGEST:
        return one_line(text)
    words = _pieces(text)
    words = [each if len(each) <= LONGEST // 2 else f"{each[:_KEPT]}...{each[-_KEPT:]}" for each in words]
    head, tail, room = 0, len(words), LONGEST
    while head < tail:
        at = head if head <= len(words) - tail else tail - 1
        room -= len(words[at])
        if room < 0:
            break
        head, tail = (head + 1, tail) if at == head else (head, tail - 1)
    left_out = ["..."] if head < tail else []
    return f"{one_line(''.join([*words[:head], *left_out, *words[tail:]]))} ({len(text)} characters)"


def _pieces(text: str) -> list[str]:
    """Words with the blank behind each, and the folders of a path; the middle of a very long text is one piece."""
    if len(text) > 3 * _SHOWN_OF:
        head, tail = _pieces(text[:_SHOWN_OF])[:-1], _pieces(text[-_SHOWN_OF:])[1:]
        return [*head, text[sum(map(len, head)) : len(text) - sum(map(len, tail))], *tail]
    return [each for word in _WORD.findall(text) for each in (_FOLDER.findall(word) if word[0] == "/" else [word])]


# ---- one row, filled in ----------------------------------------------------------------------------


def _filled(row: Row, command: SimpleCommand | None) -> str:
    """`row.say` with everything but what it is done to."""
    if command is None or not _needs(row.say):
        return row.say
    values = {name: make(row, command) for name, make in _FILLED.items() if name in row.say}
    parts = row.say.split("{}")  # what is filled in may hold braces too
    for name, value in values.items():
        parts = [part.replace(name, value.replace("{}", "{ }")) for part in parts]
    return "{}".join(parts)


def _beside(beside: tuple[str, str], command: SimpleCommand) -> str:
    return _named([(command, each) for each in command.effects if _is(beside, each)])


def _named(found: Sequence[Found]) -> str:
    if len(found) > _MANY:
        alike: dict[object, Found] = {}
        for command, each in found:
            alike.setdefault((each.operand or id(command), each.pattern, each.below, each.value), (command, each))
        found = [*alike.values()]
    if len(found) <= _MANY:
        return names(operand(effect, command) for command, effect in found)
    shown = [operand(effect, command) for command, effect in found[:NAMED]]
    return f"{', '.join(shown)} and {len(found) - NAMED} more"


def _needs(say: str) -> bool:
    return any(name in say for name in _FILLED)


def _fitting(command: SimpleCommand | None, effect: Effect) -> Row | None:
    """The first row that fits, also one that says nothing."""
    return next((row for row in _table().get(effect.kind, ()) if row.fits(command, effect)), None)


def _row(command: SimpleCommand | None, effect: Effect) -> Row:
    """The first row that fits and says something."""
    rows = _table().get(effect.kind, ())
    return next((row for row in rows if row.say and row.fits(command, effect)), _plain(effect))


def _plain(effect: Effect) -> Row:
    """The last row of its kind, which fits all of them."""
    rows = _table().get(effect.kind)
    return rows[-1] if rows else Row(effect.kind, f"{effect.kind} {{}}")


def _first_and_last(effects: Sequence[Effect]) -> Sequence[Effect]:
    """Those that are looked at to tell of others: each row of the table looks once more, for each that is told of."""
    return effects if len(effects) <= 2 * MAX_TOLD else [*effects[:MAX_TOLD], *effects[-MAX_TOLD:]]


def _is(beside: tuple[str, str], effect: Effect) -> bool:
    return beside[0] in ("", effect.kind) and beside[1] in ("", effect.role)


def _word(command: SimpleCommand) -> str:
    if command.subcommand:
        return command.subcommand.rpartition(" ")[2]
    return (command.operands[0] if command.operands else None) or ""


def _words(command: SimpleCommand) -> str:
    said = [quoted(word) if word is not None else "..." for word in command.operands[:MAX_TOLD]]
    more = len(command.operands) - MAX_TOLD
    return short(" ".join(said)) + (f" and {more} more words" if more > 0 else "")


def _text(command: SimpleCommand) -> str:
    """The text of a command, to stand between backquotes."""
    return short(command.text.strip().replace("`", "\\`"))


def _is_from_outside(text: str, command: SimpleCommand | None) -> bool:
    """Tell whether an operand is the command's own, and no name that the catalog gives ("uncommitted changes")."""
    if text.startswith("/"):
        return True
    return command is not None and (text in command.text or any(text in word for word in command.argv))


def _option(names: frozenset[str], command: SimpleCommand) -> str:
    values = [value for name in sorted(names) for value in command.options.get(name, []) if value]
    return " ".join(map(quoted, values))


_FILLED: dict[str, Callable[[Row, SimpleCommand], str]] = {
    "{words}": lambda _, command: _words(command),
    "{command}": lambda _, command: f"`{_text(command)}`",
    "{word}": lambda _, command: _word(command),
    "{option}": lambda row, command: _option(row.option or frozenset(), command),
    "{beside}": lambda row, command: _beside(row.beside, command) if row.beside is not None else "",
}
"""What stands for a name in a sentence."""


# ---- the table -------------------------------------------------------------------------------------


@cache
def _loaded() -> dict[str, Any]:
    import yaml  # what is allowed is not talked about, and need not wait for it

    text = Path(__file__).with_name("effect_phrases.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return loaded


def _unknown() -> dict[str, str]:
    unknown: dict[str, str] = _loaded()["unknown"]
    return unknown


@cache
def _table() -> dict[str, tuple[Row, ...]]:
    """The rows of each kind, in their order."""
    found: dict[str, list[Row]] = {}
    for fields in _loaded()["rows"]:
        found.setdefault(fields["kind"], []).append(_read(dict(fields)))
    return {kind: tuple(rows) for kind, rows in found.items()}


def _read(fields: dict[str, Any]) -> Row:
    beside = fields.pop("beside", None)
    if beside is not None:
        kind, _, role = beside.partition(" ")
        fields["beside"] = (kind, role)
    for name in ("role", "program", "subcommand", "word", "operand", "origin", "flag", "option"):
        if name in fields:
            value = fields[name]
            fields[name] = frozenset(value if isinstance(value, list) else [value])
    return Row(**fields)
