"""The messages that are sent: one for each approver and request, in text and HTML, one thread a run.

Nothing of a command stands in a header: headers are shown where nobody expects an agent's words, are folded and logged
by every server on the way, and a line feed in one begins another.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from functools import cache
from typing import TYPE_CHECKING, Any

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.mail.reply_text import MARKER, SENDER, SUBJECT
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import Fragment, Line, Presentation, Style
from humanlayer_agent.safe_text import visible

if TYPE_CHECKING:
    from jinja2 import Environment

SHOWN = 20_000
"""Characters of a command that a mail shows whole; of a longer one it shows the beginning and the end."""

_HEAD, _TAIL = 15_000, 2_000
_WIDTH = 78


@dataclass(frozen=True, slots=True)
class Letterhead:
    """The common part of all messages of a channel.

    Args:
        sender: the address they come from: `agents@example.com`.
        reply_to: the address that replies go to; None where replies are not read.
        public_url: where the web inbox is reached; None where there is none.
        tokens: makes the tokens that the messages carry.
    """

    sender: str
    reply_to: str | None
    public_url: str | None
    tokens: Tokens


def request_message(
    request: ApprovalRequest, view: Presentation, recipient: str, letterhead: Letterhead, *, missing: int = 1
) -> tuple[EmailMessage, bool]:
    """The message that asks `recipient`, and whether all of the command can be read in it.

    Args:
        view: the request, made safe to show (`presentation.present`).
        missing: how many people must still approve it.
    """
    length = sum(len(_text(line)) + 1 for line in (*view.command, *view.stdin))
    cut = length > SHOWN
    if cut:
        view = replace(view, command=_shortened(view.command), stdin=_shortened(view.stdin))
    tokens = letterhead.tokens
    high = request.decision.severity not in ("low", "medium")
    link = (
        f"{letterhead.public_url.rstrip('/')}/d/{tokens.token('link', request.id, recipient)}"
        if letterhead.public_url
        else ""
    )
    values = {
        "view": view,
        "shown": as_text(replace(view, held=view.held and view.held.short), _WIDTH),
        "command": "\n".join(_text(line) for line in (*view.command, *view.stdin)),
        "marker": MARKER,
        "replies": letterhead.reply_to is not None,
        "by_reply": not cut
        and not high
        and "approve" in request.answers
        and (request.rule is None or request.rule.takes("mail-reply")),
        "cut": cut,
        "length": length,
        "link": link,
        "code": tokens.code(request.id, recipient) if high and link else "",
        "until": utc(request.expires),
        "missing": missing,
        "id": request.id,
    }
    message = _addressed(request, recipient, letterhead, f"{SUBJECT} [{request.id[:8]}]")
    message["Message-ID"] = message_id(request, recipient, letterhead)
    message.set_content(_rendered("request.txt", values), cte="quoted-printable")
    message.add_alternative(_rendered("request.html", values), subtype="html", cte="quoted-printable")
    return message, not cut


def notice_message(
    request: ApprovalRequest, recipient: str, letterhead: Letterhead, words: str, *, settled: bool, comment: str = ""
) -> EmailMessage:
    """A short message in the same thread: what became of the request (`settled`), or that it still waits.

    Args:
        words: what happened, in one line.
        comment: what an approver wrote about it.
    """
    message = _addressed(request, recipient, letterhead, f"Re: {SUBJECT} [{request.id[:8]}]")
    ours = message_id(request, recipient, letterhead)
    message["In-Reply-To"] = ours
    message.replace_header("References", f"{message['References']} {ours}")
    values = {"words": visible(words), "comment": visible(comment), "id": request.id}
    message.set_content(_rendered("settled.txt" if settled else "notice.txt", values), cte="quoted-printable")
    return message


def head_message(head: str, recipient: str, letterhead: Letterhead, *, period: int) -> EmailMessage:
    """A message with a signed head of the audit log, for somebody who keeps it.

    Args:
        period: the number of the time that it stands for; one more in the same time counts as the same message.
    """
    message = _plain(recipient, letterhead, "Head of the audit log")
    message["References"] = f"<heads@{_domain(letterhead.sender)}>"
    whose = hashlib.sha256(f"{recipient} {head.partition(' seq=')[0]}".encode()).hexdigest()[:16]  # and of which log
    message["Message-ID"] = f"<head.{period}.{whose}@{_domain(letterhead.sender)}>"
    # A field a line, and not encoded: so it is found again in the mail as it was saved.
    message.set_content(_rendered("head.txt", {"head": "\n".join(head.split())}), cte="7bit")
    return message


def warning_message(text: str, recipient: str, letterhead: Letterhead) -> EmailMessage:
    """A message with a warning, for somebody who may decide. Nothing in it can be answered."""
    message = _plain(recipient, letterhead, "Break-glass: somebody acted outside of a route")
    whose = hashlib.sha256(f"{recipient} {text}".encode()).hexdigest()[:32]
    message["Message-ID"] = f"<warning.{whose}@{_domain(letterhead.sender)}>"
    message.set_content(text + "\n")
    return message


def bounce_address(request: ApprovalRequest, recipient: str, letterhead: Letterhead) -> str:
    """The envelope's sender: what comes back to it says that this message did not arrive."""
    return _tagged(letterhead.reply_to or letterhead.sender, letterhead.tokens.token("bounce", request.id, recipient))


def message_id(request: ApprovalRequest, recipient: str, letterhead: Letterhead) -> str:
    """The same for the same request and recipient, however often it is sent: mail programs then show it once."""
    return f"<{letterhead.tokens.token('message', request.id, recipient)}@{_domain(letterhead.sender)}>"


def utc(milliseconds: int) -> str:
    """A time as people read it in a mail: `2026-01-31 17:05`."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(milliseconds / 1000))


def _addressed(request: ApprovalRequest, recipient: str, letterhead: Letterhead, subject: str) -> EmailMessage:
    thread = hashlib.sha256(request.action.run_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    message = _plain(recipient, letterhead, subject)
    if letterhead.reply_to:
        message["Reply-To"] = _tagged(letterhead.reply_to, letterhead.tokens.token("reply", request.id, recipient))
    message["References"] = f"<run.{thread}@{_domain(letterhead.sender)}>"
    return message


def _plain(recipient: str, letterhead: Letterhead, subject: str) -> EmailMessage:
    """A message that no program answers, without a body."""
    message = EmailMessage(policy=SMTP)
    message["From"] = f"{SENDER} <{letterhead.sender}>"
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = formatdate(usegmt=True)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    return message


def _tagged(address: str, token: str) -> str:
    local, _, domain = address.rpartition("@")
    return f"{local}+{token}@{domain}"


def _domain(address: str) -> str:
    return address.rpartition("@")[2]


def _text(line: Line) -> str:
    return "".join(fragment.text for fragment in line)


def _shortened(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The beginning and the end of a long text, and between them how much is left out."""
    text = "\n".join(_text(line) for line in lines)
    if len(text) <= _HEAD + _TAIL:
        return lines
    gap = f"... {len(text) - _HEAD - _TAIL:,} characters are left out here ..."
    plain = [*text[:_HEAD].split("\n"), gap, *text[-_TAIL:].split("\n")]
    return tuple((Fragment(Style.COMMAND, line),) for line in plain)


def _rendered(template: str, values: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(values).strip() + "\n"


@cache
def _environment() -> "Environment":
    """The templates in `channels/mail`; HTML is escaped by the file's ending."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    from humanlayer_agent.locations import data_file

    return Environment(
        loader=FileSystemLoader(data_file("channels/mail", "request.txt").parent),
        autoescape=lambda name: bool(name and name.endswith(".html")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
