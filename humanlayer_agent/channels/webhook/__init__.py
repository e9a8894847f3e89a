"""Webhooks: requests told as signed events to an address of the team's, for chats that have no channel of their own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.channels.settings.schema import Webhook
    from humanlayer_agent.channels.webhook.channel import WebhookChannel
    from humanlayer_agent.keys.signing import Signer


def build(
    name: str, settings: "Webhook", *, secrets: Mapping[str, str], profiles: "Profiles", signer: "Signer | None" = None
) -> "WebhookChannel":
    """The webhook channel `name` of the channels files.

    Raises:
        ConfigError: its secret is none of the standard's form, or its inbox has no address.
    """
    from humanlayer_agent.channels.webhook.channel import WebhookChannel
    from humanlayer_agent.channels.webhook.signature import Secrets

    inbox = profiles.channels[settings.inbox]
    assert inbox.type == "web"  # the loader has seen to that
    public = (inbox.public_url or f"http://{inbox.listen}").rstrip("/")
    signing = Secrets(secrets[settings.secret_env], settings.secret_env)
    return WebhookChannel(name, settings.url, signing, public, ca=settings.ca, pace=settings.pace)
