"""The files that agents run, read from disk: their text, their hash, and whether version control has them.

What is under version control is taken from git's index as a human left it (see `baseline`). Later additions don't
count, or an agent could make its own script "project code" with `git add`. The format is that of git's
Documentation/gitformat-index.txt, versions 2 to 4; an index that is not understood means that nothing is tracked.
"""

import copy
import errno
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

from humanlayer_agent.shell.baseline import Baseline
from humanlayer_agent.shell.program import Program
from humanlayer_agent.shell.reader import MAX_TEXT, DiskLooks, GitSettings, ProjectReader, Source
from humanlayer_agent.shell.view import HOST, MAX_NAMES, View, has_links, has_odd_names, links_out
from humanlayer_agent.shell.wildcards import Listing, known_by, listing_of

MAX_HASHED = 8 * 1024 * 1024
MAX_INDEX = 64 * 1024 * 1024
_COARSE_NS = 20_000_000
"""The times of files may be so much behind the clock."""
_CLOCK_OF_FILES = 5  # linux/time.h: CLOCK_REALTIME_COARSE
MAX_LOOKED = 200_000
"""Most names of a project that are looked at for what has changed."""
MAX_LOOKED_OUTSIDE = 3_000
"""Most names below a place outside of it."""
_LOADED_ABOVE = frozenset(
    str.split("conftest.py pytest.ini .pytest.ini pyproject.toml tox.ini setup.cfg package.json .pylintrc .flake8")
)
"""What tools look for in the folders above as well."""
_NOT_LOADED = frozenset(
    str.split(
        """.git .hg .svn node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache .hypothesis
        .cache"""
    )
)
"""Folders of what is installed, or kept by tools: what an action is seen to write there is told by it."""
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*", re.ASCII)
_PROGRAMS = re.compile(
    r"/(?:usr/(?:local/)?)?bin|/opt/(?:mini|ana)?(?:conda|forge)3?(?:/envs/[^/]+)?/bin|/opt/python/[^/]+/bin"
    r"|/opt/hostedtoolcache/Python/[^/]+/[^/]+/bin|/opt/homebrew/(?:Cellar|opt)/.+/bin"
    r"|/Library/Frameworks/Python\.framework/Versions/[^/]+/bin"
    r"|(?:/root|/home/[^/]+|/Users/[^/]+)/(?:\.pyenv/versions/[^/]+|\.local/share/uv/python/[^/]+|(?:mini|ana)(?:conda|forge)3(?:/envs/[^/]+)?)/bin",
    re.ASCII,
)
"""Where Pythons are installed: what an agent would put there is outside its project, and asked about."""


