"""The baseline of a project: what a human started from, which is its own code as long as nobody has changed it.

It is git's index as a human left it, less what actions have brought into it, and the time at which the first of them
was judged: what was not changed since then, no action has changed.
"""

import hashlib
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from humanlayer_agent.shell.repository.index import Tracked, index_entries


def blob_name(data: bytes) -> bytes:
    """Return the name that git has for a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).digest()


def place_name(path: bytes, blob: bytes) -> bytes:
    """Return a name for the content `blob` at `path`: a human's own, which an action has put there, is not his."""
    return hashlib.sha1(path + b"\0" + blob).digest()


@dataclass(frozen=True)
class Baseline:
    """The baseline of a project: what of it is its own.

    Args:
        top: the working tree, by a path without links.
        index: the bytes of git's index; b"" where nothing is tracked.
        written_ns: when the index was written: what it says of a file that was changed no earlier proves nothing.
        brought: what actions brought in, by `blob_name` and `place_name`.
        since_ns: files that were not changed since then are the human's; 0: none are.
        wrote: the files and folders that actions were seen to write where nobody looks for what has changed.
        judged: which of this run's texts were judged as code, and may run, by `code_name`.
    """

    top: str
    index: bytes = field(default=b"", repr=False)
    written_ns: int = 0
    brought: Collection[bytes] = field(default=frozenset(), repr=False)
    since_ns: int = 0
    wrote: Collection[str] = field(default=(), repr=False)
    judged: Collection[str] = field(default=(), repr=False)

    @cached_property
    def tracked(self) -> dict[bytes, Tracked]:
        """The tracked files, by the path from the top."""
        return index_entries(self.index) if self.index else {}

    def has(self, real: str, data: bytes) -> bool:
        """Tell whether this content of the file at a path without links is the project's own."""
        entry = self._entry(real)
        return entry is not None and entry.blob == blob_name(data)

    def is_unchanged(self, real: str, about: os.stat_result) -> bool:
        """Tell whether the file is the project's own as its times and size show; False proves nothing."""
        if about.st_ctime_ns < self.since_ns:
            return True
        entry = self._entry(real)
        if entry is None or entry.size != about.st_size & 0xFFFFFFFF or about.st_ctime_ns >= self.written_ns:
            return False
        return entry.times == (about.st_ctime_ns, about.st_mtime_ns)

    def _entry(self, real: str) -> Tracked | None:
        """What is tracked at `real`, where no action has brought it in."""
        if not self.index or not real.startswith(self.top.rstrip("/") + "/"):
            return None
        path = os.fsencode(real[len(self.top.rstrip("/")) + 1 :])
        entry = self.tracked.get(path)
        if entry is None or not stat.S_ISREG(entry.mode) or entry.blob in self.brought:
            return None
        return None if self.brought and place_name(path, entry.blob) in self.brought else entry

    def brought_by(self, index: bytes, others: Collection["Baseline"] = ()) -> set[bytes]:
        """Return what a later index has that this one has not, to be added to `brought`.

        Args:
            others: baselines of other runs: what one of them has at its place was the project's own before.
        """
        if index == self.index:
            return set()
        blobs = {entry.blob for entry in self.tracked.values()}
        found: set[bytes] = set()
        for path, entry in index_entries(index).items():
            if all(path not in each.tracked or each.tracked[path].blob != entry.blob for each in (self, *others)):
                found.add(place_name(path, entry.blob) if entry.blob in blobs else entry.blob)
        return found
