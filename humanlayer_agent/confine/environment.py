"""The environment of a confined command: nothing that leads out, and caches of the project's own."""

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

_LEADS_OUT = frozenset(
    {
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "TMUX_PANE", "STY", "XDG_RUNTIME_DIR", "DOCKER_HOST"),
        *("CONTAINER_HOST", "GPG_AGENT_INFO", "SSH_AGENT_PID", "LISTEN_FDS", "LISTEN_PID"),
        *("TMPDIR", "TMP", "TEMP"),  # a confined command has a /tmp of its own
    }
)
"""Where a server of the machine listens, or a folder is, that is not there inside."""


def confined_environment(
    env: Mapping[str, str], *, caches: str = "", is_secret: Callable[[str], bool] = lambda name: False
) -> dict[str, str]:
    """Return the environment of a confined command, made from that of an unconfined one.

    Args:
        env: what the command would get (`processes.execution.command_environment`).
        caches: the folder in which tools keep what they need again; "" leaves them where they are.
        is_secret: tells of a variable's name that its value is a credential.

    Example:
        >>> confined_environment({"PATH": "/bin", "SSH_AUTH_SOCK": "/tmp/agent"})["PATH"]
        '/bin'
    """
    kept = {name: value for name, value in env.items() if not (leads_out(name) or is_secret(name))}
    return _without_bare_repositories(kept | (_caches(kept.get("HOME", ""), caches) if caches else {}))


def leads_out(name: str) -> bool:
    """Tell whether a variable of this name says where something outside is reached.

    Example:
        >>> leads_out("SSH_AUTH_SOCK"), leads_out("DBUS_SESSION_BUS_ADDRESS"), leads_out("PATH")
        (True, True, False)
    """
    return name in _LEADS_OUT or name.endswith(("_SOCK", "_SOCKET")) or name.startswith("DBUS_")


def _caches(home: str, folder: str) -> dict[str, str]:
    known = _known_caches()
    read = {name: os.path.join(home, below) for name, below in known["read"].items() if home}
    return {
        **{name: os.path.join(folder, below) for name, below in known["folders"].items()},
        **known["values"],
        **{name: path for name, path in read.items() if os.path.isdir(path)},
    }


def _without_bare_repositories(env: dict[str, str]) -> dict[str, str]:
    """A folder that looks like a bare repository may have a configuration that runs code: git is to be told of it.

    https://git-scm.com/docs/git-config#Documentation/git-config.txt-safebareRepository
    """
    said = env.get("GIT_CONFIG_COUNT", "0")
    count = int(said) if said.isascii() and said.isdigit() else 0
    return env | {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": "safe.bareRepository",
        f"GIT_CONFIG_VALUE_{count}": "explicit",
    }


@cache
def _known_caches() -> dict[str, dict[str, str]]:
    import yaml

    content: dict[str, dict[str, str]] = yaml.safe_load(Path(__file__).with_name("caches.yaml").read_text())
    return content
