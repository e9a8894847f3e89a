"""Where our own files are. Everything here is off limits for agents: every shipped policy denies it."""

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.light.plainjson import loads
from humanlayer_agent.light.typed import Any

STORE_VARIABLE = "HUMANLAYER_STORE"
"""Environment variable that names another store file (a path)."""

PASSPHRASE_VARIABLE = "HUMANLAYER_PASSPHRASE_FILE"
"""Environment variable that names the file with the passphrase of the signing key, where no terminal is there to ask."""

MACHINE_FOLDER = Path("/etc/humanlayer-agent")
"""Settings for every user of the machine."""

PROJECT_FOLDER = ".humanlayer"
"""Settings of a project, in its top directory."""


def data_folder() -> Path:
    """The user's data directory, where the store is kept (the XDG base directories; macOS has its own)."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "humanlayer-agent"
    return _xdg("XDG_DATA_HOME", ".local/share")


def state_folder() -> Path:
    """The user's state directory, where compiled policies are kept, and which projects are trusted."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def config_folder() -> Path:
    """The user's settings: the policy, the channels."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def default_store_path() -> Path:
    """The store's file: `$HUMANLAYER_STORE`, else `store.sqlite3` in the user's data directory."""
    if named := os.environ.get(STORE_VARIABLE):
        return Path(named).expanduser().absolute()
    return data_folder() / "store.sqlite3"


def key_path() -> Path:
    """The file of the user's signing key, as `hla init` writes it: in the data directory, whatever store is named."""
    return data_folder() / "signing.key"


def audit_key_path() -> Path:
    """The file of the key that signs heads of the user's logs; it signs nothing else."""
    return data_folder() / "audit.key"


def own_places() -> dict[str, str]:
    """The variables of policies that name what is ours: the store's file and our folders."""
    return {
        "STORE": str(default_store_path()),
        "PACKAGE": str(Path(__file__).parent),
        "OWN_CONFIG": str(config_folder()),
        "OWN_STATE": str(state_folder()),
        "OWN_DATA": str(data_folder()),
    }


def temporary_folder() -> str:
    """The folder for temporary files, as `tempfile.gettempdir()` finds it (importing that takes a while)."""
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if not named and "tempfile" not in sys.modules and os.path.isdir("/tmp") and os.access("/tmp", os.W_OK | os.X_OK):
        return "/tmp"
    import tempfile

    return tempfile.gettempdir()


def is_inside(folder: Path, project: Path | None) -> bool:
    """Whether `folder` lies in `project`, where it would be the repository's to fill."""
    return project is not None and Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(project))


def _xdg(variable: str, below_home: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base and os.path.isabs(base) else Path.home() / below_home) / "humanlayer-agent"


def data_file(folder: str, name: str) -> Path:
    """A shipped file: `policies/NAME` or `channels/NAME`, from the wheel's data or from a checkout."""
    package = Path(__file__).parent
    for base in (package / "_data", package.parent):
        if (found := base / folder / name).is_file():
            return found
    raise ConfigError(f"the shipped file {folder}/{name} is missing: reinstall humanlayer-agent")


# ---- files that only we write -------------------------------------------------------------------------


def read_own_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file that only this user can have written, else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return None
        try:
            content = loads(file.read().decode())
        except (OSError, ValueError, RecursionError):
            return None
    return content if isinstance(content, dict) else None


def write_own_json(path: Path, content: dict[str, Any], *, required: bool = False) -> None:
    """Write a JSON file for this user alone, whole or not at all.

    Args:
        required: raise OSError where it can't be written; else that is ignored.
    """
    import json

    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps(content))
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if required:
            raise
