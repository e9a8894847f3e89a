"""Where our own files are. Everything here is off limits for agents: every shipped policy denies it."""

import os
import sys
from pathlib import Path

STORE_VARIABLE = "HUMANLAYER_STORE"
"""Environment variable that names another store file (a path)."""


def data_folder() -> Path:
    """The user's data directory, where the store is kept (the XDG base directories; macOS has its own)."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "humanlayer-agent"
    return _xdg("XDG_DATA_HOME", ".local/share")


def state_folder() -> Path:
    """The user's state directory, where compiled policies are kept."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def default_store_path() -> Path:
    """The store's file: `$HUMANLAYER_STORE`, else `store.sqlite3` in the user's data directory."""
    if named := os.environ.get(STORE_VARIABLE):
        return Path(named).expanduser().absolute()
    return data_folder() / "store.sqlite3"


def own_places() -> dict[str, str]:
    """The variables of policies that name what is ours: the store's file and this package's folder."""
    return {"STORE": str(default_store_path()), "PACKAGE": str(Path(__file__).parent)}


def _xdg(variable: str, below_home: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base and os.path.isabs(base) else Path.home() / below_home) / "humanlayer-agent"
