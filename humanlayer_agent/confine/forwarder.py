"""The network of a confined command that may reach some hosts: it stays in a namespace of its own, where sockets of
ours wait for it; what stands behind them connects for it, to what was allowed alone.

Two kinds of socket stand there. One for each host that is named, at an address of its own, to which /etc/hosts leads:
any TCP program goes through it unchanged. And a proxy for HTTP, of which programs are told by the usual variables: it
connects to whatever is allowed. Each connection is checked by the address that its name has at that moment, and made to
that address.

This module is also the program that does it, a child of the supervisor that ends with it, started before the command
and with nothing but the standard library. What it reads from the command is not to be trusted; it knows nothing that is
worth having.
"""

import base64
import contextlib
import ctypes
import errno
import fcntl
import ipaddress
import json
import os
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from humanlayer_agent.confine.hosts import LOCAL, WEB, Allowed, is_here, literal, parsed, plain, written
from humanlayer_agent.locations import own_ports

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_HOME = str(Path(__file__).parents[2])
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from humanlayer_agent.confine.forwarder import main; main()"
PROXY = ("127.127.127.127", 880)
"""Where the proxy for HTTP stands, inside."""
_NAMED = "127.127.{}.{}"
_NEVER = tuple(
    map(
        ipaddress.ip_network,
        ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "168.63.129.16/32", "100.100.100.200/32", "fd20:ce::/32"),
    )
)
"""Where the machine is told about itself, credentials included, by whoever rents it out."""
_INSIDE = (".internal", ".local", ".localhost", ".localdomain", ".lan", ".home.arpa", ".corp", ".intranet")
"""Names that mean something only in a network of somebody's own."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")

_MOST_CONNECTIONS = 200
_MOST_NAMED = 200
_MOST_FILES = 1024
_MOST_COUNTED = 100
_LONGEST_HEAD = 32 * 1024
_HEAD_S = 20.0
_CONNECT_S = 20.0
_IDLE_S = 600.0
_READY_S = 30.0
_END_S = 5.0
_PIECE = 64 * 1024

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OF_THIS_HOP = re.compile(rb"(?i:proxy-.*|connection|keep-alive|te|trailer|upgrade|host|expect)")

_CLONE_NEWUSER, _CLONE_NEWNET, _NS_GET_USERNS = 0x10000000, 0x40000000, 0xB701
_SIOCSIFADDR, _SIOCSIFNETMASK = 0x8916, 0x891C


class Refused(Exception):
    """Raised where a connection may not be made; the message says why."""


class Unreached(Exception):
    """Raised where a connection may be made, and can't; the message says why."""


def permits(allowed: Allowed, host: str, port: int, address: _Address) -> bool:
    """Tell whether a host may be reached at this address.

    A name stands for this machine only where everybody knows that it does, whatever a name server says; and for another
    one of somebody's own network only where it was named.
    """
    if any(address in network for network in _NEVER) or address.is_link_local or address.is_multicast:
        return False
    named = allowed.names(host, port)
    if address.is_loopback or address.is_unspecified:
        return named and is_here(host)
    if _is_own(address):
        return named and literal(host) == address
    return named or (allowed.public and port in WEB and address.is_global and not address.is_reserved)


def addresses(host: str, port: int, allowed: Allowed, own_ports: frozenset[int] = frozenset()) -> list[str]:
    """Return the addresses at which a host may be reached.

    Raises:
        Refused: it may not be reached.
        Unreached: it is not known.
    """
    if not allowed.has(host, port):
        raise Refused(f"{written(host, port)} is not among what this command may reach")
    if is_here(host):
        address = literal(host)
        found = ["127.0.0.1", "::1"] if address is None else [_real(address)]
    else:
        try:
            about = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Unreached(f"{host} is not known: {error}") from None
        found = list(dict.fromkeys(str(each[4][0]) for each in about))
    kept = [each for each in found if all(permits(allowed, host, port, one) for one in _meant(each))]
    if not kept:
        raise Refused(f"{written(host, port)} is an address that this command may not reach ({', '.join(found)})")
    if port in own_ports and any(one.is_loopback or _is_own(one) for each in kept for one in _meant(each)):
        raise Refused(f"{written(host, port)} is where the supervisor listens")
    return kept


