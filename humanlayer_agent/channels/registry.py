"""The programs behind the types of channels. Each is imported only when such a channel is used."""

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, cast

from humanlayer_agent.errors import ConfigError, did_you_mean
from humanlayer_agent.extras import lacks

if TYPE_CHECKING:
    from humanlayer_agent.channels.contract import Channel, Factory
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.keys.signing import Signer

FACTORIES: Mapping[str, str] = {
    "slack": "humanlayer_agent.channels.slack:build",
    "email": "humanlayer_agent.channels.mail:build",
    "web": "humanlayer_agent.channels.web:build",
    "webhook": "humanlayer_agent.channels.webhook:build",
}
"""Types of channels that the hub serves, and what builds one: `module:function`. (The terminal asks in the agent's own
process, and is no channel of the hub.)"""
_NEEDED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "slack": ("slack", ("slack_sdk", "websockets")),
    "email": ("mail", ("imapclient",)),
    "web": ("web", ("starlette", "uvicorn")),
    "webhook": ("web", ()),
}
"""By type: the extra of pyproject.toml that it needs, and the modules which that brings."""


def served(profiles: "Profiles") -> tuple[str, ...]:
    """The channels that the hub is to serve: those that a route names, in the order of the steps, and web inboxes.

    Links in mails lead to an inbox, whether or not a route names it.
    """
    steps = [step for route in profiles.routes.values() for step in route.steps]
    names = dict.fromkeys(step.to for step in sorted(steps, key=lambda step: step.after))
    names |= dict.fromkeys(name for name, settings in profiles.channels.items() if settings.type == "web")
    return tuple(name for name in names if name in profiles.channels and profiles.channels[name].type in FACTORIES)


def missing(name: str, profiles: "Profiles", environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The environment variables that the channel `name` takes its secrets from, and that are not set."""
    given = os.environ if environ is None else environ
    return tuple(variable for variable in _variables(profiles.channels[name]) if not given.get(variable))


def _variables(settings: object) -> tuple[str, ...]:
    from humanlayer_agent.channels.settings import secret_variables

    return tuple(variable for _, variable in secret_variables(settings))


def build(
    name: str, profiles: "Profiles", environ: Mapping[str, str] | None = None, *, signer: "Signer | None" = None
) -> "Channel":
    """The channel `name` of the channels files, with its secrets read from the environment.

    Args:
        signer: the user's key, unlocked, for channels that make tokens with it.

    Raises:
        ConfigError: there is no such channel, its type can't be served here, or a secret is not set.
    """
    factory, given = check(name, profiles, environ), os.environ if environ is None else environ
    settings = profiles.channels[name]
    secrets = {variable: given[variable] for variable in _variables(settings)}
    return factory(name, settings, secrets=secrets, profiles=profiles, signer=signer)


def check(name: str, profiles: "Profiles", environ: Mapping[str, str] | None = None) -> "Factory":
    """Return the function that builds the channel `name`.

    Raises:
        ConfigError: as `build`.
    """
    settings = profiles.channels.get(name)
    if settings is None:
        raise ConfigError(f"there is no channel {name!r}; {did_you_mean(name, profiles.channels, 'channels here:')}")
    place = FACTORIES.get(settings.type)
    if place is None:
        raise ConfigError(f"channel {name}: the hub serves {', '.join(FACTORIES)}, and it is of type {settings.type}")
    if lacking := missing(name, profiles, environ):
        raise ConfigError(f"channel {name}: set {' and '.join(lacking)} in the environment of the hub")
    if why := uninstalled(name, profiles):
        raise ConfigError(why)
    module, _, function = place.partition(":")
    return cast("Factory", getattr(import_module(module), function))


def uninstalled(name: str, profiles: "Profiles") -> str:
    """Say what has to be installed before the channel `name` can be served, and how; "" where nothing has."""
    settings = profiles.channels[name]
    extra, modules = _NEEDED[settings.type]
    if getattr(settings, "mode", "") == "http":
        extra, modules = f"{extra},web", (*modules, "uvicorn")
    try:
        for module in modules:
            import_module(module)
    except ImportError as error:
        return lacks(f"channel {name}", extra, error)
    return ""
