"""Signed heads of the log go to who keeps them: one a day, and what was kept verifies the log."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.audit import events
from humanlayer_agent.audit.heads import head_text, heads_in
from humanlayer_agent.channels.contract import Retry
from humanlayer_agent.channels.mail.channel import MailChannel
from humanlayer_agent.channels.mail.message import Letterhead
from humanlayer_agent.channels.settings.schema import Mail, Server
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.hub.head_posts import witness
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.channels.mail.conftest import SECRETS
from tests.support.mail_servers import SmtpServer

DAY = 86_400_000
KEEPER = "auditor@example.com"


class Clock:
    ms = 20_000 * DAY

    def __call__(self) -> int:
        return self.ms


def settings(server: Server, **more: str) -> Mail:
    given = {"type": "email", "from": "agents@hub.test", "public_url": "https://hub.test", "heads_to": KEEPER, **more}
    return Mail.model_validate({**given, "smtp": server})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def channel(smtp_settings: Server, letterhead: Letterhead, clock: Clock) -> MailChannel:
    return MailChannel("mail", settings(smtp_settings), SECRETS, letterhead, frozenset(), clock=clock)


def test_one_a_day_that_verifies_the_log(channel: MailChannel, smtp: SmtpServer, clock: Clock, tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.sqlite3")
    task = witness(store, channel.post)
    for hour in range(30):
        store.record(events.POLICY_LOADED, run=f"run-{hour}")
        task.run()
        clock.ms += DAY // 24
    first, second = smtp.received
    assert (first["To"], first["Auto-Submitted"], first["Reply-To"]) == (KEEPER, "auto-generated", None)
    assert first["Message-ID"] != second["Message-ID"]
    assert first["References"] == second["References"]
    (kept,) = heads_in(second.as_bytes().decode())  # the mail as it was saved
    assert store.verify(heads=[kept]).intact
    assert kept.seq > heads_in(first.as_bytes().decode())[0].seq


def test_a_hub_that_is_started_again_and_again_sends_the_same_message(
    smtp: SmtpServer, smtp_settings: Server, letterhead: Letterhead, clock: Clock, tmp_path: Path
) -> None:
    """Programs that show mail show one of those."""
    head = head_text(SQLiteStore(tmp_path / "store.sqlite3").write_head())
    other = head_text(SQLiteStore(tmp_path / "other.sqlite3").write_head())
    for text in (head, head, other):
        MailChannel("mail", settings(smtp_settings), SECRETS, letterhead, frozenset(), clock=clock).post(text)
    ids = [mail["Message-ID"] for mail in smtp.received]
    assert ids[0] == ids[1] != ids[2]


def test_what_could_not_be_sent_is_sent_with_the_next_one(channel: MailChannel, smtp: SmtpServer) -> None:
    smtp.refuse = {KEEPER: "451 come later"}
    with pytest.raises(Retry):
        channel.post("hla-head-1 one")
    smtp.refuse = {}
    channel.post("hla-head-1 two")
    channel.post("hla-head-1 three")
    (mail,) = smtp.received
    assert "two" in mail.get_content().split()


def test_nobody_who_was_not_named_gets_one(smtp: SmtpServer, smtp_settings: Server, letterhead: Letterhead) -> None:
    named = settings(smtp_settings).model_copy(update={"heads_to": None})
    MailChannel("mail", named, SECRETS, letterhead, frozenset({KEEPER})).post("hla-head-1 one")
    assert smtp.received == []


def test_how_often_is_bounded(smtp_settings: Server) -> None:
    assert settings(smtp_settings).heads_every == DAY
    assert settings(smtp_settings, heads_every="1h").heads_every == DAY // 24
    for wrong in ("59m", "0s", "often", "31d"):
        with pytest.raises(ValidationError):
            settings(smtp_settings, heads_every=wrong)
    with pytest.raises(ValidationError):
        settings(smtp_settings, heads_to="a@example.com, b@example.com")


def test_a_warning_goes_to_each_who_may_decide_and_takes_no_head_its_turn(
    channel: MailChannel, smtp: SmtpServer
) -> None:
    people = [
        Person("ann", ("os:ann", "email:ann@example.com")),
        Person("ben", ("slack:T1/U2",)),
        Person("cy", ("email:cy@example.com",)),
    ]
    smtp.refuse = {"ann@example.com": "550 nobody"}
    with pytest.raises(ChannelError):
        channel.warn("BREAK-GLASS: ben signed\\n.", people)
    channel.post("hla-head-1 one")
    first, second = smtp.received
    assert (first["To"], first["Subject"]) == ("cy@example.com", "Break-glass: somebody acted outside of a route")
    assert "ben signed" in first.get_content()
    assert second["To"] == KEEPER


def test_a_warning_that_is_sent_again_goes_to_whom_it_did_not_reach(channel: MailChannel, smtp: SmtpServer) -> None:
    people = [Person(name, (f"email:{name}@example.com",)) for name in ("ann", "cy")]
    smtp.refuse = {"ann@example.com": "451 later"}
    with pytest.raises(Retry):
        channel.warn("BREAK-GLASS: ben signed.", people)
    smtp.refuse = {}
    channel.warn("BREAK-GLASS: ben signed.", people)
    assert [each["To"] for each in smtp.received] == ["cy@example.com", "ann@example.com"]
    channel.warn("BREAK-GLASS: ben signed.", people)
    assert len(smtp.received) == 4, "it has happened again"
