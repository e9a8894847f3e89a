"""A whole approval by mail: an agent asks, a mail goes out, a reply comes in, and the command runs, or not.

Everything is real but the model: the agent, the policy, the store, the hub, a mail server over TLS, an IMAP server.
"""

import getpass
import tempfile
import threading
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

from humanlayer_agent.agents.mini import SupervisedAgent
from humanlayer_agent.channels.mail.reply_text import MARKER
from humanlayer_agent.configuration import build_gate
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, config_folder, default_store_path
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support.certificates import Certificates
from tests.support.dovecot import dovecot, find_dovecot
from tests.support.keys import make_key, passphrase_file
from tests.support.mail_servers import PASSWORD, USER, ImapServer, SmtpServer, free_port

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
VERDICT = "Authentication-Results: mx.hub.test; dmarc=pass header.from=example.com\r\n"


@pytest.fixture
def imap(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[ImapServer]:
    """pymap, or Dovecot where a test asks for that and it is installed."""
    if getattr(request, "param", "pymap") == "pymap":
        with ImapServer.running(certificates) as server:
            yield server
        return
    if find_dovecot() is None:
        pytest.skip("Dovecot 2.3 is not installed (apt-get install dovecot-imapd); allowed in CI")
    with tempfile.TemporaryDirectory(prefix="dovecot-") as folder, dovecot(Path(folder) / "d", certificates) as server:
        yield server


@pytest.fixture
def web_port() -> int:
    return free_port()


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    certificates: Certificates,
    smtp: SmtpServer,
    imap: ImapServer,
    web_port: int,
) -> Callable[[str], Any]:
    """Starts an agent that proposes one command; its configuration asks alice, by mail alone."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    for name in ("SMTP", "IMAP"):
        monkeypatch.setenv(f"{name}_USER", USER)
        monkeypatch.setenv(f"{name}_PASSWORD", PASSWORD)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(passphrase_file(tmp_path)))
    server = "host: localhost, port: {}, ca: {}, user_env: {}_USER, password_env: {}_PASSWORD"
    config_folder().mkdir(parents=True, mode=0o700)
    (config_folder() / "channels.yaml").write_text(
        f"""
version: 1
people:
  alice: {{email: alice@example.com}}
  starter: {{os_user: {getpass.getuser()}}}
channels:
  web: {{type: web, listen: "127.0.0.1:{web_port}", public_url: "http://127.0.0.1:{web_port}"}}
  mail:
    type: email
    from: agents@hub.test
    public_url: http://127.0.0.1:{web_port}
    smtp: {{{server.format(smtp.port, certificates.authority, "SMTP", "SMTP")}}}
    imap: {{{server.format(imap.port, certificates.authority, "IMAP", "IMAP")}}}
    authserv_id: mx.hub.test
routes:
  default: {{approvers: [alice], timeout: 20m, steps: [{{to: mail}}, {{to: web, after: 15m}}]}}
signers: ["{make_key().fingerprint}"]
"""
    )

    (tmp_path / "policy.yaml").write_text(
        "version: 1\npolicy: mine\ndefaults: {unmatched: allow}\nrules:\n"
        "  - {id: touching, decision: ask, reason: touches a file, severity: medium, when: {program: touch},\n"
        "     tests: {match: [touch x], not_match: [ls]}}\n"
    )

    def start(command: str) -> "Running":
        outputs = [make_output("words", [{"command": each}]) for each in (command, SUBMIT)]
        gate = build_gate(project=project, asker=Nobody(), policy=tmp_path / "policy.yaml")
        config = {"system_template": "You are a test.", "instance_template": "{{task}}", "cost_limit": 0.0}
        agent = SupervisedAgent(
            DeterministicModel(outputs=outputs), LocalEnvironment(cwd=str(project)), gate=gate, **config
        )
        return Running(agent, gate)

    return start


class Nobody:
    """There is no terminal here."""

    name = "terminal"

    def ask(self, request: Any, *, until: int, cancelled: Callable[[], bool]) -> None:
        from humanlayer_agent.errors import NoTerminal

        raise NoTerminal("no terminal in this test")


class Running:
    """An agent at work on a thread."""

    def __init__(self, agent: SupervisedAgent, gate: Any) -> None:
        self.agent = agent
        self.gate = gate
        self._thread = threading.Thread(target=agent.run, args=("t",), daemon=True)
        self._thread.start()

    def observation(self) -> str:
        """What the model was told of its command, when the run is over."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        self.gate.close("done")
        return str(next(m for m in self.agent.messages if "raw_output" in (m.get("extra") or {}))["content"])


def reply(mail: EmailMessage, words: str, *, sender: str = "alice@example.com", verdict: str = VERDICT) -> bytes:
    """What a mail program sends, as our own mail server would hand it over."""
    plain = mail.get_body(("plain",))
    assert plain is not None
    quoted = "\r\n".join(f"> {line}" for line in plain.get_content().splitlines())
    return (
        f"{verdict}From: Alice <{sender}>\r\nTo: {mail['Reply-To']}\r\nSubject: Re: {mail['Subject']}\r\n"
        f"In-Reply-To: {mail['Message-ID']}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
        f"{words}\r\n\r\nOn Monday, Agents <agents@hub.test> wrote:\r\n{quoted}\r\n"
    ).encode()