class DiskReader(DiskLooks, ProjectReader):
    """A reader of regular files on disk, wherever they are.

    Args:
        project: the directory the agent works for; git's index is looked for there and above.
        view: what whoever runs what is read sees of the disk.
        baseline: what of the project is its own; None: what it has now.

    Example:
        >>> DiskReader("/srv/app").read("/srv/app/no-such-file") is None
        True
    """

    def __init__(self, project: Path | str, view: View = HOST, baseline: Baseline | None = None) -> None:
        self._project = os.path.realpath(project)
        self.baseline = baseline if baseline is not None else baseline_of(self._project)
        self._view = view
        from humanlayer_agent.shell.repository.settings import Own

        self._repository = Own.of(os.path.realpath(project), HOST)

    def seen_in(self, view: View) -> Self:
        """Return a reader of the same files as they are seen in another view. What is under version control was, as
        before, found when this one was made.
        """
        other = copy.copy(self)
        other._view = view
        return other

    def read(self, path: str) -> Source | None:
        """The file at `path`; None where it is missing, no regular file, or larger than 8 MiB (an installed program
        may be larger)."""
        if (installed := _installed(path, self._view)) is not None:
            return installed
        data = _bytes(path, self._view)
        if data is None:
            return None
        text = None
        if len(data) <= MAX_TEXT:
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = None
        import hashlib

        unmodified = self.baseline.has(self._view.real(path), data)
        return Source(hashlib.sha256(data).hexdigest(), text, unmodified)

    @property
    def git_top(self) -> str:
        """The work tree of the repository that the project had when this reader was made; "" where it had none."""
        return self._repository.top

    def git_settings(self, folder: str) -> GitSettings:
        """Return what git obeys in a folder, besides the repository that the project had when this reader was made."""
        from humanlayer_agent.shell.repository.settings import settings_at

        def is_project(path: str) -> bool:
            found = self.read(path)
            return found is not None and found.project

        return settings_at(folder, self._repository, self._view, is_project)

    def git_hooks(self, folder: str) -> frozenset[str]:
        """Return the names of the hooks of the repository that the project had when this reader was made, in its work
        tree; elsewhere none.
        """
        from humanlayer_agent.shell.repository.settings import hooks_of

        top = self._repository.top
        inside = bool(top) and f"{self._view.real(folder)}/".startswith(f"{top.rstrip('/')}/")
        return hooks_of(self._repository, self._view) if inside else frozenset()

    def links_out(self, folder: str, *, through: bool) -> tuple[tuple[str, str], ...] | None:
        """Return the links below a folder that lead out of it. By those of a disk that is not as the machine has it, a
        command reaches nothing that it may not reach anyway: of them there are none.
        """
        return links_out(folder, self._view, through=through) if self._view == HOST else ()

    def followed(self, folder: str) -> tuple[str, ...] | None:
        """Return where else one looks who follows each link below a folder; None on the disk as the machine has it:
        there a link may lead anywhere by then, and nothing would hold who follows it.
        """
        links = links_out(folder, self._view, through=True) if self._view != HOST else None
        return tuple(dict.fromkeys(real for _, real in links)) if links is not None else None

    def has_links(self, path: str) -> bool:
        """Tell whether there is, or may be, a link at a path or below it, as the commands see it."""
        return has_links(path, self._view)

    def brought_links(self, program: Program) -> dict[int, tuple[str, ...]]:
        """Return what the git commands of a program may make links, or repositories within the work tree, of."""
        from humanlayer_agent.shell.repository.work_tree import brought_links

        return brought_links(program, self._view)

    def has_odd_names(self, folder: str, name: str | None) -> bool:
        """Tell whether a path below a folder would, or may, become several words, or none, where it is split."""
        return has_odd_names(folder, self._view, name)

    def names(self, folder: str, *, deep: bool) -> tuple[str, ...] | None:
        """Return the names in a folder that are not hidden, or the paths of all files below it; () where there is no
        such folder.
        """
        found: list[str] = []
        here = ""
        ahead = [""]
        try:
            while ahead:
                here = ahead.pop()
                for name, _, is_directory in self._view.entries(f"{folder.rstrip('/')}/{here}".rstrip("/") or "/"):
                    if deep and is_directory:
                        ahead.append(f"{here}{name}/")
                    elif deep or not name.startswith("."):
                        found.append(f"{here}{name}")
                    if len(found) + len(ahead) > MAX_NAMES:
                        return None
        except (OSError, ValueError) as error:
            return () if isinstance(error, FileNotFoundError) and not here else None
        return tuple(found)

    def listing(self, folder: str, pattern: str) -> Listing | None:
        """Return the names that a pattern stands for in a folder, as the commands see it."""
        return listing_of(folder, pattern, self._view)

    def real(self, path: str) -> str:
        """Return the path without links that a path leads to, as the commands see it."""
        try:
            return self._view.real(path)
        except ValueError:  # NUL, or half a letter
            return path

    def stored_sql(self, path: str) -> tuple[str, ...] | None:
        """Return the SQL that a database of SQLite holds of its tables, views and triggers: () where there is no file,
        or an empty one. None where it is larger than 8 MiB, no database, or not all of it is in that one file.
        """
        if any(_may_exist(path + beside, self._view) for beside in ("-wal", "-journal")):
            return None
        data = _bytes(path, self._view)
        if data is None:
            return None if _may_exist(path, self._view) else ()
        return _stored_sql(data) if data else ()

    def tracked_names(self, folder: str) -> tuple[str, ...] | None:
        """Return the paths of what git's index has below a folder now, where that is the project's own repository."""
        from humanlayer_agent.shell.repository.index import all_names

        real = self._view.real(folder)
        try:
            top, index, _ = _index_of(real)
            names = all_names(index)
        except (OSError, ValueError):
            return None
        if names is None or not self.git_top or os.path.realpath(top) != os.path.realpath(self.git_top):
            return None
        above = "" if real == top else f"{os.path.relpath(real, top)}/"
        return tuple(name[len(above) :] for name in map(os.fsdecode, names) if name.startswith(above))

    def changed(
        self, wanted: Callable[[str], bool], places: Collection[str] = (), beside: Collection[str] = ()
    ) -> list[str] | None:
        """Return the files of these names that are not the human's any more, or perhaps not: of the project, of
        these places and all below them, and of the folders `beside` and the folders in those. None where there are
        too many to look at, or where nobody can look.
        """
        try:
            found = self._changed(wanted, _files([self._project], self.baseline.since_ns, _NOT_LOADED), MAX_LOOKED)
            found += [path for path in _files(self.baseline.wrote, 0) if path is not None and wanted(path)]
            for place in places:
                if not _is_below(place, self._project):
                    found += self._outside(wanted, place)
                elif not is_looked_at(place):
                    found += self._changed(wanted, _files([place], self.baseline.since_ns), MAX_LOOKED)
            for folder in beside:
                real = self._view.real(folder)
                if not _is_below(real, self._project) and os.path.isdir(real):
                    seen = {folder.rstrip("/") + path.removeprefix(real): path for path in _near(real)}
                    found += [name for name, path in seen.items() if wanted(name) and self._is_changed(path)]
        except OSError:
            return None
        return list(dict.fromkeys(found))

    def _outside(self, wanted: Callable[[str], bool], place: str) -> list[str]:
        """What has changed at `place`, which lies outside the project, and beside the folders that it lies in."""
        real = self._view.real(place)
        if not os.path.lexists(real):
            return []
        real = real if os.path.isdir(real) else os.path.dirname(real)
        since = self.baseline.since_ns
        found = self._changed(wanted, _files([real], since), MAX_LOOKED_OUTSIDE) if os.path.isdir(real) else []
        for parent in map(str, Path(real).parents):
            if parent != "/" and os.path.isdir(parent):
                with os.scandir(parent) as entries:
                    beside = [entry.path for entry in entries if entry.name in _LOADED_ABOVE]
                found += self._changed(wanted, beside, MAX_LOOKED)
        below = self._view.temporary
        if below and real != place and (real + "/").startswith(below + "/"):
            found = ["/tmp" + path.removeprefix(below) for path in found]
        return found

    def _changed(self, wanted: Callable[[str], bool], paths: Iterable[str | None], most: int) -> list[str]:
        """Those of `paths` that have changed. Raises OSError where there are too many."""
        found = []
        for looked, path in enumerate(paths):
            if looked > most:
                raise OSError("too many files to look at")
            if path is not None and wanted(path) and self._is_changed(path):
                found.append(path)
        return found

    def is_judged(self, name: str) -> bool:
        """Tell whether this run may run the code of this name: it was judged before."""
        return name in self.baseline.judged

    @staticmethod
    def digest(path: str, view: View = HOST) -> str:
        """Return the `sha256` of what `read` gives for `path` now, without a look at its text, or of what `listing`
        gives that is known by `path`; "" where there is nothing.
        """
        if (names := known_by(path)) is not None:
            found = listing_of(*names, view)
            return found.sha256 if found is not None else ""
        if (installed := _installed(path, view)) is not None:
            return installed.sha256
        data = _bytes(path, view)
        if data is None:
            return ""
        import hashlib

        return hashlib.sha256(data).hexdigest()

    def _is_changed(self, path: str) -> bool:
        try:
            link = os.lstat(path)
            about = os.stat(path) if stat.S_ISLNK(link.st_mode) else link
        except OSError:
            return False  # a link that leads nowhere
        if not stat.S_ISREG(about.st_mode):
            return False
        if stat.S_ISLNK(link.st_mode):
            return max(link.st_ctime_ns, about.st_ctime_ns) >= self.baseline.since_ns
        if self.baseline.is_unchanged(path, about):
            return False
        data = _bytes(path, HOST)
        return data is None or not self.baseline.has(path, data)


