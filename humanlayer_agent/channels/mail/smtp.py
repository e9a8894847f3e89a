"""Hands messages to a mail server, over TLS whose certificate was checked, and says what went wrong."""

import smtplib
import ssl
from collections.abc import Mapping
from contextlib import suppress
from email.message import EmailMessage
from typing import TYPE_CHECKING

from humanlayer_agent.channels.contract import Retry, Undeliverable

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings.schema import Server

TIMEOUT = 20.0
"""Seconds that a mail server may take for each step."""


def tls_context(server: "Server") -> ssl.SSLContext:
    """Checks the server's certificate and name, against the system's authorities or the server's own `ca` file.

    Raises:
        Undeliverable: the `ca` file can't be used.
    """
    try:
        return ssl.create_default_context(cafile=server.ca)
    except (OSError, ssl.SSLError) as error:
        raise Undeliverable(f"ca {server.ca}: {error}") from error


class Sender:
    """Sends messages through one mail server; each call opens a connection of its own.

    Args:
        server: which, and how.
        secrets: values of the environment variables that it names.
    """

    def __init__(self, server: "Server", secrets: Mapping[str, str]) -> None:
        self._server = server
        self._secrets = secrets

    def send(self, message: EmailMessage, *, envelope_from: str) -> None:
        """Send one message to the address in its To header.

        Raises:
            Retry: the server can't be reached, or says to come again (4xx).
            Undeliverable: it refuses for good (5xx), its certificate is not what it should be, or it does not know us.
        """
        connection = self._connection()
        try:
            connection.send_message(message, from_addr=envelope_from, to_addrs=[str(message["To"])])
        except smtplib.SMTPRecipientsRefused as error:
            code, text = next(iter(error.recipients.values()))
            raise self._answered(code, text, f"for {message['To']}") from error
        except smtplib.SMTPResponseException as error:
            raise self._answered(error.smtp_code, error.smtp_error) from error
        except smtplib.SMTPNotSupportedError as error:  # an address with letters that the server does not take
            raise Undeliverable(f"{self._name}: {words(error)}") from error
        except (smtplib.SMTPException, OSError) as error:
            raise Retry(f"{self._name}: {words(error)}") from error
        finally:
            with suppress(smtplib.SMTPException, OSError):  # what was accepted stays accepted
                connection.quit()

    def check(self) -> None:
        """Connect and log in, and send nothing. Raises as `send` does."""
        connection = self._connection()
        with suppress(smtplib.SMTPException, OSError):
            connection.quit()

    @property
    def _name(self) -> str:
        return f"mail server {self._server.host}:{self._server.port}"

    def _connection(self) -> smtplib.SMTP:
        server, context = self._server, tls_context(self._server)
        connection: smtplib.SMTP | None = None
        try:
            if implicit(server, 465):
                connection = smtplib.SMTP_SSL(server.host, server.port, timeout=TIMEOUT, context=context)
            else:
                connection = smtplib.SMTP(server.host, server.port, timeout=TIMEOUT)
                connection.starttls(context=context)  # raises where the server does not offer it
            if server.user_env:
                password = self._secrets[server.password_env] if server.password_env else ""
                connection.login(self._secrets[server.user_env], password)
            return connection
        except BaseException as error:
            if connection is not None:
                with suppress(Exception):
                    connection.close()
            raise self._unconnected(error) from error

    def _unconnected(self, error: BaseException) -> BaseException:
        match error:
            case ssl.SSLCertVerificationError():
                return Undeliverable(f"{self._name}: its certificate is not to be trusted: {error.verify_message}")
            case smtplib.SMTPNotSupportedError():
                return Undeliverable(f"{self._name}: {error}; mail is sent over TLS only")
            case smtplib.SMTPAuthenticationError():
                return self._answered(error.smtp_code, error.smtp_error, "at the login")
            case smtplib.SMTPResponseException():
                return self._answered(error.smtp_code, error.smtp_error)
            case smtplib.SMTPException() | OSError():
                return Retry(f"{self._name}: {words(error)}")
        return error

    def _answered(self, code: int, text: bytes | str, where: str = "") -> Retry | Undeliverable:
        """4xx is for now, 5xx for good."""
        words = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        kind = Retry if 400 <= code < 500 else Undeliverable
        return kind(" ".join(f"{self._name} answers {code} {where}: {words[:300]}".split()))


def implicit(server: "Server", port: int) -> bool:
    """Tell whether the connection begins with TLS: as it says, else by the usual port."""
    return server.tls == "implicit" if server.tls else server.port == port


def words(error: BaseException) -> str:
    """An error in one line; libraries put what a server has said into theirs as bytes."""
    said = [each.decode("utf-8", "replace") for each in error.args if isinstance(each, bytes)]
    return " ".join((" ".join(said) or str(error)).split())[:300] or type(error).__name__
