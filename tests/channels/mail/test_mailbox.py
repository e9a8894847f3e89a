"""The mailbox against a real IMAP server: many mails, mails that vanish, servers that go, and what can't be marked."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.mail.mailbox import Handled, Mailbox
from humanlayer_agent.channels.settings.schema import Server
from humanlayer_agent.testing.patience import PATIENCE
from tests.support.certificates import Certificates
from tests.support.mail_servers import PASSWORD, USER, ImapServer, free_port

SECRETS = {"IMAP_USER": USER, "IMAP_PASSWORD": PASSWORD}
TOKEN = Tokens(bytes(range(32))).token("reply", "a1" * 16, "alice@example.com")


def ours(subject: str) -> bytes:
    return f"From: alice@example.com\r\nTo: Agents\r\n <agents+{TOKEN}@hub.test>\r\nSubject: {subject}\r\n\r\nx\r\n".encode()


def other(number: int) -> bytes:
    return f"From: list@example.com\r\nTo: agents@hub.test\r\nSubject: {number}\r\n\r\nagents+{TOKEN}@hub.test\r\n".encode()


class Reader:
    """What a mailbox hands over; `becomes` says what becomes of each."""

    def __init__(self, settings: Server) -> None:
        self.subjects: list[str] = []
        self.becomes: Callable[[str], Handled] = lambda subject: "done"
        self._more = threading.Condition()
        self.mailbox = Mailbox(settings, SECRETS, self._handle)

    def _handle(self, raw: bytes | None) -> Handled:
        subject = (raw or b"").partition(b"Subject: ")[2].partition(b"\r\n")[0].decode()
        with self._more:
            self.subjects.append(subject)
            self._more.notify_all()
        return self.becomes(subject)

    def wait_for(self, *subjects: str) -> None:
        with self._more:
            assert self._more.wait_for(lambda: set(subjects) <= set(self.subjects), PATIENCE), self.subjects


@pytest.fixture(scope="module")
def server(certificates: Certificates) -> Iterator[ImapServer]:
    with ImapServer.running(certificates) as made:
        yield made


@pytest.fixture
def imap(server: ImapServer) -> ImapServer:
    with server.client() as client:
        client.select_folder("INBOX")
        if old := client.search():
            client.delete_messages(old)
            client.expunge()
    return server


@pytest.fixture
def reader(certificates: Certificates) -> Iterator[Callable[[int], Reader]]:
    made: list[Reader] = []

    def build(port: int) -> Reader:
        settings = Server(
            host="localhost",
            port=port,
            ca=str(certificates.authority),
            user_env="IMAP_USER",
            password_env="IMAP_PASSWORD",
        )
        made.append(Reader(settings))
        return made[-1]

    yield build
    for each in made:
        each.mailbox.close(PATIENCE)


class Counted:
    """A client that counts what is fetched, and may refuse to mark."""

    def __init__(self, client: Any, refuses: bool = False) -> None:
        self._client = client
        self._refuses = refuses
        self.fetched: list[tuple[int, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def fetch(self, uids: list[int], what: list[str]) -> Any:
        self.fetched.append((len(uids), what[-1]))
        return self._client.fetch(uids, what)

    def add_flags(self, uids: list[int], flags: list[bytes]) -> Any:
        if self._refuses:
            raise self._client.Error("STORE failed: the mailbox is read-only")
        return self._client.add_flags(uids, flags)


def counted(reader: Reader, refuses: bool = False) -> list[Counted]:
    made: list[Counted] = []
    connected = reader.mailbox._connected
    reader.mailbox._connected = lambda: made.append(Counted(connected(), refuses)) or made[-1]  # type: ignore
    return made


@pytest.mark.long
def test_many_mails_that_are_none_of_ours(
    imap: ImapServer, reader: Callable[[int], Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a full mailbox only the headers are read, many at once, and of those only once; the newest come first."""
    monkeypatch.setattr("humanlayer_agent.channels.mail.mailbox.BATCH", 20)
    with imap.client() as client:
        client.append("INBOX", ours("old"))
        for number in range(30):
            client.append("INBOX", other(number))
        client.append("INBOX", ours("new"))
    reading = reader(imap.port)
    made = counted(reading)
    reading.mailbox.start()
    reading.wait_for("old", "new")
    assert reading.subjects == ["new", "old"]
    imap.deliver(ours("later"))
    reading.wait_for("later")
    whole = [count for count, what in made[0].fetched if what == "BODY.PEEK[]"]
    headers = [count for count, what in made[0].fetched if what != "BODY.PEEK[]"]
    assert whole == [1, 1, 1]
    assert headers == [20, 12, 1]


