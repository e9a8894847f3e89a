"""Keeps what the command of one permit replaces: it looks at what that may change before it starts and when it ended.

Where a command is known to write nothing but what it names, that alone is looked at; else all of the project is. Of
what was not changed nothing stays. git's objects are not kept when all is looked at, nor ever taken away: later commits
may need them.
"""

import hashlib
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice

from humanlayer_agent.confine.confinement import Bounds, is_below, within
from humanlayer_agent.shell import index_meaning
from humanlayer_agent.undo.folder_descriptors import open_file, opened_folder, parent_of, state_of
from humanlayer_agent.undo.kept_files import (
    PERMISSIONS,
    TICK_NS,
    Contents,
    Kept,
    KeptFile,
    KeptFiles,
    Manifest,
    UnreadableFile,
    seen_of,
)

GIT = ".git"
OBJECTS = "git's objects are not kept, and some that there were are gone"
SEVERAL_NAMES = "it has further names (hard links)"
UNTOUCHABLE = "commands can't write it, and it is not kept"
NOT_SEEN = "not all there was looked at, because there are too many files, or it can't be read"
_ATTRIBUTES = "it has extended attributes, which are not kept"
ATTRIBUTES_OF_A_FOLDER = (
    "it has extended attributes, which are not kept: name exactly this path, too, where it is to come back without them"
)
_SPECIAL = "it is neither a file nor a link nor a folder"
_LENDS = "it lends its owner's rights to whoever runs it"
_CHANGING = "it went on changing while it was read"
_LARGEST_INDEX = 1 << 26
_ORDINARY = frozenset({"security.selinux"})


@dataclass(frozen=True, slots=True)
class Scope:
    """What the command of a permit may change of a project.

    Args:
        paths: relative to the project, each with all below it.
        whole: it may be anything, so that all is looked at; `paths` are then not.
        untouchable: path sets that it can't write.
        beyond: what it does, or may do, that no undo takes back, in sentences.
    """

    paths: tuple[str, ...] = ()
    whole: bool = False
    untouchable: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()


@dataclass(slots=True)
class _Begun:
    """A permit whose command runs."""

    record: Kept
    manifest: Manifest
    before: dict[str, KeptFile]
    bounds: Bounds
    whole: bool
    at_ns: int
    lock: int


