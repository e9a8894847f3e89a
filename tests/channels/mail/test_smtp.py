"""Against a real mail server: TLS that is checked, the login, and what its answers mean."""

from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.contract import Audience, Retry, Undeliverable
from humanlayer_agent.channels.mail.channel import ATTEMPTS, MailChannel
from humanlayer_agent.channels.mail.message import Letterhead
from humanlayer_agent.channels.mail.smtp import Sender
from humanlayer_agent.channels.settings.schema import Mail, Server
from tests.support.certificates import make_certificates
from tests.support.mail_servers import PASSWORD, USER, SmtpServer, free_port

SECRETS = {"SMTP_USER": USER, "SMTP_PASSWORD": PASSWORD}


@pytest.fixture
def changed(smtp_settings: Server) -> Callable[..., Server]:
    def build(**changes: Any) -> Server:
        return smtp_settings.model_copy(update=changes)

    return build


def message(to: str = "alice@example.com") -> EmailMessage:
    found = EmailMessage()
    found["To"], found["From"], found["Subject"] = to, "agents@hub.test", "hello"
    found.set_content("x")
    return found


def send(server: Server, to: str = "alice@example.com", **secrets: str) -> None:
    Sender(server, SECRETS | secrets).send(message(to), envelope_from="agents+t@hub.test")


def test_a_message_arrives(smtp: SmtpServer, smtp_settings: Server) -> None:
    send(smtp_settings)
    assert smtp.received[0]["Subject"] == "hello"
    assert smtp.envelopes == [("agents+t@hub.test", ["alice@example.com"])]
    Sender(smtp_settings, SECRETS).check()
    assert len(smtp.received) == 1


@pytest.mark.parametrize(
    ("answer", "kind"), [("451 come again later", Retry), ("421 busy", Retry), ("550 no such user", Undeliverable)]
)
def test_what_the_server_answers(smtp: SmtpServer, smtp_settings: Server, answer: str, kind: type[Exception]) -> None:
    smtp.refuse["alice@example.com"] = answer
    with pytest.raises(kind, match=answer[4:]):
        send(smtp_settings)


def test_a_wrong_password(smtp_settings: Server) -> None:
    with pytest.raises(Undeliverable, match="535 at the login"):
        send(smtp_settings, SMTP_PASSWORD="other")


def test_nobody_there(changed: Callable[..., Server]) -> None:
    with pytest.raises(Retry, match="mail server localhost"):
        send(changed(port=free_port()))


def test_a_certificate_of_somebody_else(changed: Callable[..., Server], tmp_path: Path, smtp: SmtpServer) -> None:
    other = make_certificates(tmp_path / "other")
    for settings in (changed(ca=str(other.authority)), changed(ca=None)):
        with pytest.raises(Undeliverable, match="certificate is not to be trusted"):
            send(settings)
    with pytest.raises(Undeliverable, match=r"ca .*missing\.pem"):
        send(changed(ca=str(tmp_path / "missing.pem")))
    assert smtp.received == []


def test_a_certificate_of_another_name(changed: Callable[..., Server], tmp_path: Path) -> None:
    other = make_certificates(tmp_path / "other", host="mail.other.test")
    with SmtpServer.running(other) as server:
        with pytest.raises(Undeliverable, match="certificate is not to be trusted"):
            send(changed(port=server.port, ca=str(other.authority)))
        assert server.received == []


def test_a_server_without_tls_gets_nothing(changed: Callable[..., Server]) -> None:
    from aiosmtpd.controller import Controller

    class Plain:
        received = 0

        async def handle_DATA(self, *_: Any) -> str:  # noqa: N802
            Plain.received += 1
            return "250 OK"

    controller = Controller(Plain(), hostname="127.0.0.1", port=free_port(), auth_require_tls=False)
    controller.start()
    try:
        with pytest.raises(Undeliverable, match="TLS only"):
            send(changed(port=controller.port))
    finally:
        controller.stop()
    assert Plain.received == 0


def test_a_connection_that_is_lost_after_the_message(smtp: SmtpServer, smtp_settings: Server) -> None:
    smtp.dropped = True
    with pytest.raises(Retry):
        send(smtp_settings)
    assert len(smtp.received) == 1  # it will come twice, under the same Message-ID


def test_one_who_is_to_come_later_keeps_nobody_waiting(
    smtp: SmtpServer, smtp_settings: Server, letterhead: Letterhead, asked: Callable[..., ApprovalRequest]
) -> None:
    """Who was reached can't answer before the delivery is over; nobody gets two messages meanwhile."""
    settings = Mail(type="email", **{"from": "agents@hub.test"}, smtp=smtp_settings, public_url="https://hub.test")
    channel = MailChannel("mail", settings, SECRETS, letterhead, frozenset())
    people = tuple(Person(name, (f"email:{name}@example.com",)) for name in ("alice", "bob", "carol"))
    smtp.refuse = {"alice@example.com": "451 come later", "carol@example.com": "550 no such user"}
    for _ in range(ATTEMPTS - 1):
        with pytest.raises(Retry, match="come later"):
            channel.deliver(asked(), Audience(people))
    ref = channel.deliver(asked(), Audience(people))
    assert ref.where["to"] == ["bob@example.com"]
    assert sorted(ref.where["refused"]) == ["alice@example.com", "carol@example.com"]
    assert [mail["To"] for mail in smtp.received] == ["bob@example.com"]
    smtp.refuse = {}
    assert channel.deliver(asked(), Audience(people)).where["refused"] == {}


def test_while_nobody_is_reached_it_is_tried_on(
    smtp: SmtpServer, smtp_settings: Server, letterhead: Letterhead, asked: Callable[..., ApprovalRequest]
) -> None:
    settings = Mail(type="email", **{"from": "agents@hub.test"}, smtp=smtp_settings, public_url="https://hub.test")
    channel = MailChannel("mail", settings, SECRETS, letterhead, frozenset())
    smtp.refuse = {"alice@example.com": "451 come later"}
    for _ in range(ATTEMPTS + 2):
        with pytest.raises(Retry):
            channel.deliver(asked(), Audience((Person("alice", ("email:alice@example.com",)),)))