def _meant(text: str) -> list[_Address]:
    """An address, and those of version 4 that it may be translated to on the way."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    inner = [each for each in (address.sixtofour, *(address.teredo or ())) if each is not None]
    if address in _TRANSLATED:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [address, *inner]


def _is_own(address: _Address) -> bool:
    """Tell whether this machine has an address: only then can a socket be bound to it."""
    with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as own:
        try:
            own.bind((str(address), 0))
        except OSError:
            return False
    return True


def _real(address: _Address) -> str:
    """An address of this machine to connect to: no address stands for one."""
    return str(address) if not address.is_unspecified else "127.0.0.1" if address.version == 4 else "::1"


# ---- what the command is told -----------------------------------------------------------------------


def variables() -> dict[str, str]:
    """Return the variables by which programs find the proxy."""
    proxy = f"http://{PROXY[0]}:{PROXY[1]}"
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    tools = ("npm_config_proxy", "npm_config_https_proxy", "PIP_PROXY", "YARN_HTTP_PROXY", "YARN_HTTPS_PROXY")
    direct = "localhost,127.0.0.1,127.0.0.0/8,::1"
    return {
        **dict.fromkeys((*names, *tools), proxy),
        "no_proxy": direct,
        "NO_PROXY": direct,
        "NODE_USE_ENV_PROXY": "1",
    }


def host_lines(entries: Iterable[str], known: str = "") -> str:
    """Return the text of /etc/hosts, by which the hosts that are named lead to our sockets.

    Args:
        entries: what may be reached.
        known: that of the machine: its own names, which mean itself inside as well, are kept.

    Example:
        >>> print(host_lines(["db.example.org:5432", "*"]), end="")
        127.0.0.1 localhost
        ::1 localhost ip6-localhost ip6-loopback
        127.127.0.1 db.example.org
    """
    names = _places(Allowed.of(entries))
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"{place} {host}" for host, place in names.items() if literal(host) is None and host not in LOCAL]
    for line in known.splitlines():
        place, *more = line.partition("#")[0].split()[:64] or [""]
        if (address := literal(place)) is not None and address.is_loopback:
            kept = [name for name in more if plain(name) not in names and plain(name) not in LOCAL]
            lines += [f"{place} {' '.join(kept)}"] if kept else []
    return "\n".join(lines) + "\n"


def _places(allowed: Allowed) -> dict[str, str]:
    """The address that each named host has inside."""
    hosts = sorted({host for host, _ in allowed.named})[:_MOST_NAMED]
    found: dict[str, str] = {}
    for number, host in enumerate(hosts, 1):
        address = literal(host)
        if address is not None:
            found[host] = _real(address)
        else:
            found[host] = "127.0.0.1" if is_here(host) else _NAMED.format(number >> 8, number & 255)
    return found


# ---- the supervisor's end ---------------------------------------------------------------------------


@dataclass(slots=True)
class Forwarder:
    """The supervisor's end of what forwards the connections of one command."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    def end(self) -> dict[str, dict[str, int]]:
        """End every connection; returns how many were made, and refused, by host."""
        said = b""
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(_END_S)
            while len(said) < 1 << 20 and (data := self.control.recv(_PIECE)):
                said += data
        self.control.close()
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(ValueError):
            found: dict[str, dict[str, int]] = json.loads(said)
            return {kind: counts for kind, counts in found.items() if counts}
        return {}


def started(pid: int, entries: Sequence[str], environ: Mapping[str, str], seconds: float = _READY_S) -> Forwarder:
    """Start what forwards the connections of a command, which is about to start.

    Args:
        pid: a process in the command's namespaces.
        entries: what may be reached: `host`, `host:port`, or `PUBLIC`.
        environ: our own environment: the proxy that it names is gone through.
        seconds: most that is waited until it is ready.

    Raises:
        OSError: it can't be started; why.
    """
    outer = {kind: environ.get(f"{kind}_proxy") or environ.get(f"{kind}_proxy".upper()) for kind in ("https", "no")}
    outer["http"] = environ.get("http_proxy") or environ.get("HTTP_PROXY")
    every = environ.get("all_proxy") or environ.get("ALL_PROXY")
    request = {
        "pid": pid,
        "entries": list(entries),
        "outer": {kind: value or (every if kind != "no" else "") or "" for kind, value in outer.items()},
        "own": sorted(_listening() | own_ports()),
    }
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [os.path.realpath(sys.executable), "-I", "-S", "-c", _PROGRAM, _HOME],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
    made = Forwarder(process, ours)
    try:
        ours.settimeout(seconds)
        said = b""
        with contextlib.suppress(ConnectionError):
            ours.sendall(json.dumps(request).encode() + b"\n")
            said = ours.recv(4096)
        if said != b"ready\n":
            raise OSError(errno.ENETUNREACH, said.decode("utf-8", "replace").strip() or "nothing forwards connections")
    except BaseException:
        made.end()
        raise
    return made


