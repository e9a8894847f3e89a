"""Settings and hooks of repositories that are not the project's own: they are code that git runs.

git obeys every folder that looks like a repository, whoever made it: one that is unpacked, cloned, or has `HEAD`,
`objects` and `refs` side by side (git's setup.c). Those that it may find are looked at without running it.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from humanlayer_agent.shell.reader import GitSettings
from humanlayer_agent.shell.view import View

MAX_SETTINGS = 1 << 18
"""Longest file of settings that is read, in bytes."""
MAX_INDEX = 64 * 1024 * 1024
MAX_REPOSITORIES = 64
"""Most that are looked at for one command."""
_GITLINK = bytes((0, 0, 0xE0, 0))
"""The mode of a submodule in an index."""
_FOLDER = bytes((0, 0, 0x40, 0))
"""The mode of a folder of which the index has no files."""
_SPARSE = b"sdir"
"""An extension of an index that has such folders."""
_UP_TO_NAME = (38, 40, 50, 52)
"""Bytes from there to its path: without and with further flags, with names of objects by SHA-1 and by SHA-256."""
_LONGEST = 4096
_ASKED_ABOUT = frozenset({".git", ".husky", ".githooks"})
"""Folders of hooks that no policy lets be written without a question."""
_INERT = re.compile(
    r"""(user\.(name|email)|author\.(name|email)|committer\.(name|email)|color\..*|advice\..*|column\..*|log\.(date|decorate|follow)
    |core\.(quotepath|autocrlf|eol|filemode|ignorecase|abbrev|safecrlf|precomposeunicode|whitespace|untrackedcache
        |repositoryformatversion|bare|logallrefupdates|symlinks|sharedrepository|sparsecheckout|sparsecheckoutcone)
    |diff\.(renames|algorithm|context|mnemonicprefix|noprefix|colormoved|renamelimit)|status\.\w+|init\.defaultbranch
    |merge\.(conflictstyle|ff)|pull\.(rebase|ff)|push\.default|commit\.(gpgsign|verbose)|tag\.gpgsign|gc\.auto
    |grep\.\w+|rerere\.enabled|safe\.directory|http\.(postbuffer|version)|fetch\.prune
    |extensions\.(worktreeconfig|objectformat|refstorage)|remote\..+\.(url|fetch|tagopt)
    |branch\..+\.(remote|merge|rebase)|submodule\.(.+\.(url|active|branch)|active)|lfs\.repositoryformatversion)""",
    re.IGNORECASE | re.ASCII | re.VERBOSE,
)
_INERT_VALUES = {"core.pager": ("cat", ""), "core.fsmonitor": ("false",)}
_SECTION = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?\][ \t]*', re.ASCII)
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?", re.ASCII)


def is_inert(key: str, value: str) -> bool:
    """Tell whether a setting of git's neither is code, nor leads git to other files.

    Example:
        >>> is_inert("user.name", "x"), is_inert("core.fsmonitor", "rm x"), is_inert("remote.a.url", "ext::sh")
        (True, False, False)
    """
    if key.lower() in _INERT_VALUES:
        return value in _INERT_VALUES[key.lower()]
    return _INERT.fullmatch(key) is not None and not (key.lower().endswith("url") and "::" in value)


def settings_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a file of git's configuration sets (git-config(1), Syntax).

    Raises:
        ValueError: something in it is not understood.

    Example:
        >>> list(settings_in('[remote "a"] url = x'))
        [('remote.a.url', 'x')]
    """
    section = ""
    for line in text.removeprefix("\ufeff").split("\n"):
        rest = line.strip(" \t\r")
        at = 0
        while rest.startswith("[", at):
            found = _SECTION.match(rest, at)
            if found is None:
                raise ValueError(rest)
            section, at = ".".join(filter(None, found.groups())), found.end()
        rest = rest[at:]
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.fullmatch(rest)
        if setting is None or not section or rest.endswith("\\"):
            raise ValueError(rest)
        yield f"{section}.{setting[1]}", setting[2] or ""


@dataclass(frozen=True, slots=True)
class Own:
    """The repository that was there at the start, by paths without links: its work tree, the folder in which git
    keeps what is of this one alone, and that with what is of all; "" where there was none.
    """

    top: str = ""
    folder: str = ""
    common: str = ""

    @classmethod
    def of(cls, project: str, view: View) -> "Own":
        """Return that of a project: what `.git` is there, or above."""
        place = view.real(project)
        while True:
            folder = _linked(f"{place.rstrip('/')}/.git", view)
            if folder is not None and _is_repository(folder, view):
                return cls(place, folder, _common(folder, view))
            if place == "/":
                return cls()
            place = os.path.dirname(place)


