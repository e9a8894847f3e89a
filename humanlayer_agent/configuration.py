"""Finds what belongs together: the project, the policy, the store, the channels; builds a Director and a Gate."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import (
    PASSPHRASE_VARIABLE,
    config_path,
    exists,
    home_folder,
    key_path,
    spelled,
    state_path,
    temporary_folder,
    upwards,
)

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import Authority
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.approvals.model import Asker
    from humanlayer_agent.approvals.store_interface import Store
    from humanlayer_agent.confine.confinement import Confinement
    from humanlayer_agent.hub.agent_process import LocalHub
    from humanlayer_agent.hub.hub import Hub, Task
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.policy.director import Director
    from humanlayer_agent.policy.language.policy import Policy
    from humanlayer_agent.policy.layers import Layer
    from humanlayer_agent.policy.layers.catalog_files import Catalogs
    from humanlayer_agent.shell import Baseline, DiskReader, View

    G = TypeVar("G", bound="Gate")

_warned: set[str] = set()
"""Files of which somebody was told that they are ignored."""


def find_project(start: Path | str | None = None) -> Path:
    """The directory an agent works for: the git top level above `start` (default: here), else `start` itself.

    Raises:
        ConfigError: where that is `/`, the home directory or a parent of it, or the folder for temporary files:
            a project that contains everything protects nothing.
    """
    return Path(_project_of(_absolute(start)))


def checked_project(path: Path | str) -> Path:
    """`path` as an absolute project directory (it may not exist). Raises ConfigError for a file, or one too wide."""
    return Path(_checked(_absolute(path)))


def _absolute(path: Path | str | None) -> str:
    """`path`, or where we are, as `pathlib` makes it absolute: `..` stays."""
    if isinstance(path, str) and path.startswith("/"):
        return spelled(path)
    return str(Path(path).absolute()) if path else spelled(os.getcwd())


def _project_of(start: str) -> str:
    top = next((place for place in upwards(start) if exists(os.path.join(place, ".git"))), None)
    # A repository around the whole home directory (dot files in git) is no project.
    if top is not None and not _too_wide(top):
        return top
    return _checked(start)


def _checked(path: str) -> str:
    project = os.path.normpath(path)
    if reason := _too_wide(project):
        raise ConfigError(
            f"{project} can't be the project: it is {reason}. Start in the directory the agent works for, "
            "or name it with --project DIR."
        )
    if os.path.isfile(project):
        raise ConfigError(f"{project} can't be the project: it is a file. Name its directory with --project DIR.")
    return project


def _too_wide(path: str) -> str:
    home = _absolute(home_folder())
    for candidate in {path, os.path.realpath(path)}:
        if candidate == "/":
            return "the root directory"
        if candidate == home:
            return "the home directory"
        if candidate in upwards(home):
            return "a parent of the home directory"
        if candidate in (_absolute(temporary_folder()), "/tmp", "/var/tmp"):
            return "the folder for temporary files"
    return ""


def _refuse_settings_in(project: str) -> None:
    """Raise ConfigError where the user's settings would be the project's own files: a repository is not the user."""
    folder = config_path()
    if _lies_in(folder, project):
        why = "lies in the project, and would be taken for your own settings: set XDG_CONFIG_HOME to a folder elsewhere"
        raise ConfigError(f"{folder} {why} (a project's own lie in .humanlayer: see hla policy trust)")


def _refuse_state_in(project: str) -> None:
    """Raise ConfigError where the project's own files would say what policies say once they are compiled, those of the
    machine too, which projects are trusted, and with which key is signed.
    """
    kept = {"XDG_STATE_HOME": (state_path(), "policies are"), "XDG_DATA_HOME": (str(key_path().parent), "your key is")}
    for variable, (folder, what) in kept.items():
        if _lies_in(folder, project):
            why = f"lies in the project, and {what} kept there: set {variable} to a folder elsewhere"
            raise ConfigError(f"{folder} {why}, and remove this one")


def _lies_in(folder: str, project: str) -> bool:
    """Tell whether there is such a folder, and it lies in the project, by its name or by links."""
    if not exists(folder):
        return False
    places = {os.path.normpath(folder), os.path.realpath(folder)}
    return any(f"{place}/".startswith(f"{top}/") for place in places for top in {project, os.path.realpath(project)})


def requester() -> str:
    """The stable identity of the person who started the run. (Not by $USER, which anybody may set.)"""
    from humanlayer_agent.processes.identity import os_user

    return os_user()


def build_director(
    policy: "str | Path | Policy | None" = None,
    *,
    project: Path | str | None = None,
    environ: Mapping[str, str] | None = None,
    observe: bool = False,
    tested: bool = True,
    confined: "View | bool" = False,
    reduced: bool = False,
    container: "Confinement | None" = None,
    run: str | None = None,
) -> "Director":
    """The Director for `project`.

    Args:
        policy: a shipped policy's name, or a file, or one that was read: the whole policy. None takes the layers: the
            policies of the machine, of the user and of the project (see `policy.layers`). Catalog files count in both
            cases.
        observe: what it decides is to be recorded only.
        tested: the tests in the policies' own rules must pass; False only to look at policies.
        confined: what it allows runs confined, and in which view of the disk (see `Director`).
        reduced: what it allows is held by Landlock alone.
        container: everything runs in a container, which lets it reach this.
        run: names the run that the actions belong to: what was the project's own when it began is kept by that. None:
            they belong to none.

    Raises:
        PolicyError: a policy can't be found, has a mistake or fails its own tests (file:line:column and what was
            expected).
    """
    from humanlayer_agent.confine.repository import repository_folder
    from humanlayer_agent.policy.director import Director
    from humanlayer_agent.policy.language import loader
    from humanlayer_agent.policy.language.policy import Policy
    from humanlayer_agent.policy.layers import Layer
    from humanlayer_agent.policy.layers.catalog_files import find_catalogs
    from humanlayer_agent.policy.run_record import RunRecord, known_baseline

    base = _judged(project)
    record = RunRecord(base, run) if run is not None else None
    baseline = record.baseline if record is not None else known_baseline(base)
    reader, reads = readable(base, environ, confined=confined, reduced=reduced, baseline=baseline)
    variables = {"REPOSITORY": repository_folder(base)} if confined else None
    if isinstance(policy, Policy):
        layers, observe = [Layer(policy, "given")], observe or policy.observe
    elif policy is not None:
        found = loader.load(loader.named(policy), tested=tested, variables=tuple(variables or ()))
        layers, observe = [Layer(found, "given")], observe or found.observe
    else:
        layers, observe = _layers(base, observe, tested)
    return Director(
        layers, project=base, environ=environ, variables=variables, observe=observe, reader=reader,
        confined=confined, reduced=reduced, reads=reads, container=container, record=record,
        catalogs=find_catalogs(base, layers),
    )  # fmt: skip


def catalogs_in_force(project: Path | str | None = None, *, trusting: bool = False) -> "Catalogs":
    """Return what is known of programs here: the shipped catalog, with the files of machine, user and project in force.

    Args:
        project: the directory the agent works for; None: the one around here, if there is one.
        trusting: take the project's files as if a human had trusted them, to look at them.

    Raises:
        PolicyError: a policy or a catalog file has a mistake.
    """
    from humanlayer_agent.policy.layers import find_layers
    from humanlayer_agent.policy.layers.catalog_files import find_catalogs, folders

    try:
        base: str | None = _judged(project)
    except ConfigError:
        if project is not None:
            raise
        base = None
    if not any(os.path.lexists(folder) for _, folder in folders(base)):
        return find_catalogs(base)
    return find_catalogs(base, find_layers(base or os.getcwd(), tested=False), trusting=trusting)


def confines(policy: str | Path | None = None, *, project: Path | str | None = None, observe: bool = False) -> bool:
    """Tell whether policies are enforced, and say to what the commands that they allow are confined.

    Args:
        policy, project, observe: as for `build_director`.

    Raises:
        PolicyError: a policy can't be found, has a mistake or fails its own tests.
    """
    from humanlayer_agent.policy.language import loader

    if policy is not None:
        found = loader.load(loader.named(policy))
        return not (observe or found.observe) and bool(found.defaults.confine)
    layers, observe = _layers(_judged(project), observe)
    return not observe and any(layer.base and layer.policy.defaults.confine for layer in layers)


def _judged(project: Path | str | None) -> str:
    """The project, where what is judged for it is not said by its own files."""
    found = _checked(_absolute(project)) if project is not None else _project_of(_absolute(None))
    _refuse_state_in(found)
    return found


def _layers(base: str, observe: bool, tested: bool = True) -> "tuple[list[Layer], bool]":
    """The policies of the machine, of the user and of the project, and whether they are only observed."""
    from humanlayer_agent.policy.layers import find_layers, observed

    _refuse_settings_in(base)
    layers = find_layers(base, tested=tested)
    return layers, observed(layers, observe)


def readable(
    project: str,
    environ: Mapping[str, str] | None = None,
    *,
    confined: "View | bool",
    reduced: bool = False,
    baseline: "Baseline | None" = None,
) -> "tuple[DiskReader, tuple[str, ...]]":
    """Return what gives a Director the files of commands, and what held ones can read besides what policies say."""
    from humanlayer_agent.shell import DiskReader

    reader = DiskReader(project, baseline=baseline)
    if not (confined or reduced):
        return reader, ()
    from humanlayer_agent.confine.environment import toolchain_reads
    from humanlayer_agent.confine.repository import repository_folder, worktree_links

    reads = toolchain_reads(os.environ if environ is None else environ, project)
    if (repository := repository_folder(project)) != project:
        reads += (f"{repository}/**",)
    return reader, (*reads, *worktree_links(repository))


def build_asker(
    user: Any = None, key: "Callable[[], Signer | None]" = lambda: None, bell: "Callable[[], bool]" = lambda: False
) -> "Asker":
    """The channel that asks: `user` (an object with `query`, or an Asker), else the terminal.

    Args:
        key: gives the signing key whose passphrase the terminal asks for where others can type there too.
        bell: tells whether the terminal rings when it asks.
    """
    if user is None:
        from humanlayer_agent.channels.terminal import TerminalAsker

        return TerminalAsker(key, bell)
    if hasattr(user, "ask"):
        asker: Asker = user
        return asker
    from humanlayer_agent.channels.user_object import UserAsker

    return UserAsker(user, assurance="login")  # the program that hands it over vouches for who is behind it


def build_authority(
    channels: str | Path | None = None,
    *,
    project: Path | str | None = None,
    asker: "Asker | None" = None,
    timeout_ms: int | None = None,
    valid_for_ms: int | None = None,
) -> "Authority | None":
    """Return the authority that the channels files describe; None where there is no such file: then who started the run
    may decide.

    Args:
        channels: one file that is the whole, instead of all others.
        project: its file counts once a human has trusted it; until then a warning says that it does not.
        asker: brings answers of whoever started the run under its `identities` too.
        timeout_ms, valid_for_ms: for the shipped route, where no file has a "default" of its own.

    Raises:
        ConfigError: a file can't be read or has a mistake.
    """
    from humanlayer_agent.channels import settings

    if channels is None and project is not None:
        _refuse_settings_in(os.path.normpath(_absolute(project)))
    if channels is None and not any(settings.exists(path) for _, path in settings.places(project)):
        return None
    found = settings.load(project, file=channels)
    for path in found.ignored:
        _warn_ignored(path)
    if not found.files:
        return None
    from humanlayer_agent.channels.settings.authority_loader import authority_of

    also = getattr(asker, "identities", ())
    return authority_of(found, requester(), *also, timeout_ms=timeout_ms, valid_for_ms=valid_for_ms)


def build_signer(authority: "Authority | None") -> "Signer | None":
    """The user's own key, locked, where there is one and `authority` names signers; else None.

    It vouches for answers that other processes bring. What is answered in a run's own process is signed with a key that
    only that process has.
    """
    from humanlayer_agent.channels.settings import exists

    if authority is None or not authority.signers or not exists(key_path()):
        return None
    from humanlayer_agent.channels.settings.authority_loader import ListedSigner

    return ListedSigner(key_path(), authority.signers)


def unlocked_signer(authority: "Authority", *, project: Path | str | None = None) -> "Signer":
    """The user's own key, after its passphrase was asked for (see `channels.unlocking`): what a hub signs with.

    Raises:
        ConfigError: there is no key that may sign answers, or it is still locked.
    """
    from humanlayer_agent.keys.unlock import unlock

    signer = build_signer(authority)
    if signer is None:
        raise ConfigError(
            "answers that come by a channel are signed, and no key of yours may: run hla init, which makes one and "
            "names it under `signers:` of your channels.yaml"
        )
    _ = signer.fingerprint  # a key that may not sign is an error before anybody types a passphrase
    unlock(signer, project=Path(project) if project else None)
    return signer


def build_hub(
    store: "Store",
    authority: "Authority",
    signer: "Callable[[], Signer]",
    *,
    channels: str | Path | None = None,
    project: Path | str | None = None,
    only_ready: bool = False,
    tasks: "Sequence[Task]" = (),
    say: Callable[[str, str], None] = lambda channel, line: None,
    watched: bool = False,
) -> "Hub | None":
    """A hub for every channel that a route names; None where there is none.

    Args:
        signer: gives the unlocked key that signs answers; called once everything else is known to be there.
        channels, project: as for `build_authority`.
        only_ready: leave out what this process lacks the secrets for; otherwise each of that is an error.
        watched: see `Hub`.

    Raises:
        ConfigError: a file has a mistake, a secret is not set, what a channel needs is not installed, or there is no
            key that may sign answers.
    """
    from humanlayer_agent.channels import registry, settings
    from humanlayer_agent.hub.hub import Hub
    from humanlayer_agent.store.log_heads import note_signers

    found = settings.load(project, file=channels)
    names = registry.served(found)
    if only_ready:
        names = tuple(name for name in names if not registry.missing(name, found))
    if not names:
        return None
    for name in names:
        registry.check(name, found)
    own = signer()
    note_signers(store, authority.signers)
    return Hub(
        store,
        names,
        lambda name: registry.build(name, found, signer=own),
        authority,
        own,
        tasks=tasks,
        say=say,
        watched=watched,
    )


def _warn_ignored(path: str) -> None:
    """Say once that a repository's own file does not say who may decide."""
    if path in _warned:
        return
    _warned.add(path)
    import logging  # not above: `check` does without it

    logging.getLogger("humanlayer_agent").warning(
        "Warning: %s is ignored: nobody has trusted it (hla policy trust shows it first).", path
    )


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
    channels: str | Path | None = None,
    authority: "Authority | None" = None,
    signer: "Signer | None" = None,
    signers: Collection[str] | None = None,
    kind: "type[G] | None" = None,
    **limits: Any,
) -> "G":
    """A Gate with its Director, store and channel.

    Args:
        director: anything with `evaluate(action)`; None builds one from `policy`, `observe` and `project` (see
            `build_director`).
        user: the seed design's `user.query(prompt, options=[...])` object; None asks at the terminal.
        asker: a channel, instead of `user`.
        store: a Store, or where one is (`store.access`); None is the user's own store.
        channels: a channels file that is the whole; None takes those of the machine, of the user, and of a project that
            is trusted.
        authority: who may decide, as Gate takes it, instead of what channels files say.
        signer: the key that vouches for answers by `asker`; one that only this process has where it is None.
        signers: of the keys that channels files name, no others count (None: all do).
        kind: the class of the Gate; None is that of `approvals.gate`.
        limits: `timeout_ms`, `valid_for_ms`, `use_by_ms`, `max_denials`, `reach`, `keeper`, `durable`, as Gate takes
            them. A channel that a route names is served by this process where it has its secrets and the unlocked key,
            and no other does.

    Raises:
        PolicyError: a policy has a mistake, or names a route that no channels file has (file:line:column).
        ConfigError: a channels file can't be read or has a mistake.
    """
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.store.access import open_store
    from humanlayer_agent.store.log_heads import note_signers

    if director is None:
        director = build_director(policy, project=project, observe=observe)
    if store is None or isinstance(store, str | Path):
        store = open_store(store or None)
    is_here = asker is None and user is None
    place = project or getattr(director, "project", None)
    if asker is None:  # who may sign is known by the first question
        asker = build_asker(user, lambda: build_signer(authority), lambda: _rings(channels, place))
    if authority is None:
        authority = build_authority(
            channels,
            project=place,
            asker=asker,
            timeout_ms=limits.get("timeout_ms"),
            valid_for_ms=limits.get("valid_for_ms"),
        )
        if authority is not None:
            note_signers(store, authority.signers)
            authority = authority if signers is None else authority.limited_to(signers)
        if authority is not None and "reach" not in limits:
            limits["reach"] = _reach(store, authority, channels, place, asked=is_here)
    made = cast("type[G]", kind or Gate)
    gate = made(
        director,
        store,
        asker,
        run_id=run_id,
        agent=agent,
        requester=requester(),
        authority=authority,
        signer=signer,
        **limits,
    )
    if layers := getattr(director, "layers", ()):
        from humanlayer_agent.policy.language.routes import check_routes

        check_routes([layer.policy for layer in layers], gate.authority.routes)
    return gate


