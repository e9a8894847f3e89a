"""Policy bundles as their authors make them and as machines take them: built, tried, put in force.

A bundle is put in force whole or not at all: it is tried elsewhere, and takes the place of the one in force in a single
step, which who judges at that moment either sees or does not.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeVar

from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.policy.language import bundle, examples, loader, sources
from humanlayer_agent.policy.language.bundle import Bundle
from humanlayer_agent.policy.language.policy import Defaults, Policy, Rule
from humanlayer_agent.policy.language.release import MAX_RELEASE, Release, moment
from humanlayer_agent.policy.layers import Authority, catalog_files, check_machine, machine_bundle, places, trust
from humanlayer_agent.policy.layers.installation import Installation, Settings, check_order, mark_of, verified
from humanlayer_agent.policy_tools.bundle_sources import fetch
from humanlayer_agent.policy_tools.catalog_entries import failures

_LOCK = ".lock"
R = TypeVar("R", bound=Release)
T = TypeVar("T")
_FOR_PEOPLE = frozenset({"origin", "tests", "scope", "inherited", "reason", "suggestion", "overridden"})
"""What a rule may have otherwise and still decides the same."""


class Signs(Protocol):
    """A key that signs."""

    @property
    def fingerprint(self) -> str:
        """The public key in hex."""

    def sign_text(self, text: bytes) -> str:
        """The signature of `text`, in hex."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A bundle whose policy and catalogs can be used, and how many of its tests have passed."""

    policy: Policy
    tests: int


# ---- build --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gathered:
    """The files of a bundle to be: the texts by their names, and the policy in them."""

    folder: Path
    policy: Policy
    texts: Mapping[str, str]


def gathered(folder: Path) -> Gathered:
    """Read the files of a folder that are to become a bundle.

    Raises:
        ConfigError: one does not belong into a bundle, or has a mistake.
    """
    texts = dict(_texts(folder))
    if bundle.POLICY not in texts:
        raise ConfigError(f"{folder / bundle.POLICY}: is missing: it is the policy, and extends the others")
    policy = loader.load(folder / bundle.POLICY, within=folder, tested=False)
    used = {os.path.relpath(path, folder) for path in trust.own_files(policy)}
    if idle := sorted(name for name in texts if name not in used and not name.startswith(bundle.CATALOGS)):
        raise ConfigError(f"{folder / idle[0]}: no file of the bundle extends it: remove it, or extend it")
    return Gathered(folder, policy, texts)


def build(
    files: Gathered, *, version: int, expires: str, unlocks: Sequence[str] = (), signer: Signs
) -> tuple[Bundle, Tried]:
    """Make a bundle, and run the tests in it.

    Args:
        version: larger than that of any earlier bundle of this policy.
        expires: the last day on which it holds (UTC), or the moment at which it ends.
        unlocks: ids of locked rules of earlier versions that this one may lack or change.
        signer: the key, unlocked.

    Raises:
        ConfigError: a file fails a test, or can't be part of a bundle; it has ended already.
    """
    made = Bundle(files.policy.name, version, expires, files.texts, signer.fingerprint, tuple(sorted(set(unlocks))))
    try:
        if why := made.mistake():
            raise ValueError(why)
    except ValueError as error:
        raise ConfigError(f"{files.folder}: {error}") from None
    made.check_holds(moment())
    made = replace(made, signature=signer.sign_text(made.statement))
    Bundle.parse(made.text, str(files.folder))  # it must be one for those who read it
    return made, tried(made)


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    def failed(error: OSError) -> None:
        raise ConfigError(f"{error.filename}: can't be read: {error.strerror}") from error

    for place, folders, names in os.walk(folder, onerror=failed):
        folders[:] = sorted(each for each in folders if each[:1] != ".")
        for name in (*folders, *sorted(each for each in names if each[:1] != ".")):
            path = os.path.join(place, name)
            if os.path.islink(path):
                raise ConfigError(f"{path}: is a link: a bundle has files of its own alone")
            if name in folders:
                continue
            if not name.endswith(".yaml"):
                raise ConfigError(f"{path}: a bundle has policies and catalogs, NAME.yaml, and nothing else")
            try:
                yield os.path.relpath(path, folder), trust.read_owned(path, machine=None).decode()
            except UnicodeDecodeError:
                raise ConfigError(f"{path}: is no text in UTF-8") from None


# ---- try ----------------------------------------------------------------------------------------------


def tried(found: Bundle) -> Tried:
    """Read the policy and the catalogs in a bundle, and run the tests in them.

    Raises:
        ConfigError: one has a mistake, or fails a test.
    """
    with _lying(found) as path:
        try:
            return _tried(found, path)
        except PolicyError as error:  # named as its reader has it, not as it lies here
            raise PolicyError(str(error).replace(f"{os.path.dirname(path)}/", "")) from error


@contextmanager
def _lying(found: Bundle) -> Iterator[str]:
    """Put a bundle into a file of its own for a while, and yield its path."""
    with TemporaryDirectory() as folder:
        path = Path(os.path.realpath(folder), f"{found.policy}{bundle.SUFFIX}")
        path.write_bytes(found.text)
        yield str(path)