def events(kind: str) -> list[dict[str, Any]]:
    store = SQLiteStore(default_store_path())
    try:
        return [entry.event for entry in store.events(type=kind)]
    finally:
        store.close()


@pytest.mark.sample(1)
@pytest.mark.parametrize("imap", ["pymap", "dovecot"], indirect=True)
def test_a_reply_approves(run: Callable[[str], Running], smtp: SmtpServer, imap: ImapServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    agent = run(f"touch {outside}")
    (asked,) = smtp.wait_for(1)
    assert MARKER in asked.get_body(("plain",)).get_content()
    assert str(outside) in asked.get_body(("html",)).get_content()
    assert not outside.exists()
    imap.deliver(reply(asked, "approve", verdict="Authentication-Results: evil.test; dmarc=pass\r\n"))
    imap.deliver(reply(asked, "approve", sender="mallory@example.com"))
    imap.deliver(reply(asked, "yes please"))
    unclear = smtp.wait_for(2)[1]
    assert "nothing was decided" in unclear.get_content()
    assert not outside.exists()
    imap.deliver(reply(asked, "approve"))
    agent.observation()
    assert outside.exists()
    settled = smtp.wait_for(3)[2]
    assert "It was approved by alice." in settled.get_content()
    assert settled["In-Reply-To"] == asked["Message-ID"]
    (vote,) = events("vote.recorded")
    assert vote["approver"] == {
        "principal": "email:alice@example.com",
        "channel": "mail",
        "assurance": "mail-reply",
    } | {key: value for key, value in vote["approver"].items() if key not in ("principal", "channel", "assurance")}
    assert {event["refusal"] for event in events("vote.refused")} == {"unauthenticated", "unclear"}


@pytest.mark.long
def test_a_reply_rejects(run: Callable[[str], Running], smtp: SmtpServer, imap: ImapServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    agent = run(f"touch {outside}")
    (asked,) = smtp.wait_for(1)
    imap.deliver(reply(asked, "reject: not on a Friday"))
    told = agent.observation()
    assert "not on a Friday" in told
    assert not outside.exists()


@pytest.mark.long
def test_the_link_approves(run: Callable[[str], Running], smtp: SmtpServer, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    agent = run(f"touch {outside}")
    (asked,) = smtp.wait_for(1)
    words = asked.get_body(("plain",)).get_content().split()
    link = next(word for word in words if "/d/" in word)
    origin = link.partition("/d/")[0]
    with httpx.Client(headers={"Origin": origin}, timeout=PATIENCE) as browser:
        page = browser.get(link).text
        assert not outside.exists()
        token = page.partition('name="token" value="')[2].partition('"')[0]
        assert "recorded" in browser.post(link, data={"token": token, "answer": "approve"}).text
    agent.observation()
    assert outside.exists()
    (vote,) = events("vote.recorded")
    assert (vote["approver"]["channel"], vote["approver"]["assurance"]) == ("mail", "mail-link")


@pytest.mark.long
def test_a_bounce_escalates(run: Callable[[str], Running], smtp: SmtpServer, imap: ImapServer, tmp_path: Path) -> None:
    """A mail that comes back makes the next step of the route due at once; anybody could have written it, so no more."""
    outside = tmp_path / "outside.txt"
    agent = run(f"touch {outside}")
    smtp.wait_for(1)
    sent_from = smtp.envelopes[0][0]
    imap.deliver(
        (
            f"Return-Path: <>\r\nFrom: MAILER-DAEMON@mx.hub.test\r\nTo: {sent_from}\r\nAuto-Submitted: auto-replied\r\n"
            'MIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n\r\n'
            "--b\r\nContent-Type: text/plain\r\n\r\napprove\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n"
            "Reporting-MTA: dns; mx.hub.test\r\n\r\nFinal-Recipient: rfc822; alice@example.com\r\nAction: failed\r\n"
            "Status: 5.1.1\r\n\r\n--b--\r\n"
        ).encode()
    )
    until(lambda: [event for event in events("presentation.delivered") if event["channel"] == "web"], "the next step")
    (failed,) = events("presentation.failed")
    assert "did not arrive" in failed["why"]
    assert not outside.exists()
    expire()
    agent.observation()
    assert not outside.exists()


def expire() -> None:
    """Nobody has answered in time."""
    store = SQLiteStore(default_store_path())
    try:
        (request,) = store.requests(state="pending")
        store.expire(request.id)
    finally:
        store.close()


@pytest.mark.long
def test_no_mail_arrives(run: Callable[[str], Running], smtp: SmtpServer, tmp_path: Path) -> None:
    """For good: nobody else can be asked, and the reason says which channel failed and why."""
    smtp.refuse["alice@example.com"] = "550 no such user"
    outside = tmp_path / "outside.txt"
    agent = run(f"touch {outside}")
    until(lambda: events("presentation.failed"), "a delivery that failed")
    (failed,) = events("presentation.failed")
    assert "550" in failed["why"]
    assert not outside.exists()
    expire()
    told = agent.observation()
    assert "no such user" in told
    assert not outside.exists()
