"""Installations: the release that is in force in one place, whose releases are taken there, and the last one it had.

A settings file of the machine (or the user) says which release is taken, whose keys may sign it and where new ones come
from. Beside it lie the one in force, with its signature, and the mark below which no version goes any more. Where one
is taken and there is none that counts, that is an error like a mistake in a policy: nothing takes its place.
"""

import json
import os
from dataclasses import dataclass
from typing import Generic, TypeVar

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.release import MAX_RELEASE, Release
from humanlayer_agent.policy.layers import trust

R = TypeVar("R", bound=Release)
_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Settings:
    """What settings say of a release: its name, the keys whose signature counts, where new ones come from."""

    name: str
    signers: frozenset[str]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """The last release that was put in force: none that is older is taken, nor another of the same version."""

    name: str
    version: int
    sha256: str
    fetched: str
    """When (UTC, ISO 8601)."""
    source: str
    """Where from."""


@dataclass(frozen=True, slots=True)
class Installation(Generic[R]):
    """What is taken, and where it lies.

    Args:
        kind: of release.
        settings: which is taken.
        file: that of the one in force.
        mark: the file that says which was the last.
        machine: both must be root's, else the user's.
    """

    kind: type[R]
    settings: Settings
    file: str
    mark: str
    machine: bool = True

    @property
    def install(self) -> str:
        """The command that puts a newer one in force here."""
        command = self.kind.INSTALL.removeprefix("sudo ")
        return f"sudo {command}" if self.machine else command

    def verified(self, raw: bytes, place: str) -> R:
        """Return the release in `raw`, which somebody has signed whose releases are taken.

        Args:
            place: where it comes from, for messages.

        Raises:
            PolicyError: it is none, another one, or signed by nobody who may.
        """
        found = verified(self.kind, raw, place, self.settings.signers)
        if found.name != self.settings.name:
            whose = "this machine takes" if self.machine else "you take"
            raise PolicyError(f"{place}: it is the {self.kind.KIND} {found.name}; {whose} {self.settings.name}")
        return found

    def last(self) -> Mark | None:
        """Return the mark of the last one that was put in force; None where there was none. Raises PolicyError."""
        return read_mark(self.mark, self.install, machine=self.machine)

    def check_mark(self, found: R, place: str, mark: Mark | None) -> None:
        """Raise PolicyError for a release that is older than the mark, or another one of its version."""
        if mark is not None and mark.name == found.name:
            check_order(found, place, mark.version, mark.sha256)

    def current(self) -> R:
        """Return the one that is in force, whether it has ended or not.

        Raises:
            PolicyError: there is none that counts.
        """
        mark = self.last()  # before the release: an installation writes it after that
        if not os.path.lexists(self.file):
            takes = "this machine takes" if self.machine else "your channels file takes"
            what = f"the {self.kind.KIND} {self.settings.name}"
            raise PolicyError(f"{self.file}: {takes} {what}, and has none: {self.install}")
        found = self.verified(trust.read_owned(self.file, machine=self.machine, most=MAX_RELEASE), self.file)
        self.check_mark(found, self.file, mark)
        return found


def verified(kind: type[R], raw: bytes, place: str, signers: frozenset[str]) -> R:
    """Return the release in `raw`, of any name, that one of these keys has signed. Raises PolicyError."""
    found = kind.parse(raw, place)
    if found.signer not in signers:
        raise PolicyError(f"{place}: signed by {found.signer or 'nobody'}, whose signature does not count here")
    if not found.is_signed:
        raise PolicyError(f"{place}: the signature is not that of this text: it was changed after it was signed")
    return found


def check_order(found: Release, place: str, version: int, digest: str) -> None:
    """Raise PolicyError for a release that is older than one that was in force, or another one of that version."""
    if found.version < version:
        raise PolicyError(
            f"{place}: version {found.version} is older than {version}, the last one on this machine: what it said can "
            "only come back under a new version"
        )
    if found.version == version and found.digest != digest:
        raise PolicyError(f"{place}: another {found.KIND} was the version {found.version} on this machine already")


def read_mark(path: str, install: str, *, machine: bool) -> Mark | None:
    """Return the mark in a file; None where there is none.

    Args:
        install: the command that makes one, for messages.
        machine: it must be root's, else the user's.

    Raises:
        PolicyError: it can't be read, or others can write it.
    """
    if not os.path.lexists(path):
        return None
    try:
        found = Mark(**json.loads(trust.read_owned(path, machine=machine)))
        if type(found.version) is not int:
            raise ValueError("no version")
    except (ValueError, TypeError, RecursionError):
        who = " as root" if machine else ""
        raise PolicyError(
            f"{path}: does not say which one was the last: remove it{who}, and install again: {install}"
        ) from None
    return found


def mark_of(found: Release, fetched: str, source: str) -> bytes:
    """Return the text of a mark: `found` was put in force at the moment `fetched`."""
    said = {"name": found.name, "version": found.version, "sha256": found.digest}
    return canonical({**said, "fetched": fetched, "source": source})


def is_key(said: object) -> bool:
    """Tell whether this is a public key, as settings name one."""
    return isinstance(said, str) and len(said) == 64 and set(said) <= _HEX
