"""A `Presentation` in rows of a given width: for the terminal, and as plain text for mail, logs and pictures."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from humanlayer_agent.channels.offers import Foresight, OfferView
from humanlayer_agent.channels.presentation import FindingView, Fragment, Line, PartView, Presentation, Style, joined
from humanlayer_agent.policy.decision import Verdict

NARROW = 60
"""Below this many columns a label stands on a line of its own."""
LABEL = 11
TAB = 4
MIN_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the screen. `ends` counts the lines of the command (and its input) that are complete with this row."""

    fragments: Line
    ends: int = 0

    @property
    def text(self) -> str:
        return "".join(fragment.text for fragment in self.fragments)


BLANK = Row(())


class Entry(NamedTuple):
    """A line that may be wrapped, and how far its continuation is indented."""

    line: Line
    hang: int = 0


def rows(view: Presentation, width: int) -> list[Row]:
    """Everything about the request in rows of at most `width` columns: what decided it, the command, the details."""
    width = max(width, MIN_WIDTH)
    found = [*_head(view, width), BLANK]
    found += _field("Why", list(_why(view)), width)
    found += _field("At stake", [_plain(each) for each in view.radius], width)
    found += _field("Tried", list(_tried(view)), width)
    found += _field("Beware", [Entry((Fragment(Style.WARNING, text),)) for text in _beware(view)], width)
    found += _field("Run by", [_plain(view.interpreter)] if view.interpreter else [], width)
    found += [BLANK, *command_rows(view, width)]
    details = _field("Also", list(_also(view)), width)
    details += _field("Parts", list(_parts(view)), width)
    details += _field("Effects", list(_effects(view)), width)
    details += _field("Unknown", [_plain(", ".join(view.unresolved))] if view.unresolved else [], width)
    details += _field("Teach it", [_plain(view.teaching)] if view.teaching else [], width)
    details += _instead(view, width)
    if len(view.rules) > 1:
        details += _field("Rules", [Entry((Fragment(Style.DIM, ", ".join(view.rules)),))], width)
    if view.intent:
        says = (Fragment(Style.DIM, "says (not verified): "), Fragment(Style.PLAIN, view.intent))
        details += _field("The model", [Entry(says)], width)
    if view.held is not None:
        details += _field("Changes", [Entry((Fragment(_of_diff(line), line),)) for line in view.held.diff], width)
        details += _field("Printed", [_plain(line) for line in view.held.output], width)
    return [*found, BLANK, *details] if details else found


def as_text(view: Presentation, width: int = 80) -> str:
    """The rows as plain text, what decided underlined with ^."""
    return in_lines(rows(view, width))


def in_lines(found: Iterable[Row]) -> str:
    """Rows as plain text, what is marked underlined with ^."""
    out = []
    for row in found:
        out.append(row.text.rstrip())
        if any(fragment.style is Style.MARK for fragment in row.fragments):
            out.append(_carets(row))
    return "\n".join(out)


def command_rows(view: Presentation, width: int) -> list[Row]:
    """The whole command (and the input it is given), numbered; `+` marks where a line goes on."""
    found = list(_numbered(view.command, width))
    if view.stdin:
        found.append(Row((Fragment(Style.STRONG, f" and on its standard input, {view.stdin_bytes} bytes:"),)))
        found += _numbered(view.stdin, width)
    return found


def editing_rows(view: Presentation, width: int) -> list[Row]:
    """Return the rows above the command while the human changes it."""
    width = max(width, MIN_WIDTH)
    title = (
        Fragment(Style.STRONG, " Change the command"),
        Fragment(Style.PLAIN, ": what you make of it is judged again before it runs"),
    )
    found = [*(Row(piece) for piece in wrap(title, width, hang=1)), BLANK, *_field("Why", list(_why(view)), width)]
    return [*found, *_instead(view, width), BLANK]


def offer_rows(views: Sequence[OfferView], seen: Sequence[Foresight | None], width: int) -> list[Row]:
    """Return the scopes that may be chosen, numbered, each with what it would have meant before.

    Args:
        seen: of each scope; None where it is not known. `ends` of the rows counts the scopes that were shown whole.
    """
    width = max(width, MIN_WIDTH)
    title = (Fragment(Style.STRONG, " What of this may run again without a question?"),)
    found = [Row(piece) for piece in wrap(title, width, hang=1)]
    known: list[tuple[str, Foresight | None]] = []
    for number, (view, foresight) in enumerate(zip(views, seen, strict=True), 1):
        means = (view.beyond, foresight)
        said: list[Line] = [(Fragment(Style.PLAIN, view.bounds),)]
        if means in known:
            said.append((Fragment(Style.DIM, f"for the rest as {known.index(means) + 1}"),))
        else:
            said += _meaning(*means)
        known.append(means)
        lines: list[Line] = [(Fragment(Style.STRONG, f" {number}  "), Fragment(Style.COMMAND, view.words))]
        lines += [(Fragment(Style.PLAIN, "    "), *line) for line in said]
        pieces = [piece for line in lines for piece in _indented(line, width)]
        found += [BLANK, *(Row(piece) for piece in pieces[:-1]), Row(pieces[-1], ends=1)]
    return found


