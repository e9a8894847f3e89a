"""Records `hla demo` as its user sees it, and draws the recording.

    python docs/render_demo.py [--into docs/pictures]

The demo runs on a pseudo-terminal in an empty home folder, and this script presses the keys: it rejects one command
with a reason and approves another. `demo.cast` is the recording (asciicast version 2,
https://docs.asciinema.org/manual/asciicast/v2/), which `asciinema play` shows; `demo.svg` is the same as a picture that
moves, for pages. Needs the packages of the extra `test`.
"""

import argparse
import json
import os
import pwd
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import pexpect
import pyte

sys.path.insert(0, str(Path(__file__).parent))
from render_pictures import BACKGROUND, COLOURS, colour

ROWS, COLUMNS = 34, 100
IDLE_S = 2.0
"""A pause is shown as so long at most."""

READ_S = 3.0
"""So long a question stands before its key is pressed, so that a reader of the picture can read it too."""

END_S = 6.0
"""So long the last screen stands before the picture begins again."""

FRAME_S = 0.08
"""What changes within this time is drawn at once."""

CELL, LINE, MARGIN = 8.4, 18, 12
"""A character's width, a row's height, and the space around them, in pixels."""

_DEMO = """
import sys
from humanlayer_agent.channels import terminal
terminal.multiplexer = lambda: ""  # as in a terminal emulator: here it is this script that holds the terminal
from humanlayer_agent.cli import main
sys.exit(main(["demo"]))
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a terminal shows from a moment on.

    Args:
        at: seconds since the start.
        rows: each as SVG, without its place.
    """

    at: float
    rows: tuple[str, ...]


@dataclass(slots=True)
class Recording:
    """What a program wrote to its terminal.

    Args:
        events: seconds since the start, and what was written then.
    """

    events: list[tuple[float, str]] = field(default_factory=list)

    def cast(self) -> str:
        """Return it as an asciicast.

        Example:
            >>> print(Recording([(0.5, "$ ")]).cast().splitlines()[1])
            [0.5, "o", "$ "]
        """
        size = {"width": COLUMNS, "height": ROWS}
        head: dict[str, Any] = {"version": 2, **size, "idle_time_limit": IDLE_S, "title": "hla demo"}
        return "\n".join(map(json.dumps, [head, *([at, "o", text] for at, text in self.events)])) + "\n"

    def frames(self) -> Iterator[Frame]:
        """Return what a terminal shows of it, one screen after another that differs from the one before."""
        screen = pyte.Screen(COLUMNS, ROWS)
        stream = pyte.Stream(screen)
        last: tuple[str, ...] = ()
        now = before = 0.0
        following = [at for at, _ in self.events[1:]] + [float("inf")]
        for (at, text), after in zip(self.events, following, strict=True):
            stream.feed(text)
            now += min(at - before, IDLE_S)
            before = at
            if after - at < FRAME_S:
                continue
            rows = tuple(_row(screen, number) for number in range(ROWS))
            if rows != last:
                yield Frame(now, rows)
                last = rows


class Terminal:
    """The demo on a pseudo-terminal, and a person before it."""

    def __init__(self, environ: dict[str, str], cwd: str) -> None:
        self._child = pexpect.spawn(
            sys.executable,
            ["-c", _DEMO],
            env=environ,
            cwd=cwd,
            dimensions=(ROWS, COLUMNS),
            encoding="utf-8",
            timeout=60,
        )
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self._screen)
        self._began = time.monotonic()
        self.recording = Recording([(0.0, "$ hla demo\r\n")])

    def press(self, key: str, keys: str, beside: str) -> None:
        """Press `keys` once the prompt about `beside` takes `key`, which is drawn bold then."""

        def asked() -> bool:
            return any(beside in line for line in self._screen.display) and self._bold(key)

        self._until(asked, f"{key} for {beside}")
        self._wait(READ_S)
        for each in keys:
            self._child.send(each)
            self._wait(0.07)

    def end(self) -> int:
        """Return the exit code, once the program has ended."""
        with suppress(pexpect.EOF):
            self._until(lambda: False, "its end")
        self._child.wait()
        return int(self._child.exitstatus or 0)

    def _bold(self, key: str) -> bool:
        places = [(row, line.find(key)) for row, line in enumerate(self._screen.display)]
        return any(column >= 0 and self._screen.buffer[row][column].bold for row, column in places)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + 120
        while not condition():
            if time.monotonic() > end:
                raise SystemExit(f"never seen: {what}\n" + "\n".join(self._screen.display))
            self._read()

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()

    def _read(self) -> None:
        with suppress(pexpect.TIMEOUT):
            text = self._child.read_nonblocking(65536, timeout=0.02)
            self.recording.events.append((round(time.monotonic() - self._began, 3), text))
            self._stream.feed(text)