def test_what_is_told_of_before_idle_begins_is_not_waited_for(
    imap: ImapServer, reader: Callable[[int], Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail that comes between the look and IDLE is told of with the answer to another command, and never again."""
    monkeypatch.setattr("humanlayer_agent.channels.mail.mailbox.IDLE_FOR", 600.0)
    reading = reader(imap.port)
    connected = reading.mailbox._connected

    class JustAfter(Counted):
        delivered = False

        def search(self, criteria: Any) -> Any:
            found = self._client.search(criteria)
            if not self.delivered:
                imap.deliver(ours("between"))
                self._client.noop()
                self.delivered = True
            return found

    reading.mailbox._connected = lambda: JustAfter(connected())  # type: ignore
    reading.mailbox.start()
    reading.wait_for("between")


def test_what_is_done_is_not_handled_again(imap: ImapServer, reader: Callable[[int], Reader]) -> None:
    imap.deliver(ours("one"))
    first = reader(imap.port)
    first.mailbox.start()
    first.wait_for("one")
    first.mailbox.close(PATIENCE)
    second = reader(imap.port)
    second.mailbox.start()
    imap.deliver(ours("two"))
    second.wait_for("two")
    assert second.subjects == ["two"]


def test_a_mailbox_that_can_only_be_read(imap: ImapServer, reader: Callable[[int], Reader]) -> None:
    reading = reader(imap.port)
    made = counted(reading, refuses=True)
    imap.deliver(ours("one"))
    imap.deliver(ours("two"))
    reading.mailbox.start()
    reading.wait_for("one", "two")
    imap.deliver(ours("three"))
    reading.wait_for("three")
    assert sorted(reading.subjects) == ["one", "three", "two"]
    assert (len(made), reading.mailbox.problem) == (1, "")


@pytest.mark.long
def test_one_that_can_not_be_handled_keeps_nobody_waiting(imap: ImapServer, reader: Callable[[int], Reader]) -> None:
    reading = reader(imap.port)

    def becomes(subject: str) -> Handled:
        if subject == "bad":
            raise RuntimeError("a mistake of ours")
        return "done"

    reading.becomes = becomes
    imap.deliver(ours("good"))
    imap.deliver(ours("bad"))
    reading.mailbox.start()
    reading.wait_for("good", "bad")
    imap.deliver(ours("another"))
    reading.wait_for("another")


@pytest.mark.long
def test_a_mail_that_is_deleted_under_us(imap: ImapServer, reader: Callable[[int], Reader]) -> None:
    def becomes(subject: str) -> Handled:
        if subject == "two":
            with imap.client() as client:
                client.select_folder("INBOX")
                client.delete_messages(client.search())
                client.expunge()
        return "done"

    reading = reader(imap.port)
    reading.becomes = becomes
    imap.deliver(ours("one"))
    imap.deliver(ours("two"))
    reading.mailbox.start()
    reading.wait_for("two", "")  # nothing is there any more of the other
    imap.deliver(ours("three"))
    reading.wait_for("three")


@pytest.mark.long
def test_a_server_that_goes_and_comes_back_as_another(
    certificates: Certificates, reader: Callable[[int], Reader]
) -> None:
    """Its mailbox is another one then: the same numbers, another UIDVALIDITY."""
    port = free_port()
    with ImapServer.running(certificates, port) as server:
        reading = reader(port)
        server.deliver(ours("before"))
        reading.mailbox.start()
        reading.wait_for("before")
    with ImapServer.running(certificates, port) as server:
        server.deliver(ours("after"))
        reading.wait_for("after")
