"""Adversarial mails, each with its exact outcome; and that no command can answer for the person who was asked."""

import email
import email.policy
import re
import textwrap
from collections.abc import Callable
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.mail.authenticity import REFUSALS, Desk, Refusal, Reply, vet
from humanlayer_agent.channels.mail.reply_text import MARKER, decided, own_words, said
from tests.support import extent

TOKENS = Tokens(bytes(range(32)))
REQUEST, OTHER = "a1" * 16, "b2" * 16
ALICE, BOB, MALLORY = "alice@example.com", "bob@example.org", "mallory@example.com"
DESK = Desk(TOKENS, "agents@hub.test", (ALICE, BOB), "mx.hub.test")
PASS = "mx.hub.test; dmarc=pass (p=reject) header.from=example.com; spf=pass smtp.mailfrom=example.com"


def to(token: str) -> str:
    return f"agents+{token}@hub.test"


REPLY_TO = to(TOKENS.token("reply", REQUEST, ALICE))


def mail(body: str = "approve\n", *, html: str = "", results: str | None = PASS, **headers: str) -> bytes:
    """A reply by Alice; headers by name with _ for -, "" leaves one out."""
    given = {
        "From": f"Alice <{ALICE}>",
        "To": REPLY_TO,
        "Subject": "Re: Approval needed",
        "Message-ID": "<1@example.com>",
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"Authentication-Results: {results}"] if results is not None else []
    lines += [f"{name}: {value}" for name, value in given.items() if value]
    kind = "text/html" if html else "text/plain"
    lines += [
        "MIME-Version: 1.0",
        f'Content-Type: {kind}; charset="utf-8"',
        "Content-Transfer-Encoding: 8bit",
        "",
        html or body,
    ]
    return "\n".join(lines).encode()


def report(action: str, token: str) -> bytes:
    """What a mail server says about a message that it could not deliver."""
    return textwrap.dedent(f"""\
        Return-Path: <>
        From: MAILER-DAEMON@mx.example.com
        To: {to(token)}
        Subject: Undelivered Mail Returned to Sender
        Auto-Submitted: auto-replied
        MIME-Version: 1.0
        Content-Type: multipart/report; report-type=delivery-status; boundary="b"

        --b
        Content-Type: text/plain

        approve
        --b
        Content-Type: message/delivery-status

        Reporting-MTA: dns; mx.example.com

        Final-Recipient: rfc822; {ALICE}
        Action: {action}
        Status: 5.1.1

        --b--
        """).encode()


def mixed(*texts: str) -> bytes:
    """Several texts in one mail, with a picture between them, as some mail programs send them."""
    message = EmailMessage()
    message.set_content(texts[0])
    message.make_mixed()
    for text in texts[1:]:
        message.add_attachment(b"GIF89a", "image", "gif", disposition="inline")
        message.add_attachment(text, disposition="inline")
    return mail().partition(b"MIME-Version")[0] + message.as_bytes()


def both(text: str, html: str, *more: str) -> bytes:
    """The same mail as text, as HTML, and as more texts."""
    message = EmailMessage()
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    for each in more:
        message.add_alternative(each)
    return mail().partition(b"MIME-Version")[0] + message.as_bytes()


def nested(levels: int, kind: str = "mixed") -> bytes:
    """An approval inside so many parts inside each other."""
    parts = "".join(f'Content-Type: multipart/{kind}; boundary="b{n}x"\n\n--b{n}x\n' for n in range(levels))
    if kind == "rfc822":
        parts = "Content-Type: message/rfc822\n\n" * levels
    return (
        mail().partition(b"MIME-Version")[0]
        + f"MIME-Version: 1.0\n{parts}Content-Type: text/plain\n\napprove\n".encode()
    )


QUOTED = f"\nOn Mon, 1 Jan 2026 at 10:00, Agents <agents@hub.test> wrote:\n> {MARKER}\n> rm -rf build\n"
BOUNCE = TOKENS.token("bounce", REQUEST, ALICE)

