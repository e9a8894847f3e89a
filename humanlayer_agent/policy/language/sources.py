"""Policy files: where the shipped ones are, and how one is read."""

import os
import stat
from pathlib import Path

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import spelled

BUILTIN = "builtin:"
MAX_BYTES = 512 * 1024


def read(path: Path | str) -> bytes:
    """The bytes of a policy file, or of one in a bundle (more than are accepted, where it is too large).

    Raises:
        PolicyError: it can't be read, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not make us wait
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PolicyError(f"{path}: can't be read: not a regular file")
            return file.read(MAX_BYTES + 1)
    except NotADirectoryError as error:
        if (found := _entry(path)) is not None:
            return found
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error


def _entry(path: Path | str) -> bytes | None:
    """The bytes of a file that stands in a policy bundle; None where it does not."""
    from humanlayer_agent.policy.language import bundle

    try:
        return bundle.entry(path)
    except OSError:
        return None


def shipped(name: str) -> str | None:
    """The file of the shipped policy `name`, or None where there is none."""
    if not name.replace("-", "").isalnum():
        return None
    return next((f for folder in _folders() if os.path.isfile(f := f"{folder}/{name}.yaml")), None)


def shipped_names() -> list[str]:
    """The names of the policies that ship."""
    found = [name for folder in _folders() if os.path.isdir(folder) for name in os.listdir(folder)]
    return sorted({name.removesuffix(".yaml") for name in found if name.endswith(".yaml")})


def name_of(path: Path | str) -> str:
    """Return a file's name for messages and origins: `builtin:NAME`, or its path."""
    folder, name = os.path.split(path)
    return f"{BUILTIN}{os.path.splitext(name)[0]}" if folder in _folders() else str(path)


def _folders() -> tuple[str, str]:
    package = spelled(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))
    return os.path.join(package, "_data", "policies"), os.path.join(os.path.dirname(package), "policies")
