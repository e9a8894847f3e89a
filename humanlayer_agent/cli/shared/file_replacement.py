"""A text put in the place of a file that has just been read: whole or not at all, and never over somebody's change."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from humanlayer_agent.errors import ConfigError


def replace_file(path: Path, before: bytes | None, after: bytes, *, mode: int = 0o600) -> None:
    """Put `after` where `before` stands.

    Args:
        path: the file; a link is replaced itself, and not what it leads to.
        before: what was read; None: there was no file.
        after: what is written. The file keeps its mode, and its owner where that can be.
        mode: of a new file.

    Raises:
        ConfigError: it has changed meanwhile, can't be written, is read-only for all, or has other names that would go
            on having what was before.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        about = os.stat(path) if before is not None else None
        if about is not None and not about.st_mode & 0o222:
            raise ConfigError(f"{path} is read-only: chmod u+w first, if it is to change")
        if about is not None and about.st_nlink > 1:
            raise ConfigError(f"{path} has other names (hard links), which would not change with it: edit it in place")
        write_new(beside, after, about.st_mode & 0o777 if about is not None else mode)
        if about is not None and (about.st_uid, about.st_gid) != (os.geteuid(), os.getegid()):
            with suppress(PermissionError):
                os.chown(beside, about.st_uid, about.st_gid)
                os.chmod(beside, about.st_mode & 0o777)
        if (path.read_bytes() if os.path.lexists(path) else None) != before:
            raise ConfigError(f"{path} has changed while this was read: try again")
        os.replace(beside, path)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Make a file with this content and exactly this mode, on the disk.

    Raises:
        OSError: there is one, or it can't be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