def _tried(found: Bundle, path: str) -> Tried:
    policy = machine_bundle.policy_of(found, path, tested=False)
    if examples.identity(policy) is not None:
        examples.check(policy)
    own = [each for each in examples.examples(policy) if not each.origin.startswith(sources.BUILTIN)]
    catalogs = [
        catalog_files.file_of(f"{path}/{name}", "machine", text.encode())
        for name, text in found.files.items()
        if name.startswith(bundle.CATALOGS)
    ]
    if catalogs:
        known, _ = catalog_files.joined(catalogs)
        for remark in failures(catalogs, known):
            raise PolicyError(f"{remark.path}:{remark.line}: {remark.text}")
    return Tried(policy, len(own) + sum(len(each.examples) for each in catalogs))


def unlocked(old: Policy, new: Policy) -> list[str]:
    """Return what was locked in `old` and is not so in `new`: ids of locked rules that are gone or decide otherwise;
    `defaults`, where those were locked and are others now; `observe`, where nothing would be enforced any more.
    """
    found = [
        rule.id
        for rule in old.rules
        if rule.locked and not any(_deciding(rule, old) == _deciding(each, new) for each in new.rules)
    ]
    if old.defaults.locked and _defaults(old) != _defaults(new):
        found.append("defaults")
    if new.observe and not old.observe:
        found.append("observe")
    return sorted(set(found))


def _deciding(rule: Rule, policy: Policy) -> str:
    """What a rule decides, with the lists and the confinements that it names."""
    written = json.dumps({k: v for k, v in rule.written.items() if k not in _FOR_PEOPLE}, sort_keys=True)
    lists = policy.scopes[rule.scope].items()
    named = sorted((name, list(entries)) for name, entries in lists if f'"${name}"' in written)
    held = [policy.confinements.get(name or "") for name in (rule.confined, rule.approved)]
    return json.dumps([written, named, held], sort_keys=True)


def _defaults(policy: Policy) -> tuple[Defaults, Mapping[str, Any] | None]:
    """The defaults, with the confinement that they name."""
    return policy.defaults, policy.confinements.get(policy.defaults.confine)


# ---- put in force ---------------------------------------------------------------------------------------


def install(
    raw: bytes,
    source: str,
    *,
    folder: Path | str | None = None,
    halt: Callable[[str], None] = lambda step: None,
) -> tuple[Bundle, Tried]:
    """Put the bundle in `raw` in force on this machine. It is verified, tried, and no older than the last one.

    Args:
        source: where it comes from, as the mark says it.
        folder: the machine's settings; the usual one where it is None.
        halt: called before each step that changes something, with its name.

    Raises:
        ConfigError: it is refused, or can't be written: then what was in force is.
    """

    def trial(found: Bundle, before: Bundle | None) -> Tried:
        result = tried(found)
        if before is not None:
            _check_locks(before, found, result, source)
        return result

    return put_in_force(machine_bundle.place_of(taken(folder), folder), raw, source, trial=trial, halt=halt)


def put_in_force(
    place: Installation[R],
    raw: bytes,
    source: str,
    *,
    trial: Callable[[R, R | None], T],
    halt: Callable[[str], None] = lambda step: None,
) -> tuple[R, T]:
    """Put the release in `raw` in force in a place. It is verified, tried, and no older than the last one.

    Args:
        source: where it comes from, as the mark says it.
        trial: tries it, and is told which one was in force; what it returns is returned.
        halt: as for `install`.

    Raises:
        ConfigError: it is refused, or can't be written: then what was in force is.
    """
    found = place.verified(raw, source)
    found.check_holds(moment())
    with _alone(f"{place.file}{_LOCK}", machine=place.machine):
        place.check_mark(found, source, place.last())
        before = _in_force(place)
        if before is not None:
            check_order(found, source, before.version, before.digest)
        result = trial(found, before)
        try:
            halt("bundle")
            _write(place.file, found.text)
            halt("mark")
            _write(place.mark, mark_of(found, moment(), source))
        except OSError as error:
            raise ConfigError(f"{os.path.dirname(place.file)}: can't be written: {error.strerror}") from error
    return found, result


def taken(folder: Path | str | None = None) -> Settings:
    """Return which bundle this machine takes.

    Raises:
        ConfigError: it takes none, or that can't be read.
    """
    path = machine_bundle.files(folder)[0]
    found = machine_bundle.settings(folder) if os.path.lexists(path) else None
    if found is None:
        raise ConfigError(
            f"{path}: is missing. Root writes it: which bundle this machine takes, and whose keys may sign it "
            "(docs/bundles.md)"
        )
    return found


def fetched(source: str | None = None, *, folder: Path | str | None = None) -> tuple[bytes, str]:
    """Return the bytes that are to become this machine's bundle, and where they are from.

    Args:
        source: where from; None: where `bundle.yaml` says.

    Raises:
        ConfigError: they can't be had, or nobody says from where.
    """
    place = source or taken(folder).source
    if not place:
        raise ConfigError("where from? name a file or an address, or write `from:` into bundle.yaml")
    return fetch(place), place if "://" in place else os.path.abspath(place)


