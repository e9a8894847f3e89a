"""The hosts that a confinement opens: how they are written, and which of them are allowed."""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

PUBLIC = "*"
"""Stands for every host of the internet, at the ports of the web."""
WEB = (80, 443)
"""The ports that a host is reached at where none is named."""
LOCAL = ("localhost", "ip6-localhost", "ip6-loopback")
"""What this machine calls itself, in files that nobody has changed."""
_NAME = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")
_LITERAL = re.compile(r"[0-9a-fA-FxX.]+|[0-9a-fA-F.:]+(?:%.*)?")


def parsed(entry: str) -> tuple[str, tuple[int, ...]]:
    """Return the host of `host`, `host:port` or `[host]:port`, and the ports that are meant.

    Raises:
        ValueError: it is none of these.

    Example:
        >>> parsed("Localhost:3000"), parsed("[::1]:80"), parsed("example.org")
        (('localhost', (3000,)), ('::1', (80,)), ('example.org', (80, 443)))
    """
    host, port = entry, ""
    if entry.startswith("["):
        host, _, rest = entry[1:].partition("]")
        if ":" not in host or (rest and not rest.startswith(":")):
            raise ValueError(f"{entry!r} is neither a host nor a host and a port")
        port = rest[1:]
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    if literal(host) is None and (":" in host or not _NAME.fullmatch(host)):
        raise ValueError(f"{entry!r} is neither a host nor a host and a port")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise ValueError(f"{entry!r} has no port between 1 and 65535")
    return plain(host), (int(port),) if port else WEB


def written(host: str, port: int | None) -> str:
    """Return a host and a port as `parsed` reads them."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port is None else f"{shown}:{port}"


def plain(host: str) -> str:
    """Return the one way in which a host is written.

    Example:
        >>> plain("Example.ORG."), plain("0x7f.1"), plain("::ffff:7f00:1")
        ('example.org', '127.0.0.1', '127.0.0.1')
    """
    address = literal(host)
    return str(address) if address is not None else host.lower().removesuffix(".")


def literal(host: str) -> "IPv4Address | IPv6Address | None":
    """Return the address that is written so, in any of the ways that C libraries read; None where it is a name."""
    if not _LITERAL.fullmatch(host):
        return None
    import ipaddress
    import socket

    with suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address
    with suppress(OSError):
        if host[:1].isdigit():
            return ipaddress.IPv4Address(socket.inet_aton(host))
    return None


def is_here(host: str) -> bool:
    """Tell whether a name or an address means this machine to everybody.

    Example:
        >>> is_here("localhost"), is_here("127.1"), is_here("example.org")
        (True, True, False)
    """
    address = literal(host)
    if address is None:
        return plain(host) in LOCAL or plain(host).endswith(".localhost")
    return address.is_loopback or address.is_unspecified


@dataclass(frozen=True, slots=True)
class Allowed:
    """What may be reached: named hosts at their ports, and perhaps the whole internet at the ports of the web.

    Example:
        >>> allowed = Allowed.of(["*", "localhost:3000"])
        >>> [allowed.has(*each) for each in (("example.org", 443), ("example.org", 22), ("localhost", 3000))]
        [True, False, True]
    """

    named: frozenset[tuple[str, int]]
    public: bool = False

    @classmethod
    def of(cls, entries: Iterable[str]) -> "Allowed":
        """Return what is allowed by entries as `parsed` reads them, or `PUBLIC`.

        Raises:
            ValueError: one is neither.
        """
        known = tuple(entries)
        pairs = [parsed(entry) for entry in known if entry != PUBLIC]
        return cls(frozenset((host, port) for host, ports in pairs for port in ports), PUBLIC in known)

    def names(self, host: str, port: int) -> bool:
        """Tell whether this very host and port are among what is allowed."""
        return (plain(host), port) in self.named

    def has(self, host: str, port: int) -> bool:
        """Tell whether a connection may be tried; to which addresses, the `forwarder` sees when it is made."""
        return self.names(host, port) or (self.public and port in WEB)
