"""Channels files: people, groups, channels and routes, from the machine, the user, and a project that is trusted.

A repository may not choose its judges: a project's file counts only once a human has trusted exactly its text. A name
that a higher file defines is not defined again by a lower one.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from humanlayer_agent.errors import ConfigError, did_you_mean
from humanlayer_agent.locations import MACHINE_FOLDER, PROJECT_FOLDER, config_folder
from humanlayer_agent.policy.language import sources, yaml_positions

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings.schema import (
        Channel,
        Person,
        Profile,
        Route,
        Routing,
        SignerSource,
        UserGroup,
    )
    from humanlayer_agent.keys.signer_list import FleetSigners, SignerList
    from humanlayer_agent.policy.layers.installation import Installation

FILE = "channels.yaml"
MAX_EXTENDS = 8
SHIPPED = ("terminal", "slack", "slack-http", "email", "web")
"""The channels files that ship: `extends: [builtin:NAME]`."""
_HOLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
_OWN_SECRETS = {"slack": ("SLACK_",), "email": ("SMTP_", "IMAP_", "EMAIL_", "MAIL_"), "webhook": ("WEBHOOK_",)}
"""What the names of a channel type's secret variables begin with, unless the user's own file lists others."""
_KINDS = ("people", "groups", "channels", "routes")


@dataclass(frozen=True, slots=True)
class Profiles:
    """The settings of all channels files together. `files` are those that took part, the highest authority first.

    `ignored` are files that did not: a project's that nobody has trusted. `stands_in` says that no file has a route
    "default", so that the shipped one stands in. `fleet` is the signed list that the signers are taken from, and
    `uncounted` are keys that files name and do not count, because of it.
    """

    people: "Mapping[str, Person]"
    groups: "Mapping[str, list[str] | UserGroup]"
    channels: "Mapping[str, Channel]"
    routes: "Mapping[str, Route]"
    signers: frozenset[str]
    break_glass: tuple[str, ...] = ()
    routing: "tuple[Routing, ...]" = ()
    files: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    stands_in: bool = False
    fleet: "FleetSigners | None" = None
    uncounted: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Merged:
    """Definitions by kind and name, each with the document and path it stands at."""

    found: dict[str, dict[str, Any]] = field(default_factory=lambda: {kind: {} for kind in _KINDS})
    places: dict[tuple[str, str], yaml_positions.Document] = field(default_factory=dict)
    signers: set[str] = field(default_factory=set)
    uncounted: set[str] = field(default_factory=set)
    source: "SignerSource | None" = None
    source_folder: Path | None = None
    break_glass: "list[tuple[yaml_positions.Document, int, str]]" = field(default_factory=list)
    routing: "list[tuple[yaml_positions.Document, int, Routing]]" = field(default_factory=list)
    secrets: set[str] = field(default_factory=set)
    files: list[str] = field(default_factory=list)

    def add(self, document: yaml_positions.Document, profile: "Profile") -> None:
        """Take over what `profile` defines: a file stands above what it extends."""
        for kind in _KINDS:
            for name, value in getattr(profile, kind).items():
                self.found[kind][name] = value
                self.places[kind, name] = document
        if isinstance(profile.signers, list):
            self.signers |= set(profile.signers)
        else:
            self.source = profile.signers
        self.break_glass += ((document, n, each) for n, each in enumerate(profile.break_glass))
        self.routing = [*((document, n, each) for n, each in enumerate(profile.routing)), *self.routing]
        self.secrets |= set(profile.secrets)
        self.files.append(document.name)


def load(
    project: Path | str | None = None,
    *,
    file: Path | str | None = None,
    machine: Path | None = None,
    trusting: bool = False,
) -> Profiles:
    """The channels files in force.

    Args:
        project: the directory the agent works for: its own file counts where a human has trusted it.
        file: one file that is the whole, instead of all others.
        machine: the folder of the machine's settings; the usual one where it is None.
        trusting: take the project's file as if a human had trusted it, to see whether it could be used.

    Raises:
        ConfigError: a file can't be read or has a mistake (`file:line:column`), or others may write it.

    Example:
        >>> sorted(load().routes)  # with no file at all: the terminal, and who started the run
        ['default']
    """
    merged, ignored = _Merged(), []
    if file is not None:
        _take_own(merged, "", Path(file), machine)
    else:
        for authority, path in places(project, machine=machine):
            if not exists(path):
                continue
            if authority != "project":
                _take_own(merged, authority, path, machine)
            elif (content := _trusted_content(path, trusting)) is not None:
                _take(merged, path, signs=False, content=content)
            else:
                ignored.append(str(path))
    stands_in = "default" not in merged.found["routes"]
    if stands_in:
        builtin = _Merged()
        _take(builtin, _shipped("terminal"), signs=False)
        merged.places = builtin.places | merged.places
        merged.found = {kind: builtin.found[kind] | merged.found[kind] for kind in _KINDS}
    _check_references(merged)
    found, fleet = merged.found, None
    if (place := _signer_list(merged, machine)) is not None:
        from humanlayer_agent.keys.signer_list import FleetSigners

        fleet = FleetSigners(place)
        merged.signers |= fleet.keys
    return Profiles(
        found["people"], found["groups"], found["channels"], found["routes"], frozenset(merged.signers),
        tuple(dict.fromkeys(who for _, _, who in merged.break_glass)), tuple(each for _, _, each in merged.routing),
        tuple(merged.files), tuple(ignored), stands_in, fleet, frozenset(merged.uncounted - merged.signers),
    )  # fmt: skip


def signer_list(file: Path | str | None = None, *, machine: Path | None = None) -> "Installation[SignerList] | None":
    """Return where the signed list lies that signers are taken from, whether it counts or not; None where no channels
    file takes one.

    Args:
        file, machine: as for `load`. A project's file has no say.

    Raises:
        ConfigError: a file can't be read or has a mistake.
    """
    merged = _Merged()
    for authority, path in [("", Path(file))] if file is not None else places(None, machine=machine):
        if file is not None or exists(path):
            _take_own(merged, authority, path, machine)
    return _signer_list(merged, machine)


def places(project: Path | str | None, *, machine: Path | None = None) -> list[tuple[str, Path]]:
    """Return where each authority's channels file is, the highest first."""
    found = [("machine", Path(machine or MACHINE_FOLDER) / FILE), ("user", config_folder() / FILE)]
    return [*found, ("project", Path(project) / PROJECT_FOLDER / FILE)] if project is not None else found