def settings_at(place: str, own: Own, view: View, is_project: Callable[[str], bool]) -> GitSettings:
    """Return what git would obey in a directory, besides the project's own repository.

    What git takes for a repository depends on more than is looked at here, so all up to the project's own, or up to the
    root, have to be harmless.

    Args:
        place: the directory.
        own: what was there at the start.
        view: what is seen of the disk.
        is_project: tells of a file whether it is the project's own code.
    """
    found = _Found(own, view)
    here = view.real(place)
    while here != own.folder:
        git = f"{here.rstrip('/')}/.git"
        folder = _linked(git, view)
        if folder is None:
            found.doubt(git)
        elif folder == own.folder:
            found.submodules(folder, here)
            found.own_hooks(here, is_project)
            break
        elif _is_repository(folder, view):
            found.look(folder, here)
            if folder != git:
                found.read(git)
        if _is_repository(here, view):
            found.look(here, None)
        if here == "/":
            break
        here = os.path.dirname(here)
    return GitSettings(tuple(found.files), found.unknown)


def hooks_of(own: Own, view: View) -> frozenset[str]:
    """Return the names of the hooks of a repository that run more than git itself brings.

    Args:
        own: the repository.
        view: what is seen of the disk.
    """
    data = _bytes(f"{own.common}/config", view) or b""
    try:
        told = [value for key, value in settings_in(os.fsdecode(data)) if key.lower() == "core.hookspath"]
    except ValueError:
        told = []
    found: set[str] = set()
    for folder in [view.real(os.path.join(own.top, os.path.expanduser(value))) for value in told] or [
        f"{own.common}/hooks"
    ]:
        # husky's own scripts run the file of their name in the folder above, where there is one.
        folder = os.path.dirname(folder) if folder.endswith("/.husky/_") else folder
        try:
            names = [name for name, _, is_directory in view.entries(folder) if not is_directory]
        except OSError:
            continue
        found |= {n for n in names if not n.endswith(".sample") and not _only_lfs(_bytes(f"{folder}/{n}", view))}
    return frozenset(found)


def _only_lfs(data: bytes | None) -> bool:
    """Is it a hook of `git lfs install`, which runs nothing of the project? (Whoever can write it needs no other.)"""
    lines = [line.strip() for line in os.fsdecode(data).splitlines()] if data else []
    said = [line for line in lines if line and not line.startswith("#")]
    return bool(said) and all(
        line.startswith(("command -v git-lfs >", "git lfs post-", "git lfs pre-")) for line in said
    )


