"""Reads replies from an IMAP mailbox as they come in.

Each mail is handed over once, and marked `\\Answered` when that is done: after a crash in between it is handed over
again, and the store knows that it was. Mails that are none of ours stay as they are. Which mails are new is not told by
their numbers, which a server may give anew (UIDVALIDITY), but by that mark.
"""

import logging
import re
import selectors
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from humanlayer_agent.channels.mail.authenticity import MAX_BYTES, RECIPIENTS
from humanlayer_agent.channels.mail.smtp import TIMEOUT, implicit, tls_context, words
from humanlayer_agent.errors import ChannelError

if TYPE_CHECKING:
    from imapclient import IMAPClient

    from humanlayer_agent.channels.settings.schema import Server

Handled = Literal["done", "not-ours", "later"]
"""What became of a mail: done (mark it), none of ours (leave it), or not now (the store could not be written)."""

IDLE_AT_FIRST = 0.5
"""Seconds after which we look again, at first: what comes just before IDLE begins is not always told in it. Each time
that nothing was found it is twice as long, so that what was not told waits as long as all was quiet, at the most."""

IDLE_FOR = 20.0
"""Seconds after which we look again in any case, in the end."""

NOOP_EVERY = 15.0
"""Seconds between looks, where the server has no IDLE."""

BACK_OFF = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Seconds to wait before connecting again, after the first failure, the second, ..."""

DAYS = 14
"""Older mails are not looked at: no request waits so long."""

BATCH = 200
"""Mails whose headers are asked for at once: a mailbox may hold thousands that are none of ours."""

ATTEMPTS = 5
"""How often one mail is tried that can't be handled."""

_TOKEN = re.compile(rb"\+[a-z2-7]{26}\.[a-z2-7]{20}@", re.IGNORECASE)

_log = logging.getLogger("humanlayer_agent.mail")