def exists(path: Path) -> bool:
    """Tell whether there is something at `path`. What can't be looked at, or leads nowhere, is not taken for
    missing.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error
    return True


def trust_key(path: Path, content: bytes | None = None) -> str:
    """Return what is remembered when a human trusts the project's channels file: SHA-256 over its place and its bytes.

    Args:
        content: the bytes that the human saw; those of the file where it is None.
    """
    return hashlib.sha256(
        os.path.realpath(path).encode("utf-8", "surrogateescape")
        + b"\0"
        + (sources.read(path) if content is None else content)
    ).hexdigest()


def is_trusted(path: Path, content: bytes | None = None) -> bool:
    """Tell whether this user has trusted exactly this file. `content`: see `trust_key`."""
    from humanlayer_agent.locations import read_own_json

    found = read_own_json(trust_place(path))
    return found is not None and found.get("digest") == trust_key(path, content)


def trust_place(path: Path) -> Path:
    """The file that says so, outside the project."""
    from humanlayer_agent.locations import state_folder

    name = hashlib.sha256(os.path.realpath(path).encode("utf-8", "surrogateescape")).hexdigest()
    return state_folder() / "trusted" / f"{name}-channels.json"


def withdraw(path: Path) -> bool:
    """Trust the project's channels file no longer. False where it was not trusted."""
    try:
        trust_place(path).unlink()
    except FileNotFoundError:
        return False
    return True


# ---- reading ----------------------------------------------------------------------------------------


def _trusted_content(path: Path, trusting: bool) -> bytes | None:
    """The bytes of a project's file, where it counts. It is read once: what is used is what was compared."""
    try:
        content = sources.read(path)
    except ConfigError:
        if trusting:
            raise
        return None
    return content if trusting or is_trusted(path, content) else None


def _take_own(merged: _Merged, authority: str, path: Path, machine: Path | None) -> None:
    """Add the machine's file, the user's, or one that was named by itself (`authority` is "" then)."""
    if authority:
        _check_owner(path, machine=authority == "machine")
    # One that was named may be one of those two: a signed list lies beside it as well.
    own = {os.path.realpath(each): each.parent for _, each in places(None, machine=machine)}
    _take(merged, path, signs=True, folder=own.get(os.path.realpath(path), config_folder()))


def _signer_list(merged: _Merged, machine: Path | None) -> "Installation[SignerList] | None":
    if merged.source is None or merged.source_folder is None:
        return None
    from humanlayer_agent.keys.signer_list import installation
    from humanlayer_agent.policy.layers.installation import Settings

    said = Settings(merged.source.fleet, frozenset(merged.source.signed_by), merged.source.source or "")
    of_machine = merged.source_folder == Path(machine or MACHINE_FOLDER)
    return installation(said, merged.source_folder, machine=of_machine)


