"""Policy bundles: the files of a policy in one signed file, with its version and the day on which it ends.

A bundle is one canonical JSON text, the same bytes for the same content. It is no archive: nothing is unpacked, so
nothing in it is a link, lies outside of it or grows. A second entry of one name, another spelling or a further byte
make it a text that is refused. Its entries are policies and catalogs alone, which are read and never run. Their names
are small ASCII letters, so that no two of them are one on any disk.

Whoever has the file can read it in place: `sources.read("/etc/x/acme.bundle/policy.yaml")` is an entry of it. What its
signature is worth is decided by who trusts the key (`layers.machine_bundle`).
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.policy import end_of, expiry

SUFFIX = ".bundle"
POLICY = "policy.yaml"
"""The entry that is the policy; the other entries are what it extends."""
CATALOGS = "catalog/"
"""What the names of catalogs begin with."""
MAX_BUNDLE = 4 * 1024 * 1024
MAX_ENTRIES = 100
_PURPOSE = "humanlayer-agent policy bundle 1"
_KEYS = {"purpose", "policy", "version", "expires", "files", "unlocks", "signer", "signature"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""As that of any policy: so no other policy can be called as a bundle's is, with its version (`title`)."""
_RULE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_ENTRY = re.compile(r"(?:[a-z0-9_][a-z0-9_-]{0,63}/){0,4}[a-z0-9_][a-z0-9_-]{0,63}\.yaml", re.ASCII)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


@dataclass(frozen=True)
class Bundle:
    """A bundle. What it says counts once its signature is good (`is_signed`), and whose key that is was asked.

    Args:
        policy: the name of the policy; a machine takes bundles of one name.
        version: counts up with each bundle of that name.
        expires: the last day on which it holds (UTC), or the moment at which it ends.
        files: the text of each entry, by its name.
        unlocks: ids of locked rules of earlier versions that this one may lack or change.
        signer: the public key that signs it, in hex.
        signature: of everything else, in hex.
    """

    policy: str
    version: int
    expires: str
    files: Mapping[str, str] = field(repr=False)
    signer: str
    unlocks: tuple[str, ...] = ()
    signature: str = ""

    @classmethod
    def parse(cls, raw: bytes, place: str) -> Self:
        """Read the bytes of a bundle.

        Args:
            place: where they come from, for messages.

        Raises:
            PolicyError: they are none, in the one form in which a bundle is written.
        """
        if len(raw) > MAX_BUNDLE:
            raise PolicyError(f"{place}: too large: a bundle has at most {MAX_BUNDLE} bytes")
        try:
            said = json.loads(raw)
            if not isinstance(said, dict) or said.keys() != _KEYS or said["purpose"] != _PURPOSE:
                raise ValueError("these are not the keys of one")
            found = cls(
                said["policy"], said["version"], said["expires"], said["files"], said["signer"],
                tuple(said["unlocks"]), said["signature"],
            )  # fmt: skip
            if why := found.mistake():
                raise ValueError(why)
            if found.text != raw:
                raise ValueError("it is not in the one form in which a bundle is written")
        except (ValueError, TypeError, RecursionError) as error:
            wrong = "it is cut short, or no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise PolicyError(f"{place}: not a policy bundle: {wrong}") from None
        return found

    def mistake(self) -> str:
        """Return what is wrong with it, apart from its signature; "" where nothing is."""
        if not isinstance(self.policy, str) or not _NAME.fullmatch(self.policy):
            return "its name must be that of a policy: letters, digits, dots, hyphens"
        if type(self.version) is not int or not 0 < self.version < 2**53:
            return "its version must be a number from 1 on"
        if not isinstance(self.expires, str) or expiry(self.expires) != self.expires:
            return "expires: expected a day such as 2030-12-31, or a moment such as 2030-12-31T18:00:00Z"
        if not all(isinstance(each, str) and _RULE.fullmatch(each) for each in self.unlocks):
            return "unlocks: expected ids of rules"
        for value, size in ((self.signer, 64), (self.signature, 128)):
            if not isinstance(value, str) or (value and (len(value) != size or not _HEX.fullmatch(value))):
                return "its signer and its signature must be hexadecimal numbers"
        return _mistake_in(self.files)

    @cached_property
    def statement(self) -> bytes:
        """What is signed: everything but the signature."""
        return canonical(self._said())

    @cached_property
    def text(self) -> bytes:
        """The bytes of its file."""
        return canonical({**self._said(), "signature": self.signature})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes of its file."""
        return sha256(self.text).hexdigest()

    @property
    def title(self) -> str:
        """Name and version, as decisions and the log have them: `acme@7`."""
        return f"{self.policy}@{self.version}"

    @property
    def end(self) -> str:
        """The first moment (UTC, ISO 8601) at which it does not hold any more."""
        return end_of(self.expires)

    @property
    def is_signed(self) -> bool:
        """Tell whether the key that it names has signed it. (Whose key that is, is another question.)"""
        return is_signature(self.signer, self.signature, self.statement)

    def about(self) -> dict[str, Any]:
        """Return what is said of it where it is not there itself: in the log, for example."""
        said = {"name": self.policy, "version": self.version, "sha256": self.digest}
        return {**said, "signer": self.signer, "expires": self.expires}

    def has(self, sources: Mapping[str, str]) -> bool:
        """Tell whether each of these entries (name and SHA-256 of the bytes that were read) is exactly its own."""
        return all(
            name in self.files and sha256(self.files[name].encode()).hexdigest() == digest
            for name, digest in sources.items()
        )

    def check_holds(self, now: str) -> None:
        """Raise PolicyError where it has ended by the moment `now` (UTC, ISO 8601)."""
        if now >= self.end:
            raise PolicyError(
                f"the policy bundle {self.title} has expired ({self.expires}), so nothing is allowed and nobody is "
                "asked, until a newer one is installed: sudo hla policy bundle install"
            )

    def _said(self) -> dict[str, Any]:
        return {
            "purpose": _PURPOSE,
            "policy": self.policy,
            "version": self.version,
            "expires": self.expires,
            "files": dict(self.files),
            "unlocks": list(self.unlocks),
            "signer": self.signer,
        }


def _mistake_in(files: Any) -> str:
    if not isinstance(files, dict) or POLICY not in files:
        return f"it has no {POLICY}"
    if len(files) > MAX_ENTRIES:
        return f"it has more than {MAX_ENTRIES} files"
    for name, text in files.items():
        if not _ENTRY.fullmatch(name):
            return (
                f"a file is called {name[:200]!r}: expected a name in small letters that ends in .yaml, such as "
                "base.yaml or teams/web.yaml"
            )
        if not isinstance(text, str):
            return f"{name} is no text"
    return ""


def file_of(path: Path | str) -> str:
    """Return the file of the bundle that an entry stands in, by the entry's path; any other path as it is.

    Example:
        >>> file_of("/etc/x/acme.bundle/teams/web.yaml")
        '/etc/x/acme.bundle'
    """
    file, found, _ = str(path).rpartition(f"{SUFFIX}/")
    return file + SUFFIX if found else str(path)


def entry(path: Path | str) -> bytes | None:
    """Return the bytes of an entry by its path below that of its bundle; None where that is no such path.

    Raises:
        PolicyError: the file above it is no bundle. OSError: it can't be read.
    """
    file = file_of(path)
    name = str(path)[len(file) + 1 :]
    if not name:
        return None
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        bundle = Bundle.parse(opened.read(MAX_BUNDLE + 1), file)
    text = bundle.files.get(name)
    return None if text is None else text.encode()
