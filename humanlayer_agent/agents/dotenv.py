"""A project's `.env` must not move us: litellm reads one when it is imported, and it may be the repository's own.

It takes the first `.env` at or above its own folder, which is the project's where the virtual environment lies in the
project. What that file sets is then part of our environment: also where the user's policy, keys and store are.
"""

import importlib.util
import os
import sys
from pathlib import Path

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import is_inside, upwards

FILE = ".env"

_DECIDES = frozenset(
    {
        *("HOME", "PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "EDITOR", "VISUAL", "MSWEA_GLOBAL_CONFIG_DIR"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"),
    }
)
_OWN = "HUMANLAYER_"


def refuse_env_file(project: Path | None) -> None:
    """Refuse to work where a `.env` of the project says where our files are, or what is run in our name.

    Args:
        project: the directory the agent works for.

    Raises:
        ConfigError: there is such a file: it names what must be taken out of it.
    """
    if os.environ.get("LITELLM_MODE", "DEV") != "DEV":
        return
    path = _read_by_litellm()
    if path is None or not is_inside(path, project):
        return
    if names := sorted(name for name in _taken(path) if name in _DECIDES or name.startswith(_OWN)):
        raise ConfigError(
            f"{path} sets {', '.join(names)}, and litellm takes that over into our own environment: a file that the "
            "agent can write may not say which policy, keys and store are used. Take it out and set it in your shell, "
            "or set LITELLM_MODE=PRODUCTION there: then litellm reads no .env."
        )


def _read_by_litellm() -> Path | None:
    """The `.env` that litellm has read, or will read when it is imported."""
    try:
        found = importlib.util.find_spec("litellm")
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    start = os.getcwd() if _looks_here() else os.path.dirname(os.path.abspath(found.origin))
    return next((Path(file) for place in upwards(start) if os.path.exists(file := os.path.join(place, FILE))), None)


def _looks_here() -> bool:
    """Tell whether it begins in the current directory: in a session that a human types into, and under a debugger."""
    return hasattr(sys, "ps1") or not hasattr(sys.modules["__main__"], "__file__") or sys.gettrace() is not None


def _taken(path: Path) -> frozenset[str]:
    """The variables of our environment that come from a file, or will: what we have already stays as it is.

    Raises:
        ConfigError: it can't be read.
    """
    import dotenv

    if not path.is_file():
        raise ConfigError(f"{path} is no regular file, and litellm would read it: remove it")
    try:
        found = dotenv.dotenv_values(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} can't be read, and litellm would: {error}") from error
    return frozenset(name for name, value in found.items() if os.environ.get(name) in (None, value))
