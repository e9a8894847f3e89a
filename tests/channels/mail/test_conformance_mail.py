"""The kit against the mail channel: a real mail server, and replies that come in by a real mailbox."""

import html
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import EmailMessage

import pytest

from humanlayer_agent.approvals.grants import offers
from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.mail.channel import MailChannel
from humanlayer_agent.channels.mail.message import Letterhead
from humanlayer_agent.channels.settings.schema import Mail
from humanlayer_agent.testing.approvers import answer
from humanlayer_agent.testing.conformance import CONTACT, FETCH, ChannelConformance
from humanlayer_agent.testing.conformance_rig import CannotHappen, Fault, World
from tests.support.certificates import Certificates
from tests.support.mail_servers import PASSWORD, USER, ImapServer, SmtpServer

PEOPLE = {"alice": "email:alice@example.com", "bob": "email:bob@example.org"}
SECRETS = {"MAIL_USER": USER, "MAIL_PASSWORD": PASSWORD}


class MailSurface:
    """What one person has of a request: the mail that asks, and what came later in its thread."""

    def __init__(self, rig: "MailRig", request_id: str) -> None:
        self._rig = rig
        self._id = request_id
        self._last = b""

    @property
    def _mails(self) -> list[EmailMessage]:
        return [mail for mail in self._rig.smtp.received if f"[{self._id[:8]}]" in mail["Subject"]]

    @property
    def _asks(self) -> list[EmailMessage]:
        return [mail for mail in self._mails if not mail["Subject"].startswith("Re:")]

    @property
    def _settled(self) -> list[str]:
        later = [mail.get_content() for mail in self._mails if mail["Subject"].startswith("Re:")]
        return list(dict.fromkeys(text for text in later if "Nothing can be answered any more" in text))

    def text(self) -> str:
        asked = self._asks[0]
        page = asked.get_body(("html",)).get_content()
        return "\n".join([html.unescape(page), asked.get_body(("plain",)).get_content(), *self._settled])

    def frame(self) -> str:
        text = self._asks[0].get_body(("plain",)).get_content()
        text = re.sub(r"(?m)^ *(?:\d+|\+) │.*$|^ +\^+.*$", "", text)
        text = re.sub(r"[0-9a-f]{32,}|https://\S+|\d{4}-\d\d-\d\d \d\d:\d\d", "", text)
        return re.sub(r"(?m)^ (?:Beware) +", "", text)

    def offers(self) -> frozenset[str]:
        text = self._asks[0].get_body(("plain",)).get_content()
        if self._settled:
            return frozenset()
        by_reply = ["approve"] if "nothing but the word approve" in text else []
        return frozenset((*by_reply, "reject"))

    def answer(self, kind: str, who: str, words: str = "") -> None:
        if kind not in ("approve", "reject"):
            raise CannotHappen
        said = kind if not words else f"{kind} {words}"
        self.send(who, b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + said.encode("utf-8", "replace"))

    def send(self, who: str, content: bytes) -> None:
        """Reply with this, which begins with its type."""
        address = PEOPLE[who].removeprefix("email:")
        asked = next((mail for mail in self._asks if mail["To"] == address), None)
        if asked is None:
            raise CannotHappen
        domain = address.partition("@")[2]
        self._last = (
            f"Authentication-Results: mx.hub.test; dmarc=pass header.from={domain}\r\nFrom: {address}\r\n"
            f"To: {asked['Reply-To']}\r\nMessage-ID: <{time.monotonic_ns()}@{domain}>\r\nMIME-Version: 1.0\r\n"
        ).encode() + content
        self._rig.imap.deliver(self._last)

    def repeat(self) -> None:
        self._rig.imap.deliver(self._last)