def _take(
    merged: _Merged, path: Path, *, signs: bool, content: bytes | None = None, folder: Path | None = None
) -> None:
    """Add the file `path` (or `content`, which was read from it), with what it extends.

    Args:
        signs: it may say who signs. folder: then a signed list of those lies there.
    """
    one = _Merged()
    _read(one, path, (), {}, content)
    allowed = one.secrets if signs else set()
    if not signs:
        _refuse_on_call(one)
        _refuse_webhooks(one)
    for (kind, name), document in one.places.items():
        if kind == "channels":
            _check_secrets(document, name, one.found[kind][name], allowed)
        if (kind, name) in merged.places:
            raise document.error((kind, name), f"{kind}.{name} is defined by {merged.places[kind, name].name} already")
        merged.found[kind][name] = one.found[kind][name]
        merged.places[kind, name] = document
    if (one.signers or one.source) and not signs:
        raise ConfigError(f"{path}: signers: only the machine's or the user's own file may name them")
    if one.break_glass and not signs:
        raise ConfigError(f"{path}: break_glass: only the machine's or the user's own file may name them")
    if one.routing and not signs:
        document, n, _ = one.routing[0]
        why = "only the machine's or the user's own file may say which route requests take"
        raise document.error(("routing", n), why)
    if merged.source is not None:  # the list of a higher file is all there is
        merged.uncounted |= one.signers
    else:
        merged.signers |= one.signers
        merged.source, merged.source_folder = one.source, folder if one.source else None
    merged.break_glass += one.break_glass
    merged.routing += one.routing
    merged.files += one.files


def _read(
    merged: _Merged, path: Path, above: tuple[Path, ...], values: Mapping[str, str], content: bytes | None = None
) -> None:
    """Add `path` to `merged`: first what it extends, filled with the `values` that the files above set."""
    from humanlayer_agent.channels.settings.schema import check

    if path in above or len(above) >= MAX_EXTENDS:
        raise ConfigError(f"{path}: extends itself, or more than {MAX_EXTENDS} files deep")
    document = yaml_positions.decode(sources.read(path) if content is None else content, _name(path))
    data = document.data if isinstance(document.data, dict) else {}
    own = data.get("set")
    given = own.items() if isinstance(own, dict) else ()
    values = {**{k: v for k, v in given if isinstance(v, str)}, **values}
    filled = yaml_positions.Document(
        document.name, document.text, _filled(document, document.data, values, ()), document.positions
    )
    profile = check(filled)
    for n, name in enumerate(profile.extends):
        if not name.startswith(sources.BUILTIN):
            raise document.error(("extends", n), f"{name!r}: expected builtin:NAME ({', '.join(SHIPPED)})")
        try:
            base = _shipped(name.removeprefix(sources.BUILTIN))
        except ConfigError as error:
            raise document.error(("extends", n), str(error)) from None
        _read(merged, base, (*above, path), values)
    merged.add(filled, profile)