class GivenReader:
    """A reader of files that are given, instead of those on disk: a recorded run carries the scripts it ran.

    Args:
        files: the text of each by its absolute path.
        tracked: paths under version control and unmodified.

    Example:
        >>> GivenReader({"/srv/run.sh": "ls"}).read("/srv/run.sh").text
        'ls'
    """

    def __init__(self, files: Mapping[str, str], tracked: Collection[str] = ()) -> None:
        self._files, self._tracked = files, frozenset(tracked)

    def read(self, path: str) -> Source | None:
        """The file that was given for `path`."""
        plain = "/" + os.path.normpath(path).lstrip("/")
        text = self._files.get(plain)
        if text is None and plain not in self._tracked:
            return None
        data = (text or "").encode("utf-8", "surrogatepass")
        readable = text is not None and len(data) <= MAX_TEXT
        import hashlib

        return Source(hashlib.sha256(data).hexdigest(), text if readable else None, plain in self._tracked)


def _installed(path: str, view: View) -> Source | None:
    """An interpreter that is installed on this machine, where `path` leads to one: `.venv/bin/python` is a link.

    Its hash is over the place, the size and the time of the change.
    """
    if not _PYTHON.fullmatch(os.path.basename(path)):
        return None
    try:
        real = view.real(path)
        if not _PYTHON.fullmatch(os.path.basename(real)) or not _PROGRAMS.fullmatch(os.path.dirname(real)):
            return None
        found = os.stat(real)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & 0o111:
        return None
    import hashlib

    what = f"{real}\0{found.st_size}\0{found.st_mtime_ns}\0{found.st_uid}"
    return Source(hashlib.sha256(what.encode()).hexdigest(), installed=real)