class Mailbox:
    """Watches one mailbox on a thread of its own.

    Args:
        server: which, and how; TLS always, as for sending.
        secrets: values of the environment variables that it names.
        handle: called with each mail's bytes (None where it is too large to be read), on that thread.
    """

    def __init__(self, server: "Server", secrets: Mapping[str, str], handle: Callable[[bytes | None], Handled]) -> None:
        self._server = server
        self._secrets = secrets
        self._handle = handle
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: set[tuple[int, int]] = set()
        self._failed: dict[tuple[int, int], int] = {}
        self.problem = "not connected yet"
        """What keeps it from reading now; "" while it reads."""

    def start(self) -> None:
        """Begin to watch. Returns at once: what goes wrong is told by `problem`, and tried again."""
        self._thread = threading.Thread(target=self._watch, name="mailbox", daemon=True)
        self._thread.start()

    def close(self, timeout: float) -> None:
        """Stop; what is being handled is finished first, as far as there is time."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _watch(self) -> None:
        failures = 0
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._read_on()
            except Exception as error:  # of the network, of TLS, of the server, of the library
                failures = 0 if time.monotonic() - began > 60 else failures
                self.problem = f"{self._server.host}:{self._server.port}: {words(error)}"
                _log.warning("mailbox %s", self.problem)
                self._over.wait(BACK_OFF[min(failures, len(BACK_OFF) - 1)])
                failures += 1

    def _read_on(self) -> None:
        """Connect, and handle mails until that fails or we are closed."""
        client = self._connected()
        try:
            idles = b"IDLE" in client.capabilities()
            validity = int(client.select_folder("INBOX").get(b"UIDVALIDITY", 0))
            self.problem = ""
            idle_for = IDLE_AT_FIRST
            while not self._over.is_set():
                found = self._look(client, validity)
                if found == "later":
                    self._over.wait(1.0)
                elif found == "some":
                    idle_for = IDLE_AT_FIRST
                    continue  # what came meanwhile was told then, and is not told again
                elif idles:
                    self._idle(client, idle_for)
                    idle_for = min(2 * idle_for, IDLE_FOR)
                else:
                    self._over.wait(NOOP_EVERY)
                    client.noop()
        finally:
            self.problem = self.problem or "not connected"
            with suppress(Exception):
                client.logout()

    def _connected(self) -> "IMAPClient":
        from imapclient import IMAPClient

        server, context = self._server, tls_context(self._server)
        begins = implicit(server, 993)
        client = IMAPClient(
            server.host, server.port, ssl=begins, ssl_context=context if begins else None, timeout=TIMEOUT
        )
        try:
            if not begins:
                client.starttls(context)
            if server.user_env is None or server.password_env is None:
                raise ChannelError("imap needs user_env and password_env")
            client.login(self._secrets[server.user_env], self._secrets[server.password_env])
        except BaseException:
            with suppress(Exception):
                client.shutdown()
            raise
        return client

    def _look(self, client: "IMAPClient", validity: int) -> Literal["none", "some", "later"]:
        """Handle what is new, the newest first. Whether there was any; or something has to be handled again soon."""
        since = (datetime.now(UTC) - timedelta(days=DAYS)).date()
        found = client.search(["UNANSWERED", "UNDELETED", "SINCE", since])
        self._seen &= {(validity, uid) for uid in found}  # what was marked or deleted is not asked for again
        new = sorted((uid for uid in found if (validity, uid) not in self._seen), reverse=True)
        result: Literal["none", "some", "later"] = "some" if new else "none"
        for first in range(0, len(new), BATCH):
            for uid, size in self._worth_reading(client, validity, new[first : first + BATCH]):
                if self._over.is_set():
                    return result
                fetched = client.fetch([uid], ["BODY.PEEK[]"]).get(uid, {}) if size <= MAX_BYTES else {}
                handled = self._handled((validity, uid), fetched.get(b"BODY[]"))
                if handled == "later":
                    result = "later"
                    continue
                self._seen.add((validity, uid))
                if handled == "done":
                    self._mark(client, uid)
        return result

    @staticmethod
    def _tokens_in(headers: bytes) -> bool:
        return _TOKEN.search(re.sub(rb"[\r\n\t ]+", b"", headers)) is not None

    def _worth_reading(self, client: "IMAPClient", validity: int, uids: list[int]) -> list[tuple[int, int]]:
        """Those that are sent to an address with a token, and their sizes; the others were seen with that."""
        found = client.fetch(uids, ["RFC822.SIZE", f"BODY.PEEK[HEADER.FIELDS ({' '.join(RECIPIENTS)})]"])
        worth = []
        for uid in uids:
            fields = found.get(uid, {})
            headers = b"".join(
                value for key, value in fields.items() if key.startswith(b"BODY[") and isinstance(value, bytes)
            )
            if self._tokens_in(headers):
                worth.append((uid, int(fields.get(b"RFC822.SIZE", 0))))
            else:
                self._seen.add((validity, uid))
        return worth

    def _handled(self, name: tuple[int, int], raw: bytes | None) -> Handled:
        """Hand one mail over. One that can't be handled is tried a few times, and must not keep others waiting."""
        try:
            return self._handle(raw)
        except Exception:
            _log.exception("mail %s could not be handled", name[1])
            self._failed[name] = self._failed.get(name, 0) + 1
            return "later" if self._failed[name] < ATTEMPTS else "not-ours"

    @staticmethod
    def _mark(client: "IMAPClient", uid: int) -> None:
        """It may not be possible: a mailbox may be read-only, a mail deleted. Then it is known until we are closed."""
        try:
            client.add_flags([uid], [b"\\Answered", b"\\Seen"])
        except client.AbortError:
            raise
        except client.Error as error:
            _log.warning("mail %s can't be marked: %s", uid, words(error))

    def _idle(self, client: "IMAPClient", seconds: float) -> None:
        """Wait until the server says something, a moment at a time so that we can be closed.

        What it says is read when IDLE is over: `idle_check` reads without waiting, and loses the half of a line.
        """
        client.idle()
        try:
            until = time.monotonic() + seconds
            with selectors.DefaultSelector() as says:
                says.register(client.socket(), selectors.EVENT_READ)
                while time.monotonic() < until and not self._over.is_set():
                    if says.select(0.2):
                        break
        finally:
            client.idle_done()
