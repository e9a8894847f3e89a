"""The web inbox: pages that list what waits, and that the links in mails lead to."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.channels.settings.schema import Web
    from humanlayer_agent.channels.web.channel import WebChannel
    from humanlayer_agent.keys.signing import Signer


def build(
    name: str, settings: "Web", *, secrets: Mapping[str, str], profiles: "Profiles", signer: "Signer | None" = None
) -> "WebChannel":
    """The web channel `name` of the channels files, with the links of all mail channels there are.

    Raises:
        ConfigError: a mail channel's links lead here, and there is no key that its tokens are made with.
        ImportError: starlette or uvicorn is missing.
    """
    from humanlayer_agent.channels.answer_tokens import own_tokens
    from humanlayer_agent.channels.web.app import MailLinks
    from humanlayer_agent.channels.web.channel import WebChannel

    approvers = frozenset(person.email for person in profiles.people.values() if person.email)
    links = tuple(
        MailLinks(channel, approvers)
        for channel, each in profiles.channels.items()
        if each.type == "email" and each.public_url
    )
    return WebChannel(name, settings, own_tokens(signer) if links else None, links)