class PermitChanges:
    """What the permits of one process change of a project. Thread-safe.

    Args:
        kept: where it is kept.
        project: its directory, without links.
    """

    def __init__(self, kept: KeptFiles, project: str) -> None:
        self._kept, self._project = kept, project
        self._lock = threading.Lock()
        self._begun: dict[str, _Begun] = {}
        self._known: dict[str, KeptFile] = {}
        self._swept = 0

    def before(self, run: str, permit: str, scope: Scope, bounds: Bounds) -> Kept:
        """Keep what a command may change, right before it starts.

        Args:
            run, permit: name them.
            scope: what it may change.
            bounds: so much is kept.

        Raises:
            OSError: nothing can be kept.
        """
        if is_below(os.path.realpath(self._kept.folder), self._project):
            raise OSError(f"{self._kept.folder} lies in the project, and an undo would change what is kept there")
        lock = self._kept.locked(self._project)
        try:
            with self._kept.writing(bounds) as contents, opened_folder(self._project) as top:
                at = time.time_ns()
                paths = ("",) if scope.whole else tuple(dict.fromkeys(_topmost(top, path) for path in scope.paths))
                scope = replace(scope, whole="" in paths)
                look = _Look(top, self._project, bounds, self._still_known(at), contents, scope)
                found = look.all(paths)
                manifest = Manifest(
                    *(run, self._project, at // 1_000_000),
                    files=tuple(found.values()),
                    unseen=tuple(look.unseen),
                    untouchable=scope.untouchable,
                    permit=permit,
                    scope=paths,
                    beyond=scope.beyond,
                )
                record = self._kept.put(contents, manifest)
        except BaseException:
            os.close(lock)
            raise
        with self._lock:
            self._begun[permit] = _Begun(record, manifest, found, bounds, scope.whole, at, lock)
            self._known.update({path: file for path, file in found.items() if file.content})
        return record

    def after(self, permit: str) -> Kept | None:
        """Note what the command of a permit has changed, when it has ended; None where nothing was kept before it.

        Raises:
            OSError: it can't be written, or the project is gone.
        """
        with self._lock:
            begun = self._begun.pop(permit, None)
        if begun is None:
            return None
        try:
            manifest, found = self._ended(begun)
            with self._kept.writing(begun.bounds) as contents:
                record = self._kept.put(contents, manifest, instead_of=begun.record)
        finally:
            os.close(begun.lock)
        with self._lock:
            for path in begun.before.keys() - found.keys():
                self._known.pop(path, None)
        return record

    def _ended(self, begun: _Begun) -> tuple[Manifest, dict[str, KeptFile]]:
        return ended(begun.manifest, begun.bounds, whole=begun.whole, at_ns=begun.at_ns)

    def _still_known(self, now: int) -> dict[str, KeptFile]:
        """What was seen earlier, and need not be read again while it looks as then."""
        with self._lock:
            swept = self._kept.swept()
            if swept != self._swept:  # contents may be gone that nothing names
                self._known.clear()
                self._swept = swept
            return {path: file for path, file in self._known.items() if file.seen[3] < now - TICK_NS}


def ended(manifest: Manifest, bounds: Bounds, *, whole: bool, at_ns: int = 0) -> tuple[Manifest, dict[str, KeptFile]]:
    """Return the manifest of a command that has ended: what it changed, before and after; and all that is there now.

    Args:
        manifest: with all that there was.
        bounds: so much is looked at.
        whole: see `Scope`.
        at_ns: when that was looked at.

    Raises:
        OSError: the project is gone.
    """
    before = {file.path: file for file in manifest.files}
    settled = (at_ns or manifest.at * 1_000_000) - TICK_NS
    same = {path: file for path, file in before.items() if file.seen[3] < settled}
    with opened_folder(manifest.project) as top:
        look = _Look(top, manifest.project, bounds, same, None, Scope(whole=whole, untouchable=manifest.untouchable))
        now = look.all(manifest.scope)
    files, after = _differing(before, now)
    unseen = tuple(sorted({*manifest.unseen, *look.unseen}))
    until = time.time_ns() // 1_000_000
    return replace(manifest, files=files, after=after, until=until, unseen=unseen), now


def observed(top: int, path: str, most: int = 1 << 50) -> KeptFile:
    """Return what stands at a path now, with its content's SHA-256.

    Args:
        top: a descriptor of the project.
        path: relative to it.
        most: the content of a longer file is not read.
    """
    look = _Look(top, "", Bounds(bytes=most), {}, None, Scope())
    look.entry(path)
    return look.files.get(path) or KeptFile(path, 0, 0, "")


def taken(top: int, path: str, contents: Contents) -> KeptFile:
    """Return what stands at a path now, whose content is kept.

    Args:
        top, path: as for `observed`.
        contents: where.

    Raises:
        OSError: it can't be kept.
    """
    look = _Look(top, "", Bounds(bytes=1 << 50), {}, contents, Scope())
    look.entry(path)
    return look.files.get(path) or KeptFile(path, 0, 0, "")


def _differing(
    before: Mapping[str, KeptFile], now: Mapping[str, KeptFile]
) -> tuple[tuple[KeptFile, ...], tuple[KeptFile, ...]]:
    files: list[KeptFile] = []
    after: list[KeptFile] = []
    for path in sorted({*before, *now}):
        was, is_ = before.get(path), now.get(path)
        if was is not None and is_ is not None and (was.seen == is_.seen != (0, 0, 0, 0) or was.is_as(is_)):
            continue
        if is_object(path) and repository_of(path) in before:
            if was is None:
                continue  # it stays, whatever is undone: what comes later may need it
            if is_ is not None and (was.size, was.mode) == (is_.size, is_.mode):
                continue  # git has only noted that it is in use
        if was is not None:
            files.append(was)
        after.append(is_ if is_ is not None else KeptFile(path, 0, 0, ""))
    return tuple(files), tuple(after)


def is_object(path: str) -> bool:
    """Tell whether a path is where git keeps contents of all versions.

    Example:
        >>> is_object(".git/objects/ab/cd"), is_object("sub/.git/index"), is_object("objects/x")
        (True, False, False)
    """
    return f"/{GIT}/objects/" in f"/{path}/"


def repository_of(path: str) -> str:
    """Return the `.git` that a path lies in; "" where it lies in none.

    Example:
        >>> repository_of("sub/.git/objects/ab"), repository_of("a")
        ('sub/.git', '')
    """
    parts = path.split("/")
    return "/".join(parts[: parts.index(GIT) + 1]) if GIT in parts else ""


def _topmost(top: int, path: str) -> str:
    """What of a path is the first that is not there; the path itself where all of it is."""
    parts = path.split("/") if path else []
    for number in range(1, len(parts)):
        if state_of(top, "/".join(parts[:number]), git=True) is None:
            return "/".join(parts[:number])
    return path


class _Look:
    """A look at files of a project, nothing followed.

    Args:
        top: a descriptor of the project.
        project: its path, for `untouchable`.
        bounds: so many files are looked at, and so many bytes kept, or read.
        known: what need not be read again while it looks the same.
        contents: where contents are kept; None: their SHA-256 is only found out.
        scope: `whole` and `untouchable` count.
    """

    def __init__(
        self,
        top: int,
        project: str,
        bounds: Bounds,
        known: Mapping[str, KeptFile],
        contents: Contents | None,
        scope: Scope,
    ) -> None:
        self._top, self._project, self._bounds, self._known = top, project, bounds, known
        self._contents, self._scope = contents, scope
        self._room, self._count = bounds.bytes, bounds.files
        self.files: dict[str, KeptFile] = {}
        self.unseen: list[str] = []

    def all(self, paths: Iterable[str]) -> dict[str, KeptFile]:
        """Look at these paths, the folders that they lie in, and all below; return what is there."""
        folders: list[str] = []
        for path in paths:
            for above in _above(path):
                self.entry(above)
            if not path or self.entry(path):
                folders.append(path)
        for folder in folders:  # grows: what is next to the top comes first
            folders += self._below(folder)
        return self.files

    def entry(self, path: str) -> bool:
        """Look at what stands at one path; tell whether it is a folder."""
        try:
            with parent_of(self._top, path, git=True) as (folder, name):
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                return self._note(path, folder, name, about)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self.files[path] = KeptFile(path, stat.S_IFREG, 0, "", why=f"it can't be reached: {error.strerror}")
            return False

    def _below(self, path: str) -> Iterator[str]:
        try:
            with _folder(self._top, path) as here, os.scandir(here) as entries:
                if path and self._contents is not None and _has_attributes(here):
                    self.files[path] = replace(self.files[path], why=ATTRIBUTES_OF_A_FOLDER)
                listed = list(islice(entries, self._count + 1))
                if len(listed) > self._count:
                    self._count = 0
                    self.unseen.append(f"{path}/")
                    return
                self._count -= len(listed)
                for entry in sorted(listed, key=lambda entry: entry.name):
                    below = f"{path}/{entry.name}" if path else entry.name
                    try:
                        about = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    if self._note(below, here, entry.name, about):
                        yield below
        except FileNotFoundError:
            return
        except OSError:
            self.unseen.append(f"{path}/")

    def _note(self, path: str, folder: int, name: str, about: os.stat_result) -> bool:
        mode, owner = about.st_mode, (about.st_uid, about.st_gid)
        if stat.S_ISDIR(mode):
            self.files[path] = KeptFile(path, mode, 0, "", owner=owner)
            return True
        seen, known = seen_of(about), self._known.get(path)
        if known is not None and known.seen == seen and known.size == about.st_size:
            self.files[path] = known
            self._room -= known.size if known.content else 0
            return False
        lends = stat.S_ISREG(mode) and stat.S_IMODE(mode) & ~PERMISSIONS
        found = KeptFile(path, mode, about.st_size, "", seen, _LENDS if lends else "", owner)
        if stat.S_ISLNK(mode):
            found = self._link(found, folder, name)
        elif not stat.S_ISREG(mode):
            found = replace(found, why=_SPECIAL)
        elif self._scope.whole and is_object(path) and (self._contents or repository_of(path) in self._known):
            found = replace(found, why=OBJECTS)
        elif self._contents is not None and within(f"{self._project}/{path}", self._scope.untouchable):
            found = replace(found, why=UNTOUCHABLE)
        else:
            found = self._read(found, folder, name, several=about.st_nlink > 1)
        self.files[path] = found
        return False

    def _link(self, found: KeptFile, folder: int, name: str) -> KeptFile:
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        if self._contents is not None:
            return replace(found, content=self._contents.write(target))
        return replace(found, content=hashlib.sha256(target).hexdigest())

    def _read(self, found: KeptFile, folder: int, name: str, *, several: bool) -> KeptFile:
        if found.size > self._room:
            return replace(found, why=f"what is kept would be more than {self._bounds.bytes} bytes")
        try:
            descriptor = open_file(folder, name)
        except OSError as error:
            return replace(found, why=f"it can't be read: {error.strerror or error}")
        try:
            digest, size = self._digest(descriptor, found.size)
            if not digest or seen_of(os.fstat(descriptor)) != found.seen:
                return replace(found, why=_CHANGING)
            why = found.why or (_ATTRIBUTES if _has_attributes(descriptor) else "") or SEVERAL_NAMES * several
            found = replace(found, content=digest, size=size, why=why)
            if name == "index" and found.path.endswith(f"{GIT}/index") and size < _LARGEST_INDEX:
                os.lseek(descriptor, 0, os.SEEK_SET)
                with open(os.dup(descriptor), "rb") as file:
                    found = replace(found, meaning=index_meaning(file.read()))
        except UnreadableFile as error:
            return replace(found, why=f"it can't be read: {error.strerror}")
        finally:
            os.close(descriptor)
        self._room -= size
        return found

    def _digest(self, descriptor: int, size: int) -> tuple[str, int]:
        if self._contents is not None:
            return self._contents.take(descriptor, size, self._room)
        try:
            with open(os.dup(descriptor), "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest(), size
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error


def _above(path: str) -> Iterator[str]:
    parts = path.split("/")
    for number in range(1, len(parts)):
        yield "/".join(parts[:number])


def _has_attributes(descriptor: int) -> bool:
    if not hasattr(os, "listxattr"):
        return False
    with suppress(OSError):
        return not _ORDINARY.issuperset(os.listxattr(descriptor))
    return False


@contextmanager
def _folder(top: int, path: str) -> Iterator[int]:
    """Give a descriptor of a folder of the project, "" for itself."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if not path:
        descriptor = os.open(".", flags, dir_fd=top)
    else:
        with parent_of(top, path, git=True) as (folder, name):
            descriptor = os.open(name, flags, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
