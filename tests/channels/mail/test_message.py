"""What the messages hold, and what they must never hold."""

import email
import email.policy
from collections.abc import Callable
from dataclasses import replace
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import QUESTION
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.mail.message import SHOWN, Letterhead, notice_message, request_message
from humanlayer_agent.channels.mail.reply_text import MARKER, said
from humanlayer_agent.channels.presentation import present
from tests.channels.asking import HELD
from tests.support import extent

ALICE = "alice@example.com"
HOSTILE = "echo '<script>alert(1)</script>' && cat <<'X'\r\nSubject: hello\nBcc: all@example.com\n\x1b]0;x\x07\u202e\0 {{ 7*7 }}\nX\n"


def sent(message: EmailMessage) -> EmailMessage:
    """The message as it comes out at the other end."""
    parsed = email.message_from_bytes(message.as_bytes(), policy=email.policy.default)
    assert isinstance(parsed, EmailMessage)
    return parsed


def texts(message: EmailMessage) -> tuple[str, str]:
    plain, html = message.get_body(("plain",)), message.get_body(("html",))
    assert plain is not None
    return plain.get_content(), html.get_content() if html is not None else ""


def asks(request: ApprovalRequest, letterhead: Letterhead) -> tuple[EmailMessage, bool]:
    message, complete = request_message(request, present(request), ALICE, letterhead)
    return sent(message), complete


def test_a_request(asked: Callable[..., ApprovalRequest], letterhead: Letterhead) -> None:
    request = asked()
    message, complete = asks(request, letterhead)
    plain, html = texts(message)
    link = f"https://hub.test/inbox/d/{letterhead.tokens.token('link', request.id, ALICE)}"
    assert complete
    assert message["To"] == ALICE
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Reply-To"].addresses[0].username == f"agents+{letterhead.tokens.token('reply', request.id, ALICE)}"
    assert len(message["Reply-To"].addresses[0].username) <= 64
    for text in (plain, html):
        assert "rm -rf build" in text
        assert MARKER in text
        assert link in text
        assert request.digest in text
        assert "approve" in text
    assert plain.startswith(MARKER)
    assert "not verified" in html


def test_one_thread_a_run_and_one_message_a_request(
    asked: Callable[..., ApprovalRequest], letterhead: Letterhead
) -> None:
    first, again = asks(asked(), letterhead)[0], asks(asked(), letterhead)[0]
    assert first["Message-ID"] == again["Message-ID"]
    settled = sent(notice_message(asked(), ALICE, letterhead, "It was approved.", settled=True))
    assert settled["In-Reply-To"] == first["Message-ID"]
    assert settled["References"].split() == [first["References"], first["Message-ID"]]


def test_high_severity_has_a_code_and_no_approval_by_reply(
    asked: Callable[..., ApprovalRequest], letterhead: Letterhead
) -> None:
    request = asked(severity="high")
    plain, html = texts(asks(request, letterhead)[0])
    code = letterhead.tokens.code(request.id, ALICE)
    for text in (plain, html):
        assert code in text
        assert "nothing but the word" not in text
    assert code not in letterhead.tokens.token("link", request.id, ALICE).upper()


def test_a_long_command_is_not_approved_by_mail(asked: Callable[..., ApprovalRequest], letterhead: Letterhead) -> None:
    long = "echo begin\n" + "x" * 60_000 + "\necho end"
    message, complete = asks(asked(long), letterhead)
    plain, html = texts(message)
    assert not complete
    for text in (plain, html):
        assert "echo begin" in text
        assert "echo end" in text
        assert "are left out here" in text
        assert "nothing but the word" not in text
        assert len(text) < 3 * SHOWN


def test_replies_and_links_only_where_there_are_some(
    asked: Callable[..., ApprovalRequest], letterhead: Letterhead
) -> None:
    silent = Letterhead(letterhead.sender, None, None, letterhead.tokens)
    message = asks(asked(severity="high"), silent)[0]
    assert "Reply-To" not in message
    assert all(MARKER not in text and "/d/" not in text and "asks for this code" not in text for text in texts(message))


def test_hostile_commands_stay_in_the_body(asked: Callable[..., ApprovalRequest], letterhead: Letterhead) -> None:
    message, _ = asks(asked(HOSTILE), letterhead)
    plain, html = texts(message)
    headers = "\n".join(f"{name}: {value}" for name, value in message.items())
    assert "hello" not in headers
    assert "Bcc" not in message
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "{{ 7*7 }}" in plain
    for text in (plain, html):
        assert not set("\x1b\x07\0\u202e") & set(text)


@settings(max_examples=extent.examples(60))
@given(command=st.text(min_size=1, max_size=400))
def test_any_command_can_be_sent(command: str, asked: Callable[..., ApprovalRequest], letterhead: Letterhead) -> None:
    request = asked(command)
    message, _ = asks(request, letterhead)
    assert not message.defects
    assert {name.lower() for name in message} == {
        "from", "to", "reply-to", "subject", "date", "references", "auto-submitted", "x-auto-response-suppress",
        "message-id", "mime-version", "content-type",
    }  # fmt: skip
    assert said(message).kind == "unclear"  # our own message, sent back as it is, decides nothing


@pytest.mark.parametrize("comment", ["", "not on a Friday\n\x1b[2J"])
def test_notices(comment: str, asked: Callable[..., ApprovalRequest], letterhead: Letterhead) -> None:
    message = sent(notice_message(asked(), ALICE, letterhead, "It was rejected by bob.", settled=True, comment=comment))
    text = texts(message)[0]
    assert text.startswith("It was rejected by bob.")
    assert "rm -rf" not in text
    assert "\x1b" not in text
    assert ("Friday" in text) == bool(comment)


def test_a_question_is_answered_in_the_inbox(asked: Callable[..., ApprovalRequest], letterhead: Letterhead) -> None:
    made = asked("Which branch?\n\n1. main")
    question = replace(made, action=replace(made.action, type=QUESTION, interpreter=(QUESTION,)))
    for text in texts(asks(question, letterhead)[0]):
        assert "asks you something" in text
        assert "answered in words, in the inbox" in text
        assert letterhead.tokens.token("link", question.id, ALICE) in text
        assert "approv" not in text.lower()


def test_of_a_held_run_only_the_summary_is_mailed(
    asked: Callable[..., ApprovalRequest], letterhead: Letterhead
) -> None:
    request = asked()
    request = replace(request, decision=replace(request.decision, held=HELD))
    for text in texts(asks(request, letterhead)[0]):
        words = " ".join(text.split())
        assert "a yes applies exactly this, and runs nothing" in words
        assert "changes src/b (4 to 9 bytes)" in words
        assert "@@ -1" not in text
        assert "all done" not in text
