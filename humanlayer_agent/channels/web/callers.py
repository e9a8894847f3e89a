"""The callers of the inbox: whose wrong codes count together.

From elsewhere that is an address. On this machine all have the same, an agent's commands and the browser of the human
whom they would like to keep out: there it is the user whose socket it is, and of their processes those of one session.
Commands of agents run in sessions of their own (`processes.execution`), and no process can join another's.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

Place = tuple[str, int]
"""An address and a port."""


def caller(client: Place, server: Place) -> str:
    """Return who has the other end of a connection, as exactly as this machine tells.

    Args:
        client: the other end, as we see it.
        server: ours.

    Example:
        >>> caller(("192.0.2.1", 50000), ("192.0.2.9", 8765))
        '192.0.2.1'
    """
    address = ip_address(client[0])
    if not address.is_loopback or (owned := _owner(client, server)) is None:
        return str(address)
    user, socket = owned
    session = min(_sessions(user, socket), default=None)
    return f"user {user}" if session is None else f"user {user}, session {session}"


def _owner(client: Place, server: Place) -> tuple[int, str] | None:
    """Return the user and the number of the socket at the other end; None where nobody has it any more."""
    ends = [tuple(map(_written, pair)) for pair in ((client, server), (_mapped(client), _mapped(server)))]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):  # a socket for both kinds of addresses is in the second
        with suppress(OSError), open(table) as lines:
            for line in lines:
                fields = line.split(maxsplit=10)
                if (fields[1], fields[2]) in ends and fields[9] != "0":
                    return int(fields[7]), fields[9]
    return None


def _written(place: Place) -> str:
    """Return an address and a port as the kernel writes them: 127.0.0.1:80 is 0100007F:0050 on most machines."""
    packed = ip_address(place[0]).packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in words)}:{place[1]:04X}"


def _mapped(place: Place) -> Place:
    address: IPv4Address | IPv6Address = ip_address(place[0])
    return (f"::ffff:{address}" if address.version == 4 else str(address)), place[1]


def _sessions(user: int, socket: str) -> Iterator[int]:
    """Every session that has a process of `user` which holds the socket, as far as we may look at its files."""
    link = f"socket:[{socket}]"
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == user and any(
                os.readlink(each.path) == link for each in os.scandir(process / "fd")
            ):
                # The name in parentheses may hold anything, parentheses too.
                yield int((process / "stat").read_bytes().rpartition(b")")[2].split()[3])
