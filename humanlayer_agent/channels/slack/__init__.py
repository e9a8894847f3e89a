"""Approvals in Slack, over Socket Mode (no public address is needed), or by requests to an address of the team's."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.channels.settings.schema import Slack
    from humanlayer_agent.channels.slack.channel import SlackChannel
    from humanlayer_agent.channels.slack.envelopes import Handle, Receives
    from humanlayer_agent.keys.signing import Signer


def build(
    name: str, settings: "Slack", *, secrets: Mapping[str, str], profiles: "Profiles", signer: "Signer | None" = None
) -> "SlackChannel":
    """The channel `name` of a channels file.

    Args:
        secrets: the values of the variables that `settings` names.
        profiles: whose user groups may answer.

    Raises:
        ConfigError: a token is of the wrong kind, or two Slack teams are named.
    """
    from humanlayer_agent.channels.slack.api import SlackApi
    from humanlayer_agent.channels.slack.channel import SlackChannel

    app_token = settings.app_token_env or ""
    api = SlackApi(
        bot_token=secrets[settings.bot_token_env],
        app_token=secrets[app_token] if app_token else None,
        bot_variable=settings.bot_token_env,
        app_variable=app_token,
        url=settings.api_url,
        channel=settings.post_to,
    )
    groups = [group.slack_usergroup for group in profiles.groups.values() if not isinstance(group, list)]
    return SlackChannel(
        name,
        api,
        settings.post_to,
        usergroups=groups,
        connections=settings.connections,
        pace=settings.pace,
        receiver=_receiver(settings, secrets),
        schedule=settings.digest.schedule if settings.digest else None,
        digest_to=settings.digest.post_to or "" if settings.digest else "",
    )


def _receiver(settings: "Slack", secrets: Mapping[str, str]) -> "Callable[[Handle], Receives] | None":
    """Return what makes the receiver of requests; None where Socket Mode is used."""
    if settings.signing_secret_env is None:
        return None
    from functools import partial

    from humanlayer_agent.channels.slack.http_mode import Address, RequestReceiver

    variable = settings.signing_secret_env
    peers = frozenset(str(peer) for peer in settings.peers)
    return partial(RequestReceiver, Address(settings.listen, settings.path, peers, secrets[variable], variable))
