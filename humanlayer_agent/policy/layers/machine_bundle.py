"""The policy bundle of a machine: which one it takes and whose signature counts, and the one that is in force.

Three files in the folder of the machine's settings, which root alone can write: `bundle.yaml` says which bundle the
machine takes, whose keys may sign it and where new ones come from; `policy.bundle` is the one in force, with its
signature; `bundle-last.json` is the mark below which no version goes any more. Nothing of this is read from a user's or
a project's files. Where a machine takes a bundle and has none that counts, that is an error like a mistake in a policy:
nothing runs, and what stands below it never takes its place. (How releases are verified is said by `installation`.)
"""

import os
from collections.abc import Iterator
from pathlib import Path

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import MACHINE_FOLDER
from humanlayer_agent.policy.language import bundle, loader, sources
from humanlayer_agent.policy.language.bundle import Bundle
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.language.release import MAX_RELEASE
from humanlayer_agent.policy.layers import trust
from humanlayer_agent.policy.layers.installation import Installation, Mark, Settings, is_key, read_mark

FILE = "policy.bundle"
SETTINGS = "bundle.yaml"
LAST = "bundle-last.json"
_KEYS = ("bundle", "signers", "from")
_TRIES = 3
"""So often a bundle is read anew that another one took the place of while it was read."""


def files(folder: Path | str | None = None) -> list[str]:
    """Return where its files are, there or not: settings, bundle, mark."""
    return [_path(folder, name) for name in (SETTINGS, FILE, LAST)]


def settings(folder: Path | str | None = None) -> Settings | None:
    """Return which bundle the machine takes; None where it takes none.

    Raises:
        PolicyError: that can't be read, has a mistake, or others than root can write it.
    """
    path = _path(folder, SETTINGS)
    if not os.path.lexists(path):
        if left := next((p for p in (_path(folder, FILE), _path(folder, LAST)) if os.path.lexists(p)), ""):
            raise PolicyError(f"{left}: {path} is missing, which says whose bundles this machine takes")
        return None
    trust.check_folder(os.path.dirname(path), machine=True)
    from humanlayer_agent.policy.language import yaml_positions

    document = yaml_positions.decode(trust.read_owned(path, machine=True), path)
    said = document.data
    if not isinstance(said, dict) or not {"bundle", "signers"} <= said.keys():
        raise document.error(
            (), "expected `bundle:`, the name of the bundle, and `signers:`, the keys that may sign it"
        )
    if wrong := said.keys() - set(_KEYS):
        raise document.error((min(wrong), "\0key"), f"unknown key {min(wrong)}; known: {', '.join(_KEYS)}")
    signers, source = said["signers"], said.get("from", "")
    if not isinstance(said["bundle"], str) or not isinstance(source, str):
        raise document.error(("bundle",), "expected the name of a bundle, and `from:` as a text")
    if not isinstance(signers, list) or not signers or not all(is_key(each) for each in signers):
        raise document.error(
            ("signers",), "expected a list of public keys, 64 digits each: hla policy bundle verify says one"
        )
    return Settings(said["bundle"], frozenset(signers), source)


def place_of(taken: Settings, folder: Path | str | None = None) -> Installation[Bundle]:
    """Return where the machine's bundle lies."""
    return Installation(Bundle, taken, _path(folder, FILE), _path(folder, LAST))


def last(folder: Path | str | None = None) -> Mark | None:
    """Return the mark of the last bundle that was put in force; None where there was none.

    Raises:
        PolicyError: it can't be read, or others than root can write it.
    """
    return read_mark(_path(folder, LAST), Bundle.INSTALL, machine=True)


def installed(folder: Path | str | None = None) -> Bundle | None:
    """Return the bundle that the machine has, whether it has ended or not; None where it takes none.

    Raises:
        PolicyError: it takes one, and has none that counts.
    """
    taken = settings(folder)
    return place_of(taken, folder).current() if taken is not None else None


def load(folder: Path | str | None = None, *, tested: bool = True) -> tuple[Policy, Bundle] | None:
    """Return the policy in the machine's bundle, and the bundle; None where the machine takes none.

    What is judged by is exactly what was signed, also if another bundle takes its place in the meantime.

    Raises:
        PolicyError: as `installed`; the policy has a mistake, or fails its own tests.
    """
    for _ in range(_TRIES):
        if (found := installed(folder)) is None:
            return None
        try:
            return policy_of(found, _path(folder, FILE), tested=tested), found
        except Swapped:
            continue
    raise PolicyError(f"{_path(folder, FILE)}: has changed each time it was read")


class Swapped(PolicyError):
    """The file of a bundle holds another one than it did."""


def policy_of(found: Bundle, path: str, *, tested: bool = True) -> Policy:
    """Return the policy in the bundle that stands in the file `path`.

    Raises:
        Swapped: another one stands there. PolicyError: it has a mistake, or fails its own tests.
    """
    try:
        policy = loader.load(f"{path}/{bundle.POLICY}", within=path, tested=tested)
    except PolicyError:
        if trust.read_owned(path, machine=None, most=MAX_RELEASE) != found.text:
            raise Swapped(f"{path}: has changed while it was read") from None
        raise
    read = {each.path: each.sha256 for each in policy.sources if not each.name.startswith(sources.BUILTIN)}
    if not found.has({os.path.relpath(name, path): digest for name, digest in read.items()}):
        raise Swapped(f"{path}: has changed while it was read")
    if policy.name != found.policy:
        raise PolicyError(f"{path}/{bundle.POLICY}: the policy is called {policy.name}, the bundle {found.policy}")
    return policy


def catalogs(folder: Path | str | None, now: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield path and bytes of each catalog in the machine's bundle, and why it does not count ("": it does)."""
    found = installed(folder)
    for name, text in found.files.items() if found is not None else ():
        if name.startswith(bundle.CATALOGS):
            why = "" if found is not None and now < found.end else "the bundle that it stands in has expired"
            yield f"{_path(folder, FILE)}/{name}", text.encode(), why


def _path(folder: Path | str | None, name: str) -> str:
    return os.path.join(folder or MACHINE_FOLDER, name)
