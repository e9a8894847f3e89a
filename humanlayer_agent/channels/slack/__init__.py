"""Approvals in Slack, over Socket Mode: no public address is needed."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.channels.settings.schema import Slack
    from humanlayer_agent.channels.slack.channel import SlackChannel
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

    api = SlackApi(
        bot_token=secrets[settings.bot_token_env],
        app_token=secrets[settings.app_token_env],
        bot_variable=settings.bot_token_env,
        app_variable=settings.app_token_env,
        url=settings.api_url,
        channel=settings.post_to,
    )
    groups = [group.slack_usergroup for group in profiles.groups.values() if not isinstance(group, list)]
    return SlackChannel(
        name, api, settings.post_to, usergroups=groups, connections=settings.connections, pace=settings.pace
    )
