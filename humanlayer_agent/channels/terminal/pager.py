"""Which rows of a request are on the screen, and whether its whole command has been."""

from humanlayer_agent.channels.plain_text import MIN_WIDTH, Row, rows
from humanlayer_agent.channels.presentation import Presentation

MIN_HEIGHT = 3
"""Rows for the request below which nothing can be approved: too little of it would be in sight at once."""


class Pager:
    """Which rows are on the screen, and how much of the command has been."""

    def __init__(self, view: Presentation) -> None:
        self._view = view
        self._lines = len(view.command) + len(view.stdin)
        self._lines_seen = 0
        self._width = 0
        self._height = 0
        self._rows: list[Row] = []
        self._top = 0
        self._seen = 0
        self.too_small = False

    @property
    def fits(self) -> bool:
        return len(self._rows) <= self._height

    @property
    def all_seen(self) -> bool:
        return self._lines_seen >= self._lines

    def resize(self, width: int, height: int) -> bool:
        """Lays out for a screen of this size; whether everything fits."""
        self.too_small = width < MIN_WIDTH or height < MIN_HEIGHT
        if width != self._width:
            self._width, self._rows = width, rows(self._view, width)
            self._seen = self._rows_of(self._lines_seen)
        self._height = max(height, 1)
        self._top = min(self._top, max(len(self._rows) - self._height, 0))
        return self.fits

    def page(self) -> list[Row]:
        """The rows to show now."""
        return self._rows[self._top : self._top + self._height]

    def _rows_of(self, lines: int) -> int:
        """How many rows, from the first, the first `lines` lines of the command fill."""
        done = 0
        for index, row in enumerate(self._rows):
            if done >= lines:
                return index
            done += row.ends
        return len(self._rows)

    def note_seen(self) -> None:
        """The page was drawn. Only what follows what was seen before counts: nothing can be jumped over."""
        if self._top <= self._seen and not self.too_small:
            self._seen = max(self._seen, min(self._top + self._height, len(self._rows)))
            self._lines_seen = max(self._lines_seen, sum(row.ends for row in self._rows[: self._seen]))

    def forward(self, one_row: bool) -> None:
        """A page on, or a row; never past what was drawn, so that keys in quick succession skip nothing."""
        step = 1 if one_row else max(self._height - 1, 1)
        self._top = max(min(self._top + step, len(self._rows) - self._height, self._seen - 1), 0)

    def back(self, one_row: bool) -> None:
        self._top = max(self._top - (1 if one_row else max(self._height - 1, 1)), 0)

    def position(self) -> str:
        """Where we are in what does not fit."""
        if not self.all_seen:
            return f"{self._lines - self._lines_seen} of {self._lines} lines not seen"
        last = min(self._top + self._height, len(self._rows))
        return f"{self._top + 1}-{last} of {len(self._rows)}"