def record() -> Recording:
    """Run the demo, and press its keys."""
    home = pwd.getpwuid(os.getuid()).pw_dir  # not below a folder for temporary files, where the policy allows more
    with tempfile.TemporaryDirectory(prefix=".hla-recording-", dir=home) as folder:
        names = {"HOME": folder, "USER": "alice", "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        terminal = Terminal({"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1]), **names}, folder)
        terminal.press("n reject", "n", "install.sh")
        terminal.press("Enter reject", "no scripts from the net\r", "Why not?")
        terminal.press("y run once", "y", "old-reports")
        if code := terminal.end():
            raise SystemExit(f"hla demo ended with {code}")
        found = terminal.recording
    return Recording([(at, _at_home(text, folder)) for at, text in found.events])


def _at_home(text: str, folder: str) -> str:
    """Return what was written, with `~` for the folder of the recording; columns of tables stay where they are."""
    column = rf"{re.escape(folder)}([^\s\x1b]*(?:\x1b\[[0-9;]*m)*)(?=  )"
    aligned = re.sub(column, lambda found: f"~{found[1]}{' ' * (len(folder) - 1)}", text)
    return aligned.replace(folder, "~")


def draw(frames: list[Frame]) -> str:
    """Return the frames as one SVG that shows them one after another. Rows that are alike stand in it once."""
    width, height = round(COLUMNS * CELL + 2 * MARGIN), ROWS * LINE + 2 * MARGIN
    length = frames[-1].at + END_S
    distinct = dict.fromkeys(row for frame in frames for row in frame.rows if row)
    rows = {row: f"r{number}" for number, row in enumerate(distinct)}
    marks = "".join(
        f"{100 * frame.at / length:.3f}%{{transform:translateX({-width * number}px)}}"
        for number, frame in enumerate(frames)
    )
    drawn = []
    for number, frame in enumerate(frames):
        uses = (f'<use href="#{rows[row]}" y="{LINE * line}"/>' for line, row in enumerate(frame.rows) if row)
        drawn.append(f'<g transform="translate({width * number + MARGIN},{MARGIN})">{"".join(uses)}</g>')
    defined = "".join(f'<g id="{name}">{row}</g>' for row, name in rows.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="A recording of hla demo">\n'
        f"<style>text{{font:14px 'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;white-space:pre;"
        f"fill:{COLOURS['default']}}}#f{{animation:f {length:.2f}s steps(1,end) infinite}}"
        f"@keyframes f{{0%{{transform:translateX(0)}}{marks}}}"
        f"@media(prefers-reduced-motion:reduce)"
        f"{{#f{{animation:none;transform:translateX({-width * (len(frames) - 1)}px)}}}}"
        f"</style>\n<defs>{defined}</defs>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>\n<g id="f">{"".join(drawn)}</g>\n</svg>\n'
    )


def _row(screen: pyte.Screen, number: int) -> str:
    """One row of the screen as SVG: a text, cut where its looks change."""
    cells = [screen.buffer[number][column] for column in range(COLUMNS)]
    if number == screen.cursor.y and not screen.cursor.hidden:
        cells[min(screen.cursor.x, COLUMNS - 1)] = cells[min(screen.cursor.x, COLUMNS - 1)]._replace(reverse=True)
    found, start = [], 0
    for column in range(1, COLUMNS + 1):
        if column < COLUMNS and _looks(cells[column]) == _looks(cells[start]):
            continue
        text, cell = "".join(each.data for each in cells[start:column]), cells[start]
        front, back = colour(cell.fg, "default"), colour(cell.bg, "")
        if cell.reverse:
            front, back = back or BACKGROUND, front
        at, wide = f"{start * CELL:.1f}", f"{(column - start) * CELL:.1f}"
        if back:
            found.append(f'<rect x="{at}" width="{wide}" height="{LINE}" fill="{back}"/>')
        if text.strip():
            style = f' fill="{front}"' if front != COLOURS["default"] else ""
            style += ' font-weight="bold"' if cell.bold else ""
            style += ' text-decoration="underline"' if cell.underscore else ""
            found.append(f'<text x="{at}" y="14" textLength="{wide}"{style} xml:space="preserve">{escape(text)}</text>')
        start = column
    return "".join(found)


def _looks(cell: Any) -> tuple[Any, ...]:
    return cell.fg, cell.bg, cell.bold, cell.reverse, cell.underscore


def main() -> None:
    """Record it, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent / "pictures")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    recording = record()
    for name, text in (("demo.cast", recording.cast()), ("demo.svg", draw(list(recording.frames())))):
        (options.into / name).write_text(text)
        print(options.into / name, len(text) // 1024, "kB")


if __name__ == "__main__":
    main()
