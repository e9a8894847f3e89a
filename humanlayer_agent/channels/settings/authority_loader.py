"""From channels files to who may decide: people, groups and routes as the core knows them."""

import os
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.approvals.authority import ApprovalRule, Authority, OnCall, Person, Routing, Step
from humanlayer_agent.channels.settings import Profiles
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import audit_key_path, home_folder

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import schema

USERGROUP = "slack-usergroup:"
"""What the identity of a Slack user group begins with."""


class ListedSigner(Signer):
    """The key in a file, and only while it is one of those that may sign.

    Whoever can put a file in its place must not make answers by that.

    Args:
        path: the key file.
        signers: the fingerprints that may sign.
    """

    def __init__(self, path: Path, signers: Collection[str]) -> None:
        super().__init__(path)
        self._signers = frozenset(signers)

    @property
    def fingerprint(self) -> str:
        """The name of the key, which must be among the signers.

        Raises:
            ConfigError: the key file can't be used, or may not sign.
        """
        found = super().fingerprint
        if found not in self._signers:
            raise ConfigError(
                f"the key {self.path} is not named under `signers:` of your channels.yaml, nor in a list that it takes"
                ": see hla init and hla doctor"
            )
        return found


def authority_of(
    profiles: Profiles,
    requester: str,
    *also: str,
    timeout_ms: int | None = None,
    valid_for_ms: int | None = None,
) -> Authority:
    """Return the authority that `profiles` describe: who may decide.

    Where they name nobody at all there is one person, who started the run. Where they name people, and the requester is
    none of them, nobody is added: that person might be one of the approvers under an identity that the file leaves out.

    A Slack user group stands for itself among the people: who is in it is for Slack to say (`Approver.groups`).

    Args:
        profiles: what `channels.settings.load` found.
        requester: the principal who started the run.
        also: further principals that are the same person.
        timeout_ms, valid_for_ms: for the shipped route, where no file has a "default" of its own.

    Raises:
        ConfigError: a route could never be met, two people have one identity, or a signer is the audit key.

    Example:
        >>> from humanlayer_agent.channels.settings import load
        >>> authority_of(load(), "os:1000:alice").routes["default"].solo
        True
    """
    _refuse_audit_key(profiles)
    people = {name: Person(name, _identities(person)) for name, person in profiles.people.items()}
    try:
        if not people:
            alone = Authority.alone(requester, *also).people[0]
            people[alone.id] = alone
        elif (own := Authority(tuple(people.values()), {}).person_of(requester)) is not None:
            people[own.id] = replace(own, identities=(*own.identities, *also))
        groups: dict[str, tuple[str, ...]] = {}
        for name, members in profiles.groups.items():
            if isinstance(members, list):
                groups[name] = tuple(members)
            else:
                group = Person(f"group:{name}", (USERGROUP + members.slack_usergroup,))
                people[group.id] = group
                groups[name] = (group.id,)
        routes = {name: _rule(name, route, groups) for name, route in profiles.routes.items()}
        if profiles.stands_in:
            shipped = routes["default"]
            routes["default"] = replace(
                shipped,
                timeout_ms=timeout_ms or shipped.timeout_ms,
                valid_for_ms=valid_for_ms or shipped.valid_for_ms,
            )
        routing = tuple(map(_routing, profiles.routing))
        made = Authority(tuple(people.values()), routes, profiles.signers, routing, glass=profiles.break_glass)
        return replace(made, withdrawn=profiles.fleet.withdrawn) if profiles.fleet is not None else made
    except ConfigError as error:
        files = ", ".join(profiles.files)
        raise ConfigError(f"{files}: {error}" if files else str(error)) from error


def _refuse_audit_key(profiles: Profiles) -> None:
    """It has no passphrase: whatever runs as this user could sign answers with it."""
    counting = profiles.signers | (profiles.fleet.place.settings.signers if profiles.fleet is not None else set())
    if not counting or not os.path.lexists(audit_key_path()):
        return
    try:
        if AuditKey(audit_key_path()).fingerprint not in counting:
            return
    except ConfigError:  # it signs nothing then
        return
    raise ConfigError(
        f"{', '.join(profiles.files)}: one of the signers, or of those who sign a list of them, is the audit key "
        f"({audit_key_path()}). It has no passphrase, "
        "so any command could sign with it: take it out"
    )


def _identities(person: "schema.Person") -> tuple[str, ...]:
    found = (("slack", person.slack), ("email", person.email), ("os", person.os_user), ("app", person.app))
    return tuple(f"{kind}:{who}" for kind, who in found if who is not None)


def _rule(name: str, route: "schema.Route", groups: dict[str, tuple[str, ...]]) -> ApprovalRule:
    return ApprovalRule(
        name,
        _expanded(route.approvers, groups),
        quorum=route.quorum,
        solo=route.solo,
        min_assurance=route.min_assurance,
        usergroup_high=route.usergroup_high,
        timeout_ms=route.timeout,
        valid_for_ms=route.valid_for,
        slow_down_ms=route.slow_down or 0,
        second_after=route.second_after or 0,
        steps=tuple(
            Step(step.to, step.after, _expanded(step.approvers or (), groups), _on_call(step)) for step in route.steps
        ),
    )


def _routing(one: "schema.Routing") -> Routing:
    folders = (str(Path(home_folder()) / path[2:]) if path.startswith("~/") else path for path in one.project)
    return Routing(one.route, tuple(map(os.path.realpath, folders)), tuple(one.severity), tuple(one.agent))


def _on_call(step: "schema.Step") -> OnCall | None:
    source = step.on_call
    return OnCall(source.file or "", tuple(source.command or ())) if source is not None else None


def _expanded(names: "list[str] | tuple[()]", groups: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The people whom `names` mean, each once, in order."""
    found: dict[str, None] = {}
    for name in names:
        kind, separator, group = name.rpartition(":")
        members = groups[group] if kind == "group" and separator else (name,)
        found |= dict.fromkeys(members)
    return tuple(found)
