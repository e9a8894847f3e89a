"""The places of our own files. All of them are off limits for agents: every shipped policy denies it.

What every command needs is given as text, in the spelling of `pathlib`.
"""

import errno
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import ConfigError

STORE_VARIABLE = "HUMANLAYER_STORE"
"""Environment variable that names another store: a file, or the address of a PostgreSQL database."""

_ADDRESSES = ("postgresql://", "postgres://")
_STORE_FILE = "store.yaml"

PASSPHRASE_VARIABLE = "HUMANLAYER_PASSPHRASE_FILE"
"""Environment variable that names the file with the signing key's passphrase, where there is no terminal to ask at."""

MACHINE_FOLDER = "/etc/humanlayer-agent"
"""Settings for every user of the machine."""

_PORTS = "listening"

PROJECT_FOLDER = ".humanlayer"
"""Settings of a project, in its top directory."""


def data_folder() -> Path:
    """Return the user's data directory, where the store is kept (the XDG base directories; macOS has its own)."""
    return Path(_data_folder())


def state_folder() -> Path:
    """Return the user's state directory, where compiled policies are kept, and which projects are trusted."""
    return Path(state_path())


def config_folder() -> Path:
    """Return the directory of the user's settings: the policy, the channels.

    Example:
        >>> config_folder().name
        'humanlayer-agent'
    """
    return Path(config_path())


def store_location() -> str:
    """Return where the store is: as `$HUMANLAYER_STORE` says, or `store:` in `store.yaml` of the user's settings, or
    of the machine's; else it is `store.sqlite3` in the user's data directory. No project has a say.

    Raises:
        ConfigError: a settings file can't be used.
    """
    named = os.environ.get(STORE_VARIABLE) or _configured_store()
    return named if named and "://" in named else _store_path()


def is_address(location: str) -> bool:
    """Tell whether a store's location is one on a PostgreSQL server."""
    return location.startswith(_ADDRESSES)


def default_store_path() -> Path:
    """Return the store's file; where the store is on a server, the one that would be used without that."""
    return Path(_store_path())


def key_path() -> Path:
    """Return the file of the user's signing key, as `hla init` writes it.

    It is in the data directory, whatever store is named.
    """
    return data_folder() / "signing.key"


def audit_key_path() -> Path:
    """Return the file of the key that signs heads of the user's logs; it signs nothing else."""
    return data_folder() / "audit.key"


def anchor_folder() -> Path:
    """Return the folder beside that key where it is kept how far each log went."""
    return data_folder() / "anchors"


def kept_folder() -> Path:
    """Return the folder beside the store where files of projects are kept, for `hla undo`."""
    return data_folder() / "kept"


def state_path(*names: str) -> str:
    """Return `state_folder()`, or what is called `names` below it."""
    return os.path.join(_xdg("XDG_STATE_HOME", ".local/state"), *names)


def note_port(port: int, *, listens: bool = True) -> None:
    """Note that something of ours listens at a port of this machine, or does no longer."""
    path = Path(state_path(_PORTS, str(port)))
    try:
        if listens:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        pass  # nothing but a further wall depends on it


def own_ports() -> frozenset[int]:
    """Return the ports of this machine at which something of ours listens, as far as it was noted."""
    try:
        return frozenset(int(name) for name in os.listdir(state_path(_PORTS)) if name.isascii() and name.isdigit())
    except OSError:
        return frozenset()


def config_path(*names: str) -> str:
    """Return `config_folder()`, or what is called `names` below it."""
    return os.path.join(_xdg("XDG_CONFIG_HOME", ".config"), *names)


def own_places() -> dict[str, str]:
    """Return the variables of policies that name what is ours: the files of store and passphrase, our folders, and
    the one with the Python that runs us.
    """
    return {
        "STORE": _store_path(),
        "PASSPHRASE_FILE": _passphrase_path(),
        "PACKAGE": spelled(os.path.dirname(__file__)),
        "OWN_PROGRAMS": spelled(os.path.dirname(sys.executable or f"{sys.prefix}/bin/python")),
        "OWN_CONFIG": config_path(),
        "OWN_STATE": state_path(),
        "OWN_DATA": _data_folder(),
    }


def home_folder() -> str:
    """Return the user's home directory.

    Raises:
        RuntimeError: nobody knows it.
    """
    home = os.path.expanduser("~")
    return spelled(home) if home[:1] != "~" else str(Path.home())


def spelled(path: str) -> str:
    """Return `path` as `pathlib` spells it, which is asked only where that may be another way.

    Example:
        >>> spelled("/srv//app/./x/")
        '/srv/app/x'
    """
    plain = path[:1] == "/" and "//" not in path and "/./" not in path and not path.endswith(("/", "/."))
    return path if plain else str(Path(path))


