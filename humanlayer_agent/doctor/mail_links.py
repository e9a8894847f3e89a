"""The links in mails lead to the web inbox that this configuration serves."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from humanlayer_agent.doctor.context import Context, Finding, failed, ok
from humanlayer_agent.errors import ConfigError


def mails(context: Context) -> Iterator[Finding]:
    """Each mail channel's `public_url` is that of a web channel."""
    try:
        channels = context.profiles.channels
    except ConfigError:
        return
    served = {name: each.public_url or f"http://{each.listen}" for name, each in channels.items() if each.type == "web"}
    for name, each in channels.items():
        if each.type != "email" or not each.public_url:
            continue
        at = [web for web, url in served.items() if _same(url, each.public_url)]
        if at:
            yield ok(f"channel {name}: the links in its mails lead to the pages of channel {at[0]}")
        elif served:
            where = ", ".join(f"{web} is at {url}" for web, url in served.items())
            yield failed(
                f"channel {name}: the links in its mails lead to {each.public_url}, and {where}",
                "Give both the same public_url.",
            )
        else:
            yield failed(
                f"channel {name}: the links in its mails lead to {each.public_url}, and no channel serves pages there",
                f"Add under channels: web: {{type: web, public_url: {each.public_url}}}",
            )


def _same(one: str, other: str) -> bool:
    first, second = (urlsplit(url.rstrip("/")) for url in (one, other))
    return (first.scheme, first.netloc.lower(), first.path) == (second.scheme, second.netloc.lower(), second.path)