def _bytes(path: str, view: View) -> bytes | None:
    """The content of a regular file. A pipe or a device is not waited for."""
    try:
        descriptor = view.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_HASHED:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_HASHED + 1)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data if len(data) <= MAX_HASHED else None


def _may_exist(path: str, view: View) -> bool:
    try:
        os.close(view.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return True


def _stored_sql(data: bytes) -> tuple[str, ...] | None:
    import sqlite3
    from contextlib import closing

    if data[:16] != b"SQLite format 3\0" or len(data) < 512:
        return None
    # Bytes 18 and 19 say that there is a log besides, without which it could not be opened: there is none.
    plain = data[:18] + b"\1\1" + data[20:]
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(plain)
            rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
    except (sqlite3.Error, AttributeError, ValueError, MemoryError):
        return None
    return tuple(row[0] for row in rows) if all(isinstance(row[0], str) for row in rows) else None


def _is_below(path: str, folder: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")


def is_looked_at(path: str) -> bool:
    """Tell whether what changes at `path`, in a project, is found by looking for it."""
    return _NOT_LOADED.isdisjoint(path.split("/"))


def _files(places: Collection[str], since_ns: int, left_out: Collection[str] = ()) -> Iterator[str | None]:
    """The files at `places` and below; None stands for a folder, which counts as well. Links to folders are followed
    that were not made before `since_ns`. Raises OSError where nobody can look.
    """
    waiting = [place for place in places if os.path.isdir(place)]
    yield from (place for place in places if os.path.isfile(place))
    seen: set[str] = set()
    while waiting:
        place = waiting.pop()
        yield None
        try:
            entries = os.scandir(place)
        except PermissionError:
            if os.stat(place).st_ctime_ns >= since_ns:
                raise
            continue  # it was so before
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in left_out:
                        waiting.append(entry.path)
                elif entry.is_symlink() and entry.is_dir():
                    real = os.path.realpath(entry.path)
                    if entry.stat(follow_symlinks=False).st_ctime_ns >= since_ns and real not in seen:
                        seen.add(real)
                        waiting.append(entry.path)
                else:
                    yield entry.path


def _near(folder: str) -> Iterator[str]:
    """The files in a folder and in the folders in it. Raises OSError where nobody can look."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from (f"{entry.path}/__init__{ending}" for ending in (".py", ".pyc"))
            else:
                yield entry.path


def baseline_of(project: str) -> Baseline:
    """Return what `project` (without links) has now, as if no action was ever judged there."""
    top, index, written_ns = _index_of(project)
    return Baseline(top, index, written_ns, since_ns=file_time_ns())


def file_time_ns() -> int:
    """Return the time (nanoseconds since the epoch) before which no file was changed that is changed from now on, as
    the file says.
    """
    if sys.platform == "linux":
        return time.clock_gettime_ns(_CLOCK_OF_FILES)
    return time.time_ns() - _COARSE_NS


def _index_of(directory: str) -> tuple[str, bytes, int]:
    """The working tree that `directory` lies in, the bytes of its index, and when it was written; b"" where there is
    none.
    """
    for place in (directory, *map(str, Path(directory).parents)):
        git = os.path.join(place, ".git")
        if not _exists(git):
            continue
        try:
            if os.path.isfile(git):  # a worktree or submodule: "gitdir: PATH"
                with open(git) as file:
                    name, _, where = file.read().partition(":")
                git = os.path.join(place, where.strip()) if name == "gitdir" else git
            index = os.path.join(git, "index")
            with open(index, "rb") as binary:
                about = os.fstat(binary.fileno())
                return (place, b"", 0) if about.st_size > MAX_INDEX else (place, binary.read(), about.st_mtime_ns)
        except (OSError, ValueError):
            return place, b"", 0
    return directory, b"", 0


def _exists(path: str) -> bool:
    """Is there something at `path`? Raises OSError where nobody can say (no permission)."""
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP):
            raise
        return False
    return True