REFUSED = {
    # Who sent it
    "a stranger": ("stranger", mail(From=MALLORY)),
    "a stranger with Alice's name": ("stranger", mail(From=f'"{ALICE}" <{MALLORY}>')),
    "an encoded name that looks like an address": (
        "stranger",
        mail(From=f"=?utf-8?q?alice=40example.com?= <{MALLORY}>"),
    ),
    "two senders in one header": ("no-sender", mail(From=f"{ALICE}, {MALLORY}")),
    "two From headers": ("no-sender", b"From: " + MALLORY.encode() + b"\n" + mail()),
    "no From": ("no-sender", mail(From="")),
    "an empty From": ("no-sender", mail(From="<>")),
    "a group as the sender": ("no-sender", mail(From=f"team: {ALICE};")),
    "an address before an address": ("no-sender", mail(From=f"{ALICE} <{MALLORY}> <{ALICE}>")),
    "a letter that looks like an a": ("no-sender", mail(From="\u0430lice@example.com")),
    "Alice at another domain": ("stranger", mail(From="alice@example.com.evil.test")),
    "Alice with a tag": ("stranger", mail(From="alice+x@example.com")),
    # Who says that it is from there
    "no verdict": ("unauthenticated", mail(results=None)),
    "a verdict of another server": (
        "unauthenticated",
        mail(results="mx.evil.test; dmarc=pass header.from=example.com"),
    ),
    "our verdict below another": (
        "unauthenticated",
        b"Authentication-Results: mx.evil.test; dmarc=pass header.from=example.com\n" + mail(),
    ),
    "a forged verdict below ours": (
        "unauthenticated",
        b"Authentication-Results: mx.hub.test; dmarc=fail header.from=example.com\n" + mail(),
    ),
    "a failed verdict": ("unauthenticated", mail(results="mx.hub.test; dmarc=fail header.from=example.com")),
    "no verdict at all": ("unauthenticated", mail(results="mx.hub.test; none")),
    "a pass for another domain": ("unauthenticated", mail(results="mx.hub.test; dmarc=pass header.from=evil.test")),
    "a domain that only ends so": (
        "unauthenticated",
        mail(results="mx.hub.test; dmarc=pass header.from=notexample.com"),
    ),
    "spf alone": ("unauthenticated", mail(results="mx.hub.test; spf=pass smtp.mailfrom=example.com")),
    "dkim of another domain": ("unauthenticated", mail(results="mx.hub.test; dkim=pass header.d=evil.test")),
    "a pass in a comment": (
        "unauthenticated",
        mail(results="mx.hub.test; dmarc=fail (x; dmarc=pass header.from=example.com) header.from=example.com"),
    ),
    "a pass in quotes": (
        "unauthenticated",
        mail(results='mx.hub.test; dmarc=fail reason="; dmarc=pass header.from=example.com" header.from=example.com'),
    ),
    "a property twice": (
        "unauthenticated",
        mail(results="mx.hub.test; dmarc=pass header.from=evil.test header.from=example.com"),
    ),
    "a server whose name begins like ours": (
        "unauthenticated",
        mail(results="mx.hub.test.evil; dmarc=pass header.from=example.com"),
    ),
    "passed, in a word": ("unauthenticated", mail(results="mx.hub.test; dmarc=passed header.from=example.com")),
    "a pass in an encoded word of the sender's own address": (
        "unauthenticated",
        mail(
            results="mx.hub.test; spf=pass smtp.mailfrom="
            "=?utf-8?q?x=3B=20dmarc=3Dpass=20header.from=3Dexample.com=3B?=@evil.test; dmarc=none header.from=example.com"
        ),
    ),
    "failed, and signed all the same": (
        "unauthenticated",
        mail(results="mx.hub.test; dkim=pass header.d=example.com; dmarc=fail header.from=example.com"),
    ),
    "passed and failed": (
        "unauthenticated",
        mail(results="mx.hub.test; dmarc=pass header.from=example.com; dmarc=fail header.from=example.com"),
    ),
    "an identity below another domain": (
        "unauthenticated",
        mail(results="mx.hub.test; dkim=pass header.i=@example.com header.d=evil.test"),
    ),
    "a quoted identity": ("unauthenticated", mail(results='mx.hub.test; dkim=pass header.i="@example.com"@evil.test')),
    "an empty value before a domain": (
        "unauthenticated",
        mail(results='mx.hub.test; dmarc=pass header.from="" example.com'),
    ),
    "a domain above": ("unauthenticated", mail(results="mx.hub.test; dkim=pass header.d=com")),
    "a domain below": ("unauthenticated", mail(results="mx.hub.test; dkim=pass header.d=mail.example.com")),
    "a server that writes no name": (
        "unauthenticated",
        mail(
            results="spf=pass smtp.mailfrom=example.com; dkim=pass header.d=example.com; dmarc=pass header.from=example.com"
        ),
    ),
    "a long word": ("unauthenticated", mail(results=f"mx.hub.test; dmarc=pass {'a' * 90_000}")),
    "a property inside a word": (
        "unauthenticated",
        mail(results="mx.hub.test; dmarc=pass smtp.mailfrom=x/header.from=example.com"),
    ),
    "a folded comment that never ends": (
        "unauthenticated",
        mail(results="mx.hub.test; dmarc=fail (x\n ; dmarc=pass header.from=example.com"),
    ),
    # What it answers
    "no token": ("no-token", mail(To="agents@hub.test")),
    "a token of another person": ("no-token", mail(To=to(TOKENS.token("reply", REQUEST, BOB)))),
    "a token for the page": ("no-token", mail(To=to(TOKENS.token("link", REQUEST, ALICE)))),
    "a token with another request": (
        "no-token",
        mail(To=to(TOKENS.token("reply", OTHER, ALICE)[:26] + REPLY_TO[33:54])),
    ),
    "a token of another key": ("no-token", mail(To=to(Tokens(b"x" * 32).token("reply", REQUEST, ALICE)))),
    "a token that was cut": ("no-token", mail(To=to(TOKENS.token("reply", REQUEST, ALICE)[:-1]))),
    "a token at another address": ("no-token", mail(To=REPLY_TO.replace("hub.test", "evil.test"))),
    "tokens of two requests": ("two-tokens", mail(To=f"{REPLY_TO}, {to(TOKENS.token('reply', OTHER, ALICE))}")),
    "a token at an address that ends like ours": ("no-token", mail(To=f"x.{REPLY_TO}")),
    "a token at an address that begins like ours": ("no-token", mail(To=f"{REPLY_TO}.evil.test")),
    "a token with a second plus sign": ("no-token", mail(To=REPLY_TO.replace("agents+", "agents+x+"))),
    "a token with other spare bits": ("no-token", mail(To=REPLY_TO.replace(REPLY_TO[32], "z", 1))),
    "a token in an encoded word": (
        "no-token",
        mail(To=f"=?utf-8?q?{REPLY_TO.replace('@', '=40')}?= <agents@hub.test>"),
    ),
    "a token in the subject only": ("no-token", mail(To="agents@hub.test", Subject=REPLY_TO)),
    # Programs
    "out of office": ("automatic", mail(Auto_Submitted="auto-replied")),
    "generated": ("automatic", mail(Auto_Submitted="auto-generated; owner=x")),
    "an empty return path": ("automatic", mail(Return_Path="<>")),
    "bulk": ("automatic", mail(Precedence="bulk")),
    "a mailing list": ("automatic", mail(List_Id="<x.example.com>")),
    "an autoresponder": ("automatic", mail(X_Autoreply="yes")),
    "a daemon": ("automatic", mail(From="MAILER-DAEMON@example.com")),
    "a read receipt": ("automatic", mail().replace(b"text/plain", b"multipart/report")),
    "a bounce": ("bounce", report("failed", BOUNCE)),
    "a delay": ("automatic", report("delayed", BOUNCE)),
    "a bounce to the address of replies": ("automatic", report("failed", TOKENS.token("reply", REQUEST, ALICE))),
    "a bounce with a forged token": ("automatic", report("failed", Tokens(b"x" * 32).token("bounce", REQUEST, ALICE))),
    # Size and form
    "too many headers": ("too-large", b"X: y\n" * 30_000 + mail()),
    "a sender of many words": ("no-sender", mail(From=f"{'a ' * 600} <{ALICE}>")),
    "a sender of many comments": ("unreadable", mail(From=f"{'(' * 900}<{ALICE}>")),
    "a NUL in the sender": ("no-sender", mail(From="alice\0@example.com")),
    "too large": ("too-large", mail("approve\n" + "x" * 1_000_001)),
    "nothing": ("no-sender", b""),
    "bytes": ("no-sender", bytes(range(256))),
}


