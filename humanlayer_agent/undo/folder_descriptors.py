"""Files below a folder, reached step by step: no link on the way is followed, whoever changes what meanwhile."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def parent_of(top: int, path: str, *, make: bool = False, git: bool = False) -> Iterator[tuple[int, str]]:
    """Give a descriptor of the folder in which `path` is, and its name there.

    Args:
        top: a descriptor of the folder that the path is relative to.
        path: without `..`; each part but the last must be a folder.
        make: make the folders that are missing.
        git: what git keeps is meant as well.

    Raises:
        OSError: a part is missing, or is no folder (a link to one is none).
    """
    *folders, name = path.split("/")
    if not name or any(part in ("", ".", "..") or (part == ".git" and not git) for part in (*folders, name)):
        raise OSError(errno.EINVAL, "not a path of a project's own file", path)
    here = os.dup(top)
    try:
        for folder in folders:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=here)
            below = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def state_of(top: int, path: str, *, git: bool = False) -> os.stat_result | None:
    """Return what stands at a path, links not followed; None where nothing does that can be reached."""
    try:
        with parent_of(top, path, git=git) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def open_file(folder: int, name: str) -> int:
    """Return a descriptor to read a regular file by; it waits for nobody.

    Raises:
        OSError: there is none, or something else stands there.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return descriptor


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """Give a descriptor of a folder that is not a link.

    Raises:
        OSError: there is none.
    """
    descriptor = os.open(path, _FOLDER)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
