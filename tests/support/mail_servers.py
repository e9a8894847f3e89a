"""Real mail servers on loopback, for tests: SMTP (aiosmtpd) with TLS and AUTH, and IMAP (pymap) in its own process."""

import email
import email.policy
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any

from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support.certificates import Certificates

if TYPE_CHECKING:
    from imapclient import IMAPClient

USER, PASSWORD = "agents", "not-a-real-password"

_PYMAP = """
import functools, pymap.config
# A million rounds, which each login would pay for, protect nobody here: the password is in this file.
pymap.config.BuiltinHash = functools.partial(pymap.config.BuiltinHash, rounds=1)
from pymap.main import main
main()
"""


class SmtpServer:
    """Takes messages over STARTTLS from one user who has logged in.

    `refuse` maps an address to the answer that it gets instead ("550 no such user", "451 come later"); `dropped` says
    that the connection is closed after a message was taken, before that is said; `down` that each is closed at once;
    `locked` that the user is not known any more.

    Example:
        with SmtpServer.running(make_certificates(folder)) as server:
            ...                                   # send to server.port
            server.received[0]["Subject"]
    """

    def __init__(self) -> None:
        self.received: list[EmailMessage] = []
        self.envelopes: list[tuple[str, list[str]]] = []
        self.refuse: dict[str, str] = {}
        self.dropped = False
        self.down = False
        self.locked = False
        self.port = 0
        self._more = threading.Condition()

    @classmethod
    @contextmanager
    def running(cls, certificates: Certificates) -> Iterator["SmtpServer"]:
        """A server on a free port."""
        from aiosmtpd.controller import Controller
        from aiosmtpd.smtp import AuthResult, LoginPassword

        server = cls()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)

        def authenticate(_server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> Any:
            good = isinstance(data, LoginPassword) and (data.login, data.password) == (USER.encode(), PASSWORD.encode())
            return AuthResult(success=good and not server.locked, handled=False)

        server.port = free_port()
        controller = Controller(
            server,
            hostname="127.0.0.1",
            port=server.port,
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=authenticate,
        )
        controller.start()
        try:
            yield server
        finally:
            controller.stop()

    async def handle_EHLO(  # noqa: N802 (aiosmtpd's name)
        self, server: Any, session: Any, _envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        if self.down:
            server.transport.close()
        return responses

    async def handle_RCPT(  # noqa: N802 (aiosmtpd's name)
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: list[str]
    ) -> str:
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        with self._more:
            self.received.append(message)
            self.envelopes.append((envelope.mail_from, list(envelope.rcpt_tos)))
            self._more.notify_all()
        if self.dropped:
            server.transport.close()
        return "250 OK"

    def wait_for(self, count: int) -> list[EmailMessage]:
        """The messages, once there are `count` of them."""
        with self._more:
            if not self._more.wait_for(lambda: len(self.received) >= count, PATIENCE):
                raise AssertionError(f"{len(self.received)} messages came, not {count}")
            return list(self.received)


class ImapServer:
    """A mailbox that the user can read over STARTTLS, and into which `deliver` puts what a mail server would."""

    def __init__(self, port: int, certificates: Certificates) -> None:
        self.port = port
        self._certificates = certificates

    @classmethod
    @contextmanager
    def running(cls, certificates: Certificates, port: int = 0) -> Iterator["ImapServer"]:
        """A server on a free port, with an empty mailbox."""
        port = port or free_port()
        arguments = ["--host", "127.0.0.1", "--port", str(port), "--no-service", "managesieve", "--no-service", "admin"]
        arguments += ["--cert", str(certificates.certificate), "--key", str(certificates.key)]
        arguments += ["dict", "--demo-data", "--demo-user", USER, "--demo-password", PASSWORD]
        command = [sys.executable, "-c", _PYMAP, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await_port(port, process)
            yield cls(port, certificates)
        finally:
            process.kill()
            process.wait()

    def deliver(self, raw: bytes) -> None:
        """Put one mail into the mailbox, as it stands."""
        with self.client() as client:
            client.append("INBOX", raw)

    @contextmanager
    def client(self) -> Iterator["IMAPClient"]:
        """A client that has logged in."""
        from imapclient import IMAPClient

        client = IMAPClient("127.0.0.1", self.port, ssl=False, timeout=PATIENCE)
        client.starttls(ssl.create_default_context(cafile=self._certificates.authority))
        client.login(USER, PASSWORD)
        try:
            yield client
        finally:
            client.logout()


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def await_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until something listens on a port of 127.0.0.1. Raises AssertionError where `process` ends before."""

    def listens() -> bool:
        assert process.poll() is None, f"the server for port {port} has ended (exit code {process.poll()})"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
        except ConnectionError:
            return False
        return True

    until(listens, f"a server on port {port}")