@pytest.mark.parametrize(("code", "raw"), REFUSED.values(), ids=REFUSED)
def test_refused(code: str, raw: bytes) -> None:
    found = vet(raw, DESK)
    assert isinstance(found, Refusal)
    assert found.code == code
    assert code in REFUSALS
    assert (found.request_id == REQUEST) == (code in ("bounce", "unauthenticated") or raw == report("delayed", BOUNCE))


ANSWERED = {
    "approve": ("approve", "", mail()),
    "in capitals with a full stop": ("approve", "", mail("APPROVE.\n")),
    "above what was quoted": ("approve", "", mail("approve\n" + QUOTED)),
    "a sender in capitals": ("approve", "", mail(From="ALICE@EXAMPLE.COM")),
    "dkim of the domain": ("approve", "", mail(results="mx.hub.test; dkim=pass header.d=example.com")),
    "dkim by identity": ("approve", "", mail(results="mx.hub.test 1; dkim=pass header.i=@example.com")),
    "a forged verdict below a true one": ("approve", "", mail().replace(b"From: A", b"Authentication-Results: x; dmarc=fail\nFrom: A")),
    "a token whose case was folded": ("approve", "", mail(To=REPLY_TO.upper())),
    "the address only in Delivered-To": ("approve", "", mail(To=ALICE, Delivered_To=REPLY_TO)),
    "with a signature": ("approve", "", mail("approve\n\n-- \nAlice\nHead of Everything\n")),
    "sent from a telephone": ("approve", "", mail("approve\n\nSent from my telephone\n")),
    "rejected": ("reject", "", mail("reject\n")),
    "rejected with a reason": ("reject", "not today", mail("Reject: not today\n" + QUOTED)),
    "rejected with a long reason": ("reject", "first\nsecond", mail("reject first\nsecond\n" + QUOTED)),
    "in HTML": ("approve", "", mail(html="<div>approve</div><blockquote>rm -rf /</blockquote>")),
    "in HTML, quoted by a class": ("approve", "", mail(html='approve<div class="gmail_quote">On Monday:<p>x</p></div>')),
    "dmarc, folded, with comments": (
        "approve", "",
        mail(results="mx.hub.test (it; is)\n 1;\n\tdkim=pass header.i=@example.com header.s=x header.b=\"a;b\";\n"
             " dmarc = pass (p=NONE sp=NONE dis=NONE) header.from=Example.COM"),
    ),
    "two signatures, of which one is the domain's": (
        "approve", "",
        mail(results="mx.hub.test; dkim=fail header.d=example.com; dkim=pass header.d=list.test; dkim=pass header.d=example.com"),
    ),
    "a comment in the address": ("approve", "", mail(From=f"Alice (dmarc=fail) <{ALICE}>")),
    "a token in two headers": ("approve", "", mail(Cc=REPLY_TO, Delivered_To=REPLY_TO)),
    "the same as text and as HTML": ("approve", "", both("Approve.\n" + QUOTED, "<p>approve</p>")),
    "inside a few parts": ("approve", "", nested(4)),
    # Not clear enough
    "another answer in HTML": ("unclear", None, both("approve\n", "<p>reject</p>")),
    "an answer in HTML alone": ("unclear", None, both("no\n", "<p>approve</p>")),
    "a condition in HTML": ("unclear", None, both("approve\n", "<p>approve</p><p>but only on staging</p>")),
    "struck out in HTML": ("unclear", None, both("approve\n", "<p><s>approve</s></p>")),
    "HTML that nobody can read": ("unclear", None, both("approve\n", "<b>" * 1000 + "approve")),
    "a second text": ("unclear", None, both("approve\n", "<p>approve</p>", "no\n")),
    "many parts inside each other": ("unclear", None, nested(12)),
    "more parts than anybody makes": ("unclear", None, nested(400)),
    "more alternatives than anybody makes": ("unclear", None, nested(400, "alternative")),
    "more mails inside each other than anybody sends": ("unclear", None, nested(400, "rfc822")),
    "many parts beside each other": ("unclear", None, mixed("approve\n", *[""] * 60)),
    "a condition that looks like an attribution": ("unclear", None, mail("approve\nOn these conditions:\n- only staging\n")),
    "a condition that looks like a header": ("unclear", None, mail("approve\nfrom: tomorrow\nto: Friday\n")),
    "a condition below dashes": ("unclear", None, mail("approve\n-----\nbut only on staging\n")),
    "a condition below a rule": ("unclear", None, mail("approve\n______\nbut only on staging\n")),
    "a condition below a telephone": ("unclear", None, mail("approve\nSent from my telephone\nonly on staging\n")),
    "a condition behind a telephone": ("unclear", None, mail("approve\nSent from my telephone, so only on staging\n")),
    "a condition with a date": (
        "unclear", None, mail("approve\nOn 2026-11-30 at 10:00 only:\n> rm -rf build\n"),
    ),
    "a condition above an attribution": (
        "unclear", None, mail("approve\nbut 1 only\nOn 1 Jan 2026, Agent approvals <agents@hub.test> wrote:\n> x\n"),
    ),
    "a condition below a picture": ("unclear", None, mixed("approve\n", "but only on staging\n")),
    "another text before": ("unclear", None, mixed("no\n", "approve\n")),
    "a long text that nothing ends": ("unclear", None, mail("approve\n" + "\n" * 200_000 + "but only on staging\n")),
    "long HTML that nothing ends": ("unclear", None, mail(html="approve" + " " * 200_000 + "but only on staging")),
    "HTML of nothing but tags": ("unclear", None, mail(html="approve" + "<a " * 200_000)),
    "HTML so deep that nobody wrote it": ("unclear", None, mail(html="<b>" * 1000 + "approve")),
    "nothing": ("unclear", None, mail("\n")),
    "only what was quoted": ("unclear", None, mail(QUOTED)),
    "with a condition": ("unclear", None, mail("approve, if it is staging\n")),
    "with a condition on the next line": ("unclear", None, mail("approve\nbut only the first\n")),
    "yes": ("unclear", None, mail("yes\n")),
    "approved": ("unclear", None, mail("approved\n")),
    "a question": ("unclear", None, mail("approve what?\n")),
    "not": ("unclear", None, mail("do not\napprove\n")),
    "rejecting": ("unclear", None, mail("rejecting this would be wrong\n")),
    "below what was quoted": ("unclear", None, mail(QUOTED + "\napprove\n")),
    "below the marker": ("unclear", None, mail(f"{MARKER}\napprove\n")),
    "below a quoted line": ("unclear", None, mail("> x\napprove\n")),
    "below an attribution of two lines": ("unclear", None, mail("On Monday somebody <a@b>\nwrote:\napprove\n")),
    "letters that look like these": ("unclear", None, mail("\u0430pprove\n")),
    "wide letters": ("unclear", None, mail("\uff41pprove\n")),
    "an invisible letter": ("unclear", None, mail("app\u200brove\n")),
    "in a hidden element": ("unclear", None, mail(html='<p style="display: none">approve</p>')),
    "in a quotation that is never closed": ("unclear", None, mail(html="<blockquote>approve")),
    "after a quotation": ("unclear", None, mail(html="<blockquote>x</blockquote>approve")),
    "out of a quotation by a wrong end": ("unclear", None, mail(html="<div><blockquote>x</div>approve")),
    "in a script": ("unclear", None, mail(html="<script>approve</script>")),
    "in an attachment": (
        "unclear",
        None,
        mail().replace(b"MIME-Version: 1.0", b"MIME-Version: 1.0\nContent-Disposition: attachment"),
    ),
    "in a charset that nobody knows": ("unclear", None, mail().replace(b'"utf-8"', b'"x-none"')),
}  # fmt: skip