def _rings(channels: str | Path | None, project: Path | str | None) -> bool:
    """Tell whether the channels files have the terminal ring."""
    from humanlayer_agent.channels import settings

    found = settings.load(project, file=channels).channels.values()
    return any(each.type == "terminal" and each.bell for each in found)


def _reach(
    store: "Store", authority: "Authority", channels: str | Path | None, project: Path | str | None, *, asked: bool
) -> "LocalHub | None":
    """Return what serves the channels of the routes from this process; None where it serves none.

    That takes the secrets of a channel and the unlocked key. Where a human is at this process's terminal, and no other
    process serves those channels, the passphrase is asked for now: later the terminal may be somebody else's.
    """
    from humanlayer_agent.channels import registry, settings

    found = settings.load(project, file=channels)
    names = [name for name in registry.served(found) if not registry.missing(name, found)]
    signer = build_signer(authority)
    if not names or signer is None:
        return None
    asks = asked and not os.environ.get(PASSPHRASE_VARIABLE)
    if asks and all(store.surfaces.lease(name) for name in names):
        return None
    import logging

    from humanlayer_agent.hub.agent_process import LocalHub
    from humanlayer_agent.keys.unlock import unlock_for_runs

    def failed(why: object) -> None:
        logging.getLogger("humanlayer_agent").warning("Warning: no channel is served from here: %s", why)

    try:
        own = unlock_for_runs(signer, names, asked=asked, project=Path(project) if project else None)
    except ConfigError as error:
        failed(error)
        return None
    return LocalHub(
        lambda: build_hub(store, authority, lambda: own, channels=channels, project=project, only_ready=True), failed
    )
