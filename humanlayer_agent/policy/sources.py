"""Policy files: where the shipped ones are, and how one is read."""

import os
import stat
from pathlib import Path

from humanlayer_agent.errors import PolicyError

BUILTIN = "builtin:"
MAX_BYTES = 512 * 1024


def read(path: Path) -> bytes:
    """The bytes of a policy file (one more than are accepted, where it is too large).

    Raises:
        PolicyError: it can't be read, or is not a regular file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not make us wait
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise PolicyError(f"{path}: can't be read: not a regular file")
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"{path}: can't be read: {error.strerror}") from error


def shipped(name: str) -> Path | None:
    """The file of the shipped policy `name`, or None where there is none."""
    if not name.replace("-", "").isalnum():
        return None
    return next((f for folder in _folders() if (f := folder / f"{name}.yaml").is_file()), None)


def shipped_names() -> list[str]:
    """The names of the policies that ship."""
    return sorted({f.stem for folder in _folders() for f in folder.glob("*.yaml")})


def name_of(path: Path) -> str:
    """What a file is called in messages and origins: `builtin:NAME`, or its path."""
    return f"{BUILTIN}{path.stem}" if path.parent in _folders() else str(path)


def _folders() -> tuple[Path, Path]:
    package = Path(__file__).parent.parent
    return package / "_data" / "policies", package.parent / "policies"