@pytest.mark.sample(35)
@pytest.mark.parametrize(("kind", "words", "raw"), ANSWERED.values(), ids=ANSWERED)
def test_answered(kind: str, words: str | None, raw: bytes) -> None:
    found = vet(raw, DESK)
    assert isinstance(found, Reply), found
    assert (found.request_id, found.sender, found.said.kind) == (REQUEST, ALICE, kind)
    assert words is None or found.said.words == words
    assert kind != "unclear" or found.said.words


def test_there_are_forty_of_them() -> None:
    assert len(REFUSED) + len(ANSWERED) >= 40


# ---- what mail programs make of our own message ---------------------------------------------------------

words = st.sampled_from(
    ["approve", "approve.", "reject", "\n", "\n\n", " ", ">", "-- ", "##-", "x" * 70, "echo", "On a:", "\t"]
)
commands = st.lists(words | st.text(max_size=5), max_size=40).map("".join)


def ours(command: str) -> str:
    return f"{MARKER}\n\nAn agent asks to run this command:\n\n" + "\n".join(
        f"    {line}" for line in command.split("\n")
    )


def marked(text: str, width: int) -> str:
    return "\n".join(f"> {line}"[:width] for line in text.split("\n"))


def wrapped(text: str, width: int) -> str:
    """Quote marks, and then lines wrapped anew without caring about them."""
    return "\n".join(textwrap.fill(f"> {line}", width, break_on_hyphens=False) for line in text.split("\n"))