def looked_at(raw: bytes, place: str, signers: Set[str] | None = None, *, folder: Path | str | None = None) -> Bundle:
    """Return the bundle in `raw`, which could be put in force now.

    Args:
        signers: whose signature counts; None: what this machine says, which also has a mark.

    Raises:
        PolicyError: it could not. ConfigError: nobody says whose signature counts.
    """
    if signers is None:
        here = machine_bundle.place_of(taken(folder), folder)
        found = here.verified(raw, place)
        here.check_mark(found, place, here.last())
    else:
        found = verified(Bundle, raw, place, frozenset(signers))
    found.check_holds(moment())
    return found


def _in_force(place: Installation[R]) -> R | None:
    """Return the release that is there, whoever has signed it: keys change, and what was locked stays so."""
    if not os.path.lexists(place.file):
        return None
    try:
        found = place.kind.parse(trust.read_owned(place.file, machine=place.machine, most=MAX_RELEASE), place.file)
    except PolicyError:
        return None  # it lets nothing run
    return found if found.name == place.settings.name and found.is_signed else None


def _check_locks(before: Bundle, found: Bundle, result: Tried, source: str) -> None:
    try:
        with _lying(before) as path:
            old = machine_bundle.policy_of(before, path, tested=False)
    except PolicyError:
        return  # a newer version of ours does not read it: it lets nothing run, and must not be for ever
    loose = [each for each in unlocked(old, result.policy) if each not in found.unlocks]
    if loose:
        raise ConfigError(
            f"{source}: what {before.title} has locked is gone or decides otherwise: {', '.join(loose)}. Who signs the "
            f"bundle must say so: hla policy bundle build --unlock {loose[0]}"
        )


@contextmanager
def _alone(path: str, *, machine: bool) -> Iterator[None]:
    """One process at a time puts a release in force: else an older one could come after a newer. Only its owner can
    open the file, so nobody else can keep it locked.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        who = " (only root puts in force what is the machine's)" if machine else ""
        raise ConfigError(f"{path}: can't be written: {error.strerror}{who}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ConfigError(f"{path}: another process puts one in force at this moment") from None
    finally:
        os.close(descriptor)


def _write(path: str, content: bytes) -> None:
    """Write a file whole or not at all, for everybody to read."""
    beside = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(beside)  # of one that was killed
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(descriptor, 0o644)  # whatever the umask
        os.fsync(descriptor)
    os.replace(beside, path)
    above = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)
    finally:
        os.close(above)


# ---- what is in force -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LayerStatus:
    """What stands at a layer, whether it counts or not: the fields of `cli.shared.records.LayerStatusRecord`."""

    layer: Authority
    file: str
    policy: str | None = None
    sha256: str | None = None
    version: int | None = None
    signer: str | None = None
    expires: str | None = None
    fetched: str | None = None
    source: str | None = None
    problem: str = ""


def status(project: Path | str, *, machine: Path | None = None) -> list[LayerStatus]:
    """Return what stands at each layer, the highest first. Nothing that is wrong with it is raised."""
    found: list[LayerStatus] = []
    for authority, path in places(project, machine=machine):
        if authority == "machine":
            found += _bundle_status(machine)
        if os.path.lexists(path):
            found.append(_file_status(authority, path, project))
    if all(each.layer == "project" for each in found):
        found.insert(0, _file_status("builtin", loader.named("default"), project))
    return found


def _file_status(layer: Authority, path: str, project: Path | str) -> LayerStatus:
    try:
        policy = loader.load(path, within=project if layer == "project" else None)
        for file in trust.own_files(policy) if layer in ("machine", "user") else ():
            trust.check_owner(file, machine=layer == "machine")
    except PolicyError as error:
        return LayerStatus(layer, path, problem=str(error))
    problem = ""
    if layer == "project" and not trust.is_trusted(project, trust.policy_files(policy)):
        problem = "nobody has trusted it, so it allows nothing: hla policy trust"
    return LayerStatus(layer, path, policy.name, policy.sources[-1].sha256, problem=problem)


def _bundle_status(machine: Path | None) -> Iterator[LayerStatus]:
    found_at = machine_bundle.files(machine)
    row = LayerStatus("machine", found_at[1])
    try:
        check_machine(machine)
        if not any(map(os.path.lexists, found_at)):
            return
        if (mark := machine_bundle.last(machine)) is not None:
            row = replace(row, fetched=mark.fetched, source=mark.source)
        if (found := machine_bundle.installed(machine)) is not None:
            row = replace(
                row, policy=found.policy, sha256=found.digest, version=found.version, signer=found.signer,
                expires=found.expires,
            )  # fmt: skip
            found.check_holds(moment())
            machine_bundle.load(machine)
    except PolicyError as error:
        row = replace(row, problem=str(error))
    yield row
