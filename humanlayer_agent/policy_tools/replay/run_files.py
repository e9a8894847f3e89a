"""The files of a recorded run, as far as the run itself tells what they hold.

A later step that runs a script which an earlier one wrote is judged with that text. What the run changes in a way that
can't be told holds nothing that is known from then on, not even what this machine has at that path. A change of which
not even the place is known is taken as none: else nothing would be known any more after the first.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from humanlayer_agent.policy_tools.replay.steps import Wrote
from humanlayer_agent.shell import (
    MAX_TEXT,
    DiskReader,
    Effect,
    GivenReader,
    Program,
    Reader,
    SimpleCommand,
    Source,
    WrittenText,
    plain_path,
)

MAX_FILES = 10_000
"""Most files that are known of one run; the oldest are forgotten."""

_CHANGES = frozenset({"write", "append", "delete", "move"})
_SAME_CONTENT = frozenset({"touch", "mkdir", "chmod", "chown"})
_NOT_IN_ORDER = frozenset({"loop", "function", "trap", "background"})


class RunFiles:
    """What the files of one run hold.

    Args:
        disk: says what is known of files that the run has not touched.
    """

    def __init__(self, disk: Reader | None = None) -> None:
        self.disk = disk
        self._texts: dict[str, str | None] = {}

    def read(self, path: str) -> Source | None:
        """The file at `path`; None where nothing is known of it. (A `Reader`.)"""
        at = plain_path(path)
        if at not in self._texts:
            return self.disk.read(path) if self.disk is not None else None
        text = self._texts[at]
        return None if text is None else GivenReader({at: text}).read(at)

    def reader(self, given: Mapping[str, str], tracked: Collection[str] = ()) -> Reader:
        """A reader for one step, of which the log itself tells some files."""
        return _RowReader(GivenReader(given, tracked), self) if given or tracked else self

    def text(self, path: str) -> str | None:
        """What the file holds; None where that is not known."""
        source = self.read(path)
        return source.text if source is not None else None

    def put(self, path: str, text: str | None) -> None:
        """The file holds `text` now; None: nobody knows what."""
        self._texts.pop(path, None)
        self._texts[path] = text if text is None or len(text) <= MAX_TEXT else None
        while len(self._texts) > MAX_FILES:
            del self._texts[next(iter(self._texts))]

    def wrote(self, change: Wrote) -> None:
        """A tool changed a file."""
        path = plain_path(change.path)
        text = change.text
        before = self.text(path) if text is None and change.old else None
        if before is not None and change.old in before:
            text = before.replace(change.old, change.new, -1 if change.every else 1)
        self.put(path, text)

    def ran(self, program: Program, given: Mapping[str, str]) -> None:
        """A command was executed."""
        for path, text in given.items():
            self.put(plain_path(path), text)
        written = program.written
        for path, texts in written.texts.items() if written is not None else ():
            self.put(path, self._final(path, texts))
        copies = [copied for command in program.commands if (copied := _copied(command)) is not None]
        moved = {target: self.text(source) for source, target in copies}
        changed = Counter[str]()
        for effect in _changes(program, written.effects if written is not None else set()):
            path = plain_path(effect.operand or "/")
            changed[path] += 1
            self._forget(path, below=effect.recursive or effect.kind in ("delete", "move"))
        for path, copy in moved.items():
            if changed[path] == 1:  # by the copy, and by nothing else
                self.put(path, copy)

    def _forget(self, path: str, *, below: bool) -> None:
        self.put(path, None)
        if below:
            for known in [each for each in self._texts if each.startswith(path.rstrip("/") + "/")]:
                self.put(known, None)

    def _final(self, path: str, texts: list[WrittenText]) -> str | None:
        """What `path` holds after `texts` were written to it, one after the other."""
        if len(texts) > 1 and any(not _NOT_IN_ORDER.isdisjoint(each.by.inside) for each in texts):
            return None
        now = self.text(path)
        for each in texts:
            if not each.appended:
                now = each.text
            elif now is None:
                return None
            else:
                now += each.text
        return now


class CheckoutReader:
    """The files of a recorded project, read where a checkout of it is now: `/testbed/a.py` as `CHECKOUT/a.py`.

    Nothing outside of the checkout is read, wherever links in it lead.

    Args:
        project: where the log has the project.
        checkout: where it is now.
    """

    def __init__(self, project: str, checkout: Path) -> None:
        self._project = project.rstrip("/") + "/"
        self._top = os.path.realpath(checkout)
        self._disk = DiskReader(self._top)

    def read(self, path: str) -> Source | None:
        """The file at `path`; None where the checkout has none. (A `Reader`.)"""
        at = plain_path(path)
        if not at.startswith(self._project):
            return None
        found = os.path.realpath(os.path.join(self._top, at[len(self._project) :]))
        return self._disk.read(found) if found.startswith(self._top + "/") else None


class _RowReader:
    """What a row says of files goes before what the run tells."""

    def __init__(self, row: GivenReader, files: RunFiles) -> None:
        self._row, self._files = row, files

    def read(self, path: str) -> Source | None:
        """The file at `path`."""
        return self._row.read(path) or self._files.read(path)


def _changes(program: Program, told: Collection[int]) -> Iterator[Effect]:
    """Effects that change files in a way that is not known (`told` are those whose text is, by identity)."""
    for command in program.commands:
        for effect in command.effects if command.program not in _SAME_CONTENT else ():
            known = effect.kind not in _CHANGES or effect.role == "build" or id(effect) in told
            if not known and effect.operand is not None and effect.operand.startswith("/"):
                yield effect


def _copied(command: SimpleCommand) -> tuple[str, str] | None:
    """(from, to), where `command` is a plain `cp` or `mv` of one file."""
    if command.program not in ("cp", "mv") or not command.resolved or len(command.operands) != 2:
        return None
    pairs = [
        plain_path(e.operand) for e in command.effects if e.operand is not None and e.kind in ("read", "move", "write")
    ]
    return (pairs[0], pairs[1]) if len(pairs) == 2 and command.effects[-1].kind == "write" else None
