"""The health of the Slack channel: does it work, and what is to be mended where it does not."""

from collections.abc import Collection
from typing import Any

from humanlayer_agent.channels.contract import Health
from humanlayer_agent.channels.slack.api import Identity, SlackApi
from humanlayer_agent.channels.slack.envelopes import Reception
from humanlayer_agent.errors import ChannelError

NEEDED = ("chat:write", "files:write", "users:read")
_READS = {"C": ("channels:read", "channels:history"), "G": ("groups:read", "groups:history")}
"""Scopes by what the id of a conversation begins with. (A private channel may begin with C too.)"""


def check(api: SlackApi, channel: str, usergroups: Collection[str], reception: Reception) -> Health:
    """Ask Slack about everything that a delivery and a click need."""
    problems: list[str] = []
    facts: dict[str, Any] = dict(reception.facts)
    try:
        identity = api.ask_identity()
    except ChannelError as error:
        return Health(False, (str(error), *reception.problems), facts)
    facts |= {"team": identity.team, "app": identity.app, "scopes": sorted(identity.scopes)}
    problems += _scope_problems(identity, channel, usergroups)
    problems += _team_problems(identity, usergroups)
    try:
        found = api.call("conversations.info", channel=channel)["channel"]
        facts["channel"] = str(found.get("name") or channel)
        if not found.get("is_member", channel.startswith("D")):
            problems.append(f"the app is not in {channel}: invite it there: /invite @NAME-OF-THE-APP")
        if found.get("is_archived"):
            problems.append(f"the channel {channel} is archived: name another one in post_to")
    except ChannelError as error:
        problems.append(str(error))
    for group in usergroups:
        try:
            api.call("usergroups.users.list", usergroup=group.partition("/")[2])
        except ChannelError as error:
            problems.append(f"user group {group}: {error}")
    problems += reception.problems
    return Health(not problems, tuple(dict.fromkeys(problems)), facts)


def _scope_problems(identity: Identity, channel: str, usergroups: Collection[str]) -> list[str]:
    wanted = [*NEEDED, *(["usergroups:read"] if usergroups else []), *_READS.get(channel[:1], ())]
    missing = [scope for scope in wanted if scope not in identity.scopes] if identity.scopes else []
    if not missing:
        return []
    named = ", ".join(missing)
    return [f"add the scopes {named} under OAuth & Permissions of the app, then install it again"]


def _team_problems(identity: Identity, usergroups: Collection[str]) -> list[str]:
    strange = [group for group in usergroups if not group.startswith(f"{identity.team}/")]
    return [f"user group {group} is of another workspace than the app ({identity.team})" for group in strange]
