"""The reader of files: what the analysis may know of the disk is handed to it. Nothing in `shell` opens a file
itself.
"""

from dataclasses import dataclass
from typing import Protocol

MAX_TEXT = 262_144
"""Longest file that is read as code, in bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that an action runs.

    Args:
        sha256: over its bytes, in hex.
        text: None where it can't be read as code: too long, or not UTF-8.
        project: it is under version control and unmodified, so that running it is running the project's own code.
        installed: the program that the path leads to (as a link in `.venv/bin` does), where that lies with others that
            are installed.
    """

    sha256: str
    text: str | None = None
    project: bool = False
    installed: str = ""


class Reader(Protocol):
    """The protocol of what gives the files that an action runs."""

    def read(self, path: str) -> Source | None:
        """Return the file at `path` (absolute), or None where there is none, or it is no regular file. Never raises."""