def _meaning(beyond: str, foresight: Foresight | None) -> Iterator[Line]:
    if foresight is None:
        yield (Fragment(Style.WARNING, "what it would have let through before is not known"),)
    else:
        style = Style.WARNING if foresight.refused else Style.PLAIN
        yield (Fragment(style, foresight.text + (":" if foresight.examples else "")),)
        yield from ((Fragment(Style.PLAIN, "  "), Fragment(Style.COMMAND, each)) for each in foresight.examples)
    yield (Fragment(Style.DIM, f"Not {beyond}" + (":" if foresight and foresight.beyond else "")),)
    if foresight is not None:
        yield from ((Fragment(Style.PLAIN, "  "), Fragment(Style.DIM, each)) for each in foresight.beyond)


def _indented(line: Line, width: int) -> list[Line]:
    text = "".join(fragment.text for fragment in line)
    return wrap(line, width, hang=len(text) - len(text.lstrip(" ")) if text[1:2] == " " else 4)


def batch_rows(views: Sequence[Presentation], width: int) -> list[Row]:
    """Return several requests below each other, each with its whole command and what speaks against it. `ends` counts
    the lines of all commands.
    """
    width = max(width, MIN_WIDTH)
    agents = " and ".join(dict.fromkeys(view.agent for view in views))
    title = (Fragment(Style.STRONG, f" {agents} "), Fragment(Style.STRONG, f"wants to run these {len(views)}"))
    found = [Row(piece) for piece in wrap(title, width, hang=1)]
    for number, view in enumerate(views, 1):
        place = (
            Fragment(Style.STRONG, f" {number} of {len(views)}"),
            Fragment(Style.DIM, " " + " · ".join(view.place)),
        )
        found += [BLANK, *(Row(piece) for piece in wrap(place, width, hang=1))]
        found += _field("Why", [next(_why(view)), *map(_other, view.others)], width)
        found += _field("At stake", [_plain(each) for each in view.radius], width)
        found += _field("Beware", [Entry((Fragment(Style.WARNING, text),)) for text in _beware(view)], width)
        found += command_rows(view, width)
    return found


# ---- the pieces ------------------------------------------------------------------------------------


def _head(view: Presentation, width: int) -> list[Row]:
    title = (
        Fragment(Style.PLAIN, " "),
        Fragment(Style.STRONG, view.agent),
        Fragment(Style.STRONG, f" {view.wants}"),
    )
    place = (Fragment(Style.DIM, " " + " · ".join(view.place)),) if view.place else ()
    return [Row(piece) for line in (title, place) if line for piece in wrap(line, width, hang=1)]


def _numbered(lines: tuple[Line, ...], width: int) -> Iterator[Row]:
    digits = max(3, len(str(len(lines))) + 1)
    for number, line in enumerate(lines, 1):
        pieces = wrap(_tabs_shown(line), width - digits - 3) or [()]
        for index, piece in enumerate(pieces):
            gutter = str(number) if index == 0 else "+"
            last = index == len(pieces) - 1
            yield Row((Fragment(Style.DIM, f"{gutter:>{digits}} │ "), *piece), ends=1 if last else 0)


def _why(view: Presentation) -> Iterator[Entry]:
    rule = f", rule {view.rule}" if view.rule else ", no rule allows it"
    grade = () if view.question else _grade(view.severity, rule)  # no rule speaks of it, and it does nothing
    yield Entry((Fragment(Style.PLAIN, view.reason), *grade))
    for other in view.urgent:
        yield _other(other)
    if view.more:
        yield Entry((Fragment(Style.DIM, f"and {len(view.more)} more, below"),))


def _tried(view: Presentation) -> Iterator[Entry]:
    if (held := view.held) is None:
        return
    yield Entry((Fragment(Style.STRONG if held.applies else Style.WARNING, f"{held.promise}."),))
    for each in held.partial:
        yield Entry((Fragment(Style.WARNING, f"{each}."),))
    yield _plain(f"{held.ended}.")
    for each in held.files:
        yield Entry((Fragment(Style.ASK if each.startswith("deletes") else Style.PLAIN, each),), hang=2)
    if held.more:
        yield Entry((Fragment(Style.DIM, f"and {held.more:,} more"),))
    if held.diff or held.output:
        yield Entry((Fragment(Style.DIM, "the lines that it changes, and what it printed, stand below"),))


def _of_diff(line: str) -> Style:
    """The style of a line of `diff -u`."""
    if line.startswith(("---", "+++", "@@", "\\")):
        return Style.DIM
    return Style.ALLOW if line.startswith("+") else Style.DENY if line.startswith("-") else Style.PLAIN


def _also(view: Presentation) -> Iterator[Entry]:
    for other in view.more:
        yield _other(other)


def _other(other: FindingView) -> Entry:
    rule = f", rule {other.rules[0]}" if other.rules else ", no rule allows it"
    return Entry((Fragment(Style.PLAIN, other.text), *_grade(other.severity, rule)), hang=2)


