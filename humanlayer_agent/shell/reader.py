"""The reader of files: what the analysis may know of the disk is handed to it. Nothing in `shell` opens a file
itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from humanlayer_agent.shell.program import Program
from humanlayer_agent.shell.wildcards import Listing

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


@dataclass(frozen=True, slots=True)
class GitSettings:
    """What git obeys in a directory, besides the project's own repository.

    Args:
        files: those that were read, each with the SHA-256 (hex) of its bytes.
        unknown: a file, or a folder of hooks, that may have git run code; "" where nothing does.
    """

    files: tuple[tuple[str, str], ...] = ()
    unknown: str = ""


class DiskLooks(ABC):
    """The base of readers that can also look around on a disk: for repositories, and for links."""

    @property
    @abstractmethod
    def git_top(self) -> str:
        """The work tree of the project's own repository, which was there at the start; "" where there was none."""

    @abstractmethod
    def git_settings(self, folder: str) -> GitSettings:
        """Return what git obeys in a folder (absolute). Never raises."""

    @abstractmethod
    def git_hooks(self, folder: str) -> frozenset[str]:
        """Return the names of the hooks that git runs in a folder (absolute), by the repository that the project had at
        the start (githooks(5)). Never raises.
        """

    @abstractmethod
    def links_out(self, folder: str, *, through: bool) -> tuple[tuple[str, str], ...] | None:
        """Return the links below a folder that lead out of it, each with where; None where there are too many names to
        look at. Never raises.

        Args:
            folder: an absolute path.
            through: those that are found by following them are looked for too.
        """

    @abstractmethod
    def followed(self, folder: str) -> tuple[str, ...] | None:
        """Return where else one looks who follows each link below a folder (absolute), where that stays within what
        is let through whatever becomes of the links; None where it may not. Never raises.
        """

    @abstractmethod
    def has_links(self, path: str) -> bool:
        """Tell whether there is, or may be, a link at a path (absolute) or below it. Never raises."""

    @abstractmethod
    def brought_links(self, program: Program) -> Mapping[int, Sequence[str]]:
        """Return what the git commands of a program may make links, or repositories within the work tree, of: for each,
        by its number, the paths; `FOLDER/` is anything below a folder. Never raises.
        """

    @abstractmethod
    def has_odd_names(self, folder: str, name: str | None) -> bool:
        """Tell whether a path below a folder (absolute) would, or may, become several words, or none, where it is split
        at blanks. `name`: wildcards that its last component has to match. Never raises.
        """

    @abstractmethod
    def names(self, folder: str, *, deep: bool) -> tuple[str, ...] | None:
        """Return the names in a folder (absolute) that are not hidden, or, where `deep`, the paths from it of all that
        lies below it and is no folder: () where there is none. None where nobody can say, or there are too many.
        Never raises.
        """

    @abstractmethod
    def listing(self, folder: str, pattern: str) -> Listing | None:
        """Return the names that a pattern stands for in a folder (absolute), a backslash before what is no wildcard of
        it. None where that can't be said. Never raises.
        """

    @abstractmethod
    def real(self, path: str) -> str:
        """Return the path without links that a path (absolute) leads to, or would lead to. Never raises."""

    @abstractmethod
    def stored_sql(self, path: str) -> tuple[str, ...] | None:
        """Return the SQL that a database of SQLite at a path (absolute) holds of its tables, views and triggers: ()
        where there is no file, or an empty one; None where nobody can say. Never raises.
        """

    @abstractmethod
    def tracked_names(self, folder: str) -> tuple[str, ...] | None:
        """Return the paths, from a folder (absolute), of what git's index has below it now; None where nobody can say.
        Never raises.
        """


class ProjectReader(ABC):
    """The base of readers that also know which files of a project are no longer those that a human started from."""

    @abstractmethod
    def changed(
        self, wanted: Callable[[str], bool], places: Collection[str] = (), beside: Collection[str] = ()
    ) -> Sequence[str] | None:
        """Return the files of these names (absolute paths) that are not, or perhaps not: of the project, of these
        places and all below them, and of the folders `beside` and the folders in those; None where nobody can say.
        """

    @abstractmethod
    def is_judged(self, name: str) -> bool:
        """Tell whether the code of this name (`code_name`) was judged before, and may run."""