def unmarked(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width) or [""])


def attributed(text: str, width: int) -> str:
    return "On Mon, 1 Jan 2026, Agents <agents@hub.test> wrote:\n" + wrapped(text, width)


def below_rule(text: str, width: int) -> str:
    return f"________________\nFrom: Agents\nSent: Monday\n\n{text}"


@pytest.mark.sample(3)
@pytest.mark.parametrize("quote", [marked, wrapped, unmarked, attributed, below_rule])
@settings(max_examples=extent.examples(150))
@given(command=commands, width=st.integers(4, 90))
def test_no_command_approves_itself(quote: Callable[[str, int], str], command: str, width: int) -> None:
    """Whatever is quoted however, and nothing written above it: that is no approval, and no rejection either."""
    body = quote(ours(command), width)
    assert decided_in(f"\n\n{body}") == "unclear"
    assert decided_in(body) == "unclear"
    # What the person wrote above it counts, or is unclear; it never turns into its opposite.
    assert decided_in(f"approve\n\n{body}") in ("approve", "unclear")
    assert decided_in(f"no, never\n\n{body}") == "unclear"


def decided_in(body: str) -> str:
    message = EmailMessage()
    message.set_content(body.encode("utf-8", "replace").decode(), cte="base64")
    return said(message).kind


@settings(max_examples=extent.examples(200))
@given(st.text(max_size=300))
def test_words_are_never_more_than_was_written(text: str) -> None:
    assert decided(text).kind != "approve" or re.fullmatch(r"\s*approve[.!]?\s*", text, re.IGNORECASE)


@settings(max_examples=extent.examples(200))
@given(st.binary(max_size=400), st.sampled_from([b"", b"From: alice@example.com\n", mail()]))
def test_any_bytes_are_judged(junk: bytes, before: bytes) -> None:
    found = vet(before + junk, DESK)
    assert isinstance(found, Refusal | Reply)
    assert isinstance(vet(junk, DESK), Refusal)


def test_html_is_read_as_people_see_it() -> None:
    message = email.message_from_bytes(
        mail(html="<p>reject</p>&nbsp;<p>too <b>wide</b></p>"), policy=email.policy.default
    )
    assert isinstance(message, EmailMessage)
    assert own_words(message).split() == ["reject", "too", "wide"]