def _filled(
    document: yaml_positions.Document, value: Any, values: Mapping[str, str], path: tuple[str | int, ...]
) -> Any:
    """`value` with every `${NAME}` replaced. A hole that stays open is an error."""
    if isinstance(value, dict):
        return {
            k: v if path == () and k == "set" else _filled(document, v, values, (*path, k)) for k, v in value.items()
        }
    if isinstance(value, list):
        return [_filled(document, item, values, (*path, n)) for n, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise document.error(path, f"${{{match[1]}}} is still open: give it under `set:` in your own file")
        return values[match[1]]

    return _HOLE.sub(fill, value)


def _shipped(name: str) -> Path:
    from humanlayer_agent.locations import data_file

    if not name.replace("-", "").isalnum():
        raise ConfigError(f"{name!r} is no name of a shipped channels file")
    return data_file("channels", f"{name}.yaml")


def _name(path: Path) -> str:
    return f"{sources.BUILTIN}{path.stem}" if path.parent.name == "channels" and path.stem in SHIPPED else str(path)


# ---- checks -----------------------------------------------------------------------------------------


def _check_references(merged: _Merged) -> None:
    """Every name that is used is defined."""
    found = merged.found
    for name, group in found["groups"].items():
        for n, member in enumerate(group if isinstance(group, list) else ()):
            if member not in found["people"]:
                raise merged.places["groups", name].error(
                    ("groups", name, n), f"nobody is called {member!r} under people"
                )
    _check_listed(merged)
    for name, channel in found["channels"].items():
        if channel.type == "webhook" and getattr(found["channels"].get(channel.inbox), "type", "") != "web":
            why = f"{channel.inbox!r} is no channel of type web: answers to a webhook are given there"
            raise merged.places["channels", name].error(("channels", name, "inbox"), why)
    for name, route in found["routes"].items():
        document = merged.places["routes", name]
        _check_webhooks(document, name, route, found["channels"])
        for n, who in enumerate(route.approvers):
            _check_approver(document, ("routes", name, "approvers", n), who, found)
        for n, step in enumerate(route.steps):
            at = ("routes", name, "steps", n)
            if step.to not in found["channels"]:
                known = did_you_mean(step.to, found["channels"], "channels here:")
                raise document.error((*at, "to"), f"there is no channel {step.to!r}; {known}")
            if step.on_call is not None and found["channels"][step.to].type == "terminal":
                raise document.error((*at, "on_call"), "a terminal asks whoever is there: leave on_call out")
            for m, who in enumerate(step.approvers or ()):
                _check_approver(document, (*at, "approvers", m), who, found)


def _check_listed(merged: _Merged) -> None:
    """Everybody who is named for emergencies, and each route that requests are led to, is there."""
    found = merged.found
    for document, n, who in merged.break_glass:
        if who not in found["people"]:
            known = did_you_mean(who, found["people"], "people here:")
            raise document.error(("break_glass", n), f"nobody is called {who!r} under people; {known}")
    for document, n, routing in merged.routing:
        if routing.route not in found["routes"]:
            known = did_you_mean(routing.route, found["routes"], "routes here:")
            raise document.error(("routing", n, "route"), f"there is no route {routing.route!r}; {known}")


def _check_webhooks(document: yaml_positions.Document, name: str, route: Any, channels: Mapping[str, Any]) -> None:
    """Whoever is told by a webhook can answer by then: in the inbox that its link leads to."""
    shown = {step.to: step.after for step in sorted(route.steps, key=lambda step: step.after, reverse=True)}
    for n, step in enumerate(route.steps):
        channel = channels.get(step.to)
        if channel is not None and channel.type == "webhook" and shown.get(channel.inbox, step.after + 1) > step.after:
            why = f"a webhook can't be answered: add {{to: {channel.inbox}}} to the steps, not later than this one"
            raise document.error(("routes", name, "steps", n, "to"), why)


def _check_approver(
    document: yaml_positions.Document, at: tuple[str | int, ...], who: str, found: Mapping[str, Any]
) -> None:
    kind, _, name = who.rpartition(":")
    known = found["groups"] if kind == "group" else found["people"]
    if kind not in ("", "group") or name not in known:
        what = "group" if kind == "group" else "person"
        raise document.error(at, f"{who!r}: there is no such {what}; {did_you_mean(name, known, 'known:')}")


def _refuse_on_call(one: _Merged) -> None:
    """A repository names no file and no program of the user's that says who is told."""
    for name, route in one.found["routes"].items():
        for n, step in enumerate(route.steps):
            if step.on_call is not None:
                at = ("routes", name, "steps", n, "on_call")
                why = "only the machine's or the user's own file may say where it stands who is on call"
                raise one.places["routes", name].error(at, why)


def _refuse_webhooks(one: _Merged) -> None:
    """A repository names no address that is told of every request."""
    for name, channel in one.found["channels"].items():
        if channel.type == "webhook":
            why = "only the machine's or the user's own file may name an address that is told of requests"
            raise one.places["channels", name].error(("channels", name, "url"), why)


def _check_secrets(document: yaml_positions.Document, name: str, channel: Any, allowed: set[str]) -> None:
    """Each type takes only its own secrets: a file must not send another program's password to a strange host."""
    begins = _OWN_SECRETS.get(channel.type, ())
    for path, variable in secret_variables(channel):
        if not variable.startswith(begins) and variable not in allowed:
            known = " or ".join(f"{b}..." for b in begins)
            raise document.error(
                ("channels", name, *path),
                f"{variable}: a channel of type {channel.type} takes {known}; "
                "list others under `secrets:` in your own file",
            )


def secret_variables(model: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """The environment variables that a channel takes its secrets from, each with where it is named."""
    for key in type(model).model_fields:
        value = getattr(model, key)
        if hasattr(value, "model_fields_set"):
            yield from secret_variables(value, (*path, key))
        elif key.endswith("_env") and isinstance(value, str):
            yield (*path, key), value


def _check_owner(path: Path, *, machine: bool) -> None:
    from humanlayer_agent.policy.layers.trust import check_owner

    check_owner(path, machine=machine)
