"""Tables whose last column is cut to what is left of the line, so that one row is one line."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
_LEAST = 24


def print_rows(console: Console, titles: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print rows in columns without lines.

    Args:
        titles: of the columns; one that begins with ">" is of numbers. No heading where all are empty.
        rows: the last cell of each is cut where the line ends (but never below a few words).
    """
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    shown = [title.removeprefix(">") for title in titles]
    widths = [max([len(title), *(row[n].cell_len for row in cells)]) for n, title in enumerate(shown)]
    left = max(_LEAST, console.width - sum(widths[:-1]) - _GAP * (len(widths) - 1))
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim", show_header=any(shown))
    for n, title in enumerate(titles):
        last = n == len(titles) - 1
        justify = "right" if title.startswith(">") else "left"
        table.add_column(shown[n], justify=justify, no_wrap=True, width=min(widths[n], left) if last else widths[n])  # type: ignore[arg-type]
    for row in cells:
        row[-1].truncate(left, overflow="ellipsis")
        table.add_row(*row)
    console.print(table, soft_wrap=False, crop=False)
