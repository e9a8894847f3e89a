"""Finds what belongs together: the project, the policy, the store, the channels; builds a Director and a Gate."""

import getpass
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.places import default_store_path

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.approvals.model import Asker
    from humanlayer_agent.approvals.store import Store
    from humanlayer_agent.policy.director import Director


def find_project(start: Path | str | None = None) -> Path:
    """The directory an agent works for: the git top level above `start` (default: here), else `start` itself.

    Raises:
        ConfigError: where that is `/`, the home directory or a parent of it, or the folder for temporary files:
            a project that contains everything protects nothing.
    """
    begin = Path(start or Path.cwd()).absolute()
    top = next((p for p in (begin, *begin.parents) if (p / ".git").exists()), None)
    # A repository around the whole home directory (dot files in git) is no project.
    if top is not None and not _too_wide(top):
        return top
    return checked_project(begin)


def checked_project(path: Path | str) -> Path:
    """`path` as an absolute project directory (it may not exist). Raises ConfigError where it is too wide."""
    project = Path(os.path.normpath(Path(path).absolute()))
    if reason := _too_wide(project):
        raise ConfigError(
            f"{project} can't be the project: it is {reason}. Start in the directory the agent works for, "
            "or name it with --project DIR."
        )
    return project


def _too_wide(path: Path) -> str:
    home = Path.home().absolute()
    for candidate in {path, Path(os.path.realpath(path))}:
        if candidate == Path("/"):
            return "the root directory"
        if candidate == home or candidate in home.parents:
            return "the home directory" if candidate == home else "a parent of the home directory"
        if candidate in {Path(tempfile.gettempdir()).absolute(), Path("/tmp"), Path("/var/tmp")}:
            return "the folder for temporary files"
    return ""


def data_file(folder: str, name: str) -> Path:
    """A shipped file: `policies/NAME` or `channels/NAME`, from the wheel's data or from a checkout."""
    package = Path(__file__).parent
    for base in (package / "_data", package.parent):
        if (found := base / folder / name).is_file():
            return found
    raise ConfigError(f"the shipped file {folder}/{name} is missing: reinstall humanlayer-agent")


def requester() -> str:
    """The stable identity of the person who started the run."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "unknown"
    return f"os:{os.getuid()}:{name}"


def build_director(
    policy: str | Path | None = None,
    *,
    project: Path | str | None = None,
    environ: Mapping[str, str] | None = None,
    observe: bool = False,
) -> "Director":
    """The Director for `project`.

    Args:
        policy: a shipped policy's name, or a file: the whole policy. None takes the layers: the policies of the
            machine, of the user and of the project (see `policy.layers`).
        observe: what it decides is to be recorded only.

    Raises:
        PolicyError: a policy can't be found or has a mistake (file:line:column and what was expected).
    """
    from humanlayer_agent.files import DiskReader
    from humanlayer_agent.policy.director import Director

    base = checked_project(project) if project is not None else find_project()
    if policy is not None:
        return Director.load(policy, project=base, environ=environ, observe=observe, reader=DiskReader(base))
    from humanlayer_agent.policy.layers import find_layers, observed

    layers = find_layers(base)
    observe = observed(layers, observe)
    return Director(layers, project=base, environ=environ, observe=observe, reader=DiskReader(base))


def build_asker(user: Any = None) -> "Asker":
    """The channel that asks: `user` (an object with `query`, or an Asker), else the terminal."""
    if user is None:
        from humanlayer_agent.channels.terminal import TerminalAsker

        return TerminalAsker()
    if hasattr(user, "ask"):
        asker: Asker = user
        return asker
    from humanlayer_agent.channels.user import UserAsker

    return UserAsker(user)


def build_gate(
    *,
    director: Any = None,
    user: Any = None,
    asker: "Asker | None" = None,
    policy: str | Path | None = None,
    observe: bool = False,
    project: Path | str | None = None,
    store: "Store | Path | str | None" = None,
    agent: str = "",
    run_id: str | None = None,
    **limits: Any,
) -> "Gate":
    """A Gate with its Director, store and channel.

    Args:
        director: anything with `evaluate(action)`; None builds one from `policy`, `observe` and `project` (see
            `build_director`).
        user: the seed design's `user.query(prompt, options=[...])` object; None asks at the terminal.
        asker: a channel, instead of `user`.
        store: a Store, or the path of a store file; None is the user's own store.
        limits: `timeout_ms`, `valid_for_ms`, `use_by_ms`, as Gate takes them.
    """
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.approvals.sqlite import SQLiteStore

    if director is None:
        director = build_director(policy, project=project, observe=observe)
    if store is None or isinstance(store, str | Path):
        store = SQLiteStore(Path(store) if store else default_store_path())
    return Gate(
        director,
        store,
        asker or build_asker(user),
        run_id=run_id,
        agent=agent,
        requester=requester(),
        **limits,
    )