def _grade(severity: str, rule: str) -> Line:
    style = Style.ASK if severity in ("high", "critical") else Style.DIM
    return (Fragment(Style.DIM, " ("), Fragment(style, f"{severity} severity"), Fragment(Style.DIM, f"{rule})"))


def _beware(view: Presentation) -> tuple[str, ...]:
    return (*((view.unread,) if view.unread else ()), *view.warnings)


_VERDICTS = {Verdict.ALLOW: Style.ALLOW, Verdict.ASK: Style.ASK, Verdict.DENY: Style.DENY}


def _parts(view: Presentation) -> Iterator[Entry]:
    for part in view.parts:
        verdict = Fragment(_VERDICTS[part.verdict], f"{part.verdict!s:<6}")
        yield Entry((verdict, Fragment(Style.COMMAND, _shortened(part))), hang=6)
        if part.why:
            yield Entry((Fragment(Style.DIM, f"      {part.why}"),), hang=6)
    if view.allowed_parts:
        yield Entry((Fragment(Style.ALLOW, "allow "), Fragment(Style.DIM, f"{view.allowed_parts} more parts")))


def _shortened(part: PartView, limit: int = 200) -> str:
    command = part.command if len(part.command) <= limit else part.command[: limit - 4] + " ..."
    return f"{command}  (inside {part.inside})" if part.inside else command


def _effects(view: Presentation) -> Iterator[Entry]:
    for effect in view.effects:
        verb = Fragment(Style.DIM if effect.harmless else Style.PLAIN, effect.verb)
        named = ", ".join(effect.operands)
        operands = Fragment(Style.DIM if effect.harmless else Style.COMMAND, f" {named}" if named else "")
        yield Entry((verb, operands), hang=2)


def _field(label: str, entries: list[Entry], width: int) -> list[Row]:
    """A label and its lines, the label in a column of its own, or above them on a narrow screen."""
    if not entries:
        return []
    column = 2 if width < NARROW else LABEL + 1
    body = [piece for entry in entries for piece in wrap(entry.line, width - column, hang=entry.hang)]
    margins = [f" {label:<{LABEL}}"] + [" " * column] * (len(body) - 1)
    if width < NARROW:
        head = [Row((Fragment(Style.DIM, f" {label}"),))]
        margins = [" " * column] * len(body)
    else:
        head = []
    return head + [Row((Fragment(Style.DIM, margin), *piece)) for margin, piece in zip(margins, body, strict=True)]


def _instead(view: Presentation, width: int) -> list[Row]:
    return _field("Instead", [_plain(line) for line in view.suggestion.splitlines() if line], width)


def _plain(text: str) -> Entry:
    return Entry((Fragment(Style.PLAIN, text),))


def _tabs_shown(line: Line) -> Line:
    """Tabs as an arrow and blanks up to the next stop, so that they can be told from blanks."""
    found: list[Fragment] = []
    column = 0
    for fragment in line:
        for index, piece in enumerate(fragment.text.split("\t")):
            if index:
                fill = TAB - column % TAB
                found.append(Fragment(Style.DIM, "→" + " " * (fill - 1)))
                column += fill
            if piece:
                found.append(Fragment(fragment.style, piece))
                column += cells(piece)
    return tuple(found)


def _carets(row: Row) -> str:
    return "".join(
        ("^" if fragment.style is Style.MARK else " ") * cells(fragment.text) for fragment in row.fragments
    ).rstrip()


# ---- wrapping --------------------------------------------------------------------------------------


def cells(text: str) -> int:
    """Columns that `text` takes at most.

    Terminals disagree about characters outside Latin, so each of those counts as two: a row may end early, and can't
    run over the edge of the screen, where its end would be cut off.
    """
    return len(text) if text.isascii() else sum(1 if char < "\u0250" or char in "│·→─" else 2 for char in text)


def wrap(line: Line, width: int, hang: int = 0) -> list[Line]:
    """`line` in pieces of at most `width` columns, cut after a blank where there is one near the end.

    All pieces but the first are indented by `hang`. No character is lost.
    """
    width = max(width, 8)
    indent = (Fragment(Style.PLAIN, " " * hang),) if 0 < hang <= width // 2 else ()
    styled = [(fragment.style, char) for fragment in line for char in fragment.text]
    pieces: list[Line] = []
    start = 0
    while start < len(styled):
        lead = indent if pieces else ()
        end = _cut(styled, start, width - len(lead and lead[0].text))
        pieces.append((*lead, *joined(styled[start:end])))
        start = end
    return pieces


def _cut(styled: list[tuple[Style, str]], start: int, room: int) -> int:
    """Return where the piece that begins at `start` ends."""
    used = 0
    for index in range(start, len(styled)):
        used += cells(styled[index][1])
        if used > room:
            nearest = max(index - room // 3, start + 1)
            end = next((i for i in range(index, nearest, -1) if styled[i - 1][1] == " "), max(index, start + 1))
            while end > start + 1 and unicodedata.category(styled[end][1])[0] == "M":
                end -= 1  # a mark at the start of a row would stand on what is before it there
            return end
    return len(styled)
