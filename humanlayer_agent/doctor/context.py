"""The context of the checks: what they look at. Everything that a test must be able to break can be given."""

import shutil
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.locations import MACHINE_FOLDER

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import Authority, Removal
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.policy.director import Director
    from humanlayer_agent.policy.layers import Layer
    from humanlayer_agent.policy.layers.catalog_files import Catalogs

Status = Literal["ok", "warning", "failed"]
NOWHERE = Path("/nowhere/project")
"""Stands for the project where there is none, so that policies can be looked at all the same."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding of a check, in words, and what to do about it ("" where there is nothing to do)."""

    status: Status
    said: str
    todo: str = ""


def ok(said: str) -> Finding:
    """All is well."""
    return Finding("ok", said)


def warning(said: str, todo: str = "") -> Finding:
    """It works, and somebody should know this."""
    return Finding("warning", said, todo)


def failed(said: str, todo: str = "") -> Finding:
    """It does not work, or it does not protect."""
    return Finding("failed", said, todo)


@dataclass
class Context:
    """Everything that the checks look at.

    Args:
        project: the directory the agent works for; None where there is none, and `why_no_project` says why.
        environ: the environment variables.
        machine: the folder of the machine's settings.
        python, sqlite: versions. bash: the program; the one that runs agents' commands where it is "".
        free: bytes that can still be written below a directory.
        clock: the time in ms since the epoch. monotonic: seconds that no change of the clock touches.
    """

    project: Path | None
    environ: Mapping[str, str]
    why_no_project: str = ""
    machine: Path = Path(MACHINE_FOLDER)
    python: tuple[int, ...] = sys.version_info[:3]
    sqlite: tuple[int, ...] = sqlite3.sqlite_version_info
    bash: str = ""
    free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free
    clock: Callable[[], int] = now_ms
    monotonic: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.began = (self.clock(), self.monotonic())

    @cached_property
    def layers(self) -> "list[Layer]":
        """The policies in force, tested or not. Raises PolicyError."""
        from humanlayer_agent.policy.layers import find_layers

        return find_layers(self.project or NOWHERE, machine=self.machine, tested=False)

    @cached_property
    def director(self) -> "Director":
        """Judges as the policies in force do. Raises PolicyError."""
        from humanlayer_agent.policy.director import Director

        return Director(self.layers, project=self.project or NOWHERE, environ=self.environ, catalogs=self.catalogs)

    @cached_property
    def catalogs(self) -> "Catalogs":
        """What is known of programs. Raises PolicyError."""
        from humanlayer_agent.policy.layers.catalog_files import find_catalogs

        return find_catalogs(self.project, self.layers, machine=self.machine)

    @cached_property
    def profiles(self) -> "Profiles":
        """Return the settings of the channels files.

        Raises:
            ConfigError: they can't be read.
        """
        from humanlayer_agent.channels.settings import load

        return load(self.project, machine=self.machine)

    @cached_property
    def authority(self) -> "Authority":
        """Return the authority that they describe: who may decide.

        Raises:
            ConfigError: they can't be read.
        """
        from humanlayer_agent.channels.settings.authority_loader import authority_of

        return authority_of(self.profiles, self.requester).without(lambda: self.left)

    @cached_property
    def left(self) -> "Sequence[Removal]":
        """Return who has left, as the store says; nobody where there is none that can be read."""
        from humanlayer_agent.store.access import open_store

        try:
            with closing(open_store(create=False)) as store:
                return store.people.left()
        except (ConfigError, StoreError):  # `store.opens` says it
            return ()

    @property
    def requester(self) -> str:
        """The principal of who would start a run."""
        from humanlayer_agent.configuration import requester

        return requester()


def context_for(project: Path | None, environ: Mapping[str, str]) -> Context:
    """The context of this machine, user and project.

    Args:
        project: the directory that was named; None: the one around here, if it can be one.

    Raises:
        ConfigError: the directory that was named can't be a project.
    """
    from humanlayer_agent.configuration import checked_project, find_project

    if project is not None:
        return Context(checked_project(project), environ)
    try:
        return Context(find_project(), environ)
    except ConfigError as error:
        return Context(None, environ, str(error))
