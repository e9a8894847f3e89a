"""Small pieces of the prompt's screen."""

from collections.abc import Callable

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.controls import FormattedTextControl


def text_window(get: Callable[[], StyleAndTextTuples], height: int | None = None) -> Window:
    return Window(FormattedTextControl(get), height=height, dont_extend_height=True)


def joined_lines(lines: list[StyleAndTextTuples]) -> StyleAndTextTuples:
    found: StyleAndTextTuples = []
    for index, line in enumerate(lines):
        found += [("", "\n"), *line] if index else line
    return found


def in_lines(items: list[StyleAndTextTuples], columns: int) -> list[StyleAndTextTuples]:
    """`items` beside each other, in as many lines as that takes."""
    lines: list[StyleAndTextTuples] = [[]]
    used = 0
    for item in items:
        width = sum(len(fragment[1]) for fragment in item)
        if used and used + width > columns:
            lines.append([])
            used = 0
        lines[-1] += item
        used += width
    return lines


def key_label(key: str, what: str, ready: bool = True) -> StyleAndTextTuples:
    return [("", " "), ("class:key" if ready else "class:off", key), ("" if ready else "class:off", f" {what}  ")]


def time_left(milliseconds: int) -> str:
    seconds = max(0, -(-milliseconds // 1000))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d} left" if hours else f"{rest // 60}:{rest % 60:02d} left"
