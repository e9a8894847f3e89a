"""Compares kept files with what stands there now, and puts them back: nothing is followed that was planted."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from humanlayer_agent.confine.confinement import Bounds, within
from humanlayer_agent.confine.folder_descriptors import open_file, opened_folder, parent_of, state_of
from humanlayer_agent.confine.kept_files import PERMISSIONS, Kept, KeptFile, KeptFiles, Manifest
from humanlayer_agent.confine.project_files import ProjectFiles

_ALL = Bounds(files=10_000_000, bytes=1 << 50, days=36_500)
"""What an undo overwrites is kept as a whole, and nothing goes for it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from what was kept.

    Args:
        deleted: kept files that are gone; a folder may stand there.
        changed: kept files with another content, mode or type.
        created: files that were not there; what git ignores is not looked for.
        committed: files that the last commit had as they were, and that differ: git has them.
    """

    deleted: tuple[KeptFile, ...] = ()
    changed: tuple[KeptFile, ...] = ()
    created: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.deleted or self.changed or self.created or self.committed)

    def within(self, paths: Iterable[str]) -> "Changes":
        """Return those of these paths, and of what is below them; all of them where none is given."""
        wanted = [path.rstrip("/") for path in paths]

        def has(path: str) -> bool:
            return not wanted or any(each in (".", path) or path.startswith(f"{each}/") for each in wanted)

        return Changes(
            tuple(file for file in self.deleted if has(file.path)),
            tuple(file for file in self.changed if has(file.path)),
            tuple(path for path in self.created if has(path)),
            tuple(path for path in self.committed if has(path)),
        )


@dataclass(frozen=True, slots=True)
class Undone:
    """What came of an undo.

    Args:
        restored, removed: paths that are as they were again, and that were deleted.
        failed: by path, why not.
    """

    restored: tuple[str, ...]
    removed: tuple[str, ...]
    failed: dict[str, str]


def changes(manifest: Manifest, now: ProjectFiles) -> Changes:
    """Return what became of the files of a project since they were kept.

    Args:
        manifest: what was kept.
        now: its files now.

    Raises:
        OSError: the project is not there.
    """
    deleted: list[KeptFile] = []
    changed: list[KeptFile] = []
    with opened_folder(manifest.project) as top:
        for file in manifest.files:
            about = state_of(top, file.path)
            if about is None or stat.S_ISDIR(about.st_mode):
                deleted.append(file)
            elif not _is_same(top, file, about):
                changed.append(file)
    there = {*(file.path for file in manifest.files), *manifest.held, *manifest.committed}
    there |= {each.path for each in manifest.left}
    hidden = (*manifest.ignored, *manifest.unseen)
    folders, names = tuple(each for each in hidden if each.endswith("/")), frozenset(hidden)
    created = [
        path
        for path in now.loose
        if path not in there
        and path not in names
        and not path.startswith(folders)
        and not within(f"{manifest.project}/{path}", manifest.untouchable)
    ]
    differ = set(manifest.committed) - now.committed if now.repository else set()
    return Changes(tuple(deleted), tuple(changed), tuple(sorted(created)), tuple(sorted(differ)))


def keep_before(kept: KeptFiles, name: str, manifest: Manifest, now: ProjectFiles, chosen: Changes) -> Kept:
    """Keep what `undo` would overwrite or delete.

    Args:
        kept: where.
        name: what it is called: as a run of its own, it can be undone in its turn.
        manifest, now: as for `changes`.
        chosen: what is to be undone.

    Raises:
        OSError: it can't be kept.
    """
    paths = {f"{manifest.project}/{path}" for path in (*(file.path for file in chosen.changed), *chosen.created)}
    also = tuple(file.path for file in chosen.changed if file.path not in now.committed)
    found = replace(now, loose=tuple(dict.fromkeys((*now.loose, *also))))
    return kept.keep(
        name, manifest.project, found, bounds=_ALL, wanted=paths.__contains__, untouchable=manifest.untouchable
    )


def undo(kept: KeptFiles, manifest: Manifest, before: Manifest, chosen: Changes) -> Undone:
    """Put kept files back, and delete what is new of `chosen`: only what was kept as `before` is overwritten.

    Raises:
        OSError: the project is not there.
    """
    saved = {file.path: file for file in before.files}
    restored: list[str] = []
    removed: list[str] = []
    failed: dict[str, str] = {}

    def try_to(act: Callable[[], None], path: str, done: list[str]) -> None:
        try:
            act()
            done.append(path)
        except OSError as error:
            failed[path] = error.strerror or str(error)

    with opened_folder(manifest.project) as top:
        for path in chosen.created:  # first: it may stand where a kept file was
            try_to(partial(_remove, top, path, saved.get(path)), path, removed)
        for file in (*chosen.deleted, *chosen.changed):
            try_to(partial(_put_back, top, file, kept, saved.get(file.path)), file.path, restored)
    return Undone(tuple(restored), tuple(removed), failed)


def _is_same(top: int, file: KeptFile, about: os.stat_result) -> bool:
    mode = stat.S_IFMT(about.st_mode) | stat.S_IMODE(about.st_mode) & PERMISSIONS
    if mode != file.mode or about.st_size != file.size:
        return False
    try:
        with parent_of(top, file.path) as (folder, name):
            if stat.S_ISLNK(about.st_mode):
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                return hashlib.sha256(target).hexdigest() == file.content
            with open(open_file(folder, name), "rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest() == file.content
    except OSError:
        return False


def _refuse_unsaved(top: int, path: str, saved: KeptFile | None) -> None:
    """Raise OSError where something stands there that was not kept as it is now."""
    about = state_of(top, path)
    if about is None or stat.S_ISDIR(about.st_mode):  # a folder that is not empty is not overwritten
        return
    if saved is None or not _is_same(top, saved, about):
        raise OSError(errno.EBUSY, "what stands there now could not be kept first")


def _put_back(top: int, file: KeptFile, kept: KeptFiles, saved: KeptFile | None) -> None:
    content = kept.content(file.content)
    _refuse_unsaved(top, file.path, saved)
    with parent_of(top, file.path, make=True) as (folder, name):
        _clear(folder, name)
        temporary = f".{os.urandom(8).hex()}.undo"
        try:
            if stat.S_ISLNK(file.mode):
                os.symlink(content, os.fsencode(temporary), dir_fd=folder)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as opened:
                    opened.write(content)
                    os.fchmod(opened.fileno(), file.mode & PERMISSIONS)
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def _clear(folder: int, name: str) -> None:
    """Remove folders that stand in the place of a file, where there is no file in them."""
    with suppress(OSError):
        if any(files for _, _, files, _ in os.fwalk(name, dir_fd=folder)):
            return
        for _, below, _, here in os.fwalk(name, topdown=False, dir_fd=folder):
            for each in below:
                os.rmdir(each, dir_fd=here)
        os.rmdir(name, dir_fd=folder)


def _remove(top: int, path: str, saved: KeptFile | None) -> None:
    _refuse_unsaved(top, path, saved)
    with parent_of(top, path) as (folder, name):
        os.unlink(name, dir_fd=folder)