def upwards(path: str) -> Iterator[str]:
    """Yield the directory `path` (absolute), and those it lies in, up to the root.

    Example:
        >>> list(upwards("/srv/app"))
        ['/srv/app', '/srv', '/']
    """
    yield path
    while (above := os.path.dirname(path)) != path:
        path = above
        yield path


def exists(path: str) -> bool:
    """Tell whether there is something at `path`, following links.

    Raises:
        OSError: nobody can say (no permission).
    """
    try:
        os.stat(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP):
            raise
        return False
    except ValueError:  # a NUL
        return False
    return True


def temporary_folder() -> str:
    """Return the folder for temporary files, as `tempfile.gettempdir()` finds it (importing that takes a while)."""
    named = any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    if not named and "tempfile" not in sys.modules and os.path.isdir("/tmp") and os.access("/tmp", os.W_OK | os.X_OK):
        return "/tmp"
    import tempfile

    return tempfile.gettempdir()


def is_inside(folder: Path, project: Path | None) -> bool:
    """Tell whether `folder` lies in `project`, or is reached through it by links, and so is the repository's
    to fill.
    """
    if project is None:
        return False
    top, named = os.path.realpath(project), os.path.abspath(folder)
    return any(Path(os.path.realpath(place)).is_relative_to(top) for place in upwards(named))


def _data_folder() -> str:
    if sys.platform == "darwin":
        return os.path.join(home_folder(), "Library", "Application Support", "humanlayer-agent")
    return _xdg("XDG_DATA_HOME", ".local/share")


def _store_path() -> str:
    named = os.environ.get(STORE_VARIABLE) or _configured_store()
    if named.startswith("sqlite:///"):
        return "/" + named.removeprefix("sqlite:").lstrip("/")
    if named and "://" not in named:
        return spelled(named) if named.startswith("/") else str(Path(named).expanduser().absolute())
    return os.path.join(_data_folder(), "store.sqlite3")


def _configured_store() -> str:
    """Return what the settings of the user, or else of the machine, name as the store; "" where neither does."""
    for folder in (config_path(), MACHINE_FOLDER):
        try:
            with open(os.path.join(folder, _STORE_FILE), encoding="utf-8") as file:
                about, lines = os.fstat(file.fileno()), file.read(10_000).splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError) as error:
            raise ConfigError(f"{folder}/{_STORE_FILE} can't be read: {error}") from error
        if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022:
            raise ConfigError(f"{folder}/{_STORE_FILE} can be written by others: chmod go-w it, and see what it says")
        said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        key, _, value = said[0].partition(":") if len(said) == 1 else ("", "", "")
        value = value.strip().strip("\"'")
        if key != "store" or not value:
            raise ConfigError(
                f"{folder}/{_STORE_FILE}: expected one line: store: postgresql://host/database (or a path)"
            )
        return value
    return ""


def _passphrase_path() -> str:
    """Return the file with the passphrase, or one in our own folder where none is named by an absolute path."""
    named = os.environ.get(PASSPHRASE_VARIABLE, "")
    return spelled(named) if named.startswith("/") else os.path.join(_data_folder(), "passphrase")


def _xdg(variable: str, below_home: str) -> str:
    base = os.environ.get(variable)
    folder = spelled(base) if base and os.path.isabs(base) else os.path.join(home_folder(), below_home)
    return os.path.join(folder, "humanlayer-agent")


def data_file(folder: str, name: str) -> Path:
    """Return the path of a shipped file: `policies/NAME` or `channels/NAME`, of the wheel's data or of a checkout.

    Raises:
        ConfigError: it is missing.

    Example:
        >>> data_file("policies", "default.yaml").name
        'default.yaml'
    """
    package = Path(__file__).parent
    for base in (package / "_data", package.parent):
        if (found := base / folder / name).is_file():
            return found
    raise ConfigError(f"the shipped file {folder}/{name} is missing: reinstall humanlayer-agent")


# ---- files that only we write -------------------------------------------------------------------------


def read_own_json(path: Path | str) -> dict[str, Any] | None:
    """Return the object in a JSON file that only this user can have written, else None."""
    raw = read_own(path)
    try:
        content = None if raw is None else json.loads(raw.decode())
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def read_own(path: Path | str) -> bytes | None:
    """Return what is in a file that only this user can have written, else None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            return None
        try:
            return file.read()
        except OSError:
            return None


def write_own_json(path: Path | str, content: dict[str, Any], *, required: bool = False, once: bool = False) -> None:
    """Write a JSON file for this user alone, whole or not at all.

    Args:
        required: raise OSError where it can't be written; else that is ignored.
        once: a file that is there already stays as it is.
    """
    from contextlib import suppress

    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")  # pids are those of a container, perhaps
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(json.dumps(content))
        if once:
            with suppress(FileExistsError):  # another process was first
                os.link(temporary, path)
            temporary.unlink()
        else:
            os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if required:
            raise