def _listening() -> set[int]:
    """The ports at which this very process listens."""
    inodes = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    found = set()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    found.add(int(words[1].rpartition(":")[2], 16))
    return found


# ---- the program ------------------------------------------------------------------------------------


def main() -> None:
    """Be the program: do what the supervisor asks for by our input, until it has enough or is gone."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    control = socket.socket(fileno=0)
    request = json.loads(_line(control))
    allowed = Allowed.of(request["entries"])
    wanted: list[tuple[str, int, tuple[str, int] | None]] = [(*PROXY, None)]
    for host, place in _places(allowed).items():
        wanted += [(place, port, (host, port)) for name, port in sorted(allowed.named) if name == host]
        if literal(host) is None and is_here(host):
            wanted += [("::1", port, (host, port)) for name, port in sorted(allowed.named) if name == host]
    try:
        listening = _inside(request["pid"], [each[:2] for each in wanted])
    except OSError as error:
        control.sendall(f"its network can't be joined: {error}\n".encode())
        return
    serving = _Serving(allowed, frozenset(request["own"]), request["outer"])
    control.sendall(b"ready\n")
    serving.serve(control, {listening[n]: each[2] for n, each in enumerate(wanted) if n in listening})


def _line(control: socket.socket) -> bytes:
    said = b""
    while not said.endswith(b"\n"):
        data = control.recv(_PIECE)
        if not data:
            sys.exit(1)
        said += data
    return said


def _inside(pid: int, wanted: Sequence[tuple[str, int]]) -> dict[int, socket.socket]:
    """Sockets that listen at these addresses in the network of a process, by their numbers in `wanted`. One process of
    ours goes there, makes them, and ends; they are used from where we are.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            _enter(pid)
            for number, (address, port) in enumerate(wanted):
                made = _listener(address, port)
                if made is not None:
                    socket.send_fds(theirs, [struct.pack("=I", number)], [made.fileno()])
                    made.close()
            theirs.sendall(b"done")
        except OSError as error:
            theirs.sendall(b"no: " + str(error).encode())
        finally:
            os._exit(0)
    theirs.close()
    found: dict[int, socket.socket] = {}
    with ours:
        while True:
            said, descriptors, _, _ = socket.recv_fds(ours, 4, 1)
            if not descriptors:
                break
            found[struct.unpack("=I", said)[0]] = socket.socket(fileno=descriptors[0])
        if said != b"done":
            said += ours.recv(4096)
            raise OSError(errno.EPERM, said.removeprefix(b"no: ").decode("utf-8", "replace") or "it ended")
    os.waitpid(child, 0)
    if 0 not in found:
        raise OSError(errno.EADDRNOTAVAIL, "nothing can listen there")
    return found


