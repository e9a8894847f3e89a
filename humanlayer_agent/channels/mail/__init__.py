"""Approvals by mail: a message for each approver, answers by a link or by replying."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.channels.mail.channel import MailChannel
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.channels.settings.schema import Mail
    from humanlayer_agent.keys.signing import Signer


def build(
    name: str, settings: "Mail", *, secrets: Mapping[str, str], profiles: "Profiles", signer: "Signer | None" = None
) -> "MailChannel":
    """The mail channel `name` of the channels files.

    Raises:
        ConfigError: there is no unlocked key that tokens can be made with (`hla init` makes one).
    """
    from humanlayer_agent.channels.answer_tokens import own_tokens
    from humanlayer_agent.channels.mail.channel import MailChannel
    from humanlayer_agent.channels.mail.message import Letterhead

    reply_to = (settings.reply_to or settings.sender) if settings.imap else None
    approvers = frozenset(person.email for person in profiles.people.values() if person.email)
    letterhead = Letterhead(settings.sender, reply_to, settings.public_url, own_tokens(signer))
    return MailChannel(name, settings, secrets, letterhead, approvers)
