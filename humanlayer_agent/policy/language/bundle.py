"""Policy bundles: the files of a policy in one signed file, with its version and the day on which it ends.

A bundle is a release (`release`). Its entries are policies and catalogs alone, which are read and never run. Their
names are small ASCII letters, so that no two of them are one on any disk.

Whoever has the file can read it in place: `sources.read("/etc/x/acme.bundle/policy.yaml")` is an entry of it. What its
signature is worth is decided by who trusts the key (`layers.machine_bundle`).
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from humanlayer_agent.policy.language.release import MAX_RELEASE, Release

SUFFIX = ".bundle"
POLICY = "policy.yaml"
"""The entry that is the policy; the other entries are what it extends."""
CATALOGS = "catalog/"
"""What the names of catalogs begin with."""
MAX_ENTRIES = 100
_RULE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}", re.ASCII)
_ENTRY = re.compile(r"(?:[a-z0-9_][a-z0-9_-]{0,63}/){0,4}[a-z0-9_][a-z0-9_-]{0,63}\.yaml", re.ASCII)


@dataclass(frozen=True)
class Bundle(Release):
    """A bundle.

    Args:
        policy: the name of the policy, which is its own.
        version: counts up with each bundle of that name.
        expires: the last day on which it holds (UTC), or the moment at which it ends.
        files: the text of each entry, by its name.
        unlocks: ids of locked rules of earlier versions that this one may lack or change.
        signer: the public key that signs it, in hex.
        signature: of everything else, in hex.
    """

    KIND = "policy bundle"
    NAMED = "policy"  # as that of any policy: so no other can be called as a bundle's is, with its version (`title`)
    PURPOSE = "humanlayer-agent policy bundle 1"
    WITHOUT = "nothing is allowed and nobody is asked"
    INSTALL = "sudo hla policy bundle install"

    policy: str
    version: int
    expires: str
    files: Mapping[str, str] = field(repr=False)
    signer: str
    unlocks: tuple[str, ...] = ()
    signature: str = ""

    def mistake_inside(self) -> str:
        """Return what is wrong with its files and what it unlocks; "" where nothing is."""
        unlocks: object = self.unlocks
        if not isinstance(unlocks, tuple) or not all(
            isinstance(each, str) and _RULE.fullmatch(each) for each in unlocks
        ):
            return "unlocks: expected ids of rules"
        return _mistake_in(self.files)

    def has(self, sources: Mapping[str, str]) -> bool:
        """Tell whether each of these entries (name and SHA-256 of the bytes that were read) is exactly its own."""
        return all(
            name in self.files and sha256(self.files[name].encode()).hexdigest() == digest
            for name, digest in sources.items()
        )


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
        bundle = Bundle.parse(opened.read(MAX_RELEASE + 1), file)
    text = bundle.files.get(name)
    return None if text is None else text.encode()