def _enter(pid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if os.path.samestat(os.fstat(network), os.stat("/proc/self/ns/net")):
        raise OSError(errno.EPERM, "it is the machine's")
    owner = fcntl.ioctl(network, _NS_GET_USERNS)
    for descriptor, kind in ((owner, _CLONE_NEWUSER), (network, _CLONE_NEWNET)):
        if libc.setns(descriptor, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _listener(address: str, port: int) -> socket.socket | None:
    """A socket that listens there; an address that is not that of the loopback device is given to it."""
    place = ipaddress.ip_address(address)
    with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
        made = stack.enter_context(socket.socket(socket.AF_INET if place.version == 4 else socket.AF_INET6))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not place.is_loopback:
            _give(place)
        _bind(made, address, port)
        made.listen(64)
        stack.pop_all()
        return made
    return None


def _bind(made: socket.socket, address: str, port: int) -> None:
    """Bind a socket, a little later where the kernel has not looked yet whether anybody else has the address."""
    for _ in range(200):
        try:
            return made.bind((address, port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL or made.family != socket.AF_INET6:
                raise
            time.sleep(0.01)
    raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))


def _give(address: _Address) -> None:
    if address.version == 4:
        label = b"lo:" + base64.b32encode(address.packed).rstrip(b"=")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
            for call, value in ((_SIOCSIFADDR, address.packed), (_SIOCSIFNETMASK, b"\xff\xff\xff\xff")):
                fcntl.ioctl(any_one, call, struct.pack("16sHH4s8x", label, socket.AF_INET, 0, value))
        return
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_one:
        about = struct.pack("=16sIi", address.packed, 128, socket.if_nametoindex("lo"))
        fcntl.ioctl(any_one, _SIOCSIFADDR, about)


@dataclass(slots=True)
class _Serving:
    """Makes the connections of one command, each in a thread."""

    allowed: Allowed
    own_ports: frozenset[int]
    outer: dict[str, str]
    reached: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: int = 0

    def serve(self, control: socket.socket, listening: dict[socket.socket, tuple[str, int] | None]) -> None:
        """Serve until the supervisor has enough, or is gone; then tell how much was made."""
        threading.stack_size(1 << 20)
        poll = select.poll()
        by_number = {each.fileno(): each for each in listening}
        for number in (control.fileno(), *by_number):
            poll.register(number, select.POLLIN)
        for each in listening:
            each.setblocking(False)
        while True:
            for number, _ in poll.poll():
                if number == control.fileno():
                    with self._lock, contextlib.suppress(OSError):
                        control.settimeout(_END_S)
                        said = {"reached": dict(self.reached), "refused": dict(self.refused)}
                        control.sendall(json.dumps(said).encode())
                    os._exit(0)
                try:
                    peer = by_number[number].accept()[0]
                except OSError:
                    time.sleep(0.01)
                    continue
                self._begin(peer, listening[by_number[number]])

    def _begin(self, peer: socket.socket, target: tuple[str, int] | None) -> None:
        with self._lock:
            full = self._open >= _MOST_CONNECTIONS
            self._open += not full
        if full:
            peer.close()
            return
        try:
            threading.Thread(target=self._one, args=(peer, target), daemon=True).start()
        except RuntimeError:  # there can be no more threads
            self._end(peer)

    def _one(self, peer: socket.socket, target: tuple[str, int] | None) -> None:
        try:
            peer.settimeout(_IDLE_S)
            if target is None:
                self._proxy(peer)
            else:
                with self._connected(*target) as other:
                    _pump(peer, other)
        except (OSError, Refused, Unreached, ValueError):
            pass  # the connection ends, that is all that can be told
        finally:
            self._end(peer)

    def _end(self, peer: socket.socket) -> None:
        peer.close()
        with self._lock:
            self._open -= 1

    def _proxy(self, peer: socket.socket) -> None:
        """Serve one request to the proxy: a tunnel, or one request in plain text."""
        try:
            head, rest = _head(peer)
            method, target, lines = _request(head)
            if method == b"CONNECT":
                host, port = _authority(target, None)
                with self._connected(host, port) as other:
                    peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    _pump(peer, other, rest)
                return
            self._plain(peer, method, target, lines, rest)
        except (Refused, Unreached) as why:
            status = b"403 Forbidden" if isinstance(why, Refused) else b"502 Bad Gateway"
            ask = ". Ask for it by a first line such as `# needs: network HOST:PORT`." * isinstance(why, Refused)
            text = f"humanlayer-agent: {why}{ask}\n".encode()
            fields = b"Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
            peer.sendall(b"HTTP/1.1 " + status + b"\r\n" + fields + b"Content-Length: %d\r\n\r\n" % len(text) + text)
            _linger(peer)

    def _plain(self, peer: socket.socket, method: bytes, target: bytes, lines: list[bytes], rest: bytes) -> None:
        """Forward one request, and nothing after it: to another proxy the next one could name another host."""
        scheme, _, after = target.partition(b"://")
        if scheme.lower() != b"http" or not _TOKEN.fullmatch(method):
            raise Refused("only http:// and CONNECT are forwarded")
        authority, slash, path = after.partition(b"/")
        authority, question, query = authority.partition(b"?")
        path = (slash + path if not question else b"/?" + query + slash + path) or b"/"
        host, port = _authority(authority, 80)
        kept, length = _fields(lines)
        shown = written(host, None if port == 80 else port).encode()
        with self._connected(host, port, plain=True) as other:
            through = _through(host, port, self.outer, plain=True)
            start = b"http://" + shown + path if through else path
            more = [b"Proxy-Authorization: " + sign] if through and (sign := _sign(through)) else []
            start = b"\r\n".join(
                [method + b" " + start + b" HTTP/1.1", b"Host: " + shown, *kept, *more, b"Connection: close", b"", b""]
            )
            other.sendall(start)
            _pump(peer, other, rest[:length], at_most=max(0, length - len(rest)))

    def _connected(self, host: str, port: int, *, plain: bool = False) -> socket.socket:
        """A connection to a host, or to the proxy of this machine that leads there.

        Raises:
            Refused: it may not be made.
            Unreached: it can't be.
        """
        name = written(host, port)
        try:
            through = None if is_here(host) else _through(host, port, self.outer, plain=plain)
            if through:
                self._check_far(host, port)
                made = _connect(through.hostname or "", through.port or 80)
                if not plain:
                    try:
                        _tunnel(made, name, _sign(through))
                    except BaseException:
                        made.close()
                        raise
            else:
                made = _first(addresses(host, port, self.allowed, self.own_ports), port)
        except Refused:
            self._count(self.refused, name)
            raise
        except (OSError, ValueError) as error:
            raise Unreached(f"{name} can't be reached: {error}") from None
        self._count(self.reached, name)
        made.settimeout(_IDLE_S)
        return made

    def _check_far(self, host: str, port: int) -> None:
        """Check a host that another proxy will look up: by its addresses, where it is known here too."""
        if not self.allowed.has(host, port):
            raise Refused(f"{written(host, port)} is not among what this command may reach")
        try:
            known = literal(host) is not None or bool(socket.getaddrinfo(host, port))
        except (OSError, UnicodeError):
            known = False
        if known:
            addresses(host, port, self.allowed, self.own_ports)
        elif not self.allowed.names(host, port) and ("." not in host or plain(host).endswith(_INSIDE)):
            raise Refused(f"{host} is a name of somebody's own network, and was not named to a human")

    def _count(self, counts: Counter[str], name: str) -> None:
        with self._lock:
            counts[name if name in counts or len(counts) < _MOST_COUNTED else "others"] += 1


def _head(peer: socket.socket) -> tuple[bytes, bytes]:
    """What stands before the body of a request or an answer, and what was read of that already."""
    deadline, said = time.monotonic() + _HEAD_S, b""
    while b"\r\n\r\n" not in said:
        if len(said) > _LONGEST_HEAD:
            raise Refused("the head of the request is too long")
        peer.settimeout(max(0.001, deadline - time.monotonic()))
        data = peer.recv(_PIECE)
        if not data:
            raise ConnectionError("it ended")
        said += data
    peer.settimeout(_IDLE_S)
    head, _, rest = said.partition(b"\r\n\r\n")
    return head, rest


def _request(head: bytes) -> tuple[bytes, bytes, list[bytes]]:
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or any(c <= 32 or c >= 127 for c in words[1]):
        raise Refused("that is no request to a proxy")
    return words[0], words[1], lines


def _authority(text: bytes, port: int | None) -> tuple[str, int]:
    """The host and the port of a request."""
    shown = text.decode("ascii").rpartition("@")[2]
    if port is None and not re.search(r":[0-9]+\Z", shown):
        raise Refused(f"{shown!r} has no port")
    try:
        host, ports = parsed(shown)
    except ValueError as error:
        raise Refused(str(error)) from None
    return host, ports[0] if len(ports) == 1 else port or 0


def _fields(lines: list[bytes]) -> tuple[list[bytes], int]:
    """The fields that are passed on, and the length of the body."""
    kept, lengths = [], set()
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or {0, 10, 13} & set(line):
            raise Refused("a field of the request can't be read")
        if name.lower() == b"transfer-encoding":
            raise Refused("a request needs a Content-Length")
        if name.lower() == b"content-length":
            lengths.add(value.strip())
        if not _OF_THIS_HOP.fullmatch(name):
            kept.append(line)
    if len(lengths) > 1 or not all(each.isdigit() and len(each) < 16 for each in lengths):
        raise Refused("the length of the request can't be read")
    return kept, int(lengths.pop()) if lengths else 0


def _through(host: str, port: int, outer: Mapping[str, str], *, plain: bool) -> SplitResult | None:
    """The proxy by which this machine reaches a host, as its parts; None where it does so by itself."""
    url = outer["http" if plain else "https"]
    if not url or is_here(host) or _is_direct(host, port, outer["no"]):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise Unreached(f"the proxy of this machine is of a kind that can't be gone through: {parts.scheme}")
    return parts


def _is_direct(host: str, port: int, entries: str) -> bool:
    address = literal(host)
    for each in entries.replace(",", " ").split():
        name = each.lower().removeprefix("*").lstrip(".")
        if each != "*" and not name:
            continue
        if each == "*" or plain(host) in (name, name.removesuffix(f":{port}")) or host.lower().endswith(f".{name}"):
            return True
        with contextlib.suppress(ValueError):
            if address is not None and address in ipaddress.ip_network(name, strict=False):
                return True
    return False


def _sign(through: SplitResult) -> bytes:
    if through.username is None:
        return b""
    return b"Basic " + base64.b64encode(f"{unquote(through.username)}:{unquote(through.password or '')}".encode())


def _tunnel(made: socket.socket, name: str, sign: bytes) -> None:
    asked = f"CONNECT {name} HTTP/1.1\r\nHost: {name}\r\n".encode()
    made.sendall(asked + (b"Proxy-Authorization: " + sign + b"\r\n" if sign else b"") + b"\r\n")
    said = b""
    made.settimeout(_HEAD_S)
    while not said.endswith(b"\r\n\r\n"):  # byte by byte: what follows is the other end's
        data = made.recv(1)
        if not data or len(said) > _LONGEST_HEAD:
            raise Unreached(f"the proxy of this machine does not lead to {name}")
        said += data
    if said.split(b" ")[1:2] != [b"200"]:
        raise Unreached(
            f"the proxy of this machine does not lead to {name}: {said.splitlines()[0][:100].decode('latin-1')}"
        )


def _first(places: Sequence[str], port: int) -> socket.socket:
    for number, place in enumerate(places):
        try:
            return _connect(place, port)
        except OSError:
            if number == len(places) - 1:
                raise
    raise Unreached("there is no address")


def _connect(place: str, port: int) -> socket.socket:
    return socket.create_connection((place, port), timeout=_CONNECT_S)


def _linger(peer: socket.socket) -> None:
    """Read what is still sent, a little: else the answer may be lost."""
    peer.settimeout(1)
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_WR)
        for _ in range(16):
            if not peer.recv(_PIECE):
                return


def _pump(peer: socket.socket, other: socket.socket, first: bytes = b"", at_most: int | None = None) -> None:
    """Pass on what each of both sends, until both have ended, or nothing comes for long.

    Args:
        first: what `peer` has sent already.
        at_most: so many more bytes `peer` may send.
    """
    waiting, onward = {peer: b"", other: first}, {peer: other, other: peer}
    reading = {other} if at_most == 0 else {peer, other}
    for each in onward:
        each.setblocking(False)
    while reading or any(waiting.values()):
        poll = select.poll()
        for each, to in onward.items():
            wanted = select.POLLIN if each in reading and not waiting[to] else 0
            if wanted := wanted | (select.POLLOUT if waiting[each] else 0):
                poll.register(each, wanted)
        ready = dict(poll.poll(_IDLE_S * 1000))
        if not ready:
            return
        for each, to in onward.items():
            # What comes from one that takes nothing itself is no sign that it takes more.
            if waiting[each] and ready.get(each.fileno(), 0) & ~select.POLLIN:
                with contextlib.suppress(BlockingIOError):
                    waiting[each] = waiting[each][each.send(waiting[each]) :]
            if each in reading and not waiting[to] and ready.get(each.fileno(), 0) & ~select.POLLOUT:
                waiting[to] = each.recv(_PIECE if each is other or at_most is None else min(_PIECE, at_most))
                if each is peer and at_most is not None:
                    at_most -= len(waiting[to])
                if not waiting[to]:
                    to.shutdown(socket.SHUT_WR)
                if not waiting[to] or (each is peer and at_most == 0):
                    reading.discard(each)
