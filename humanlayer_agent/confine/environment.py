"""The environment of a confined command: nothing that leads out, caches of the project's own, what PATH needs."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from humanlayer_agent.confine.confinement import TREE, is_below

_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
"""A confined command has a /tmp of its own."""
_LEADS_OUT = frozenset(
    {
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "TMUX", "TMUX_PANE", "STY", "XDG_RUNTIME_DIR", "DOCKER_HOST"),
        *("CONTAINER_HOST", "GPG_AGENT_INFO", "SSH_AGENT_PID", "LISTEN_FDS", "LISTEN_PID"),
        *_TEMPORARY,
    }
)
"""Where a server of the machine listens, or a folder is, that is not there inside."""
_PROGRAMS = ("bin", "sbin", "shims")
_ENVIRONMENTS = (".venv", "venv", "env")


def confined_environment(env: Mapping[str, str], *, caches: str = "", project: str = "") -> dict[str, str]:
    """Return the environment of a confined command, made from what it was given (`processes.tool_variables`).

    Args:
        env: what was given: what leads out is there only if somebody asked for it by its name.
        caches: the folder in which tools keep what they need again; "" leaves them where they are.
        project: the directory that the command works for.

    Example:
        >>> confined_environment({"PATH": "/bin", "TMPDIR": "/var/x"})["PATH"]
        '/bin'
    """
    kept = {name: value for name, value in env.items() if name not in _TEMPORARY}
    return kept | (cache_variables(kept.get("HOME", ""), caches, project) if caches else {})


def leads_out(name: str) -> bool:
    """Tell whether a variable of this name says where something outside is reached.

    Example:
        >>> leads_out("SSH_AUTH_SOCK"), leads_out("DBUS_SESSION_BUS_ADDRESS"), leads_out("PATH")
        (True, True, False)
    """
    return name in _LEADS_OUT or name.endswith(("_SOCK", "_SOCKET")) or name.startswith("DBUS_")


def cache_variables(home: str, folder: str, project: str) -> dict[str, str]:
    """Return the variables by which tools of a project keep what they need again in `folder`."""
    known = _known_caches()
    told = [known, *(more for file, more in known["where"].items() if os.path.exists(os.path.join(project, file)))]
    read = {name: os.path.join(home, below) for name, below in known["read"].items() if home}
    return {
        **{name: os.path.join(folder, below) for each in told for name, below in each["folders"].items()},
        **{name: value for each in told for name, value in each["values"].items()},
        **{name: path for name, path in read.items() if os.path.isdir(path)},
    }


def shared_caches(home: str) -> tuple[str, ...]:
    """Return path sets of what tools keep below `home` for all projects, and can't be told to keep elsewhere."""
    paths = [os.path.join(home, below) for below in _known_caches()["shared"]]
    return tuple(path + TREE for path in paths if os.path.exists(path))


def settings_files(home: str) -> tuple[str, ...]:
    """Return the files, below `home` or of the machine, with which tools are set up for all projects."""
    paths = (os.path.join(home, below) for below in _known_caches()["settings"])
    return tuple(path for path in paths if os.path.isfile(path))


@cache
def _known_caches() -> dict[str, Any]:
    import yaml

    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("caches.yaml").read_text())
    return content


def toolchain_reads(environ: Mapping[str, str], project: Path | str) -> tuple[str, ...]:
    """Return the path sets that confined commands need to read for the programs that are found here.

    That is where each folder of PATH was installed to, and the Python that a virtual environment is made of; never the
    home folder, nor one directly in it, nor a work tree of git, but for their programs.

    Args:
        environ: PATH and HOME are taken from it.
        project: a virtual environment in it is looked at as well.

    Example:
        >>> toolchain_reads({"PATH": "/usr/bin", "HOME": "/home/alice"}, "/srv/app")
        ('/usr/**',)
    """
    home = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    top = os.path.realpath(project)
    found: dict[str, None] = {}
    folders = [folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder)]
    folders += [os.path.join(top, name, "bin") for name in _ENVIRONMENTS]
    for folder in folders:
        for place in (os.path.normpath(folder), os.path.realpath(folder), *_interpreters(folder)):
            prefix = _prefix(place, home)
            if prefix is not None and os.path.isdir(prefix) and not is_below(prefix, top):
                found[prefix + TREE] = None
    return tuple(found)


def _interpreters(folder: str) -> Iterator[str]:
    """Where the Python of a virtual environment leads: a program that is there, and is called so."""
    for name in ("python", "python3"):
        real = os.path.realpath(os.path.join(folder, name))
        if os.path.basename(real).startswith(("python", "pypy")) and os.access(real, os.X_OK):
            yield os.path.dirname(real)


def _prefix(folder: str, home: str) -> str | None:
    """The folder that something was installed to which has its programs here; None where that would be too much."""
    programs = os.path.basename(folder) in _PROGRAMS
    prefix = os.path.dirname(folder) if programs else folder
    top = prefix.split("/")[:3]
    homes = {home, "/root", *(["/".join(top)] if top[1:2] in (["home"], ["Users"]) else [])}
    wide = prefix == "/" or any(is_below(each, prefix) or os.path.dirname(prefix) == each for each in homes)
    if wide or os.path.lexists(f"{prefix}/.git"):  # somebody's home, or somebody's work
        return folder if programs and not any(is_below(each, folder) for each in homes) else None
    return prefix