class MailRig:
    def __init__(self, smtp: SmtpServer, imap: ImapServer, certificates: Certificates) -> None:
        self.people = PEOPLE
        self.smtp = smtp
        self.imap = imap
        server = {"host": "localhost", "ca": str(certificates.authority), "user_env": "MAIL_USER"}
        server["password_env"] = "MAIL_PASSWORD"
        self._settings = Mail.model_validate(
            {
                "type": "email",
                "from": "agents@hub.test",
                "smtp": server | {"port": smtp.port},
                "imap": server | {"port": imap.port},
                "authserv_id": "mx.hub.test",
            }
        )
        self.channels: list[MailChannel] = []

    def channel(self) -> MailChannel:
        for before in self.channels:
            before.close()  # a process that died reads no mail
        letterhead = Letterhead("agents@hub.test", "agents@hub.test", None, Tokens(bytes(range(32))))
        addresses = frozenset(who.removeprefix("email:") for who in PEOPLE.values())
        self.channels.append(MailChannel("mail", self._settings, SECRETS, letterhead, addresses))
        return self.channels[-1]

    def surfaces(self, request_id: str) -> list[MailSurface]:
        found = MailSurface(self, request_id)
        return [found] if found._asks else []

    def told(self, who: str) -> list[str]:
        address = PEOPLE[who].removeprefix("email:")
        return [
            mail.get_content()
            for mail in self.smtp.received
            if mail["To"] == address and mail["Subject"].startswith("Re:") and "Your answer" in mail.get_content()
        ]

    def pings(self, request_id: str) -> list[str]:
        return sorted({mail["To"] for mail in MailSurface(self, request_id)._asks})

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        if fault == "busy":
            self.smtp.refuse = {who.removeprefix("email:"): "451 come later" for who in PEOPLE.values()}
        self.smtp.down, self.smtp.locked = fault == "down", fault == "gone"
        yield
        self.smtp.refuse, self.smtp.down, self.smtp.locked = {}, False, False


@pytest.fixture(scope="module")
def imap(certificates: Certificates) -> Iterator[ImapServer]:
    with ImapServer.running(certificates) as server:
        yield server


class TestMail(ChannelConformance):
    @pytest.fixture
    def rig(self, smtp: SmtpServer, imap: ImapServer, certificates: Certificates) -> Iterator[MailRig]:
        with imap.client() as client:
            client.select_folder("INBOX")
            if old := client.search():
                client.delete_messages(old)
                client.expunge()
        made = MailRig(smtp, imap, certificates)
        yield made
        for channel in made.channels:
            channel.close()

    @pytest.mark.long
    def test_no_mail_grants_anything(self, world: World, rig: MailRig) -> None:
        """No mail offers it, no reply says it, and the core takes none that claims to have come by mail."""
        request = world.ask(FETCH, asks=CONTACT)
        world.deliver(request)
        surface = world.surface(request)
        assert isinstance(surface, MailSurface)
        assert offers(request)
        for mail in (each for each in rig.smtp.received if f"[{request.id[:8]}]" in each["Subject"]):
            said = " ".join("".join(part.get_content() for part in mail.walk() if not part.is_multipart()).split())
            assert not any(offer.words in said for offer in offers(request))
            assert "more than once" not in said
        for count, words in enumerate(("approve run", "approve for 1 hour", "approve: hour"), 1):
            surface.send("alice", b"Content-Type: text/plain; charset=utf-8\r\n\r\n" + words.encode())
            world.until(lambda count=count: len(world.events(request, "vote.refused")) == count, "a refusal")
        assert world.state(request) == "pending"
        for assurance in ("mail-reply", "mail-link"):
            claimed = answer(request, "approve", approver=Approver(PEOPLE["alice"], "mail", assurance), scope="run")
            assert world.desk().decide(request.id, claimed).code == "no-such-scope"
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval of this once")
        assert [vote.scope for vote in world.store.votes(request.id)] == [""]
        assert world.store.grants.given() == []

    @pytest.mark.long
    def test_a_mail_of_too_many_parts_is_told_of_and_nothing_is_lost(self, world: World, rig: MailRig) -> None:
        request = world.ask()
        world.deliver(request)
        surface = world.surface(request)
        assert isinstance(surface, MailSurface)
        parts = "".join(f'Content-Type: multipart/mixed; boundary="{n}"\r\n\r\n--{n}\r\n' for n in range(60))
        surface.send("alice", parts.encode() + b"Content-Type: text/plain\r\n\r\napprove\r\n")
        world.until(lambda: rig.told("alice"), "that she is told")
        assert "it has more than 50 parts" in rig.told("alice")[0]
        (refused,) = world.events(request, "vote.refused")
        assert refused.event["refusal"] == "unclear"
        assert world.state(request) == "pending"
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "her answer")
