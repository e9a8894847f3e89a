"""A program: servers on this machine, which a human may run, that wait to be reached from a confined command.

It prints their ports as JSON: `web` (answers with what it was asked), `other` (the same, and not to be reached), `project`
(the same, where projects try out their own), `echo` (sends back what it gets), `proxy` (one for HTTP, which answers for
every host by itself) and `index` (packages for pip and npm). It ends with its input.
"""

import hashlib
import io
import json
import os
import socket
import sys
import threading
import zipfile
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WHEEL = "canary_package-1.0-py3-none-any.whl"


@cache
def wheel() -> bytes:
    """Built once: a wheel holds the time it was built at, and the index says its hash before it is fetched."""
    file = io.BytesIO()
    about = "canary_package-1.0.dist-info"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("canary_package.py", "x = 1\n")
        made.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: canary-package\nVersion: 1.0\n")
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "")
    return file.getvalue()


class Web(BaseHTTPRequestHandler):
    """Says what it was asked, and by which name."""

    protocol_version = "HTTP/1.1"

    def answer(self, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        port = self.server.server_address[1]
        said = {"port": port, "line": self.requestline, "host": self.headers["Host"], "sent": sent}
        self.answer(json.dumps({**said, "fields": sorted(name.lower() for name in self.headers)}).encode() + b"\n")

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Index(Web):
    """One package, for pip and for npm."""

    def do_GET(self) -> None:
        path = self.path.partition("://")[2].partition("/")[2] if "://" in self.path else self.path.lstrip("/")
        if path == "simple/canary-package/":
            self.answer(
                f'<a href="/files/{WHEEL}#sha256={hashlib.sha256(wheel()).hexdigest()}">x</a>'.encode(), "text/html"
            )
        elif path == f"files/{WHEEL}":
            self.answer(wheel(), "application/octet-stream")
        else:
            about = {"name": "canary-package", "version": "1.2.3", "dist": {"tarball": "http://x/y.tgz", "shasum": "0"}}
            found = {"name": "canary-package", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": about}}
            self.answer(json.dumps(found).encode(), "application/json")


class Proxy(Index):
    """A proxy that is every host itself."""

    def do_CONNECT(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 Fine\r\n\r\n")
        signed = self.headers.get("Proxy-Authorization", "")
        self.wfile.write(f"tunnel to {self.path} {signed}\n".encode())
        self.wfile.flush()
        while data := self.rfile.read1(65536):
            self.wfile.write(data)
        self.close_connection = True

    def do_GET(self) -> None:
        if "index.example" in self.path:
            Index.do_GET(self)
        else:
            Web.do_GET(self)


def echo(server: socket.socket) -> None:
    def one(peer: socket.socket) -> None:
        with peer:
            while data := peer.recv(65536):
                peer.sendall(data)

    while True:
        threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()


def served(handler: type[Web], ports: range) -> ThreadingHTTPServer:
    for port in ports:
        with suppress(OSError):
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
    raise OSError("no port is free")


def main() -> None:
    ports = {}
    kinds = {"web": Web, "other": Web, "project": Web, "proxy": Proxy, "index": Index}
    for name, handler in kinds.items():
        server = served(handler, range(3000, 3999) if name == "project" else range(1))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ports[name] = server.server_address[1]
    echoing = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=echo, args=(echoing,), daemon=True).start()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    abstract = socket.socket(socket.AF_UNIX)
    abstract.bind(f"\0hla-forwarder-{os.getpid()}")
    abstract.listen(8)
    more = {"echo": echoing.getsockname()[1], "udp": datagrams.getsockname()[1], "pid": os.getpid()}

    def answer() -> None:
        while True:
            datagrams.sendto(b"answered", datagrams.recvfrom(64)[1])

    threading.Thread(target=answer, daemon=True).start()
    print(json.dumps(ports | more), flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