class _Found:
    """What was found out about the repositories that git may take."""

    def __init__(self, own: Own, view: View) -> None:
        self.own, self.view = own, view
        self.files: list[tuple[str, str]] = []
        self.unknown = ""
        self._left = MAX_REPOSITORIES

    def doubt(self, path: str) -> None:
        self.unknown = self.unknown or path

    def read(self, path: str) -> str:
        """The text of a file that git obeys; "" where there is none."""
        if _lacks(path, self.view):
            return ""
        data = _bytes(path, self.view)
        if data is None:
            self.doubt(path)
            return ""
        import hashlib

        self.files.append((path, hashlib.sha256(data).hexdigest()))
        return data.decode("utf-8", "surrogateescape")

    def submodules(self, folder: str, top: str) -> None:
        """Look at the repositories in a work tree that its index names: `git status` runs itself in each of them."""
        for index in (f"{folder}/index", *self.shared_indexes(folder)):
            data = b"" if _lacks(index, self.view) else _bytes(index, self.view, MAX_INDEX)
            # In version 4 names are not whole.
            if data is None or (data[7:8] == b"\4" and (_GITLINK in data or _SPARSE in data)):
                self.doubt(index)
                return
            self.named(data, top)

    def shared_indexes(self, folder: str) -> list[str]:
        """What a split index may be completed by (gitformat-index.txt, "Split index")."""
        try:
            names = [name for name, _, _ in self.view.entries(folder)]
        except OSError:
            self.doubt(f"{folder}/index")
            return []
        return [f"{folder}/{name}" for name in names if name.startswith("sharedindex.")]

    def named(self, index: bytes, top: str) -> None:
        """Look at the repositories that are named in an index, and in folders that are one name in it though they are
        there (a sparse index): git lists those itself.
        """
        for name in _names(index, _FOLDER) if _SPARSE in index else ():
            if name.endswith("/") and not _lacks(place := f"{top.rstrip('/')}/{name.rstrip('/')}", self.view):
                self.doubt(place)
        for name in _names(index, _GITLINK):
            place = f"{top.rstrip('/')}/{name}"
            if _lacks(f"{place}/.git", self.view):
                continue
            linked = _linked(f"{place}/.git", self.view)
            if linked is None or (place := self.view.real(place)) == top:
                self.doubt(f"{place}/.git")
            elif _is_repository(linked, self.view):
                self.look(linked, place)

    def own_hooks(self, top: str, is_project: Callable[[str], bool]) -> None:
        """Look at hooks that lie in the work tree, since the project's own settings say so."""
        data = _bytes(f"{self.own.common}/config", self.view) or b""
        try:
            told = [value for key, value in settings_in(os.fsdecode(data)) if key.lower() == "core.hookspath"]
            for value in told:
                folder = self.view.real(os.path.join(top, value))
                if not folder.startswith(f"{top}/") or _ASKED_ABOUT & {*folder.split("/")}:
                    continue
                for name, _, _ in self.view.entries(folder):
                    if not name.endswith(".sample") and not is_project(f"{folder}/{name}"):
                        self.doubt(f"{folder}/{name}")
        except (ValueError, OSError):
            return

    def look(self, folder: str, top: str | None) -> None:
        """Look at the repository in a folder, of which `top` is the work tree."""
        self._left -= 1
        if self._left < 0:
            self.doubt(folder)
            return
        common = _common(folder, self.view)
        told = [f"{folder}/config.worktree", f"{folder}/config"]
        if common == folder:
            self.hooks(f"{folder}/hooks")
        else:
            self.read(f"{folder}/commondir")
            if common != self.own.common:
                told.append(f"{common}/config")
                self.hooks(f"{common}/hooks")
        for path in told:
            try:
                for key, value in settings_in(self.read(path)):
                    if not self.is_inert(key, value, folder, top):
                        self.doubt(path)
            except ValueError:
                self.doubt(path)
        if top is not None:
            self.submodules(folder, top)

    def is_inert(self, key: str, value: str, folder: str, top: str | None) -> bool:
        if key.lower() != "core.worktree":
            return is_inert(key, value)
        return top is not None and self.view.real(os.path.join(folder, value)) == top

    def hooks(self, path: str) -> None:
        """A hook runs by itself, also where git only looks: post-index-change, reference-transaction (githooks(5))."""
        step = self.view.look(self.view.real(path))
        if step.found is None and not _lacks(path, self.view):
            self.doubt(path)
        if step.found is None:
            return
        try:
            if not all(name.endswith(".sample") for name, _, _ in self.view.entries(step.at)):
                self.doubt(path)
        except OSError:
            self.doubt(path)


def _linked(git: str, view: View) -> str | None:
    """The folder that `.git` is, or leads to; None where nobody can say."""
    step = view.look(git)
    real = git if step.target is None else view.real(git)
    step = step if step.target is None else view.look(real)
    if step.is_directory or step.found is None:
        return real
    data = _bytes(real, view)
    text = os.fsdecode(data) if data is not None else ""
    if not text.startswith("gitdir: "):
        return None
    return view.real(os.path.join(os.path.dirname(git), text.removeprefix("gitdir: ").rstrip("\r\n")))


def _is_repository(folder: str, view: View) -> bool:
    """May git take it for a repository?"""
    if _lacks(f"{folder}/HEAD", view):
        return False
    parts = (f"{folder}/objects", f"{folder}/refs")
    return not _lacks(f"{folder}/commondir", view) or not any(_lacks(part, view) for part in parts)


def _common(folder: str, view: View) -> str:
    data = _bytes(f"{folder}/commondir", view)
    return folder if data is None else view.real(os.path.join(folder, os.fsdecode(data).rstrip("\r\n")))


def _lacks(path: str, view: View) -> bool:
    """Is nothing there, not even a link that leads nowhere? Nothing above its end is a link."""
    step = view.look(path)
    if step.found is not None:
        return False
    if step.place is None:
        return not view.temporary  # else it is one that some commands see, and others don't
    try:
        os.lstat(step.place)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _names(index: bytes, mode: bytes) -> Iterator[str]:
    """The paths that an index may have with a mode, and perhaps others (gitformat-index.txt, versions 2 and 3)."""
    at = index.find(mode)
    while at >= 0:
        for start in (at + skipped for skipped in _UP_TO_NAME):
            end = index.find(b"\0", start, start + _LONGEST)
            if end > start:
                yield os.fsdecode(index[start:end])
        at = index.find(mode, at + 1)


def _bytes(path: str, view: View, most: int = MAX_SETTINGS) -> bytes | None:
    """The content of a regular file; None where there is none, or it is too long."""
    try:
        descriptor = view.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > most:
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    except OSError:
        return None
    finally:
        os.close(descriptor)
