"""Tables and paragraphs that fit the terminal, whatever its width: an id or a path is never broken in its middle."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

_GAP = 2
_ROOM = 40
"""Columns that the last cell of a row needs at least; where there are fewer, it stands on a line of its own, below."""
_UNBOUNDED = 100_000
_WORD = re.compile(r"\s*\S+\s*")


def console(*, err: bool = False) -> Console:
    """Return the console of a command's output: as wide as the terminal; where it is none, no line is cut.

    Args:
        err: that of standard error.
    """
    made = Console(stderr=err, highlight=False, markup=False)
    if not made.is_terminal and not os.environ.get("COLUMNS"):
        made.width = _UNBOUNDED
    return made


def print_rows(
    console: Console, titles: Sequence[str], rows: Iterable[Sequence[str | Text]], *, whole: bool = False
) -> None:
    """Print rows in columns without lines.

    Args:
        titles: of the columns; one that begins with ">" is of numbers. No heading where all are empty.
        rows: the last cell of each has what is left of the line, else a line of its own below.
        whole: the last cell is wrapped between words; else it is cut where the line ends.
    """
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    shown = [Text(title.removeprefix(">"), style="dim") for title in titles]
    widths = [max(shown[n].cell_len, *(row[n].cell_len for row in cells), 0) for n in range(len(titles))]
    numbers = [title.startswith(">") for title in titles]
    heading = [shown] if any(title.plain for title in shown) else []
    above = len(titles) > 2 and sum(widths[:-1]) + _GAP * (len(widths) - 2) > console.width
    for row in [*heading, *cells]:
        if above:  # not even the ids fit beside the rest
            print_hanging(console, Text(), row[0])
            _print_row(console, [Text(), *row[1:]], [0, *widths[1:]], numbers, whole=whole)
        else:
            _print_row(console, row, widths, numbers, whole=whole)


def _print_row(
    console: Console, row: Sequence[Text], widths: Sequence[int], numbers: Sequence[bool], *, whole: bool
) -> None:
    before = sum(width + _GAP for width in widths[:-1])
    below = console.width - before < min(_ROOM, widths[-1])
    head = Text()
    for cell, width, number in zip(row[:-1], widths, numbers, strict=False):
        padding = " " * (width - cell.cell_len)
        head.append_text(Text.assemble(*((padding, cell) if number else (cell, padding)), " " * _GAP))
    last = row[-1].copy()
    if numbers[-1]:
        last = Text(" " * (widths[-1] - last.cell_len)).append_text(last)
    if not whole:
        last.truncate(max(1, console.width - (_GAP if below else before)), overflow="ellipsis")
    if not below:
        print_hanging(console, head, last)
        return
    head.rstrip()
    console.print(head, soft_wrap=True)
    if last.plain:
        print_hanging(console, Text(" " * _GAP), last)


def shorten(text: str, length: int = 300) -> str:
    """Return a text that is no longer than a few lines: the rest is told by how much there is."""
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"


def print_entry(head: str, body: str, indent: int) -> None:
    """Print a row of a list that has no end: on one line where that fits, else with `body` wrapped below.

    Args:
        indent: of what stands below.
    """
    whole = f"{head}  {body}".rstrip()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNBOUNDED
    if len(whole) <= width and cell_len(whole) <= width:
        print(whole, flush=True)
        return
    print(head.rstrip())
    for line in _wrapped(Text(body), width - indent):
        print(f"{' ' * indent}{line.plain.rstrip()}", flush=True)


def print_hanging(console: Console, head: Text, body: Text) -> None:
    """Print `body` after `head`, wrapped between words, with what follows its first line below that."""
    margin = Text(" " * head.cell_len)
    for line in _wrapped(body, console.width - head.cell_len):
        whole = head + line
        whole.rstrip()
        console.print(whole, soft_wrap=True)
        head = margin


def _wrapped(text: Text, width: int) -> Iterator[Text]:
    """Yield the lines of `text`, broken between words only: a path that is longer than a line stands out of it."""
    for line in text.split("\n", allow_blank=True) if text.plain else [text]:
        breaks, column = [], 0
        for word in _WORD.finditer(line.plain):
            if column and column + cell_len(word[0].rstrip()) > width:
                breaks.append(word.start())
                column = 0
            column += cell_len(word[0])
        yield from line.divide(breaks)
