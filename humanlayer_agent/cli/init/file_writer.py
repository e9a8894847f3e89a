"""Writes several new files so that they all are there in the end, each whole, or none of them is."""

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from humanlayer_agent.errors import ConfigError


@contextmanager
def new_files() -> "Iterator[NewFiles]":
    """Files that are made beside where they belong, and put there together when the block ends well.

    Whatever else ends the block, Ctrl-C too, undoes it: also folders that were made for it.

    Raises:
        ConfigError: a file has appeared meanwhile.
        OSError: something can't be written.

    Example:
        >>> with new_files() as files:
        ...     files.add(Path("a.txt"), b"one")
        ...     files.add(Path("b.txt"), b"two")
        >>> Path("b.txt").read_text()
        'two'
    """
    with ExitStack() as undo:
        files = NewFiles(undo)
        yield files
        files.put()
        undo.pop_all()


class NewFiles:
    """The files of one `new_files`.

    Args:
        undo: what takes back every step, the last first.
    """

    def __init__(self, undo: ExitStack) -> None:
        self._undo = undo
        self._staged: list[tuple[Path, Path, bool]] = []

    def folder(self, path: Path, mode: int) -> None:
        """Make a folder, and those above it, where there is none.

        Args:
            mode: of `path` itself.
        """
        for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
            self._undo.callback(_remove_folder, missing)
            missing.mkdir(mode=mode if missing == path else 0o755)

    def stage(self, path: Path, *, replaces: bool = False) -> Path:
        """Return where to make the file that is to become `path`.

        Args:
            replaces: there may be a file; it is kept beside the new one, as NAME.old or NAME.old2 ...
        """
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        self._undo.callback(_remove, temporary)
        self._staged.append((temporary, path, replaces))
        return temporary

    def add(self, path: Path, content: bytes, *, mode: int = 0o600, replaces: bool = False) -> None:
        """Make a file with this content."""
        descriptor = os.open(self.stage(path, replaces=replaces), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)

    def put(self) -> None:
        """Put every file where it belongs."""
        for temporary, path, replaces in self._staged:
            self._put(temporary, path, replaces=replaces)

    def _put(self, temporary: Path, path: Path, *, replaces: bool) -> None:
        if replaces and os.path.lexists(path):
            old = _free_name(path)
            self._undo.callback(_put_back, old, path)
            os.rename(path, old)
        self._undo.callback(_remove_same, path, os.stat(temporary))
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise ConfigError(f"{path}: somebody else has made this file meanwhile: try again") from None
        except OSError:  # a file system without hard links
            if os.path.lexists(path):
                raise
            os.rename(temporary, path)
        else:
            temporary.unlink()


def _free_name(path: Path) -> Path:
    number, name = 1, path.with_name(f"{path.name}.old")
    while os.path.lexists(name):
        number += 1
        name = path.with_name(f"{path.name}.old{number}")
    return name


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _remove_same(path: Path, made: os.stat_result) -> None:
    """Remove `path`, if it is the file that we made, and not one that somebody else has put there."""
    with suppress(OSError):
        found = os.lstat(path)
        if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino):
            path.unlink()


def _put_back(old: Path, path: Path) -> None:
    with suppress(FileNotFoundError):
        os.replace(old, path)


def _remove_folder(path: Path) -> None:
    with suppress(OSError):  # it holds something else by now
        path.rmdir()
